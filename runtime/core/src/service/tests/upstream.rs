//! Upstream's own cases about Services, each row under its ID in `tests/conformance.md`. Where upstream tests a
//! function that does not exist here, the row is a whole reconciliation with the same result.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::reconciliation::effect::{ClusterError, When};
use std::collections::BTreeSet;

use crate::service::change_filter::needs_update;
use crate::service::{ServiceAction, needs_cleanup};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use std::time::Duration;

fn read(value: &Value) -> Service {
    serde_json::from_value(value.clone()).unwrap()
}

fn set(path: &'static str, value: Value) -> impl Fn(&mut Value) {
    move |service| {
        let place = path.split('/').fold(service, |place, key| &mut place[key]);
        *place = value.clone();
    }
}

/// Number of calls of each kind.
fn calls(world: &World) -> (usize, usize, usize) {
    let count = |is: fn(&ServiceAction) -> bool| world.calls.iter().filter(|call| is(call)).count();
    (
        count(|call| matches!(call, ServiceAction::Ensure(_))),
        count(|call| matches!(call, ServiceAction::UpdateTargets(_))),
        count(|call| matches!(call, ServiceAction::Delete(_))),
    )
}

/// Upstream's Events when a load balancer is made, and when it is removed.
const TOLD: &[(&str, &str)] = &[
    ("EnsuringLoadBalancer", "Ensuring load balancer"),
    ("EnsuredLoadBalancer", "Ensured load balancer"),
    ("DeletingLoadBalancer", "Deleting load balancer"),
    ("DeletedLoadBalancer", "Deleted load balancer"),
];

#[test]
fn upstream_sync_load_balancer_if_needed() {
    let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "8.8.8.8" }] } });
    let none = |_: &mut Value| {};
    let protocol = |protocol: &'static str| {
        move |service: &mut Value| service["spec"]["ports"][0]["protocol"] = json!(protocol)
    };
    type Change = Box<dyn Fn(&mut Value)>;
    /// The ID, the change of the Service, the numbers of calls, and the number of patches.
    type Case = (&'static str, Change, (usize, usize, usize), usize);
    let cases: [Case; 8] = [
        (
            "TestSyncLoadBalancerIfNeeded/01",
            Box::new(set("spec/type", json!("ClusterIP"))),
            (0, 0, 0),
            0,
        ),
        (
            "TestSyncLoadBalancerIfNeeded/02",
            Box::new(protocol("UDP")),
            (1, 0, 0),
            2,
        ),
        (
            "TestSyncLoadBalancerIfNeeded/03",
            Box::new(none),
            (1, 0, 0),
            2,
        ),
        (
            "TestSyncLoadBalancerIfNeeded/04",
            Box::new(protocol("SCTP")),
            (1, 0, 0),
            2,
        ),
        (
            "TestSyncLoadBalancerIfNeeded/05",
            Box::new(set("spec/loadBalancerClass", json!("other"))),
            (0, 0, 0),
            0,
        ),
        // One patch where upstream makes two.
        (
            "TestSyncLoadBalancerIfNeeded/06",
            Box::new({
                let ingress = ingress.clone();
                move |service| {
                    service["spec"]["type"] = json!("ClusterIP");
                    service["metadata"]["finalizers"] = json!([FINALIZER]);
                    service["status"] = ingress.clone();
                }
            }),
            (0, 0, 1),
            1,
        ),
        (
            "TestSyncLoadBalancerIfNeeded/07",
            Box::new(move |service| {
                service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                service["metadata"]["finalizers"] = json!([FINALIZER]);
                service["status"] = ingress.clone();
            }),
            (0, 0, 1),
            1,
        ),
        // The owner is written, too.
        (
            "TestSyncLoadBalancerIfNeeded/08",
            Box::new(set("metadata/finalizers", json!([FINALIZER]))),
            (1, 0, 0),
            2,
        ),
    ];
    for (id, change, expected, patches) in cases {
        let mut world = world();
        change(&mut world.stored);
        let run = world.reconcile();
        assert_eq!(run.end, When::AwaitChange, "{id}");
        assert_eq!(calls(&world), expected, "{id}");
        let told: &[(&str, &str)] = match expected {
            (1, ..) => &TOLD[..2],
            (.., 1) => &TOLD[2..],
            _ => &[],
        };
        let events = run.events.iter();
        let events: Vec<(&str, &str)> = events
            .map(|(reason, message)| (reason.as_str(), message.as_str()))
            .collect();
        assert_eq!(events, told, "{id}");
        assert_eq!(world.patches.len(), patches, "{id}: {:?}", run.effects);
        assert_eq!(world.has_finalizer(), expected.0 == 1, "{id}");
        // The status of a Service that is being deleted goes with it.
        let is_kept = world.stored["metadata"]["deletionTimestamp"].is_string();
        let addresses = if is_kept { 1 } else { expected.0 };
        assert_eq!(world.addresses().len(), addresses, "{id}");
    }
}

#[test]
fn upstream_process_service_create_or_update() {
    let mut world = made();
    assert_eq!(
        world.reconcile().end,
        When::AwaitChange,
        "TestProcessServiceCreateOrUpdate/01"
    );
    world.stored["spec"]["loadBalancerIP"] = json!("192.0.2.9");
    assert_eq!(world.reconcile().end, When::AwaitChange);
    let Some(ServiceAction::Ensure(request)) = world.calls.last() else {
        panic!("{:?}", world.calls);
    };
    let id = "TestProcessServiceCreateOrUpdate/02";
    assert_eq!(
        request.service.requested_ip.as_deref(),
        Some("192.0.2.9"),
        "{id}"
    );
}

#[test]
fn upstream_process_service_create_or_update_k8s_error() {
    let id = "TestProcessServiceCreateOrUpdateK8sError/01";
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [ready(&["192.0.2.2"], 0)].into();
    world.errors = vec![ClusterError::Conflict("the object has been modified".to_owned()); 30];
    let run = world.reconcile();
    let expected = "failed to update load balancer status: conflict: the object has been modified";
    assert_eq!(run.why(), expected, "{id}");
    let reported = format!("Error syncing load balancer: {expected}");
    assert_eq!(
        run.events,
        [("SyncLoadBalancerFailed".to_owned(), reported)],
        "{id}"
    );

    let id = "TestProcessServiceCreateOrUpdateK8sError/02";
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [ready(&["192.0.2.2"], 0)].into();
    world.is_missing = true;
    let run = world.reconcile();
    assert_eq!((run.end, run.events.len()), (When::AwaitChange, 0), "{id}");
}

#[test]
fn upstream_sync_service_deletes_what_is_not_listed_any_more() {
    let id = "TestSyncService/02";
    let mut world = made();
    world.is_gone = true;
    assert_eq!(world.reconcile().end, When::AwaitChange, "{id}");
    assert_eq!(calls(&world), (0, 0, 1), "{id}");
    does_nothing(&mut world);
}

#[test]
fn upstream_process_service_deletion() {
    let id = "TestProcessServiceDeletion/01";
    let mut unknown = world();
    unknown.is_gone = true;
    assert_eq!(does_nothing(&mut unknown).end, When::AwaitChange, "{id}");

    let id = "TestProcessServiceDeletion/02";
    let mut world = made();
    world.is_gone = true;
    world.delete = [Err(ProviderError::Internal("error deletion".to_owned()))].into();
    let run = world.reconcile();
    assert!(run.why().ends_with("error deletion"), "{id}: {}", run.why());

    let id = "TestProcessServiceDeletion/03";
    world.delete = [Ok(crate::cloud::load_balancer::Progress::Done)].into();
    assert_eq!(world.reconcile().end, When::AwaitChange, "{id}");
    assert_eq!(calls(&world).2, 2, "{id}");
}

#[test]
fn upstream_needs_cleanup() {
    for (id, service, expected) in [
        (
            "TestNeedsCleanup/01",
            json!({ "spec": { "type": "NodePort" } }),
            false,
        ),
        (
            "TestNeedsCleanup/02",
            json!({ "metadata": { "finalizers": [FINALIZER] }, "spec": { "type": "NodePort" } }),
            true,
        ),
        (
            "TestNeedsCleanup/03",
            json!({ "metadata": { "finalizers": [FINALIZER] }, "spec": { "type": "LoadBalancer" } }),
            false,
        ),
        (
            "TestNeedsCleanup/04",
            json!({ "metadata": { "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z" },
                    "spec": { "type": "LoadBalancer" } }),
            true,
        ),
    ] {
        assert_eq!(needs_cleanup(&read(&service)), expected, "{id}");
    }
}

#[test]
fn upstream_finalizers_are_written_when_they_change() {
    for (id, before, patches) in [
        ("TestAddFinalizer/01", json!([FINALIZER]), 0),
        ("TestAddFinalizer/02", json!([]), 1),
    ] {
        let mut world = made();
        world.stored["metadata"]["finalizers"] = before;
        world.reconcile();
        assert_eq!(world.patches.len(), patches, "{id}");
        assert!(world.has_finalizer(), "{id}");
    }
    for (id, before, patches) in [
        ("TestRemoveFinalizer/01", json!([]), 0),
        ("TestRemoveFinalizer/02", json!([FINALIZER]), 1),
    ] {
        let mut world = world();
        world.stored["metadata"]["finalizers"] = before;
        world.stored["spec"]["type"] = json!("ClusterIP");
        world.reconcile();
        assert_eq!(world.patches.len(), patches, "{id}");
        assert!(!world.has_finalizer(), "{id}");
    }
}

#[test]
fn upstream_a_status_is_written_when_it_changes() {
    for (id, stored, answered, is_written) in [
        (
            "TestPatchStatus/01",
            ["192.0.2.1"].as_slice(),
            ["192.0.2.1"].as_slice(),
            false,
        ),
        ("TestPatchStatus/02", &[], &["192.0.2.1"], true),
        ("TestPatchStatus/03", &[], &[], false),
        ("TestPatchStatus/04", &["192.0.2.1"], &[], true),
    ] {
        let mut world = made();
        let ingress: Vec<Value> = stored.iter().map(|ip| json!({ "ip": ip })).collect();
        world.stored["status"]["loadBalancer"]["ingress"] = json!(ingress);
        world.past = Default::default();
        world.ensure = [ready(answered, 0)].into();
        world.reconcile();
        // An empty status is believed the second time.
        world.wait(30);
        world.reconcile();
        let written = world
            .patches
            .iter()
            .filter(|patch| !patch["status"]["loadBalancer"].is_null());
        assert_eq!(written.count(), usize::from(is_written), "{id}");
        assert_eq!(world.addresses(), answered, "{id}");
    }
}

#[test]
fn svc_022_upstream_service_queue_delay() {
    let mut world = made();
    world.past.drift_due = true;
    assert_eq!(
        world.reconcile().end,
        When::AwaitChange,
        "TestServiceQueueDelay/01"
    );

    let id = "TestServiceQueueDelay/02";
    world.past.drift_due = true;
    world.ensure = [Err(unavailable())].into();
    let run = world.reconcile();
    assert!(
        matches!(run.end, When::Retry { after, .. } if after == Duration::from_secs(1)),
        "{id}"
    );

    let id = "TestServiceQueueDelay/03";
    world.wait(1);
    world.ensure = [Err(ProviderError::Throttled {
        message: "slow down".to_owned(),
        retry_after: Some(Duration::from_secs(42)),
    })]
    .into();
    let run = world.reconcile();
    assert!(
        matches!(run.end, When::NotBefore { after, .. } if after == Duration::from_secs(42)),
        "{id}"
    );
}

#[test]
fn svc_012_upstream_needs_update() {
    let base = json!({
        "metadata": { "namespace": "default", "name": "tcp-service", "uid": "u0" },
        "spec": { "type": "LoadBalancer", "ipFamilies": ["IPv4"], "externalIPs": ["1.1.1.1"],
            "ports": [{ "protocol": "TCP", "port": 80, "targetPort": 20 }] }
    });
    type Change = Box<dyn Fn(&mut Value)>;
    let port = |key: &'static str, value: Value| -> Change {
        Box::new(move |service| service["spec"]["ports"][0][key] = value.clone())
    };
    let both = ["IPv4", "IPv6"];
    let none = || -> Change { Box::new(|_| {}) };
    let cases: [(&str, Change, Change, bool); 15] = [
        (
            "TestNeedsUpdate/01",
            none(),
            Box::new(set("spec/type", json!("ClusterIP"))),
            true,
        ),
        ("TestNeedsUpdate/02", none(), port("port", json!(81)), true),
        (
            "TestNeedsUpdate/03",
            none(),
            Box::new(set("spec/externalIPs", json!(["1.1.1.1", "2.2.2.2"]))),
            true,
        ),
        (
            "TestNeedsUpdate/04",
            none(),
            Box::new(set("spec/externalIPs", json!(["2.2.2.2"]))),
            true,
        ),
        (
            "TestNeedsUpdate/05",
            none(),
            Box::new(set("metadata/uid", json!("u1"))),
            true,
        ),
        (
            "TestNeedsUpdate/06",
            none(),
            Box::new(set("spec/externalTrafficPolicy", json!("Local"))),
            true,
        ),
        (
            "TestNeedsUpdate/07",
            none(),
            Box::new(set("spec/healthCheckNodePort", json!(30123))),
            true,
        ),
        (
            "TestNeedsUpdate/08",
            none(),
            port("targetPort", json!(21)),
            true,
        ),
        (
            "TestNeedsUpdate/09",
            port("targetPort", json!(22)),
            port("targetPort", json!("dns")),
            true,
        ),
        (
            "TestNeedsUpdate/10",
            none(),
            Box::new(set("spec/ipFamilies", json!(both))),
            true,
        ),
        (
            "TestNeedsUpdate/11",
            Box::new(set("spec/ipFamilies", json!(both))),
            Box::new(set("spec/ipFamilies", json!(["IPv4"]))),
            true,
        ),
        ("TestNeedsUpdate/12", none(), none(), false),
        (
            "TestNeedsUpdate/13",
            port("appProtocol", json!("http")),
            port("appProtocol", json!("http")),
            false,
        ),
        (
            "TestNeedsUpdate/14",
            none(),
            port("appProtocol", json!("http")),
            true,
        ),
        (
            "TestNeedsUpdate/15",
            port("appProtocol", json!("http")),
            port("appProtocol", json!("tcp")),
            true,
        ),
    ];
    for (id, before, after, expected) in cases {
        let (mut old, mut new) = (base.clone(), base.clone());
        before(&mut old);
        before(&mut new);
        after(&mut new);
        assert_eq!(
            needs_update(&read(&old), &read(&new), &BTreeSet::new()),
            expected,
            "{id}"
        );
    }
}
