//! Rows about strategic merge patches: the lists that merge, their keys, and all directives.

use serde_json::{Value, json};

use super::row::{Ask, Row, STRATEGIC, patch, post, row};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = addresses();
    rows.extend(other_lists());
    rows.extend(maps());
    rows.extend(mistakes());
    rows
}

fn made(name: &'static str, mut rest: Value) -> Row {
    rest["metadata"]["name"] = json!("{n}");
    row(name).given(post("/api/v1/nodes", rest))
}

fn main(body: Value) -> Ask {
    patch(STRATEGIC, "/api/v1/nodes/{n}", body)
}

fn status(body: Value) -> Ask {
    patch(STRATEGIC, "/api/v1/nodes/{n}/status", body)
}

fn address(kind: &str, value: &str) -> Value {
    json!({"type": kind, "address": value})
}

fn addressed(name: &'static str) -> Row {
    let all = [
        address("InternalIP", "10.0.0.1"),
        address("ExternalIP", "1.2.3.4"),
        address("Hostname", "h"),
    ];
    made(name, json!({"status": {"addresses": all}}))
}

fn addresses() -> Vec<Row> {
    vec![
        addressed("addresses_merge_by_type")
            .when(status(json!({"status": {"addresses": [address("ExternalIP", "5.6.7.8")]}})), 200)
            .has("/status/addresses/1/address", "5.6.7.8")
            .has("/status/addresses/2/address", "h"),
        addressed("a_new_address_stands_where_upstream_puts_it")
            .when(status(json!({"status": {"addresses": [address("InternalDNS", "d"), address("Hostname", "g")]}})), 200),
        addressed("a_trailing_replace_directive_replaces_all_addresses")
            .when(
                status(json!({"status": {"addresses": [
                    address("InternalIP", "10.0.0.1"), address("InternalIP", "fd00::1"), {"$patch": "replace"},
                ]}})),
                200,
            )
            .has("/status/addresses", json!([address("InternalIP", "10.0.0.1"), address("InternalIP", "fd00::1")])),
        addressed("a_leading_replace_directive_does_the_same")
            .when(status(json!({"status": {"addresses": [{"$patch": "replace"}, address("Hostname", "x")]}})), 200)
            .has("/status/addresses", json!([address("Hostname", "x")])),
        addressed("a_delete_directive_removes_one_address")
            .when(status(json!({"status": {"addresses": [{"$patch": "delete", "type": "ExternalIP"}]}})), 200)
            .has("/status/addresses", json!([address("InternalIP", "10.0.0.1"), address("Hostname", "h")])),
        addressed("merged_addresses_of_one_type_collapse")
            .when(
                status(json!({"status": {"addresses": [address("InternalIP", "10.0.0.2"), address("InternalIP", "fd00::2")]}})),
                200,
            )
            .has("/status/addresses/0/address", "fd00::2")
            .has("/status/addresses/3", Value::Null),
        made("addresses_of_one_type_stay_apart_where_there_were_none", json!({}))
            .when(
                status(json!({"status": {"addresses": [address("InternalIP", "10.0.0.1"), address("InternalIP", "fd00::1")]}})),
                200,
            ),
        addressed("element_order_reorders")
            .when(
                status(json!({"status": {
                    "$setElementOrder/addresses": [{"type": "Hostname"}, {"type": "InternalIP"}],
                    "addresses": [address("InternalIP", "10.0.0.9")],
                }})),
                200,
            )
            .has("/status/addresses/0/type", "ExternalIP"),
        addressed("element_order_alone_reorders")
            .when(
                status(json!({"status": {
                    "$setElementOrder/addresses": [{"type": "Hostname"}, {"type": "ExternalIP"}, {"type": "InternalIP"}],
                }})),
                200,
            )
            .has("/status/addresses/0/type", "Hostname"),
    ]
}

fn other_lists() -> Vec<Row> {
    let condition = |kind: &str, value: &str| json!({"type": kind, "status": value});
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": "o", "uid": uid});
    let finalized = |name| {
        made(
            name,
            json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}),
        )
    };
    vec![
        made(
            "conditions_merge_by_type",
            json!({"status": {"conditions": [condition("Ready", "False"), condition("DiskPressure", "False")]}}),
        )
        .when(
            status(json!({"status": {
                "$setElementOrder/conditions": [{"type": "NetworkUnavailable"}, {"type": "Ready"}, {"type": "DiskPressure"}],
                "conditions": [condition("NetworkUnavailable", "False"), {"type": "Ready", "status": "True", "reason": "R"}],
            }})),
            200,
        )
        .has("/status/conditions/1/status", "True"),
        made(
            "taints_are_replaced_whole",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]}}),
        )
        .when(main(json!({"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}})), 200)
        .has("/spec/taints", json!([{"key": "b", "effect": "NoSchedule"}])),
        made("an_empty_list_removes_all_taints", json!({}))
            .when(main(json!({"spec": {"taints": []}})), 200)
            .has("/spec/taints", Value::Null),
        made("null_removes_all_taints", json!({}))
            .when(main(json!({"spec": {"taints": null}})), 200)
            .has("/spec/taints", Value::Null),
        finalized("finalizers_are_added")
            .when(main(json!({"metadata": {"finalizers": ["example.com/c"]}})), 200)
            .has("/metadata/finalizers/3", Value::Null),
        finalized("a_finalizer_is_not_added_twice")
            .when(main(json!({"metadata": {"finalizers": ["example.com/b", "example.com/a"]}})), 200),
        finalized("a_finalizer_is_removed_by_its_directive")
            .when(
                main(json!({"metadata": {
                    "$deleteFromPrimitiveList/finalizers": ["example.com/a"],
                    "$setElementOrder/finalizers": ["example.com/b"],
                }})),
                200,
            )
            .has("/metadata/finalizers", json!(["example.com/b"])),
        finalized("finalizers_are_ordered")
            .when(
                main(json!({"metadata": {
                    "$setElementOrder/finalizers": ["example.com/c", "example.com/b", "example.com/a"],
                    "finalizers": ["example.com/c"],
                }})),
                200,
            )
            .has("/metadata/finalizers/0", "example.com/c"),
        made("owners_merge_by_uid", json!({"metadata": {"ownerReferences": [owner("u-1"), owner("u-2")]}}))
            .when(
                main(json!({"metadata": {"ownerReferences": [
                    {"uid": "u-1", "$patch": "delete"}, {"uid": "u-2", "name": "p"}, owner("u-3"),
                ]}})),
                200,
            ),
        made("pod_cidrs_merge_as_values", json!({}))
            .when(main(json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}})), 200)
            .has("/spec/podCIDRs", json!(["10.1.0.0/24"])),
    ]
}

fn maps() -> Vec<Row> {
    let labelled = |name| {
        made(
            name,
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"providerID": "x://1"}}),
        )
    };
    vec![
        labelled("maps_merge_and_null_removes")
            .when(
                main(json!({"metadata": {"labels": {"a": null, "absent": null, "c": "3"}}})),
                200,
            )
            .has("/metadata/labels", json!({"b": "2", "c": "3"})),
        labelled("a_map_can_be_replaced")
            .when(
                main(json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}})),
                200,
            )
            .has("/metadata/labels", json!({"c": "3"})),
        labelled("a_map_can_be_deleted")
            .when(
                main(json!({"metadata": {"labels": {"$patch": "delete"}}})),
                200,
            )
            .has("/metadata/labels", Value::Null),
        labelled("retained_keys_remove_the_others")
            .when(
                main(json!({"metadata": {"labels": {"$retainKeys": ["b", "c"], "c": "3"}}})),
                200,
            )
            .has("/metadata/labels", json!({"b": "2", "c": "3"})),
        made(
            "a_map_that_was_not_there_is_taken_without_its_nulls",
            json!({}),
        )
        .when(
            main(json!({"metadata": {"annotations": {"a": null, "b": "2"}}})),
            200,
        )
        .has("/metadata/annotations", json!({"b": "2"})),
    ]
}

fn mistakes() -> Vec<Row> {
    vec![
        made(
            "retained_keys_must_name_what_is_set",
            json!({"metadata": {"labels": {"a": "1"}}}),
        )
        .when(
            main(json!({"metadata": {"labels": {"$retainKeys": ["b"], "c": "3"}}})),
            400,
        )
        .refused("BadRequest"),
        made(
            "an_unknown_directive_is_an_error",
            json!({"metadata": {"labels": {"a": "1"}}}),
        )
        .when(
            main(json!({"metadata": {"labels": {"$patch": "nonsense"}}})),
            500,
        )
        .any_message(),
        addressed("an_element_without_merge_key_is_an_error")
            .when(
                status(json!({"status": {"addresses": [{"address": "x"}]}})),
                500,
            )
            .any_message(),
        addressed("an_element_outside_the_order_is_an_error")
            .when(
                status(json!({"status": {
                    "$setElementOrder/addresses": [{"type": "Hostname"}],
                    "addresses": [address("InternalIP", "10.0.0.9")],
                }})),
                500,
            )
            .any_message(),
        addressed("an_order_must_be_a_list")
            .when(
                status(json!({"status": {"$setElementOrder/addresses": "no"}})),
                500,
            )
            .any_message(),
    ]
}
