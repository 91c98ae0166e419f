//! Managers with a defect. Only the tests of the law use them, to show that the comparison with the cloud can fail.

use std::sync::Arc;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::{Adoptable, CloudService, EnsureReply, EnsureRequest};
use ccm_sim::hetzner::{Fault, Trouble};
use http::Method;
use serde_json::Value;

use crate::load_balancers::world::World;

/// A defect of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Each manager labels and finds load balancers by a UID of its own.
    OtherLabel,
    /// Every third look-up finds nothing.
    Blind,
    /// Services are deleted before their load balancers.
    LosesFinalizers,
    /// Services are never released for deletion.
    KeepsFinalizers,
    /// Deletions are reported as done and not made.
    DeletesNothing,
    /// Load balancers of other owners are adopted.
    TakesOver,
    /// One node is missing from the targets.
    ForgetsATarget,
    /// Only the first port is served.
    OnePort,
    /// The addresses are not written to the status.
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

    /// Injects the fault at the cloud that imitates the defect.
    pub(crate) fn spoil(self, world: &World) {
        if self == Mutant::Blind {
            let look = Fault::new(Trouble::EmptyList)
                .method(Method::GET)
                .path("/load_balancers?label");
            world.cloud.inject(look.every(3));
        }
    }

    /// Applies the defect to the Service in a call by the manager with this number.
    pub(crate) fn service(self, service: &mut Arc<CloudService>, manager: u64) {
        let service = Arc::make_mut(service);
        match self {
            Mutant::OtherLabel => service.uid = format!("{}-{manager}", service.uid),
            Mutant::OnePort => service.ports.truncate(1),
            _ => {}
        }
    }

    /// Applies the defect to an `ensure` request.
    pub(crate) fn request(self, request: &mut EnsureRequest, manager: u64) {
        self.service(&mut request.service, manager);
        if self == Mutant::ForgetsATarget {
            let nodes = request.targets.iter().skip(1);
            request.targets = nodes.cloned().collect();
        }
    }

    /// The request that the defect makes after this answer, if any.
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

    /// Applies the defect to a patch of a Service.
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
