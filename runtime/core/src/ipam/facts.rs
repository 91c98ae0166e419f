//! What one conversation about a node's pod CIDRs knows so far, and how outcomes become knowledge. Decides nothing.

use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use super::allocator::{Exhausted, Misfit, pod_cidrs};
use crate::effect::{ClusterError, Effect, Outcome};
use crate::refusal::Refusals;

/// How often a conversation reads the node again after a conflict; upstream's number (IPAM-026).
const MAX_CONFLICTS: u32 = 3;

/// What earlier conversations about the node have left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Past {
    /// How many have failed in a row.
    pub failures: u32,
    /// The reason of the last Event about what has failed.
    pub told: Option<&'static str>,
}

/// The facts of one conversation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The node: as it was in the cache, or as the API server answered since.
    pub node: Arc<Node>,
    /// What it is to get, if it has nothing.
    pub blocks: Result<Vec<IpNet>, Exhausted>,
    /// What is wrong with what it has, and was not told yet.
    pub misfits: Vec<Misfit>,
    /// What was before.
    pub past: Past,
    learnt: Learnt,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Learnt {
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
        misfits: Vec<Misfit>,
        past: Past,
        is_unanswered: bool,
    ) -> Facts {
        let mut learnt = Learnt::default();
        if is_unanswered {
            learnt.refusals.read_first();
        }
        Facts {
            node,
            blocks,
            misfits,
            past,
            learnt,
        }
    }

    /// Adds how `effect` ended.
    pub fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        match outcome {
            Outcome::Node(Ok(Some(node))) if node.metadata.uid == self.node.metadata.uid => {
                self.node = Arc::from(node);
                self.settle(effect);
            }
            // Gone, or made again under the same name: the new one has a conversation of its own.
            Outcome::Node(Ok(_)) => self.learnt.is_gone = true,
            Outcome::Node(Err(error)) => self.absorb_error(effect, error),
            Outcome::Recorded | Outcome::Unrecorded(_) | Outcome::Withheld => match effect {
                Effect::RecordNodeEvent(_, event) => {
                    let reasons = [super::NOT_AVAILABLE, super::NOT_ASSIGNED, super::INVALID];
                    let said = reasons.into_iter().find(|reason| *reason == event.reason);
                    self.learnt.told = said;
                }
                // Worked out and not made, in plan mode: there is nothing else to be done.
                _ => self.learnt.is_withheld = true,
            },
            // Effects of other controllers.
            Outcome::Looked(_)
            | Outcome::Surveyed(_)
            | Outcome::Conferred(..)
            | Outcome::Budget(_)
            | Outcome::Deleted
            | Outcome::Drained(_)
            | Outcome::Service(_)
            | Outcome::Route(_) => {}
        }
    }

    fn settle(&mut self, effect: &Effect) {
        let learnt = &mut self.learnt;
        match effect {
            Effect::ReadNode(_) => learnt.refusals.was_read(),
            Effect::PatchPodCidrs(..) if pod_cidrs(&self.node).is_empty() => {
                let what = "the API server said yes and stored nothing".to_owned();
                learnt.refusals.fail(ClusterError::Rejected(what));
            }
            _ => {}
        }
    }

    fn absorb_error(&mut self, effect: &Effect, error: ClusterError) {
        let learnt = &mut self.learnt;
        if let Effect::ReadNode(_) = effect {
            return learnt.refusals.read_failed(error);
        }
        learnt.is_unanswered |= matches!(error, ClusterError::Unavailable(_));
        // Also a node that has pod CIDRs by now, which nobody may change, is read before that is believed (IPAM-027b).
        learnt.refusals.write_failed(error);
    }

    /// Whether a write was made, or may have been, without anybody having said so.
    pub fn is_unanswered(&self) -> bool {
        self.learnt.is_unanswered
    }

    /// There is no such node any more.
    pub fn is_gone(&self) -> bool {
        self.learnt.is_gone
    }

    /// Whether the write was worked out and not made, for the mode alone.
    pub fn is_withheld(&self) -> bool {
        self.learnt.is_withheld
    }

    /// The reason of the Event that was recorded in this conversation.
    pub fn told(&self) -> Option<&'static str> {
        self.learnt.told
    }

    pub(super) fn has_told(&self) -> bool {
        self.learnt.told.is_some()
    }

    /// The node has to be read from the API server before anything else.
    pub(super) fn has_to_read_again(&self) -> bool {
        self.learnt.refusals.has_to_read_again()
    }

    /// What the API server would not do.
    pub(super) fn trouble(&self) -> Option<&ClusterError> {
        self.learnt.refusals.trouble()
    }

    /// There is nothing more to say about this node.
    pub(super) fn is_over(&self) -> bool {
        self.learnt.is_gone || self.learnt.is_withheld
    }
}
