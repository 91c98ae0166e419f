//! Rows about the kinds that have few rules: Lease, Event in both versions, ConfigMap, Secret.

use serde_json::{Value, json};

use super::row::{Ask, MERGE, Row, delete, get, patch, post, put, row};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/{n}/leases";
const OLD: &str = "/api/v1/namespaces/{n}/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/{n}/events";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = leases();
    rows.extend(events());
    rows.extend(data());
    rows
}

fn lease(spec: Value) -> Ask {
    post(LEASES, json!({"metadata": {"name": "a"}, "spec": spec}))
}

fn leases() -> Vec<Row> {
    vec![
        row("a_lease_keeps_microseconds")
            .when(
                lease(json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                    "acquireTime": "2024-01-01T00:00:00.000000Z", "renewTime": "2024-01-01T00:00:01.234567Z"})),
                201,
            )
            .has("/spec/renewTime", "2024-01-01T00:00:01.234567Z")
            .has("/spec/leaseTransitions", 0),
        row("a_lease_needs_no_spec").when(post(LEASES, json!({"metadata": {"name": "a"}})), 201).has("/spec", json!({})),
        row("a_lease_lasts_a_while")
            .when(lease(json!({"leaseDurationSeconds": 0})), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "spec.leaseDurationSeconds"),
        row("a_lease_counts_its_transitions")
            .when(lease(json!({"leaseTransitions": -1})), 422)
            .refused("Invalid"),
        row("a_stale_renewal_conflicts")
            .given(lease(json!({"holderIdentity": "me"})))
            .given(patch(MERGE, "/apis/coordination.k8s.io/v1/namespaces/{n}/leases/a", json!({"spec": {"holderIdentity": "you"}})))
            .when(
                put("/apis/coordination.k8s.io/v1/namespaces/{n}/leases/a",
                    json!({"metadata": {"name": "a", "resourceVersion": "{0.rv}"}, "spec": {"holderIdentity": "me"}})),
                409,
            )
            .refused("Conflict")
            .has("/details/group", "coordination.k8s.io"),
    ]
}

fn old_event(namespace: &str) -> Value {
    json!({
        "metadata": {"name": "a"}, "reason": "Synced", "message": "fine", "type": "Normal",
        "involvedObject": {"kind": "Node", "name": "x", "namespace": namespace}, "count": 1,
        "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:00:00Z",
        "source": {"component": "me"},
    })
}

fn new_event() -> Value {
    json!({
        "metadata": {"name": "a"}, "reason": "Synced", "note": "fine", "type": "Normal", "action": "Sync",
        "eventTime": "2024-01-01T00:00:00.000001Z", "reportingController": "example.com/ccm", "reportingInstance": "me",
        "regarding": {"kind": "ConfigMap", "name": "x", "namespace": "{n}"},
    })
}

fn events() -> Vec<Row> {
    let without = |field: &str| {
        let mut event = new_event();
        event[field] = Value::Null;
        event
    };
    vec![
        row("an_old_event_is_stored").when(post(OLD, old_event("{n}")), 201).has("/message", "fine").has("/count", 1),
        row("a_new_event_is_stored").when(post(NEW, new_event()), 201).has("/note", "fine").has("/kind", "Event"),
        row("a_new_event_is_seen_as_an_old_one")
            .given(post(NEW, new_event()))
            .when(get("/api/v1/namespaces/{n}/events/a"), 200)
            .has("/message", "fine")
            .has("/reportingComponent", "example.com/ccm")
            .has("/involvedObject/name", "x"),
        row("an_old_event_is_seen_as_a_new_one")
            .given(post(OLD, old_event("{n}")))
            .when(get("/apis/events.k8s.io/v1/namespaces/{n}/events/a"), 200)
            .has("/note", "fine")
            .has("/deprecatedCount", 1),
        row("events_are_selected_by_what_they_are_about")
            .given(post(OLD, old_event("{n}")))
            .when(get("/api/v1/namespaces/{n}/events?fieldSelector=involvedObject.name%3Dx,reason%3DSynced,source%3Dme"), 200)
            .has("/items/0/metadata/name", "a"),
        row("an_event_is_in_the_namespace_of_its_object")
            .when(post(OLD, old_event("other")), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "involvedObject.namespace"),
        row("a_new_event_has_a_time").when(post(NEW, without("eventTime")), 422).refused("Invalid"),
        row("a_new_event_has_an_action").when(post(NEW, without("action")), 422).refused("Invalid"),
        row("a_new_event_has_a_type").when(post(NEW, without("type")), 422).refused("Invalid"),
        row("a_new_event_does_not_change_its_note")
            .given(post(NEW, new_event()))
            .when(patch(MERGE, "/apis/events.k8s.io/v1/namespaces/{n}/events/a", json!({"note": "other"})), 422)
            .refused("Invalid"),
        row("a_new_event_counts_in_its_series")
            .given(post(NEW, new_event()))
            .when(
                patch(MERGE, "/apis/events.k8s.io/v1/namespaces/{n}/events/a",
                    json!({"series": {"count": 2, "lastObservedTime": "2024-01-01T00:01:00.000000Z"}})),
                200,
            )
            .has("/series/count", 2),
    ]
}

fn data() -> Vec<Row> {
    let maps = "/api/v1/namespaces/{n}/configmaps";
    let secrets = "/api/v1/namespaces/{n}/secrets";
    vec![
        row("a_config_key_is_a_file_name")
            .when(
                post(
                    maps,
                    json!({"metadata": {"name": "a"}, "data": {"a/b": "c"}}),
                ),
                422,
            )
            .refused("Invalid"),
        row("an_immutable_config_map_stays")
            .given(post(
                maps,
                json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "immutable": true}),
            ))
            .when(
                patch(
                    MERGE,
                    "/api/v1/namespaces/{n}/configmaps/a",
                    json!({"data": {"k": "w"}}),
                ),
                422,
            )
            .refused("Invalid")
            .has("/details/causes/0/field", "data"),
        row("a_secret_takes_plain_strings")
            .when(
                post(
                    secrets,
                    json!({"metadata": {"name": "a"}, "stringData": {"k": "value"}}),
                ),
                201,
            )
            .has("/data/k", "dmFsdWU=")
            .has("/type", "Opaque")
            .has("/stringData", Value::Null),
        row("a_secret_keeps_its_type")
            .given(post(
                secrets,
                json!({"metadata": {"name": "a"}, "type": "example.com/x"}),
            ))
            .when(
                patch(
                    MERGE,
                    "/api/v1/namespaces/{n}/secrets/a",
                    json!({"type": "example.com/y"}),
                ),
                422,
            )
            .refused("Invalid"),
        row("a_secret_has_at_most_a_mebibyte")
            .when(
                post(
                    secrets,
                    json!({"metadata": {"name": "a"}, "stringData": {"k": "x".repeat((1 << 20) + 1)}}),
                ),
                422,
            )
            .refused("Invalid")
            .has("/details/causes/0/reason", "FieldValueTooLong")
            .any_message(),
        row("a_secret_is_merged_key_by_key")
            .given(post(
                secrets,
                json!({"metadata": {"name": "a"}, "data": {"k": "dmFsdWU=", "l": "dmFsdWU="}}),
            ))
            .when(
                patch(
                    MERGE,
                    "/api/v1/namespaces/{n}/secrets/a",
                    json!({"data": {"k": "b3RoZXI=", "l": null}}),
                ),
                200,
            )
            .has("/data", json!({"k": "b3RoZXI="})),
        row("a_config_map_keeps_bytes_and_text_apart")
            .when(
                post(
                    maps,
                    json!({"metadata": {"name": "a"}, "data": {"t": ""}, "binaryData": {"b": "AGFzbQ=="}}),
                ),
                201,
            )
            .has("/binaryData", json!({"b": "AGFzbQ=="}))
            .has("/data", json!({"t": ""})),
        row("bytes_are_written_in_base64")
            .when(
                post(
                    maps,
                    json!({"metadata": {"name": "a"}, "binaryData": {"b": "not base64!"}}),
                ),
                400,
            )
            .refused("BadRequest")
            .any_message(),
        row("a_config_key_stands_in_one_of_the_maps")
            .when(
                post(
                    maps,
                    json!({"metadata": {"name": "a"}, "data": {"k": "x"}, "binaryData": {"k": "AGFzbQ=="}}),
                ),
                422,
            )
            .refused("Invalid")
            .any_message(),
        row("a_config_map_may_have_a_mebibyte")
            .when(
                post(
                    maps,
                    json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(1 << 20)}}),
                ),
                201,
            ),
        row("a_config_map_has_no_more_than_a_mebibyte")
            .when(
                post(
                    maps,
                    json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(1 << 20)}, "binaryData": {"b": "AA=="}}),
                ),
                422,
            )
            .refused("Invalid")
            .has("/details/causes/0/reason", "FieldValueTooLong")
            .any_message(),
        row("a_config_map_is_watched_by_its_name")
            .given(post(maps, json!({"metadata": {"name": "a"}, "data": {"k": "1"}})))
            .given(post(maps, json!({"metadata": {"name": "b"}, "data": {"k": "1"}})))
            .watching(
                "/api/v1/namespaces/{n}/configmaps?watch=1&fieldSelector=metadata.name%3Da&resourceVersion={0.rv}",
                2,
            )
            .meanwhile(patch(
                MERGE,
                "/api/v1/namespaces/{n}/configmaps/b",
                json!({"data": {"k": "2"}}),
            ))
            .meanwhile(patch(
                MERGE,
                "/api/v1/namespaces/{n}/configmaps/a",
                json!({"data": {"k": "3"}}),
            ))
            .meanwhile(delete("/api/v1/namespaces/{n}/configmaps/a"))
            .has("/events/0/object/data/k", "3")
            .has("/events/1/type", "DELETED"),
    ]
}
