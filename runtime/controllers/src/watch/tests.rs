//! Which events of the node watch are passed on.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::is_relevant_change;
use crate::pruned_objects::PrunedNode;

/// A node as the API server sends it, with a kubelet's reports.
fn node(version: u32, change: impl FnOnce(&mut Value)) -> Node {
    let mut node = json!({
        "metadata": {"name": "a", "uid": "u", "resourceVersion": version.to_string(), "labels": {"pool": "x"}},
        "spec": {"providerID": "x://1"},
        "status": {
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    });
    change(&mut node);
    serde_json::from_value::<PrunedNode>(node).unwrap().0
}

/// A change's name, and the function that makes it.
type Change = (&'static str, fn(&mut Value));

#[test]
fn edge_051_a_report_that_changes_nothing_is_not_passed_on() {
    let (store, mut writer) = reflector::store();
    let first = Event::Apply(node(1, |_| {}));
    assert!(is_relevant_change(&first, &store), "a new node");
    writer.apply_watcher_event(&first);

    let report = Event::Apply(node(2, |node| {
        node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-01-01T00:05:00Z");
        node["status"]["images"] = json!([{"names": ["an image"], "sizeBytes": 1}]);
    }));
    assert!(!is_relevant_change(&report, &store));
    writer.apply_watcher_event(&report);
    let stored = store.state();
    assert_eq!(
        stored[0].metadata.resource_version.as_deref(),
        Some("2"),
        "the store has it all the same"
    );

    let changes: [Change; 8] = [
        ("a label", |node| {
            node["metadata"]["labels"]["pool"] = json!("y")
        }),
        ("an annotation", |node| {
            node["metadata"]["annotations"] = json!({"a": "b"})
        }),
        ("a deletion", |node| {
            node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
        }),
        ("another object of that name", |node| {
            node["metadata"]["uid"] = json!("v")
        }),
        ("a taint", |node| {
            node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}])
        }),
        ("a provider ID", |node| {
            node["spec"]["providerID"] = json!("x://2")
        }),
        ("readiness", |node| {
            node["status"]["conditions"][0]["status"] = json!("False")
        }),
        ("an address", |node| {
            node["status"]["addresses"][0]["address"] = json!("10.0.0.2")
        }),
    ];
    for (what, change) in changes {
        assert!(
            is_relevant_change(&Event::Apply(node(3, change)), &store),
            "{what}"
        );
    }
    assert!(is_relevant_change(&Event::Delete(node(3, |_| {})), &store));
    assert!(is_relevant_change(&Event::Init, &store));
}
