//! The route controller's effects at the cloud, and their outcomes, as values. Performs nothing.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::Answered;
use crate::brake::{Brake, Rise};
use crate::cloud::error::{CallFailure, ProviderError};
use crate::cloud_route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use crate::load_balancer::Progress;

/// One action about routes.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteEffect {
    /// List all routes of the provider; contains all its nodes, by name.
    List(Arc<[Arc<Node>]>),
    /// Create a route.
    Create(Arc<CreateRouteRequest>),
    /// Delete a route.
    Delete(Arc<DeleteRouteRequest>),
    /// Take one change from a brake's budget for the route to this destination; the number is that of the provider's
    /// routes. It is not returned.
    TakeBudget(String, Brake, Rise, usize),
}

/// The outcome of a [`RouteEffect`].
#[derive(Debug, Clone, PartialEq)]
pub enum RouteOutcome {
    /// Of [`RouteEffect::List`].
    Listed(Result<ListRoutesReply, ProviderError>),
    /// Of [`RouteEffect::Create`] and [`RouteEffect::Delete`].
    Changed(Result<Answered<RouteReply>, CallFailure>),
}

impl RouteOutcome {
    /// Whether the rest of a decision may still be performed.
    pub fn is_success(&self) -> bool {
        match self {
            RouteOutcome::Listed(result) => result.is_ok(),
            RouteOutcome::Changed(result) => result.is_ok(),
        }
    }
}

impl RouteEffect {
    /// Whether the effect may change something at the cloud.
    pub fn is_cloud_change(&self) -> bool {
        matches!(self, RouteEffect::Create(_) | RouteEffect::Delete(_))
    }
}

impl fmt::Display for RouteEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = |hint: &Option<Arc<[u8]>>| if hint.is_some() { " hint" } else { "" };
        match self {
            RouteEffect::List(nodes) => write!(f, "list routes nodes({})", nodes.len()),
            RouteEffect::Create(request) => write!(
                f,
                "create route {} to node/{}{}",
                request.destination_cidr,
                request.node.name,
                hint(&request.hint)
            ),
            RouteEffect::Delete(request) => write!(
                f,
                "delete route {} to {}{}",
                request.route.destination_cidr,
                request.route.target,
                hint(&request.hint)
            ),
            RouteEffect::TakeBudget(destination, brake, ..) => {
                write!(f, "take budget {brake} route/{destination}")
            }
        }
    }
}

impl fmt::Display for RouteOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteOutcome::Listed(Ok(reply)) => {
                if !reply.complete {
                    write!(f, "incomplete: ")?;
                }
                write!(f, "routes({})", reply.routes.len())
            }
            RouteOutcome::Changed(Ok(answered)) => {
                match &answered.reply.progress {
                    Progress::Done => write!(f, "done")?,
                    Progress::Pending(pending) => write!(f, "pending {:?}", pending.retry_after)?,
                }
                write!(f, " changes({})", answered.mutations)
            }
            RouteOutcome::Listed(Err(error)) => write!(f, "{error}"),
            RouteOutcome::Changed(Err(failure)) => write!(f, "{}", failure.error),
        }
    }
}
