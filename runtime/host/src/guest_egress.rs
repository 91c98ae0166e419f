//! Egress as the host functions of a guest see it: the egress itself, or the parent process that has it.

use bytes::Bytes;
use tokio::sync::SemaphorePermit;

use crate::egress::{CallScope, FetchError, FetchRequest, FetchResponse};
use crate::sandbox::Parent;

/// Egress of one call. Clones share the call.
#[derive(Clone)]
pub(crate) enum WayOut {
    /// Guests run in the process that has the egress.
    Egress(CallScope),
    /// Guests run in a child of it.
    Parent(Parent),
}

impl WayOut {
    /// See [`CallScope::fetch`].
    pub(crate) async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        match self {
            WayOut::Egress(scope) => scope.fetch(request).await,
            WayOut::Parent(parent) => parent.fetch(request).await,
        }
    }

    /// See [`CallScope::fetch_all`].
    pub(crate) async fn fetch_all(
        &self,
        requests: Vec<FetchRequest>,
    ) -> Vec<Result<FetchResponse, FetchError>> {
        match self {
            WayOut::Egress(scope) => scope.fetch_all(requests).await,
            WayOut::Parent(parent) => parent.fetch_all(requests).await,
        }
    }

    /// See [`CallScope::fetch_url`].
    pub(crate) async fn fetch_url(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<FetchResponse, FetchError> {
        match self {
            WayOut::Egress(scope) => scope.fetch_url_whole(request).await,
            WayOut::Parent(parent) => parent.fetch_url(request).await,
        }
    }

    /// See [`CallScope::place`].
    pub(crate) async fn place(&self) -> Result<SemaphorePermit<'_>, FetchError> {
        match self {
            WayOut::Egress(scope) => scope.place().await,
            WayOut::Parent(parent) => parent.place().await,
        }
    }
}
