//! Accessors for Node objects.

use std::fmt;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

use crate::well_known::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};

/// Identifies one Node object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRef {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node/{}", self.name)
    }
}

/// Whether the node waits for initialisation: any taint with the key counts, whatever its value and effect (NODE-011).
pub fn is_uninitialized(node: &Node) -> bool {
    taints(node)
        .iter()
        .any(|taint| taint.key == UNINITIALIZED_TAINT)
}

/// Whether the node's condition `Ready` is `True`.
pub fn is_ready(node: &Node) -> bool {
    ready_condition(node).is_some_and(|ready| ready.status == "True")
}

/// The node's condition `Ready`, if it has one.
pub(crate) fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|one| one.type_ == "Ready")
}

/// Whether a pass of the node lifecycle controller can find anything to do about the node: it is not Ready, or tainted as a
/// machine that is off (LIFE-002, LIFE-005).
pub fn is_unready_or_shut_down(node: &Node) -> bool {
    !is_ready(node) || taints(node).iter().any(|taint| taint.key == SHUTDOWN_TAINT)
}

/// The node's name and UID.
pub fn node_ref(node: &Node) -> NodeRef {
    NodeRef {
        name: name(node).to_owned(),
        uid: uid(node).to_owned(),
    }
}

/// `metadata.name`, empty if absent.
pub fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// `metadata.uid`, empty if absent.
pub fn uid(node: &Node) -> &str {
    node.metadata.uid.as_deref().unwrap_or_default()
}

/// `metadata.resourceVersion`, empty if absent.
pub(crate) fn resource_version(node: &Node) -> &str {
    node.metadata
        .resource_version
        .as_deref()
        .unwrap_or_default()
}

pub(crate) fn taints(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}
