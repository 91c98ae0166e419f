//! The interface `routes`: what a provider that programs routes to pod networks implements.
//!
//! The host compares and decides; a provider lists, makes one route, removes one route:
//!
//! | What `list` finds | [`Target`] | What the host does |
//! |---|---|---|
//! | it leads to a node of the call as one made now would | `Node` | leaves it, if the node wants it |
//! | it was made for a node of the call, whose address is another one now | `Outdated` | replaces it |
//! | its next hop is no machine any more | `Blackhole` | removes it |
//! | its next hop is alive and no node of the call | `Other`, with a text for people | reports it |
//! | that cannot be told | none: the whole list is an error | asks again later |

use crate::{Error, Event, Node, Pending, Provider};

pub use crate::bindings::routes::exports::ccm::provider::routes::{
    CreateRequest, DeleteRequest, Progress, ProgressReply, Route, Target,
};

/// Programs routes to the nodes' pod networks. Work that takes the cloud longer than a moment is returned as `Pending`,
/// never polled for.
pub trait Routes: Provider {
    /// Every route of this cluster and no other's. `nodes` are all nodes of the provider, without labels and annotations:
    /// next hops are named by their addresses and provider IDs, and the cloud is asked for machines only where these do
    /// not tell.
    ///
    /// # Errors
    /// An incomplete answer of the cloud is an error, never a shorter list.
    fn list(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Error>;

    /// Makes a route. One that exists already and is right: done.
    ///
    /// # Errors
    /// [`Error::Elsewhere`] when this provider makes no such route for this node; whatever else kept the cloud from making
    /// it. One to the same destination that leads elsewhere is an error, and is left as it is.
    fn create(&self, request: CreateRequest) -> Result<ProgressReply, Error>;

    /// Removes a route that [`Routes::list`] returned, and no other one to the same destination. One that is not there:
    /// done.
    ///
    /// # Errors
    /// Whatever kept the cloud from removing it.
    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Error>;
}

impl ProgressReply {
    /// Done.
    pub fn done() -> ProgressReply {
        ProgressReply::new(Progress::Done)
    }

    /// Begun; the host calls again.
    pub fn pending(pending: Pending) -> ProgressReply {
        ProgressReply::new(Progress::Pending(pending))
    }

    fn new(progress: Progress) -> ProgressReply {
        ProgressReply {
            progress,
            events: Vec::new(),
        }
    }

    /// With these events, at most 16.
    #[must_use]
    pub fn with_events(self, events: Vec<Event>) -> ProgressReply {
        ProgressReply { events, ..self }
    }
}
