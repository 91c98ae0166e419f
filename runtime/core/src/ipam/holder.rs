//! The holder of a block.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

/// The Services or one node.
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
    pub fn node(node: &Node) -> Holder {
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        Holder::Node {
            name: text(&node.metadata.name),
            uid: text(&node.metadata.uid),
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
