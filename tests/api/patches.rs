//! Rows about JSON patches and merge patches, and about what holds for patches of every type.

use serde_json::{Value, json};

use super::row::{
    APPLY, Ask, JSON_PATCH, MERGE, METADATA_ONLY, Row, STRATEGIC, get, patch, post, row,
};

const NODE: &str = "/api/v1/nodes/{n}";
const STATUS: &str = "/api/v1/nodes/{n}/status";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = json_patches();
    rows.extend(merge_patches());
    rows.extend(every_type());
    rows.extend(typed());
    rows
}

fn made(name: &'static str, mut rest: Value) -> Row {
    rest["metadata"]["name"] = json!("{n}");
    row(name).given(post("/api/v1/nodes", rest))
}

fn json_patch(operations: Value) -> Ask {
    patch(JSON_PATCH, NODE, operations)
}

fn merge(body: Value) -> Ask {
    patch(MERGE, NODE, body)
}

fn strategic(body: Value) -> Ask {
    patch(STRATEGIC, NODE, body)
}

fn json_patches() -> Vec<Row> {
    let labelled = json!({"metadata": {"labels": {"a": "1", "b/c": "2"}}});
    let inapplicable = |name: &'static str, operations: Value| {
        made(name, json!({}))
            .when(json_patch(operations), 422)
            .refused("Invalid")
    };
    vec![
        made("a_json_patch_adds_replaces_and_removes", labelled.clone())
            .when(
                json_patch(json!([
                    {"op": "test", "path": "/metadata/labels/a", "value": "1"},
                    {"op": "replace", "path": "/metadata/labels/a", "value": "9"},
                    {"op": "remove", "path": "/metadata/labels/b~1c"},
                    {"op": "add", "path": "/spec/taints/-", "value": {"key": "x", "effect": "NoExecute"}},
                    {"op": "add", "path": "/spec/providerID", "value": "x://1"},
                ])),
                200,
            )
            .has("/metadata/labels", json!({"a": "9"}))
            .has("/spec/taints/1/key", "x")
            .has("/spec/providerID", "x://1"),
        made("a_json_patch_moves_and_copies", labelled)
            .when(
                json_patch(json!([
                    {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/copied"},
                    {"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/moved"},
                ])),
                200,
            )
            .has("/metadata/labels", json!({"b/c": "2", "copied": "1", "moved": "1"})),
        inapplicable(
            "a_json_patch_whose_test_fails_does_nothing",
            json!([{"op": "test", "path": "/metadata/name", "value": "other"}]),
        ),
        inapplicable(
            "a_json_patch_cannot_remove_what_is_absent",
            json!([{"op": "remove", "path": "/metadata/labels/absent"}]),
        ),
        inapplicable(
            "a_json_patch_cannot_add_below_what_is_absent",
            json!([{"op": "add", "path": "/metadata/labels/a", "value": "1"}]),
        ),
        made("a_json_patch_is_a_list", json!({}))
            .when(json_patch(json!({"metadata": {"labels": {"a": "b"}}})), 400)
            .refused("BadRequest")
            .any_message(),
    ]
}

fn merge_patches() -> Vec<Row> {
    vec![
        made(
            "a_merge_patch_sets_and_removes",
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
        )
        .when(
            merge(json!({"metadata": {"labels": {"a": null, "c": "3"}}})),
            200,
        )
        .has("/metadata/labels", json!({"b": "2", "c": "3"})),
        made(
            "a_merge_patch_replaces_lists",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
        )
        .when(
            merge(json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}})),
            200,
        )
        .has("/spec/taints", json!([{"key": "b", "effect": "NoExecute"}])),
        made("a_merge_patch_of_the_object_ignores_the_status", json!({}))
            .when(
                merge(json!({"status": {"phase": "Running"}, "spec": {"unschedulable": true}})),
                200,
            )
            .has("/status/phase", Value::Null)
            .has("/spec/unschedulable", true),
        made("a_merge_patch_of_the_status_ignores_the_spec", json!({}))
            .when(
                patch(
                    MERGE,
                    STATUS,
                    json!({
                        "metadata": {"labels": {"a": "1"}},
                        "spec": {"unschedulable": true},
                        "status": {"addresses": [{"type": "Hostname", "address": "h"}]},
                    }),
                ),
                200,
            )
            .has("/spec/unschedulable", Value::Null)
            .has("/metadata/labels/a", "1")
            .has("/status/addresses/0/address", "h"),
        made("a_merge_patch_must_be_json", json!({}))
            .when(patch(MERGE, NODE, "{not json"), 400)
            .refused("BadRequest")
            .any_message(),
    ]
}

fn every_type() -> Vec<Row> {
    let label = json!({"metadata": {"labels": {"a": "1"}}});
    vec![
        row("a_patch_of_an_absent_object_is_not_found").when(merge(json!({})), 404).refused("NotFound"),
        made("a_patch_of_an_unknown_type_is_refused", json!({}))
            .when(patch("application/json", NODE, "{}"), 415)
            .refused("UnsupportedMediaType"),
        row("server_side_apply_is_not_simulated")
            .when(
                patch(APPLY, "/api/v1/nodes/{n}?fieldManager=me", r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{n}"}}"#),
                415,
            )
            .refused("UnsupportedMediaType")
            .really(201, "", "field ownership is not simulated, and refused rather than guessed"),
        made("a_patch_that_changes_nothing_keeps_the_version", label.clone())
            .when(merge(label.clone()), 200)
            .has("/metadata/resourceVersion", "{0.rv}"),
        made("a_strategic_patch_that_changes_nothing_keeps_the_version", label.clone())
            .when(strategic(label.clone()), 200)
            .has("/metadata/resourceVersion", "{0.rv}"),
        made("a_version_in_a_patch_is_a_precondition", json!({}))
            .given(merge(label.clone()))
            .when(strategic(json!({"metadata": {"resourceVersion": "{0.rv}", "labels": {"a": "2"}}})), 409)
            .refused("Conflict"),
        made("the_current_version_in_a_patch_is_fine", json!({}))
            .given(merge(label.clone()))
            .when(strategic(json!({"metadata": {"resourceVersion": "{1.rv}", "labels": {"a": "2"}}})), 200)
            .has("/metadata/labels/a", "2"),
        made("a_foreign_uid_in_a_patch_is_refused", json!({}))
            .when(merge(json!({"metadata": {"uid": "00000000-0000-0000-0000-00000000ffff", "labels": {"a": "1"}}})), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "metadata.uid"),
        made("the_right_uid_in_a_patch_is_fine", json!({}))
            .when(merge(json!({"metadata": {"uid": "{0.uid}", "labels": {"a": "1"}}})), 200)
            .has("/metadata/labels/a", "1"),
        made("a_patch_cannot_rename", json!({}))
            .when(merge(json!({"metadata": {"name": "other"}})), 400)
            .refused("BadRequest"),
        made("a_patch_cannot_change_a_provider_id", json!({"spec": {"providerID": "x://1"}}))
            .when(strategic(json!({"spec": {"providerID": "x://2"}})), 422)
            .refused("Invalid"),
        made("a_patch_is_validated", json!({}))
            .when(strategic(json!({"metadata": {"labels": {"a": "not valid!"}}})), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "metadata.labels"),
        made("a_patch_can_be_answered_with_metadata_alone", json!({}))
            .when(strategic(label.clone()).accepting(METADATA_ONLY), 200)
            .has("/kind", "PartialObjectMetadata")
            .has("/metadata/labels/a", "1"),
        made("a_dry_patch_stores_nothing", json!({}))
            .given(patch(MERGE, "/api/v1/nodes/{n}?dryRun=All", label))
            .when(get(NODE), 200)
            .has("/metadata/resourceVersion", "{0.rv}"),
    ]
}

fn typed() -> Vec<Row> {
    vec![
        made("a_merge_patch_must_keep_types", json!({}))
            .when(merge(json!({"spec": {"unschedulable": "yes"}})), 422)
            .refused("Invalid")
            .any_message(),
        made("a_strategic_patch_must_keep_types", json!({}))
            .when(strategic(json!({"spec": {"unschedulable": "yes"}})), 422)
            .refused("Invalid")
            .any_message(),
        made(
            "a_strict_merge_patch_is_told_about_unknown_fields",
            json!({}),
        )
        .when(
            patch(
                MERGE,
                "/api/v1/nodes/{n}?fieldValidation=Strict",
                json!({"spec": {"nonsense": 1}}),
            ),
            422,
        )
        .refused("Invalid")
        .any_message(),
        made(
            "a_strict_strategic_patch_is_told_about_unknown_fields",
            json!({}),
        )
        .when(
            patch(
                STRATEGIC,
                "/api/v1/nodes/{n}?fieldValidation=Strict",
                json!({"spec": {"nonsense": 1}}),
            ),
            422,
        )
        .refused("Invalid")
        .any_message(),
        made("a_json_patch_can_test_the_version", json!({}))
            .given(merge(json!({"metadata": {"labels": {"a": "1"}}})))
            .when(
                json_patch(
                    json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "{0.rv}"}]),
                ),
                422,
            )
            .refused("Invalid"),
        made("a_patch_drops_unknown_fields", json!({}))
            .when(
                merge(json!({"spec": {"nonsense": 1, "providerID": "x://1"}})),
                200,
            )
            .has("/spec/nonsense", Value::Null),
        made("a_strategic_patch_must_be_json", json!({}))
            .when(patch(STRATEGIC, NODE, "[1, 2"), 400)
            .refused("BadRequest")
            .any_message(),
    ]
}
