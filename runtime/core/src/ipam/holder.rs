//! The holder of a block.

use std::fmt;
use std::sync::Arc;

use crate::node::object::PrunedNode;

/// The Service ranges or one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A Service range: never allocated.
    Services,
    /// Exactly this node, not one created later with the same name.
    Node {
        /// `metadata.name`.
        name: Arc<str>,
        /// `metadata.uid`.
        uid: Arc<str>,
    },
}

impl Holder {
    /// The holder for this node.
    pub fn node(node: &PrunedNode) -> Holder {
        Holder::Node {
            name: Arc::from(node.name()),
            uid: Arc::from(node.uid()),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Services => f.write_str("the Services"),
            Holder::Node { name, .. } => write!(f, "node/{name}"),
        }
    }
}
