//! The interface `routes`: what a provider that programs routes to pod networks implements.

use crate::{Error, Node, Provider};

pub use crate::bindings::routes::exports::ccm::provider::routes::{
    CreateRequest, DeleteRequest, Progress, ProgressReply, Route, Target,
};

/// Programs routes to the nodes' pod networks.
pub trait Routes: Provider {
    /// Every route of this cluster and no other's. `nodes` are all nodes of the provider.
    ///
    /// # Errors
    /// An incomplete answer of the cloud is an error, never a shorter list.
    fn list(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Error>;

    /// Makes a route. One that exists already and is right: done.
    ///
    /// # Errors
    /// Whatever kept the cloud from making it.
    fn create(&self, request: CreateRequest) -> Result<ProgressReply, Error>;

    /// Removes a route that [`Routes::list`] returned. One that is not there: done.
    ///
    /// # Errors
    /// Whatever kept the cloud from removing it.
    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Error>;
}
