//! Listings that no honest provider answers.

use super::super::listing::Asked;
use super::super::owned_routes::Known;
use super::world::*;
use crate::cloud::route::{CloudRoute, ListRoutesReply, RouteTarget};

fn route(id: &str, destination: &str, target: RouteTarget) -> CloudRoute {
    CloudRoute {
        id: id.to_owned(),
        destination_cidr: destination.to_owned(),
        target,
        extra: Vec::new(),
    }
}

#[test]
fn routes_with_one_identification_are_told_apart_and_the_same_thing_twice_is_one() {
    let mut world = world(&["10.1.0.0/16"]);
    world.add("a", &["10.1.0.0/24"], "10.0.0.1");
    let routes = vec![
        route("x", "10.1.0.0/24", RouteTarget::Node("a".to_owned())),
        route("x", "10.1.9.0/24", RouteTarget::Blackhole),
        route("x", "10.1.9.0/24", RouteTarget::Blackhole),
        route("x", "192.168.0.0/16", RouteTarget::Blackhole),
    ];
    world.run(0);
    world.now += 1_000;
    let complete = true;
    world.answer(Ok(ListRoutesReply { routes, complete }));
    while let Some(facts) = world.next() {
        world.reconcile(facts);
    }
    let deleted: Vec<_> = world
        .deleted
        .iter()
        .map(|route| route.destination_cidr.as_str())
        .collect();
    assert_eq!(deleted, ["10.1.9.0/24"]);
}

#[test]
fn a_hundred_thousand_routes_and_as_many_nodes_are_looked_at_in_one_go() {
    let mut world = world(&["10.0.0.0/8"]);
    world.add("a", &["10.1.0.0/24"], "192.168.0.1");
    let routes = (0..100_000_u32).map(|number| {
        let target = match number % 3 {
            0 => RouteTarget::Other("x".to_owned()),
            1 => RouteTarget::Node(format!("ghost-{number}")),
            _ => RouteTarget::Blackhole,
        };
        let [_, a, b, c] = number.to_be_bytes();
        let destination = format!("10.{}.{b}.{c}/32", a + 2);
        route("", &destination, target)
    });
    let routes = routes.collect();
    world.run(0);
    world.now += 1_000;
    let complete = true;
    world.answer(Ok(ListRoutesReply { routes, complete }));
    let tally = world.memory.tally();
    assert_eq!((tally.foreign, tally.stray), (66_667, 33_333));
    assert_eq!(world.memory.foreign().named.len(), 5);
    let first = world.next().unwrap();
    assert_eq!(
        first.key(),
        crate::route::Key::Node("a".to_owned()),
        "new routes before old ones"
    );
}

#[test]
fn of_answers_that_are_never_complete_no_more_routes_are_known_as_ours_than_one_answer_has() {
    let destination = network("10.1.0.0/24");
    let asked = Asked {
        at: at(0),
        generation: 0,
        nodes: [("a".to_owned(), "uid-a".to_owned())].into(),
    };
    let mut known = Known::default();
    let mut ids = Vec::new();
    for answer in 0..20 {
        let target = || RouteTarget::Node("a".to_owned());
        let routes = (0..10_000).map(|number| format!("{answer}-{number}"));
        let routes: Vec<_> = routes
            .map(|id| route(&id, "10.1.0.0/24", target()))
            .collect();
        let listed = routes.iter().map(|route| (destination, route));
        known.absorb_listing(listed, &asked, false, |_, _| false);
        ids.extend(routes.into_iter().map(|route| route.id));
    }
    let known = ids
        .iter()
        .filter(|id| known.node(&destination, id).is_some());
    assert_eq!(known.count(), 40_000);
}

#[test]
fn of_a_node_whose_route_leads_elsewhere_with_each_answer_few_messages_are_remembered() {
    for (targets, events) in [(16, 16), (17, 100)] {
        let mut world = world(&["10.1.0.0/16"]);
        world.add("a", &["10.1.0.0/24"], "10.0.0.1");
        world.run(0);
        for number in 0..100 {
            world.now += 1_000;
            let target = RouteTarget::Other(format!("x{}", number % targets));
            let routes = vec![route("x", "10.1.0.0/24", target)];
            let complete = true;
            world.answer(Ok(ListRoutesReply { routes, complete }));
            while let Some(facts) = world.next() {
                world.reconcile(facts);
            }
        }
        let acts = world.acts();
        let recorded = acts.iter().filter(|act| act.starts_with("event node/a"));
        assert_eq!(recorded.count(), events, "{targets} targets");
    }
}

#[test]
fn everybody_who_wants_the_same_network_is_told_and_that_is_counted_once_for_each() {
    let mut world = world(&["10.0.0.0/8"]);
    for number in 0..500 {
        world.add(&format!("n{number:03}"), &["10.1.0.0/24"], "192.168.0.1");
    }
    world.settle();
    let tally = world.memory.tally();
    assert_eq!((tally.missing, tally.refused), (1, 499));
    assert_eq!(world.condition("n000"), "False/RouteCreated");
}

#[test]
fn a_text_that_nobody_should_see_is_quoted_and_cut() {
    let mut world = world(&["10.1.0.0/16"]);
    let text = format!("a\u{1b}[31m{}", "x".repeat(5000));
    world.set_target("10.1.0.0/24", RouteTarget::Other(text));
    world.settle();
    let named = &world.memory.foreign().named[0];
    assert!(named.len() < 120, "{named}");
    assert!(
        named.starts_with("10.1.0.0/24 to \"a\\u{1b}[31mx"),
        "{named}"
    );
}
