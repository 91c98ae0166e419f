//! The node lifecycle controller's effects, and their outcomes, as values. Performs nothing.

use std::fmt;

use crate::cloud::instance::CloudEvent;
use crate::node::object::{NodeRef, PrunedNode};
use crate::reconciliation::effect::{
    BudgetOutcome, ClusterError, Effect, EventOutcome, Modification, ObjectResult, Outcome,
    object_label,
};
use crate::reconciliation::patch::NodePatch;
use crate::safety::brake::{Brake, Rise};
use crate::safety::plan::bookkeeping::is_all_of_node;
use crate::well_known::NODE_LIFECYCLE_CONTROLLER;

/// One action about a node that is NotReady, or Ready again.
#[derive(Debug, Clone, PartialEq)]
pub enum LifecycleEffect {
    /// Read the node from the API server itself, not from a cache.
    Read(NodeRef),
    /// Read whether a drain of the node has completed.
    ReadPods(NodeRef),
    /// Take one change from a brake's budget.
    TakeBudget(NodeRef, Brake, Rise),
    /// Return the change that was taken: it is not made.
    ReturnBudget(NodeRef, Brake),
    /// Write `spec.taints`.
    Patch(NodeRef, NodePatch),
    /// Delete the node, if UID and resource version still match.
    Delete(NodeRef, NodeDeletion),
    /// Count and log that the deletion is held by this condition.
    Hold(NodeRef, &'static str),
    /// Record an Event. Best effort: never fails.
    RecordEvent(NodeRef, CloudEvent),
}

/// The outcome of a [`LifecycleEffect`].
#[derive(Debug, Clone, PartialEq)]
pub enum LifecycleOutcome {
    /// Outcome of [`LifecycleEffect::Read`] and [`LifecycleEffect::Patch`].
    Node(ObjectResult<PrunedNode>),
    /// Outcome of [`LifecycleEffect::ReadPods`]. `false` also when pods may not be read.
    Drained(bool),
    /// Outcome of [`LifecycleEffect::TakeBudget`].
    Budget(Brake, BudgetOutcome),
    /// Outcome of [`LifecycleEffect::ReturnBudget`].
    Returned(Brake),
    /// Outcome of [`LifecycleEffect::Delete`].
    Deleted(DeletionResult),
    /// Outcome of [`LifecycleEffect::Hold`]: the condition that holds the deletion.
    Held(&'static str),
    /// Outcome of [`LifecycleEffect::RecordEvent`].
    Event(EventOutcome),
}

/// The result of a node deletion. `None`: the node did not exist any more.
pub type DeletionResult = Result<Option<()>, ClusterError>;

/// The details of a node deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDeletion {
    /// `metadata.resourceVersion` that the decision is based on: a node that has changed since is not deleted.
    pub resource_version: String,
    /// The brake whose budget is charged; `None`: the node is marked for removal.
    pub brake: Option<Brake>,
    /// Why, for logs and the audit record.
    pub reason: String,
}

impl Effect for LifecycleEffect {
    type Outcome = LifecycleOutcome;
    const CONTROLLER: &'static str = NODE_LIFECYCLE_CONTROLLER;

    fn modification(&self) -> Modification<'_> {
        match self {
            LifecycleEffect::Read(_)
            | LifecycleEffect::ReadPods(_)
            | LifecycleEffect::TakeBudget(..)
            | LifecycleEffect::ReturnBudget(..)
            | LifecycleEffect::Hold(..) => Modification::None,
            LifecycleEffect::Patch(node, patch) => {
                Modification::of_node(node, "patch", is_all_of_node(patch))
            }
            LifecycleEffect::Delete(node, _) => Modification::of_node(node, "delete", false),
            LifecycleEffect::RecordEvent(..) => Modification::Event,
        }
    }
}

impl Outcome for LifecycleOutcome {
    fn is_success(&self) -> bool {
        match self {
            LifecycleOutcome::Node(result) => matches!(result, Ok(Some(_))),
            LifecycleOutcome::Budget(_, outcome) => outcome.is_success(),
            LifecycleOutcome::Deleted(result) => matches!(result, Ok(Some(()))),
            LifecycleOutcome::Drained(_)
            | LifecycleOutcome::Returned(_)
            | LifecycleOutcome::Held(_)
            | LifecycleOutcome::Event(_) => true,
        }
    }
}

impl fmt::Display for LifecycleEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LifecycleEffect::Read(node) => write!(f, "read {node}"),
            LifecycleEffect::ReadPods(node) => write!(f, "read pods of {node}"),
            LifecycleEffect::TakeBudget(node, brake, _) => write!(f, "take budget {brake} {node}"),
            LifecycleEffect::ReturnBudget(node, brake) => write!(f, "return budget {brake} {node}"),
            LifecycleEffect::Patch(node, patch) => write!(f, "patch {node}{patch}"),
            LifecycleEffect::Delete(node, _) => write!(f, "delete {node}"),
            LifecycleEffect::Hold(node, condition) => write!(f, "hold deletion {node} {condition}"),
            LifecycleEffect::RecordEvent(node, event) => write!(f, "event {node} {event}"),
        }
    }
}

impl fmt::Display for LifecycleOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LifecycleOutcome::Node(result) => object_label(result, "node", f),
            LifecycleOutcome::Drained(true) => f.write_str("drained"),
            LifecycleOutcome::Drained(false) => f.write_str("not drained"),
            LifecycleOutcome::Budget(_, outcome) => outcome.fmt(f),
            LifecycleOutcome::Deleted(Ok(Some(())))
            | LifecycleOutcome::Returned(_)
            | LifecycleOutcome::Held(_) => f.write_str("done"),
            LifecycleOutcome::Deleted(Ok(None)) => f.write_str("no such node"),
            LifecycleOutcome::Deleted(Err(error)) => error.fmt(f),
            LifecycleOutcome::Event(outcome) => outcome.fmt(f),
        }
    }
}
