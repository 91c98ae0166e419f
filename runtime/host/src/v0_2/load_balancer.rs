//! Load-balancer calls. For each, `init` has enabled them, the node list has a length that the contract allows, and
//! the answer has the documented shape.
//!
//! | Call | Response cache | State | Why |
//! |---|---|---|---|
//! | `ensure`, `update-targets`, `delete` | if the guest asks | shared | it writes after a fresh read: see below |
//! | `get` | never | empty | its `absent` releases the Service: an independent answer, as before a node is deleted |
//!
//! A `GET` without `Cache-Control: max-age` is always sent, and its answer is not cached. So a guest that reads a
//! load balancer without that header compares with the current state at the cloud, even if others changed it; it
//! can use the header for data that hardly changes, such as a network's number. Every write drops the cached answers
//! of its target.
//!
//! These calls get only a part of the concurrent calls (`limits::BALANCING_AT_ONCE`), so that slow load balancers do
//! not delay nodes.
//!
//! The permit limits the number of changes of a call, in the egress; nothing is counted here.

mod reply;
mod request;

use std::sync::Arc;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::{
    Adoptable, CloudService, DeleteRequest, EnsureReply, EnsureRequest, GetReply, ProgressReply,
    UpdateRequest,
};
use ccm_core::safety::permit::Permit;

use super::{answer_limits, bytes_of, few_enough, guest_nodes};
use crate::bindings::load_balancer;
use crate::limits;
use crate::provider::{DeferredAsk, Provider, not_asked};
use crate::sandbox::{Answer, Ask, Function};

impl Provider {
    /// See `CloudProvider::ensure_load_balancer`.
    pub(super) async fn ensure(
        &self,
        request: &EnsureRequest,
        permit: Arc<Permit>,
    ) -> Result<EnsureReply, ProviderError> {
        few_enough(request.targets.len(), limits::NODES, TARGETS)?;
        let asked = || load_balancer::EnsureRequest {
            targets: guest_nodes(&request.targets),
            service: request.service.as_ref().into(),
            adopt: request.adopt.as_ref().map(|adopt| match adopt {
                Adoptable::Of(owner) => load_balancer::Adoption::Owned(owner.into()),
                Adoptable::Unowned => load_balancer::Adoption::Unowned,
            }),
            hint: request.hint.as_deref().map(<[u8]>::to_vec),
        };
        let read = |answer| match answer {
            Answer::Ensured(reply) => answer_limits::checked(reply, answer_limits::check_ensure),
            _ => Err(not_asked()),
        };
        let asking = DeferredAsk::new(Function::EnsureLoadBalancer, || {
            Ask::EnsureLoadBalancer(asked())
        })
        .of_bytes(bytes_of(&request.targets));
        let (reply, _) = self.ask(asking, permit, false, read).await?;
        Ok(reply.into())
    }

    /// See `CloudProvider::update_targets`.
    pub(super) async fn update(
        &self,
        request: &UpdateRequest,
        permit: Arc<Permit>,
    ) -> Result<ProgressReply, ProviderError> {
        few_enough(request.targets.len(), limits::NODES, TARGETS)?;
        let asked = || load_balancer::UpdateRequest {
            targets: guest_nodes(&request.targets),
            service: request.service.as_ref().into(),
            hint: request.hint.as_deref().map(<[u8]>::to_vec),
        };
        let read = |answer| progress("update-targets", answer);
        let asking = DeferredAsk::new(Function::UpdateTargets, || Ask::UpdateTargets(asked()))
            .of_bytes(bytes_of(&request.targets));
        let (reply, _) = self.ask(asking, permit, false, read).await?;
        Ok(reply.into())
    }

    /// See `CloudProvider::delete_load_balancer`.
    pub(super) async fn delete(
        &self,
        request: &DeleteRequest,
        permit: Arc<Permit>,
    ) -> Result<ProgressReply, ProviderError> {
        let asked = || load_balancer::DeleteRequest {
            service: request.service.as_ref().into(),
            hint: request.hint.as_deref().map(<[u8]>::to_vec),
        };
        let read = |answer| progress("delete", answer);
        let asking = DeferredAsk::new(Function::DeleteLoadBalancer, || {
            Ask::DeleteLoadBalancer(asked())
        });
        let (reply, _) = self.ask(asking, permit, false, read).await?;
        Ok(reply.into())
    }

    /// See `CloudProvider::get_load_balancer`.
    pub(super) async fn get(
        &self,
        service: &CloudService,
        permit: Arc<Permit>,
    ) -> Result<GetReply, ProviderError> {
        let read = |answer| match answer {
            Answer::LoadBalancer(found) => {
                answer_limits::checked(found, answer_limits::check_found)
            }
            _ => Err(not_asked()),
        };
        let asking = DeferredAsk::new(Function::GetLoadBalancer, || {
            Ask::GetLoadBalancer(service.into())
        });
        let (found, scope) = self.ask(asking, permit, true, read).await?;
        Ok(GetReply {
            found: found.into(),
            complete: scope.is_some_and(|scope| scope.complete()),
        })
    }
}

fn progress(function: &str, answer: Answer) -> Result<load_balancer::ProgressReply, ProviderError> {
    match answer {
        Answer::LoadBalancerProgress(reply) => answer_limits::checked(reply, |reply| {
            answer_limits::check_progress(function, reply)
        }),
        _ => Err(not_asked()),
    }
}

/// Description of the nodes, for the error about too many.
const TARGETS: &str = "behind one load balancer";

#[cfg(test)]
mod tests;
