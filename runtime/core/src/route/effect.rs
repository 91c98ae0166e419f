//! The route controller's effects, and their outcomes, as values. Performs nothing.

use std::fmt;
use std::sync::Arc;

use crate::cloud::error::CallFailure;
use crate::cloud::instance::CloudEvent;
use crate::cloud::load_balancer::hint_label;
use crate::cloud::route::{CreateRouteRequest, DeleteRouteRequest, RouteReply};
use crate::node::object::{NodeRef, PrunedNode};
use crate::reconciliation::effect::{
    Answered, BudgetOutcome, Effect, EventOutcome, Modification, ObjectResult, Outcome,
    object_label,
};
use crate::reconciliation::patch::NetworkConditionPatch;
use crate::safety::brake::{Brake, Rise};
use crate::well_known::ROUTE_CONTROLLER;

/// One action about routes, or about the node that wants them.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteEffect {
    /// Create the route of this request.
    Create(Arc<CreateRouteRequest>),
    /// Delete the route of this request.
    Delete(Arc<DeleteRouteRequest>),
    /// Take one change from a brake's budget for the route to this destination; the number is that of the provider's
    /// routes. It is not returned.
    TakeBudget(String, Brake, Rise, usize),
    /// Read the node from the API server itself, not from a cache.
    ReadNode(NodeRef),
    /// Write the node's `NetworkUnavailable` condition.
    PatchCondition(NodeRef, NetworkConditionPatch),
    /// Record an Event about the node. Best effort: never fails.
    RecordEvent(NodeRef, CloudEvent),
}

/// The outcome of a [`RouteEffect`].
#[derive(Debug, Clone, PartialEq)]
pub enum RouteOutcome {
    /// Outcome of [`RouteEffect::Create`] and [`RouteEffect::Delete`].
    Changed(Result<Answered<RouteReply>, CallFailure>),
    /// Outcome of [`RouteEffect::TakeBudget`].
    Budget(BudgetOutcome),
    /// Outcome of [`RouteEffect::ReadNode`] and [`RouteEffect::PatchCondition`].
    Node(ObjectResult<PrunedNode>),
    /// Outcome of [`RouteEffect::RecordEvent`].
    Event(EventOutcome),
}

impl Effect for RouteEffect {
    type Outcome = RouteOutcome;
    const CONTROLLER: &'static str = ROUTE_CONTROLLER;

    fn modification(&self) -> Modification<'_> {
        match self {
            RouteEffect::Create(_) | RouteEffect::Delete(_) => Modification::Cloud,
            RouteEffect::TakeBudget(..) | RouteEffect::ReadNode(_) => Modification::None,
            RouteEffect::PatchCondition(node, _) => {
                Modification::of_node(node, "patch status", false)
            }
            RouteEffect::RecordEvent(..) => Modification::Event,
        }
    }
}

impl Outcome for RouteOutcome {
    fn is_success(&self) -> bool {
        match self {
            RouteOutcome::Changed(result) => result.is_ok(),
            RouteOutcome::Budget(outcome) => outcome.is_success(),
            RouteOutcome::Node(result) => matches!(result, Ok(Some(_))),
            RouteOutcome::Event(_) => true,
        }
    }
}

impl fmt::Display for RouteEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteEffect::Create(request) => {
                let (destination, node) = (&request.destination_cidr, &request.node.name);
                let hint = hint_label(&request.hint);
                write!(f, "create route {destination} to node/{node}{hint}")
            }
            RouteEffect::Delete(request) => {
                let route = &request.route;
                let hint = hint_label(&request.hint);
                write!(
                    f,
                    "delete route {} to {}{hint}",
                    route.destination_cidr, route.target
                )
            }
            RouteEffect::TakeBudget(destination, brake, ..) => {
                write!(f, "take budget {brake} route/{destination}")
            }
            RouteEffect::ReadNode(node) => write!(f, "read {node}"),
            RouteEffect::PatchCondition(node, patch) => {
                let condition = &patch.condition;
                let (kind, is) = (&condition.type_, condition.status == "True");
                let reason = condition.reason.as_deref().unwrap_or_default();
                write!(f, "patch {node}/status {kind}={is}({reason})")
            }
            RouteEffect::RecordEvent(node, event) => write!(f, "event {node} {event}"),
        }
    }
}

impl fmt::Display for RouteOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteOutcome::Changed(Ok(answered)) => {
                let (progress, changes) = (&answered.reply.progress, answered.mutations);
                write!(f, "{progress} changes({changes})")
            }
            RouteOutcome::Changed(Err(failure)) => failure.error.fmt(f),
            RouteOutcome::Budget(outcome) => outcome.fmt(f),
            RouteOutcome::Node(result) => object_label(result, "node", f),
            RouteOutcome::Event(outcome) => outcome.fmt(f),
        }
    }
}
