//! Which changes of a Service trigger a reconciliation: those of the fields that upstream's `needsUpdate` compares
//! (SVC-012), and edits that upstream leaves unrepaired: of the status, the finalizer or the owner (SVC-013, EDGE-065).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

use super::stored_state::{
    annotations, class, has_finalizer, is_deleting, is_load_balancer, load_balancer_status,
    needs_cleanup, recorded_owner, spec, uid,
};

/// Whether the change from `old` to `new` needs a reconciliation, because something else is wanted now. The annotations
/// `written` are the provider's.
pub(super) fn is_relevant_change(old: &Service, new: &Service, written: &BTreeSet<String>) -> bool {
    needs_update(old, new, written)
        || uid(old) != uid(new)
        || needs_cleanup(old) != needs_cleanup(new)
        || is_deleting(old) != is_deleting(new)
        || class(old) != class(new)
        || is_load_balancer(old) != is_load_balancer(new)
}

/// Whether the change from `old` to `new` needs a reconciliation, because another client wrote what only the controller
/// writes, also for the provider.
pub(super) fn is_edit(old: &Service, new: &Service, written: &BTreeSet<String>) -> bool {
    let differs = |key: &String| annotations(old).get(key) != annotations(new).get(key);
    has_lost_finalizer(old, new)
        || is_load_balancer(new) && written.iter().any(differs)
        || recorded_owner(old).is_some() && recorded_owner(old) != recorded_owner(new)
        || is_load_balancer(new) && load_balancer_status(old) != load_balancer_status(new)
}

fn has_lost_finalizer(old: &Service, new: &Service) -> bool {
    has_finalizer(old) && !has_finalizer(new) && !is_deleting(new)
}

/// Upstream's table. Differences: a Service with a class counts, since a provider here may serve it; and a change of
/// `ipFamilyPolicy` counts, since providers see it.
pub(super) fn needs_update(old: &Service, new: &Service, written: &BTreeSet<String>) -> bool {
    match (is_load_balancer(old), is_load_balancer(new)) {
        (false, false) => false,
        (true, true) => {
            seen_annotations(old, written) != seen_annotations(new, written)
                || uid(old) != uid(new)
                || differ(spec(old), spec(new))
        }
        _ => true,
    }
}

/// All annotations but our own, which providers do not see, and those `written` for the provider.
fn seen_annotations<'a>(
    service: &'a Service,
    written: &BTreeSet<String>,
) -> Vec<(&'a String, &'a String)> {
    let all = annotations(service).iter();
    all.filter(|(key, _)| super::provider_view::is_shown(key) && !written.contains(*key))
        .collect()
}

fn differ(old: Option<&ServiceSpec>, new: Option<&ServiceSpec>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return old.is_some() != new.is_some();
    };
    let families = |spec: &ServiceSpec| spec.ip_families.clone().unwrap_or_default();
    old.load_balancer_source_ranges != new.load_balancer_source_ranges
        || differ_in_ports(old, new)
        || old.session_affinity != new.session_affinity
        || old.session_affinity_config != new.session_affinity_config
        || old.load_balancer_ip != new.load_balancer_ip
        || old.external_ips.as_deref().unwrap_or_default()
            != new.external_ips.as_deref().unwrap_or_default()
        || old.external_traffic_policy != new.external_traffic_policy
        || old.health_check_node_port != new.health_check_node_port
        || families(old).len() != families(new).len()
        || old.ip_family_policy != new.ip_family_policy
}

fn differ_in_ports(old: &ServiceSpec, new: &ServiceSpec) -> bool {
    let ports = |spec: &'_ ServiceSpec| spec.ports.clone().unwrap_or_default();
    let (old, new) = (ports(old), ports(new));
    let is_same = |(old, new): (&ServicePort, &ServicePort)| {
        old.name == new.name
            && old.protocol == new.protocol
            && old.port == new.port
            && old.node_port == new.node_port
            && old.target_port == new.target_port
            && old.app_protocol == new.app_protocol
    };
    old.len() != new.len() || !old.iter().zip(&new).all(is_same)
}
