//! Changes while a listing is in flight: the answer does not show them.

use super::super::*;
use super::world::{Hop, SIX, TO_A, World, network, one, pending, unavailable, world};
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::Progress;
use crate::cloud::route::RouteTarget;

const TO_B: &str = "10.1.1.0/24";

/// The reconciliations of two nodes end with `answer` while routes are listed again, which takes this long.
fn ends_meanwhile(answer: Result<Progress, ProviderError>, milliseconds: u64) -> World {
    let mut world = one();
    world.add("b", &[TO_B], "10.0.0.2");
    for destination in [TO_A, TO_B] {
        let answer = answer.clone();
        world.changes.insert(destination.to_owned(), answer);
    }
    world.first_listing();
    let facts: Vec<_> = std::iter::from_fn(|| world.next()).collect();
    assert_eq!(facts.len(), 2);
    let listed = world.begin_listing();
    facts.into_iter().for_each(|facts| world.reconcile(facts));
    world.now += milliseconds;
    world.end_listing(listed);
    world.changes.clear();
    world
}

#[test]
fn what_has_begun_meanwhile_is_asked_about_with_its_hint_and_without_another_listing() {
    for took in [10, 700, 5_000] {
        let mut world = ends_meanwhile(Ok(pending(500)), took);
        let listings = world.listings_at().len();
        world.log.clear();
        world.run(2_000);
        let acts = world.acts();
        let begun = "create route 10.1.0.0/24 to node/a hint".to_owned();
        assert!(acts.contains(&begun), "{took}: {acts:?}");
        for node in ["a", "b"] {
            assert_eq!(world.condition(node), "False/RouteCreated", "{took} {node}");
        }
        assert_eq!(world.listings_at().len(), 0, "{took}, after {listings}");
    }
}

#[test]
fn what_was_planned_for_a_node_that_is_another_providers_by_now_is_not_made() {
    let mut world = one();
    world.add("b", &[TO_B], "10.0.0.2");
    world.first_listing();
    let first = world.next().unwrap();
    world.ownership.claim.schemes = vec!["other".to_owned()];
    world.with_pass(|memory, pass| memory.look_around(pass));
    world.reconcile(first);
    assert!(world.next().is_none(), "the other one is not begun");
}

#[test]
fn what_has_failed_meanwhile_is_tried_again_also_when_that_was_due_before_the_answer_came() {
    for took in [10, 60_000] {
        let mut world = ends_meanwhile(Err(unavailable()), took);
        world.run(10_000);
        for node in ["a", "b"] {
            assert_eq!(world.condition(node), "False/RouteCreated", "{took} {node}");
        }
    }
}

#[test]
fn what_has_begun_stays_in_hand_when_its_node_has_something_to_say_meanwhile() {
    let mut world = ends_meanwhile(Ok(pending(500)), 10);
    // Another destination of the same node, which the coming answer shows.
    world.add("a", &[TO_A, "10.1.2.0/24"], "10.0.0.1");
    world.run(10_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
    assert_eq!(world.routes.len(), 3);
}

#[test]
fn a_node_whose_change_is_not_due_any_more_says_nothing_of_it() {
    let mut world = world(&["10.1.0.0/16"]);
    let hop = Hop::Machine("e".to_owned(), "192.168.0.4".to_owned());
    world.route(TO_A, hop);
    let answer = Ok(pending(100));
    world.changes.insert(TO_A.to_owned(), answer);
    world.add("e", &[TO_B], "192.168.0.4");
    world.add("a", &[TO_A], "192.168.0.1");
    world.run(1_000);
    // The route that was to be removed is wanted by another node now, and stays.
    world.add("e", &[TO_A], "192.168.0.4");
    world.changes.clear();
    world.run(100_000);
    assert_eq!(world.condition("e"), "False/RouteCreated");
    assert_ne!(world.condition("a"), "False/RouteCreated");
}

#[test]
fn strays_wait_for_the_unfinished_change_of_the_node_that_wants_their_destination() {
    for is_unfinished in [true, false] {
        let mut world = one();
        world.add("b", &[TO_B], "10.0.0.2");
        if is_unfinished {
            world.changes.insert(TO_A.to_owned(), Err(unavailable()));
        }
        world.run(if is_unfinished { 1_000 } else { 0 });
        world.changes.clear();
        world.set_target(TO_A, RouteTarget::Blackhole);
        world.route_to(TO_A, "b");
        world.now += 100;
        let listed = world.begin_listing();
        // The target of the other route is unknown: its node was recreated meanwhile.
        world.add("b", &[TO_B], "10.0.0.2");
        world.end_listing(listed);
        let begun = std::iter::from_fn(|| world.next());
        let begun: Vec<Key> = begun.map(|facts| facts.key()).collect();
        let stray = Key::Destination(network(TO_A));
        assert_eq!(begun.contains(&stray), !is_unfinished, "{begun:?}");
    }
}

/// Node a goes while its route is made, or before that is removed, and node b has its pod CIDR.
#[test]
fn a_node_gets_its_route_soon_after_the_end_of_another_change_that_a_listing_has_met() {
    for (is_removal, ends_before_the_answer) in
        [(true, true), (true, false), (false, true), (false, false)]
    {
        let mut world = one();
        world.add("z", &[TO_B], "10.0.0.2");
        world.run(if is_removal { 1_000 } else { 0 });
        if is_removal {
            world.forget("a");
        }
        world.now += 1_000;
        world.with_listing();
        let facts = world.next().unwrap();
        match is_removal {
            true => assert_eq!(facts.key(), Key::Destination(network(TO_A))),
            false => {
                assert_eq!(facts.key(), Key::Node("a".to_owned()));
                world.forget("a");
                let done = Ok(Progress::Done);
                world.changes.insert(TO_A.to_owned(), done);
            }
        }
        world.add("b", &[TO_A], "10.0.0.3");
        let listed = world.begin_listing();
        if ends_before_the_answer {
            world.reconcile(facts);
            world.end_listing(listed);
        } else {
            world.end_listing(listed);
            world.reconcile(facts);
        }
        world.changes.clear();
        world.run(10_000);
        assert_eq!(
            world.condition("b"),
            "False/RouteCreated",
            "{is_removal} {ends_before_the_answer}"
        );
    }
}

#[test]
fn what_is_due_for_a_node_does_not_wait_until_its_other_family_is_done() {
    let mut world = world(&["10.1.0.0/16", "fd00::/48"]);
    world.add("a", &[TO_A, SIX], "10.0.0.1");
    world.changes.insert(TO_A.to_owned(), Ok(pending(500)));
    world.changes.insert(SIX.to_owned(), Err(unavailable()));
    world.run(1_000);
    world.changes.remove(SIX);
    world.now += 2_000;
    // The cloud is asked about the one that has begun while routes are listed because of the one that has failed.
    let facts = world.next().unwrap();
    world.with_listing();
    world.reconcile(facts);
    world.run(2_000);
    let destinations = world.routes.iter().map(|route| &*route.destination);
    assert_eq!(destinations.collect::<Vec<_>>(), [SIX]);
}

#[test]
fn route_013_a_node_that_comes_while_routes_are_listed_has_them_listed_again() {
    let mut world = one();
    world.run(0);
    world.now += 1_000;
    let listed = world.begin_listing();
    world.add("b", &[TO_B], "10.0.0.2");
    world.end_listing(listed);
    world.log.clear();
    world.run(60_000);
    assert_eq!(world.listings_at(), [2_000]);
    assert_eq!(world.condition("b"), "False/RouteCreated");
}

#[test]
fn an_old_listing_undoes_nothing_that_was_done_since() {
    let mut world = one();
    world.set_target("10.1.9.0/24", RouteTarget::Blackhole);
    world.first_listing();
    // The reconciliations are in progress while routes are listed again.
    let facts: Vec<_> = std::iter::from_fn(|| world.next()).collect();
    assert_eq!(facts.len(), 2);
    world.with_listing();
    assert!(world.next().is_none(), "both are busy");
    let listed = world.begin_listing();
    for facts in facts {
        world.reconcile(facts);
    }
    world.end_listing(listed);
    assert!(world.next().is_none(), "the answer is older than they are");
    assert_eq!(world.deleted.len(), 1);
}
