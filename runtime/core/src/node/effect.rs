//! The node controller's effects, and their outcomes, as values. Performs nothing.

use std::fmt;
use std::sync::Arc;

use super::object::NodeRef;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{CloudEvent, Lookup};
use crate::node::index::Clashes;
use crate::node::object::PrunedNode;
use crate::node::ownership::{Verdict, Vote};
use crate::reconciliation::effect::{
    BudgetOutcome, Effect, EventOutcome, Modification, ObjectResult, Outcome, object_label,
};
use crate::reconciliation::patch::{NodePatch, NodeStatusPatch};
use crate::safety::brake::{Brake, Rise};
use crate::safety::plan::bookkeeping::is_all_of_node;
use crate::well_known::NODE_CONTROLLER;

/// One action about a node.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeEffect {
    /// Ask the provider about the node, as it is known now. The executor may batch several into one call, and only then
    /// derives the provider's view of the node, because thousands may be queued.
    Find(Arc<PrunedNode>),
    /// Cast this provider's vote on a node with several candidates, and read the verdict.
    CastVote(NodeRef, CandidateVote),
    /// Read the node from the API server itself, not from a cache.
    Read(NodeRef),
    /// Take one change from a brake's budget. It is not returned.
    TakeBudget(NodeRef, Brake, Rise),
    /// Write `status.addresses`.
    PatchStatus(NodeRef, NodeStatusPatch),
    /// Write provider ID, labels and taints.
    Patch(NodeRef, NodePatch),
    /// Record an Event. Best effort: never fails.
    RecordEvent(NodeRef, CloudEvent),
}

/// The outcome of a [`NodeEffect`].
#[derive(Debug, Clone, PartialEq)]
pub enum NodeOutcome {
    /// Outcome of [`NodeEffect::Find`].
    Looked(Result<Looked, ProviderError>),
    /// Outcome of [`NodeEffect::CastVote`]: the combined verdict, and whether to report it.
    VoteCast(Verdict, bool),
    /// Outcome of [`NodeEffect::TakeBudget`].
    Budget(Brake, BudgetOutcome),
    /// Outcome of [`NodeEffect::Read`] and both patches.
    Node(ObjectResult<PrunedNode>),
    /// Outcome of [`NodeEffect::RecordEvent`].
    Event(EventOutcome),
}

/// One candidate's vote on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateVote {
    /// This provider's vote.
    pub vote: Vote,
    /// Names of the other candidates.
    pub others: Vec<String>,
    /// Whether problems that may resolve without intervention are not reported yet.
    pub is_quiet: bool,
}

/// One node's part of a provider's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// The result for the node's machine.
    pub lookup: Lookup,
    /// Events that the provider wants recorded about the node.
    pub events: Vec<CloudEvent>,
    /// Whether the answer may prove absence.
    pub complete: bool,
    /// Provider ID and addresses in the answer that another node has.
    pub clashes: Clashes,
}

impl Effect for NodeEffect {
    type Outcome = NodeOutcome;
    const CONTROLLER: &'static str = NODE_CONTROLLER;

    fn modification(&self) -> Modification<'_> {
        match self {
            NodeEffect::Find(_)
            | NodeEffect::CastVote(..)
            | NodeEffect::Read(_)
            | NodeEffect::TakeBudget(..) => Modification::None,
            NodeEffect::PatchStatus(node, _) => Modification::of_node(node, "patch status", false),
            NodeEffect::Patch(node, patch) => {
                Modification::of_node(node, "patch", is_all_of_node(patch))
            }
            NodeEffect::RecordEvent(..) => Modification::Event,
        }
    }

    fn is_routine(&self) -> bool {
        matches!(self, NodeEffect::Find(_))
    }
}

impl Outcome for NodeOutcome {
    fn is_success(&self) -> bool {
        match self {
            NodeOutcome::Looked(result) => result.is_ok(),
            NodeOutcome::Budget(_, outcome) => outcome.is_success(),
            NodeOutcome::Node(result) => matches!(result, Ok(Some(_))),
            NodeOutcome::VoteCast(..) | NodeOutcome::Event(_) => true,
        }
    }
}

impl fmt::Display for NodeEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeEffect::Find(node) => write!(f, "find node/{}", node.name()),
            NodeEffect::CastVote(node, vote) => {
                let others = vote.others.join(" ");
                write!(f, "vote on {node}: {}; others: {others}", vote.vote)
            }
            NodeEffect::Read(node) => write!(f, "read {node}"),
            NodeEffect::TakeBudget(node, brake, _) => write!(f, "take budget {brake} {node}"),
            NodeEffect::PatchStatus(node, patch) => {
                let count = patch.addresses.len();
                write!(f, "patch {node}/status addresses({count})")
            }
            NodeEffect::Patch(node, patch) => write!(f, "patch {node}{patch}"),
            NodeEffect::RecordEvent(node, event) => write!(f, "event {node} {event}"),
        }
    }
}

impl fmt::Display for NodeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeOutcome::Looked(Ok(looked)) => looked.lookup.fmt(f),
            NodeOutcome::Looked(Err(error)) => error.fmt(f),
            NodeOutcome::VoteCast(verdict, _) => verdict.fmt(f),
            NodeOutcome::Budget(_, outcome) => outcome.fmt(f),
            NodeOutcome::Node(result) => object_label(result, "node", f),
            NodeOutcome::Event(outcome) => outcome.fmt(f),
        }
    }
}
