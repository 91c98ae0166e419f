//! Managers with a defect. Nothing plays with them but the tests of the tests, which show that what is held against the
//! cloud can fail.

use std::sync::Arc;

use ccm_core::cloud::ProviderError;
use ccm_core::load_balancer::{Adoptable, CloudService, EnsureReply, EnsureRequest};
use ccm_sim::hetzner::{Fault, Trouble};
use http::Method;
use serde_json::Value;

use crate::load_balancers::world::World;

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Every manager looks for load balancers by a label of its own.
    OtherLabel,
    /// What is there is not seen at every third look.
    Blind,
    /// Services go before their load balancers.
    LosesFinalizers,
    /// Services stay for ever.
    KeepsFinalizers,
    /// Says that load balancers are deleted.
    DeletesNothing,
    /// Takes what belongs to others.
    TakesOver,
    /// One node is left out.
    ForgetsATarget,
    /// Only the first port is served.
    OnePort,
    /// The addresses are not written down.
    ForgetsStatus,
}

impl Mutant {
    pub(crate) const ALL: [Mutant; 9] = [
        Mutant::OtherLabel,
        Mutant::Blind,
        Mutant::LosesFinalizers,
        Mutant::KeepsFinalizers,
        Mutant::DeletesNothing,
        Mutant::TakesOver,
        Mutant::ForgetsATarget,
        Mutant::OnePort,
        Mutant::ForgetsStatus,
    ];

    /// What is wrong between the manager and the cloud.
    pub(crate) fn spoil(self, world: &World) {
        if self == Mutant::Blind {
            let look = Fault::new(Trouble::EmptyList)
                .method(Method::GET)
                .path("/load_balancers?label");
            world.cloud.inject(look.every(3));
        }
    }

    /// The Service as the provider is told of it, by the so many-th manager.
    pub(crate) fn service(self, service: &mut Arc<CloudService>, manager: u64) {
        let service = Arc::make_mut(service);
        match self {
            Mutant::OtherLabel => service.uid = format!("{}-{manager}", service.uid),
            Mutant::OnePort => service.ports.truncate(1),
            _ => {}
        }
    }

    /// What the provider is asked for.
    pub(crate) fn request(self, request: &mut EnsureRequest, manager: u64) {
        self.service(&mut request.service, manager);
        if self == Mutant::ForgetsATarget {
            let nodes = request.targets.iter().skip(1);
            request.targets = nodes.cloned().collect();
        }
    }

    /// What is asked after this answer, if anything.
    pub(crate) fn again(
        self,
        request: &EnsureRequest,
        answer: &Result<EnsureReply, ProviderError>,
    ) -> Option<EnsureRequest> {
        let Err(ProviderError::Conflict { owner, .. }) = answer else {
            return None;
        };
        let adopt = Some(Adoptable::from(owner.clone()));
        (self == Mutant::TakesOver).then(|| EnsureRequest {
            adopt,
            ..request.clone()
        })
    }

    /// What is written to a Service.
    pub(crate) fn patch(self, patch: &mut Value) {
        let Some(metadata) = patch["metadata"].as_object_mut() else {
            return;
        };
        match self {
            Mutant::LosesFinalizers => {
                metadata.remove("$setElementOrder/finalizers");
                metadata.remove("finalizers");
            }
            Mutant::KeepsFinalizers => {
                metadata.remove("$setElementOrder/finalizers");
                metadata.remove("$deleteFromPrimitiveList/finalizers");
            }
            Mutant::ForgetsStatus => {
                if let Some(patch) = patch.as_object_mut() {
                    patch.remove("status");
                }
            }
            _ => {}
        }
    }
}
