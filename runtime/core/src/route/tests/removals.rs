//! Which routes are removed, and which stay.

use serde_json::json;

use super::world::*;
use crate::cloud::route::RouteTarget;
use crate::route::Tally;

#[test]
fn route_022_a_route_to_an_address_that_the_node_has_no_more_is_replaced() {
    let mut world = one();
    world.settle();
    world.move_to("a", "10.0.0.2");
    assert_eq!(
        world.settle(),
        [
            "delete route 10.1.0.0/24 to outdated node/a",
            "create route 10.1.0.0/24 to node/a"
        ]
    );
}

#[test]
fn a_route_of_a_node_that_is_initialised_anew_is_replaced_after_that() {
    let mut world = one();
    world.settle();
    world.taint("a");
    world.move_to("a", "10.0.0.2");
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(world.listings_at().len(), 1);
    world.change("a", |node| node["spec"]["taints"] = json!([]));
    assert_eq!(
        world.settle(),
        [
            "delete route 10.1.0.0/24 to outdated node/a",
            "create route 10.1.0.0/24 to node/a"
        ]
    );
}

#[test]
fn route_027_a_network_that_moves_to_another_node_is_freed_before_it_is_taken() {
    let mut world = one();
    world.settle();
    world.remove("a");
    world.add("b", &[TO_A], "10.0.0.2");
    assert_eq!(
        world.settle()[..2],
        [
            "delete route 10.1.0.0/24 to blackhole",
            "create route 10.1.0.0/24 to node/b"
        ]
    );
}

#[test]
fn route_025_what_nobody_wants_goes_once_its_node_and_its_machine_are_gone() {
    let mut world = one();
    world.settle();
    world.remove("a");
    assert_eq!(world.settle(), ["delete route 10.1.0.0/24 to blackhole"]);
}

#[test]
fn a_route_of_a_node_that_has_vanished_goes_although_its_machine_lives() {
    // The route was listed as the node's before the node vanished, or was created for it.
    for is_listed in [true, false] {
        let mut world = one();
        if is_listed {
            world.route_to(TO_A, "a");
        }
        world.settle();
        world.forget("a");
        assert_eq!(
            world.settle(),
            ["delete route 10.1.0.0/24 to other: server a"],
            "listed before: {is_listed}"
        );
    }
}

#[test]
fn a_route_of_a_node_that_has_vanished_goes_although_another_node_has_its_name() {
    // One that wants the same route may be on the same machine.
    for (wanted, removed) in [("10.1.1.0/24", 1), (TO_A, 0)] {
        let mut world = one();
        world.settle();
        world.forget("a");
        world.routes[0].hop = Hop::Fixed(RouteTarget::Other("server 1".to_owned()));
        world.add("a", &[wanted], "10.0.0.9");
        world.settle();
        assert_eq!(world.deleted.len(), removed, "{wanted}");
    }
}

#[test]
fn f24_what_leads_to_something_alive_that_was_never_known_as_ours_stays() {
    let mut world = one();
    world.settle();
    // A restarted process knows no routes as ours.
    world.restart();
    world.forget("a");
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(
        world.memory.tally(),
        Tally {
            foreign: 1,
            ..Tally::default()
        }
    );
    let foreign = world.memory.foreign();
    assert_eq!(foreign.named, ["10.1.0.0/24 to \"server a\", as \"r1\""]);
}

#[test]
fn routes_that_are_not_ours_are_news_when_they_are_others_and_not_when_their_order_is() {
    let mut world = one();
    for server in ["x", "y"] {
        let target = RouteTarget::Other(format!("server {server}"));
        world.set_target("10.1.9.0/24", target);
    }
    world.settle();
    let first = world.memory.foreign().clone();
    assert_eq!(
        first.named,
        [
            "10.1.9.0/24 to \"server x\", as \"r1\"",
            "10.1.9.0/24 to \"server y\", as \"r2\""
        ]
    );
    world.routes.reverse();
    world.run(600_000);
    assert!(world.listings_at().len() > 1);
    assert_eq!(*world.memory.foreign(), first);
    world.set_target("10.1.8.0/24", RouteTarget::Other("server x".to_owned()));
    world.run(600_000);
    assert_ne!(*world.memory.foreign(), first);
}

#[test]
fn while_what_a_removal_spends_cannot_be_written_down_nothing_goes_and_listings_become_few() {
    let mut world = one();
    world.set_target("10.1.9.0/24", RouteTarget::Blackhole);
    world.is_ledger_away = true;
    world.run(3_600_000);
    assert_eq!(world.deleted, []);
    let listings = world.listings_at();
    let [.., before, last] = listings.as_slice() else {
        panic!("{listings:?}");
    };
    assert_eq!(last - before, 30_000, "{listings:?}");
    world.is_ledger_away = false;
    world.run(30_000);
    assert_eq!(world.deleted.len(), 1);
}

#[test]
fn listings_that_are_never_complete_become_as_few_as_those_of_the_resync() {
    let mut world = one();
    world.is_complete = false;
    world.set_target("10.1.9.0/24", RouteTarget::Blackhole);
    world.run(3_600_000);
    let listings = world.listings_at();
    assert!(listings.len() < 25, "{listings:?}");
}

#[test]
fn f24_a_route_that_somebody_has_turned_elsewhere_is_not_ours_any_more() {
    for (is_listed, is_complete) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut world = one();
        world.settle();
        if is_listed {
            world.pass();
        }
        world.routes[0].hop = Hop::Fixed(RouteTarget::Other("appliance 7".to_owned()));
        world.is_complete = is_complete;
        world.pass();
        world.is_complete = true;
        world.forget("a");
        assert_eq!(
            world.settle(),
            [""; 0],
            "listed before: {is_listed}, complete: {is_complete}"
        );
        assert_eq!(world.deleted, []);
    }
}

#[test]
fn f24_another_route_to_the_same_network_is_not_the_one_that_was_known() {
    let mut world = one();
    world.settle();
    world.pass();
    world.routes.clear();
    world.set_target(TO_A, RouteTarget::Other("appliance 7".to_owned()));
    world.forget("a");
    assert_eq!(world.settle(), [""; 0], "it has another identification");
}

#[test]
fn f24_of_two_routes_of_which_one_was_made_by_us_nobody_knows_which_and_both_stay() {
    let mut world = one();
    world.settle();
    world.set_target(TO_A, RouteTarget::Other("appliance 7".to_owned()));
    world.forget("a");
    assert_eq!(world.settle(), [""; 0]);
}

#[test]
fn f24_what_lies_outside_of_the_cluster_s_networks_or_around_them_is_nobody_s() {
    for destination in [
        "0.0.0.0/0",
        "::/0",
        "10.0.0.0/8",
        "10.0.0.0/15",
        "192.168.0.0/24",
        "10.1.0.0/33",
        "10.1.0.0",
        "",
        "nonsense",
        "10.1.0.0/24 ",
    ] {
        let mut world = one();
        world.route_to(TO_A, "a");
        world.set_target(destination, RouteTarget::Blackhole);
        world.set_target(destination, RouteTarget::Node("a".to_owned()));
        world.settle();
        assert_eq!(world.deleted, [], "{destination:?}");
        assert_eq!(world.memory.tally().outside, 2);
    }
}

#[test]
fn f24_from_an_answer_that_is_not_complete_nothing_is_deleted_and_it_is_asked_again() {
    let mut world = one();
    world.is_complete = false;
    world.set_target("10.1.9.0/24", RouteTarget::Blackhole);
    world.set_target("10.1.8.0/24", RouteTarget::Node("a".to_owned()));
    world.run(20_000);
    assert_eq!(world.deleted, []);
    assert_eq!(
        world.condition("a"),
        "False/RouteCreated",
        "a new one is made"
    );
    assert_eq!(world.listings_at(), [1_000, 2_000, 4_000, 8_000, 16_000]);
    world.is_complete = true;
    world.run(60_000);
    assert_eq!(world.deleted.len(), 2);
}

#[test]
fn f25_a_route_to_a_node_that_nobody_asked_about_is_foreign_and_its_network_is_not_taken() {
    let mut world = one();
    world.set_target(TO_A, RouteTarget::Node("ghost".to_owned()));
    world.set_target("10.1.9.0/24", RouteTarget::Outdated("ghost".to_owned()));
    assert_eq!(
        world.settle(),
        [
            "event node/a Warning ForeignRoute",
            "patch node/a/status NetworkUnavailable=true(NoRouteCreated)"
        ]
    );
    assert_eq!(world.memory.tally().foreign, 2);
}

#[test]
fn f25_of_nodes_that_want_the_same_addresses_one_gets_its_route_and_the_others_are_told() {
    let mut world = one();
    world.settle();
    for (name, cidrs, created) in [
        // This node is older, and yet the existing route stays.
        ("older", ["10.1.0.0/24"], "2025-01-01T00:00:00Z"),
        ("inside", ["10.1.0.128/25"], "2026-02-01T00:00:00Z"),
        ("around", ["10.1.0.0/16"], "2025-01-01T00:00:00Z"),
        ("apart", ["10.1.7.0/24"], "2026-02-01T00:00:00Z"),
        ("twin", ["10.1.7.0/24"], "2026-02-02T00:00:00Z"),
    ] {
        world.add(name, &cidrs, "10.0.0.9");
        world.change(name, |node| {
            node["metadata"]["creationTimestamp"] = json!(created)
        });
    }
    let acts = world.settle();
    let events: Vec<_> = acts.iter().filter(|act| act.starts_with("event")).collect();
    assert_eq!(
        events,
        [
            "event node/around Warning PodCIDROverlaps",
            "event node/inside Warning PodCIDROverlaps",
            "event node/older Warning PodCIDROverlaps",
            "event node/twin Warning PodCIDROverlaps"
        ]
    );
    let creations: Vec<_> = acts
        .iter()
        .filter(|act| act.starts_with("create"))
        .collect();
    assert_eq!(creations, ["create route 10.1.7.0/24 to node/apart"]);
    assert_eq!(world.condition("older"), "True/NoRouteCreated");
    world.log.clear();
    world.pass();
    assert_eq!(world.acts(), [""; 0], "it stays so, and is said once");
}

#[test]
fn f25_who_has_a_network_keeps_it_whatever_one_listing_says() {
    for restarts in [false, true] {
        let mut world = one();
        world.settle();
        world.add("a-twin", &[TO_A], "10.0.0.2");
        world.change("a-twin", |node| {
            node["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
        });
        world.settle();
        if restarts {
            // Only the route shows who has it.
            world.restart();
            world.settle();
        }
        let routes = std::mem::take(&mut world.routes);
        world.pass();
        world.routes.retain(|route| !routes.contains(route));
        assert_eq!(
            world.final_routes().into_iter().collect::<Vec<_>>(),
            ["10.1.0.0/24 a 10.0.0.1"]
        );
        world.move_to("a", "10.0.0.3");
        world.run(10_000);
        assert_eq!(
            world.final_routes().into_iter().collect::<Vec<_>>(),
            ["10.1.0.0/24 a 10.0.0.3"],
            "restarts: {restarts}"
        );
        assert_eq!(world.condition("a"), "False/RouteCreated");
        // The first node is removed, and the other one gets its route.
        world.remove("a");
        world.run(10_000);
        assert_eq!(world.condition("a-twin"), "False/RouteCreated");
    }
}

#[test]
fn f25_one_node_cannot_take_the_networks_of_all_that_come_after_it() {
    let mut world = world(&["10.1.0.0/16"]);
    world.add("greedy", &["10.1.0.0/16"], "10.0.0.9");
    world.add("later", &["10.1.1.0/24"], "10.0.0.2");
    world.settle();
    assert_eq!(world.condition("later"), "False/RouteCreated");
    assert_eq!(world.condition("greedy"), "True/NoRouteCreated");
}

#[test]
fn f25_a_pod_cidr_that_is_none_or_lies_elsewhere_is_told_and_gets_no_route() {
    for cidr in ["10.2.0.0/24", "10.0.0.0/8", "nonsense"] {
        let mut world = world(&["10.1.0.0/16"]);
        world.add("a", &[cidr, "10.1.1.0/24"], "10.0.0.1");
        let acts = world.settle();
        let expected = match cidr {
            "nonsense" => ["create route 10.1.1.0/24 to node/a"; 1].as_slice(),
            _ => &["create route 10.1.1.0/24 to node/a"],
        };
        assert_eq!(acts[..1], *expected);
        assert_eq!(acts[1], "event node/a Warning ClusterCIDRMisconfigured");
    }
}

#[test]
fn edge_082_networks_are_compared_as_networks() {
    for spelling in ["10.1.0.0/24", "10.1.0.7/24", "::ffff:10.1.0.0/120"] {
        let mut world = one();
        world.route(
            spelling,
            Hop::Machine("a".to_owned(), "10.0.0.1".to_owned()),
        );
        let acts = world.settle();
        assert_eq!(
            acts,
            ["patch node/a/status NetworkUnavailable=false(RouteCreated)"],
            "{spelling}"
        );
    }
    let mut world = world(&["2001:DB8::/32"]);
    world.add("a", &["2001:db8:0:0::/64"], "10.0.0.1");
    world.route(
        "2001:0db8:0000::/64",
        Hop::Machine("a".to_owned(), "10.0.0.1".to_owned()),
    );
    assert_eq!(world.settle().len(), 1);
}

#[test]
fn one_answer_that_calls_everything_a_blackhole_puts_no_node_that_works_out_of_service() {
    for target in [
        RouteTarget::Blackhole,
        RouteTarget::Other("x".to_owned()),
        RouteTarget::Node("ghost".to_owned()),
    ] {
        let mut world = one();
        world.brake();
        world.add("b", &["10.1.1.0/24"], "10.0.0.2");
        world.add("c", &["10.1.2.0/24"], "10.0.0.3");
        world.settle();
        for route in &mut world.routes {
            route.hop = Hop::Fixed(target.clone());
        }
        world.pass();
        for name in ["a", "b", "c"] {
            assert_eq!(world.condition(name), "False/RouteCreated", "{target}");
        }
    }
}

#[test]
fn budget_is_taken_once_for_a_removal_however_often_it_is_tried() {
    let mut world = one();
    world.brake();
    world.set_target("10.1.9.0/24", RouteTarget::Blackhole);
    world
        .changes
        .insert("10.1.9.0/24".to_owned(), Err(unavailable()));
    world.run(100_000);
    world.set_target("10.1.8.0/24", RouteTarget::Blackhole);
    world.pass();
    assert_eq!(world.deleted.len(), 1, "there was some left");
}

#[test]
fn a_reconciliation_never_begins_from_what_is_not_so_any_more() {
    let mut world = one();
    world.set_target("10.1.9.0/24", RouteTarget::Node("a".to_owned()));
    world.first_listing();
    // The node has changed between the listing and its reconciliation.
    let after = json!(["10.1.0.0/24", "10.1.9.0/24"]);
    world.nodes.get_mut("a").unwrap()["spec"]["podCIDRs"] = after;
    assert!(world.next().is_none());
}

#[test]
fn many_routes_to_one_destination_go_in_several_reconciliations() {
    let mut world = one();
    for _ in 0..40 {
        world.set_target(TO_A, RouteTarget::Blackhole);
    }
    world.run(10_000);
    assert_eq!(world.deleted.len(), 40);
    assert_eq!(world.condition("a"), "False/RouteCreated");
}
