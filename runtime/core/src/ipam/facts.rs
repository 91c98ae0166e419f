//! The facts of one reconciliation of a node's pod CIDRs, and how outcomes change them. Decides nothing.

use std::sync::Arc;

use ipnet::IpNet;

use super::allocator::{Exhausted, InvalidPodCidr, pod_cidrs};
use super::effect::{IpamEffect, IpamOutcome};
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::{ClusterError, Performed};
use crate::reconciliation::write_refusal::Refusals;

/// How often a reconciliation reads the node again after a conflict; upstream's number (IPAM-026).
const MAX_CONFLICTS: u32 = 3;

/// State retained from earlier reconciliations of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetainedState {
    /// Consecutive failed reconciliations.
    pub failures: u32,
    /// The reason of the last Event about a failure.
    pub reported: Option<String>,
}

/// The facts of one reconciliation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The node from the cache, or as the API server returned it since.
    pub node: Arc<PrunedNode>,
    /// The reserved blocks, if the node has no pod CIDRs.
    pub blocks: Result<Vec<IpNet>, Exhausted>,
    /// Problems with its existing pod CIDRs that were not reported yet.
    pub invalid_pod_cidrs: Vec<InvalidPodCidr>,
    /// State retained from earlier reconciliations.
    pub past: RetainedState,
    pub(super) state: ReconcileState,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReconcileState {
    pub(super) refusals: Refusals<MAX_CONFLICTS>,
    /// A write got no response and may have been made.
    pub(super) is_unanswered: bool,
    /// The write was withheld because of the mode.
    pub(super) is_withheld: bool,
    /// The node no longer exists.
    pub(super) is_gone: bool,
    /// The reason of the Event recorded in this reconciliation.
    pub(super) reported: Option<String>,
}

impl Facts {
    /// The facts at the start. `is_unanswered`: an earlier write got no response, so the node is read before it is
    /// written again.
    pub(super) fn new(
        node: Arc<PrunedNode>,
        blocks: Result<Vec<IpNet>, Exhausted>,
        invalid_pod_cidrs: Vec<InvalidPodCidr>,
        past: RetainedState,
        is_unanswered: bool,
    ) -> Facts {
        let mut state = ReconcileState::default();
        if is_unanswered {
            state.refusals.read_first();
        }
        Facts {
            node,
            blocks,
            invalid_pod_cidrs,
            past,
            state,
        }
    }

    /// Adds the result of `effect`.
    pub fn absorb(&mut self, effect: &IpamEffect, performed: Performed<IpamOutcome>) {
        match performed {
            Performed::Ended(IpamOutcome::Node(Ok(Some(node))))
                if node.uid() == self.node.uid() =>
            {
                self.node = Arc::from(node);
                self.settle(effect);
            }
            // Gone or recreated under the same name: the new node has its own reconciliation.
            Performed::Ended(IpamOutcome::Node(Ok(_))) => self.state.is_gone = true,
            Performed::Ended(IpamOutcome::Node(Err(error))) => self.absorb_error(effect, error),
            Performed::Ended(IpamOutcome::Event(_)) | Performed::Withheld => match effect {
                IpamEffect::RecordEvent(_, event) => {
                    self.state.reported = Some(event.reason.clone());
                }
                // Plan mode computed the write without making it: nothing else remains.
                _ => self.state.is_withheld = true,
            },
        }
    }

    fn settle(&mut self, effect: &IpamEffect) {
        let state = &mut self.state;
        match effect {
            IpamEffect::Read(_) => state.refusals.was_read(),
            IpamEffect::Patch(..) if pod_cidrs(&self.node).is_empty() => {
                let what = "the API server accepted the patch but stored no pod CIDRs".to_owned();
                state.refusals.fail(ClusterError::Rejected(what));
            }
            _ => {}
        }
    }

    fn absorb_error(&mut self, effect: &IpamEffect, error: ClusterError) {
        let state = &mut self.state;
        if let IpamEffect::Read(_) = effect {
            return state.refusals.read_failed(error);
        }
        state.is_unanswered |= matches!(error, ClusterError::Unavailable(_));
        // A write to a node that has immutable pod CIDRs by now is rejected, too, so the node is read first
        // (IPAM-027b).
        state.refusals.write_failed(error);
    }

    /// Whether the reconciliation is complete.
    pub(super) fn is_over(&self) -> bool {
        self.state.is_gone || self.state.is_withheld
    }
}
