//! Rows about our own kind Provider: a server's behaviour for a kind that a CustomResourceDefinition defines.

use serde_json::{Value, json};

use super::row::{Ask, JSON_PATCH, MERGE, Row, STRATEGIC, delete, get, patch, post, put, row};

const ALL: &str = "/apis/wasm-ccm.dev/v1alpha1/providers";
const ONE: &str = "/apis/wasm-ccm.dev/v1alpha1/providers/{n}";
const STATUS: &str = "/apis/wasm-ccm.dev/v1alpha1/providers/{n}/status";
const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = lifecycle();
    rows.extend(statuses());
    rows.extend(invalid());
    rows.extend(watches());
    rows
}

fn provider(more: Value) -> Value {
    let mut object = json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "Provider", "metadata": {"name": "{n}"},
    });
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

fn create(more: Value) -> Ask {
    post(ALL, provider(more))
}

fn active() -> Value {
    json!({"digest": DIGEST, "version": "1.0.0", "origin": "", "since": "2024-01-01T00:00:00Z"})
}

fn lifecycle() -> Vec<Row> {
    vec![
        row("a_provider_is_created_without_its_status")
            .when(create(json!({"status": {"state": "Serving"}})), 201)
            .has("/status", Value::Null)
            .has("/metadata/generation", 1)
            .has("/metadata/namespace", Value::Null)
            .has("/kind", "Provider"),
        row("a_provider_keeps_nothing_that_its_definition_does_not_name")
            .when(create(json!({"specification": {"a": 1}, "other": true})), 201)
            .has("/specification", Value::Null)
            .has("/other", Value::Null),
        row("a_strict_client_is_told_about_what_a_definition_does_not_name")
            .when(
                post(
                    "/apis/wasm-ccm.dev/v1alpha1/providers?fieldValidation=Strict",
                    provider(json!({"other": true})),
                ),
                400,
            )
            .refused("BadRequest")
            .any_message(),
        row("a_provider_says_what_it_is")
            .when(post(ALL, json!({"metadata": {"name": "{n}"}})), 400)
            .refused("BadRequest")
            .any_message(),
        row("a_provider_is_not_created_twice")
            .given(create(json!({})))
            .when(create(json!({})), 409)
            .refused("AlreadyExists"),
        row("an_absent_provider_is_not_found")
            .when(get(ONE), 404)
            .refused("NotFound")
            .has("/details/group", "wasm-ccm.dev")
            .has("/details/kind", "providers"),
        row("a_put_of_an_absent_provider_creates_nothing")
            .when(
                put(ONE, provider(json!({"metadata": {"name": "{n}", "resourceVersion": "1"}}))),
                404,
            )
            .refused("NotFound"),
        row("a_provider_is_replaced_only_in_a_known_version")
            .given(create(json!({})))
            .when(put(ONE, provider(json!({}))), 422)
            .refused("Invalid")
            .any_message(),
        row("a_stale_provider_is_not_replaced")
            .given(create(json!({})))
            .given(patch(MERGE, ONE, json!({"metadata": {"annotations": {"a": "b"}}})))
            .when(
                put(ONE, provider(json!({"metadata": {"name": "{n}", "resourceVersion": "{0.rv}"}}))),
                409,
            )
            .refused("Conflict"),
        row("annotations_of_a_provider_are_merged_and_wish_nothing")
            .given(create(json!({"metadata": {"name": "{n}", "annotations": {"a": "1", "b": "2"}}})))
            .when(
                patch(MERGE, ONE, json!({"metadata": {"annotations": {"a": null, "c": ""}}, "status": {"state": "x"}})),
                200,
            )
            .has("/metadata/annotations", json!({"b": "2", "c": ""}))
            .has("/metadata/generation", 1)
            .has("/status", Value::Null),
        row("annotations_of_a_provider_are_taken_away_only_as_they_were")
            .given(create(json!({"metadata": {"name": "{n}", "annotations": {"a": "1"}}})))
            .when(
                patch(
                    JSON_PATCH,
                    ONE,
                    json!([
                        {"op": "test", "path": "/metadata/annotations/a", "value": "2"},
                        {"op": "remove", "path": "/metadata/annotations/a"},
                    ]),
                ),
                422,
            )
            .refused("Invalid")
            .any_message(),
        row("a_provider_has_no_strategic_merge")
            .given(create(json!({})))
            .when(patch(STRATEGIC, ONE, json!({"metadata": {"labels": {"a": "b"}}})), 415)
            .refused("UnsupportedMediaType"),
        row("a_provider_is_deleted")
            .given(create(json!({})))
            .when(delete(ONE), 200)
            .has("/status", "Success")
            .has("/details/kind", "providers"),
        row("listed_providers_say_what_they_are")
            .given(create(json!({})))
            .when(
                get("/apis/wasm-ccm.dev/v1alpha1/providers?fieldSelector=metadata.name%3D{n}"),
                200,
            )
            .has("/kind", "ProviderList")
            .has("/items/0/kind", "Provider")
            .has("/items/0/metadata/name", "{n}"),
    ]
}

fn statuses() -> Vec<Row> {
    let told = |status: Value| patch(MERGE, STATUS, json!({"status": status}));
    vec![
        row("the_status_of_a_provider_is_written_apart")
            .given(create(json!({})))
            .when(told(json!({"state": "Serving", "active": active()})), 200)
            .has("/status/active/digest", DIGEST)
            .has("/status/active/origin", "")
            .has("/metadata/generation", 1),
        row("a_status_write_changes_nothing_else")
            .given(create(json!({})))
            .when(
                patch(MERGE, STATUS, json!({"metadata": {"annotations": {"a": "b"}}, "status": {"state": "x"}})),
                200,
            )
            .has("/metadata/annotations", Value::Null)
            .has("/status/state", "x"),
        row("a_status_is_kept_by_everything_else")
            .given(create(json!({})))
            .given(told(json!({"state": "Serving"})))
            .when(
                put(ONE, provider(json!({"metadata": {"name": "{n}", "resourceVersion": "{1.rv}"}, "status": {}}))),
                200,
            )
            .has("/status/state", "Serving"),
        row("a_status_is_replaced_whole")
            .given(create(json!({})))
            .given(told(json!({"state": "Serving", "trouble": "none"})))
            .when(
                put(
                    STATUS,
                    provider(json!({
                        "metadata": {"name": "{n}", "resourceVersion": "{1.rv}"},
                        "status": {"state": "Held", "approved": [], "unknown": 1},
                    })),
                ),
                200,
            )
            .has("/status", json!({"state": "Held", "approved": []})),
        row("a_null_takes_a_field_of_a_status_away")
            .given(create(json!({})))
            .given(told(json!({"state": "Serving", "active": active()})))
            .when(told(json!({"active": null})), 200)
            .has("/status", json!({"state": "Serving"})),
        row("an_absent_provider_has_no_status")
            .when(told(json!({"state": "x"})), 404)
            .refused("NotFound"),
        row("a_stale_status_is_refused")
            .given(create(json!({})))
            .given(told(json!({"state": "x"})))
            .when(
                patch(
                    MERGE,
                    STATUS,
                    json!({"metadata": {"resourceVersion": "{0.rv}"}, "status": {"state": "y"}}),
                ),
                409,
            )
            .refused("Conflict"),
    ]
}

fn invalid() -> Vec<Row> {
    let refused = |name: &'static str, status: Value, field: &'static str, reason: &'static str| {
        row(name)
            .given(create(json!({})))
            .when(patch(MERGE, STATUS, json!({"status": status})), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", field)
            .has("/details/causes/0/reason", reason)
            .any_message()
    };
    let mut phase = active();
    phase["phase"] = json!("Somewhere");
    let mut digest = active();
    digest["digest"] = json!("sha256:0");
    let mut since = active();
    since["since"] = json!("yesterday");
    vec![
        refused(
            "a_state_is_text",
            json!({"state": 1}),
            "status.state",
            "FieldValueTypeInvalid",
        ),
        refused(
            "a_state_is_a_word",
            json!({"state": "x".repeat(65)}),
            "status.state",
            "FieldValueTooLong",
        ),
        refused(
            "a_served_version_has_a_digest",
            json!({"active": {"since": "2024-01-01T00:00:00Z"}}),
            "status.active.digest",
            "FieldValueRequired",
        ),
        refused(
            "a_digest_has_its_form",
            json!({"active": digest}),
            "status.active.digest",
            "FieldValueInvalid",
        ),
        refused(
            "a_time_has_its_form",
            json!({"active": since}),
            "status.active.since",
            "FieldValueTypeInvalid",
        ),
        refused(
            "a_trial_is_in_a_known_phase",
            json!({"trial": phase}),
            "status.trial.phase",
            "FieldValueNotSupported",
        ),
        refused(
            "only_so_many_versions_are_approved",
            json!({"approved": vec![DIGEST; 33]}),
            "status.approved",
            "FieldValueTooMany",
        ),
        row("the_name_of_a_provider_is_a_subdomain")
            .when(create(json!({"metadata": {"name": "Not_A_Name"}})), 422)
            .refused("Invalid"),
    ]
}

fn watches() -> Vec<Row> {
    vec![
        row("a_provider_is_watched_by_its_name")
            .given(create(json!({})))
            .watching(
                "/apis/wasm-ccm.dev/v1alpha1/providers?watch=1&fieldSelector=metadata.name%3D{n}&resourceVersion={0.rv}",
                2,
            )
            .meanwhile(patch(MERGE, STATUS, json!({"status": {"state": "Serving"}})))
            .meanwhile(delete(ONE))
            .has("/events/0/type", "MODIFIED")
            .has("/events/0/object/status/state", "Serving")
            .has("/events/1/type", "DELETED"),
        row("an_event_about_a_provider_is_in_the_default_namespace")
            .when(
                post(
                    "/apis/events.k8s.io/v1/namespaces/default/events",
                    json!({
                        "metadata": {"name": "{n}"}, "reason": "RolledBack", "note": "fine", "type": "Warning",
                        "action": "RollBack", "eventTime": "2024-01-01T00:00:00.000001Z",
                        "reportingController": "wasm-ccm.dev/ccm", "reportingInstance": "me",
                        "regarding": {"apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "Provider", "name": "{n}"},
                    }),
                ),
                201,
            )
            .has("/regarding/kind", "Provider")
            .has("/regarding/namespace", Value::Null),
    ]
}
