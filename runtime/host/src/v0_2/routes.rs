//! Route calls. For each, `init` has enabled them, the nodes are not too many, and the answer has the documented
//! shape.
//!
//! | Call | Response cache | State | Why |
//! |---|---|---|---|
//! | `list` | never | empty | routes are created and removed by it, so it needs the cloud's current state |
//! | `create`, `delete` | if the guest asks for it | shared | as with load balancers: a write drops cached answers |
//!
//! `list` covers all nodes of the provider, more than any other call, so it passes only the fields that identify a
//! next hop: labels and annotations are left out, which make up most of a node and which users fill at will.
//!
//! These calls get only a part of the concurrent calls (`limits::ROUTING_AT_ONCE`).

mod reply;

use std::collections::HashSet;
use std::sync::Arc;

use ccm_core::cloud::route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::cloud::{CloudNode, ProviderError};
use ccm_core::safety::permit::Permit;

use super::{NODE_BYTES, answer_limits, few_enough, recognisable};
use crate::bindings::routes;
use crate::limits;
use crate::provider::{DeferredAsk, Provider, not_asked};
use crate::sandbox::{Answer, Ask, Function};

impl Provider {
    /// See `CloudProvider::list_routes`.
    pub(super) async fn routes_listed(
        &self,
        nodes: &[CloudNode],
        permit: Arc<Permit>,
    ) -> Result<ListRoutesReply, ProviderError> {
        few_enough(nodes.len(), limits::ROUTED_NODES, "to list routes for")?;
        // Built once, looked up for every route.
        let names: HashSet<_> = nodes.iter().map(|node| node.name.as_str()).collect();
        let read = |answer| match answer {
            Answer::Routes(listed) => {
                answer_limits::checked(listed, |listed| answer_limits::check_routes(listed, &names))
            }
            _ => Err(not_asked()),
        };
        let asking = DeferredAsk::new(Function::ListRoutes, || {
            Ask::ListRoutes(nodes.iter().map(recognisable).collect())
        })
        .of_bytes(nodes.len() * NODE_BYTES);
        let (listed, scope) = self.ask(asking, permit, true, read).await?;
        Ok(ListRoutesReply {
            routes: listed.into_iter().map(Into::into).collect(),
            complete: scope.is_some_and(|scope| scope.complete()),
        })
    }

    /// See `CloudProvider::create_route`.
    pub(super) async fn route_made(
        &self,
        request: &CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Result<RouteReply, ProviderError> {
        let asked = || routes::CreateRequest {
            node: request.node.as_ref().into(),
            destination_cidr: request.destination_cidr.clone(),
            hint: request.hint.as_deref().map(<[u8]>::to_vec),
        };
        let read = |answer| progress("create", answer);
        let asking = DeferredAsk::new(Function::CreateRoute, || Ask::CreateRoute(asked()));
        let (reply, _) = self.ask(asking, permit, false, read).await?;
        Ok(reply.into())
    }

    /// See `CloudProvider::delete_route`.
    pub(super) async fn route_removed(
        &self,
        request: &DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Result<RouteReply, ProviderError> {
        let asked = || routes::DeleteRequest {
            route: request.route.as_ref().into(),
            hint: request.hint.as_deref().map(<[u8]>::to_vec),
        };
        let read = |answer| progress("delete", answer);
        let asking = DeferredAsk::new(Function::DeleteRoute, || Ask::DeleteRoute(asked()));
        let (reply, _) = self.ask(asking, permit, false, read).await?;
        Ok(reply.into())
    }
}

fn progress(function: &str, answer: Answer) -> Result<routes::ProgressReply, ProviderError> {
    match answer {
        Answer::RouteProgress(reply) => answer_limits::checked(reply, |reply| {
            answer_limits::check_route_progress(function, reply)
        }),
        _ => Err(not_asked()),
    }
}

#[cfg(test)]
mod tests;
