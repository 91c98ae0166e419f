//! Converts a Kubernetes Node into the part that a provider may see: never the whole object. Copies only, decides
//! nothing.

use crate::node::object::{NodeConditionStatus, PrunedNode, StoredAddress};

use crate::cloud::instance::{CloudNode, Readiness};

/// The provider's view of `node`.
pub fn cloud_node(node: &PrunedNode) -> CloudNode {
    CloudNode {
        name: node.name().to_owned(),
        uid: node.uid().to_owned(),
        provider_id: node.provider_id().map(str::to_owned),
        labels: node.labels().clone(),
        annotations: node.annotations().clone(),
        addresses: node
            .addresses()
            .iter()
            .filter_map(StoredAddress::read)
            .collect(),
        pod_cidrs: node.pod_cidrs().to_vec(),
        system_uuid: node.system_uuid().map(str::to_owned),
        created: node
            .created()
            .map_or(0, |time| u64::try_from(time.as_second()).unwrap_or(0)),
        readiness: readiness(node),
        initialized: !node.is_uninitialized(),
    }
}

/// The node's condition `Ready`; `Unknown` without one (LIFE-004).
pub fn readiness(node: &PrunedNode) -> Readiness {
    match node.ready_condition().map(|ready| ready.status) {
        Some(NodeConditionStatus::True) => Readiness::Ready,
        Some(NodeConditionStatus::False) => Readiness::NotReady,
        Some(NodeConditionStatus::Unknown) | None => Readiness::Unknown,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::well_known::LAST_APPLIED;
    use serde_json::json;

    #[test]
    fn a_provider_sees_what_it_needs_and_not_kubectls_copy() {
        let node: PrunedNode = serde_json::from_value(json!({
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
        assert_eq!(seen.annotations, [("x", "y")].into());
        assert_eq!(
            seen.addresses.len(),
            1,
            "types that Kubernetes does not define are left out"
        );
        assert_eq!(seen.system_uuid.as_deref(), Some("s"));
        assert_eq!(seen.pod_cidrs, ["10.1.0.0/24"]);
        assert!(seen.initialized, "no taint");
        assert_eq!(cloud_node(&PrunedNode::default()).created, 0);
    }

    #[test]
    fn a_node_is_uninitialized_as_long_as_it_has_the_taint() {
        let of = |taint: &str| {
            let node = json!({ "spec": { "taints": [{ "key": taint, "effect": "NoSchedule" }] } });
            cloud_node(&serde_json::from_value(node).unwrap()).initialized
        };
        assert!(!of("node.cloudprovider.kubernetes.io/uninitialized"));
        assert!(of("node.kubernetes.io/not-ready"));
        assert!(cloud_node(&PrunedNode::default()).initialized);
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
        assert_eq!(readiness(&PrunedNode::default()), Readiness::Unknown);
    }
}
