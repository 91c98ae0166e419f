//! Which provider owns a Service: the recorded owner, else the one that serves its class, else none. Never changes an
//! owner: a recorded one stays, also when classes and defaults change.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use thiserror::Error;

use super::stored_state::{annotations, class, has_finalizer, recorded_owner};

/// Services that one provider serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The provider's name, which the owner annotation records.
    pub name: String,
    /// `spec.loadBalancerClass` values that it serves.
    pub classes: BTreeSet<String>,
    /// Whether it serves Services without a class.
    pub is_default: bool,
    /// Prefixes of its annotation keys.
    pub prefixes: Vec<String>,
}

/// Claims of all providers, without overlap: each Service has at most one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims(Vec<Claim>);

/// Conflict between two claims.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClaimsError {
    /// Services without a class would have two providers.
    #[error("the providers {0:?} and {1:?} both serve Services without a class")]
    TwoDefaults(String, String),
    /// Services of this class would have two providers.
    #[error("the providers {0:?} and {1:?} both serve the class {2:?}")]
    TwoOfAClass(String, String, String),
    /// A recorded owner would be ambiguous.
    #[error("two providers are named {0:?}")]
    TwoOfAName(String),
}

/// Owner of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The recorded owner, which serves here.
    Recorded(&'a Claim),
    /// The provider that serves its class, or the default one for a Service without a class; not recorded yet. Services
    /// of another cloud-controller-manager look the same.
    Implied(&'a Claim),
    /// The recorded owner does not serve here: it is not configured, no version of it serves, or it contradicts another provider.
    Absent(&'a str),
    /// No provider here: the class is served elsewhere, or there is no default provider.
    Unserved,
}

impl Claims {
    /// Combines the claims.
    ///
    /// # Errors
    /// The first two that conflict.
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

    /// A single claim, which cannot conflict.
    pub fn of(claim: Claim) -> Claims {
        Claims(vec![claim])
    }

    /// The first provider by name; a deterministic choice.
    pub fn first(&self) -> Option<&str> {
        self.0.iter().map(|claim| claim.name.as_str()).min()
    }

    /// Whether a provider of this name has a claim.
    pub fn contain(&self, name: &str) -> bool {
        self.0.iter().any(|claim| claim.name == name)
    }

    /// The owner of `service`.
    pub fn owner<'a>(&'a self, service: &'a Service) -> Owner<'a> {
        let implied = self.implied(service);
        if let Some(recorded) = recorded_owner(service) {
            let claim = self.0.iter().find(|claim| claim.name == recorded);
            let Some(claim) = claim else {
                return Owner::Absent(recorded);
            };
            // The finalizer is written together with the owner. Without it a user wrote the annotation, which then has
            // no effect if it names another provider than the implied one. A user can write both: only an admission policy
            // can tell them from this manager.
            if has_finalizer(service) || implied == Some(claim) {
                return Owner::Recorded(claim);
            }
        }
        implied.map_or(Owner::Unserved, Owner::Implied)
    }

    /// The owner by class or default, ignoring a recorded one.
    pub fn implied(&self, service: &Service) -> Option<&Claim> {
        self.0.iter().find(|claim| match class(service) {
            Some(class) => claim.classes.contains(class),
            None => claim.is_default,
        })
    }

    /// Whether `service`, which no provider here owns, was evidently meant for one of them, by its class or an
    /// annotation.
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
