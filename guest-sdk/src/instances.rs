//! The interface `instances`: what a provider that knows machines implements.

use crate::{Error, Instance, Node, Provider};

pub use crate::bindings::instances::exports::ccm::provider::instances::{
    FindReply, Lookup, NodeEvent,
};

/// Knows machines.
pub trait Instances: Provider {
    /// Looks many nodes up, at most 5000: does the machine exist, is it off, what is it like.
    ///
    /// The reply has exactly one lookup per node, in the order of `nodes`. [`Lookup::Gone`] is a claim that may
    /// end in the deletion of the Node, so it needs proof: an answer of the cloud that was read to its end.
    /// Whatever could not be read is [`Lookup::Unknown`]. A node with a foreign provider ID, or with none and a
    /// name that is not known here, is [`Lookup::NotMine`].
    ///
    /// # Errors
    /// An error counts as `Unknown` for every node of the call.
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error>;
}

/// What the condition `Ready` of a Node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The kubelet says that it is.
    Ready,
    /// The kubelet says that it is not.
    NotReady,
    /// Nobody says: the kubelet is silent, or never spoke.
    Unknown,
}

impl Node {
    /// Whether the node is ready. What costs a request for each machine, such as its power state, is worth it only
    /// while the node is not: see [`Readiness::is_ready`].
    pub fn readiness(&self) -> Readiness {
        let told = self.extra.iter().find(|(key, _)| key == "ready");
        match told.map(|(_, value)| value.as_str()) {
            Some("true") => Readiness::Ready,
            Some("false") => Readiness::NotReady,
            _ => Readiness::Unknown,
        }
    }
}

impl Readiness {
    /// Whether the kubelet says so.
    pub fn is_ready(self) -> bool {
        matches!(self, Readiness::Ready)
    }
}

impl Instance {
    /// An instance of which only the provider ID is known.
    pub fn new(provider_id: impl Into<String>) -> Instance {
        Instance {
            provider_id: provider_id.into(),
            instance_type: None,
            zone: None,
            region: None,
            addresses: Vec::new(),
            labels: Vec::new(),
            shutdown: None,
            extra: Vec::new(),
        }
    }
}

impl FindReply {
    /// A reply without events.
    pub fn new(lookups: Vec<Lookup>) -> FindReply {
        FindReply {
            lookups,
            events: Vec::new(),
        }
    }
}
