//! Which provider speaks for a Service. What is written down decides, then the class; nobody is an answer. Never
//! changes an owner: a recorded one stays, also when classes and defaults change.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use thiserror::Error;

use super::stored_state::{annotations, class, has_finalizer, recorded_owner};

/// What one provider takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The provider's name.
    pub name: String,
    /// `spec.loadBalancerClass` values that it serves.
    pub classes: BTreeSet<String>,
    /// Whether it serves Services without a class.
    pub is_default: bool,
    /// What the keys of its annotations begin with.
    pub prefixes: Vec<String>,
}

/// What all providers take: each Service at most one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims(Vec<Claim>);

/// Why claims cannot stand beside each other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClaimsError {
    /// Services without a class would have two providers.
    #[error("the providers {0:?} and {1:?} both serve Services without a class")]
    TwoDefaults(String, String),
    /// Services of this class would have two providers.
    #[error("the providers {0:?} and {1:?} both serve the class {2:?}")]
    TwoOfAClass(String, String, String),
    /// What is written down would not say which.
    #[error("two providers have the name {0:?}")]
    TwoOfAName(String),
}

/// Who speaks for a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The one that is written down.
    Recorded(&'a Claim),
    /// The one that serves its class, or the default one of a Service without a class; not written down yet. So are
    /// the Services of another cloud-controller-manager.
    Implied(&'a Claim),
    /// One that is written down, and is not here.
    Absent(&'a str),
    /// Nobody here: the class is somebody else's, or there is no default provider.
    Nobody,
}

impl Claims {
    /// These, if they can stand beside each other.
    ///
    /// # Errors
    /// The first two that cannot.
    pub fn new(claims: Vec<Claim>) -> Result<Claims, ClaimsError> {
        for (index, one) in claims.iter().enumerate() {
            for other in claims.iter().skip(index + 1) {
                let names = || (one.name.clone(), other.name.clone());
                if one.name == other.name {
                    return Err(ClaimsError::TwoOfAName(one.name.clone()));
                }
                if one.is_default && other.is_default {
                    let (one, other) = names();
                    return Err(ClaimsError::TwoDefaults(one, other));
                }
                if let Some(class) = one.classes.intersection(&other.classes).next() {
                    let (one, other) = names();
                    return Err(ClaimsError::TwoOfAClass(one, other, class.clone()));
                }
            }
        }
        Ok(Claims(claims))
    }

    /// Only this one, which nothing can be against.
    pub fn of(claim: Claim) -> Claims {
        Claims(vec![claim])
    }

    /// One of them, and always the same one.
    pub fn first(&self) -> Option<&str> {
        self.0.iter().map(|claim| claim.name.as_str()).min()
    }

    /// Who speaks for `service`.
    pub fn owner<'a>(&'a self, service: &'a Service) -> Owner<'a> {
        let implied = self.implied(service);
        if let Some(recorded) = recorded_owner(service) {
            let claim = self.0.iter().find(|claim| claim.name == recorded);
            let Some(claim) = claim else {
                return Owner::Absent(recorded);
            };
            // The finalizer is written together with it. Without that it is a tenant's word, who may not choose a provider
            // that neither the class nor the default gives him.
            if has_finalizer(service) || implied == Some(claim) {
                return Owner::Recorded(claim);
            }
        }
        implied.map_or(Owner::Nobody, Owner::Implied)
    }

    /// Who would, if nothing was written down.
    pub fn implied(&self, service: &Service) -> Option<&Claim> {
        self.0.iter().find(|claim| match class(service) {
            Some(class) => claim.classes.contains(class),
            None => claim.is_default,
        })
    }

    /// Whether whoever wrote `service`, which nobody here speaks for, evidently thought of one of these: by its class
    /// or by an annotation.
    pub fn are_expected(&self, service: &Service) -> bool {
        let begins = |text: &str| {
            let prefixes = self.0.iter().flat_map(|claim| &claim.prefixes);
            prefixes.into_iter().any(|prefix| text.starts_with(prefix))
        };
        let is_named = |class: &str| {
            self.0.iter().any(|claim| {
                let rest = class.strip_prefix(claim.name.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.', '-']))
            })
        };
        class(service).is_some_and(|class| is_named(class) || begins(class))
            || annotations(service).keys().any(|key| begins(key))
    }
}
