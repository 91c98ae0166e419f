//! The interface `routes`, for providers that program routes to pod networks.
//!
//! The host compares and decides; a provider lists, creates and deletes single routes:
//!
//! | What `list` finds | [`Target`] | What the host does |
//! |---|---|---|
//! | the route leads to a node of the call, like one created now | `Node` | keeps it, if the node wants it |
//! | the route was created for a node of the call whose address has changed | `Outdated` | replaces it |
//! | the next hop is no longer a machine | `Blackhole` | removes it |
//! | the next hop exists but is no node of the call | `Other`, with a text for people | reports it |
//! | the target cannot be determined | none: the whole list is an error | asks again later |

#[cfg(doc)]
use crate::Error;
use crate::{Event, Failure, Node, Pending, Provider, event};

pub use crate::bindings::routes::exports::ccm::provider::routes::{
    CreateRequest, DeleteRequest, Progress, ProgressReply, Route, Target,
};

/// Programs routes to the nodes' pod networks. Return long-running work as `Pending`; never poll within a call.
pub trait Routes: Provider {
    /// Lists every route of this cluster and no other routes. `nodes` are all nodes of the provider, without labels
    /// and annotations. Identify next hops by the nodes' addresses and provider IDs; query the cloud for machines only
    /// where these are not enough.
    ///
    /// # Errors
    /// An incomplete response of the cloud is an error, never a shorter list.
    fn list(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Failure>;

    /// Creates a route. Done if the right route already exists.
    ///
    /// # Errors
    /// [`Error::Elsewhere`] when this provider creates no such route for this node; otherwise the reason why the cloud
    /// could not create it. An existing route to the same destination with another next hop is an error and is left
    /// unchanged.
    fn create(&self, request: CreateRequest) -> Result<ProgressReply, Failure>;

    /// Removes a route returned by [`Routes::list`], and no other route to the same destination. Done if it does not
    /// exist.
    ///
    /// # Errors
    /// The reason why the cloud could not remove it.
    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure>;
}

impl ProgressReply {
    /// The work is done.
    pub fn done() -> ProgressReply {
        ProgressReply::new(Progress::Done)
    }

    /// The work has begun; the host calls again.
    pub fn pending(pending: Pending) -> ProgressReply {
        ProgressReply::new(Progress::Pending(pending))
    }

    fn new(progress: Progress) -> ProgressReply {
        ProgressReply {
            progress,
            events: Vec::new(),
        }
    }

    /// Sets the events: the first 16, which are as many as the contract allows.
    #[must_use]
    pub fn with_events(self, events: Vec<Event>) -> ProgressReply {
        ProgressReply {
            events: event::first(events),
            ..self
        }
    }
}
