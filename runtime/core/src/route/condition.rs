//! The node condition NetworkUnavailable. It is written where it is absent or ours; a condition that a network plugin
//! has set for its own network is never overwritten (EDGE-081).

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::jiff::Timestamp;

use crate::moment::rfc3339;
use crate::node::object::{resource_version, uid};
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
    node: &Node,
    network: Network,
    now: Timestamp,
) -> Option<NetworkConditionPatch> {
    let is_unavailable = network != Network::Available;
    let (reason, message) = match is_unavailable {
        true => NOT_CREATED,
        false => CREATED,
    };
    let status = if is_unavailable { "True" } else { "False" };
    let stored = stored(node);
    let mut since = now;
    if let Some(stored) = stored {
        let theirs = stored.reason.as_deref().unwrap_or_default();
        let is_ours = [CREATED.0, NOT_CREATED.0].contains(&theirs);
        if !is_ours || network == Network::Doubtful || (stored.status == status && theirs == reason)
        {
            return None;
        }
        let before = stored.last_transition_time.as_ref();
        if let Some(before) = before.filter(|_| stored.status == status) {
            since = before.0;
        }
    }
    Some(NetworkConditionPatch {
        uid: uid(node).to_owned(),
        resource_version: resource_version(node).to_owned(),
        is_unavailable,
        reason,
        message,
        heartbeat: rfc3339(now),
        last_transition: rfc3339(since),
    })
}

/// Whether the condition says that the node's pods are reachable.
pub(super) fn is_available(node: &Node) -> bool {
    stored(node).is_some_and(|condition| condition.status == "False")
}

fn stored(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let mut conditions = conditions.iter();
    conditions.find(|condition| condition.type_ == NETWORK_UNAVAILABLE)
}
