//! Rows about watching: the start of a watch, the effect of selectors, streaming lists, and the end of history.

use serde_json::{Value, json};

use super::row::{Ask, MERGE, METADATA_ONLY, Row, delete, get, patch, post, row};

const MAPS: &str = "/api/v1/namespaces/{n}/configmaps";
const MAP: &str = "/api/v1/namespaces/{n}/configmaps/a";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = starts();
    rows.extend(selections());
    rows.extend(streaming());
    rows
}

fn map(name: &str) -> Ask {
    post(
        MAPS,
        json!({"metadata": {"name": name, "labels": {"tier": "one"}}}),
    )
}

fn label(value: &str) -> Ask {
    patch(MERGE, MAP, json!({"metadata": {"labels": {"tier": value}}}))
}

fn starts() -> Vec<Row> {
    vec![
        row("a_watch_from_a_version_shows_what_came_after")
            .given(map("a"))
            .watching("/api/v1/namespaces/{n}/configmaps?watch=true&resourceVersion={0.rv}&timeoutSeconds=20", 3)
            .meanwhile(map("b"))
            .meanwhile(label("two"))
            .meanwhile(delete(MAP))
            .has("/events/0/type", "ADDED")
            .has("/events/0/object/metadata/name", "b")
            .has("/events/0/object/kind", "ConfigMap")
            .has("/events/1/type", "MODIFIED")
            .has("/events/2/type", "DELETED")
            .has("/events/2/object/metadata/labels/tier", "two"),
        row("a_watch_from_a_version_shows_what_came_before_it_was_opened")
            .given(map("a"))
            .given(label("two"))
            .watching("/api/v1/namespaces/{n}/configmaps?watch=true&resourceVersion={0.rv}&timeoutSeconds=20", 1)
            .has("/events/0/type", "MODIFIED"),
        row("a_watch_without_version_starts_with_what_is_there")
            .given(map("a"))
            .given(map("b"))
            .watching("/api/v1/namespaces/{n}/configmaps?watch=true&timeoutSeconds=20", 3)
            .meanwhile(map("c"))
            .has("/events/0/object/metadata/name", "a")
            .has("/events/2/object/metadata/name", "c"),
        row("a_watch_from_zero_starts_with_what_is_there")
            .given(map("a"))
            .given(get(MAPS))
            .watching("/api/v1/namespaces/{n}/configmaps?watch=1&resourceVersion=0&timeoutSeconds=20", 2)
            .meanwhile(label("two"))
            .has("/events/0/type", "ADDED")
            .has("/events/1/type", "MODIFIED"),
        row("a_write_that_changes_nothing_is_not_seen")
            .given(map("a"))
            .watching("/api/v1/namespaces/{n}/configmaps?watch=true&resourceVersion={0.rv}&timeoutSeconds=20", 1)
            .meanwhile(label("one"))
            .meanwhile(label("two"))
            .has("/events/0/object/metadata/labels/tier", "two"),
        row("a_watch_from_forgotten_history_is_told_so")
            .given(map("a"))
            .after_forgetting()
            .watching("/api/v1/namespaces/{n}/configmaps?watch=true&resourceVersion=1&timeoutSeconds=20", 1)
            .has("/events/0/type", "ERROR")
            .has("/events/0/object/code", 410)
            .has("/events/0/object/reason", "Expired"),
        row("a_deletion_that_waits_is_seen_as_a_change")
            .given(post(MAPS, json!({"metadata": {"name": "a", "finalizers": ["example.com/a"]}})))
            .watching("/api/v1/namespaces/{n}/configmaps?watch=true&resourceVersion={0.rv}&timeoutSeconds=20", 2)
            .meanwhile(delete(MAP))
            .meanwhile(patch(MERGE, MAP, json!({"metadata": {"finalizers": null}})))
            .has("/events/0/type", "MODIFIED")
            .has("/events/1/type", "DELETED"),
    ]
}

fn selections() -> Vec<Row> {
    vec![
        row("a_selection_sees_objects_come_and_go")
            .given(map("a"))
            .watching(
                "/api/v1/namespaces/{n}/configmaps?watch=true&resourceVersion={0.rv}&labelSelector=tier%3Dtwo&timeoutSeconds=20",
                4,
            )
            .meanwhile(label("three"))
            .meanwhile(label("two"))
            .meanwhile(patch(MERGE, MAP, json!({"data": {"k": "v"}})))
            .meanwhile(label("one"))
            .meanwhile(label("two"))
            .has("/events/0/type", "ADDED")
            .has("/events/1/type", "MODIFIED")
            .has("/events/2/type", "DELETED")
            .has("/events/2/object/metadata/labels/tier", "two")
            .has("/events/3/type", "ADDED"),
        row("a_path_of_one_object_is_never_watched")
            .given(map("a"))
            .when(get("/api/v1/namespaces/{n}/configmaps/a?watch=true"), 200)
            .has("/kind", "ConfigMap"),
        row("one_object_can_be_watched_by_its_name")
            .given(map("a"))
            .watching(
                "/api/v1/configmaps?watch=true&resourceVersion={0.rv}&fieldSelector=metadata.name%3Da,metadata.namespace%3D{n}&timeoutSeconds=20",
                1,
            )
            .meanwhile(map("b"))
            .meanwhile(label("two"))
            .has("/events/0/type", "MODIFIED"),
        Row {
            ask: get("/api/v1/namespaces/{n}/configmaps?watch=true&timeoutSeconds=20").accepting(METADATA_ONLY),
            ..row("metadata_alone_can_be_watched").given(map("a")).watching("", 1)
        }
        .has("/events/0/object/kind", "PartialObjectMetadata")
        .has("/events/0/object/metadata/labels/tier", "one"),
    ]
}

fn streaming() -> Vec<Row> {
    vec![
        row("a_streaming_list_ends_with_a_bookmark")
            .given(map("a"))
            .given(map("b"))
            .watching(
                "/api/v1/namespaces/{n}/configmaps?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=&timeoutSeconds=20",
                4,
            )
            .meanwhile(label("two"))
            .has("/events/0/type", "ADDED")
            .has("/events/2/type", "BOOKMARK")
            .has("/events/2/object/metadata/annotations/k8s.io~1initial-events-end", "true")
            .has("/events/3/type", "MODIFIED"),
        row("a_streaming_list_of_nothing_is_a_bookmark")
            .watching(
                "/api/v1/namespaces/{n}/configmaps?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=20",
                1,
            )
            .has("/events/0/type", "BOOKMARK")
            .has("/events/0/object/kind", "ConfigMap"),
        Row {
            ask: get(
                "/api/v1/namespaces/{n}/configmaps?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=20",
            )
            .accepting(METADATA_ONLY),
            ..row("a_streaming_list_of_metadata_alone").given(map("a")).watching("", 2)
        }
        .has("/events/1/type", "BOOKMARK")
        .has("/events/1/object/kind", "PartialObjectMetadata"),
        row("initial_events_can_be_declined")
            .given(map("a"))
            .watching(
                "/api/v1/namespaces/{n}/configmaps?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=20",
                1,
            )
            .meanwhile(map("b"))
            .has("/events/0/object/metadata/name", "b"),
        row("a_streaming_list_must_say_how_versions_match")
            .when(get("/api/v1/nodes?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "resourceVersionMatch"),
        row("versions_match_in_streaming_lists_only")
            .when(get("/api/v1/nodes?watch=true&resourceVersionMatch=NotOlderThan"), 422)
            .refused("Invalid")
            .has("/details/causes/0/reason", "FieldValueForbidden"),
        row("a_watch_with_a_bad_selector_is_refused")
            .when(get("/api/v1/nodes?watch=true&fieldSelector=spec.nonsense%3Dx"), 400)
            .refused("BadRequest")
            .has("/items", Value::Null),
    ]
}
