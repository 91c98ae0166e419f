//! The nouns of routes: what leads to which node's pods, as a provider tells it and is asked to change it. They mirror
//! the contract in `wit/` and are ours; their meaning is unchecked (see `route`).

use std::fmt;
use std::sync::Arc;

use crate::cloud::instance::{CloudEvent, CloudNode};
use crate::load_balancer::Progress;

/// Where a route leads, by the provider's account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteTarget {
    /// To the Node with this name, just as a route that is made now would.
    Node(String),
    /// It was made for the Node with this name, and leads where that is not any more: its addresses have changed
    /// (ROUTE-022).
    Outdated(String),
    /// To nothing that is alive (upstream: blackhole).
    Blackhole,
    /// To something alive that is no Node of the call; the text, for people, says to what.
    Other(String),
}

/// One route of this cluster at the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CloudRoute {
    /// The cloud's own identification, handed back when it is deleted. At most 512 bytes.
    pub id: String,
    /// As the provider spells it.
    pub destination_cidr: String,
    /// Where it leads.
    pub target: RouteTarget,
    /// The provider's own, handed back when it is deleted.
    pub extra: Vec<(String, String)>,
}

/// The answer to [`crate::cloud::CloudProvider::list_routes`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListRoutesReply {
    /// In the provider's order.
    pub routes: Vec<CloudRoute>,
    /// Whether the answer may prove that something leads nowhere: as [`crate::cloud::instance::FindReply::complete`].
    pub complete: bool,
}

/// One route to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRouteRequest {
    /// The node it leads to.
    pub node: Arc<CloudNode>,
    /// In canonical form.
    pub destination_cidr: String,
    /// What the last `pending` about this route carried.
    pub hint: Option<Arc<[u8]>>,
}

/// One route to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRouteRequest {
    /// As it was listed.
    pub route: Arc<CloudRoute>,
    /// What the last `pending` about this route carried.
    pub hint: Option<Arc<[u8]>>,
}

/// How far a change of routes came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteReply {
    /// How far.
    pub progress: Progress,
    /// About the node of the request; after a deletion about no object, and only logged.
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
