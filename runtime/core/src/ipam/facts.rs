//! What one reconciliation about a node's pod CIDRs knows so far, and how outcomes become knowledge. Decides nothing.

use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use super::allocator::{Exhausted, InvalidPodCidr, pod_cidrs};
use crate::effect::{ClusterError, Effect, Outcome};
use crate::write_refusal::Refusals;

/// How often a reconciliation reads the node again after a conflict; upstream's number (IPAM-026).
const MAX_CONFLICTS: u32 = 3;

/// What earlier reconciliations about the node have left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetainedState {
    /// How many have failed in a row.
    pub failures: u32,
    /// The reason of the last Event about what has failed.
    pub told: Option<&'static str>,
}

/// The facts of one reconciliation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The node: as it was in the cache, or as the API server answered since.
    pub node: Arc<Node>,
    /// What it is to get, if it has nothing.
    pub blocks: Result<Vec<IpNet>, Exhausted>,
    /// What is wrong with what it has, and was not told yet.
    pub invalid_pod_cidrs: Vec<InvalidPodCidr>,
    /// What was before.
    pub past: RetainedState,
    state: ReconcileState,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct ReconcileState {
    refusals: Refusals<MAX_CONFLICTS>,
    is_unanswered: bool,
    is_withheld: bool,
    is_gone: bool,
    told: Option<&'static str>,
}

impl Facts {
    /// What is known at the beginning. `is_unanswered` says that an earlier write had no answer: the node is read before
    /// it is written again.
    pub(super) fn new(
        node: Arc<Node>,
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

    /// Adds how `effect` ended.
    pub fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        match outcome {
            Outcome::Node(Ok(Some(node))) if node.metadata.uid == self.node.metadata.uid => {
                self.node = Arc::from(node);
                self.settle(effect);
            }
            // Gone, or made again under the same name: the new one has a reconciliation of its own.
            Outcome::Node(Ok(_)) => self.state.is_gone = true,
            Outcome::Node(Err(error)) => self.absorb_error(effect, error),
            Outcome::Recorded | Outcome::Unrecorded(_) | Outcome::Withheld => match effect {
                Effect::RecordNodeEvent(_, event) => {
                    let reasons = [super::NOT_AVAILABLE, super::NOT_ASSIGNED, super::INVALID];
                    let said = reasons.into_iter().find(|reason| *reason == event.reason);
                    self.state.told = said;
                }
                // Worked out and not made, in plan mode: there is nothing else to be done.
                _ => self.state.is_withheld = true,
            },
            // Effects of other controllers.
            Outcome::Looked(_)
            | Outcome::Surveyed(_)
            | Outcome::VoteCast(..)
            | Outcome::Budget(_)
            | Outcome::Deleted
            | Outcome::Drained(_)
            | Outcome::Service(_)
            | Outcome::Route(_) => {}
        }
    }

    fn settle(&mut self, effect: &Effect) {
        let state = &mut self.state;
        match effect {
            Effect::ReadNode(_) => state.refusals.was_read(),
            Effect::PatchPodCidrs(..) if pod_cidrs(&self.node).is_empty() => {
                let what = "the API server said yes and stored nothing".to_owned();
                state.refusals.fail(ClusterError::Rejected(what));
            }
            _ => {}
        }
    }

    fn absorb_error(&mut self, effect: &Effect, error: ClusterError) {
        let state = &mut self.state;
        if let Effect::ReadNode(_) = effect {
            return state.refusals.read_failed(error);
        }
        state.is_unanswered |= matches!(error, ClusterError::Unavailable(_));
        // Also a node that has pod CIDRs by now, which nobody may change, is read before that is believed (IPAM-027b).
        state.refusals.write_failed(error);
    }

    /// Whether a write was made, or may have been, without anybody having said so.
    pub fn is_unanswered(&self) -> bool {
        self.state.is_unanswered
    }

    /// There is no such node any more.
    pub fn is_gone(&self) -> bool {
        self.state.is_gone
    }

    /// Whether the write was worked out and not made, for the mode alone.
    pub fn is_withheld(&self) -> bool {
        self.state.is_withheld
    }

    /// The reason of the Event that was recorded in this reconciliation.
    pub fn told(&self) -> Option<&'static str> {
        self.state.told
    }

    pub(super) fn has_told(&self) -> bool {
        self.state.told.is_some()
    }

    /// The node has to be read from the API server before anything else.
    pub(super) fn has_to_read_again(&self) -> bool {
        self.state.refusals.has_to_read_again()
    }

    /// What the API server would not do.
    pub(super) fn trouble(&self) -> Option<&ClusterError> {
        self.state.refusals.trouble()
    }

    /// There is nothing more to say about this node.
    pub(super) fn is_over(&self) -> bool {
        self.state.is_gone || self.state.is_withheld
    }
}
