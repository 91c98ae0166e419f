//! Rows about replacing with PUT: versions, identities, subresources, fields that never change.

use serde_json::{Value, json};

use super::row::{Ask, Row, get, post, put, row};

const NODE: &str = "/api/v1/nodes/{n}";
const STATUS: &str = "/api/v1/nodes/{n}/status";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = versions();
    rows.extend(subresources());
    rows.extend(immutable());
    rows
}

fn object(mut rest: Value) -> Value {
    rest["metadata"]["name"] = json!("{n}");
    rest
}

fn made(name: &'static str, rest: Value) -> Row {
    row(name).given(post("/api/v1/nodes", object(rest)))
}

fn replaced(rest: Value) -> Ask {
    put(NODE, object(rest))
}

fn lease(version: &str) -> Value {
    json!({"metadata": {"name": "a", "resourceVersion": version}, "spec": {"holderIdentity": "me"}})
}

fn versions() -> Vec<Row> {
    let labels = json!({"a": "b"});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/{n}/leases";
    let one_lease = "/apis/coordination.k8s.io/v1/namespaces/{n}/leases/a";
    vec![
        made("a_put_with_the_current_version_replaces", json!({"metadata": {"labels": {"old": "1"}}}))
            .when(replaced(json!({"metadata": {"resourceVersion": "{0.rv}", "labels": labels}})), 200)
            .has("/metadata/labels", json!({"a": "b"}))
            .has("/metadata/uid", "{0.uid}"),
        made("a_put_with_an_old_version_conflicts", json!({}))
            .given(replaced(json!({"metadata": {"labels": labels}})))
            .when(replaced(json!({"metadata": {"resourceVersion": "{0.rv}"}})), 409)
            .refused("Conflict")
            .has("/details/kind", "nodes"),
        made("a_put_without_version_overwrites_a_node", json!({}))
            .when(replaced(json!({"metadata": {"labels": labels}})), 200)
            .has("/metadata/labels/a", "b"),
        row("a_put_without_version_does_not_overwrite_a_lease")
            .given(post(leases, lease("")))
            .when(put(one_lease, lease("")), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "metadata.resourceVersion"),
        row("a_put_with_version_renews_a_lease")
            .given(post(leases, lease("")))
            .when(put(one_lease, lease("{0.rv}")), 200)
            .has("/spec/holderIdentity", "me"),
        made("a_put_that_changes_nothing_keeps_the_version", json!({"metadata": {"labels": {"a": "b"}}}))
            .given(get(NODE))
            .when(
                replaced(json!({
                    "metadata": {"labels": labels},
                    "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
                })),
                200,
            )
            .has("/metadata/resourceVersion", "{1.rv}"),
        row("a_put_does_not_create_a_node").when(replaced(json!({})), 404).refused("NotFound"),
        row("a_put_creates_a_lease").when(put(one_lease, lease("")), 201).has("/metadata/name", "a"),
        row("a_put_creates_a_service")
            .when(
                put(
                    "/api/v1/namespaces/{n}/services/a",
                    json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}),
                ),
                201,
            )
            .has("/spec/type", "ClusterIP"),
        made("a_put_must_name_the_object_of_its_path", json!({}))
            .when(put(NODE, json!({"metadata": {"name": "other"}})), 400)
            .refused("BadRequest"),
        made("a_put_with_a_foreign_uid_conflicts", json!({}))
            .when(replaced(json!({"metadata": {"uid": "00000000-0000-0000-0000-00000000ffff"}})), 409)
            .refused("Conflict"),
        made("a_version_in_a_put_is_a_number", json!({}))
            .when(replaced(json!({"metadata": {"resourceVersion": "abc"}})), 500),
        made("a_put_keeps_the_generation", json!({"metadata": {"generation": 5}}))
            .when(replaced(json!({"metadata": {"generation": 9, "labels": {"a": "b"}}})), 200)
            .has("/metadata/generation", 5),
        made("a_put_of_the_status_with_an_old_version_conflicts", json!({}))
            .given(replaced(json!({"metadata": {"labels": {"a": "b"}}})))
            .when(put(STATUS, object(json!({"metadata": {"resourceVersion": "{0.rv}"}}))), 409)
            .refused("Conflict"),
        made("a_strict_put_is_told_about_unknown_fields", json!({}))
            .when(put("/api/v1/nodes/{n}?fieldValidation=Strict", object(json!({"spec": {"nonsense": 1}}))), 400)
            .refused("BadRequest"),
        made("a_put_keeps_the_time_of_creation", json!({}))
            .when(replaced(json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}})), 200),
        made("a_put_cannot_start_a_deletion", json!({}))
            .when(replaced(json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})), 422)
            .refused("Invalid"),
        made("a_dry_put_stores_nothing", json!({}))
            .given(put("/api/v1/nodes/{n}?dryRun=All", object(json!({"metadata": {"labels": {"a": "b"}}}))))
            .when(get(NODE), 200)
            .has("/metadata/resourceVersion", "{0.rv}")
            .has("/metadata/labels", Value::Null),
        made("a_put_is_validated", json!({}))
            .when(replaced(json!({"metadata": {"labels": {"a": "not valid!"}}})), 422)
            .refused("Invalid"),
    ]
}

fn subresources() -> Vec<Row> {
    let address = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
    vec![
        made("a_put_ignores_the_status", json!({"status": {"addresses": address}}))
            .when(replaced(json!({"status": {"addresses": []}, "spec": {"providerID": "x://1"}})), 200)
            .has("/spec/providerID", "x://1")
            .has("/status/addresses/0/address", "10.0.0.1"),
        made("a_put_of_the_status_ignores_the_spec", json!({}))
            .when(
                put(STATUS, object(json!({"status": {"addresses": address}, "spec": {"providerID": "x://1"}}))),
                200,
            )
            .has("/spec/providerID", Value::Null)
            .has("/status/addresses/0/address", "10.0.0.1"),
        made("a_put_of_the_status_writes_metadata", json!({"metadata": {"labels": {"old": "1"}}}))
            .when(
                put(STATUS, object(json!({"metadata": {"labels": {"new": "1"}, "finalizers": ["example.com/x"]}}))),
                200,
            )
            .has("/metadata/labels", json!({"new": "1"}))
            .has("/metadata/finalizers/0", "example.com/x"),
        made("equal_addresses_are_refused", json!({}))
            .when(
                put(
                    STATUS,
                    object(json!({"status": {"addresses": [
                        {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "10.0.0.1"},
                    ]}})),
                ),
                422,
            )
            .refused("Invalid")
            .has("/details/causes/0/field", "status.addresses[1]")
            .any_message(),
        made("two_addresses_of_one_type_are_allowed", json!({}))
            .when(
                put(
                    STATUS,
                    object(json!({"status": {"addresses": [
                        {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "fd00::1"},
                    ]}})),
                ),
                200,
            )
            .has("/status/addresses/1/address", "fd00::1"),
    ]
}

fn immutable() -> Vec<Row> {
    let with_id = json!({"spec": {"providerID": "x://1"}});
    let with_cidr = json!({"spec": {"podCIDR": "10.244.1.0/24"}});
    vec![
        made("a_provider_id_can_be_set", json!({}))
            .when(replaced(json!({"spec": {"providerID": "x://1"}})), 200)
            .has("/spec/providerID", "x://1"),
        made("a_provider_id_cannot_be_changed", with_id.clone())
            .when(replaced(json!({"spec": {"providerID": "x://2"}})), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "spec.providerID"),
        made("a_provider_id_cannot_be_removed", with_id)
            .when(replaced(json!({})), 422)
            .refused("Invalid"),
        made("a_pod_cidr_can_be_set", json!({}))
            .when(replaced(json!({"spec": {"podCIDR": "10.244.1.0/24"}})), 200)
            .has("/spec/podCIDRs", json!(["10.244.1.0/24"])),
        made("a_pod_cidr_cannot_be_changed", with_cidr.clone())
            .when(replaced(json!({"spec": {"podCIDR": "10.244.2.0/24"}})), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "spec.podCIDRs"),
        made("a_pod_cidr_cannot_be_removed", with_cidr)
            .when(replaced(json!({})), 422)
            .refused("Invalid"),
    ]
}
