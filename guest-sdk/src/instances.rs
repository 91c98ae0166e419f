//! The interface `instances`, for providers that know machines.

use crate::{Error, Node, Provider};

pub use crate::bindings::instances::exports::ccm::provider::instances::{
    FindReply, Lookup, NodeEvent,
};

/// Looks up the machines behind nodes.
pub trait Instances: Provider {
    /// Looks up at most 5000 nodes: whether the machine exists, whether it is off, and its properties.
    ///
    /// The reply has exactly one lookup per node, in the order of `nodes`. [`Lookup::Gone`] may lead to the deletion
    /// of the Node, so it needs proof: a complete response of the cloud. Anything that could not be read is
    /// [`Lookup::Unknown`]. A node with another provider's ID, or with no provider ID and an unknown name, is
    /// [`Lookup::NotMine`].
    ///
    /// # Errors
    /// An error counts as `Unknown` for every node of the call.
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error>;
}

/// The condition `Ready` of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The kubelet reports that the node is ready.
    Ready,
    /// The kubelet reports that the node is not ready.
    NotReady,
    /// Not reported: the kubelet has stopped reporting or has never reported.
    Unknown,
}

impl Node {
    /// The node's readiness. Send requests that cost one per machine, such as for the power state, only for nodes that
    /// are not ready: see [`Readiness::is_ready`].
    pub fn readiness(&self) -> Readiness {
        match self.ready {
            Some(true) => Readiness::Ready,
            Some(false) => Readiness::NotReady,
            None => Readiness::Unknown,
        }
    }
}

impl Readiness {
    /// Whether the kubelet reports that the node is ready.
    pub fn is_ready(self) -> bool {
        matches!(self, Readiness::Ready)
    }
}

impl FindReply {
    /// Sets the events, at most 256 and 8 for each node.
    #[must_use]
    pub fn with_events(self, events: Vec<NodeEvent>) -> FindReply {
        FindReply { events, ..self }
    }

    /// A reply without events.
    pub fn new(lookups: Vec<Lookup>) -> FindReply {
        FindReply {
            lookups,
            events: Vec::new(),
        }
    }
}
