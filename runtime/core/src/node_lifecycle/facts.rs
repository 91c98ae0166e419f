//! What one reconciliation about a NotReady node, or one that is back, knows. Decides nothing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::brake::Brake;
use crate::budget_reservation::{Asked, BudgetReservation, Reservation};
use crate::effect::{ClusterError, Effect, Outcome};
use crate::moment::Moment;
use crate::ownership::OwnershipContext;
use crate::settings::LifecycleRules;
use crate::write_refusal::Refusals;

use super::deletion_guard::{Evidence, Held};
use super::drain::is_cordoned;
use super::history::transition;

/// How often a reconciliation reads the node again after a conflict; upstream's number (LIFE-014).
const MAX_CONFLICTS: u32 = 5;

/// Why there is something to do about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It is Ready (LIFE-005). The provider was not asked.
    Back,
    /// Its machine runs.
    Running,
    /// Its machine is switched off.
    ShutDown,
    /// Its machine is called gone.
    Gone(Box<Evidence>),
    /// Again and again the answer does not count.
    Held(Held),
}

/// What earlier reconciliations about the node have left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetainedState {
    /// How many have failed in a row.
    pub failures: u32,
    /// The condition that was said to hold its deletion, and when.
    pub held: Option<(&'static str, Moment)>,
    /// Since when the brake holds its deletion, without an answer that says otherwise.
    pub braked: Option<Moment>,
    /// The reason of the last Event about a failure.
    pub said: Option<&'static str>,
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
    pub rules: Arc<LifecycleRules>,
    /// What was found.
    pub finding: Finding,
    /// What was before.
    pub past: RetainedState,
    state: ReconcileState,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct ReconcileState {
    is_read: bool,
    refusals: Refusals<MAX_CONFLICTS>,
    /// As it was read, its readiness has changed since the question was asked.
    has_changed: bool,
    /// A change was worked out and not made: nothing may be changed.
    is_withheld: bool,
    /// One was made.
    is_changed: bool,
    /// What is left on the node is what a drain leaves, where that was asked.
    drained: Option<bool>,
    budgets: Asked,
    /// Reasons of the Events of this reconciliation.
    said: Vec<String>,
    held: Option<&'static str>,
    over: bool,
}

impl Facts {
    /// What is known at the beginning.
    pub fn new(
        node: Arc<Node>,
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

    /// Adds how `effect` ended.
    pub fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        let state = &mut self.state;
        match outcome {
            Outcome::Budget(result) => {
                if let Effect::TakeBudget(_, brake, _) = effect {
                    state.budgets.insert(*brake, result);
                }
            }
            Outcome::Recorded | Outcome::Unrecorded(_) | Outcome::Withheld => self.note(effect),
            Outcome::Deleted => state.over = true,
            Outcome::Drained(is_drained) => state.drained = Some(is_drained),
            Outcome::Node(Ok(Some(node))) if node.metadata.uid == self.node.metadata.uid => {
                state.has_changed |= transition(&node) != transition(&self.node);
                self.node = Arc::from(node);
                match effect {
                    Effect::ReadNode(_) => {
                        state.is_read = true;
                        state.refusals.was_read();
                    }
                    _ => {
                        state.is_changed = true;
                        state.over = true;
                    }
                }
            }
            // Gone, or made again under the same name: the new one has a reconciliation of its own (EDGE-005).
            Outcome::Node(Ok(_)) => state.over = true,
            Outcome::Node(Err(error)) => self.absorb_error(effect, error),
            Outcome::Looked(_)
            | Outcome::Surveyed(_)
            | Outcome::VoteCast(..)
            | Outcome::Service(_)
            | Outcome::Route(_) => {}
        }
    }

    /// Something was said; a write outside of enforce mode is the end, as it would be when it is made.
    fn note(&mut self, effect: &Effect) {
        match effect {
            Effect::RecordNodeEvent(_, event) => self.state.said.push(event.reason.clone()),
            Effect::Hold(_, condition) => self.state.held = Some(condition),
            Effect::PatchNode(..) | Effect::DeleteNode(..) => {
                self.state.is_withheld = true;
                self.state.over = true;
            }
            _ => {}
        }
    }

    fn absorb_error(&mut self, effect: &Effect, error: ClusterError) {
        match effect {
            Effect::ReadNode(_) => self.state.refusals.read_failed(error),
            _ => self.state.refusals.write_failed(error),
        }
    }

    /// What the next reconciliation about this node has to know.
    pub(super) fn left_behind(&self, now: Moment) -> RetainedState {
        // What was refused is not tried yet.
        let credit = self.past.reservation.credit(Brake::ShutdownTaint, now);
        let is_spared = !self.state.is_changed && matches!(credit, Reservation::InVain(_));
        let failures = match self.trouble() {
            Some(_) => self.past.failures.saturating_add(1),
            None if is_spared || self.is_braked() => self.past.failures,
            None => 0,
        };
        let failed = self.state.said.iter().rev().find_map(|reason| {
            REPEATED
                .into_iter()
                .find(|repeated| *repeated == reason.as_str())
        });
        let is_blocked = self.state.budgets.values().any(Result::is_err);
        // It was not made, and is given back.
        let is_refused = self.trouble().is_some_and(ClusterError::is_final);
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
            said: match self.trouble().is_some() || is_blocked || is_spared {
                true => failed.or(self.past.said),
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

    /// Whether nothing was left in the budget of deletions, when it was asked.
    fn is_braked(&self) -> bool {
        matches!(self.budget(Brake::NodeDeletion), Some(Err(_)))
    }

    /// Whether the node is as the API server itself has it.
    pub(super) fn is_read(&self) -> bool {
        self.state.is_read
    }

    /// Whether somebody has cordoned the node and drained it to the end.
    pub(super) fn is_drained(&self) -> bool {
        self.state.drained == Some(true) && is_cordoned(&self.node)
    }

    /// Whether that is worth asking.
    pub(super) fn may_be_drained(&self) -> bool {
        self.state.drained.is_none() && is_cordoned(&self.node)
    }

    /// Whether it was NotReady for another reason, or Ready for a while, when that was last looked at.
    pub(super) fn has_changed(&self) -> bool {
        self.state.has_changed
    }

    pub(super) fn has_to_read_again(&self) -> bool {
        self.state.refusals.has_to_read_again()
    }

    /// What the API server would not do.
    pub(super) fn trouble(&self) -> Option<&ClusterError> {
        self.state.refusals.trouble()
    }

    fn reservation(&self, now: Moment) -> BudgetReservation {
        self.past.reservation.clone().and(&self.state.budgets, now)
    }

    /// Whether there was something left in a brake's budget, when it was asked.
    pub(super) fn budget(&self, brake: Brake) -> Option<Result<(), Moment>> {
        self.state.budgets.get(&brake).copied()
    }

    /// An Event was recorded in this reconciliation.
    pub(super) fn has_told(&self) -> bool {
        !self.state.said.is_empty()
    }

    /// An Event with this reason was.
    pub(super) fn has_said(&self, reason: &str) -> bool {
        self.state.said.iter().any(|said| said == reason)
    }

    /// A hold was said in this reconciliation.
    pub(super) fn has_held(&self) -> bool {
        self.state.held.is_some()
    }

    /// There is nothing more to say about this node.
    pub(super) fn is_over(&self) -> bool {
        self.state.over
    }
}

/// Reasons of Events that are said once and not at every try.
const REPEATED: [&str; 3] = ["DeletingNodeFailed", "NodeUpdateFailed", "BrakeEngaged"];
