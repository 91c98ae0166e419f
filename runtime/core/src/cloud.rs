//! The port between controllers and clouds: the trait [`CloudProvider`] and the nouns that cross it.
//!
//! The nouns mirror the contract in `wit/`, but belong to us: they know neither Wasm nor Kubernetes
//! types. This module never decides and never talks to anybody; who implements the trait does.

pub mod error;
pub mod instance;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::cloud_route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use crate::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, GetReply, ProgressReply, UpdateRequest,
};
use crate::permit::Permit;

pub use error::ProviderError;
pub use instance::{
    Address, AddressType, Capabilities, CloudEvent, CloudNode, EventType, FindReply, Instance,
    Lookup, Readiness,
};

/// The future of one cloud call. Boxed, because providers are swapped at run time.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// A cloud, as the controllers see it. Implemented by the Wasm host; by scripted clouds in tests.
///
/// Every call carries a [`Permit`]: what the call may do, and until when.
pub trait CloudProvider: Send + Sync {
    /// The provider's name, such as `hcloud`: what is recorded as the owner of nodes and Services.
    fn name(&self) -> &str;

    /// The digest of the provider's module, for audit records; empty when there is no module.
    fn digest(&self) -> String {
        String::new()
    }

    /// A number that grows whenever another module or other terms, such as another credential, answer from then on: what
    /// was true of the account before has to be shown again.
    fn generation(&self) -> u64 {
        0
    }

    /// The provider ID schemes that this provider owns, without `://`.
    fn schemes(&self) -> &[String];

    /// What the provider can do in its present configuration.
    fn capabilities(&self) -> Capabilities;

    /// Looks many nodes up in one call. The reply has exactly one lookup per node, in order.
    fn find<'a>(&'a self, nodes: &'a [CloudNode], permit: Arc<Permit>) -> Reply<'a, FindReply>;

    /// The same, independent of every other call: nothing that was kept is used, neither answers of the cloud nor
    /// what the provider remembers. Deleting a node needs such a second opinion.
    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply>;

    /// Prefixes of the annotation keys that the provider may set on Services: those that were granted.
    fn annotation_prefixes(&self) -> &[String] {
        &[]
    }

    /// Makes or updates a Service's load balancer. Idempotent by the Service's UID.
    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        let _ = (request, permit);
        unserved("load balancers")
    }

    /// Makes the set of targets equal to the one given, and nothing else. A load balancer that is missing is
    /// [`ProviderError::Unavailable`].
    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        let _ = (request, permit);
        unserved("load balancers")
    }

    /// Removes everything that belongs to the Service's UID.
    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        let _ = (request, permit);
        unserved("load balancers")
    }

    /// Looks, with nothing that was kept, and changes nothing.
    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        permit: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        let _ = (service, permit);
        unserved("load balancers")
    }

    /// Every route of this cluster, and where it leads. `nodes` are all nodes of the provider. Nothing that was kept is
    /// used; changes nothing.
    fn list_routes<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, ListRoutesReply> {
        let _ = (nodes, permit);
        unserved("routes")
    }

    /// Makes a route. One that exists already and is right: done.
    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        let _ = (request, permit);
        unserved("routes")
    }

    /// Removes a route that was listed. One that is not there any more: done.
    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        let _ = (request, permit);
        unserved("routes")
    }
}

/// Of a provider that does not make these, which nobody asks for them: see [`Capabilities`].
fn unserved<'a, T: Send + 'a>(what: &'static str) -> Reply<'a, T> {
    Box::pin(async move {
        Err(ProviderError::Unsupported(format!(
            "this provider makes no {what}"
        )))
    })
}
