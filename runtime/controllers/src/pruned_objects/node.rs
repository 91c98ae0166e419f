//! The fields of a Node that controllers read.

use ccm_core::well_known::NETWORK_UNAVAILABLE;
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint,
};
use prost::Message;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Metadata, Pruned, PrunedNode, Stamp, list, or_empty, text};

/// The fields of a Node, as JSON and as protobuf. The field numbers are those of `k8s.io/api/core/v1/generated.proto`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(crate) struct WireNode {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<WireSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<WireStatus>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    #[prost(string, optional, tag = "1")]
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[prost(string, optional, tag = "3")]
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    #[prost(bool, optional, tag = "4")]
    unschedulable: Option<bool>,
    #[prost(message, repeated, tag = "5")]
    #[serde(default, deserialize_with = "or_empty")]
    taints: Vec<WireTaint>,
    #[prost(string, repeated, tag = "7")]
    #[serde(default, rename = "podCIDRs", deserialize_with = "or_empty")]
    pod_cidrs: Vec<String>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTaint {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
    #[prost(string, tag = "3")]
    effect: String,
    #[prost(message, optional, tag = "4")]
    time_added: Option<Stamp>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus {
    #[prost(message, repeated, tag = "4")]
    #[serde(default, deserialize_with = "or_empty")]
    conditions: Vec<WireCondition>,
    #[prost(message, repeated, tag = "5")]
    #[serde(default, deserialize_with = "or_empty")]
    addresses: Vec<WireAddress>,
    #[prost(message, optional, tag = "7")]
    node_info: Option<WireInfo>,
}

/// A node condition without its message.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCondition {
    #[prost(string, tag = "1")]
    #[serde(rename = "type")]
    kind: String,
    #[prost(string, tag = "2")]
    status: String,
    #[prost(message, optional, tag = "4")]
    last_transition_time: Option<Stamp>,
    #[prost(string, optional, tag = "5")]
    reason: Option<String>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
struct WireAddress {
    #[prost(string, tag = "1")]
    #[serde(rename = "type")]
    kind: String,
    #[prost(string, tag = "2")]
    address: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
struct WireInfo {
    #[prost(string, optional, tag = "2")]
    #[serde(rename = "systemUUID")]
    system_uuid: Option<String>,
}

impl<'de> Deserialize<'de> for PrunedNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PrunedNode, D::Error> {
        WireNode::deserialize(deserializer).map(|wire| Pruned(wire.into()))
    }
}

impl From<WireNode> for Node {
    fn from(wire: WireNode) -> Node {
        Node {
            metadata: wire.metadata.map(Into::into).unwrap_or_default(),
            spec: wire.spec.map(NodeSpec::from),
            status: wire.status.map(NodeStatus::from),
        }
    }
}

impl From<WireSpec> for NodeSpec {
    fn from(spec: WireSpec) -> NodeSpec {
        let taints = spec.taints.into_iter().map(|taint| Taint {
            key: taint.key,
            value: text(taint.value),
            effect: taint.effect,
            time_added: taint.time_added.and_then(Stamp::time),
        });
        NodeSpec {
            provider_id: text(spec.provider_id),
            pod_cidr: text(spec.pod_cidr),
            pod_cidrs: list(spec.pod_cidrs),
            taints: list(taints.collect()),
            unschedulable: spec.unschedulable.filter(|is_it| *is_it),
            ..NodeSpec::default()
        }
    }
}

impl From<WireStatus> for NodeStatus {
    fn from(status: WireStatus) -> NodeStatus {
        let addresses = status.addresses.into_iter().map(|one| NodeAddress {
            type_: one.kind,
            address: one.address,
        });
        let conditions = status.conditions.into_iter();
        let conditions = conditions.filter(WireCondition::is_read);
        NodeStatus {
            addresses: list(addresses.collect()),
            conditions: list(conditions.map(NodeCondition::from).collect()),
            node_info: status.node_info.map(|info| NodeSystemInfo {
                system_uuid: info.system_uuid.unwrap_or_default(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }
    }
}

impl WireCondition {
    /// Whether a controller reads this condition. Kubelets write four others.
    fn is_read(&self) -> bool {
        ["Ready", NETWORK_UNAVAILABLE].contains(&self.kind.as_str())
    }
}

impl From<WireCondition> for NodeCondition {
    fn from(condition: WireCondition) -> NodeCondition {
        // The reason names the component that set NetworkUnavailable; the reason of Ready is not used, and every node
        // has one.
        let is_somebodys = condition.kind == NETWORK_UNAVAILABLE;
        NodeCondition {
            reason: text(condition.reason).filter(|_| is_somebodys),
            type_: condition.kind,
            status: condition.status,
            last_transition_time: condition.last_transition_time.and_then(Stamp::time),
            ..NodeCondition::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ccm_core::well_known::LAST_APPLIED;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    #[test]
    fn what_controllers_look_at_stays_and_the_bulk_of_a_node_goes() {
        let kept = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": "5", "labels": { "l": "1" },
                "annotations": { "x": "y" },
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z"
            },
            "spec": {
                "providerID": "sim://1", "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"],
                "taints": [{ "effect": "NoSchedule", "key": "k", "value": "v" }], "unschedulable": true
            },
            "status": {
                "addresses": [{ "address": "a", "type": "Hostname" }],
                "conditions": [
                    { "lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True", "type": "Ready" },
                    {
                        "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "CalicoIsUp", "status": "False",
                        "type": "NetworkUnavailable"
                    }
                ],
                "nodeInfo": {
                    "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                    "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                    "osImage": "", "systemUUID": "s"
                }
            }
        });
        let mut sent = kept.clone();
        sent["metadata"]["managedFields"] =
            json!([{ "manager": "kubelet", "fieldsV1": { "f:status": {} } }]);
        sent["metadata"]["annotations"][LAST_APPLIED] = json!("{}");
        sent["status"]["conditions"][0]["message"] = json!("kubelet is posting ready status");
        sent["status"]["conditions"][0]["reason"] = json!("KubeletReady");
        sent["status"]["conditions"][1]["message"] = json!("Calico is running on this node");
        let pressure = json!({ "type": "DiskPressure", "status": "False" });
        sent["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(pressure);
        sent["status"]["images"] = json!([{ "names": ["nginx"], "sizeBytes": 1 }]);
        sent["status"]["volumesInUse"] = json!(["v"]);
        sent["status"]["nodeInfo"]["kernelVersion"] = json!("7.0");
        let pruned: PrunedNode = serde_json::from_value(sent).unwrap();
        assert_eq!(serde_json::to_value(&pruned.0).unwrap(), kept);
    }

    /// Kubernetes stores it, and one unreadable Node would keep the whole list from being read.
    #[test]
    fn a_time_beyond_those_that_can_be_represented_is_none() {
        let late = "9999-12-31T23:59:59Z";
        let pruned: PrunedNode = serde_json::from_value(json!({
            "spec": { "taints": [{ "effect": "NoSchedule", "key": "k", "timeAdded": late }] },
            "status": { "conditions": [{ "lastTransitionTime": late, "status": "True", "type": "Ready" }] }
        }))
        .unwrap();
        let (spec, status) = (pruned.0.spec.unwrap(), pruned.0.status.unwrap());
        assert_eq!(spec.taints.unwrap()[0].time_added, None);
        assert_eq!(status.conditions.unwrap()[0].last_transition_time, None);
    }

    #[test]
    fn nulls_and_missing_parts_are_read_as_nothing() {
        for text in [
            "{}",
            r#"{"metadata":{},"spec":null,"status":null}"#,
            r#"{"metadata":{"labels":null,"annotations":null},"spec":{"taints":null,"podCIDRs":null}}"#,
        ] {
            let pruned: PrunedNode = serde_json::from_str(text).unwrap();
            assert_eq!(pruned.0.metadata, ObjectMeta::default(), "{text}");
        }
    }
}
