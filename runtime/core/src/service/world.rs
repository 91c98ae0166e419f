//! Context shared by all reconciliations of Services. Decides nothing but ownership.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::owning_provider::{Claim, Claims, Owner};
use crate::node::ownership::OwnershipContext;
use crate::safety::permit::Mode;
use crate::settings::ServiceRules;

/// Context shared by all reconciliations of one controller.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// The ownership context of the acting provider.
    pub ownership: Arc<OwnershipContext>,
    /// Annotation prefixes that it may set.
    pub prefixes: Arc<[String]>,
    /// Limits and options for decisions.
    pub rules: Arc<ServiceRules>,
    /// Whether changes are made.
    pub mode: Mode,
    /// Which provider owns which Services.
    pub claims: Arc<Claims>,
    /// Whether this provider reports Services that no provider here serves; exactly one does.
    pub reports_unserved: bool,
}

impl World {
    /// A context with a single provider.
    pub fn new(
        ownership: Arc<OwnershipContext>,
        prefixes: Arc<[String]>,
        rules: Arc<ServiceRules>,
        mode: Mode,
    ) -> World {
        let claims = Claims::of(Claim {
            name: ownership.claim.name.clone(),
            classes: rules.classes.clone(),
            is_default: rules.is_default,
            prefixes: prefixes.to_vec(),
        });
        World {
            ownership,
            prefixes,
            rules,
            mode,
            claims: Arc::new(claims),
            reports_unserved: true,
        }
    }

    /// The same context, with the claims of all providers.
    pub fn among(self, claims: Arc<Claims>) -> World {
        World {
            reports_unserved: claims.first() == Some(self.ownership.claim.name.as_str()),
            claims,
            ..self
        }
    }

    /// Whether another provider that serves here owns `service`.
    pub fn is_anothers(&self, service: &Service) -> bool {
        match self.claims.owner(service) {
            Owner::Recorded(claim) | Owner::Implied(claim) => {
                claim.name != self.ownership.claim.name
            }
            Owner::Absent(_) | Owner::Unserved => false,
        }
    }

    /// Whether this provider owns `service`.
    pub fn owns(&self, service: &Service) -> bool {
        match self.claims.owner(service) {
            Owner::Recorded(claim) | Owner::Implied(claim) => {
                claim.name == self.ownership.claim.name
            }
            Owner::Absent(_) | Owner::Unserved => false,
        }
    }
}
