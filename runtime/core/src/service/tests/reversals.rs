//! A Service that is wanted, unwanted and wanted again: state of the load balancer from before a reversal is not used
//! after it, within one reconciliation or from one to the next.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::Progress;
use crate::moment::Moment;
use crate::reconciliation::effect::{BudgetOutcome, ClusterError, When};
use crate::safety::brake::Rise;
use crate::service::{Account, ServiceAction, Witnesses};
use serde_json::{Value, json};
use std::time::Duration;

fn is_unwanted(stored: &mut Value) {
    stored["spec"]["type"] = json!("ClusterIP");
}

fn is_wanted(stored: &mut Value) {
    stored["spec"]["type"] = json!("LoadBalancer");
}

fn is_wanted_otherwise(stored: &mut Value) {
    is_wanted(stored);
    stored["spec"]["ports"][0]["port"] = json!(81);
}

fn is_deleted(stored: &mut Value) {
    stored["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
}

/// The first writes conflict with these changes.
fn conflicting(mut world: World, changes: &[fn(&mut Value)]) -> World {
    world.meanwhile = changes.iter().copied().collect();
    let conflict = || ClusterError::Conflict("changed".to_owned());
    world.errors = changes.iter().map(|_| conflict()).collect();
    world
}

/// The calls that may change something at the cloud.
fn changes(world: &World) -> Vec<&'static str> {
    let kind = |call: &ServiceAction| match call {
        ServiceAction::Ensure(_) => Some("ensure"),
        ServiceAction::UpdateTargets(_) => Some("update"),
        ServiceAction::Delete(_) => Some("delete"),
        _ => None,
    };
    world.calls.iter().filter_map(kind).collect()
}

#[test]
fn a_load_balancer_that_is_wanted_again_after_its_deletion_is_made_again_at_once() {
    let mut world = conflicting(made(), &[is_wanted]);
    is_unwanted(&mut world.stored);
    let run = world.reconcile();
    assert_eq!(changes(&world), ["delete", "ensure"]);
    assert_eq!(run.end, When::AwaitChange);
    does_nothing(&mut world);
}

/// The release names no resource version, so that a real API server refuses it for no such change.
#[test]
fn svc_103_a_service_that_is_wanted_again_just_before_its_release_gets_another_turn() {
    let mut world = made();
    is_unwanted(&mut world.stored);
    world.meanwhile.push_back(is_wanted);
    let run = world.reconcile();
    assert_eq!(changes(&world), ["delete"]);
    assert!(run.is_outdated);
    world.reconcile();
    assert_eq!(changes(&world), ["delete", "ensure"]);
    does_nothing(&mut world);
}

#[test]
fn a_look_from_before_an_ensure_call_proves_no_absence() {
    let mut world = conflicting(made(), &[is_wanted_otherwise, is_deleted]);
    is_unwanted(&mut world.stored);
    world.ensure = [ready(&["192.0.2.2"], 1)].into();
    world.reconcile();
    assert_eq!(changes(&world), ["delete", "ensure", "delete"]);
    let looks = world.calls.iter();
    let looks = looks.filter(|call| matches!(call, ServiceAction::Get(_)));
    assert_eq!(looks.count(), 2);
    assert!(!world.has_finalizer());
}

#[test]
fn an_answer_from_before_a_deletion_is_not_stored() {
    let mut world = conflicting(made(), &[is_unwanted, is_wanted]);
    is_wanted_otherwise(&mut world.stored);
    world.ensure = [ready(&["192.0.2.2"], 1), ready(&["192.0.2.3"], 1)].into();
    let run = world.reconcile();
    assert_eq!(changes(&world), ["ensure", "delete", "ensure"]);
    assert_eq!(world.addresses(), ["192.0.2.3"]);
    assert_eq!(run.end, When::AwaitChange);
}

#[test]
fn a_failed_ensure_call_delays_the_release_in_the_same_reconciliation() {
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [Err(unavailable())].into();
    world.reconcile();
    world.wait(60);
    // The answer to the write of the condition shows the change.
    world.meanwhile.push_back(is_deleted);
    world.calls.clear();
    let run = world.reconcile();
    assert_eq!(changes(&world), ["ensure", "delete"]);
    assert!(world.has_finalizer(), "{:?}", run.acts());
    assert_eq!(run.again(), Duration::from_secs(30));
    world.wait(30);
    assert_eq!(world.reconcile().end, When::AwaitChange);
    assert!(!world.has_finalizer());
}

#[test]
fn a_brakes_hold_ends_when_the_load_balancer_is_wanted_again() {
    let mut world = made();
    world.budget = BudgetOutcome::Answered(Err(Moment(Duration::from_secs(1_000_000))));
    is_unwanted(&mut world.stored);
    world.reconcile();
    is_wanted(&mut world.stored);
    assert_eq!(world.reconcile().end, When::AwaitChange);
    world.wait(86_400);
    is_unwanted(&mut world.stored);
    world.calls.clear();
    world.reconcile();
    assert!(
        matches!(world.calls[0], ServiceAction::TakeBudget(_, Rise::NONE)),
        "{:?}",
        world.calls[0]
    );
}

#[test]
fn a_second_removal_is_finished_although_the_service_is_gone() {
    let mut world = made();
    let marked = world.stored["metadata"].clone();
    is_unwanted(&mut world.stored);
    world.reconcile();
    assert!(!world.has_finalizer());
    // A person restores the Service from a backup.
    world.stored["metadata"] = marked;
    world.delete = [Ok(Progress::Pending(pending("h")))].into();
    assert!(!world.reconcile().why().is_empty());
    world.is_gone = true;
    world.wait(1);
    world.calls.clear();
    world.reconcile();
    assert_eq!(changes(&world), ["delete"]);
}

#[test]
fn a_pending_update_of_targets_delays_no_removal() {
    let mut world = made();
    is_unwanted(&mut world.stored);
    world.delete = [Err(denied())].into();
    world.reconcile();
    is_wanted(&mut world.stored);
    world.stored["spec"]["loadBalancerSourceRanges"] = json!(["nonsense"]);
    world.with_nodes(&["a", "b", "c"]);
    world.update = [Ok(Progress::Pending(pending("h")))].into();
    world.reconcile();
    is_unwanted(&mut world.stored);
    world.calls.clear();
    world.reconcile();
    assert_eq!(changes(&world), ["delete"]);
}

#[test]
fn a_service_that_is_corrected_while_its_ensure_call_fails_is_tried_again_at_once() {
    let mut world = world();
    let invalid = ProviderError::Invalid("the port is taken".to_owned());
    world.ensure = [Err(invalid), ready(&["192.0.2.1"], 1)].into();
    // The answer to the write of the condition shows the correction.
    world.meanwhile = [|_: &mut Value| {}, is_wanted_otherwise as fn(&mut Value)].into();
    assert!(world.reconcile().is_outdated);
    let run = world.reconcile();
    assert_eq!(changes(&world), ["ensure", "ensure"], "{:?}", run.acts());
    assert_eq!(run.end, When::AwaitChange);
}

#[test]
fn an_update_of_targets_is_not_taken_for_the_ensure_call_that_the_account_delays() {
    let mut world = made();
    world.account = Account {
        generation: 1,
        is_known: false,
    };
    world.witnesses = Err(unavailable());
    is_wanted_otherwise(&mut world.stored);
    world.with_nodes(&["a", "b", "c"]);
    world.reconcile();
    assert_eq!(changes(&world), ["update"]);
    world.wait(60);
    world.witnesses = Ok(Witnesses::default());
    world.calls.clear();
    world.reconcile();
    assert_eq!(changes(&world), ["ensure"]);
}
