//! The hints of operations that the cloud has begun.

use super::world::*;

#[test]
fn a_removal_that_has_begun_is_asked_about_with_its_hint_and_then_the_new_route_is_made() {
    let mut world = one();
    world.route(TO_A, Hop::Machine("a".to_owned(), "10.0.0.9".to_owned()));
    world.changes.insert(TO_A.to_owned(), Ok(pending(1_000)));
    world.run(2_500);
    assert_eq!(
        world.acts(),
        [
            "delete route 10.1.0.0/24 to outdated node/a",
            "delete route 10.1.0.0/24 to outdated node/a hint"
        ]
    );
    world.routes.clear();
    world.changes.clear();
    world.run(10_000);
    assert_eq!(world.condition("a"), "False/RouteCreated");
}

#[test]
fn what_has_failed_is_begun_anew_without_the_hint_of_what_had_begun() {
    let mut world = one();
    world.changes.insert(TO_A.to_owned(), Ok(pending(500)));
    world.run(1_000);
    world.changes.insert(TO_A.to_owned(), Err(unavailable()));
    world.run(500);
    world.changes.clear();
    world.log.clear();
    world.run(5_000);
    assert_eq!(
        world.acts(),
        [
            "create route 10.1.0.0/24 to node/a",
            "patch node/a/status NetworkUnavailable=false(RouteCreated)"
        ]
    );
}

/// Its end would be taken for that of the creation.
#[test]
fn a_new_route_is_not_asked_for_with_the_hint_of_the_removal_before() {
    let mut world = one();
    world.route(TO_A, Hop::Machine("a".to_owned(), "10.0.0.9".to_owned()));
    world.changes.insert(TO_A.to_owned(), Ok(pending(5_000)));
    world.run(1_000);
    // A listing shows that the former route is gone before the cloud is asked about its removal again.
    world.routes.clear();
    world.changes.clear();
    world.log.clear();
    world.now += 1_000;
    world.pass();
    world.run(10_000);
    assert_eq!(world.acts()[0], "create route 10.1.0.0/24 to node/a");
}
