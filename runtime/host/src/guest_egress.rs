//! Egress for the host functions of a guest: the egress itself, or the connection to the parent process that has it.

use bytes::Bytes;
use tokio::sync::SemaphorePermit;

use crate::egress::{CallScope, FetchError, FetchRequest, FetchResponse};
use crate::sandbox::Parent;

/// Egress of one call. Clones share the call.
#[derive(Clone)]
pub(crate) enum GuestEgress {
    /// Guests run in the process that has the egress.
    Egress(CallScope),
    /// Guests run in a child of the process that has the egress.
    Parent(Parent),
}

impl GuestEgress {
    /// Sends one request to a target: [`CallScope::fetch`].
    pub(crate) async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        match self {
            GuestEgress::Egress(scope) => scope.fetch(request).await,
            GuestEgress::Parent(parent) => parent.fetch(request).await,
        }
    }

    /// Sends several requests concurrently: [`CallScope::fetch_all`].
    pub(crate) async fn fetch_all(
        &self,
        requests: Vec<FetchRequest>,
    ) -> Vec<Result<FetchResponse, FetchError>> {
        match self {
            GuestEgress::Egress(scope) => scope.fetch_all(requests).await,
            GuestEgress::Parent(parent) => parent.fetch_all(requests).await,
        }
    }

    /// Sends a request with a URL: [`CallScope::fetch_url`].
    pub(crate) async fn fetch_url(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<FetchResponse, FetchError> {
        match self {
            GuestEgress::Egress(scope) => scope.fetch_url_whole(request).await,
            GuestEgress::Parent(parent) => parent.fetch_url(request).await,
        }
    }

    /// Waits for a permit to read a request body: [`CallScope::place`].
    pub(crate) async fn place(&self) -> Result<SemaphorePermit<'_>, FetchError> {
        match self {
            GuestEgress::Egress(scope) => scope.place().await,
            GuestEgress::Parent(parent) => parent.place().await,
        }
    }
}
