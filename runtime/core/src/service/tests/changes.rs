//! SVC-012 and SVC-013: which changes of a Service cause a reconciliation.

use super::world::*;
use std::collections::BTreeSet;

use crate::service::change_filter::{is_edit, is_relevant_change, needs_update};
use crate::service::{cloud_service, is_relevant};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

fn read(value: &Value) -> Service {
    serde_json::from_value(value.clone()).unwrap()
}

/// Whether this change of a Service with a load balancer causes a reconciliation.
fn wakes(change: fn(&mut Value)) -> bool {
    let before = made().stored;
    let mut after = before.clone();
    change(&mut after);
    let (before, after) = (read(&before), read(&after));
    let written = BTreeSet::new();
    is_relevant_change(&before, &after, &written) || is_edit(&before, &after, &written)
}

#[test]
fn svc_012_what_no_provider_is_asked_about_wakes_nobody() {
    let changes: [fn(&mut Value); 13] = [
        |_| {},
        |service| service["metadata"]["labels"] = json!({ "a": "b" }),
        |service| service["metadata"]["resourceVersion"] = json!("7"),
        |service| service["metadata"]["finalizers"] = json!([FINALIZER, "other"]),
        |service| service["spec"]["selector"] = json!({ "a": "b" }),
        |service| service["spec"]["internalTrafficPolicy"] = json!("Local"),
        |service| service["spec"]["publishNotReadyAddresses"] = json!(true),
        |service| service["spec"]["clusterIPs"] = json!(["10.96.0.11"]),
        |service| service["spec"]["allocateLoadBalancerNodePorts"] = json!(false),
        |service| service["spec"]["trafficDistribution"] = json!("PreferClose"),
        |service| {
            let owner = json!({ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x" });
            service["metadata"]["ownerReferences"] = json!([owner]);
        },
        |service| service["status"]["conditions"] = json!([]),
        |service| {
            service["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                json!("{}");
        },
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert!(!wakes(change), "change {index}");
    }
    // Of the families only the number counts.
    let of = |families: [&str; 2]| {
        let mut service = made().stored;
        service["spec"]["ipFamilies"] = json!(families);
        read(&service)
    };
    let (before, after) = (of(["IPv4", "IPv6"]), of(["IPv6", "IPv4"]));
    assert!(!is_relevant_change(&before, &after, &BTreeSet::new()));
}

#[test]
fn what_is_to_be_repaired_wakes() {
    let changes: [fn(&mut Value); 6] = [
        |service| service["metadata"]["finalizers"] = json!([]),
        |service| service["metadata"]["annotations"] = json!({}),
        |service| service["metadata"]["annotations"][OWNER] = json!("other"),
        |service| service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        |service| service["status"]["loadBalancer"] = json!({}),
        |service| service["status"]["loadBalancer"]["ingress"][0]["ipMode"] = json!("VIP"),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert!(wakes(change), "change {index}");
    }
}

#[test]
fn what_providers_see_of_the_spec_wakes() {
    let changes: [fn(&mut Value); 9] = [
        |service| service["spec"]["ipFamilyPolicy"] = json!("PreferDualStack"),
        |service| service["spec"]["loadBalancerClass"] = json!("x"),
        |service| service["spec"]["loadBalancerIP"] = json!("192.0.2.9"),
        |service| service["spec"]["loadBalancerSourceRanges"] = json!(["192.0.2.0/24"]),
        |service| service["spec"]["sessionAffinity"] = json!("ClientIP"),
        |service| {
            let config = json!({ "clientIP": { "timeoutSeconds": 5 } });
            service["spec"]["sessionAffinityConfig"] = config;
        },
        |service| service["spec"]["ports"][0]["name"] = json!("http"),
        |service| service["spec"]["ports"][0]["protocol"] = json!("UDP"),
        |service| service["spec"]["ports"][0]["nodePort"] = json!(30081),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert!(wakes(change), "change {index}");
    }
}

#[test]
fn edge_071_the_annotations_of_anybody_wake_and_ours_do_not() {
    assert!(wakes(
        |service| service["metadata"]["annotations"]["a"] = json!("b")
    ));
    assert!(!wakes(
        |service| service["metadata"]["annotations"]["wasm-ccm.dev/x"] = json!("b")
    ));
}

#[test]
fn svc_004_only_what_may_have_a_load_balancer_is_looked_at() {
    let of = |spec: Value, metadata: Value| {
        is_relevant(&read(&json!({ "metadata": metadata, "spec": spec })))
    };
    assert!(of(json!({ "type": "LoadBalancer" }), json!({})));
    assert!(of(
        json!({ "type": "LoadBalancer", "loadBalancerClass": "x" }),
        json!({})
    ));
    assert!(of(
        json!({ "type": "ClusterIP" }),
        json!({ "finalizers": [FINALIZER] })
    ));
    assert!(of(json!({}), json!({ "annotations": { OWNER: "sim" } })));
    assert!(!of(
        json!({ "type": "NodePort" }),
        json!({ "finalizers": ["other"] })
    ));
    assert!(!of(
        json!({ "type": "ClusterIP" }),
        json!({ "annotations": { OWNER: "" } })
    ));
}

#[test]
fn a_service_that_has_a_class_is_news_as_one_that_has_none() {
    let mut before = world().stored;
    before["spec"]["loadBalancerClass"] = json!("fast");
    let mut after = before.clone();
    after["spec"]["ports"][0]["port"] = json!(81);
    assert!(needs_update(
        &read(&before),
        &read(&after),
        &BTreeSet::new()
    ));
}

#[test]
fn iface_030_a_provider_sees_a_service_and_not_the_object() {
    let mut stored = world().stored;
    stored["metadata"]["annotations"] = json!({
        "kubectl.kubernetes.io/last-applied-configuration": "{}", OWNER: "sim",
        "a.wasm-ccm.dev/b": "c", "lb.example.com/type": "small"
    });
    stored["metadata"]["labels"] = json!({ "l": "1" });
    stored["spec"] = json!({
        "type": "LoadBalancer", "loadBalancerClass": "fast", "loadBalancerIP": "192.0.2.9",
        "clusterIPs": ["10.96.0.10", "fd00::a"], "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "PreferDualStack", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32000,
        "sessionAffinity": "ClientIP", "loadBalancerSourceRanges": ["10.1.2.3/8", "10.0.0.0/8", "2001:db8::/32"],
        "ports": [
            { "name": "http", "port": 80, "nodePort": 30080, "appProtocol": "kubernetes.io/h2c" },
            { "name": "dns", "protocol": "UDP", "port": 53 },
            { "name": "odd", "protocol": "PIGEON", "port": 54 },
            { "name": "zero", "port": 0 }
        ]
    });
    let seen = cloud_service(&read(&stored));
    use crate::cloud::load_balancer::{IpFamily, IpFamilyPolicy, Protocol, TrafficPolicy};
    assert_eq!(
        seen.annotations.keys().collect::<Vec<_>>(),
        ["lb.example.com/type"]
    );
    assert_eq!(
        (
            seen.namespace.as_str(),
            seen.name.as_str(),
            seen.uid.as_str()
        ),
        ("default", "web", "u0")
    );
    assert_eq!(seen.labels["l"], "1");
    assert_eq!(seen.class.as_deref(), Some("fast"));
    assert_eq!(seen.requested_ip.as_deref(), Some("192.0.2.9"));
    assert_eq!(seen.source_ranges, ["10.0.0.0/8", "2001:db8::/32"]);
    assert_eq!(seen.external_traffic_policy, Some(TrafficPolicy::Local));
    assert_eq!(seen.health_check_node_port, Some(32000));
    assert_eq!(seen.ip_families, [IpFamily::V4, IpFamily::V6]);
    assert_eq!(seen.ip_family_policy, Some(IpFamilyPolicy::PreferDualStack));
    assert_eq!(seen.session_affinity_seconds, Some(10_800));
    assert_eq!(seen.cluster_ips, ["10.96.0.10", "fd00::a"]);
    let ports: Vec<_> = seen
        .ports
        .iter()
        .map(|port| {
            let (name, app) = (port.name.as_deref(), port.app_protocol.as_deref());
            (name, port.port, port.protocol, port.node_port, app)
        })
        .collect();
    let h2c = Some("kubernetes.io/h2c");
    assert_eq!(
        ports,
        [
            (Some("http"), 80, Protocol::Tcp, Some(30080), h2c),
            (Some("dns"), 53, Protocol::Udp, None, None)
        ]
    );
    assert_eq!(
        cloud_service(&Service::default()).source_ranges,
        [] as [&str; 0]
    );
}

#[test]
fn a_provider_sees_for_how_long_clients_keep_their_endpoint() {
    let timeout = |seconds: u32| json!({ "clientIP": { "timeoutSeconds": seconds } });
    for (affinity, config, expected) in [
        ("ClientIP", json!(null), Some(10_800)),
        ("ClientIP", timeout(5), Some(5)),
        ("None", timeout(5), None),
    ] {
        let mut stored = world().stored;
        stored["spec"]["sessionAffinity"] = json!(affinity);
        stored["spec"]["sessionAffinityConfig"] = config;
        let seen = cloud_service(&read(&stored));
        assert_eq!(seen.session_affinity_seconds, expected, "{affinity}");
    }
}
