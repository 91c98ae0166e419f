//! What we write of a node's pod network: its CIDRs, and whether the network is there.

use serde_json::{Value, json};

/// A patch of `nodes/<name>`: the node's pod CIDRs. The API server lets them be set once and never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCidrsPatch {
    /// `metadata.uid` of the node that is meant.
    pub uid: String,
    /// `spec.podCIDRs`, in the order of the cluster's CIDRs and in canonical form; the first is `spec.podCIDR`, too. At
    /// least one.
    pub pod_cidrs: Vec<String>,
}

impl PodCidrsPatch {
    /// The body (IPAM-026).
    pub fn to_json(&self) -> Value {
        json!({
            "metadata": { "uid": self.uid },
            "spec": { "podCIDR": self.pod_cidrs.first(), "podCIDRs": self.pod_cidrs },
        })
    }
}

/// A patch of `nodes/<name>/status`: the condition NetworkUnavailable and no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConditionPatch {
    /// `metadata.uid` of the node that is meant.
    pub uid: String,
    /// Its status: True means that there is no network.
    pub is_unavailable: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// For people.
    pub message: &'static str,
    /// RFC 3339: now.
    pub heartbeat: String,
    /// RFC 3339: when its status changed last.
    pub last_transition: String,
}

impl NetworkConditionPatch {
    /// The body (ROUTE-043). The API merges conditions by their type.
    pub fn to_json(&self) -> Value {
        json!({
            "metadata": { "uid": self.uid },
            "status": { "conditions": [{
                "type": "NetworkUnavailable",
                "status": if self.is_unavailable { "True" } else { "False" },
                "reason": self.reason,
                "message": self.message,
                "lastHeartbeatTime": self.heartbeat,
                "lastTransitionTime": self.last_transition,
            }]},
        })
    }
}
