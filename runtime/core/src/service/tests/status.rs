//! F20 and the conditions: when a status is written, and when it is cleared.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::{
    Ensured, Ingress, IpMode, LoadBalancerStatus, PortStatus, Protocol,
};
use crate::moment::Moment;
use crate::reconciliation::effect::{BudgetOutcome, When};
use crate::service::is_same;
use serde_json::json;
use std::time::Duration;

const OURS: &str = "wasm-ccm.dev/LoadBalancer";
const PORTS: &str = "LoadBalancerPortsError";

fn pair(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

#[test]
fn f20_an_empty_status_is_believed_when_it_is_repeated() {
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [ready(&[], 0)].into();
    let run = world.reconcile();
    assert_eq!(world.addresses(), ["192.0.2.1"]);
    assert_eq!(run.again(), Duration::from_secs(30));
    assert_eq!(run.event_reasons(), [] as [&str; 0]);
    world.wait(30);
    let run = world.reconcile();
    assert_eq!(run.end, When::AwaitChange);
    assert_eq!(
        run.acts(),
        [
            "ensure targets(2)",
            "take budget status-clear",
            "patch status=no ingress",
            "event Warning LoadBalancerStatusCleared",
            "event Normal EnsuredLoadBalancer"
        ]
    );
    assert!(world.addresses().is_empty());
    does_nothing(&mut world);
}

#[test]
fn f20_an_address_that_is_there_again_was_never_gone() {
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [ready(&[], 0), ready(&["192.0.2.1"], 0), ready(&[], 0)].into();
    world.reconcile();
    world.wait(30);
    assert_eq!(world.reconcile().end, When::AwaitChange);
    world.past.drift_due = true;
    assert_eq!(
        world.reconcile().again(),
        Duration::from_secs(30),
        "it begins anew"
    );
    assert_eq!(world.addresses(), ["192.0.2.1"]);
}

#[test]
fn f20_many_services_are_not_cleared_at_once() {
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [ready(&[], 0)].into();
    world.reconcile();
    world.wait(30);
    world.budget = BudgetOutcome::Answered(Err(Moment(world.now.0 + Duration::from_secs(60))));
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["BrakeEngaged"]);
    assert_eq!(run.again(), Duration::from_secs(60));
    assert_eq!(world.addresses(), ["192.0.2.1"]);
}

#[test]
fn a_service_that_never_had_an_address_needs_no_confirmation() {
    let mut world = world();
    world.ensure = [ready(&[], 1)].into();
    let run = world.reconcile();
    assert_eq!(run.end, When::AwaitChange);
    assert_eq!(
        run.event_reasons(),
        ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]
    );
}

#[test]
fn svc_082_the_order_of_addresses_counts() {
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [
        ready(&["192.0.2.2", "192.0.2.1"], 0),
        ready(&["192.0.2.1", "192.0.2.2"], 0),
    ]
    .into();
    world.reconcile();
    assert_eq!(world.addresses(), ["192.0.2.2", "192.0.2.1"]);
    world.past.drift_due = true;
    world.reconcile();
    assert_eq!(world.addresses(), ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn edge_069_a_condition_says_how_it_stands_and_is_written_when_that_changes() {
    let mut world = made();
    assert_eq!(world.condition(OURS), pair("True", "Ensured"));
    world.stored["metadata"]["generation"] = json!(3);
    world.past.drift_due = true;
    world.ensure = [
        Err(denied()),
        Err(denied()),
        Err(unavailable()),
        ready(&["192.0.2.1"], 0),
    ]
    .into();
    world.wait(60);
    world.reconcile();
    assert_eq!(world.condition(OURS), pair("False", "Denied"));
    let condition = &world.stored["status"]["conditions"][0];
    assert_eq!(condition["observedGeneration"], 3);
    let since =
        |world: &World| world.stored["status"]["conditions"][0]["lastTransitionTime"].clone();
    assert_eq!(since(&world), json!("2023-11-14T22:14:20Z"));
    world.patches.clear();
    world.wait(300);
    world.reconcile();
    assert!(world.patches.is_empty(), "the same again");
    world.wait(300);
    world.reconcile();
    assert_eq!(world.condition(OURS), pair("False", "Unavailable"));
    assert_eq!(since(&world), json!("2023-11-14T22:14:20Z"), "still False");
    world.wait(300);
    world.reconcile();
    assert_eq!(world.condition(OURS), pair("True", "Ensured"));
    assert_eq!(since(&world), json!("2023-11-14T22:29:20Z"));
}

#[test]
fn a_condition_names_the_kind_of_the_error_that_lasts() {
    let text = || "x".to_owned();
    let throttled = ProviderError::Throttled {
        message: text(),
        retry_after: None,
    };
    for (error, reason) in [
        (ProviderError::Invalid(text()), "Invalid"),
        (ProviderError::Denied(text()), "Denied"),
        (ProviderError::Unsupported(text()), "Unsupported"),
        (throttled, "Throttled"),
        (ProviderError::Held(Duration::from_secs(60)), "Throttled"),
        (ProviderError::Unavailable(text()), "Unavailable"),
        (ProviderError::Internal(text()), "Internal"),
        (ProviderError::TimedOut(text()), "TimedOut"),
        (ProviderError::Trapped(text()), "Trapped"),
        (ProviderError::Interrupted(text()), "Interrupted"),
        (ProviderError::NotBegun(text()), "NotBegun"),
    ] {
        let mut world = made();
        world.past.drift_due = true;
        world.ensure = [Err(error)].into();
        world.reconcile();
        world.wait(600);
        world.reconcile();
        assert_eq!(world.condition(OURS), pair("False", reason));
    }
}

/// A person who has corrected the first mistake reads about the next one.
#[test]
fn edge_069_a_condition_with_another_message_is_written_unless_only_a_number_differs() {
    let mut world = made();
    let mut answers = |why: &str| {
        world.past.drift_due = true;
        world.ensure = [Err(ProviderError::Invalid(why.to_owned()))].into();
        world.wait(600);
        world.patches.clear();
        world.reconcile();
        let condition = &world.stored["status"]["conditions"][0];
        let message = condition["message"].as_str().unwrap().to_owned();
        (world.patches.len(), message)
    };
    let message = |why: &str| format!("failed to ensure load balancer: invalid: {why}");
    assert_eq!(answers("no network 7"), (1, message("no network 7")));
    assert_eq!(answers("no network 12"), (0, message("no network 7")));
    assert_eq!(answers("no zone"), (1, message("no zone")));
}

#[test]
fn a_fault_that_passes_by_itself_costs_no_condition() {
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [Err(unavailable()), ready(&["192.0.2.1"], 0)].into();
    world.reconcile();
    assert_eq!(world.condition(OURS), pair("True", "Ensured"));
    assert!(world.patches.is_empty());
}

#[test]
fn a_condition_that_cannot_be_written_changes_no_wait() {
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [Err(denied())].into();
    world.errors = vec![crate::reconciliation::effect::ClusterError::Conflict(
        "409".to_owned(),
    )];
    let run = world.reconcile();
    assert_eq!(run.again(), Duration::from_secs(10));
    assert_eq!(
        run.acts().last().unwrap(),
        "patch wasm-ccm.dev/LoadBalancer=false"
    );
}

#[test]
fn ports_that_are_not_served_are_kubernetes_own_condition() {
    let with_error = |error: Option<&str>| {
        let mut one = status(&["192.0.2.1"]);
        one.ingress[0].ports = vec![PortStatus {
            port: 53,
            protocol: Protocol::Udp,
            error: error.map(str::to_owned),
        }];
        answered(Ensured::Ready(one), 0)
    };
    let mut world = made();
    assert_eq!(world.condition(PORTS), None);
    for (error, expected) in [
        (Some("UdpNotServed"), pair("True", "PortsNotServed")),
        (None, pair("False", "PortsServed")),
    ] {
        world.past.drift_due = true;
        world.ensure = [with_error(error)].into();
        world.reconcile();
        assert_eq!(world.condition(PORTS), expected);
    }
    let conditions = world.stored["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 2, "nobody else's is touched");
}

#[test]
fn only_what_we_own_is_written() {
    let mut world = world();
    world.stored["status"]["conditions"] = json!([{ "type": "x/Other", "status": "True", "reason": "R",
        "message": "", "lastTransitionTime": "2023-11-14T22:13:20Z" }]);
    world.stored["metadata"]["annotations"] = json!({ "a": "b" });
    let spec = world.stored["spec"].clone();
    world.reconcile();
    assert_eq!(world.stored["spec"], spec);
    assert_eq!(
        world.stored["metadata"]["annotations"],
        json!({ "a": "b", OWNER: "sim" })
    );
    assert_eq!(world.condition("x/Other"), pair("True", "R"));
    for patch in &world.patches {
        assert_eq!(patch["metadata"]["uid"], "u0", "{patch}");
        assert!(
            patch["spec"].is_null() && patch["metadata"]["labels"].is_null(),
            "{patch}"
        );
    }
}

#[test]
fn what_the_api_server_fills_in_is_not_written_again() {
    let mut world = made();
    world.stored["status"]["loadBalancer"]["ingress"][0]["ipMode"] = json!("VIP");
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        ["ensure targets(2)"],
        "it looks once, and it is right"
    );
    does_nothing(&mut world);
    // An IP mode that the provider states is written, also in place of another one.
    for (stored, reported) in [
        (None, IpMode::Vip),
        (Some("Proxy"), IpMode::Vip),
        (Some("VIP"), IpMode::Proxy),
    ] {
        let mut world = made();
        world.stored["status"]["loadBalancer"]["ingress"][0]["ipMode"] = json!(stored);
        let mut one = status(&["192.0.2.1"]);
        one.ingress[0].ip_mode = Some(reported);
        world.past.drift_due = true;
        world.ensure = [answered(Ensured::Ready(one), 0)].into();
        world.reconcile();
        assert_eq!(
            world.stored["status"]["loadBalancer"]["ingress"][0]["ipMode"],
            reported.as_str()
        );
    }
}

#[test]
fn a_load_balancer_is_recognised_by_its_ips_and_not_by_a_name() {
    let named = |name: &str| LoadBalancerStatus {
        ingress: vec![Ingress {
            hostname: Some(name.to_owned()),
            ..Ingress::default()
        }],
    };
    for (shown, found, expected) in [
        (
            status(&["192.0.2.1"]),
            status(&["192.0.2.1", "2001:db8::1"]),
            Some(true),
        ),
        (status(&["192.0.2.1"]), status(&["192.0.2.2"]), Some(false)),
        (named("a.example.com"), named("a.example.com"), None),
        (named("a.example.com"), named("b.example.com"), None),
        (status(&["192.0.2.1"]), named("a.example.com"), None),
    ] {
        assert_eq!(is_same(&shown, &found), expected, "{shown:?} {found:?}");
    }
}
