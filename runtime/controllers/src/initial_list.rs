//! Selects the nodes that the node controller gets before the initial list of nodes is complete. Sends nothing itself.

use ccm_core::node::object::is_uninitialized;
use k8s_openapi::api::core::v1::Node;

use crate::executor::EffectExecutor;

/// Number of uninitialised nodes that the provider is asked about before the list of all nodes is complete: a call that
/// clouds answer with one or two rounds of requests, however many machines they have.
const MOST_EARLY: usize = 4;

/// The nodes of one provider that were sent before the end of the list.
#[derive(Debug, Default)]
pub(crate) struct EarlyNodes {
    sent: usize,
}

impl EarlyNodes {
    /// Whether `node` of the list goes to the node controller now. If so, the node counts as sent.
    pub(crate) fn admits(&mut self, node: &Node, executor: &EffectExecutor) -> bool {
        let is_early = self.sent < MOST_EARLY
            && is_uninitialized(node)
            && !executor.cluster.knows_all_nodes()
            && executor.ownership().is_concerned(node);
        self.sent += usize::from(is_early);
        is_early
    }
}
