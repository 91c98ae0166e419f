//! Rows about reading: one object, lists, pages, selectors, versions, and absent objects.

use serde_json::{Value, json};

use super::row::{Ask, METADATA_ONLY, Row, delete, get, post, row};

const NODES: &str = "/api/v1/nodes";
const MAPS: &str = "/api/v1/namespaces/{n}/configmaps";

fn node(name: &str, tier: &str) -> Ask {
    let labels = json!({"row": "{n}", "tier": tier});
    post(
        NODES,
        json!({"metadata": {"name": format!("{{n}}-{name}"), "labels": labels}}),
    )
}

fn map(name: &str) -> Ask {
    post(
        MAPS,
        json!({"metadata": {"name": name, "labels": {"row": "{n}"}}, "data": {"k": "v"}}),
    )
}

fn three_nodes(name: &'static str) -> Row {
    row(name)
        .given(node("a", "one"))
        .given(node("b", "two"))
        .given(node("c", "two"))
}

fn three_maps(name: &'static str) -> Row {
    row(name).given(map("a")).given(map("b")).given(map("c"))
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = objects();
    rows.extend(selectors());
    rows.extend(pages());
    rows.extend(versions());
    rows.extend(paths());
    rows
}

fn objects() -> Vec<Row> {
    vec![
        row("an_absent_object_is_not_found")
            .when(get("/api/v1/nodes/{n}-a"), 404)
            .refused("NotFound")
            .has("/details/kind", "nodes"),
        row("an_absent_lease_is_not_found_under_its_group")
            .when(
                get("/apis/coordination.k8s.io/v1/namespaces/{n}/leases/a"),
                404,
            )
            .refused("NotFound")
            .has("/details/group", "coordination.k8s.io"),
        row("an_object_is_answered_with_its_type")
            .given(node("a", "one"))
            .when(get("/api/v1/nodes/{n}-a"), 200)
            .has("/kind", "Node")
            .has("/apiVersion", "v1")
            .has("/metadata/labels/tier", "one"),
        row("status_of_an_object_is_the_whole_object")
            .given(node("a", "one"))
            .when(get("/api/v1/nodes/{n}-a/status"), 200)
            .has("/metadata/labels/tier", "one"),
        row("metadata_alone_can_be_asked_for")
            .given(node("a", "one"))
            .when(get("/api/v1/nodes/{n}-a").accepting(METADATA_ONLY), 200)
            .has("/kind", "PartialObjectMetadata")
            .has("/spec", Value::Null),
        row("the_first_acceptable_form_wins")
            .given(node("a", "one"))
            .when(
                get("/api/v1/nodes/{n}-a")
                    .accepting("application/json;as=Nonsense;g=x;v=y, application/json"),
                200,
            )
            .has("/kind", "Node"),
        row("an_unknown_form_is_not_acceptable")
            .given(node("a", "one"))
            .when(get("/api/v1/nodes/{n}-a").accepting("text/csv"), 406)
            .refused("NotAcceptable")
            .any_message(),
    ]
}

fn selectors() -> Vec<Row> {
    vec![
        three_nodes("a_list_holds_items_without_their_type")
            .when(get("/api/v1/nodes?labelSelector=row%3D{n}"), 200)
            .has("/kind", "NodeList")
            .has("/items/2/metadata/name", "{n}-c")
            .has("/items/3", Value::Null)
            .has("/items/0/kind", Value::Null),
        three_nodes("a_list_of_metadata_alone")
            .when(
                get("/api/v1/nodes?labelSelector=row%3D{n}").accepting(METADATA_ONLY_LIST),
                200,
            )
            .has("/kind", "PartialObjectMetadataList")
            .has("/items/1/metadata/name", "{n}-b"),
        three_nodes("labels_are_selected_by_sets")
            .when(
                get("/api/v1/nodes?labelSelector=row%3D{n},tier+in+(two,three)"),
                200,
            )
            .has("/items/0/metadata/name", "{n}-b")
            .has("/items/2", Value::Null),
        three_nodes("labels_are_selected_by_inequality_and_absence")
            .when(
                get("/api/v1/nodes?labelSelector=row%3D{n},tier!%3Dtwo,!other"),
                200,
            )
            .has("/items/0/metadata/name", "{n}-a")
            .has("/items/1", Value::Null),
        three_nodes("labels_are_selected_by_presence_and_notin")
            .when(
                get("/api/v1/nodes?labelSelector=tier,row+notin+(x),row%3D%3D{n},tier+notin+(two)"),
                200,
            )
            .has("/items/0/metadata/name", "{n}-a")
            .has("/items/1", Value::Null),
        three_nodes("an_object_is_selected_by_its_name")
            .when(
                get("/api/v1/nodes?fieldSelector=metadata.name%3D{n}-b"),
                200,
            )
            .has("/items/0/metadata/name", "{n}-b")
            .has("/items/1", Value::Null),
        three_maps("objects_are_selected_by_namespace_everywhere")
            .when(
                get("/api/v1/configmaps?fieldSelector=metadata.namespace%3D{n},metadata.name!%3Db"),
                200,
            )
            .has("/items/1/metadata/name", "c")
            .has("/items/2", Value::Null),
        three_nodes("nodes_are_selected_by_unschedulable")
            .when(
                get(
                    "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue&labelSelector=row%3D{n}",
                ),
                200,
            )
            .has("/items/0", Value::Null),
        row("an_unknown_field_cannot_be_selected")
            .when(get("/api/v1/nodes?fieldSelector=spec.providerID%3Dx"), 400)
            .refused("BadRequest"),
        row("a_malformed_field_selector_is_refused")
            .when(get("/api/v1/nodes?fieldSelector=metadata.name"), 400)
            .refused("BadRequest"),
        row("a_malformed_label_selector_is_refused")
            .when(get("/api/v1/nodes?labelSelector=a+b+c"), 400)
            .refused("BadRequest")
            .any_message(),
        row("a_label_selector_with_a_bad_key_is_refused")
            .when(get("/api/v1/nodes?labelSelector=-bad-%3Dx"), 400)
            .refused("BadRequest"),
    ]
}

const METADATA_ONLY_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

fn pages() -> Vec<Row> {
    let first = || get("/api/v1/namespaces/{n}/configmaps?limit=2");
    vec![
        three_maps("a_page_says_how_much_remains")
            .when(first(), 200)
            .has("/items/1/metadata/name", "b")
            .has("/items/2", Value::Null)
            .has("/metadata/remainingItemCount", 1),
        three_maps("a_page_of_a_selection_does_not_know_how_much_remains")
            .when(get("/api/v1/configmaps?limit=1&labelSelector=row%3D{n}"), 200)
            .has("/items/1", Value::Null)
            .has("/metadata/remainingItemCount", Value::Null),
        three_maps("the_next_page_goes_on_where_the_last_one_ended")
            .given(first())
            .when(get("/api/v1/namespaces/{n}/configmaps?limit=2&continue={3.continue}"), 200)
            .has("/items/0/metadata/name", "c")
            .has("/items/1", Value::Null)
            .has("/metadata/continue", Value::Null)
            .has("/metadata/resourceVersion", "{3.rv}"),
        three_maps("pages_show_one_moment_in_spite_of_later_writes")
            .given(first())
            .given(map("d"))
            .given(delete("/api/v1/namespaces/{n}/configmaps/c"))
            .when(get("/api/v1/namespaces/{n}/configmaps?continue={3.continue}"), 200)
            .has("/items/0/metadata/name", "c")
            .has("/items/1", Value::Null)
            .has("/metadata/resourceVersion", "{3.rv}"),
        row("a_malformed_continue_token_is_refused")
            .when(get("/api/v1/namespaces/{n}/configmaps?continue=nonsense"), 400)
            .refused("BadRequest")
            .any_message(),
        three_maps("a_continue_token_brings_its_own_version")
            .given(first())
            .when(
                get("/api/v1/namespaces/{n}/configmaps?continue={3.continue}&resourceVersion={3.rv}"),
                400,
            )
            .refused("BadRequest"),
        three_maps("a_list_at_version_zero_is_not_cut_into_pages")
            .given(get(MAPS))
            .when(get("/api/v1/namespaces/{n}/configmaps?limit=1&resourceVersion=0"), 200)
            .has("/items/2/metadata/name", "c")
            .has("/metadata/continue", Value::Null),
        three_maps("a_limit_below_zero_is_none")
            .when(get("/api/v1/namespaces/{n}/configmaps?limit=-1"), 200)
            .has("/items/2/metadata/name", "c"),
        row("a_limit_must_be_a_number")
            .when(get("/api/v1/nodes?limit=many"), 400)
            .refused("BadRequest"),
    ]
}

fn versions() -> Vec<Row> {
    vec![
        three_maps("a_list_can_show_an_earlier_moment")
            .when(
                get("/api/v1/namespaces/{n}/configmaps?resourceVersion={1.rv}&resourceVersionMatch=Exact"),
                200,
            )
            .has("/items/1/metadata/name", "b")
            .has("/items/2", Value::Null)
            .has("/metadata/resourceVersion", "{1.rv}"),
        three_maps("a_list_not_older_than_a_version_waits_for_it")
            .when(
                get("/api/v1/namespaces/{n}/configmaps?resourceVersion={2.rv}&resourceVersionMatch=NotOlderThan"),
                200,
            )
            .has("/items/2/metadata/name", "c"),
        row("a_version_match_needs_a_version")
            .when(get("/api/v1/nodes?resourceVersionMatch=Exact"), 422)
            .refused("Invalid"),
        row("an_exact_match_of_zero_makes_no_sense")
            .when(get("/api/v1/nodes?resourceVersion=0&resourceVersionMatch=Exact"), 422)
            .refused("Invalid"),
        row("initial_events_belong_to_watches")
            .when(get("/api/v1/nodes?sendInitialEvents=true"), 422)
            .refused("Invalid"),
        row("a_version_of_a_list_is_a_number")
            .when(get("/api/v1/nodes?resourceVersion=abc"), 400)
            .refused("BadRequest"),
        row("a_version_of_an_object_is_a_number").when(get("/api/v1/nodes/{n}?resourceVersion=abc"), 500),
        row("a_version_of_a_watch_is_a_number").when(get("/api/v1/nodes?watch=true&resourceVersion=abc"), 500),
        row("a_version_of_the_future_times_out")
            .when(get("/api/v1/nodes?resourceVersion=999999999"), 504)
            .refused("Timeout")
            .has("/details/causes/0/reason", "ResourceVersionTooLarge"),
        three_maps("a_list_of_forgotten_history_has_expired")
            .after_forgetting()
            .when(
                get("/api/v1/namespaces/{n}/configmaps?resourceVersion={1.rv}&resourceVersionMatch=Exact"),
                410,
            )
            .refused("Expired"),
        three_maps("a_page_of_forgotten_history_has_expired")
            .given(get("/api/v1/namespaces/{n}/configmaps?limit=2"))
            .after_forgetting()
            .when(get("/api/v1/namespaces/{n}/configmaps?continue={3.continue}"), 410)
            .refused("Expired"),
        three_maps("an_object_can_be_read_at_any_version")
            .when(get("/api/v1/namespaces/{n}/configmaps/a?resourceVersion={2.rv}"), 200)
            .has("/metadata/name", "a"),
    ]
}

fn paths() -> Vec<Row> {
    vec![
        row("an_unknown_resource_of_a_known_group")
            .when(get("/api/v1/nonsense"), 404)
            .refused("NotFound"),
        row("an_unknown_subresource")
            .given(node("a", "one"))
            .when(get("/api/v1/nodes/{n}-a/nonsense"), 404)
            .refused("NotFound"),
        row("an_unknown_group")
            .when(get("/apis/nonsense.example/v1/things"), 404)
            .has("/text", "404 page not found\n"),
        row("an_unknown_path")
            .when(get("/nonsense"), 404)
            .free("/text"),
        row("a_collection_cannot_be_patched")
            .when(super::row::patch(super::row::MERGE, NODES, "{}"), 405)
            .refused("MethodNotAllowed"),
        row("an_object_cannot_be_posted_to")
            .given(node("a", "one"))
            .when(
                post(
                    "/api/v1/nodes/{n}-a",
                    json!({"metadata": {"name": "{n}-a"}}),
                ),
                405,
            )
            .refused("MethodNotAllowed"),
        row("a_namespaced_kind_is_not_created_everywhere")
            .when(
                post(
                    "/api/v1/configmaps",
                    json!({"metadata": {"name": "a", "namespace": "{n}"}}),
                ),
                405,
            )
            .refused("MethodNotAllowed"),
        row("a_namespaced_object_is_not_read_everywhere")
            .when(get("/api/v1/configmaps/a"), 404)
            .refused("NotFound"),
        row("a_cluster_wide_kind_is_in_no_namespace")
            .when(get("/api/v1/namespaces/{n}/nodes"), 404)
            .refused("NotFound"),
        row("a_status_cannot_be_deleted")
            .given(node("a", "one"))
            .when(delete("/api/v1/nodes/{n}-a/status"), 405)
            .refused("MethodNotAllowed"),
        row("a_ready_server_says_ok")
            .when(get("/readyz"), 200)
            .has("/text", "ok"),
    ]
}
