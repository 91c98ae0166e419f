//! SVC-060 to SVC-070: which nodes become targets of a load balancer, and when.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::CloudNode;
use crate::cloud::load_balancer::Progress;
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::When;
use crate::service::targets::{are_same, is_eligible, wakes};
use crate::service::{Account, ServiceAction, Targets};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn node(name: &str) -> PrunedNode {
    node_object(name).build()
}

fn changed(change: impl FnOnce(&mut Value)) -> PrunedNode {
    node_object("a").with(change).build()
}

fn names(targets: &[Arc<CloudNode>]) -> Vec<&str> {
    targets.iter().map(|node| node.name.as_str()).collect()
}

#[test]
fn svc_060_who_is_excluded_about_to_go_or_being_deleted_is_no_target() {
    for value in ["0", "f", "F", "FALSE", "false", "False"] {
        let label = |node: &mut Value| {
            node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"] =
                json!(value);
        };
        assert!(is_eligible(&changed(label)), "{value}");
    }
    for value in [
        "", "1", "t", "T", "TRUE", "true", "True", "foo", "no", "fALSE",
    ] {
        let label = |node: &mut Value| {
            node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"] =
                json!(value);
        };
        assert!(!is_eligible(&changed(label)), "{value}");
    }
    let leaving = |effect: &'static str| {
        move |node: &mut Value| {
            node["spec"]["taints"] =
                json!([{ "key": "ToBeDeletedByClusterAutoscaler", "effect": effect }]);
        }
    };
    assert!(!is_eligible(&changed(leaving("NoSchedule"))));
    assert!(!is_eligible(&changed(leaving("PreferNoSchedule"))));
    assert!(!is_eligible(&changed(
        |node| node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
    )));
}

#[test]
fn svc_061_readiness_cordons_roles_and_other_taints_do_not_count() {
    assert!(is_eligible(&changed(
        |node| node["status"]["conditions"] = json!([{ "type": "Ready", "status": "False" }])
    )));
    assert!(is_eligible(&changed(|node| {
        node["spec"]["unschedulable"] = json!(true);
        node["spec"]["taints"] = json!([{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" }]);
        node["metadata"]["labels"] = json!({ "node-role.kubernetes.io/control-plane": "" });
    })));
}

#[test]
fn edge_072_who_has_no_machine_yet_is_no_target() {
    for id in [json!(""), json!(null)] {
        assert!(!is_eligible(&changed(
            |node| node["spec"]["providerID"] = id.clone()
        )));
    }
    assert!(wakes(
        &changed(|node| node["spec"]["providerID"] = json!("")),
        &node("a")
    ));
}

#[test]
fn svc_064_a_node_that_is_about_to_go_wakes_nobody_and_other_addresses_do() {
    for change in [
        json!({ "spec": { "taints": [{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }] } }),
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
        json!({ "spec": { "unschedulable": true } }),
    ] {
        let after = changed(|node| merge(node, &change));
        assert!(!wakes(&node("a"), &after), "{change}");
    }
    let moved =
        json!({ "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.9" }] } });
    let moved = changed(|node| merge(node, &moved));
    assert!(wakes(&node("a"), &moved));
    let targets = |node: PrunedNode| Targets::of([node].iter(), true).nodes;
    assert!(
        !are_same(&targets(node("a")), &targets(moved)),
        "it is told"
    );
}

#[test]
fn targets_are_sorted_by_name() {
    let nodes = [
        node("c"),
        node("a"),
        changed(|node| node["spec"] = json!({})),
        node("b"),
    ];
    let targets = Targets::of(nodes.iter(), true);
    assert_eq!(names(&targets.nodes), ["a", "b", "c"]);
}

#[test]
fn svc_066_another_set_of_nodes_alone_is_handed_as_a_set() {
    let mut world = made();
    world.with_nodes(&["a", "b", "c"]);
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        ["update targets(3)", "event Normal UpdatedLoadBalancer"]
    );
    assert_eq!(run.events[0].1, "Updated load balancer with new hosts");
    assert_eq!(run.end, When::AwaitChange);
    does_nothing(&mut world);
}

#[test]
fn edge_062_the_service_as_it_is_now_goes_with_its_nodes() {
    let mut world = made();
    world.with_nodes(&["a", "b", "c"]);
    world.stored["metadata"]["labels"] = json!({ "x": "y" });
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    world.reconcile();
    let Some(ServiceAction::Ensure(request)) = world.calls.last() else {
        panic!("{:?}", world.calls);
    };
    assert_eq!(request.service.ports[0].port, 81);
    assert_eq!(names(&request.targets), ["a", "b", "c"], "both in one call");
}

#[test]
fn svc_069_and_070_a_failed_update_is_told_and_the_whole_is_looked_at_at_once() {
    for error in [
        unavailable(),
        denied(),
        ProviderError::Internal("x".to_owned()),
    ] {
        let mut world = made();
        world.with_nodes(&["a", "b", "c"]);
        world.update = [Err(error.clone())].into();
        let run = world.reconcile();
        assert_eq!(
            run.acts(),
            [
                "update targets(3)",
                "event Warning UpdateLoadBalancerFailed",
                "ensure targets(3)"
            ]
        );
        assert_eq!(
            run.events[0].1,
            format!(
                "Error updating load balancer with new hosts [a b c] [node names limited, total number of nodes: 3], error: {error}"
            )
        );
        assert_eq!(run.end, When::AwaitChange);
        does_nothing(&mut world);
    }
}

#[test]
fn svc_069_an_event_has_at_most_twenty_names() {
    let mut world = made();
    world.nodes = (0..25)
        .map(|number| format!("n{number:02}"))
        .chain(["a".to_owned(), "b".to_owned()])
        .collect();
    world.update = [Err(unavailable())].into();
    let message = &world.reconcile().events[0].1;
    assert!(message.contains("[a b n00 n01 "), "{message}");
    assert!(
        message.contains("n17 <7 more>] [node names limited, total number of nodes: 27]"),
        "{message}"
    );
}

#[test]
fn svc_069_what_somebody_else_implements_is_silent() {
    let mut world = made();
    world.with_nodes(&["a", "b", "c"]);
    world.update = [Err(ProviderError::Elsewhere)].into();
    let run = world.reconcile();
    assert_eq!(run.acts(), ["update targets(3)"]);
    does_nothing(&mut world);
}

#[test]
fn edge_063_what_was_not_confirmed_is_wanted_until_it_is() {
    let mut world = made();
    world.with_nodes(&["a", "b", "c"]);
    world.update = [Err(unavailable())].into();
    world.ensure = [Err(unavailable())].into();
    world.reconcile();
    let targets = |names: &[&str]| {
        let nodes: Vec<PrunedNode> = names.iter().map(|name| node(name)).collect();
        Targets::of(nodes.iter(), true)
    };
    assert!(
        world.past.wants_targets(&targets(&["a", "b", "c"])),
        "tried is not confirmed"
    );
    world.ensure = [ready(&["192.0.2.1"], 1)].into();
    world.reconcile();
    assert!(!world.past.wants_targets(&targets(&["a", "b", "c"])));
    assert!(world.past.wants_targets(&targets(&["a", "b"])));
    assert!(
        crate::service::RetainedState::default().wants_targets(&targets(&[])),
        "nobody was told anything"
    );
}

#[test]
fn an_update_that_takes_long_is_asked_about_with_its_hint() {
    let mut world = made();
    world.with_nodes(&["a", "b", "c"]);
    world.update = [Ok(Progress::Pending(pending("h"))), Ok(Progress::Done)].into();
    assert_eq!(world.reconcile().again(), Duration::from_millis(500));
    does_nothing(&mut world);
    world.wait(1);
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        ["update targets(3) hint", "event Normal UpdatedLoadBalancer"]
    );
}

#[test]
fn an_update_that_does_not_end_is_reported_after_ten_minutes_once() {
    let mut world = made();
    world.with_nodes(&["a", "b", "c"]);
    world.update = [Ok(Progress::Pending(pending("h")))].into();
    assert_eq!(world.reconcile().acts(), ["update targets(3)"]);
    let asked = "update targets(3) hint";
    world.wait(601);
    let run = world.reconcile();
    assert_eq!(run.acts(), [asked, "event Warning LoadBalancerPending"]);
    world.wait(1);
    assert_eq!(world.reconcile().acts(), [asked]);
    world.update = [Ok(Progress::Done)].into();
    world.wait(1);
    let run = world.reconcile();
    assert_eq!(run.acts(), [asked, "event Normal UpdatedLoadBalancer"]);
    assert_eq!(
        world.condition("wasm-ccm.dev/LoadBalancer").unwrap().1,
        "Ensured"
    );
}

#[test]
fn an_update_has_an_age_of_its_own() {
    let mut world = made();
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    world.ensure = [begun("h")].into();
    world.reconcile();
    world.wait(590);
    world.with_nodes(&["a", "b", "c"]);
    world.ensure = [Err(denied())].into();
    world.update = [Ok(Progress::Pending(pending("h")))].into();
    world.reconcile();
    // The ensure call fails again in between.
    for (seconds, is_reported) in [(11, false), (600, false), (1, true)] {
        world.wait(seconds);
        let run = world.reconcile();
        let reasons = run.event_reasons();
        assert_eq!(
            reasons.contains(&"LoadBalancerPending"),
            is_reported,
            "{reasons:?}"
        );
    }
}

#[test]
fn a_pending_update_of_targets_hides_no_failure_and_repeats_no_ensure_call() {
    let invalid_ranges: fn(&mut Value) =
        |stored| stored["spec"]["loadBalancerSourceRanges"] = json!(["nonsense"]);
    let other_port: fn(&mut Value) = |stored| stored["spec"]["ports"][0]["port"] = json!(81);
    for (change, is_called) in [(invalid_ranges, false), (other_port, true)] {
        let mut world = made();
        change(&mut world.stored);
        world.with_nodes(&["a", "b", "c"]);
        world.ensure = [Err(denied())].into();
        world.update = [Ok(Progress::Pending(pending("h")))].into();
        let poll = Duration::from_millis(500);
        // A failure, then two polls of the update, the second just before the ensure call is due again.
        for delays in [[0, 1, 8], [1, 1, 18]] {
            for (turn, seconds) in delays.into_iter().enumerate() {
                world.wait(seconds);
                world.calls.clear();
                let run = world.reconcile();
                let is_reported = run.event_reasons().contains(&"SyncLoadBalancerFailed");
                assert_eq!(is_reported, turn == 0, "{:?}", run.acts());
                let is_ensured = |call: &ServiceAction| matches!(call, ServiceAction::Ensure(_));
                assert_eq!(
                    world.calls.iter().any(is_ensured),
                    turn == 0 && is_called,
                    "{:?}",
                    run.acts()
                );
                assert_eq!(run.again(), poll);
            }
        }
    }
}

#[test]
fn a_pending_update_of_targets_is_polled_while_the_account_cannot_be_proven() {
    let mut world = made();
    world.account = Account {
        generation: 1,
        is_known: false,
    };
    world.witnesses = Err(unavailable());
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    world.with_nodes(&["a", "b", "c"]);
    world.update = [Ok(Progress::Pending(pending("h")))].into();
    for _ in 0..6 {
        let run = world.reconcile();
        assert_eq!(run.again(), Duration::from_millis(500), "{:?}", run.acts());
        world.wait(1);
    }
}

#[test]
fn an_ensure_call_that_is_pending_for_a_minute_delays_no_update_of_targets() {
    let mut world = made();
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    world.ensure = [begun("h")].into();
    world.reconcile();
    world.with_nodes(&["a", "b", "c"]);
    for (seconds, is_updated) in [(59, false), (1, true)] {
        world.wait(seconds);
        let acts = world.reconcile().acts();
        let update = "update targets(3) hint".to_owned();
        assert_eq!(acts.contains(&update), is_updated, "{acts:?}");
    }
}

#[test]
fn a_failed_ensure_call_delays_no_confirmed_removal_of_targets() {
    let mut world = world();
    world.with_nodes(&["a", "b", "c", "d"]);
    world.reconcile();
    world.ensure = [Err(denied())].into();
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    for seconds in [10, 20, 40] {
        assert_eq!(world.reconcile().again(), Duration::from_secs(seconds));
        world.wait(seconds);
    }
    // The retry of the ensure call comes while the removal waits for its confirmation.
    world.with_nodes(&["a"]);
    assert_eq!(world.reconcile().again(), Duration::from_secs(30));
    world.wait(30);
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        ["update targets(1)", "event Normal UpdatedLoadBalancer"]
    );
    assert_eq!(run.again(), Duration::from_secs(50), "of 80");
}

#[test]
fn targets_that_come_back_were_never_taken_away() {
    let mut world = made();
    world.with_nodes(&[]);
    assert_eq!(does_nothing(&mut world).again(), Duration::from_secs(30));
    world.with_nodes(&["a", "b"]);
    world.wait(31);
    assert_eq!(does_nothing(&mut world).end, When::AwaitChange);
    world.with_nodes(&[]);
    assert_eq!(
        does_nothing(&mut world).again(),
        Duration::from_secs(30),
        "it begins anew"
    );
}

#[test]
fn a_few_targets_go_at_once() {
    let mut world = made();
    world.with_nodes(&["a"]);
    assert_eq!(world.reconcile().acts()[0], "update targets(1)");
}

#[test]
fn nobody_loses_targets_while_the_nodes_are_not_known() {
    let mut world = made();
    world.is_synced = false;
    world.with_nodes(&[]);
    assert_eq!(does_nothing(&mut world).again(), Duration::from_secs(1));
    world.past = Default::default();
    assert_eq!(
        does_nothing(&mut world).again(),
        Duration::from_secs(1),
        "not even after a restart"
    );
}

#[test]
fn after_a_restart_no_targets_at_all_are_wanted_twice() {
    let mut world = made();
    world.past = Default::default();
    world.with_nodes(&[]);
    assert_eq!(does_nothing(&mut world).again(), Duration::from_secs(30));
    world.wait(30);
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        ["event Warning UnAvailableLoadBalancer", "ensure targets(0)"]
    );
}

#[test]
fn svc_068_the_last_target_gone_is_said_as_such() {
    let mut world = made();
    world.with_nodes(&[]);
    world.reconcile();
    world.wait(30);
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        ["update targets(0)", "event Warning UnAvailableLoadBalancer"]
    );
    world.with_nodes(&["a"]);
    assert_eq!(world.reconcile().event_reasons(), ["UpdatedLoadBalancer"]);
}
