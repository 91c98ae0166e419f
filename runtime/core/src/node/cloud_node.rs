//! Converts a Kubernetes Node into the part that a provider may see: never the whole object. Copies only, decides
//! nothing.

use k8s_openapi::api::core::v1::Node;

use crate::cloud::instance::{CloudNode, Readiness};
use crate::node::addresses;
use crate::node::object::{is_uninitialized, name, ready_condition, uid};
use crate::node::ownership::stored_provider_id;
use crate::well_known::LAST_APPLIED;

/// The provider's view of `node`.
pub fn cloud_node(node: &Node) -> CloudNode {
    let metadata = &node.metadata;
    let spec = node.spec.as_ref();
    let status = node.status.as_ref();
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    let pod_cidrs = spec
        .and_then(|spec| spec.pod_cidrs.clone())
        .unwrap_or_default();
    let info = status.and_then(|status| status.node_info.as_ref());
    CloudNode {
        name: name(node).to_owned(),
        uid: uid(node).to_owned(),
        provider_id: stored_provider_id(node).map(str::to_owned),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations,
        addresses: status
            .and_then(|status| status.addresses.as_ref())
            .map(|stored| stored.iter().filter_map(addresses::read).collect())
            .unwrap_or_default(),
        pod_cidrs,
        system_uuid: info
            .map(|info| info.system_uuid.clone())
            .filter(|uuid| !uuid.is_empty()),
        created: metadata
            .creation_timestamp
            .as_ref()
            .map_or(0, |time| u64::try_from(time.0.as_second()).unwrap_or(0)),
        readiness: readiness(node),
        initialized: !is_uninitialized(node),
    }
}

/// The node's condition `Ready`; `Unknown` without one (LIFE-004).
pub fn readiness(node: &Node) -> Readiness {
    match ready_condition(node).map(|ready| ready.status.as_str()) {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        _ => Readiness::Unknown,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_provider_sees_what_it_needs_and_not_kubectls_copy() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {
                "name": "a", "uid": "u", "labels": { "l": "1" },
                "annotations": { LAST_APPLIED: "{}", "x": "y" },
                "creationTimestamp": "1970-01-01T00:01:00Z"
            },
            "spec": { "providerID": "", "podCIDRs": ["10.1.0.0/24"] },
            "status": {
                "addresses": [
                    { "type": "InternalIP", "address": "10.0.0.1" },
                    { "type": "Carrier", "address": "pigeon" }
                ],
                "nodeInfo": {
                    "systemUUID": "s", "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                    "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
                    "operatingSystem": "", "osImage": ""
                }
            }
        }))
        .unwrap();
        let seen = cloud_node(&node);
        assert_eq!(
            (seen.name.as_str(), seen.uid.as_str(), seen.created),
            ("a", "u", 60)
        );
        assert_eq!(seen.provider_id, None, "an empty one is none");
        assert_eq!(seen.annotations.keys().collect::<Vec<_>>(), ["x"]);
        assert_eq!(
            seen.addresses.len(),
            1,
            "types that Kubernetes does not define are left out"
        );
        assert_eq!(seen.system_uuid.as_deref(), Some("s"));
        assert_eq!(seen.pod_cidrs, ["10.1.0.0/24"]);
        assert!(seen.initialized, "no taint");
        assert_eq!(cloud_node(&Node::default()).created, 0);
    }

    #[test]
    fn a_node_is_uninitialized_as_long_as_it_has_the_taint() {
        let of = |taint: &str| {
            let node = json!({ "spec": { "taints": [{ "key": taint, "effect": "NoSchedule" }] } });
            cloud_node(&serde_json::from_value(node).unwrap()).initialized
        };
        assert!(!of("node.cloudprovider.kubernetes.io/uninitialized"));
        assert!(of("node.kubernetes.io/not-ready"));
        assert!(cloud_node(&Node::default()).initialized);
    }

    #[test]
    fn life_004_a_node_without_the_condition_is_as_one_whose_kubelet_is_silent() {
        let of = |conditions: serde_json::Value| {
            let node = json!({ "status": { "conditions": conditions } });
            cloud_node(&serde_json::from_value(node).unwrap()).readiness
        };
        let ready = |status: &str| json!([{ "type": "DiskPressure", "status": "True" }, { "type": "Ready", "status": status }]);
        assert_eq!(of(ready("True")), Readiness::Ready);
        assert_eq!(of(ready("False")), Readiness::NotReady);
        assert_eq!(of(ready("Unknown")), Readiness::Unknown);
        assert_eq!(of(ready("true")), Readiness::Unknown, "not a status");
        assert_eq!(of(json!([])), Readiness::Unknown);
        assert_eq!(readiness(&Node::default()), Readiness::Unknown);
    }
}
