//! The node condition NetworkUnavailable. It is written where it is absent or ours; a condition that a network plugin
//! has set for its own network is never overwritten (EDGE-081).

use k8s_openapi::jiff::Timestamp;

use crate::moment::rfc3339;
use crate::node::object::{NodeConditionStatus, PrunedNode};
use crate::reconciliation::patch::NetworkConditionPatch;

/// Reasons and messages that mark the condition as ours (ROUTE-041).
const CREATED: (&str, &str) = ("RouteCreated", "RouteController created a route");
const NOT_CREATED: (&str, &str) = ("NoRouteCreated", "RouteController failed to create a route");

/// State of a node's routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// All routes exist.
    Available,
    /// The cloud could not create a route.
    Unavailable,
    /// A route is missing according to one answer. One answer must not take many working nodes out of service: it
    /// counts only for a node that does not have the condition yet.
    Doubtful,
}

/// The patch that makes the condition match `network`; `None`: it matches already, or another component owns it
/// (ROUTE-042). The transition time moves only when the status changes.
pub(super) fn patch(
    node: &PrunedNode,
    network: Network,
    now: Timestamp,
) -> Option<NetworkConditionPatch> {
    let is_unavailable = network != Network::Available;
    let (reason, message) = match is_unavailable {
        true => NOT_CREATED,
        false => CREATED,
    };
    let status = match is_unavailable {
        true => NodeConditionStatus::True,
        false => NodeConditionStatus::False,
    };
    let mut since = now;
    if let Some(stored) = node.network_unavailable() {
        let is_ours = [CREATED.0, NOT_CREATED.0].contains(&&*stored.reason);
        let is_stored = stored.status == status && *stored.reason == *reason;
        if !is_ours || network == Network::Doubtful || is_stored {
            return None;
        }
        if let Some(before) = stored.since.filter(|_| stored.status == status) {
            since = before;
        }
    }
    Some(NetworkConditionPatch {
        uid: node.uid().to_owned(),
        resource_version: node.resource_version().to_owned(),
        is_unavailable,
        reason,
        message,
        heartbeat: rfc3339(now),
        last_transition: rfc3339(since),
    })
}

/// Whether the condition says that the node's pods are reachable.
pub(super) fn is_available(node: &PrunedNode) -> bool {
    let stored = node.network_unavailable();
    stored.is_some_and(|condition| condition.status == NodeConditionStatus::False)
}
