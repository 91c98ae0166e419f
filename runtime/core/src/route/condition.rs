//! The node condition NetworkUnavailable. It is written where it is absent or ours; a condition that a network plugin
//! has set for its own network is never overwritten (EDGE-081).

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::node::object::{NodeConditionStatus, PrunedNode};
use crate::reconciliation::patch::NetworkConditionPatch;
use crate::well_known::NETWORK_UNAVAILABLE;

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
    let (status, text, (reason, message)) = match network {
        Network::Available => (NodeConditionStatus::False, "False", CREATED),
        Network::Unavailable | Network::Doubtful => {
            (NodeConditionStatus::True, "True", NOT_CREATED)
        }
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
        condition: NodeCondition {
            type_: NETWORK_UNAVAILABLE.to_owned(),
            status: text.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(Time(since)),
        },
    })
}

/// Whether the condition says that the node's pods are reachable.
pub(super) fn is_available(node: &PrunedNode) -> bool {
    let stored = node.network_unavailable();
    stored.is_some_and(|condition| condition.status == NodeConditionStatus::False)
}
