//! The node IPAM controller's effects, and their outcomes, as values. Performs nothing.

use std::fmt;

use crate::cloud::instance::CloudEvent;
use crate::node::object::{NodeRef, PrunedNode};
use crate::reconciliation::effect::{
    Effect, EventOutcome, Modification, ObjectResult, Outcome, object_label,
};
use crate::reconciliation::patch::PodCidrsPatch;
use crate::well_known::IPAM_CONTROLLER;

/// One action about a node's pod CIDRs.
#[derive(Debug, Clone, PartialEq)]
pub enum IpamEffect {
    /// Read the node from the API server itself, not from a cache.
    Read(NodeRef),
    /// Write the pod CIDRs of the node, which has none.
    Patch(NodeRef, PodCidrsPatch),
    /// Record an Event. Best effort: never fails.
    RecordEvent(NodeRef, CloudEvent),
}

/// The outcome of an [`IpamEffect`].
#[derive(Debug, Clone, PartialEq)]
pub enum IpamOutcome {
    /// Outcome of [`IpamEffect::Read`] and [`IpamEffect::Patch`].
    Node(ObjectResult<PrunedNode>),
    /// Outcome of [`IpamEffect::RecordEvent`].
    Event(EventOutcome),
}

impl Effect for IpamEffect {
    type Outcome = IpamOutcome;
    const CONTROLLER: &'static str = IPAM_CONTROLLER;

    fn modification(&self) -> Modification<'_> {
        match self {
            IpamEffect::Read(_) => Modification::None,
            IpamEffect::Patch(node, _) => Modification::of_node(node, "patch", false),
            IpamEffect::RecordEvent(..) => Modification::Event,
        }
    }
}

impl Outcome for IpamOutcome {
    fn is_success(&self) -> bool {
        match self {
            IpamOutcome::Node(result) => matches!(result, Ok(Some(_))),
            IpamOutcome::Event(_) => true,
        }
    }
}

impl fmt::Display for IpamEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpamEffect::Read(node) => write!(f, "read {node}"),
            IpamEffect::Patch(node, patch) => {
                write!(f, "patch {node} podCIDRs={}", patch.pod_cidrs.join(","))
            }
            IpamEffect::RecordEvent(node, event) => write!(f, "event {node} {event}"),
        }
    }
}

impl fmt::Display for IpamOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpamOutcome::Node(result) => object_label(result, "node", f),
            IpamOutcome::Event(outcome) => outcome.fmt(f),
        }
    }
}
