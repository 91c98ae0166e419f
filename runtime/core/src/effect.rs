//! A controller's actions as values: effects, their outcomes, and the decision that lists them. Performs nothing.
//!
//! An effect's `Display` is its only label: log lines, error texts and transcripts all use it.

mod route;
mod service;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use thiserror::Error;

use crate::brake::{Brake, Rise};
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{CloudEvent, FindReply, Lookup};
use crate::moment::{Moment, rounded};
use crate::node::object::{NodeRef, name};
use crate::node_index::Clashes;
use crate::node_lifecycle::survey::Survey;
use crate::node_ownership::{Verdict, Vote};
use crate::patch::{NetworkConditionPatch, NodePatch, NodeStatusPatch, PodCidrsPatch};

pub use route::{RouteEffect, RouteOutcome};
pub use service::{
    Answered, InUse, OwnerState, ServiceEffect, ServiceOutcome, ServiceRef, Vouching, Witnesses,
};

/// The result of `decide`.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody carries out is lost"]
pub enum Decision<End = When> {
    /// Perform these in order. The first failure skips the rest; then decide again.
    Do(Vec<Effect>),
    /// Nothing to do now: when to look again, with the state for the next reconciliation if the controller retains any.
    Done(End),
}

impl<End> Decision<End> {
    /// The same decision, with another end.
    pub fn map_end<Other>(self, change: impl FnOnce(End) -> Other) -> Decision<Other> {
        match self {
            Decision::Do(effects) => Decision::Do(effects),
            Decision::Done(end) => Decision::Done(change(end)),
        }
    }
}

/// When to look at the object again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// When it changes: nothing is missing.
    AwaitChange,
    /// When it changes: something is missing that waiting does not provide.
    Blocked {
        /// What is missing, human-readable.
        why: String,
    },
    /// After a delay, or earlier when the object changes.
    Retry {
        /// The delay.
        after: Duration,
        /// What is missing, human-readable.
        why: String,
    },
    /// After a delay and not earlier, whatever changes.
    NotBefore {
        /// The delay.
        after: Duration,
        /// What is missing, human-readable.
        why: String,
    },
}

/// One action.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the provider about one node, as it is known now. The executor may batch several into one call, and only then
    /// derives the provider's view of the node, because thousands may be queued.
    Find(Arc<Node>),
    /// Ask the provider about these nodes, in one call.
    Survey(Arc<Survey>),
    /// Cast this provider's vote on a node with several candidates, and read the verdict.
    CastVote(NodeRef, CandidateVote),
    /// Read a node from the API server itself, not from a cache.
    ReadNode(NodeRef),
    /// Read whether a drain of this node has completed.
    ReadPods(NodeRef),
    /// Take one change for this node from a brake's budget. It is not returned.
    TakeBudget(NodeRef, Brake, Rise),
    /// Write a node's addresses.
    PatchNodeStatus(NodeRef, NodeStatusPatch),
    /// Write a node's provider ID, labels and taints.
    PatchNode(NodeRef, NodePatch),
    /// Write the pod CIDRs of a node that has none.
    PatchPodCidrs(NodeRef, PodCidrsPatch),
    /// Write a node's `NetworkUnavailable` condition.
    PatchNetworkCondition(NodeRef, NetworkConditionPatch),
    /// Delete a node, if UID and resource version still match.
    DeleteNode(NodeRef, NodeDeletion),
    /// Count and log that a node's deletion is held by this condition.
    Hold(NodeRef, &'static str),
    /// Record an Event about a node. Best effort: never fails.
    RecordNodeEvent(NodeRef, CloudEvent),
    /// An action about a Service.
    Service(ServiceRef, ServiceEffect),
    /// An action about routes.
    Route(RouteEffect),
}

/// One candidate's vote on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateVote {
    /// The vote.
    pub opinion: Vote,
    /// The other candidates.
    pub others: Vec<String>,
    /// Do not report problems yet that may resolve without intervention.
    pub is_patient: bool,
}

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

/// The result of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Of [`Effect::Find`].
    Looked(Result<Looked, ProviderError>),
    /// Of [`Effect::Survey`]: one lookup for each node asked about, in order.
    Surveyed(Result<FindReply, ProviderError>),
    /// Of [`Effect::CastVote`]: the combined verdict, and whether to report it.
    VoteCast(Verdict, bool),
    /// Of the effects on nodes: the current node. `None`: it does not exist.
    Node(Result<Option<Box<Node>>, ClusterError>),
    /// Of [`Effect::ReadPods`]. `false` also when pods may not be read.
    Drained(bool),
    /// Of [`Effect::TakeBudget`], [`ServiceEffect::TakeBudget`] and [`RouteEffect::TakeBudget`]; the error is when
    /// budget is available again.
    Budget(Result<(), Moment>),
    /// Of [`Effect::DeleteNode`]: the node no longer exists.
    Deleted,
    /// Of [`Effect::RecordNodeEvent`], [`ServiceEffect::RecordEvent`] and [`Effect::Hold`].
    Recorded,
    /// An Event is to be written later: something that pods wait for comes first.
    Deferred,
    /// The API server did not store an Event, for this reason. Nothing waits for it.
    Unrecorded(String),
    /// Of all other Service effects.
    Service(ServiceOutcome),
    /// Of all other route effects.
    Route(RouteOutcome),
    /// The change to the cluster or a cloud was computed and reported but not made: the manager is not in enforce mode.
    Withheld,
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

/// Why the API server did not perform a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    /// The object has changed since it was read (409).
    #[error("conflict: {0}")]
    Conflict(String),
    /// The API server always refuses this request (400, 422). Also returned when the UID of a patch does not match the
    /// object.
    #[error("rejected: {0}")]
    Rejected(String),
    /// This manager lacks permission (401, 403).
    #[error("denied: {0}")]
    Denied(String),
    /// No answer, or one that asks for a retry. Whether a write was made is unknown.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl ClusterError {
    /// Whether the request was not performed and would be refused again.
    pub fn is_final(&self) -> bool {
        matches!(self, ClusterError::Denied(_) | ClusterError::Rejected(_))
    }
}

impl Outcome {
    /// Whether the rest of a decision may still be performed.
    pub fn is_success(&self) -> bool {
        match self {
            Outcome::Looked(result) => result.is_ok(),
            Outcome::Node(result) => matches!(result, Ok(Some(_))),
            Outcome::Budget(result) => result.is_ok(),
            Outcome::Surveyed(result) => result.is_ok(),
            Outcome::Service(outcome) => outcome.is_success(),
            Outcome::Route(outcome) => outcome.is_success(),
            Outcome::Recorded
            | Outcome::Deferred
            | Outcome::Unrecorded(_)
            | Outcome::Deleted
            | Outcome::Drained(_)
            | Outcome::VoteCast(..) => true,
            Outcome::Withheld => false,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Find(node) => {
                write!(f, "find node/{}", name(node))
            }
            Effect::Survey(survey) => survey.fmt(f),
            Effect::CastVote(node, word) => {
                let others = word.others.join(" ");
                write!(
                    f,
                    "confer node/{} {} with {others}",
                    node.name, word.opinion
                )
            }
            Effect::ReadNode(node) => write!(f, "read node/{}", node.name),
            Effect::ReadPods(node) => write!(f, "read pods of node/{}", node.name),
            Effect::TakeBudget(node, brake, _) => {
                write!(f, "take budget {brake} node/{}", node.name)
            }
            Effect::PatchNodeStatus(node, patch) => {
                write!(
                    f,
                    "patch node/{}/status addresses({})",
                    node.name,
                    patch.addresses.len()
                )
            }
            Effect::PatchNode(node, patch) => {
                write!(f, "patch node/{}", node.name)?;
                if let Some(provider_id) = &patch.provider_id {
                    write!(f, " providerID={provider_id}")?;
                }
                if !patch.labels.is_empty() {
                    write!(f, " labels({})", patch.labels.len())?;
                }
                if let Some(taints) = &patch.taints {
                    write!(f, " {} taints({})", taints.change, taints.taints.len())?;
                }
                Ok(())
            }
            Effect::DeleteNode(node, _) => write!(f, "delete node/{}", node.name),
            Effect::Hold(node, condition) => {
                write!(f, "hold deletion node/{} {condition}", node.name)
            }
            Effect::RecordNodeEvent(node, event) => {
                write!(
                    f,
                    "event node/{} {} {}",
                    node.name,
                    event.event_type.as_str(),
                    event.reason
                )
            }
            Effect::PatchPodCidrs(node, patch) => {
                let cidrs = patch.pod_cidrs.join(",");
                write!(f, "patch node/{} podCIDRs={cidrs}", node.name)
            }
            Effect::PatchNetworkCondition(node, patch) => {
                let (is, reason) = (patch.is_unavailable, patch.reason);
                write!(
                    f,
                    "patch node/{}/status NetworkUnavailable={is}({reason})",
                    node.name
                )
            }
            Effect::Service(service, effect) => effect.label(service, f),
            Effect::Route(effect) => effect.fmt(f),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Looked(Ok(looked)) => write!(f, "{}", looked.lookup),
            Outcome::Looked(Err(error)) | Outcome::Surveyed(Err(error)) => write!(f, "{error}"),
            Outcome::Surveyed(Ok(reply)) => {
                if !reply.complete {
                    write!(f, "incomplete: ")?;
                }
                let lookups: Vec<String> = reply.lookups.iter().map(Lookup::to_string).collect();
                write!(f, "{}", lookups.join(", "))
            }
            Outcome::VoteCast(verdict, _) => verdict.fmt(f),
            Outcome::Node(Ok(Some(_)))
            | Outcome::Budget(Ok(()))
            | Outcome::Recorded
            | Outcome::Deleted => {
                write!(f, "done")
            }
            Outcome::Drained(true) => write!(f, "drained"),
            Outcome::Drained(false) => write!(f, "not drained"),
            Outcome::Budget(Err(_)) => write!(f, "nothing left"),
            Outcome::Node(Ok(None)) => write!(f, "no such node"),
            Outcome::Node(Err(error)) => write!(f, "{error}"),
            Outcome::Service(outcome) => outcome.fmt(f),
            Outcome::Route(outcome) => outcome.fmt(f),
            Outcome::Deferred => write!(f, "deferred"),
            Outcome::Unrecorded(why) => write!(f, "not recorded: {why}"),
            Outcome::Withheld => write!(f, "withheld"),
        }
    }
}

impl When {
    /// Why the reconciliation is not finished; `None` if it is.
    pub fn why(&self) -> Option<&str> {
        match self {
            When::AwaitChange => None,
            When::Blocked { why } | When::Retry { why, .. } | When::NotBefore { why, .. } => {
                Some(why)
            }
        }
    }

    /// When the object is reconciled again, without the reason: for people, so that the time is rounded.
    pub fn next(&self) -> String {
        match self {
            When::AwaitChange | When::Blocked { .. } => "await change".to_owned(),
            When::Retry { after, .. } => format!("again in {:?}", rounded(*after)),
            When::NotBefore { after, .. } => format!("not before {:?}", rounded(*after)),
        }
    }
}

/// What comes next, and the reason.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.next())?;
        match self.why() {
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lookup::Found(instance) => {
                let provider_id = Some(instance.provider_id.as_str()).filter(|id| !id.is_empty());
                write!(f, "found {}", provider_id.unwrap_or("-"))?;
                for part in [&instance.instance_type, &instance.zone, &instance.region] {
                    write!(f, " {}", part.as_deref().unwrap_or("-"))?;
                }
                write!(f, " addresses({})", instance.addresses.len())?;
                match instance.shutdown {
                    Some(true) => write!(f, " switched off"),
                    Some(false) => write!(f, " running"),
                    None => Ok(()),
                }
            }
            Lookup::Gone => write!(f, "gone"),
            Lookup::NotMine => write!(f, "not mine"),
            Lookup::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}
