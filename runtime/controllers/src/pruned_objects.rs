//! API objects parsed without the fields that no controller reads: images, managed fields and the rest make up four
//! fifths of a node that runs pods. They are skipped during parsing, so that they cost neither memory nor time to
//! build. Reads only.

mod service;

use std::borrow::Cow;
use std::collections::BTreeMap;

use ccm_core::well_known::{LAST_APPLIED, NETWORK_UNAVAILABLE};
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Service, Taint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// An object that contains only the fields that controllers read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pruned<T>(pub(crate) T);

/// A pruned Node (cluster-scoped).
pub(crate) type PrunedNode = Pruned<Node>;
/// A pruned Service (namespaced).
pub(crate) type PrunedService = Pruned<Service>;

#[derive(Deserialize, Default)]
struct Wire {
    #[serde(default)]
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    generation: Option<i64>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    addresses: Option<Vec<NodeAddress>>,
    conditions: Option<Vec<Condition>>,
    node_info: Option<Info>,
}

/// Without the message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    last_transition_time: Option<Time>,
}

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "systemUUID")]
    system_uuid: Option<String>,
}

impl<'de> Deserialize<'de> for PrunedNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PrunedNode, D::Error> {
        Wire::deserialize(deserializer).map(|wire| Pruned(wire.into()))
    }
}

impl From<Metadata> for ObjectMeta {
    fn from(mut metadata: Metadata) -> ObjectMeta {
        if let Some(annotations) = &mut metadata.annotations {
            annotations.remove(LAST_APPLIED);
        }
        ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            generation: metadata.generation,
            resource_version: metadata.resource_version,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            ..ObjectMeta::default()
        }
    }
}

impl From<Wire> for Node {
    fn from(wire: Wire) -> Node {
        Node {
            metadata: wire.metadata.into(),
            spec: wire.spec.map(|spec| NodeSpec {
                provider_id: spec.provider_id,
                pod_cidr: spec.pod_cidr,
                pod_cidrs: spec.pod_cidrs,
                taints: spec.taints,
                unschedulable: spec.unschedulable,
                ..NodeSpec::default()
            }),
            status: wire.status.map(|status| NodeStatus {
                addresses: status.addresses,
                conditions: status.conditions.map(|conditions| {
                    let read = conditions.into_iter().filter(Condition::is_read);
                    read.map(NodeCondition::from).collect()
                }),
                node_info: status.node_info.map(|info| NodeSystemInfo {
                    system_uuid: info.system_uuid.unwrap_or_default(),
                    ..NodeSystemInfo::default()
                }),
                ..NodeStatus::default()
            }),
        }
    }
}

impl Condition {
    /// Whether a controller reads this condition. Kubelets write four others.
    fn is_read(&self) -> bool {
        ["Ready", NETWORK_UNAVAILABLE].contains(&self.kind.as_str())
    }
}

impl From<Condition> for NodeCondition {
    fn from(condition: Condition) -> NodeCondition {
        // The reason names the component that set NetworkUnavailable; the reason of Ready is not used, and every node
        // has one.
        let is_somebodys = condition.kind == NETWORK_UNAVAILABLE;
        NodeCondition {
            reason: condition.reason.filter(|_| is_somebodys),
            type_: condition.kind,
            status: condition.status,
            last_transition_time: condition.last_transition_time,
            ..NodeCondition::default()
        }
    }
}

/// The same resource as `T`.
impl<T: Resource<DynamicType = ()>> Resource for Pruned<T> {
    type DynamicType = ();
    type Scope = T::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        T::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        T::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        T::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        T::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
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
