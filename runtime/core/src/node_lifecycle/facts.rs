//! The facts of one reconciliation of a node that is NotReady, or Ready again. Decides nothing.

use std::sync::Arc;

use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::node::ownership::OwnershipContext;
use crate::reconciliation::effect::{BudgetOutcome, ClusterError, Performed};
use crate::reconciliation::event::reasons::{self, EventReason};
use crate::reconciliation::write_refusal::Refusals;
use crate::safety::brake::Brake;
use crate::safety::budget_reservation::{Asked, BudgetReservation, Reservation};
use crate::settings::LifecycleRules;

use super::deletion_guard::{Evidence, Held};
use super::effect::{LifecycleEffect, LifecycleOutcome};
use super::not_ready_history::transition;

/// Maximum re-reads of the node after a conflict in one reconciliation; upstream's number (LIFE-014).
const MAX_CONFLICTS: u32 = 5;

/// Result of a pass that requires a reconciliation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The node is Ready (LIFE-005). The provider was not asked.
    Back,
    /// Its machine runs.
    Running,
    /// Its machine is switched off.
    ShutDown,
    /// Its machine is called gone.
    Gone(Box<Evidence>),
    /// Repeated answers about it do not count, for this reason.
    Held(Held),
}

/// State kept from earlier reconciliations of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetainedState {
    /// Number of consecutive failures.
    pub failures: u32,
    /// Condition reported as holding its deletion, and when.
    pub held: Option<(&'static str, Moment)>,
    /// Since when the brake holds its deletion, without an answer that contradicts it.
    pub braked: Option<Moment>,
    /// Reason of the last Event about a failure.
    pub reported: Option<&'static EventReason>,
    /// Budget taken for changes that were not made.
    pub reservation: BudgetReservation,
}

/// The facts of one reconciliation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The node: from the cache, or as the API server returned it since.
    pub node: Arc<PrunedNode>,
    /// The ownership context of the provider.
    pub ownership: Arc<OwnershipContext>,
    /// Limits and options for decisions.
    pub rules: Arc<LifecycleRules>,
    /// The result of the pass for this node.
    pub finding: Finding,
    /// State kept from earlier reconciliations.
    pub past: RetainedState,
    pub(super) state: ReconcileState,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReconcileState {
    /// The node was read from the API server itself.
    pub(super) is_read: bool,
    pub(super) refusals: Refusals<MAX_CONFLICTS>,
    /// The re-read node shows that its readiness has changed since the look-up.
    pub(super) has_changed: bool,
    /// The mode withheld a change.
    is_withheld: bool,
    /// A change was made.
    is_changed: bool,
    /// The deletion was sent.
    is_tried: bool,
    /// Whether only pods are left that a drain leaves, if checked.
    drained: Option<bool>,
    budgets: Asked,
    /// Reasons of the Events of this reconciliation.
    pub(super) event_reasons: Vec<String>,
    /// The condition that was reported as holding the deletion.
    pub(super) held: Option<&'static str>,
    pub(super) is_over: bool,
}

impl Facts {
    /// Facts at the start of a reconciliation.
    pub fn new(
        node: Arc<PrunedNode>,
        ownership: Arc<OwnershipContext>,
        rules: Arc<LifecycleRules>,
        finding: Finding,
        past: RetainedState,
    ) -> Facts {
        Facts {
            node,
            ownership,
            rules,
            finding,
            past,
            state: ReconcileState::default(),
        }
    }

    /// Adds the result of `effect`.
    pub fn absorb(&mut self, effect: &LifecycleEffect, performed: Performed<LifecycleOutcome>) {
        let Performed::Ended(outcome) = performed else {
            return self.withhold(effect);
        };
        let state = &mut self.state;
        match outcome {
            LifecycleOutcome::Budget(brake, BudgetOutcome::Answered(answer)) => {
                state.budgets.insert(brake, answer);
            }
            LifecycleOutcome::Budget(_, BudgetOutcome::Failed(error)) => state.refusals.fail(error),
            LifecycleOutcome::Returned(brake) => {
                state.budgets.remove(&brake);
            }
            LifecycleOutcome::Event(_) => self.note(effect),
            LifecycleOutcome::Held(condition) => state.held = Some(condition),
            LifecycleOutcome::Drained(is_drained) => state.drained = Some(is_drained),
            LifecycleOutcome::Node(Ok(Some(node))) if node.uid() == self.node.uid() => {
                state.has_changed |= transition(&node) != transition(&self.node);
                self.node = Arc::from(node);
                match effect {
                    LifecycleEffect::Read(_) => {
                        state.is_read = true;
                        state.refusals.was_read();
                    }
                    _ => {
                        state.is_changed = true;
                        state.is_over = true;
                    }
                }
            }
            // Deleted, or recreated under the same name: the new one has its own reconciliation (EDGE-005).
            LifecycleOutcome::Node(Ok(_)) => state.is_over = true,
            LifecycleOutcome::Deleted(Ok(_)) => {
                state.is_tried = true;
                state.is_over = true;
            }
            LifecycleOutcome::Node(Err(error)) => match effect {
                LifecycleEffect::Read(_) => state.refusals.read_failed(error),
                _ => state.refusals.write_failed(error),
            },
            LifecycleOutcome::Deleted(Err(error)) => {
                state.is_tried = true;
                state.refusals.write_failed(error);
            }
        }
    }

    /// A write withheld by the mode ends the reconciliation, as a real one would.
    fn withhold(&mut self, effect: &LifecycleEffect) {
        match effect {
            LifecycleEffect::Patch(..) | LifecycleEffect::Delete(..) => {
                self.state.is_withheld = true;
                self.state.is_over = true;
            }
            _ => self.note(effect),
        }
    }

    /// An Event was recorded, or withheld.
    fn note(&mut self, effect: &LifecycleEffect) {
        if let LifecycleEffect::RecordEvent(_, event) = effect {
            self.state.event_reasons.push(event.reason.clone());
        }
    }

    /// The state kept for the next reconciliation of this node.
    pub(super) fn left_behind(&self, now: Moment) -> RetainedState {
        // A refused taint is not due for a retry yet.
        let credit = self.credit(Brake::ShutdownTaint, now);
        let is_spared = !self.state.is_changed && matches!(credit, Reservation::Refused(_));
        let failures = match self.state.refusals.trouble() {
            Some(_) => self.past.failures.saturating_add(1),
            None if is_spared || self.is_braked() => self.past.failures,
            None => 0,
        };
        let failed = self.state.event_reasons.iter().rev().find_map(|reason| {
            REPEATED
                .into_iter()
                .find(|repeated| repeated.reason == reason)
        });
        let is_blocked = self.state.budgets.values().any(Result::is_err);
        // A refused deletion was not made, and its budget is given back.
        let is_refused = self
            .state
            .refusals
            .trouble()
            .is_some_and(ClusterError::is_final);
        let is_deletion = matches!(self.finding, Finding::Gone(_));
        RetainedState {
            failures,
            held: self
                .state
                .held
                .map(|condition| (condition, now))
                .or(self.past.held),
            braked: match self.budget(Brake::NodeDeletion) {
                Some(Err(_)) => self.past.braked.or(Some(now)),
                Some(Ok(())) => None,
                None => self.past.braked,
            },
            reported: match self.state.refusals.trouble().is_some() || is_blocked || is_spared {
                true => failed.or(self.past.reported),
                false => None,
            },
            reservation: match self.state.is_changed {
                true => BudgetReservation::default(),
                false if is_refused && is_deletion => BudgetReservation::default(),
                false if self.state.is_withheld => self.reservation(now).for_ever(),
                false => self.reservation(now),
            },
        }
    }

    /// Whether the budget of deletions was found exhausted.
    fn is_braked(&self) -> bool {
        matches!(self.budget(Brake::NodeDeletion), Some(Err(_)))
    }

    /// Whether budget was taken for a deletion that was not tried: the node was read only afterwards, and stays, is gone
    /// or cannot be read.
    pub(super) fn owes_budget(&self) -> bool {
        let is_taken = matches!(self.budget(Brake::NodeDeletion), Some(Ok(())));
        is_taken && !self.state.is_tried && !self.state.is_withheld
    }

    /// Whether the node was cordoned and completely drained.
    pub(super) fn is_drained(&self) -> bool {
        self.state.drained == Some(true) && self.node.is_unschedulable()
    }

    /// Whether checking for a drain is useful.
    pub(super) fn may_be_drained(&self) -> bool {
        self.state.drained.is_none() && self.node.is_unschedulable()
    }

    fn reservation(&self, now: Moment) -> BudgetReservation {
        self.past.reservation.clone().and(&self.state.budgets, now)
    }

    /// Whether the brake's budget covers a change.
    pub(super) fn credit(&self, brake: Brake, now: Moment) -> Reservation {
        let asked = &self.state.budgets;
        self.past.reservation.credit(brake, asked, now)
    }

    /// Result of taking budget from `brake`, if tried.
    fn budget(&self, brake: Brake) -> Option<Result<(), Moment>> {
        self.state.budgets.get(&brake).copied()
    }

    /// Whether an Event with this reason was recorded.
    pub(super) fn has_recorded(&self, reason: &EventReason) -> bool {
        self.state
            .event_reasons
            .iter()
            .any(|recorded| recorded == reason.reason)
    }
}

/// Event reasons that are reported once and not at every try.
const REPEATED: [&EventReason; 3] = [
    reasons::DELETING_NODE_FAILED,
    reasons::NODE_UPDATE_FAILED,
    reasons::BRAKE_ENGAGED,
];
