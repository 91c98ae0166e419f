//! Decisions in modes in which nothing may be changed.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::reconciliation::effect::When;
use crate::safety::permit::Mode;

#[test]
fn in_plan_mode_everything_is_worked_out_until_the_first_change_is_refused() {
    let mut world = world();
    world.mode = Mode::Plan;
    world.withholds = true;
    let before = world.stored.clone();
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        [
            "event Normal EnsuringLoadBalancer",
            "patch +finalizer annotations(1)",
            "ensure targets(2)"
        ]
    );
    assert_eq!(
        run.end,
        When::AwaitChange,
        "it was refused, as it has to be"
    );
    assert_eq!(world.stored, before);
    // A second reconciliation makes no second plan.
    assert_eq!(
        world.reconcile().acts().last().unwrap(),
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
    let run = world.reconcile();
    assert_eq!(
        run.acts()[..3],
        ["ensure targets(2)", "vouch for", "patch status=192.0.2.2"]
    );
    assert_eq!(run.end, When::AwaitChange);
    assert_eq!(world.stored, before);
}

#[test]
fn in_plan_mode_a_removal_is_planned_until_it_is_refused() {
    let mut world = made();
    world.mode = Mode::Plan;
    world.delete_object();
    world.withholds = true;
    let run = world.reconcile();
    assert_eq!(run.acts().last().unwrap(), "delete load balancer of");
    assert_eq!(run.end, When::AwaitChange);
    assert!(world.has_finalizer());

    // The provider finds nothing to delete: then the rest is planned, too.
    let mut world = made();
    world.mode = Mode::Plan;
    world.delete_object();
    let run = world.reconcile();
    assert!(
        run.acts()
            .contains(&"patch -finalizer annotations(1)".to_owned())
    );
    assert_eq!(run.end, When::AwaitChange);
    assert!(world.has_finalizer());
}

#[test]
fn in_plan_mode_what_the_provider_refuses_or_cannot_see_is_not_judged() {
    for error in [
        ProviderError::Invalid("no such algorithm".to_owned()),
        denied(),
        unavailable(),
    ] {
        let mut world = world();
        world.mode = Mode::Plan;
        world.ensure = [Err(error.clone())].into();
        let run = world.reconcile();
        assert!(run.again() > std::time::Duration::ZERO, "{error}");
        assert!(run.why().ends_with(&error.to_string()), "{}", run.why());
        // A patch that would only report the error is no change.
        let patches = run.acts().into_iter();
        let patches: Vec<_> = patches.filter(|act| act.starts_with("patch")).collect();
        assert_eq!(patches, ["patch +finalizer annotations(1)"]);

        let mut world = made();
        world.mode = Mode::Plan;
        world.with_nodes(&["a", "b", "c"]);
        world.update = [Err(error.clone())].into();
        world.ensure = [Err(error.clone())].into();
        assert!(world.reconcile().why().ends_with(&error.to_string()));

        let mut world = made();
        world.mode = Mode::Plan;
        world.delete_object();
        world.delete = [Err(error.clone())].into();
        assert!(world.reconcile().why().ends_with(&error.to_string()));
    }
}

#[test]
fn in_plan_mode_other_targets_are_planned_once() {
    let mut world = made();
    world.mode = Mode::Plan;
    world.withholds = true;
    world.with_nodes(&["a", "b", "c"]);
    let run = world.reconcile();
    assert_eq!(run.acts(), ["update targets(3)"]);
    assert_eq!(run.end, When::AwaitChange);
    does_nothing(&mut world);
}

#[test]
fn in_observe_mode_changes_at_the_cloud_are_not_worked_out() {
    let mut world = world();
    world.mode = Mode::Observe;
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        [
            "event Normal EnsuringLoadBalancer",
            "patch +finalizer annotations(1)",
            "get load balancer of"
        ]
    );
    assert_eq!(run.end, When::AwaitChange);

    let mut world = made();
    world.mode = Mode::Observe;
    world.delete_object();
    let run = world.reconcile();
    assert_eq!(run.acts(), ["get load balancer of"]);
    assert!(world.has_finalizer());
}
