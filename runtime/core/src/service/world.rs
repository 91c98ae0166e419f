//! What all reconciliations about Services share. Decides nothing but whose a Service is.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::ownership::{Claim, Claims, Owner};
use crate::ownership::OwnershipContext;
use crate::permit::Mode;
use crate::settings::ServiceRules;

/// What all reconciliations of one controller share.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// The provider that acts.
    pub ownership: Arc<OwnershipContext>,
    /// The prefixes of the annotations that it may set.
    pub prefixes: Arc<[String]>,
    /// What decisions are held against.
    pub rules: Arc<ServiceRules>,
    /// Whether changes are made.
    pub mode: Mode,
    /// Which Services are whose.
    pub claims: Arc<Claims>,
    /// Whether it is this provider that says what concerns all of them equally: what nobody here serves.
    pub is_speaker: bool,
}

impl World {
    /// A world with one provider.
    pub fn new(
        ownership: Arc<OwnershipContext>,
        prefixes: Arc<[String]>,
        rules: Arc<ServiceRules>,
        mode: Mode,
    ) -> World {
        let claims = Claims::of(Claim {
            name: ownership.name.clone(),
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
            is_speaker: true,
        }
    }

    /// The same, where there are other providers, too.
    pub fn among(self, claims: Arc<Claims>) -> World {
        World {
            is_speaker: claims.first() == Some(self.ownership.name.as_str()),
            claims,
            ..self
        }
    }

    /// Whether the provider speaks for `service`.
    pub fn owns(&self, service: &Service) -> bool {
        match self.claims.owner(service) {
            Owner::Recorded(claim) | Owner::Implied(claim) => claim.name == self.ownership.name,
            Owner::Absent(_) | Owner::Nobody => false,
        }
    }
}
