//! What is read of a Node object.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::*;
use crate::well_known::LAST_APPLIED;

fn read(node: Value) -> PrunedNode {
    serde_json::from_value(node).unwrap()
}

/// Everything that is read.
fn complete() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "5", "labels": { "l": "1", "k": "" },
            "annotations": { "x": "y" },
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z"
        },
        "spec": {
            "providerID": "sim://1", "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"],
            "taints": [{ "effect": "NoSchedule", "key": "k", "value": "v", "timeAdded": "2026-01-03T00:00:00Z" }],
            "unschedulable": true
        },
        "status": {
            "addresses": [{ "address": "a", "type": "Hostname" }, { "address": "p", "type": "Carrier" }],
            "conditions": [
                { "lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True", "type": "Ready" },
                { "reason": "CalicoIsUp", "status": "False", "type": "NetworkUnavailable" }
            ],
            "nodeInfo": { "systemUUID": "s" }
        }
    })
}

#[test]
fn each_field_that_a_controller_looks_at_is_read() {
    let node = read(complete());
    let time = |text: &str| Some(text.parse::<Timestamp>().unwrap());
    assert_eq!(
        (node.name(), node.uid(), node.resource_version()),
        ("a", "u", "5")
    );
    assert_eq!(node.created(), time("2026-01-01T00:00:00Z"));
    assert!(node.is_being_deleted() && node.is_unschedulable() && node.is_ready());
    let labels: Vec<(&str, &str)> = node.labels().iter().collect();
    assert_eq!(labels, [("k", ""), ("l", "1")]);
    assert_eq!(node.labels().get("l"), Some("1"));
    assert_eq!(node.labels().get("m"), None);
    assert_eq!(*node.annotations(), [("x", "y")].into());
    assert_eq!(node.provider_id(), Some("sim://1"));
    assert_eq!(node.pod_cidrs(), ["10.1.0.0/24", "fd00::/64"]);
    assert_eq!(node.only_pod_cidr(), None);
    let [taint] = node.taints() else {
        panic!("{:?}", node.taints())
    };
    assert_eq!(
        (&*taint.key, taint.value.as_deref(), &*taint.effect),
        ("k", Some("v"), "NoSchedule")
    );
    assert_eq!(
        taint.time_added.as_ref().map(|time| time.0),
        time("2026-01-03T00:00:00Z")
    );
    let addresses: Vec<_> = node
        .addresses()
        .iter()
        .map(|one| (one.address_type, &*one.address))
        .collect();
    assert_eq!(addresses, [(Some(AddressType::Hostname), "a"), (None, "p")]);
    assert_eq!(
        node.ready_condition().unwrap().since,
        time("2026-01-01T00:00:00Z")
    );
    let network = node.network_unavailable().unwrap();
    assert_eq!(
        (network.status, &*network.reason, network.since),
        (NodeConditionStatus::False, "CalicoIsUp", None)
    );
    assert_eq!(node.system_uuid(), Some("s"));
}

#[test]
fn what_no_controller_looks_at_makes_no_difference() {
    let mut sent = complete();
    sent["metadata"]["managedFields"] =
        json!([{ "manager": "kubelet", "fieldsV1": { "f:status": {} } }]);
    sent["metadata"]["annotations"][LAST_APPLIED] = json!("{}");
    sent["metadata"]["finalizers"] = json!(["x"]);
    sent["status"]["conditions"][0]["message"] = json!("kubelet is posting ready status");
    sent["status"]["conditions"][0]["reason"] = json!("KubeletReady");
    sent["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-01-03T00:00:00Z");
    let pressure = json!({ "type": "DiskPressure", "status": "False" });
    sent["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .insert(0, pressure);
    sent["status"]["images"] = json!([{ "names": ["nginx"], "sizeBytes": 1 }]);
    sent["status"]["nodeInfo"]["kernelVersion"] = json!("7.0");
    assert_eq!(read(sent.clone()), read(complete()));
    sent["metadata"]["resourceVersion"] = json!("6");
    assert_ne!(read(sent.clone()), read(complete()));
    assert!(!read(sent).differs_from(&read(complete())));
}

/// Kubernetes stores it, and one unreadable node would keep the whole list from being read.
#[test]
fn a_time_beyond_those_that_can_be_represented_is_none() {
    let late = "9999-12-31T23:59:59Z";
    let node = read(json!({
        "metadata": { "creationTimestamp": late, "deletionTimestamp": late },
        "spec": { "taints": [{ "effect": "NoSchedule", "key": "k", "timeAdded": late }] },
        "status": { "conditions": [{ "lastTransitionTime": late, "status": "True", "type": "Ready" }] }
    }));
    assert_eq!(node.created(), None);
    assert!(node.is_being_deleted());
    assert_eq!(node.taints()[0].time_added, None);
    assert_eq!(node.ready_condition().unwrap().since, None);
}

#[test]
fn nulls_and_missing_parts_are_read_as_nothing() {
    for text in [
        "{}",
        r#"{"metadata":{},"spec":null,"status":null}"#,
        r#"{"metadata":{"labels":null,"annotations":null,"deletionTimestamp":null},"spec":{"taints":null,"podCIDRs":null,"providerID":""}}"#,
        r#"{"status":{"conditions":null,"addresses":null,"nodeInfo":null}}"#,
    ] {
        let node: PrunedNode = serde_json::from_str(text).unwrap();
        assert_eq!(node, PrunedNode::default(), "{text}");
    }
}

#[test]
fn a_pod_cidr_counts_where_there_is_no_list_of_them() {
    let node = read(json!({ "spec": { "podCIDR": "10.1.0.0/24" } }));
    assert_eq!(
        node.only_pod_cidr().map(String::as_str),
        Some("10.1.0.0/24")
    );
    assert!(node.pod_cidrs().is_empty());
}

#[test]
fn of_two_conditions_of_a_type_the_first_counts() {
    let conditions = ["True", "False"].map(|status| json!({ "type": "Ready", "status": status }));
    assert!(read(json!({ "status": { "conditions": conditions } })).is_ready());
}
