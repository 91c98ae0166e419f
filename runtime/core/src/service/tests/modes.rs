//! What is worked out where nothing may be changed.

use super::world::*;
use crate::effect::When;
use crate::permit::Mode;

#[test]
fn in_plan_mode_everything_is_worked_out_until_the_first_change_is_refused() {
    let mut world = world();
    world.mode = Mode::Plan;
    world.ensure = [Err(denied())].into();
    let before = world.stored.clone();
    let talk = world.talk();
    assert_eq!(
        talk.acts(),
        [
            "event Normal EnsuringLoadBalancer",
            "patch +finalizer annotations(1)",
            "ensure targets(2)"
        ]
    );
    assert_eq!(
        talk.end,
        When::AwaitChange,
        "it was refused, as it has to be"
    );
    assert_eq!(world.stored, before);
    // A second look is no second plan.
    assert_eq!(
        world.talk().acts().last().unwrap(),
        "patch +finalizer annotations(1)"
    );
}

#[test]
fn in_plan_mode_a_status_that_would_be_written_is_planned() {
    let mut world = made();
    world.mode = Mode::Plan;
    world.past = Default::default();
    world.ensure = [ready(&["192.0.2.2"], 0)].into();
    let before = world.stored.clone();
    let talk = world.talk();
    assert_eq!(
        talk.acts()[..2],
        ["ensure targets(2)", "patch status=192.0.2.2"]
    );
    assert_eq!(talk.end, When::AwaitChange);
    assert_eq!(world.stored, before);
}

#[test]
fn in_plan_mode_a_removal_is_planned_until_it_is_refused() {
    let mut world = made();
    world.mode = Mode::Plan;
    world.delete_object();
    world.delete = [Err(denied())].into();
    let talk = world.talk();
    assert_eq!(talk.acts().last().unwrap(), "delete load balancer of");
    assert_eq!(talk.end, When::AwaitChange);
    assert!(world.has_finalizer());

    // Nothing is there: then the rest is planned, too.
    let mut world = made();
    world.mode = Mode::Plan;
    world.delete_object();
    let talk = world.talk();
    assert!(
        talk.acts()
            .contains(&"patch -finalizer annotations(1)".to_owned())
    );
    assert_eq!(talk.end, When::AwaitChange);
    assert!(world.has_finalizer());
}

#[test]
fn in_observe_mode_changes_at_the_cloud_are_not_worked_out() {
    let mut world = world();
    world.mode = Mode::Observe;
    let talk = world.talk();
    assert_eq!(
        talk.acts(),
        [
            "event Normal EnsuringLoadBalancer",
            "patch +finalizer annotations(1)",
            "get load balancer of"
        ]
    );
    assert_eq!(talk.end, When::AwaitChange);

    let mut world = made();
    world.mode = Mode::Observe;
    world.delete_object();
    let talk = world.talk();
    assert_eq!(talk.acts(), ["get load balancer of"]);
    assert!(world.has_finalizer());
}
