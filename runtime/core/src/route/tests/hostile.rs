//! Listings that no honest provider answers.

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
