//! Patches of a node's pod network: its CIDRs and its NetworkUnavailable condition.

use k8s_openapi::api::core::v1::NodeCondition;
use serde_json::{Value, json};

/// A patch of `nodes/<name>`: the node's pod CIDRs. The API server lets them be set once and never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCidrsPatch {
    /// `metadata.uid` of the node.
    pub uid: String,
    /// `spec.podCIDRs`, in the order of the cluster's CIDRs and in canonical form; the first is also `spec.podCIDR`. At
    /// least one.
    pub pod_cidrs: Vec<String>,
}

impl PodCidrsPatch {
    /// The patch body (IPAM-026).
    pub fn to_json(&self) -> Value {
        json!({
            "metadata": { "uid": self.uid },
            "spec": { "podCIDR": self.pod_cidrs.first(), "podCIDRs": self.pod_cidrs },
        })
    }
}

/// A patch of `nodes/<name>/status`: the condition NetworkUnavailable and no other. It is valid for one version of the
/// object only, and a condition that a network plugin sets meanwhile is not overwritten (EDGE-081).
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkConditionPatch {
    /// `metadata.uid` of the node.
    pub uid: String,
    /// `metadata.resourceVersion` of the node whose condition was judged.
    pub resource_version: String,
    /// The condition as it is to be.
    pub condition: NodeCondition,
}

impl NetworkConditionPatch {
    /// The patch body (ROUTE-043). The API merges conditions by type.
    pub fn to_json(&self) -> Value {
        json!({
            "metadata": { "uid": self.uid, "resourceVersion": self.resource_version },
            "status": { "conditions": [self.condition] },
        })
    }
}
