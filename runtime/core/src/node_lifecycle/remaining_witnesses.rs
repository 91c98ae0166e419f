//! Whether any node is left that could be a witness for an answer.

use std::collections::{BTreeMap, BTreeSet};

use super::memory::Pass;
use super::not_ready_history::NodeHistory;
use super::survey::scheme;
use crate::node::object::PrunedNode;
use crate::node::ownership::owner;

/// Schemes with at least one node that is neither called gone nor being deleted; computed once per pass.
pub(super) struct LastOfScheme(BTreeSet<String>);

impl LastOfScheme {
    /// `histories` are those of the NotReady nodes of the pass.
    pub(super) fn new(pass: &Pass<'_>, histories: &BTreeMap<String, NodeHistory>) -> LastOfScheme {
        let is_gone = |node: &PrunedNode| {
            let history = histories.get(node.name());
            history.is_some_and(|history| history.gone.is_some())
        };
        if histories.values().all(|history| history.gone.is_none()) {
            return LastOfScheme(BTreeSet::new());
        }
        // Nodes of another account with the same scheme cannot be witnesses.
        let is_ours = |node: &PrunedNode| owner(node, pass.ownership).is_ours();
        let existing = pass.nodes.iter();
        // Nobody counts answers about a node that only waits for a finalizer.
        let is_leaving = |node: &PrunedNode| node.is_being_deleted() && !node.is_ready();
        let existing = existing.filter(|node| is_ours(node) && !is_gone(node) && !is_leaving(node));
        LastOfScheme(
            existing
                .filter_map(|node| scheme(node))
                .map(str::to_owned)
                .collect(),
        )
    }

    /// Whether no other node of its scheme can exist any more.
    pub(super) fn is_last(&self, node: &PrunedNode) -> bool {
        scheme(node).is_some_and(|scheme| !self.0.contains(scheme))
    }
}
