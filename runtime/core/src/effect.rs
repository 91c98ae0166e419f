//! What a controller does to the world, as values: effects, their outcomes, and the decision that names
//! them. Carries nothing out.
//!
//! An effect's `Display` is its one label: log line, error text and transcript all use it.

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
use crate::moment::Moment;
use crate::node::object::NodeRef;
use crate::node_index::Clashes;
use crate::node_lifecycle::survey::Survey;
use crate::ownership::{Verdict, Vote};
use crate::patch::{NetworkConditionPatch, NodePatch, NodeStatusPatch, PodCidrsPatch};

pub use route::{RouteEffect, RouteOutcome};
pub use service::{
    Answered, InUse, OwnerState, ServiceEffect, ServiceOutcome, ServiceRef, Vouching, Witnesses,
};

/// What `decide` wants.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody carries out is lost"]
pub enum Decision {
    /// Perform these in order. The first that fails ends the list; then decide again.
    Do(Vec<Effect>),
    /// Nothing to do now.
    Done(When),
}

/// When to look at the object again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// When it changes: nothing is missing.
    AwaitChange,
    /// When it changes, although something is missing that nobody will bring by waiting.
    Blocked {
        /// What is missing, for people.
        why: String,
    },
    /// After a while, or earlier when it changes.
    Retry {
        /// The while.
        after: Duration,
        /// What is missing, for people.
        why: String,
    },
    /// After a while and not earlier, whatever changes.
    NotBefore {
        /// The while.
        after: Duration,
        /// What is missing, for people.
        why: String,
    },
}

/// One act.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the provider about one node, as it is known now. Whoever performs it may put several into one call, and
    /// makes of the node what a provider may see then: thousands wait for their turn.
    Find(Arc<Node>),
    /// Ask the provider about these nodes, in one call.
    Survey(Arc<Survey>),
    /// Tell the other providers that could speak for a node what this one says of it, and hear what they say.
    CastVote(NodeRef, CandidateVote),
    /// Read a node from the API server itself, not from a cache.
    ReadNode(NodeRef),
    /// Read whether a drain of this node has come to its end.
    ReadPods(NodeRef),
    /// Take one change out of a brake's budget, for this node. Nothing is given back.
    TakeBudget(NodeRef, Brake, Rise),
    /// Write a node's addresses.
    PatchNodeStatus(NodeRef, NodeStatusPatch),
    /// Write a node's provider ID, labels and taints.
    PatchNode(NodeRef, NodePatch),
    /// Write a node's pod CIDRs, which it has none of.
    PatchPodCidrs(NodeRef, PodCidrsPatch),
    /// Write whether a node's pod network is there.
    PatchNetworkCondition(NodeRef, NetworkConditionPatch),
    /// Delete a node, if it is still exactly this one.
    DeleteNode(NodeRef, NodeDeletion),
    /// A node's deletion is held, by this condition: counted and logged.
    Hold(NodeRef, &'static str),
    /// Record an Event about a node. Best effort: never fails.
    RecordNodeEvent(NodeRef, CloudEvent),
    /// An act about a Service.
    Service(ServiceRef, ServiceEffect),
    /// An act about routes.
    Route(RouteEffect),
}

/// What one candidate for a node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateVote {
    /// Whether it knows the machine.
    pub opinion: Vote,
    /// The other candidates.
    pub others: Vec<String>,
    /// What may pass by itself is not worth telling people yet.
    pub is_patient: bool,
}

/// What a deletion says beside whom it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDeletion {
    /// `metadata.resourceVersion` that was decided on: a node that has changed since stays.
    pub resource_version: String,
    /// The brake whose budget pays for it; `None`: somebody has said on the node that it is to leave.
    pub brake: Option<Brake>,
    /// Why, for people and for the audit.
    pub reason: String,
}

/// How an effect ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Of [`Effect::Find`].
    Looked(Result<Looked, ProviderError>),
    /// Of [`Effect::Survey`]: one lookup for each node that was asked about, in order.
    Surveyed(Result<FindReply, ProviderError>),
    /// Of [`Effect::CastVote`]: what all say together, and whether people are to be told of it.
    VoteCast(Verdict, bool),
    /// Of the effects on nodes: the node as it is now. `None`: there is no such node.
    Node(Result<Option<Box<Node>>, ClusterError>),
    /// Of [`Effect::ReadPods`]. Where pods may not be read, nobody knows of a drain.
    Drained(bool),
    /// Of [`Effect::TakeBudget`], [`ServiceEffect::TakeBudget`] and [`RouteEffect::TakeBudget`]; the error is when there is something to take again.
    Budget(Result<(), Moment>),
    /// Of [`Effect::DeleteNode`]: there is no such node any more.
    Deleted,
    /// Of [`Effect::RecordNodeEvent`], [`ServiceEffect::RecordEvent`] and [`Effect::Hold`].
    Recorded,
    /// Of an Event that the API server does not have, for this reason. Nothing waits for it.
    Unrecorded(String),
    /// Of all other acts about a Service.
    Service(ServiceOutcome),
    /// Of all other acts about routes.
    Route(RouteOutcome),
    /// The change of the cluster or of a cloud was worked out and reported, and not made: the manager does not run in
    /// enforce mode.
    Withheld,
}

/// One node's part of a provider's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// What is known about the node's machine.
    pub lookup: Lookup,
    /// What the provider wants recorded about the node.
    pub events: Vec<CloudEvent>,
    /// Whether the answer may prove absence.
    pub complete: bool,
    /// What of it is another node's.
    pub clashes: Clashes,
}

/// Why the API server did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    /// The object has changed since it was read (409).
    #[error("conflict: {0}")]
    Conflict(String),
    /// The API server will not have this, however often it is sent (400, 422). Also the answer when the
    /// UID of a patch is not the object's.
    #[error("rejected: {0}")]
    Rejected(String),
    /// We may not do this (401, 403).
    #[error("denied: {0}")]
    Denied(String),
    /// No answer, or one that says to try again. Whether a write was made is not known.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl ClusterError {
    /// Whether the same request will be refused again, and was not carried out.
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
                let name = node.metadata.name.as_deref().unwrap_or_default();
                write!(f, "find node/{name}")
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
            Outcome::Unrecorded(why) => write!(f, "not recorded: {why}"),
            Outcome::Withheld => write!(f, "withheld"),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::AwaitChange => write!(f, "await change"),
            When::Blocked { why } => write!(f, "await change: {why}"),
            When::Retry { after, why } => write!(f, "again in {after:?}: {why}"),
            When::NotBefore { after, why } => write!(f, "not before {after:?}: {why}"),
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
