//! The facts of one reconciliation of a node, and how outcomes change them. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cloud::error::ProviderError;
use crate::cloud::instance::Lookup;
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::node::ownership::{OwnershipContext, Verdict};
use crate::reconciliation::effect::{BudgetOutcome, ClusterError, Performed};
use crate::reconciliation::patch::NodePatch;
use crate::reconciliation::write_refusal::Refusals;
use crate::safety::brake::Brake;
use crate::safety::budget_reservation::{Asked, BudgetReservation, Reservation};
use crate::settings::NodeRules;
use crate::well_known::OWNER_LABEL;

use super::confirm::Proposal;
use super::effect::{Looked, NodeEffect, NodeOutcome};

/// How often a reconciliation reads the node again after a conflict before it fails and is retried later; upstream's
/// number (NODE-041).
const MAX_CONFLICTS: u32 = 20;

/// State retained from earlier reconciliations of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetainedState {
    /// Whether the periodic pass requests a check of an initialised node's addresses (NODE-050).
    pub refresh: bool,
    /// Consecutive failed reconciliations.
    pub failures: u32,
    /// When the node started to wait, if it waits.
    pub waiting_since: Option<Moment>,
    /// The last obstacle, and how many passes have ended with it since.
    pub obstacle: Option<(String, u32)>,
    /// Unconfirmed changes that the last answer implied, and when they were first answered.
    pub proposal: Option<(Proposal, Moment)>,
    /// The write that removes the taint got no response, so it may have been made.
    pub is_unanswered: bool,
    /// Budget taken for changes that were not made.
    pub reservation: BudgetReservation,
}

/// The facts of one reconciliation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The node from the cache, or as the API server returned it since.
    pub node: Arc<PrunedNode>,
    /// The ownership context of the provider.
    pub ownership: Arc<OwnershipContext>,
    /// Rules for decisions about nodes.
    pub rules: Arc<NodeRules>,
    /// State retained from earlier reconciliations.
    pub past: RetainedState,
    pub(super) state: ReconcileState,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReconcileState {
    /// The provider's answer, once it was asked.
    pub(super) looked: Option<Result<Looked, ProviderError>>,
    /// When an earlier reconciliation got the answer; nothing if this one asks itself.
    pub(super) recalled: Option<Moment>,
    /// The combined verdict of all candidates, and whether to report it.
    pub(super) claimed: Option<(Verdict, bool)>,
    pub(super) refusals: Refusals<MAX_CONFLICTS>,
    /// The parts that were written (or withheld), without a read of the node since.
    settled: BTreeSet<NodePart>,
    /// Budgets asked for in this reconciliation; `reservation` is what earlier ones took for changes not made yet.
    budgets: Asked,
    reservation: BudgetReservation,
    is_withheld: bool,
    is_unanswered: bool,
    pub(super) has_recorded_event: bool,
    pub(super) is_over: bool,
}

/// A part of a node that one reconciliation writes once, unless it reads the node again: another writer may change it back
/// at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodePart {
    Addresses,
    Labels,
    /// The label that names the owner.
    Owner,
}

impl ReconcileState {
    fn settle_labels(&mut self, patch: &NodePatch) {
        self.settled.insert(NodePart::Labels);
        if patch.labels.contains_key(OWNER_LABEL) {
            self.settled.insert(NodePart::Owner);
        }
    }

    /// The change for which budget was taken has been made.
    fn use_up(&mut self, brake: Brake) {
        self.budgets.remove(&brake);
        self.reservation.forget(brake);
    }
}

impl Facts {
    /// The facts at the start of a reconciliation.
    pub fn new(
        node: Arc<PrunedNode>,
        ownership: Arc<OwnershipContext>,
        rules: Arc<NodeRules>,
        past: RetainedState,
    ) -> Facts {
        let state = ReconcileState {
            reservation: past.reservation.clone(),
            ..ReconcileState::default()
        };
        Facts {
            node,
            ownership,
            rules,
            past,
            state,
        }
    }

    /// Adds an answer that an earlier reconciliation of the same node got at `answered` but could not store, so that the
    /// cloud is not asked again because the API server was unavailable.
    pub fn recall(&mut self, answer: Looked, answered: Moment) {
        self.state.looked = Some(Ok(answer));
        self.state.recalled = Some(answered);
    }

    /// The provider's answer, if it was asked and the call did not fail.
    pub(super) fn answer(&self) -> Option<&Looked> {
        self.state.looked.as_ref()?.as_ref().ok()
    }

    /// The provider's answer, if the reconciliation failed at the API server or waits for other candidates.
    pub fn unstored_answer(&self) -> Option<&Looked> {
        let waits = matches!(self.state.claimed, Some((Verdict::WaitsFor(_), _)));
        if self.state.refusals.trouble().is_none() && !waits {
            return None;
        }
        self.answer()
    }

    /// Whether the provider has answered that the machine is not its own while another candidate may still find it. The
    /// node gets no final result from this reconciliation then.
    pub fn is_anothers(&self) -> bool {
        let is_answered = matches!(&self.state.looked, Some(Ok(looked)) if !matches!(looked.lookup, Lookup::Unknown(_)));
        is_answered && matches!(self.state.claimed, Some((Verdict::Open, _)))
    }

    /// Adds the result of `effect`.
    pub fn absorb(&mut self, effect: &NodeEffect, performed: Performed<NodeOutcome>) {
        let Performed::Ended(outcome) = performed else {
            return self.withhold(effect);
        };
        let state = &mut self.state;
        match outcome {
            NodeOutcome::Looked(looked) => {
                state.looked = Some(looked);
                state.recalled = None;
            }
            NodeOutcome::VoteCast(verdict, report) => state.claimed = Some((verdict, report)),
            NodeOutcome::Budget(brake, BudgetOutcome::Answered(answer)) => {
                state.budgets.insert(brake, answer);
            }
            NodeOutcome::Budget(_, BudgetOutcome::Failed(error)) => state.refusals.fail(error),
            NodeOutcome::Event(_) => state.has_recorded_event = true,
            NodeOutcome::Node(Ok(Some(node))) if node.uid() == self.node.uid() => {
                self.node = Arc::from(node);
                self.settle(effect);
            }
            // Gone or recreated under the same name: the new node has its own reconciliation.
            NodeOutcome::Node(Ok(_)) => state.is_over = true,
            NodeOutcome::Node(Err(error)) => self.absorb_error(effect, error),
        }
    }

    /// A write was made, or the node was read again.
    fn settle(&mut self, effect: &NodeEffect) {
        let is_waiting = self.node.is_uninitialized();
        let state = &mut self.state;
        match effect {
            NodeEffect::Read(_) => {
                state.refusals.was_read();
                state.settled.clear();
            }
            NodeEffect::PatchStatus(..) => {
                state.settled.insert(NodePart::Addresses);
                state.use_up(Brake::InternalIp);
            }
            NodeEffect::Patch(_, patch) => {
                state.settle_labels(patch);
                state.use_up(Brake::Relabel);
                if patch.taints.is_some() && is_waiting {
                    // An admission webhook has restored it. Removing it again at once would loop forever.
                    let what = "the taint is there again after its removal".to_owned();
                    state.refusals.fail(ClusterError::Rejected(what));
                }
            }
            _ => {}
        }
    }

    /// Plan mode computed a write without making it: continue as if it had been made.
    fn withhold(&mut self, effect: &NodeEffect) {
        let state = &mut self.state;
        state.is_withheld |= matches!(effect, NodeEffect::PatchStatus(..) | NodeEffect::Patch(..));
        match effect {
            NodeEffect::PatchStatus(..) => {
                state.settled.insert(NodePart::Addresses);
            }
            // The last write of an initialisation: nothing remains to be planned.
            NodeEffect::Patch(_, patch) if patch.taints.is_some() => state.is_over = true,
            NodeEffect::Patch(_, patch) => state.settle_labels(patch),
            NodeEffect::RecordEvent(..) => state.has_recorded_event = true,
            _ => {}
        }
    }

    fn absorb_error(&mut self, effect: &NodeEffect, error: ClusterError) {
        let state = &mut self.state;
        if let NodeEffect::Read(_) = effect {
            return state.refusals.read_failed(error);
        }
        let is_last = matches!(effect, NodeEffect::Patch(_, patch) if patch.taints.is_some());
        let is_lost = matches!(error, ClusterError::Unavailable(_));
        state.is_unanswered |= is_last && is_lost;
        state.refusals.write_failed(error);
    }

    /// Whether the write that removes the taint may have been made without its Event.
    pub fn is_unanswered(&self) -> bool {
        let is_recorded = self.state.has_recorded_event && !self.node.is_uninitialized();
        (self.past.is_unanswered || self.state.is_unanswered) && !is_recorded
    }

    /// Budget taken without a change being made, for the next reconciliation.
    pub fn reservation(&self, now: Moment) -> BudgetReservation {
        let state = &self.state;
        let reservation = state.reservation.clone().and(&state.budgets, now);
        if state.is_withheld {
            reservation.for_ever()
        } else {
            reservation
        }
    }

    /// Whether this reconciliation has written the part and not read the node since.
    pub(super) fn has_settled(&self, part: NodePart) -> bool {
        self.state.settled.contains(&part)
    }

    /// Whether the brake's budget covers a change.
    pub(super) fn credit(&self, brake: Brake, now: Moment) -> Reservation {
        let state = &self.state;
        state.reservation.credit(brake, &state.budgets, now)
    }
}
