//! Upstream's own cases about which nodes are targets, and which changes of them matter, each row under its ID in
//! `tests/conformance.md`.

use super::world::*;
use crate::node::object::PrunedNode;
use crate::service::targets::{is_eligible, wakes};
use serde_json::{Value, json};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// A Ready node with a machine, and what a case changes in it.
fn changed(changes: &[&str]) -> PrunedNode {
    let mut one = node_object("a").json();
    for change in changes {
        let ready = |status: &str| json!([{ "type": "Ready", "status": status }]);
        let two = |ready: &str, other: &str, status: &str| json!([{ "type": "Ready", "status": ready }, { "type": other, "status": status }]);
        let taint = |key: &str| json!([{ "key": key, "effect": "NoSchedule" }]);
        let (place, value): (&[&str], Value) = match *change {
            "excluded" => (&["metadata", "labels", EXCLUDE], json!("")),
            "exclude=false" => (&["metadata", "labels", EXCLUDE], json!("false")),
            "exclude=true" => (&["metadata", "labels", EXCLUDE], json!("true")),
            "exclude=foo" => (&["metadata", "labels", EXCLUDE], json!("foo")),
            "labelled" => (&["metadata", "labels", "x"], json!("y")),
            "no labels" => (&["metadata", "labels"], json!({})),
            "no id" => (&["spec", "providerID"], json!("")),
            "other id" => (&["spec", "providerID"], json!("sim://other")),
            "tainted" => (&["spec", "taints"], taint("x")),
            "leaving" => (&["spec", "taints"], taint("ToBeDeletedByClusterAutoscaler")),
            "not ready" => (&["status", "conditions"], ready("False")),
            "no conditions" => (&["status", "conditions"], json!([])),
            "pressed" => (
                &["status", "conditions"],
                two("False", "DiskPressure", "True"),
            ),
            "not pressed" => (
                &["status", "conditions"],
                two("False", "DiskPressure", "False"),
            ),
            "other" => (&["status", "conditions"], two("True", "Other", "True")),
            "no other" => (&["status", "conditions"], two("True", "Other", "False")),
            "deleted" => (
                &["metadata", "deletionTimestamp"],
                json!("2026-01-01T00:00:00Z"),
            ),
            other => panic!("{other}"),
        };
        *place.iter().fold(&mut one, |place, key| &mut place[*key]) = value;
    }
    serde_json::from_value(one).unwrap()
}

#[test]
fn svc_060_upstream_respects_predicates() {
    // Upstream's set for tests checks readiness and needs no machine; the set that it uses is ours, but for EDGE-072.
    for (id, changes, expected) in [
        (
            "Test_respectsPredicates/01",
            ["no conditions", "no id"].as_slice(),
            false,
        ),
        ("Test_respectsPredicates/02", &[], true),
        ("Test_respectsPredicates/03", &["no id"], false),
        ("Test_respectsPredicates/04", &["not ready"], true),
        ("Test_respectsPredicates/05", &["no labels"], true),
        ("Test_respectsPredicates/06", &["excluded"], false),
        ("Test_respectsPredicates/07", &["exclude=false"], true),
        ("Test_respectsPredicates/08", &["exclude=true"], false),
        ("Test_respectsPredicates/09", &["exclude=foo"], false),
        ("Test_respectsPredicates/10", &["leaving"], false),
    ] {
        assert_eq!(is_eligible(&changed(changes)), expected, "{id}");
    }
}

#[test]
fn svc_063_upstream_should_sync_updated_node_individual_predicates() {
    let cases: [(&str, &[&str], &[&str], bool); 21] = [
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/01",
            &[],
            &["excluded"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/02",
            &["excluded"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/03",
            &["no id"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/04",
            &["no id"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/05",
            &[],
            &["no id"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/06",
            &[],
            &["other id"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/07",
            &[],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/08",
            &["excluded"],
            &["exclude=true"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/09",
            &[],
            &["tainted"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/10",
            &["tainted"],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/11",
            &[],
            &["labelled"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/12",
            &["labelled"],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/13",
            &["not ready"],
            &["not ready"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/14",
            &["not ready"],
            &["no conditions"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/15",
            &["no conditions"],
            &["not ready"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/16",
            &["no conditions"],
            &["no conditions"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/17",
            &["not pressed"],
            &["pressed"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/18",
            &["pressed"],
            &["not pressed"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/19",
            &["no other"],
            &["other"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/20",
            &["other"],
            &["no other"],
            false,
        ),
        // The node leaves with the next change of any kind (SVC-064).
        (
            "Test_shouldSyncUpdatedNode_individualPredicates/21",
            &[],
            &["deleted"],
            false,
        ),
    ];
    for (id, old, new, expected) in cases {
        assert_eq!(wakes(&changed(old), &changed(new)), expected, "{id}");
    }
}

#[test]
fn svc_063_upstream_should_sync_updated_node_compounded_predicates() {
    // The ID, the common state, the state before and after, and whether the change causes a reconciliation.
    type Case = (
        &'static str,
        &'static str,
        &'static [&'static str],
        &'static [&'static str],
        bool,
    );
    let cases: [Case; 27] = [
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/01",
            "leaving",
            &[],
            &["excluded"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/02",
            "leaving",
            &["excluded"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/03",
            "leaving",
            &["no id"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/04",
            "leaving",
            &[],
            &["no id"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/05",
            "leaving",
            &[],
            &["other id"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/06",
            "leaving",
            &["not ready"],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/07",
            "leaving",
            &[],
            &["not ready"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/08",
            "excluded",
            &["no id"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/09",
            "excluded",
            &[],
            &["no id"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/10",
            "excluded",
            &[],
            &["other id"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/11",
            "excluded",
            &[],
            &["leaving"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/12",
            "excluded",
            &["leaving"],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/13",
            "excluded",
            &["not ready"],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/14",
            "excluded",
            &[],
            &["not ready"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/15",
            "not ready",
            &[],
            &["excluded"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/16",
            "not ready",
            &["excluded"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/17",
            "not ready",
            &["no id"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/18",
            "not ready",
            &[],
            &["no id"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/19",
            "not ready",
            &[],
            &["other id"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/20",
            "not ready",
            &[],
            &["leaving"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/21",
            "not ready",
            &["leaving"],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/22",
            "no id",
            &[],
            &["excluded"],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/23",
            "no id",
            &["excluded"],
            &[],
            true,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/24",
            "no id",
            &["not ready"],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/25",
            "no id",
            &[],
            &["not ready"],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/26",
            "no id",
            &["leaving"],
            &[],
            false,
        ),
        (
            "Test_shouldSyncUpdatedNode_compoundedPredicates/27",
            "no id",
            &[],
            &["leaving"],
            false,
        ),
    ];
    for (id, held, old, new, expected) in cases {
        let of = |changes: &[&str]| changed(&[&[held], changes].concat());
        assert_eq!(wakes(&of(old), &of(new)), expected, "{id}");
    }
}
