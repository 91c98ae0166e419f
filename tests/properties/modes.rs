//! The law of plan mode: an empty plan means that enforce mode changes nothing, and any other names the objects that
//! enforce mode changes, each with its first change, in the cluster and at the cloud. Random worlds are played in each
//! mode from the same start, with the real controllers, the in-memory API server, and a paused clock.
//!
//! A plan is made of the world as it is. It lacks changes that only another change makes possible:
//! `what_only_another_change_makes_possible_is_not_in_the_plan` has an example.

#[path = "modes/balancers.rs"]
mod balancers;
#[path = "modes/play.rs"]
mod play;
#[path = "modes/pod_networks.rs"]
mod pod_networks;
#[path = "modes/services.rs"]
mod services;
#[path = "modes/world.rs"]
mod world;

use ccm_core::safety::permit::Mode;
use ccm_core::safety::plan::PlanVerdict;
use ccm_tests::counts::Count;
use ccm_tests::harness::{self, Test};
use libtest_mimic::Trial;
use proptest::prelude::*;
use proptest::test_runner::Config;

use play::{Played, play};
use world::{Fate, World};

pub(crate) const TESTS: &[Test] = &[
    (
        "what_is_planned_is_what_is_done_first",
        what_is_planned_is_what_is_done_first,
    ),
    (
        "a_world_where_nothing_is_to_be_done_has_an_empty_plan",
        a_world_where_nothing_is_to_be_done_has_an_empty_plan,
    ),
    (
        "what_is_planned_of_pod_networks_is_what_is_done_first",
        what_is_planned_of_pod_networks_is_what_is_done_first,
    ),
    (
        "every_state_of_a_pod_network_has_the_changes_that_belong_to_it",
        every_state_of_a_pod_network_has_the_changes_that_belong_to_it,
    ),
    (
        "what_is_planned_of_services_is_what_is_done_first",
        what_is_planned_of_services_is_what_is_done_first,
    ),
    (
        "every_fate_of_a_service_has_the_changes_that_belong_to_it",
        every_fate_of_a_service_has_the_changes_that_belong_to_it,
    ),
    (
        "every_fate_has_the_change_that_belongs_to_it",
        every_fate_has_the_change_that_belongs_to_it,
    ),
    (
        "a_plan_has_more_than_the_first_budget_has_room_for",
        a_plan_has_more_than_the_first_budget_has_room_for,
    ),
    (
        "an_empty_plan_says_whether_everything_could_be_judged",
        an_empty_plan_says_whether_everything_could_be_judged,
    ),
    (
        "what_only_another_change_makes_possible_is_not_in_the_plan",
        what_only_another_change_makes_possible_is_not_in_the_plan,
    ),
];

/// How many worlds are played. Each takes a few tenths of a second.
const WORLDS: Count = Count {
    variable: "CCM_MODE_WORLDS",
    default: 8,
    ci: 24,
    full: 24,
};

pub(crate) fn trials() -> Vec<Trial> {
    harness::table("modes", TESTS)
}

fn config() -> Config {
    Config {
        cases: u32::try_from(WORLDS.get().unwrap()).unwrap(),
        // A world that fails is printed whole, and belongs in a test of its own.
        failure_persistence: None,
        ..Config::default()
    }
}

/// Plays the world in all modes, and checks the law. Returns the plan.
fn holds(world: &World) -> Result<Played, TestCaseError> {
    let (plan, enforced) = (play(world, Mode::Plan), play(world, Mode::Enforce));
    prop_assert_eq!(plan.requests, 0, "plan mode has written to the cluster");
    prop_assert_eq!(plan.deletions, 0, "plan mode has audited a deletion");
    prop_assert_eq!(
        &plan.planned,
        &enforced.written,
        "what was planned, and what was done"
    );
    prop_assert!(enforced.planned.is_empty(), "enforce mode has made a plan");
    let deleted = enforced.written_verbs("delete");
    prop_assert_eq!(enforced.deletions, deleted, "one record for each deletion");
    let observed = play(world, Mode::Observe);
    prop_assert_eq!(
        observed.requests,
        0,
        "observe mode has written to the cluster"
    );
    prop_assert!(observed.planned.is_empty(), "observe mode has made a plan");
    Ok(plan)
}

proptest! {
    #![proptest_config(config())]

    fn what_is_planned_is_what_is_done_first(world in world::any_world()) {
        holds(&world)?;
    }

    fn a_world_where_nothing_is_to_be_done_has_an_empty_plan(world in world::quiet_world()) {
        let plan = holds(&world)?;
        prop_assert!(plan.planned.is_empty(), "{:?}", plan.planned);
    }
}

/// The same for routes and pod CIDRs. Here one change makes the next one possible in nearly every world: a new block
/// needs a route, and the node's condition follows from the route.
fn holds_for_pod_networks(world: &[pod_networks::Fate]) -> Result<(), TestCaseError> {
    let in_mode = |mode| pod_networks::play(world, mode);
    let (plan, enforced) = (in_mode(Mode::Plan), in_mode(Mode::Enforce));
    for (object, verb) in &plan.planned {
        let made = enforced.made.get(object);
        prop_assert_eq!(made, Some(verb), "{} in {:?}", object, world);
    }
    if plan.planned.is_empty() {
        prop_assert!(enforced.made.is_empty(), "{:?}", enforced.made);
    }
    let is_followed =
        |object: &String| object.starts_with("node/") || world.contains(&pod_networks::Fate::Bare);
    for object in enforced.made.keys().filter(|object| !is_followed(object)) {
        prop_assert!(
            plan.planned.contains_key(object),
            "{} in {:?}",
            object,
            world
        );
    }
    prop_assert!(enforced.planned.is_empty(), "enforce mode has made a plan");
    let observed = in_mode(Mode::Observe);
    for still in [&plan, &observed] {
        prop_assert!(still.made.is_empty(), "{:?}", still.made);
        prop_assert_eq!(still.requests, 0, "something was written");
    }
    prop_assert!(observed.planned.is_empty(), "observe mode has made a plan");
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    fn what_is_planned_of_pod_networks_is_what_is_done_first(world in pod_networks::any_world()) {
        holds_for_pod_networks(&world)?;
    }
}

fn every_state_of_a_pod_network_has_the_changes_that_belong_to_it() {
    use pod_networks::Fate;
    let mut rows = 0;
    for (fate, node, route) in [
        (Fate::Bare, Some("patch"), None),
        (Fate::Unrouted, None, Some("POST /routes/create")),
        (Fate::Well, None, None),
        (Fate::Untold, Some("patch status"), None),
        (Fate::Moved, None, Some("POST /routes/delete")),
        (Fate::Blocked, None, Some("POST /routes/delete")),
        (Fate::Taken, None, None),
        (Fate::Calico, None, Some("POST /routes/create")),
        (Fate::Gone, None, Some("POST /routes/delete")),
    ] {
        let world = [Fate::Well, fate];
        holds_for_pod_networks(&world).unwrap_or_else(|error| panic!("{fate:?}: {error}"));
        let planned = pod_networks::play(&world, Mode::Plan).planned;
        let of = |object: &str| planned.get(object).map(String::as_str);
        assert_eq!(of("node/n1"), node, "{fate:?}");
        assert_eq!(of("route/10.244.199.0/24"), route, "{fate:?}");
        rows += 1;
    }
    assert_eq!(rows, Fate::ALL.len(), "a row for each");
}

/// The same for Services. The plan promises nothing about a Service without a definite answer; of every other one it
/// has the first request to the cloud, and the first write to the cluster unless that follows from the cloud's answer.
fn holds_for_services(world: &[services::Fate]) -> Result<services::Played, TestCaseError> {
    let in_mode = |mode| services::play(world, mode);
    let (plan, enforced) = (in_mode(Mode::Plan), in_mode(Mode::Enforce));
    for (object, planned) in &plan.planned {
        let made = enforced.made.get(object).cloned().unwrap_or_default();
        if planned.cluster.is_some() {
            prop_assert_eq!(&planned.cluster, &made.cluster, "{} in {:?}", object, world);
        }
        if planned.cloud.is_some() {
            prop_assert_eq!(&planned.cloud, &made.cloud, "{} in {:?}", object, world);
        }
    }
    let judged = |object: &&String| !plan.unsure.contains(*object);
    for object in enforced.made.keys().filter(judged) {
        let made = &enforced.made[object];
        let planned = plan.planned.get(object).cloned().unwrap_or_default();
        prop_assert_eq!(&planned.cloud, &made.cloud, "{} in {:?}", object, world);
        let follows = planned.cluster.is_none() && made.cloud.is_some();
        prop_assert!(
            planned.cluster == made.cluster || follows,
            "{} in {:?}: {:?}",
            object,
            world,
            made
        );
    }
    let verdict = match (plan.planned.is_empty(), plan.unsure.is_empty()) {
        (false, _) => PlanVerdict::Changes,
        (true, true) => PlanVerdict::Empty,
        (true, false) => PlanVerdict::Unknown,
    };
    prop_assert_eq!(plan.verdict, verdict);
    if verdict == PlanVerdict::Empty {
        prop_assert!(enforced.made.is_empty(), "{:?}", enforced.made);
    }
    prop_assert!(enforced.planned.is_empty(), "enforce mode has made a plan");
    let observed = in_mode(Mode::Observe);
    for still in [&plan, &observed] {
        prop_assert!(still.made.is_empty(), "{:?}", still.made);
        prop_assert_eq!(still.requests, 0, "something was written");
    }
    prop_assert!(observed.planned.is_empty(), "observe mode has made a plan");
    Ok(plan)
}

proptest! {
    #![proptest_config(config())]

    fn what_is_planned_of_services_is_what_is_done_first(world in services::any_world()) {
        holds_for_services(&world)?;
    }
}

fn every_fate_of_a_service_has_the_changes_that_belong_to_it() {
    use services::Fate;
    let (make, change) = ("POST /load_balancers", "PUT /load_balancers/s1");
    let remove = "DELETE /load_balancers/s1";
    let mut rows = 0;
    for (fate, cluster, cloud, is_judged) in [
        (Fate::New, Some("patch"), Some(make), true),
        (Fate::Well, None, None, true),
        (Fate::Unowned, Some("patch"), None, true),
        (Fate::UnownedAndOther, Some("patch"), Some(change), true),
        (Fate::Other, None, Some(change), true),
        (Fate::Lost, None, Some(make), true),
        (Fate::LostInSilence, None, Some(make), true),
        (Fate::OtherStatus, Some("patch"), None, true),
        (Fate::Deleted, None, Some(remove), true),
        (Fate::DeletedAndLost, Some("patch"), None, true),
        (Fate::Retyped, None, Some(remove), true),
        (Fate::Refused, None, None, false),
        (Fate::NewAndRefused, Some("patch"), None, false),
        (Fate::Unseen, None, None, false),
        (Fate::DeletedAndUnseen, None, None, false),
    ] {
        let plan = holds_for_services(&[Fate::Well, fate]);
        let plan = plan.unwrap_or_else(|error| panic!("{fate:?}: {error}"));
        let object = services::object(1);
        let planned = plan.planned.get(&object).cloned().unwrap_or_default();
        assert_eq!(planned.cluster.as_deref(), cluster, "{fate:?}");
        assert_eq!(planned.cloud.as_deref(), cloud, "{fate:?}");
        assert_eq!(!plan.unsure.contains(&object), is_judged, "{fate:?}");
        rows += 1;
    }
    assert_eq!(rows, Fate::ALL.len(), "a row for each");
}

/// One node with this fate, beside a healthy one.
fn beside_a_good_one(fate: Fate) -> World {
    World {
        fates: vec![Fate::Well, fate],
        reconcile_labels: true,
    }
}

fn first(played: &Played) -> Option<&str> {
    played.planned.get("node/n1").map(String::as_str)
}

fn every_fate_has_the_change_that_belongs_to_it() {
    for (fate, expected) in [
        (Fate::New, Some("patch status")),
        (Fate::NewWithAddresses, Some("patch")),
        (Fate::NewOfSomebodyElse, None),
        (Fate::NewAndGone, None),
        (Fate::Well, None),
        (Fate::Unknown, None),
        (Fate::ReadyAndGone, None),
        (Fate::OtherExternalIp, Some("patch status")),
        (Fate::OtherInternalIp, Some("patch status")),
        (Fate::OtherType, Some("patch")),
        (Fate::Stopped, Some("patch")),
        (Fate::StartedAgain, Some("patch")),
        (Fate::Vanished, Some("delete")),
        (Fate::VanishedAsWanted, Some("delete")),
    ] {
        let world = beside_a_good_one(fate);
        let plan = holds(&world).unwrap_or_else(|error| panic!("{fate:?}: {error}"));
        assert_eq!(first(&plan), expected, "{fate:?}");
    }
    assert_eq!(Fate::ALL.len(), 14, "a row for each");
}

fn a_plan_has_more_than_the_first_budget_has_room_for() {
    let mut fates = vec![Fate::OtherInternalIp; 7];
    fates.push(Fate::Well);
    let world = World {
        fates,
        reconcile_labels: false,
    };
    assert_eq!(holds(&world).unwrap().planned.len(), 7);
}

fn an_empty_plan_says_whether_everything_could_be_judged() {
    for (fates, is_sure) in [
        (vec![Fate::Well], true),
        (vec![Fate::Well, Fate::Well], true),
        (vec![Fate::Well, Fate::Unknown], false),
        (vec![Fate::Well, Fate::NewOfSomebodyElse], false),
        (vec![Fate::Well, Fate::NewAndGone], false),
        // The deletion is held: no node is known good.
        (vec![Fate::Vanished], false),
    ] {
        let world = World {
            fates,
            reconcile_labels: false,
        };
        let plan = holds(&world).unwrap();
        assert!(plan.planned.is_empty(), "{world:?}: {:?}", plan.planned);
        assert_eq!(plan.is_sure, is_sure, "{world:?}");
    }
}

fn what_only_another_change_makes_possible_is_not_in_the_plan() {
    // Without a known-good node nothing is deleted; the new one is one as soon as it is initialised.
    let world = World {
        fates: vec![Fate::New, Fate::Vanished],
        reconcile_labels: false,
    };
    let plan = play(&world, Mode::Plan);
    assert_eq!(plan.planned.len(), 1, "{:?}", plan.planned);
    assert!(plan.planned.contains_key("node/n0"));
    let enforced = play(&world, Mode::Enforce);
    assert_eq!(enforced.written["node/n1"], "delete");
}
