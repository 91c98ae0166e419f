//! The marks of a Service: the finalizer, and the annotation that records the provider as its owner. One patch adds both
//! before a load balancer is made, and one removes both when nothing is left of it. Does not decide when.

use k8s_openapi::api::core::v1::Service;

use super::stored_state::{annotations, finalizers, has_finalizer, recorded_owner, uid};
use super::{Role, World};
use crate::reconciliation::patch::{FinalizerChange, ServicePatch};
use crate::well_known::{LOAD_BALANCER_FINALIZER, SERVICE_OWNER};

/// Whether the Service has both marks.
pub(super) fn is_marked(service: &Service, world: &World) -> bool {
    has_finalizer(service) && recorded_owner(service) == Some(&world.ownership.claim.name)
}

/// Patch with the missing marks.
pub(super) fn mark(service: &Service, world: &World) -> ServicePatch {
    let mut patch = ServicePatch::new(uid(service));
    if !has_finalizer(service) {
        patch.finalizer = Some(FinalizerChange::Add(finalizers(service).to_vec()));
    }
    let name = &world.ownership.claim.name;
    if recorded_owner(service) != Some(name) {
        let annotations = &mut patch.annotations;
        annotations.insert(SERVICE_OWNER.to_owned(), Some(name.clone()));
    }
    patch
}

/// Patch without the marks. In the role Former the class's present implementation keeps the finalizer, whose name is
/// shared.
pub(super) fn release(service: &Service, role: Role) -> ServicePatch {
    let mut patch = ServicePatch::new(uid(service));
    if role == Role::Owner && has_finalizer(service) {
        let others = finalizers(service).iter();
        let others = others.filter(|one| *one != LOAD_BALANCER_FINALIZER);
        patch.finalizer = Some(FinalizerChange::Remove(others.cloned().collect()));
    }
    // Without a mark to remove, the write still has to say that the Service is released.
    if annotations(service).contains_key(SERVICE_OWNER) || patch.finalizer.is_none() {
        patch.annotations.insert(SERVICE_OWNER.to_owned(), None);
    }
    patch
}

/// Whether a patch adds the marks.
pub fn is_mark(patch: &ServicePatch) -> bool {
    matches!(patch.finalizer, Some(FinalizerChange::Add(_)))
        || matches!(patch.annotations.get(SERVICE_OWNER), Some(Some(_)))
}

/// Whether a patch removes the marks.
pub fn is_release(patch: &ServicePatch) -> bool {
    matches!(patch.finalizer, Some(FinalizerChange::Remove(_)))
        || matches!(patch.annotations.get(SERVICE_OWNER), Some(None))
}
