//! Which nodes receive a Service's traffic, and which node changes trigger reconciliations (SVC-060 to SVC-066).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cloud::instance::{CloudNode, MOST_NODES};
use crate::cloud::load_balancer::TargetNodes;
use crate::node::cloud_node::cloud_node;
use crate::node::object::PrunedNode;
use crate::well_known::{EXCLUDE_FROM_LOAD_BALANCERS, TO_BE_DELETED_TAINT};

/// Nodes that receive traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// The eligible nodes.
    pub nodes: TargetNodes,
    /// Whether it was made from a complete list of the cluster's nodes.
    pub is_synced: bool,
}

impl Targets {
    /// The eligible ones of `nodes`.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a PrunedNode>, is_synced: bool) -> Targets {
        let mut nodes: Vec<Arc<CloudNode>> = nodes
            .filter(|node| is_eligible(node))
            .map(|node| Arc::new(cloud_node(node)))
            .collect();
        nodes.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        Targets {
            nodes: nodes.into(),
            is_synced,
        }
    }

    /// No nodes, because they are not known.
    pub fn unknown() -> Targets {
        Targets {
            nodes: Arc::default(),
            is_synced: false,
        }
    }

    /// The same targets, with the nodes of `before` in place of equal ones.
    pub fn sharing(self, before: &TargetNodes) -> Targets {
        let mut old = before.iter().peekable();
        let nodes = self.nodes.iter().map(|node| {
            while old.next_if(|old| old.name < node.name).is_some() {}
            let known = old.next_if(|old| *old == node);
            known.unwrap_or(node).clone()
        });
        Targets {
            nodes: nodes.collect(),
            ..self
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

/// Whether a node change changes what providers see of the targets, of which the next request tells them. That is more
/// than what [`wakes`]: labels count, too. `None` is no node, or one out of reach.
pub fn is_seen_otherwise(old: Option<&PrunedNode>, new: Option<&PrunedNode>) -> bool {
    let seen = |node: Option<&PrunedNode>| node.filter(|node| is_eligible(node)).map(cloud_node);
    seen(old) != seen(new)
}

/// The label is set, and its value is not one of Go's spellings of false.
fn is_excluded(node: &PrunedNode) -> bool {
    let value = node.labels().get(EXCLUDE_FROM_LOAD_BALANCERS);
    value.is_some_and(|value| !matches!(value, "0" | "f" | "F" | "FALSE" | "false" | "False"))
}

/// Whether two lists are equal for a load balancer. Labels are ignored, so that labelling a thousand nodes does not
/// cause a request per load balancer; the drift check sees them.
pub fn are_same(left: &TargetNodes, right: &TargetNodes) -> bool {
    Arc::ptr_eq(left, right)
        || left.len() == right.len()
            && left
                .iter()
                .zip(&**right)
                .all(|(one, other)| is_same(one, other))
}

fn is_same(one: &Arc<CloudNode>, other: &Arc<CloudNode>) -> bool {
    Arc::ptr_eq(one, other)
        || one.name == other.name
            && one.provider_id == other.provider_id
            && one.addresses == other.addresses
}

/// Whether every node of `before` is in `after`. Both are sorted by name.
pub(super) fn keeps_all(before: &TargetNodes, after: &TargetNodes) -> bool {
    let mut after_names = after.iter().map(|node| &node.name);
    Arc::ptr_eq(before, after)
        || before
            .iter()
            .all(|node| after_names.by_ref().any(|name| *name == node.name))
}

pub(super) fn names(nodes: &[Arc<CloudNode>]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

/// `wanted`, and those of `current` that are not in it, as far as one call has room for them: a call with too many would
/// be refused as a whole, and then no new node became a target, either.
pub(super) fn union<'a>(
    wanted: &TargetNodes,
    current: impl Iterator<Item = &'a Arc<CloudNode>>,
) -> TargetNodes {
    let known = names(wanted);
    let room = MOST_NODES.saturating_sub(wanted.len());
    let others = current.filter(|node| !known.contains(&node.name));
    let mut all: Vec<Arc<CloudNode>> = wanted.to_vec();
    all.extend(others.take(room).cloned());
    if all.len() == wanted.len() {
        return wanted.clone();
    }
    all.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn node(name: &str, label: &str) -> PrunedNode {
        let node = fixtures::node(name).label("x", label);
        node.provider_id(&format!("sim://{name}")).build()
    }

    /// Thousands of Services may each keep the list of another time.
    #[test]
    fn lists_of_different_times_share_the_nodes_that_have_not_changed() {
        let mut lists = vec![Targets::unknown()];
        // The number of different nodes in all lists so far.
        let mut list = |nodes: &[PrunedNode]| {
            let before = &lists[lists.len() - 1].nodes;
            let targets = Targets::of(nodes.iter(), true).sharing(before);
            lists.push(targets);
            let all = lists.iter().flat_map(|list| list.nodes.iter());
            let different: BTreeSet<*const CloudNode> = all.map(Arc::as_ptr).collect();
            different.len()
        };
        let mut nodes = Vec::new();
        // Before, between and after those of the last list.
        for number in [50, 10, 90].into_iter().chain(51..90).chain(11..50) {
            nodes.push(node(&format!("n{number}"), "y"));
            assert_eq!(list(&nodes), nodes.len());
        }
        let all = nodes.len();
        nodes[7] = node(nodes[7].name(), "z");
        assert_eq!(list(&nodes), all + 1, "it has another label");
        nodes.remove(0);
        assert_eq!(list(&nodes), all + 1);
        assert_eq!(list(&nodes[..5]), all + 1);
    }
}
