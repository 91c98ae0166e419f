//! When routes are listed, and when a failed change is retried.

use std::time::Duration;

use serde_json::json;

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{CloudEvent, EventType};
use crate::cloud::load_balancer::Progress;
use crate::cloud::route::RouteTarget;
use crate::node::ownership::{Claim, OwnershipContext};
use crate::safety::permit::Mode;
use crate::well_known::OWNER_LABEL;

const HOUR: u64 = 3_600_000;

fn creations(world: &World) -> Vec<u64> {
    let creations = world
        .log
        .iter()
        .filter(|(_, act)| act.starts_with("create"));
    creations.map(|(at, _)| *at - 1_000_000).collect()
}

#[test]
fn route_010_and_edge_080_with_nothing_changed_there_is_one_listing_in_each_resync_and_no_write() {
    for (resync, listings) in [(300, 12), (20, 180)] {
        let mut world = one();
        world.settings.resync = Duration::from_secs(resync);
        world.restart();
        world.settle();
        world.log.clear();
        world.run(HOUR);
        assert_eq!(world.listings_at().len(), listings);
        assert_eq!(world.acts(), [""; 0]);
    }
}

#[test]
fn route_012_many_changes_in_a_row_are_one_listing_and_none_waits_longer_than_five_seconds() {
    let mut world = one();
    world.settle();
    world.log.clear();
    for number in 1..=20 {
        let cidr = format!("10.1.{number}.0/24");
        let address = format!("10.0.1.{number}");
        world.add(&format!("n{number:02}"), &[&cidr], &address);
        world.run(400);
    }
    world.run(10_000);
    // The first change was at 1.0 s, the last one at 8.6 s.
    assert_eq!(world.listings_at(), [6_000, 9_600]);
    assert_eq!(creations(&world).len(), 20);
}

#[test]
fn route_011_only_what_matters_to_routes_is_news() {
    let mut world = one();
    world.settle();
    world.log.clear();
    world.change("a", |node| node["metadata"]["labels"] = json!({ "x": "y" }));
    world.change("a", |node| node["status"]["conditions"] = json!([]));
    world.run(60_000);
    assert_eq!(world.listings_at(), [0; 0]);
    for change in [
        ("metadata", "labels", json!({ OWNER_LABEL: "sim" })),
        ("spec", "podCIDRs", json!(["10.1.7.0/24"])),
        ("spec", "providerID", json!("sim://other")),
        (
            "status",
            "addresses",
            json!([{ "type": "InternalIP", "address": "10.0.0.7" }]),
        ),
        ("spec", "providerID", json!("elsewhere://1")),
    ] {
        world.log.clear();
        let (part, field, value) = change;
        world.change("a", |node| node[part][field] = value.clone());
        world.run(60_000);
        assert_eq!(world.listings_at().len(), 1, "{part}.{field}");
    }
    world.log.clear();
    world.forget("a");
    world.run(60_000);
    assert_eq!(world.listings_at().len(), 1, "it is gone");
}

#[test]
fn a_node_that_waits_for_its_initialisation_or_its_networks_gets_no_route_yet_and_costs_no_listing()
{
    let mut world = one();
    world.settle();
    world.log.clear();
    world.add("b", &[], "10.0.0.2");
    world.taint("b");
    world.run(60_000);
    world.change("b", |node| {
        node["spec"]["podCIDRs"] = json!(["10.1.1.0/24"])
    });
    world.run(5_000);
    // The node's arrival was a change for a moment, before it had the taint.
    assert_eq!(world.acts(), [""; 0]);
    world.change("b", |node| node["spec"]["taints"] = json!([]));
    world.log.clear();
    let acts = world.settle();
    assert_eq!(acts[0], "create route 10.1.1.0/24 to node/b");
    assert_eq!(world.listings_at().len(), 1);
}

#[test]
fn route_014_a_listing_that_fails_is_tried_again_within_half_a_minute_and_after_a_while() {
    let mut world = one();
    world.listings = (0..9).map(|_| unavailable()).collect();
    world.run(300_000);
    let at = [1, 2, 4, 8, 16, 32, 62, 92, 122, 152].map(|second| second * 1000);
    assert_eq!(world.listings_at(), at);
    assert_eq!(creations(&world), [152_000]);
}

#[test]
fn a_cloud_that_asks_for_patience_gets_it_although_nodes_come() {
    let mut world = one();
    let throttled = ProviderError::Throttled {
        message: String::new(),
        retry_after: Some(Duration::from_secs(90)),
    };
    world.listings = [throttled].into();
    world.run(10_000);
    world.add("b", &["10.1.1.0/24"], "10.0.0.2");
    world.run(110_000);
    assert_eq!(world.listings_at(), [1_000, 91_000]);
    assert_eq!(creations(&world).len(), 2);
}

#[test]
fn a_person_s_mistake_is_tried_again_slower_and_never_slower_than_every_half_minute() {
    let mut world = one();
    world.listings = (0..4)
        .map(|_| ProviderError::Denied(String::new()))
        .collect();
    world.run(120_000);
    assert_eq!(world.listings_at(), [1_000, 11_000, 31_000, 61_000, 91_000]);
}

#[test]
fn route_026_and_030_each_route_that_fails_is_tried_again_by_itself_with_growing_waits() {
    let mut world = one();
    world.add("b", &["10.1.1.0/24"], "10.0.0.2");
    let answer = Err(unavailable());
    world.changes.insert(TO_A.to_owned(), answer);
    world.run(140_000);
    let tries = world.log.iter();
    let tries = tries.filter(|(_, act)| act == "create route 10.1.0.0/24 to node/a");
    let tries: Vec<u64> = tries.map(|(at, _)| (*at - 1_000_000) / 1000).collect();
    assert_eq!(tries, [1, 2, 4, 8, 16, 32, 64, 128]);
    assert_eq!(world.listings_at().len(), tries.len(), "no other listing");
    assert_eq!(world.condition("b"), "False/RouteCreated");
    assert_eq!(creations(&world).len(), tries.len() + 1);
}

#[test]
fn what_fails_at_about_the_same_time_is_tried_again_together() {
    let mut world = world(&["10.0.0.0/8"]);
    for number in 0..50 {
        let cidr = format!("10.1.{number}.0/24");
        world.add(
            &format!("n{number}"),
            &[&cidr],
            &format!("192.168.0.{number}"),
        );
        world.changes.insert(cidr, Err(unavailable()));
    }
    world.run(180_000);
    let listings = world.listings_at().len();
    assert!(listings <= 9, "{listings}: {:?}", world.listings_at());
}

#[test]
fn a_node_that_changes_is_tried_at_once_unless_the_cloud_asked_for_patience() {
    for (error, is_at_once) in [
        (unavailable(), true),
        (
            ProviderError::Throttled {
                message: String::new(),
                retry_after: Some(Duration::from_secs(600)),
            },
            false,
        ),
    ] {
        let mut world = one();
        world.changes.insert(TO_A.to_owned(), Err(error));
        world.run(140_000);
        world.changes.clear();
        world.log.clear();
        world.move_to("a", "10.0.0.2");
        world.run(1_000);
        assert_eq!(!creations(&world).is_empty(), is_at_once);
    }
}

#[test]
fn budget_is_taken_once_for_a_replacement_although_its_node_changes() {
    let mut world = one();
    world.brake();
    world.route(TO_A, Hop::Machine("a".to_owned(), "10.0.0.9".to_owned()));
    world.changes.insert(TO_A.to_owned(), Err(unavailable()));
    for address in ["10.0.0.2", "10.0.0.3", "10.0.0.4"] {
        world.settle();
        world.move_to("a", address);
    }
    world.changes.clear();
    world.settle();
    assert_eq!(world.deleted.len(), 1);
}

#[test]
fn route_031_people_are_told_once_for_each_kind_of_error_in_upstream_s_words() {
    let mut world = one();
    world.changes.insert(TO_A.to_owned(), Err(unavailable()));
    world.run(70_000);
    let denied = ProviderError::Denied("no".to_owned());
    world.changes.insert(TO_A.to_owned(), Err(denied));
    world.run(300_000);
    let events = world.acts();
    let events = events.iter().filter(|act| act.starts_with("event"));
    assert_eq!(
        events.collect::<Vec<_>>(),
        ["event node/a Warning FailedToCreateRoute"; 2]
    );
    // After a success in between, a failure is reported again.
    world.changes.clear();
    world.run(600_000);
    world.routes.clear();
    world.changes.insert(TO_A.to_owned(), Err(unavailable()));
    world.log.clear();
    world.run(600_000);
    let events = world.acts();
    let events = events.iter().filter(|act| act.starts_with("event"));
    assert_eq!(events.count(), 1);
}

#[test]
fn route_031_the_message_names_the_hint_the_network_the_node_the_time_and_the_error() {
    let mut world = one();
    world.first_listing();
    let mut facts = world.next().unwrap();
    let ask = super::super::decide(&facts, world.now());
    let crate::reconciliation::effect::Decision::Do(effects) = ask else {
        panic!("it asks");
    };
    let answer = crate::route::RouteOutcome::Changed(Err(unavailable().into()));
    facts.absorb(
        &effects[0],
        crate::reconciliation::effect::Performed::Ended(answer),
    );
    for (later, took) in [(100, "100ms"), (1_400, "1.5s"), (88_500, "1m30s")] {
        world.now += later;
        let event = facts.next_event(world.now().moment).unwrap();
        assert_eq!(
            event.message,
            format!(
                "Could not create route uid-a-1 10.1.0.0/24 for node a after {took}: unavailable: away"
            )
        );
        assert_eq!(event.event_type, EventType::Warning);
    }
}

#[test]
fn what_a_provider_wants_said_is_recorded_about_the_node_if_it_is_fit_for_that() {
    let mut world = one();
    let event = |reason: &str| CloudEvent::new(EventType::Normal, reason, "m".to_owned());
    world.events = vec![event("RouteMade"), event("not a reason")];
    assert_eq!(
        world.settle()[..2],
        [
            "create route 10.1.0.0/24 to node/a",
            "event node/a Normal RouteMade"
        ]
    );
}

#[test]
fn what_has_begun_is_asked_about_at_the_clouds_pace_with_its_hint_and_without_a_listing() {
    let mut world = one();
    world.changes.insert(TO_A.to_owned(), Ok(pending(500)));
    world.run(3_200);
    assert_eq!(creations(&world), [1_000, 1_500, 2_000, 2_500, 3_000]);
    assert_eq!(world.listings_at(), [1_000]);
    let acts = world.acts();
    assert_eq!(acts[0], "create route 10.1.0.0/24 to node/a");
    assert_eq!(acts[1], "create route 10.1.0.0/24 to node/a hint");
    assert_eq!(world.condition("a"), "", "nothing has failed");
    world.changes.insert(TO_A.to_owned(), Ok(Progress::Done));
    world.run(1_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
}

#[test]
fn what_never_ends_is_asked_about_more_and_more_slowly_after_a_minute_and_each_time_after_a_listing()
 {
    let mut world = one();
    world.changes.insert(TO_A.to_owned(), Ok(pending(1_000)));
    world.run(600_000);
    let begun: Vec<u64> = (1..=61).map(|second| second * 1_000).collect();
    let tries = creations(&world);
    assert_eq!(tries[..61], begun);
    assert_eq!(
        tries[61..67],
        [62_000, 63_000, 65_000, 69_000, 77_000, 93_000]
    );
    assert_eq!(world.listings_at()[1..], tries[61..]);
    assert_eq!(
        world.condition("a"),
        "True/NoRouteCreated",
        "for ever is not soon"
    );
    let answer = Ok(Progress::Done);
    world.changes.insert(TO_A.to_owned(), answer);
    world.run(60_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");

    // The condition of a node that works stays as long as no change has failed.
    world.changes.insert(TO_A.to_owned(), Ok(pending(1_000)));
    world.routes.clear();
    world.run(900_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
}

#[test]
fn a_cloud_that_makes_one_route_at_a_time_is_done_with_fifty_as_soon_as_it_can_be_and_is_listed_once()
 {
    let mut world = world(&["10.0.0.0/8"]);
    world.pace = Some(200);
    for number in 0..50 {
        let cidr = format!("10.1.{number}.0/24");
        world.add(
            &format!("n{number:02}"),
            &[&cidr],
            &format!("192.168.0.{number}"),
        );
    }
    world.run(21_000);
    assert_eq!(world.routes.len(), 50);
    assert_eq!(world.listings_at(), [1_000]);
    assert_eq!(world.condition("n49"), "False/RouteCreated");
}

#[test]
fn a_node_whose_routes_somebody_else_makes_is_left_alone_until_it_changes() {
    let mut world = one();
    let elsewhere = Err(ProviderError::Elsewhere);
    world.changes.insert(TO_A.to_owned(), elsewhere);
    assert_eq!(world.settle(), ["create route 10.1.0.0/24 to node/a"]);
    world.log.clear();
    world.run(HOUR);
    assert_eq!(world.acts(), [""; 0], "no Event, no condition, no try");
    assert_eq!(world.listings_at().len(), 12);
    world.move_to("a", "10.0.0.2");
    assert_eq!(world.settle(), ["create route 10.1.0.0/24 to node/a"]);
}

#[test]
fn what_somebody_else_makes_of_one_family_holds_nothing_of_the_other_and_is_never_removed() {
    let mut world = world(&["10.1.0.0/16", "fd00::/48"]);
    world.add("a", &[TO_A, "fd00::/64"], "10.0.0.1");
    let elsewhere = Err(ProviderError::Elsewhere);
    world.changes.insert("fd00::/64".to_owned(), elsewhere);
    world.changes.insert(TO_A.to_owned(), Ok(pending(500)));
    world.run(1_200);
    world.changes.remove(TO_A);
    world.run(5_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
    world.set_target("fd00::/64", RouteTarget::Blackhole);
    world.routes[0].hop = Hop::Fixed(RouteTarget::Blackhole);
    world.pass();
    assert_eq!(world.deleted.len(), 1, "ours, and not theirs");
    world.run(10_000);
    assert!(world.final_routes().contains("10.1.0.0/24 a 10.0.0.1"));
    world.log.clear();
    world.pass();
    assert_eq!(world.acts(), [""; 0]);
}

#[test]
fn whose_nodes_are_whose_decides_who_makes_their_routes() {
    let mut world = one();
    for (name, owner) in [("ours", "sim"), ("theirs", "other"), ("nobodys", "")] {
        world.add(name, &[&format!("10.1.{}.0/24", name.len())], "10.0.0.9");
        world.change(name, |node| {
            node["metadata"]["labels"] = json!({ OWNER_LABEL: owner });
            node["spec"]["providerID"] = json!(null);
        });
    }
    let acts = world.settle();
    let creations: Vec<_> = acts
        .iter()
        .filter(|act| act.starts_with("create"))
        .collect();
    assert_eq!(
        creations,
        [
            "create route 10.1.0.0/24 to node/a",
            "create route 10.1.4.0/24 to node/ours"
        ]
    );
    // A provider without instances makes routes to all nodes that it may reach.
    let other = Claim {
        name: "other".to_owned(),
        schemes: vec!["sim".to_owned()],
        selector: None,
    };
    world.ownership = OwnershipContext {
        has_instances: false,
        others: vec![other],
        ..OwnershipContext::alone("sim", Vec::new())
    };
    world.restart();
    let acts = world.settle();
    let creations = acts.iter().filter(|act| act.starts_with("create"));
    assert_eq!(creations.count(), 2, "{acts:?}");
}

#[test]
fn in_plan_mode_routes_are_asked_for_until_they_are_refused_and_the_condition_is_left() {
    let mut world = one();
    world.set_target("10.1.9.0/24", RouteTarget::Blackhole);
    world.mode = Mode::Plan;
    world.restart();
    assert_eq!(
        world.settle(),
        [
            "(create route 10.1.0.0/24 to node/a)",
            "(delete route 10.1.9.0/24 to blackhole)"
        ]
    );
    assert_eq!(
        world.memory.settled(),
        [network(TO_A), network("10.1.9.0/24")]
    );
    world.log.clear();
    world.run(60_000);
    assert_eq!(
        world.listings_at(),
        [0; 0],
        "nothing is tried again before the resync"
    );
    world.mode = Mode::Observe;
    world.restart();
    assert_eq!(
        world.settle(),
        [
            "(create route 10.1.0.0/24 to node/a)",
            "(delete route 10.1.9.0/24 to blackhole)"
        ]
    );
    assert_eq!(world.condition("a"), "");
}

#[test]
fn in_plan_mode_a_failure_that_is_not_the_modes_is_no_plan_and_is_tried_again() {
    let mut world = one();
    let away = Err(ProviderError::Unavailable("502".to_owned()));
    world.changes.insert("10.1.0.0/24".to_owned(), away);
    world.mode = Mode::Plan;
    world.restart();
    assert_eq!(
        world.settle().first().unwrap(),
        "create route 10.1.0.0/24 to node/a"
    );
    world.log.clear();
    world.run(60_000);
    assert!(creations(&world).len() > 1, "{:?}", world.log);
    assert_eq!(world.condition("a"), "");
}

#[test]
fn a_reconciliation_that_panicked_is_held_again() {
    let mut world = one();
    world.first_listing();
    let facts = world.next().unwrap();
    assert!(!world.memory.is_idle());
    world.memory.abandon(&facts.key(), world.now().moment);
    assert!(world.memory.is_idle());
    world.run(20_000);
    assert_eq!(creations(&world).len(), 1);
}
