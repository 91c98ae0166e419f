//! Rows about creating: defaults, names, rules, unreadable bodies, dry run.

use serde_json::{Value, json};

use super::row::{Ask, Row, get, post, row};

const NODES: &str = "/api/v1/nodes";
const MAPS: &str = "/api/v1/namespaces/{n}/configmaps";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = accepted();
    rows.extend(invalid());
    rows.extend(unreadable());
    rows.extend(dry());
    rows
}

fn node(rest: Value) -> Ask {
    post(NODES, with_name(rest))
}

fn with_name(mut object: Value) -> Value {
    object["metadata"]["name"] = json!("{n}");
    object
}

fn accepted() -> Vec<Row> {
    vec![
        row("a_new_node_is_tainted_not_ready")
            .when(node(json!({})), 201)
            .has("/spec/taints", json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]))
            .has("/status/nodeInfo/machineID", "")
            .has("/metadata/generation", Value::Null),
        row("a_new_node_keeps_its_own_taints")
            .when(
                node(json!({"spec": {"taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]}})),
                201,
            )
            .has("/spec/taints/0/key", UNINITIALIZED)
            .has("/spec/taints/1/key", "node.kubernetes.io/not-ready"),
        row("a_new_node_keeps_its_status_and_both_forms_of_its_pod_cidr")
            .when(
                node(json!({
                    "spec": {"podCIDR": "10.244.1.0/24", "unschedulable": false},
                    "status": {"capacity": {"cpu": "2"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
                })),
                201,
            )
            .has("/spec/podCIDRs/0", "10.244.1.0/24")
            .has("/spec/unschedulable", Value::Null)
            .has("/status/allocatable/cpu", "2")
            .has("/status/addresses/0/address", "10.0.0.1"),
        row("pod_cidrs_set_the_old_field")
            .when(node(json!({"spec": {"podCIDRs": ["10.244.1.0/24", "fd00::/64"]}})), 201)
            .has("/spec/podCIDR", "10.244.1.0/24"),
        row("what_only_the_server_sets_is_overwritten")
            .when(
                node(json!({"metadata": {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z",
                    "deletionTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}})),
                201,
            )
            .has("/metadata/deletionTimestamp", Value::Null)
            .has("/metadata/selfLink", Value::Null),
        row("a_taint_keeps_its_time")
            .when(
                node(json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}]}})),
                201,
            )
            .has("/spec/taints/0/timeAdded", "2024-01-01T00:00:00Z"),
        row("a_generation_is_taken_at_creation")
            .when(node(json!({"metadata": {"generation": 5}})), 201)
            .has("/metadata/generation", 5),
        row("empty_fields_are_left_out")
            .when(
                node(json!({"metadata": {"labels": {}, "annotations": {"a": ""}, "finalizers": []}, "spec": {"taints": []}})),
                201,
            )
            .has("/metadata/labels", Value::Null)
            .has("/metadata/annotations/a", "")
            .has("/metadata/finalizers", Value::Null),
        row("a_namespace_in_a_cluster_wide_object_is_dropped")
            .when(node(json!({"metadata": {"namespace": "default"}})), 201)
            .has("/metadata/namespace", Value::Null),
        row("a_name_is_generated")
            .when(post(MAPS, json!({"metadata": {"generateName": "made-"}})), 201)
            .has("/metadata/generateName", "made-")
            .free("/metadata/name"),
        row("the_namespace_comes_from_the_path")
            .when(post(MAPS, json!({"metadata": {"name": "a"}})), 201)
            .has("/metadata/namespace", "{n}"),
        row("unknown_fields_are_dropped")
            .when(node(json!({"spec": {"nonsense": 1, "providerID": "x://1"}, "other": {}})), 201)
            .has("/spec/nonsense", Value::Null)
            .has("/spec/providerID", "x://1"),
        row("a_new_namespace_is_active_and_labelled")
            .when(post("/api/v1/namespaces", json!({"metadata": {"name": "{n}-x"}})), 201)
            .has("/status/phase", "Active")
            .has("/metadata/labels/kubernetes.io~1metadata.name", "{n}-x"),
    ]
}

fn invalid() -> Vec<Row> {
    let refused =
        |name: &'static str, object: Value| row(name).when(node(object), 422).refused("Invalid");
    let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
    vec![
        row("an_existing_object_is_not_created_again")
            .given(node(json!({})))
            .when(node(json!({})), 409)
            .refused("AlreadyExists")
            .has("/details/name", "{n}"),
        row("a_new_object_has_no_version_yet")
            .when(node(json!({"metadata": {"resourceVersion": "1"}})), 500),
        row("a_name_must_be_a_subdomain")
            .when(post(NODES, json!({"metadata": {"name": "Not_A_Name"}})), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "metadata.name"),
        row("a_name_is_needed")
            .when(post(NODES, json!({"metadata": {}})), 422)
            .refused("Invalid")
            .has("/details/causes/0/reason", "FieldValueRequired"),
        refused("a_label_key_must_be_qualified", json!({"metadata": {"labels": {"-bad-": "x"}}}))
            .has("/details/causes/0/field", "metadata.labels"),
        refused("a_label_key_has_one_slash", json!({"metadata": {"labels": {"a/b/c": "x"}}})),
        refused("a_label_prefix_is_a_subdomain", json!({"metadata": {"labels": {"A_B/c": "x"}}})),
        refused("a_label_value_is_short_and_plain", json!({"metadata": {"labels": {"a": "not valid!"}}})),
        refused("a_label_value_has_63_characters", json!({"metadata": {"labels": {"a": "x".repeat(64)}}})),
        refused("an_annotation_key_must_be_qualified", json!({"metadata": {"annotations": {"a b": "x"}}})),
        refused(
            "annotations_together_have_a_limit",
            json!({"metadata": {"annotations": {"a": "x".repeat(262_144)}}}),
        )
        .has("/details/causes/0/reason", "FieldValueTooLong"),
        refused("a_finalizer_must_be_qualified", json!({"metadata": {"finalizers": ["not valid"]}})),
        refused(
            "an_owner_needs_an_identity",
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "", "uid": ""}]}}),
        ),
        refused(
            "taints_are_unique_by_key_and_effect",
            json!({"spec": {"taints": [taint("a", "1", "NoSchedule"), taint("a", "2", "NoSchedule")]}}),
        )
        .has("/details/causes/0/field", "metadata.taints[1]")
        .any_message(),
        refused("a_taint_effect_is_one_of_three", json!({"spec": {"taints": [taint("a", "", "Never")]}})),
        refused("a_taint_needs_an_effect", json!({"spec": {"taints": [{"key": "a"}]}})),
        refused("a_taint_key_must_be_qualified", json!({"spec": {"taints": [taint("", "", "NoSchedule")]}})),
        refused("a_pod_cidr_must_be_a_cidr", json!({"spec": {"podCIDR": "10.0.0.0"}})),
        refused(
            "two_pod_cidrs_are_of_two_families",
            json!({"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}}),
        ),
        row("a_namespace_must_exist")
            .when(post("/api/v1/namespaces/{n}-absent/configmaps", with_name(json!({}))), 404)
            .refused("NotFound")
            .has("/details/kind", "namespaces"),
    ]
}

fn unreadable() -> Vec<Row> {
    let refused = |name: &'static str, body: &str| {
        row(name)
            .when(post(NODES, body), 400)
            .refused("BadRequest")
            .any_message()
    };
    vec![
        refused("a_body_must_be_json", "{not json"),
        refused("a_body_must_not_be_empty", ""),
        refused(
            "a_field_must_have_its_type",
            r#"{"metadata": {"name": "{n}"}, "spec": {"unschedulable": "yes"}}"#,
        ),
        refused(
            "a_list_must_be_a_list",
            r#"{"metadata": {"name": "{n}"}, "spec": {"taints": {"key": "a"}}}"#,
        ),
        refused(
            "a_body_must_be_of_the_kind",
            r#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "{n}"}}"#,
        ),
        refused(
            "a_body_must_be_of_the_version",
            r#"{"kind": "Node", "apiVersion": "v2", "metadata": {"name": "{n}"}}"#,
        ),
        row("a_body_must_be_of_a_known_type")
            .when(node(json!({})).typed("text/plain"), 415)
            .refused("UnsupportedMediaType"),
        row("a_namespace_must_be_that_of_the_path")
            .when(
                post(
                    MAPS,
                    json!({"metadata": {"name": "a", "namespace": "default"}}),
                ),
                400,
            )
            .refused("BadRequest"),
        row("a_strict_client_is_told_about_unknown_fields")
            .when(
                post(
                    "/api/v1/nodes?fieldValidation=Strict",
                    with_name(json!({"spec": {"nonsense": 1}})),
                ),
                400,
            )
            .refused("BadRequest"),
    ]
}

fn dry() -> Vec<Row> {
    let dry = || post("/api/v1/nodes?dryRun=All", with_name(json!({})));
    vec![
        row("a_dry_run_answers_as_if")
            .when(dry(), 201)
            .has("/metadata/name", "{n}"),
        row("a_dry_run_stores_nothing")
            .given(dry())
            .when(get("/api/v1/nodes/{n}"), 404)
            .refused("NotFound"),
        row("a_dry_run_sees_what_exists")
            .given(node(json!({})))
            .when(dry(), 409)
            .refused("AlreadyExists"),
        row("a_dry_run_is_for_all_stages")
            .when(post("/api/v1/nodes?dryRun=Some", with_name(json!({}))), 422)
            .refused("Invalid"),
    ]
}
