//! Rows about deleting: preconditions, finalizers, propagation, collections and namespaces.

use serde_json::{Value, json};

use super::row::{Ask, JSON_PATCH, MERGE, Row, delete, delete_with, get, patch, post, row};

const NODE: &str = "/api/v1/nodes/{n}";
const MAPS: &str = "/api/v1/namespaces/{n}/configmaps";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = one();
    rows.extend(finalizers());
    rows.extend(many());
    rows
}

fn node(rest: Value) -> Ask {
    let mut object = rest;
    object["metadata"]["name"] = json!("{n}");
    post("/api/v1/nodes", object)
}

fn made(name: &'static str) -> Row {
    row(name).given(node(json!({})))
}

fn finalized(name: &'static str) -> Row {
    row(name).given(node(json!({"metadata": {"finalizers": ["example.com/a"]}})))
}

fn one() -> Vec<Row> {
    let precondition = |field: &str, value: &str| json!({"preconditions": {field: value}});
    vec![
        made("a_deleted_node_is_answered_with_a_status")
            .when(delete(NODE), 200)
            .has("/kind", "Status")
            .has("/status", "Success")
            .has("/details/kind", "nodes")
            .has("/details/uid", "{0.uid}"),
        row("a_deleted_lease_is_answered_with_its_group")
            .given(post(
                "/apis/coordination.k8s.io/v1/namespaces/{n}/leases",
                json!({"metadata": {"name": "a"}}),
            ))
            .when(
                delete("/apis/coordination.k8s.io/v1/namespaces/{n}/leases/a"),
                200,
            )
            .has("/details/group", "coordination.k8s.io"),
        row("a_deleted_service_account_is_answered_itself")
            .given(post(
                "/api/v1/namespaces/{n}/serviceaccounts",
                json!({"metadata": {"name": "a"}}),
            ))
            .when(delete("/api/v1/namespaces/{n}/serviceaccounts/a"), 200)
            .has("/kind", "ServiceAccount"),
        made("a_deleted_object_is_gone")
            .given(delete(NODE))
            .when(get(NODE), 404)
            .refused("NotFound"),
        row("an_absent_object_cannot_be_deleted")
            .when(delete(NODE), 404)
            .refused("NotFound"),
        made("a_deletion_of_another_uid_conflicts")
            .when(
                delete_with(
                    NODE,
                    precondition("uid", "00000000-0000-0000-0000-00000000ffff"),
                ),
                409,
            )
            .refused("Conflict")
            .has("/details/kind", "Node"),
        made("a_deletion_of_another_version_conflicts")
            .given(patch(
                MERGE,
                NODE,
                json!({"metadata": {"labels": {"a": "1"}}}),
            ))
            .when(
                delete_with(NODE, precondition("resourceVersion", "{0.rv}")),
                409,
            )
            .refused("Conflict"),
        made("a_deletion_with_true_preconditions_succeeds")
            .when(
                delete_with(
                    NODE,
                    json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 30,
                        "preconditions": {"uid": "{0.uid}", "resourceVersion": "{0.rv}"}}),
                ),
                200,
            )
            .has("/status", "Success"),
        made("a_dry_deletion_deletes_nothing")
            .given(delete("/api/v1/nodes/{n}?dryRun=All"))
            .when(get(NODE), 200)
            .has("/metadata/resourceVersion", "{0.rv}"),
        made("a_dry_deletion_may_be_said_in_the_body")
            .given(delete_with(NODE, json!({"dryRun": ["All"]})))
            .when(get(NODE), 200),
        made("an_unknown_propagation_is_refused")
            .when(
                delete_with(NODE, json!({"propagationPolicy": "Nonsense"})),
                422,
            )
            .refused("Invalid"),
        made("there_is_one_way_to_say_what_becomes_of_dependents")
            .when(
                delete_with(
                    NODE,
                    json!({"propagationPolicy": "Background", "orphanDependents": false}),
                ),
                422,
            )
            .refused("Invalid"),
        row("a_deletion_that_waits_counts_as_a_generation")
            .given(node(
                json!({"metadata": {"generation": 5, "finalizers": ["example.com/a"]}}),
            ))
            .when(delete(NODE), 200)
            .has("/metadata/generation", 6),
        finalized("an_old_client_is_told_that_the_object_stays")
            .when(delete_with(NODE, json!({"orphanDependents": false})), 202)
            .has("/kind", "Node"),
        made("delete_options_must_be_readable")
            .when(delete_with(NODE, "{not json"), 400)
            .refused("BadRequest")
            .any_message(),
    ]
}

fn finalizers() -> Vec<Row> {
    let drop_finalizers = || patch(MERGE, NODE, json!({"metadata": {"finalizers": null}}));
    vec![
        finalized("a_finalizer_keeps_a_deleted_object")
            .when(delete(NODE), 200)
            .has("/kind", "Node")
            .has("/metadata/deletionGracePeriodSeconds", 0)
            .has("/metadata/finalizers/0", "example.com/a"),
        finalized("a_second_deletion_changes_nothing")
            .given(delete(NODE))
            .when(delete(NODE), 200)
            .has("/metadata/resourceVersion", "{1.rv}"),
        finalized("the_last_finalizer_ends_a_deletion")
            .given(delete(NODE))
            .given(drop_finalizers())
            .when(get(NODE), 404)
            .refused("NotFound"),
        finalized("the_write_that_ends_a_deletion_is_answered_with_the_object")
            .given(delete(NODE))
            .when(drop_finalizers(), 200)
            .has("/kind", "Node")
            .has("/metadata/finalizers", Value::Null),
        finalized("the_status_subresource_can_end_a_deletion_too")
            .given(delete(NODE))
            .given(patch(MERGE, "/api/v1/nodes/{n}/status", json!({"metadata": {"finalizers": null}})))
            .when(get(NODE), 404)
            .refused("NotFound"),
        finalized("finalizers_may_go_while_the_object_lives").when(drop_finalizers(), 200).has("/kind", "Node"),
        finalized("no_finalizer_is_added_during_a_deletion")
            .given(delete(NODE))
            .when(
                patch(JSON_PATCH, NODE, json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/b"}])),
                422,
            )
            .refused("Invalid")
            .has("/details/causes/0/field", "metadata.finalizers"),
        finalized("an_object_under_deletion_still_holds_its_name")
            .given(delete(NODE))
            .when(node(json!({})), 409)
            .refused("AlreadyExists"),
        finalized("an_object_under_deletion_can_still_be_written")
            .given(delete(NODE))
            .when(patch(MERGE, NODE, json!({"metadata": {"labels": {"a": "1"}, "deletionTimestamp": null}})), 200)
            .has("/metadata/labels/a", "1")
            .has("/metadata/deletionGracePeriodSeconds", 0),
        made("foreground_deletion_waits_for_the_collector")
            .when(delete_with(NODE, json!({"propagationPolicy": "Foreground"})), 200)
            .has("/metadata/finalizers", json!(["foregroundDeletion"])),
        made("orphaning_waits_for_the_collector")
            .when(delete("/api/v1/nodes/{n}?propagationPolicy=Orphan"), 200)
            .has("/metadata/finalizers", json!(["orphan"])),
        made("background_deletion_waits_for_nobody")
            .when(delete_with(NODE, json!({"propagationPolicy": "Background"})), 200)
            .has("/status", "Success"),
    ]
}

fn many() -> Vec<Row> {
    let map = |name: &str, tier: &str| {
        post(
            MAPS,
            json!({"metadata": {"name": name, "labels": {"tier": tier}}}),
        )
    };
    vec![
        row("a_collection_is_deleted_by_selector")
            .given(map("a", "one"))
            .given(map("b", "two"))
            .given(map("c", "two"))
            .given(delete(
                "/api/v1/namespaces/{n}/configmaps?labelSelector=tier%3Dtwo",
            ))
            .when(get(MAPS), 200)
            .has("/items/0/metadata/name", "a")
            .has("/items/1", Value::Null),
        row("a_deleted_collection_is_answered_as_a_list")
            .given(map("a", "one"))
            .when(delete(MAPS), 200)
            .has("/kind", "ConfigMapList")
            .has("/items/0/metadata/name", "a"),
        row("a_namespace_terminates")
            .when(delete("/api/v1/namespaces/{n}"), 200)
            .has("/status/phase", "Terminating")
            .has("/spec/finalizers/0", "kubernetes"),
        row("nothing_is_created_in_a_terminating_namespace")
            .given(delete("/api/v1/namespaces/{n}"))
            .when(map("a", "one"), 403)
            .refused("Forbidden"),
    ]
}
