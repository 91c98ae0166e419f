//! Data types for routes: which route leads to which node's pods, and requests to change routes. They mirror the
//! contract in `wit/` but are defined here; their contents are unchecked (see `route`).

use std::fmt;
use std::sync::Arc;

use crate::cloud::instance::{CloudEvent, CloudNode};
use crate::cloud::load_balancer::Progress;

/// Where a route leads, according to the provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteTarget {
    /// To the Node with this name, exactly as a newly created route would.
    Node(String),
    /// Created for the Node with this name, but leads to an address that the Node no longer has (ROUTE-022).
    Outdated(String),
    /// To a target that no longer exists (upstream: blackhole).
    Blackhole,
    /// To an existing target that is not a Node of the call; the text describes it.
    Other(String),
}

/// One route of this cluster at the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CloudRoute {
    /// The cloud's ID of the route, passed back for deletion. At most 512 bytes.
    pub id: String,
    /// In the provider's spelling.
    pub destination_cidr: String,
    /// Where it leads, according to the provider.
    pub target: RouteTarget,
    /// Provider-specific data, passed back for deletion.
    pub extra: Vec<(String, String)>,
}

/// The reply to [`crate::cloud_provider::CloudProvider::list_routes`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListRoutesReply {
    /// In the provider's order.
    pub routes: Vec<CloudRoute>,
    /// Whether the answer may prove that a route leads nowhere: as [`crate::cloud::instance::FindReply::complete`].
    pub complete: bool,
}

impl fmt::Display for ListRoutesReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.complete {
            write!(f, "incomplete: ")?;
        }
        write!(f, "routes({})", self.routes.len())
    }
}

/// A request to create a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRouteRequest {
    /// The node that the route leads to.
    pub node: Arc<CloudNode>,
    /// The pod network that the route leads to, in canonical form.
    pub destination_cidr: String,
    /// The hint of the last `pending` reply about this route.
    pub hint: Option<Arc<[u8]>>,
}

/// A request to delete a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRouteRequest {
    /// The route as listed.
    pub route: Arc<CloudRoute>,
    /// The hint of the last `pending` reply about this route.
    pub hint: Option<Arc<[u8]>>,
}

/// The reply to a route change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteReply {
    /// Whether the change is finished or pending.
    pub progress: Progress,
    /// Events about the node of the request; after a deletion they have no object and are only logged.
    pub events: Vec<CloudEvent>,
}

impl fmt::Display for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteTarget::Node(name) => write!(f, "node/{name}"),
            RouteTarget::Outdated(name) => write!(f, "outdated node/{name}"),
            RouteTarget::Blackhole => write!(f, "blackhole"),
            RouteTarget::Other(what) => write!(f, "other: {what}"),
        }
    }
}
