//! Which nodes receive a Service's traffic, and which node changes trigger reconciliations (SVC-060 to SVC-066).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cloud::instance::CloudNode;
use crate::node::cloud_node::cloud_node;
use crate::node::object::PrunedNode;
use crate::well_known::{EXCLUDE_FROM_LOAD_BALANCERS, TO_BE_DELETED_TAINT};

/// Nodes that receive traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// The eligible nodes, sorted by name.
    pub nodes: Arc<[CloudNode]>,
    /// Whether it was made from a complete list of the cluster's nodes.
    pub is_synced: bool,
}

impl Targets {
    /// The eligible ones of `nodes`.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a PrunedNode>, is_synced: bool) -> Targets {
        let mut nodes: Vec<CloudNode> = nodes
            .filter(|node| is_eligible(node))
            .map(cloud_node)
            .collect();
        nodes.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        Targets {
            nodes: nodes.into(),
            is_synced,
        }
    }
}

/// Whether the node receives traffic: it is not being deleted, not excluded, not about to be removed by the cluster
/// autoscaler (SVC-060), and has a machine (EDGE-072). Readiness is left to health checks.
pub fn is_eligible(node: &PrunedNode) -> bool {
    !node.is_being_deleted()
        && !is_excluded(node)
        && !node.has_taint(TO_BE_DELETED_TAINT)
        && node.provider_id().is_some()
}

/// Whether a node change triggers a reconciliation by itself (SVC-063): exclusion label, machine or addresses. A
/// planned removal does not: its health check fails first, and connections drain while it is a target (SVC-064,
/// EDGE-068). It leaves with the next change of any kind.
pub fn wakes(old: &PrunedNode, new: &PrunedNode) -> bool {
    is_excluded(old) != is_excluded(new)
        || old.provider_id() != new.provider_id()
        || old.addresses() != new.addresses()
}

/// The label is set, and its value is not one of Go's spellings of false.
fn is_excluded(node: &PrunedNode) -> bool {
    let value = node.labels().get(EXCLUDE_FROM_LOAD_BALANCERS);
    value.is_some_and(|value| !matches!(value, "0" | "f" | "F" | "FALSE" | "false" | "False"))
}

/// Whether two lists are equal for a load balancer. Labels are ignored, so that labelling a thousand nodes does not
/// cause a request per load balancer; the drift check sees them.
pub fn are_same(left: &Arc<[CloudNode]>, right: &Arc<[CloudNode]>) -> bool {
    Arc::ptr_eq(left, right)
        || left.len() == right.len()
            && left
                .iter()
                .zip(&**right)
                .all(|(one, other)| is_same(one, other))
}

fn is_same(one: &CloudNode, other: &CloudNode) -> bool {
    one.name == other.name
        && one.provider_id == other.provider_id
        && one.addresses == other.addresses
}

/// Whether every node of `before` is in `after`. Both are sorted by name.
pub(super) fn keeps_all(before: &Arc<[CloudNode]>, after: &Arc<[CloudNode]>) -> bool {
    let mut after_names = after.iter().map(|node| &node.name);
    Arc::ptr_eq(before, after)
        || before
            .iter()
            .all(|node| after_names.by_ref().any(|name| *name == node.name))
}

pub(super) fn names(nodes: &[CloudNode]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

/// `wanted`, and those of `current` that are not in it.
pub(super) fn union(wanted: &Arc<[CloudNode]>, current: &[CloudNode]) -> Arc<[CloudNode]> {
    let known = names(wanted);
    let mut all: Vec<CloudNode> = wanted.to_vec();
    all.extend(
        current
            .iter()
            .filter(|node| !known.contains(&node.name))
            .cloned(),
    );
    if all.len() == wanted.len() {
        return wanted.clone();
    }
    all.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    all.into()
}
