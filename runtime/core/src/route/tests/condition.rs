//! The condition NetworkUnavailable of nodes.

use serde_json::{Value, json};

use super::world::*;
use crate::cloud::route::RouteTarget;
use crate::reconciliation::effect::ClusterError;

fn stored(world: &World) -> &Value {
    &world.nodes["a"]["status"]["conditions"][0]
}

#[test]
fn route_040_and_041_the_condition_says_whether_all_routes_are_there() {
    let mut world = world(&["10.1.0.0/16", "fd00::/48"]);
    world.add("a", &[TO_A, SIX], "10.0.0.1");
    let answer = Err(unavailable());
    world.changes.insert(SIX.to_owned(), answer);
    world.settle();
    assert_eq!(
        stored(&world)["message"],
        "RouteController failed to create a route"
    );
    assert_eq!(world.condition("a"), "True/NoRouteCreated", "one of two");
    // Routes are listed before the other one is tried again.
    world.now += 100;
    world.pass();
    assert_eq!(world.condition("a"), "True/NoRouteCreated", "still one");
    world.changes.clear();
    world.run(5_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
    assert_eq!(stored(&world)["message"], "RouteController created a route");
}

#[test]
fn nothing_is_said_of_a_node_while_nobody_knows_whether_one_of_its_routes_is_there() {
    let mut world = world(&["10.1.0.0/16", "fd00::/48"]);
    world.add("a", &[TO_A, SIX], "10.0.0.1");
    world.route_to(TO_A, "a");
    world.set_target(SIX, RouteTarget::Blackhole);
    world.is_complete = false;
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(world.condition("a"), "");
    world.is_complete = true;
    world.run(10_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
}

#[test]
fn route_040_a_node_without_pod_cidrs_is_untouched_unless_there_are_routes_to_it() {
    let mut world = world(&["10.1.0.0/16"]);
    world.add("a", &[], "10.0.0.1");
    world.add("b", &[], "10.0.0.2");
    world.route_to(TO_A, "b");
    let acts = world.settle();
    assert_eq!(
        acts,
        [
            "patch node/b/status NetworkUnavailable=true(NoRouteCreated)",
            "delete route 10.1.0.0/24 to node/b"
        ]
    );
    assert_eq!(world.condition("a"), "");
}

#[test]
fn route_042_a_foreign_reason_is_never_overwritten_and_an_empty_one_is_foreign() {
    for condition in [
        json!({ "type": "NetworkUnavailable", "status": "False", "reason": "CiliumIsUp" }),
        json!({ "type": "NetworkUnavailable", "status": "True", "reason": "" }),
        json!({ "type": "NetworkUnavailable", "status": "True" }),
    ] {
        let mut world = one();
        world.change("a", |node| {
            node["status"]["conditions"] = json!([condition])
        });
        assert_eq!(world.settle(), ["create route 10.1.0.0/24 to node/a"]);
        assert_eq!(*stored(&world), condition);
    }
}

#[test]
fn route_042_a_foreign_reason_that_appears_during_the_reconciliation_stays() {
    let mut world = one();
    world.first_listing();
    let facts = world.next().unwrap();
    let theirs =
        json!([{ "type": "NetworkUnavailable", "status": "False", "reason": "CiliumIsUp" }]);
    world.change("a", |node| node["status"]["conditions"] = theirs);
    world.log.clear();
    world.reconcile(facts);
    assert_eq!(
        world.acts(),
        [
            "create route 10.1.0.0/24 to node/a",
            "patch node/a/status NetworkUnavailable=false(RouteCreated)",
            "read node/a"
        ]
    );
    assert_eq!(world.condition("a"), "False/CiliumIsUp");
}

#[test]
fn a_node_made_again_gets_no_condition_for_the_route_of_the_one_before() {
    let mut world = one();
    world.first_listing();
    let facts = world.next().unwrap();
    world.add("a", &[], "10.0.0.9");
    world.refusals = [ClusterError::Conflict(String::new())].into();
    world.log.clear();
    world.reconcile(facts);
    assert_eq!(
        world.acts(),
        [
            "create route 10.1.0.0/24 to node/a",
            "patch node/a/status NetworkUnavailable=false(RouteCreated)",
            "read node/a"
        ]
    );
    assert_eq!(world.condition("a"), "");
}

#[test]
fn route_043_only_this_condition_is_written_and_its_transition_moves_only_with_its_status() {
    let mut world = one();
    world.settle();
    let created = stored(&world).clone();
    assert_eq!(created["lastTransitionTime"], created["lastHeartbeatTime"]);
    for (status, address, is_moved) in [("False", "10.0.0.2", false), ("True", "10.0.0.3", true)] {
        let before = json!([{
            "type": "NetworkUnavailable", "status": status, "reason": "NoRouteCreated",
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]);
        world.change("a", |node| node["status"]["conditions"] = before);
        world.move_to("a", address);
        world.settle();
        assert_eq!(world.condition("a"), "False/RouteCreated");
        let has_moved = stored(&world)["lastTransitionTime"] != "2026-01-01T00:00:00Z";
        assert_eq!(has_moved, is_moved, "{status}");
        assert_ne!(stored(&world)["lastHeartbeatTime"], "2026-01-01T00:00:00Z");
    }
}

#[test]
fn route_043_a_conflict_is_answered_by_reading_and_a_failure_by_trying_again_later() {
    let mut world = one();
    world.refusals = [ClusterError::Conflict(String::new())].into();
    let patch = "patch node/a/status NetworkUnavailable=false(RouteCreated)";
    assert_eq!(
        world.settle(),
        [
            "create route 10.1.0.0/24 to node/a",
            patch,
            "read node/a",
            patch
        ]
    );
    assert_eq!(world.condition("a"), "False/RouteCreated");

    let mut world = one();
    let away = || ClusterError::Unavailable(String::new());
    world.refusals = [away(), away(), away()].into();
    world.settle();
    assert_eq!(world.condition("a"), "");
    world.run(10_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
    let creations = world.acts();
    let creations = creations.iter().filter(|act| act.starts_with("create"));
    assert_eq!(creations.count(), 1, "the route itself is right");
}

#[test]
fn route_040_a_failed_write_to_a_node_without_pod_cidrs_is_tried_again_later() {
    let mut world = world(&["10.1.0.0/16"]);
    world.add("b", &[], "10.0.0.2");
    world.route_to(TO_A, "b");
    // Its end is waited for without a listing.
    world.changes.insert(TO_A.to_owned(), Ok(pending(500)));
    world.refusals = [ClusterError::Unavailable(String::new())].into();
    world.settle();
    assert_eq!(world.condition("b"), "");
    world.run(10_000);
    assert_eq!(world.condition("b"), "True/NoRouteCreated");
}

#[test]
fn one_answer_that_was_lost_takes_no_node_that_works_out_of_service() {
    let mut world = one();
    world.settle();
    world.routes.clear();
    world.changes.insert(TO_A.to_owned(), Err(unavailable()));
    world.now += 1_000;
    world.pass();
    assert_eq!(world.condition("a"), "False/RouteCreated");
    world.run(2_000);
    assert_eq!(
        world.condition("a"),
        "True/NoRouteCreated",
        "it has failed again"
    );
}

#[test]
fn route_044_the_heartbeat_is_not_refreshed() {
    let mut world = one();
    world.settle();
    let before = stored(&world).clone();
    world.log.clear();
    world.run(3_600_000);
    assert_eq!(world.acts(), [""; 0]);
    assert_eq!(*stored(&world), before);
}

#[test]
fn edge_081_while_something_else_is_in_its_place_the_node_says_that_its_route_is_missing() {
    let mut world = one();
    world.set_target(TO_A, RouteTarget::Other("appliance 7".to_owned()));
    assert_eq!(
        world.settle(),
        [
            "event node/a Warning ForeignRoute",
            "patch node/a/status NetworkUnavailable=true(NoRouteCreated)"
        ]
    );
    world.log.clear();
    world.pass();
    assert_eq!(world.acts(), [""; 0], "said once");
    assert_eq!(world.deleted, []);
    world.routes.clear();
    world.pass();
    assert_eq!(world.condition("a"), "False/RouteCreated");
}

/// Two nodes with the same pod CIDR: `a` has the route, and the condition of `b` says that it has none.
fn duplicates() -> World {
    let mut world = one();
    world.settle();
    world.add("b", &[TO_A], "10.0.0.2");
    assert_eq!(
        world.settle(),
        [
            "event node/b Warning PodCIDROverlaps",
            "patch node/b/status NetworkUnavailable=true(NoRouteCreated)"
        ]
    );
    assert_eq!(world.condition("a"), "False/RouteCreated");
    world.log.clear();
    world
}

/// Another client has replaced the only route by one to the other node.
fn lead_to_b(world: &mut World) {
    world.routes.clear();
    world.route_to(TO_A, "b");
}

#[test]
fn f25_of_two_nodes_with_the_same_pod_cidr_the_one_that_lost_its_route_to_the_other_says_so() {
    let mut world = duplicates();
    lead_to_b(&mut world);
    world.pass();
    assert_eq!(
        world.acts(),
        [
            "event node/a Warning PodCIDROverlaps",
            "patch node/a/status NetworkUnavailable=true(NoRouteCreated)",
            "patch node/b/status NetworkUnavailable=false(RouteCreated)"
        ]
    );
    world.log.clear();
    world.run(3_600_000);
    assert_eq!(world.acts(), [""; 0], "whoever has it keeps it");
    // The node that had the network first gets it again when it is free.
    world.routes.clear();
    world.run(3_600_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
    assert_eq!(world.condition("b"), "True/NoRouteCreated");
}

#[test]
fn f25_of_two_nodes_with_the_same_pod_cidr_the_one_that_lost_its_route_says_so_after_a_restart() {
    let mut world = duplicates();
    lead_to_b(&mut world);
    world.restart();
    assert_eq!(
        world.settle(),
        [
            "event node/a Warning PodCIDROverlaps",
            "patch node/a/status NetworkUnavailable=true(NoRouteCreated)",
            "patch node/b/status NetworkUnavailable=false(RouteCreated)"
        ]
    );
    // An incomplete answer does not prove that a route does not exist.
    let mut world = duplicates();
    world.restart();
    world.is_complete = false;
    world.change("a", |node| {
        node["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
    });
    let routes = std::mem::take(&mut world.routes);
    let answer = unavailable();
    world.changes.insert(TO_A.to_owned(), Err(answer));
    world.run(1_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
    world.routes = routes;
    world.is_complete = true;
    world.run(60_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
    assert_eq!(world.condition("b"), "True/NoRouteCreated");
}

#[test]
fn f25_a_wide_pod_cidr_that_is_not_given_its_route_back_is_said_to_have_none() {
    let mut world = world(&["10.1.0.0/16"]);
    world.add("wide", &["10.1.0.0/16"], "10.0.0.1");
    world.settle();
    world.add("narrow", &[TO_A], "10.0.0.2");
    world.route_to(TO_A, "narrow");
    world.settle();
    assert_eq!(world.condition("wide"), "False/RouteCreated");
    assert_eq!(world.condition("narrow"), "False/RouteCreated");
    world.routes.retain(|route| route.destination == TO_A);
    world.restart();
    assert_eq!(
        world.settle(),
        [
            "event node/wide Warning PodCIDROverlaps",
            "patch node/wide/status NetworkUnavailable=true(NoRouteCreated)"
        ]
    );
    assert_eq!(world.condition("narrow"), "False/RouteCreated");
}

#[test]
fn f25_another_ones_condition_stays_also_where_two_nodes_have_the_same_pod_cidr() {
    let mut world = duplicates();
    let theirs =
        json!([{ "type": "NetworkUnavailable", "status": "False", "reason": "CiliumIsUp" }]);
    world.change("a", |node| node["status"]["conditions"] = theirs);
    lead_to_b(&mut world);
    world.pass();
    assert_eq!(world.condition("a"), "False/CiliumIsUp");
    assert!(
        world
            .acts()
            .contains(&"event node/a Warning PodCIDROverlaps".to_owned())
    );
}

#[test]
fn a_network_of_the_cluster_that_is_written_down_wrongly_takes_no_node_out_of_service() {
    let mut world = world(&["10.9.0.0/16"]);
    world.add("a", &[TO_A], "10.0.0.1");
    assert_eq!(
        world.settle(),
        ["event node/a Warning ClusterCIDRMisconfigured"]
    );
    assert_eq!(world.condition("a"), "");
    // A family for which the cluster has no network is another component's.
    world.add("b", &["10.9.0.0/24", "fd00::/64"], "10.0.0.2");
    world.settle();
    assert_eq!(world.condition("b"), "False/RouteCreated");
}

#[test]
fn a_cache_that_has_not_seen_our_own_write_makes_no_second_one() {
    let mut world = one();
    world.settle();
    let written = world.nodes["a"].clone();
    world.nodes.get_mut("a").unwrap()["status"]["conditions"] = json!([]);
    world.nodes.get_mut("a").unwrap()["metadata"]["resourceVersion"] = json!("1");
    world.log.clear();
    world.now += 1_000;
    world.pass();
    assert_eq!(world.acts(), [""; 0]);
    // Nothing else has the condition looked at again before the slow resync.
    let expires = at(world.now + 9_000);
    assert_eq!(world.memory.next_listing(), Some(expires));
    // After a while, an object from an etcd that was restored from a backup is believed.
    world.now += 10_000;
    world.pass();
    assert_eq!(world.acts().len(), 1);
    drop(written);
}
