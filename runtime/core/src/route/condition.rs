//! The condition NetworkUnavailable of a node. It is written where it is not there, and where it is ours: what a network
//! plugin says of its own network is never overwritten (EDGE-081).

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::jiff::Timestamp;

use crate::patch::NetworkConditionPatch;
use crate::well_known::NETWORK_UNAVAILABLE;

/// The reasons that are ours (ROUTE-041).
const CREATED: (&str, &str) = ("RouteCreated", "RouteController created a route");
const NOT_CREATED: (&str, &str) = ("NoRouteCreated", "RouteController failed to create a route");

/// How the routes of a node stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// All are there.
    Available,
    /// The cloud would not make one.
    Unavailable,
    /// One is not there by the cloud's account. One answer must not put many nodes that work out of service: it is
    /// believed of a node that has never said anything else.
    Doubtful,
}

/// What has to be written so that the node says whether its network is missing; `None`: it says so, or somebody else
/// speaks (ROUTE-042). The time of the transition moves only when the status does.
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
        uid: node.metadata.uid.clone().unwrap_or_default(),
        is_unavailable,
        reason,
        message,
        heartbeat: seconds(now),
        last_transition: seconds(since),
    })
}

/// Whether the node says that its pods are reached.
pub(super) fn is_available(node: &Node) -> bool {
    stored(node).is_some_and(|condition| condition.status == "False")
}

fn stored(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let mut conditions = conditions.iter();
    conditions.find(|condition| condition.type_ == NETWORK_UNAVAILABLE)
}

/// The API's times have whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
