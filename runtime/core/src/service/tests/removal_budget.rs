//! The budget that the removal of a load balancer takes from its brake, and the removals that take none.

use super::cleanup::REMOVAL;
use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::{Found, GetReply, Progress};
use crate::moment::Moment;
use crate::reconciliation::effect::{BudgetOutcome, ClusterError};
use crate::service::ServiceAction;
use serde_json::json;
use std::time::Duration;

#[test]
fn the_budget_is_taken_once_however_often_a_deletion_fails() {
    let mut world = made();
    world.delete_object();
    world.delete = [Err(unavailable())].into();
    let taken = |run: &Run| {
        let acts = run.acts();
        acts.iter()
            .filter(|act| act.starts_with("take budget"))
            .count()
    };
    let all: usize = (0..5).map(|_| taken(&world.reconcile())).sum();
    assert_eq!(all, 1);
}

#[test]
fn without_budget_nothing_is_deleted_and_that_is_said() {
    let mut world = made();
    world.delete_object();
    world.budget = BudgetOutcome::Answered(Err(Moment(Duration::from_secs(1_100))));
    let run = world.reconcile();
    assert_eq!(run.acts()[0], "take budget load-balancer-deletion");
    assert_eq!(run.event_reasons(), ["BrakeEngaged"]);
    assert_eq!(run.again(), Duration::from_secs(100));
    let held = "the brake load-balancer-deletion is engaged because its budget is exhausted: a load balancer is not wanted any more";
    assert_eq!(
        run.events[0].1,
        format!("{held}; it is tried again within 5 minutes")
    );
    // The flag is the operator's.
    assert_eq!(
        run.why(),
        format!("{held}; --brake=load-balancer-deletion=… raises it")
    );
    assert!(world.has_finalizer());
}

#[test]
fn the_budget_of_a_removal_rises_with_the_whole_time_for_which_it_is_held() {
    let mut world = made();
    world.delete_object();
    world.budget = BudgetOutcome::Answered(Err(Moment(Duration::from_secs(1_000_000))));
    for _ in 0..3 {
        world.reconcile();
        world.wait(240);
    }
    let taken = world.calls.iter().filter_map(|call| match call {
        ServiceAction::TakeBudget(_, rise) => Some(rise.times()),
        _ => None,
    });
    assert_eq!(taken.collect::<Vec<_>>(), [1, 2, 4]);
}

#[test]
fn what_goes_with_its_namespace_waits_for_no_brake() {
    let mut world = made();
    world.budget = BudgetOutcome::Answered(Err(world.now.after(Duration::from_secs(600))));
    world.delete_object();
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["BrakeEngaged"]);
    assert!(world.has_finalizer());
    world.namespace_goes = true;
    world.reconcile();
    assert!(!world.has_finalizer());
}

/// Whoever may create Services would otherwise hold the deletions of everybody else.
#[test]
fn what_was_never_made_is_deleted_without_budget() {
    let reply = |found: Found, complete: bool| Ok(GetReply { found, complete });
    for (looked, is_held) in [
        (absent(), false),
        (reply(Found::Absent, false), true),
        (reply(Found::Present(status(&[])), true), true),
        (Err(ProviderError::Elsewhere), true),
    ] {
        let mut world = world();
        world.stored["spec"]["type"] = json!("ClusterIP");
        world.stored["metadata"]["finalizers"] = json!([FINALIZER]);
        world.stored["metadata"]["annotations"] = json!({ OWNER: "sim" });
        world.budget = BudgetOutcome::Answered(Err(world.now.after(Duration::from_secs(600))));
        world.get = [looked, absent()].into();
        let run = world.reconcile();
        let mut expected = vec!["get load balancer of"];
        match is_held {
            true => expected.extend([
                REMOVAL[0],
                "read namespace/default",
                "event Warning BrakeEngaged",
            ]),
            // SVC-041: no Event announces the removal of nothing.
            false => expected.extend(&REMOVAL[2..]),
        }
        assert_eq!(run.acts(), expected);
        assert_eq!(world.has_finalizer(), is_held);
    }
    // The load balancer was refused, or is being made.
    for (ensured, is_held) in [(Err(denied()), false), (begun("action 7"), true)] {
        let mut world = world();
        world.ensure = [ensured].into();
        world.reconcile();
        world.delete_object();
        world.budget = BudgetOutcome::Answered(Err(world.now.after(Duration::from_secs(600))));
        world.reconcile();
        assert_eq!(world.has_finalizer(), is_held);
    }
}

#[test]
fn a_removal_that_was_begun_without_budget_goes_on_without_it() {
    let mut world = world();
    world.ensure = [Err(denied())].into();
    world.reconcile();
    world.delete_object();
    world.budget = BudgetOutcome::Answered(Err(world.now.after(Duration::from_secs(600))));
    world.get = [Err(unavailable()), absent()].into();
    let run = world.reconcile();
    assert_eq!(
        run.why(),
        "failed to check if load balancer exists before cleanup: unavailable: 502"
    );
    world.delete = [
        Ok(Progress::Pending(pending("action 9"))),
        Ok(Progress::Done),
    ]
    .into();
    world.reconcile();
    world.wait(1);
    assert_eq!(world.reconcile().acts()[0], "delete load balancer of hint");
    assert!(!world.has_finalizer());
}

#[test]
fn what_a_removal_spends_that_cannot_be_written_down_is_no_failure_of_the_service() {
    let mut world = made();
    world.delete_object();
    let conflict = ClusterError::Conflict("409".to_owned());
    world.budget = BudgetOutcome::Failed(conflict);
    let run = world.reconcile();
    let expected = [REMOVAL[0], "event Warning SyncLoadBalancerFailed"];
    assert_eq!(run.acts(), expected, "the Service is not read again");
    assert_eq!(
        run.why(),
        "failed to record the spent budget: conflict: 409"
    );
}
