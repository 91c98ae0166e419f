//! Whether work is left, about one node and for a pass as a whole. While every node of the provider is Ready, the cluster
//! costs the same however many nodes it has. Decides nothing about a node.

use std::sync::Arc;

use super::{MassOutage, Memory};
use crate::node::index::NodeSetVersion;
use crate::node::object::PrunedNode;
use crate::node::ownership::{OwnershipContext, owner};

impl Memory {
    /// Whether a pass over this set of nodes would do nothing: it is that of the last pass, none of the `unready` ones
    /// is this provider's, and nothing is remembered that time alone can change. Asked before each pass.
    pub fn is_settled(
        &mut self,
        version: NodeSetVersion,
        unready: impl IntoIterator<Item = Arc<PrunedNode>>,
        ownership: &OwnershipContext,
    ) -> bool {
        let is_same = self.passed.replace(version) == Some(version);
        let is_own = |node: Arc<PrunedNode>| owner(&node, ownership).is_ours();
        is_same
            && self.histories.is_empty()
            && self.contradictions.is_empty()
            && matches!(self.mass_outage, MassOutage::None)
            && !unready.into_iter().any(is_own)
    }

    /// Takes the names of the nodes whose last reconciliation does not hold any more, and that no later one is about:
    /// they are Ready, deleted or another provider's, or the last answer leaves nothing to do.
    pub fn take_outdated(&mut self) -> Vec<String> {
        std::mem::take(&mut self.outdated)
    }

    /// Whether the last answer, or a failure, leaves something to be done about this node.
    pub fn is_concerned(&self, name: &str) -> bool {
        let history = self.histories.get(name);
        history.is_some_and(|history| {
            let past = &history.past;
            history.is_busy || history.gone.is_some() || past.held.is_some() || past.failures > 0
        })
    }
}
