//! Who holds a block.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A range of the Services: nothing of it is ever handed out.
    Services,
    /// A node: exactly this one, and none that is made later under its name.
    Node {
        /// `metadata.name`.
        name: Arc<str>,
        /// `metadata.uid`.
        uid: Arc<str>,
    },
}

impl Holder {
    /// This node.
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
