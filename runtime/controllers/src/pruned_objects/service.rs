//! The fields of a Service that controllers read.

use std::collections::BTreeMap;

use ccm_core::moment::StoredTime;
use ccm_core::well_known::LAST_APPLIED;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service, ServiceSpec, ServiceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::same_resource;

#[derive(Deserialize, Default)]
struct Wire {
    #[serde(default)]
    metadata: Metadata,
    spec: Option<ServiceSpec>,
    status: Option<Status>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<StoredTime>,
    deletion_timestamp: Option<StoredTime>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    load_balancer: Option<LoadBalancerStatus>,
    conditions: Option<Vec<StoredCondition>>,
}

/// A condition of the status. The API server does not validate it, and stores one without a time.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StoredCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: Option<StoredTime>,
    observed_generation: Option<i64>,
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
            creation_timestamp: metadata.creation_timestamp.and_then(StoredTime::time),
            deletion_timestamp: metadata.deletion_timestamp.and_then(StoredTime::time),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            ..ObjectMeta::default()
        }
    }
}

impl From<StoredCondition> for Condition {
    fn from(stored: StoredCondition) -> Condition {
        let since = stored.last_transition_time.and_then(StoredTime::time);
        Condition {
            type_: stored.kind,
            status: stored.status,
            reason: stored.reason,
            message: stored.message,
            last_transition_time: since.unwrap_or(Time(Timestamp::UNIX_EPOCH)),
            observed_generation: stored.observed_generation,
        }
    }
}

/// A Service that contains only the fields that controllers read.
#[derive(Debug, Clone)]
pub(crate) struct PrunedService(pub(crate) Service);

impl<'de> Deserialize<'de> for PrunedService {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Wire::deserialize(deserializer).map(|wire| PrunedService(wire.into()))
    }
}

impl From<PrunedService> for Service {
    fn from(pruned: PrunedService) -> Service {
        pruned.0
    }
}

same_resource!(PrunedService, Service, |pruned| pruned.0.metadata);

impl From<Wire> for Service {
    fn from(wire: Wire) -> Service {
        Service {
            metadata: wire.metadata.into(),
            spec: wire.spec.map(|spec| ServiceSpec {
                external_name: None,
                internal_traffic_policy: None,
                publish_not_ready_addresses: None,
                selector: None,
                traffic_distribution: None,
                ..spec
            }),
            status: wire.status.map(|status| ServiceStatus {
                load_balancer: status.load_balancer,
                conditions: status
                    .conditions
                    .map(|stored| stored.into_iter().map(Condition::from).collect()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ccm_core::well_known::LOAD_BALANCER_FINALIZER;
    use serde_json::json;

    #[test]
    fn what_controllers_look_at_stays_and_the_rest_of_a_service_goes() {
        let kept = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5", "generation": 2,
                "labels": { "l": "1" }, "annotations": { "x": "y" }, "finalizers": [LOAD_BALANCER_FINALIZER],
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z"
            },
            "spec": {
                "type": "LoadBalancer", "loadBalancerClass": "c", "loadBalancerIP": "192.0.2.1",
                "loadBalancerSourceRanges": ["192.0.2.0/24"], "allocateLoadBalancerNodePorts": true,
                "ports": [{
                    "name": "http", "protocol": "TCP", "appProtocol": "http",
                    "port": 80, "targetPort": 8080, "nodePort": 30080
                }],
                "externalTrafficPolicy": "Local", "healthCheckNodePort": 30081,
                "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 5 } },
                "externalIPs": ["192.0.2.9"], "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"
            },
            "status": {
                "loadBalancer": { "ingress": [{ "ip": "192.0.2.1", "ipMode": "VIP" }] },
                "conditions": [{
                    "type": "t", "status": "True", "reason": "r", "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"
                }]
            }
        });
        let mut sent = kept.clone();
        sent["metadata"]["managedFields"] = json!([{ "manager": "kubectl" }]);
        sent["metadata"]["ownerReferences"] = json!([{ "name": "o" }]);
        sent["metadata"]["annotations"][LAST_APPLIED] = json!("{}");
        sent["spec"]["selector"] = json!({ "app": "web" });
        sent["spec"]["internalTrafficPolicy"] = json!("Cluster");
        let pruned: PrunedService = serde_json::from_value(sent).unwrap();
        assert_eq!(serde_json::to_value(&pruned.0).unwrap(), kept);
    }

    /// The API server stores such conditions, and one unreadable Service would keep the whole list from being read.
    #[test]
    fn a_condition_without_a_usable_time_is_read() {
        for (text, seconds) in [
            ("null", 0),
            (r#""9999-12-31T23:59:59Z""#, 0),
            (r#""2026-01-01T00:00:00Z""#, 1_767_225_600),
        ] {
            let text = format!(
                r#"{{"metadata":{{}},"status":{{"conditions":[{{"type":"t","status":"True","reason":"","message":"","lastTransitionTime":{text}}}]}}}}"#
            );
            let pruned: PrunedService = serde_json::from_str(&text).unwrap();
            let conditions = pruned.0.status.unwrap().conditions.unwrap();
            assert_eq!(conditions[0].type_, "t");
            assert_eq!(conditions[0].last_transition_time.0.as_second(), seconds);
        }
    }

    #[test]
    fn nulls_and_missing_parts_are_read_as_nothing() {
        for text in [
            "{}",
            r#"{"metadata":{},"spec":null,"status":null}"#,
            r#"{"metadata":{"finalizers":null},"spec":{"ports":null},"status":{"loadBalancer":{}}}"#,
        ] {
            let pruned: PrunedService = serde_json::from_str(text).unwrap();
            assert_eq!(pruned.0.metadata.finalizers, None, "{text}");
        }
    }
}
