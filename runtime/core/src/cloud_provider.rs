//! The port between controllers and clouds: the trait [`CloudProvider`]. Decides nothing and calls nothing;
//! implementations do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, GetReply, ProgressReply, UpdateRequest,
};
use crate::cloud::route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use crate::cloud::{Capabilities, CloudNode, FindReply, ProviderError};
use crate::safety::permit::Permit;

/// The future of one cloud call. Boxed, because providers are swapped at run time.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// A cloud, as the controllers see it. Implemented by the Wasm host, and by scripted clouds in tests.
///
/// Every call carries a [`Permit`]: what the call may do, and until when. Unsupported calls are not made: see
/// [`Capabilities`].
pub trait CloudProvider: Send + Sync {
    /// The provider's name, such as `hcloud`, which is recorded as the owner of nodes and Services.
    fn name(&self) -> &str;

    /// The digest of the provider's module, for audit records; empty without a module.
    fn digest(&self) -> String {
        String::new()
    }

    /// Increases whenever another module or load policy, such as another credential, starts to serve: facts proven
    /// about the account before have to be proven again.
    fn generation(&self) -> u64 {
        0
    }

    /// The provider ID schemes that this provider owns, without `://`.
    fn schemes(&self) -> &[String];

    /// What the provider supports in its current configuration.
    fn capabilities(&self) -> Capabilities;

    /// Looks up many nodes in one call. The reply has exactly one lookup per node, in order.
    fn find<'a>(&'a self, nodes: &'a [CloudNode], permit: Arc<Permit>) -> Reply<'a, FindReply>;

    /// Like [`CloudProvider::find`], but independent of every other call: neither cached cloud responses nor the
    /// provider's own memory are used. A node is deleted only after such a second answer.
    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply>;

    /// Granted prefixes of annotation keys that the provider may set on Services.
    fn annotation_prefixes(&self) -> &[String] {
        &[]
    }

    /// Creates or updates a Service's load balancer. Idempotent by the Service's UID.
    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply>;

    /// Sets the targets of a load balancer, and changes nothing else. A missing load balancer is
    /// [`ProviderError::Unavailable`].
    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply>;

    /// Removes everything that belongs to the Service's UID.
    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply>;

    /// Reads a Service's load balancer without caches; changes nothing.
    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        permit: Arc<Permit>,
    ) -> Reply<'a, GetReply>;

    /// Lists every route of this cluster and its target. `nodes` are all nodes of the provider. Uses no caches; changes
    /// nothing.
    fn list_routes<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, ListRoutesReply>;

    /// Creates a route. If the right one exists already, that is success.
    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply>;

    /// Deletes a route that was listed. If it no longer exists, that is success.
    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply>;
}
