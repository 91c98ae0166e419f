//! The calls about load balancers, and what has to hold for each: `init` enabled them, the list of nodes has a length
//! that the contract allows, the answer has the shape that it documents.
//!
//! | Call | Kept answers of the cloud | State | Why |
//! |---|---|---|---|
//! | `ensure`, `update-targets`, `delete` | where the guest asks for them | shared | a write is compared with what was just read: see below |
//! | `get` | never | empty | its `absent` lets go of the Service: a second opinion, as before a node is deleted |
//!
//! A `GET` that does not say `Cache-Control: max-age` is always sent, and its answer is kept for nobody. So a guest that
//! reads a load balancer without that header compares with what the cloud says now, whoever wrote to it meanwhile; what
//! hardly changes, such as a network's number, it may ask for with it. Every write drops what was kept of its target.
//!
//! Of the calls that may be under way at a time these get a part only (`limits::BALANCING_AT_ONCE`), so that slow load
//! balancers do not keep nodes waiting.
//!
//! How many changes a call may make is the permit's business, in the egress; nothing is counted here.

mod reply;
mod request;

use std::sync::Arc;

use ccm_core::cloud::ProviderError;
use ccm_core::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, GetReply, ProgressReply, UpdateRequest,
};
use ccm_core::permit::Permit;
use futures::future::BoxFuture;
use wasmtime::Store;

use super::{shape, told};
use crate::bindings::{lifecycle, load_balancer};
use crate::call::{About, Call};
use crate::egress::CallScope;
use crate::guest::Guest;
use crate::provider::Provider;

/// What a guest answered, or how it failed.
type Answer<'a, R> = BoxFuture<'a, wasmtime::Result<Result<R, ProviderError>>>;

impl Provider {
    /// See `CloudProvider::ensure_load_balancer`.
    pub(super) async fn ensure(
        &self,
        request: &EnsureRequest,
        permit: Arc<Permit>,
    ) -> Result<EnsureReply, ProviderError> {
        let asked = load_balancer::EnsureRequest {
            targets: told(&request.targets, TARGETS)?,
            service: request.service.as_ref().into(),
            adopt: request.adopt.clone(),
            hint: request.hint.as_deref().map(<[u8]>::to_vec),
        };
        let (reply, _) = self
            .balance(
                "load-balancer.ensure",
                permit,
                false,
                move |guest, store| {
                    Box::pin(async move {
                        let answer = guest.call_ensure(store, &asked).await?;
                        Ok(shape::checked(answer, shape::check_ensure))
                    })
                },
            )
            .await?;
        Ok(reply.into())
    }

    /// See `CloudProvider::update_targets`.
    pub(super) async fn update(
        &self,
        request: &UpdateRequest,
        permit: Arc<Permit>,
    ) -> Result<ProgressReply, ProviderError> {
        let asked = load_balancer::UpdateRequest {
            targets: told(&request.targets, TARGETS)?,
            service: request.service.as_ref().into(),
            hint: request.hint.as_deref().map(<[u8]>::to_vec),
        };
        const FUNCTION: &str = "load-balancer.update-targets";
        let (reply, _) = self
            .balance(FUNCTION, permit, false, move |guest, store| {
                Box::pin(async move {
                    let answer = guest.call_update_targets(store, &asked).await?;
                    let check = |reply: &_| shape::check_progress("update-targets", reply);
                    Ok(shape::checked(answer, check))
                })
            })
            .await?;
        Ok(reply.into())
    }

    /// See `CloudProvider::delete_load_balancer`.
    pub(super) async fn delete(
        &self,
        request: &DeleteRequest,
        permit: Arc<Permit>,
    ) -> Result<ProgressReply, ProviderError> {
        let asked = load_balancer::DeleteRequest {
            service: request.service.as_ref().into(),
            hint: request.hint.as_deref().map(<[u8]>::to_vec),
        };
        let (reply, _) = self
            .balance(
                "load-balancer.delete",
                permit,
                false,
                move |guest, store| {
                    Box::pin(async move {
                        let answer = guest.call_delete(store, &asked).await?;
                        let check = |reply: &_| shape::check_progress("delete", reply);
                        Ok(shape::checked(answer, check))
                    })
                },
            )
            .await?;
        Ok(reply.into())
    }

    /// See `CloudProvider::get_load_balancer`.
    pub(super) async fn get(
        &self,
        service: &CloudService,
        permit: Arc<Permit>,
    ) -> Result<GetReply, ProviderError> {
        let asked = service.into();
        let (found, scope) = self
            .balance("load-balancer.get", permit, true, move |guest, store| {
                Box::pin(async move {
                    let answer = guest.call_get(store, &asked).await?;
                    Ok(shape::checked(answer, shape::check_found))
                })
            })
            .await?;
        Ok(GetReply {
            found: found.into(),
            complete: scope.is_some_and(|scope| scope.complete()),
        })
    }

    /// One call of the interface. The scope says afterwards what was asked of the cloud.
    async fn balance<R: Send>(
        &self,
        function: &'static str,
        permit: Arc<Permit>,
        fresh: bool,
        ask: impl for<'a> FnOnce(load_balancer::Guest, &'a mut Store<Guest>) -> Answer<'a, R>
        + Send
        + 'static,
    ) -> Result<(R, Option<CallScope>), ProviderError> {
        let indices = match &self.load_balancer {
            Some(indices) if self.capabilities.load_balancer => indices.clone(),
            _ => {
                return Err(ProviderError::Unsupported(format!(
                    "{} makes no load balancers",
                    self.name
                )));
            }
        };
        let call = Call {
            about: About::LoadBalancers,
            ..self.call(function, permit, fresh)
        };
        let scope = call.scope.clone();
        let answer = self.calls.run(
            call,
            Box::new(move |store, instance, enabled| {
                Box::pin(async move {
                    if !enabled.contains(&lifecycle::Capability::LoadBalancer) {
                        let why = "init enabled load-balancer when the module was loaded, and does not now".to_owned();
                        return Ok(Err(ProviderError::Internal(why)));
                    }
                    let guest = indices.load(&mut *store, instance)?;
                    ask(guest, store).await
                })
            }),
        );
        Ok((answer.await?, scope))
    }
}

/// What too many nodes are said to be.
const TARGETS: &str = "behind one load balancer";

#[cfg(test)]
mod tests;
