//! Upstream's own cases about helpers for providers, each row under its ID in `tests/conformance.md`.

use super::world::*;
use crate::reconciliation::patch::{FinalizerChange, ServicePatch};
use crate::service::{
    cloud_service, has_finalizer, health_check, needs_health_check, requests_only_local_traffic,
    source_ranges,
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

fn read(value: Value) -> Service {
    serde_json::from_value(value).unwrap()
}

fn annotated(text: &str) -> Service {
    read(
        json!({ "metadata": { "annotations": { ANNOTATION: text } }, "spec": { "type": "LoadBalancer" } }),
    )
}

fn specified(list: &[&str]) -> Service {
    read(json!({ "spec": { "type": "LoadBalancer", "loadBalancerSourceRanges": list } }))
}

/// Upstream's `IsAllowAll`, which no code here needs.
fn is_allow_all(ranges: &[IpNet]) -> bool {
    ranges.contains(&"0.0.0.0/0".parse().unwrap())
}

#[test]
fn svc_090_source_ranges_are_read_as_upstream_reads_them() {
    for (id, bad) in [
        ("TestGetLoadBalancerSourceRanges/01", "10.0.0.1/33"),
        ("TestGetLoadBalancerSourceRanges/02", "foo.bar"),
        ("TestGetLoadBalancerSourceRanges/03", "10.0.0.1/32,*"),
        ("TestGetLoadBalancerSourceRanges/04", "10.0.0.1/32,"),
        ("TestGetLoadBalancerSourceRanges/05", "10.0.0.1/32, "),
        ("TestGetLoadBalancerSourceRanges/06", "10.0.0.1"),
    ] {
        assert!(source_ranges(&annotated(bad)).is_err(), "{id}: {bad}");
        let list: Vec<&str> = bad.split(',').collect();
        assert!(source_ranges(&specified(&list)).is_err(), "{id}: {bad}");
        assert!(
            !cloud_service(&annotated(bad)).source_ranges.is_empty(),
            "{id}: not everybody"
        );
    }
    for (id, good, count) in [
        ("TestGetLoadBalancerSourceRanges/07", "192.168.0.1/32", 1),
        (
            "TestGetLoadBalancerSourceRanges/08",
            "192.168.0.1/32,192.168.0.1/32",
            1,
        ),
        (
            "TestGetLoadBalancerSourceRanges/09",
            "192.168.0.1/32,192.168.0.2/32",
            2,
        ),
        (
            "TestGetLoadBalancerSourceRanges/10",
            "  192.168.0.1/32 , 192.168.0.2/32  ",
            2,
        ),
    ] {
        assert_eq!(
            source_ranges(&annotated(good)).unwrap().len(),
            count,
            "{id}"
        );
        let list: Vec<&str> = good.split(',').collect();
        assert_eq!(
            source_ranges(&specified(&list)).unwrap().len(),
            count,
            "{id}"
        );
    }
    for (id, service) in [
        ("TestGetLoadBalancerSourceRanges/11", specified(&[])),
        ("TestGetLoadBalancerSourceRanges/12", annotated("")),
    ] {
        let ranges = source_ranges(&service).unwrap();
        assert!(ranges.len() == 1 && is_allow_all(&ranges), "{id}");
        assert!(cloud_service(&service).source_ranges.is_empty(), "{id}");
    }
    // The API server admits leading zeros, and Go reads them as decimal.
    let padded = cloud_service(&specified(&["010.0.0.0/8"]));
    assert_eq!(padded.source_ranges, ["10.0.0.0/8"]);
}

#[test]
fn svc_090_the_spec_wins_over_the_annotation() {
    let mut both = annotated("10.0.0.0/8");
    both.spec.as_mut().unwrap().load_balancer_source_ranges = Some(vec!["192.0.2.0/24".to_owned()]);
    assert_eq!(cloud_service(&both).source_ranges, ["192.0.2.0/24"]);
}

#[test]
fn svc_091_everybody_is_one_network_without_host_bits() {
    for (id, list, expected) in [
        ("TestAllowAll/01", ["192.168.0.1/32"].as_slice(), false),
        (
            "TestAllowAll/02",
            &["192.168.0.1/32", "192.168.0.2/32"],
            false,
        ),
        (
            "TestAllowAll/03",
            &["192.168.0.1/32", "192.168.0.1/32"],
            false,
        ),
        ("TestAllowAll/04", &["0.0.0.0/0"], true),
        ("TestAllowAll/05", &["192.168.0.0/0"], true),
        ("TestAllowAll/06", &["192.168.0.1/32", "0.0.0.0/0"], true),
        ("as upstream", &["::/0"], false),
    ] {
        let ranges = source_ranges(&specified(list)).unwrap();
        assert_eq!(is_allow_all(&ranges), expected, "{id}");
    }
}

fn exposed(kind: &str, policy: &str) -> Service {
    let mut service = json!({ "spec": { "healthCheckNodePort": 32000 } });
    if !kind.is_empty() {
        service["spec"]["type"] = json!(kind);
    }
    if !policy.is_empty() {
        service["spec"]["externalTrafficPolicy"] = json!(policy);
    }
    read(service)
}

#[test]
fn svc_092_local_traffic_is_of_services_that_are_exposed() {
    for (id, kind, policy, expected) in [
        ("TestRequestsOnlyLocalTraffic/01", "", "", false),
        ("TestRequestsOnlyLocalTraffic/02", "ClusterIP", "", false),
        ("TestRequestsOnlyLocalTraffic/03", "NodePort", "", false),
        (
            "TestRequestsOnlyLocalTraffic/04",
            "NodePort",
            "Cluster",
            false,
        ),
        ("TestRequestsOnlyLocalTraffic/05", "NodePort", "Local", true),
        (
            "TestRequestsOnlyLocalTraffic/06",
            "LoadBalancer",
            "Cluster",
            false,
        ),
        (
            "TestRequestsOnlyLocalTraffic/07",
            "LoadBalancer",
            "Local",
            true,
        ),
    ] {
        assert_eq!(
            requests_only_local_traffic(&exposed(kind, policy)),
            expected,
            "{id}"
        );
    }
}

#[test]
fn svc_092_only_load_balancers_with_local_traffic_ask_nodes() {
    for (id, kind, policy, expected) in [
        ("TestNeedsHealthCheck/01", "ClusterIP", "", false),
        ("TestNeedsHealthCheck/02", "NodePort", "Cluster", false),
        ("TestNeedsHealthCheck/03", "NodePort", "Local", false),
        ("TestNeedsHealthCheck/04", "LoadBalancer", "Cluster", false),
        ("TestNeedsHealthCheck/05", "LoadBalancer", "Local", true),
    ] {
        let service = exposed(kind, policy);
        assert_eq!(needs_health_check(&service), expected, "{id}");
        let port = expected.then_some(("/healthz", 32000));
        assert_eq!(health_check(&service), port, "{id}");
        assert_eq!(
            cloud_service(&service).health_check_node_port,
            port.map(|(_, port)| port),
            "{id}"
        );
    }
    let mut service = exposed("LoadBalancer", "Local");
    service.spec.as_mut().unwrap().health_check_node_port = Some(0);
    assert_eq!(health_check(&service), None);
}

#[test]
fn upstream_has_lb_finalizer_finds_it_among_others() {
    for (id, finalizers, expected) in [
        ("TestHasLBFinalizer/01", [].as_slice(), false),
        ("TestHasLBFinalizer/02", &["unrelated"], false),
        ("TestHasLBFinalizer/03", &[FINALIZER], true),
        (
            "TestHasLBFinalizer/04",
            &["unrelated", FINALIZER, "another"],
            true,
        ),
    ] {
        let service = read(json!({ "metadata": { "finalizers": finalizers } }));
        assert_eq!(has_finalizer(&service), expected, "{id}");
    }
}

#[test]
fn svc_081_a_finalizer_is_added_in_client_gos_words() {
    let id = "Test_getPatchBytes/01";
    let mut patch = ServicePatch::new("u0");
    patch.finalizer = Some(FinalizerChange::Add(vec!["foo".to_owned()]));
    let expected = json!({ "metadata": {
        "uid": "u0",
        "$setElementOrder/finalizers": ["foo", FINALIZER],
        "finalizers": [FINALIZER]
    } });
    assert_eq!(patch.to_json(), expected, "{id}");
}

#[test]
fn svc_080_a_patch_keeps_what_others_have_written_meanwhile() {
    let id = "TestPatchService/01";
    let mut world = made();
    world.stored["metadata"]["finalizers"] = json!(["other"]);
    world.past.drift_due = true;
    world.ensure = [ready(&["192.0.2.2"], 0)].into();
    world.meanwhile.push_back(|stored| {
        stored["metadata"]["annotations"]["meanwhile"] = json!("kept");
        stored["spec"]["selector"] = json!({ "meanwhile": "kept" });
    });
    world.reconcile();
    assert_eq!(world.annotation("meanwhile"), Some("kept"), "{id}");
    assert_eq!(
        world.stored["spec"]["selector"],
        json!({ "meanwhile": "kept" }),
        "{id}"
    );
    assert_eq!(
        world.stored["metadata"]["finalizers"],
        json!(["other", FINALIZER]),
        "{id}"
    );
    assert_eq!(world.addresses(), ["192.0.2.2"], "{id}");
    for patch in &world.patches {
        assert!(
            patch["spec"].is_null(),
            "{id}: the spec is nobody's to write"
        );
    }
}

#[test]
fn svc_082_two_statuses_are_the_same_when_their_ingress_is() {
    let port = |protocol: &str| json!([{ "port": 80, "protocol": protocol }]);
    let ip = |ip: &str| json!({ "ip": ip });
    let with = |key: &str, value: Value| json!({ "ip": "1.1.1.1", key: value });
    for (id, left, right, expected) in [
        (
            "TestLoadBalancerStatusEqual/01",
            json!(null),
            json!(null),
            true,
        ),
        (
            "TestLoadBalancerStatusEqual/02",
            ip("1.1.1.1"),
            ip("1.1.1.1"),
            true,
        ),
        (
            "TestLoadBalancerStatusEqual/03",
            ip("1.1.1.1"),
            ip("2.2.2.2"),
            false,
        ),
        (
            "TestLoadBalancerStatusEqual/04",
            with("ipMode", json!("VIP")),
            with("ipMode", json!("VIP")),
            true,
        ),
        (
            "TestLoadBalancerStatusEqual/05",
            with("ipMode", json!("VIP")),
            ip("1.1.1.1"),
            false,
        ),
        (
            "TestLoadBalancerStatusEqual/06",
            with("ipMode", json!("VIP")),
            with("ipMode", json!("Proxy")),
            false,
        ),
        (
            "TestLoadBalancerStatusEqual/07",
            with("ports", port("TCP")),
            with("ports", port("TCP")),
            true,
        ),
        (
            "TestLoadBalancerStatusEqual/08",
            with("ports", port("TCP")),
            with("ports", port("UDP")),
            false,
        ),
        (
            "TestLoadBalancerStatusEqual/09",
            with("ports", port("TCP")),
            ip("1.1.1.1"),
            false,
        ),
        (
            "TestLoadBalancerStatusEqual/10",
            with("ports", port("TCP")),
            ip("1.1.1.1"),
            false,
        ),
    ] {
        let status = |one: &Value| {
            let ingress = if one.is_null() {
                json!([])
            } else {
                json!([one])
            };
            let service = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
            cloud_service(&read(service)).status
        };
        assert_eq!(status(&left) == status(&right), expected, "{id}");
        assert_eq!(status(&right) == status(&left), expected, "{id}");
    }
}
