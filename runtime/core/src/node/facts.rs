//! What one reconciliation about a node knows so far, and how outcomes become knowledge. Decides nothing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::brake::Brake;
use crate::budget_reservation::{Asked, BudgetReservation, Reservation};
use crate::cloud::error::ProviderError;
use crate::cloud::instance::Lookup;
use crate::effect::{ClusterError, Effect, Looked, Outcome};
use crate::moment::Moment;
use crate::ownership::{OwnershipContext, Verdict};
use crate::settings::NodeRules;
use crate::write_refusal::Refusals;

use super::confirm::Proposal;

/// How often a reconciliation reads the node again after a conflict before it gives up and comes back
/// later; upstream's number (NODE-041).
const MAX_CONFLICTS: u32 = 20;

/// What earlier reconciliations about a node have left behind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetainedState {
    /// Whether the periodic pass wants an initialised node's addresses checked (NODE-050).
    pub refresh: bool,
    /// How many reconciliations have failed in a row.
    pub failures: u32,
    /// Since when the node has been waiting, if it has.
    pub waiting_since: Option<Moment>,
    /// What the last answer would have changed that one answer is not enough for, and when it was given first.
    pub proposal: Option<(Proposal, Moment)>,
    /// The write that removes the taint was sent, and no answer came: it may have been made.
    pub is_unanswered: bool,
    /// What was taken of budgets for changes that were not made.
    pub reservation: BudgetReservation,
}

/// The facts of one reconciliation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The node: as it was in the cache, or as the API server answered since.
    pub node: Arc<Node>,
    /// The provider that this is about.
    pub ownership: Arc<OwnershipContext>,
    /// What decisions are held against.
    pub rules: Arc<NodeRules>,
    /// What was before.
    pub past: RetainedState,
    state: ReconcileState,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct ReconcileState {
    looked: Option<Result<Looked, ProviderError>>,
    /// What all candidates say together, and whether people are to be told of it.
    conferred: Option<(Verdict, bool)>,
    refusals: Refusals<MAX_CONFLICTS>,
    addresses_settled: bool,
    labels_settled: bool,
    /// What budgets were asked for, and what was taken of them before, for changes that are not made yet.
    budgets: Asked,
    reservation: BudgetReservation,
    is_withheld: bool,
    is_unanswered: bool,
    told: bool,
    over: bool,
}

impl ReconcileState {
    /// The change that was paid for is made.
    fn use_up(&mut self, brake: Brake) {
        self.budgets.remove(&brake);
        self.reservation.forget(brake);
    }
}

impl Facts {
    /// What is known at the beginning.
    pub fn new(
        node: Arc<Node>,
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

    /// Adds an answer that an earlier reconciliation about the same node got and could not store: the cloud is
    /// not asked again because the API server was away.
    pub fn recall(&mut self, answer: Looked) {
        self.state.looked = Some(Ok(answer));
    }

    /// The provider's answer, when it is not its fault that the reconciliation has failed.
    pub fn unstored_answer(&self) -> Option<&Looked> {
        let waits = matches!(self.state.conferred, Some((Verdict::WaitsFor(_), _)));
        if self.trouble().is_none() && !waits {
            return None;
        }
        self.state.looked.as_ref()?.as_ref().ok()
    }

    /// Whether the provider has said that the node is not its own, and another one may say that it is: what becomes of
    /// the node is not said in this reconciliation.
    pub fn is_anothers(&self) -> bool {
        let is_answered = matches!(&self.state.looked, Some(Ok(looked)) if !matches!(looked.lookup, Lookup::Unknown(_)));
        is_answered && matches!(self.state.conferred, Some((Verdict::Open, _)))
    }

    /// What all candidates say together, when they were heard, and whether people are to be told of it.
    pub(super) fn conferred(&self) -> Option<&(Verdict, bool)> {
        self.state.conferred.as_ref()
    }

    /// Adds how `effect` ended.
    pub fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        match outcome {
            Outcome::Looked(looked) => self.state.looked = Some(looked),
            Outcome::VoteCast(verdict, tell) => self.state.conferred = Some((verdict, tell)),
            // Effects of another controller.
            Outcome::Surveyed(_)
            | Outcome::Deleted
            | Outcome::Drained(_)
            | Outcome::Service(_)
            | Outcome::Route(_) => {}
            Outcome::Budget(result) => {
                if let Effect::TakeBudget(_, brake, _) = effect {
                    self.state.budgets.insert(*brake, result);
                }
            }
            Outcome::Recorded | Outcome::Unrecorded(_) => self.state.told = true,
            Outcome::Withheld => self.withhold(effect),
            Outcome::Node(Ok(Some(node))) if node.metadata.uid == self.node.metadata.uid => {
                self.node = Arc::from(node);
                self.settle(effect);
            }
            // Gone, or made again under the same name: the new one has a reconciliation of its own.
            Outcome::Node(Ok(_)) => self.state.over = true,
            Outcome::Node(Err(error)) => self.absorb_error(effect, error),
        }
    }

    /// A write was made, or the node was read again.
    fn settle(&mut self, effect: &Effect) {
        let is_waiting = super::object::is_uninitialized(&self.node);
        let state = &mut self.state;
        match effect {
            Effect::ReadNode(_) => {
                state.refusals.was_read();
                state.addresses_settled = false;
                state.labels_settled = false;
            }
            Effect::PatchNodeStatus(..) => {
                state.addresses_settled = true;
                state.use_up(Brake::InternalIp);
            }
            Effect::PatchNode(_, patch) => {
                state.labels_settled = true;
                state.use_up(Brake::Relabel);
                if patch.taints.is_some() && is_waiting {
                    // An admission webhook has put it back. Writing it again at once would never end.
                    let what = "the taint is there again after its removal".to_owned();
                    state.refusals.fail(ClusterError::Rejected(what));
                }
            }
            _ => {}
        }
    }

    /// A write was worked out and not made, in plan mode: the rest is worked out as if it had been.
    fn withhold(&mut self, effect: &Effect) {
        let state = &mut self.state;
        state.is_withheld |= matches!(effect, Effect::PatchNodeStatus(..) | Effect::PatchNode(..));
        match effect {
            Effect::PatchNodeStatus(..) => state.addresses_settled = true,
            // The last write of an initialisation: everything has been said.
            Effect::PatchNode(_, patch) if patch.taints.is_some() => state.over = true,
            Effect::PatchNode(..) => state.labels_settled = true,
            Effect::RecordNodeEvent(..) => state.told = true,
            _ => {}
        }
    }

    fn absorb_error(&mut self, effect: &Effect, error: ClusterError) {
        let state = &mut self.state;
        if let Effect::ReadNode(_) = effect {
            return state.refusals.read_failed(error);
        }
        let is_last = matches!(effect, Effect::PatchNode(_, patch) if patch.taints.is_some());
        let is_lost = matches!(error, ClusterError::Unavailable(_));
        state.is_unanswered |= is_last && is_lost;
        state.refusals.write_failed(error);
    }

    /// Whether the write that removes the taint may have been made without anybody having said so.
    pub fn is_unanswered(&self) -> bool {
        let is_told = self.state.told && !super::object::is_uninitialized(&self.node);
        (self.past.is_unanswered || self.state.is_unanswered) && !is_told
    }

    /// What was taken of budgets and has led to nothing: the next reconciliation has to know.
    pub fn reservation(&self, now: Moment) -> BudgetReservation {
        let state = &self.state;
        let reservation = state.reservation.clone().and(&state.budgets, now);
        if state.is_withheld {
            reservation.for_ever()
        } else {
            reservation
        }
    }

    /// What was taken of a budget before is worth so much.
    pub(super) fn credit(&self, brake: Brake, now: Moment) -> Reservation {
        self.state.reservation.credit(brake, now)
    }

    /// The provider's answer, when it has been asked.
    pub(super) fn looked(&self) -> Option<&Result<Looked, ProviderError>> {
        self.state.looked.as_ref()
    }

    /// Whether there was something left in a brake's budget, when it was asked.
    pub(super) fn budget(&self, brake: Brake) -> Option<Result<(), Moment>> {
        self.state.budgets.get(&brake).copied()
    }

    /// The node has to be read from the API server before anything else.
    pub(super) fn has_to_read_again(&self) -> bool {
        self.state.refusals.has_to_read_again()
    }

    /// What the API server would not do.
    pub(super) fn trouble(&self) -> Option<&ClusterError> {
        self.state.refusals.trouble()
    }

    /// The addresses were written (or withheld) in this reconciliation and nobody has read the node since.
    pub(super) fn addresses_settled(&self) -> bool {
        self.state.addresses_settled
    }

    /// The same for labels.
    pub(super) fn labels_settled(&self) -> bool {
        self.state.labels_settled
    }

    /// An Event was recorded in this reconciliation.
    pub(super) fn has_told(&self) -> bool {
        self.state.told
    }

    /// There is nothing more to say about this node.
    pub(super) fn is_over(&self) -> bool {
        self.state.over
    }
}
