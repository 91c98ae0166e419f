//! Rows about Services: defaults, addresses and ports, changes of type, the status, and the rules.

use serde_json::{Value, json};

use super::row::{Ask, MERGE, Row, STRATEGIC, delete, get, patch, post, put, row};

const ALL: &str = "/api/v1/namespaces/{n}/services";
const ONE: &str = "/api/v1/namespaces/{n}/services/a";
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
const STATUS: &str = "/api/v1/namespaces/{n}/services/a/status";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = defaults();
    rows.extend(changes());
    rows.extend(status());
    rows.extend(invalid());
    rows
}

fn service(spec: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": spec})
}

fn create(spec: Value) -> Ask {
    post(ALL, service(spec))
}

fn balanced(name: &'static str) -> Row {
    row(name).given(create(json!({"type": "LoadBalancer", "ports": [{"port": 80, "name": "x"}, {"port": 443, "name": "y"}]})))
}

fn defaults() -> Vec<Row> {
    vec![
        row("a_plain_service_has_its_defaults")
            .when(create(json!({"ports": [{"port": 80}]})), 201)
            .has("/spec/type", "ClusterIP")
            .has("/spec/ports", json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]))
            .has("/spec/internalTrafficPolicy", "Cluster")
            .has("/status", json!({"loadBalancer": {}})),
        row("a_load_balancer_has_node_ports")
            .when(create(json!({"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": "web"}]})), 201)
            .has("/spec/allocateLoadBalancerNodePorts", true)
            .has("/spec/externalTrafficPolicy", "Cluster")
            .has("/spec/ports/0/targetPort", "web"),
        row("a_load_balancer_can_do_without_node_ports")
            .when(
                create(json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "loadBalancerClass": "example.com/x", "ports": [{"port": 80}]})),
                201,
            )
            .has("/spec/ports/0/nodePort", Value::Null),
        row("local_traffic_has_a_health_port")
            .when(create(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]})), 201),
        row("a_node_port_can_be_chosen")
            .when(create(json!({"type": "NodePort", "sessionAffinity": "ClientIP", "ports": [{"port": 80, "nodePort": 31_999}]})), 201)
            .has("/spec/sessionAffinityConfig/clientIP/timeoutSeconds", 10_800),
        row("a_headless_service_has_no_address")
            .when(create(json!({"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]})), 201)
            .has("/spec/clusterIPs", json!(["None"])),
        row("an_external_name_has_no_address")
            .when(create(json!({"type": "ExternalName", "externalName": "example.com"})), 201)
            .has("/spec/clusterIP", Value::Null),
        row("a_new_service_has_no_status")
            .when(
                post(ALL, json!({"metadata": {"name": "a"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
                    "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}})),
                201,
            )
            .has("/status", json!({"loadBalancer": {}})),
    ]
}

fn changes() -> Vec<Row> {
    vec![
        balanced("a_put_keeps_addresses_and_ports_that_it_leaves_out")
            .when(
                put(ONE, service(json!({"type": "LoadBalancer", "ports": [{"port": 81, "name": "x"}, {"port": 443, "name": "y"}]}))),
                200,
            )
            .has("/spec/ports/0/port", 81),
        row("becoming_a_load_balancer_gives_node_ports")
            .given(create(json!({"ports": [{"port": 80}]})))
            .when(patch(MERGE, ONE, json!({"spec": {"type": "LoadBalancer"}})), 200)
            .has("/spec/allocateLoadBalancerNodePorts", true),
        balanced("ceasing_to_be_a_load_balancer_drops_what_it_had")
            .given(patch(MERGE, STATUS, json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}})))
            .when(patch(MERGE, ONE, json!({"spec": {"type": "ClusterIP"}})), 200)
            .has("/spec/ports/0/nodePort", Value::Null)
            .has("/spec/externalTrafficPolicy", Value::Null)
            .has("/status", json!({"loadBalancer": {}})),
        balanced("becoming_an_external_name_drops_the_address")
            .when(patch(MERGE, ONE, json!({"spec": {"type": "ExternalName", "externalName": "example.com"}})), 200)
            .has("/spec/clusterIP", Value::Null),
        balanced("ports_merge_by_number")
            .when(
                patch(STRATEGIC, ONE, json!({"spec": {"ports": [
                    {"port": 80, "$patch": "delete"}, {"port": 443, "targetPort": 8443}, {"port": 9000, "name": "z"},
                ]}})),
                200,
            )
            .has("/spec/ports/2", Value::Null),
        balanced("a_cluster_address_cannot_be_changed")
            .when(patch(MERGE, ONE, json!({"spec": {"clusterIP": "10.0.99.99", "clusterIPs": ["10.0.99.99"]}})), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "spec.clusterIPs[0]"),
        row("a_load_balancer_class_cannot_be_changed")
            .given(create(json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/x", "ports": [{"port": 80}]})))
            .when(patch(MERGE, ONE, json!({"spec": {"loadBalancerClass": "example.com/y"}})), 422)
            .refused("Invalid"),
        balanced("a_patch_that_changes_nothing_keeps_a_service")
            .when(patch(STRATEGIC, ONE, json!({"spec": {"type": "LoadBalancer"}})), 200)
            .has("/metadata/resourceVersion", "{0.rv}"),
    ]
}

fn finalized(finalizers: &[&str]) -> Ask {
    let mut service = service(json!({"type": "LoadBalancer", "ports": [{"port": 80}]}));
    service["metadata"]["finalizers"] = json!(finalizers);
    post(ALL, service)
}

/// A row about a Service with another controller's finalizer and ours.
fn guarded(name: &'static str) -> Row {
    row(name).given(finalized(&["example.com/other", CLEANUP]))
}

/// A patch that removes our finalizer, from a client that knows these others.
fn without_cleanup(others: &[&str]) -> Value {
    json!({"metadata": {"$setElementOrder/finalizers": others, "$deleteFromPrimitiveList/finalizers": [CLEANUP]}})
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z"})
}

fn status() -> Vec<Row> {
    let ingress = |value: Value| json!({"status": {"loadBalancer": {"ingress": [value]}}});
    vec![
        balanced("the_status_gets_its_ip_mode")
            .when(patch(STRATEGIC, STATUS, ingress(json!({"ip": "1.2.3.4"}))), 200)
            .has("/status/loadBalancer/ingress", json!([{"ip": "1.2.3.4", "ipMode": "VIP"}])),
        balanced("the_status_subresource_writes_finalizers_and_annotations")
            .when(
                patch(STRATEGIC, STATUS, json!({
                    "metadata": {"annotations": {"a": "b"}, "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
                        "$setElementOrder/finalizers": ["service.kubernetes.io/load-balancer-cleanup"]},
                    "spec": {"type": "ClusterIP"},
                })),
                200,
            )
            .has("/metadata/finalizers/0", "service.kubernetes.io/load-balancer-cleanup")
            .has("/spec/type", "LoadBalancer"),
        balanced("the_ingress_list_is_replaced_whole")
            .given(patch(STRATEGIC, STATUS, ingress(json!({"ip": "1.2.3.4"}))))
            .when(patch(STRATEGIC, STATUS, ingress(json!({"hostname": "lb.example.com", "ports": [{"port": 80, "protocol": "TCP"}]}))), 200)
            .has("/status/loadBalancer/ingress/1", Value::Null),
        balanced("conditions_of_a_service_merge_by_type")
            .when(
                patch(STRATEGIC, STATUS, json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Yes",
                    "message": "fine", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}})),
                200,
            )
            .has("/status/conditions/0/reason", "Yes"),
        balanced("an_ingress_address_must_be_one")
            .when(patch(MERGE, STATUS, ingress(json!({"ip": "1.2.3"}))), 422)
            .refused("Invalid")
            .has("/details/causes/0/field", "status.loadBalancer.ingress[0].ip"),
        balanced("an_ingress_hostname_is_no_address")
            .when(patch(MERGE, STATUS, ingress(json!({"hostname": "1.2.3.4"}))), 422)
            .refused("Invalid"),
        balanced("an_ingress_mode_needs_an_address")
            .when(patch(MERGE, STATUS, ingress(json!({"hostname": "a.b", "ipMode": "VIP"}))), 422)
            .refused("Invalid"),
        row("only_load_balancers_have_an_ingress")
            .given(create(json!({"ports": [{"port": 80}]})))
            .when(patch(MERGE, STATUS, ingress(json!({"ip": "1.2.3.4", "ipMode": "VIP"}))), 422)
            .refused("Invalid"),
        balanced("what_a_controller_owns_is_written_in_one_patch_of_the_status")
            .when(
                patch(STRATEGIC, STATUS, json!({
                    "metadata": {"uid": "{0.uid}", "annotations": {"example.com/owner": "x"}, "finalizers": [CLEANUP],
                        "$setElementOrder/finalizers": [CLEANUP]},
                    "status": {
                        "loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "Proxy", "ports": [
                            {"port": 80, "protocol": "TCP", "error": "example.com/broken"}]}]},
                        "conditions": [condition("example.com/made", "True")],
                    },
                })),
                200,
            )
            .has("/metadata/annotations", json!({"example.com/owner": "x"}))
            .has("/metadata/finalizers", json!([CLEANUP]))
            .has("/status/loadBalancer/ingress/0/ipMode", "Proxy")
            .has("/status/loadBalancer/ingress/0/ports/0/error", "example.com/broken")
            .has("/status/conditions/0/type", "example.com/made"),
        balanced("a_patch_of_the_status_is_refused_for_another_object_of_that_name")
            .when(
                patch(STRATEGIC, STATUS, json!({
                    "metadata": {"uid": "11111111-1111-4111-8111-111111111111", "annotations": {"a": "b"}},
                })),
                422,
            )
            .refused("Invalid"),
        guarded("a_finalizer_goes_through_the_status_and_others_stay")
            .when(patch(STRATEGIC, STATUS, without_cleanup(&["example.com/other"])), 200)
            .has("/metadata/finalizers", json!(["example.com/other"])),
        guarded("a_finalizer_that_is_there_is_not_added_twice")
            .when(
                patch(STRATEGIC, STATUS, json!({"metadata": {"finalizers": [CLEANUP],
                    "$setElementOrder/finalizers": ["example.com/other", CLEANUP]}})),
                200,
            )
            .has("/metadata/finalizers", json!(["example.com/other", CLEANUP])),
        guarded("a_finalizer_of_somebody_else_that_nobody_knew_of_survives")
            .when(patch(STRATEGIC, STATUS, without_cleanup(&[])), 200)
            .has("/metadata/finalizers", json!(["example.com/other"])),
        guarded("a_service_that_is_being_deleted_waits_for_its_finalizers")
            .when(delete(ONE), 200)
            .has("/metadata/finalizers", json!(["example.com/other", CLEANUP])),
        guarded("no_finalizer_is_added_to_a_service_that_is_being_deleted")
            .given(delete(ONE))
            .when(patch(STRATEGIC, STATUS, json!({"metadata": {"finalizers": ["example.com/late"]}})), 422)
            .refused("Invalid"),
        row("a_service_goes_with_its_last_finalizer_through_the_status")
            .given(finalized(&[CLEANUP]))
            .given(delete(ONE))
            .given(patch(STRATEGIC, STATUS, without_cleanup(&[])))
            .when(get(ONE), 404)
            .refused("NotFound"),
        row("the_end_of_a_service_is_seen")
            .given(finalized(&[CLEANUP]))
            .watching("/api/v1/namespaces/{n}/services?watch=true&resourceVersion={0.rv}&timeoutSeconds=20", 2)
            .meanwhile(delete(ONE))
            .meanwhile(patch(STRATEGIC, STATUS, without_cleanup(&[])))
            .has("/events/0/type", "MODIFIED")
            .has("/events/1/type", "DELETED"),
        balanced("annotations_are_set_and_removed_through_the_status")
            .given(patch(STRATEGIC, STATUS, json!({"metadata": {"annotations": {"a": "1", "b": "2"}}})))
            .when(patch(STRATEGIC, STATUS, json!({"metadata": {"annotations": {"a": null, "c": "3"}}})), 200)
            .has("/metadata/annotations", json!({"b": "2", "c": "3"})),
        balanced("the_ingress_is_cleared_with_null")
            .given(patch(STRATEGIC, STATUS, ingress(json!({"ip": "1.2.3.4"}))))
            .when(patch(STRATEGIC, STATUS, json!({"status": {"loadBalancer": {"ingress": null}}})), 200)
            .has("/status/loadBalancer", json!({})),
        balanced("a_condition_of_one_type_leaves_the_others_alone")
            .given(patch(STRATEGIC, STATUS, json!({"status": {"conditions": [condition("a", "True"), condition("b", "True")]}})))
            .when(patch(STRATEGIC, STATUS, json!({"status": {"conditions": [condition("b", "False")]}})), 200)
            .has("/status/conditions/0/status", "True")
            .has("/status/conditions/1/status", "False"),
        balanced("ports_and_everything_else_of_the_spec_stay_when_the_status_is_patched")
            .when(
                patch(STRATEGIC, STATUS, json!({"spec": {"externalTrafficPolicy": "Local", "ports": [{"port": 80, "nodePort": 31_998}]}})),
                200,
            )
            .has("/spec/externalTrafficPolicy", "Cluster")
            .has("/metadata/resourceVersion", "{0.rv}"),
        balanced("the_object_itself_cannot_write_the_status")
            .given(patch(MERGE, ONE, ingress(json!({"ip": "1.2.3.4"}))))
            .when(get(ONE), 200)
            .has("/status", json!({"loadBalancer": {}}))
            .has("/metadata/resourceVersion", "{0.rv}"),
    ]
}

fn invalid() -> Vec<Row> {
    let refused =
        |name: &'static str, spec: Value| row(name).when(create(spec), 422).refused("Invalid");
    vec![
        refused("a_service_needs_ports", json!({})),
        refused("two_ports_need_names", json!({"ports": [{"port": 80}, {"port": 81}]})),
        refused("ports_are_unique", json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]})).any_message(),
        refused("port_names_are_unique", json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]})),
        refused("a_port_number_has_a_range", json!({"ports": [{"port": 70_000}]})),
        refused("a_protocol_is_one_of_three", json!({"ports": [{"port": 80, "protocol": "ICMP"}]})),
        refused("a_type_is_one_of_four", json!({"type": "Nonsense", "ports": [{"port": 80}]})),
        refused("a_node_port_has_a_range", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]})),
        refused("a_cluster_service_has_no_node_port", json!({"ports": [{"port": 80, "nodePort": 30_100}]})),
        refused("source_ranges_are_cidrs", json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0"], "ports": [{"port": 80}]})),
        refused("only_load_balancers_have_a_class", json!({"loadBalancerClass": "example.com/x", "ports": [{"port": 80}]})),
        row("a_node_port_is_given_out_once")
            .given(create(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 32_001}]})))
            .when(
                post(ALL, json!({"metadata": {"name": "b"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 32_001}]}})),
                422,
            )
            .refused("Invalid")
            .has("/details/causes/0/field", "spec.ports[0].nodePort"),
    ]
}
