//! Single rollouts, from an offer to its end.

use super::world::{KINDS, Kind, LONG, World, digest};
use crate::rollout::*;

#[test]
fn a_first_version_serves_at_once_and_is_written_down() {
    let mut world = World::new();
    world.offer(1, Kind::Good);
    world.settle();
    assert_eq!(
        world.facts.work,
        Some(Work::Load(world.facts.offer.clone().unwrap().release))
    );
    world.work();
    world.settle();
    assert_eq!(world.serves(), Some(digest(1)));
    let active = world.stored.active.clone().unwrap();
    assert_eq!(
        active.release,
        super::world::release(1),
        "with the version that it names"
    );
    assert_eq!(world.told(), ["ProviderActivated"]);
    assert_eq!(world.state(), RolloutState::Active);
}

#[test]
fn a_good_version_goes_through_every_phase_and_its_predecessor_is_kept() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    let mut phases = Vec::new();
    for _ in 0..LONG {
        world.run(1);
        let phase = world.stored.trial.as_ref().map(|trial| trial.phase);
        if let Some(phase) = phase.filter(|phase| phases.last() != Some(phase)) {
            phases.push(phase);
        }
    }
    assert_eq!(phases.last(), Some(&Phase::Canary));
    assert!(phases.contains(&Phase::Shadow));
    assert!(phases.is_sorted());
    assert_eq!(world.serves(), Some(digest(2)));
    assert_eq!(world.stored.previous.as_ref().unwrap().digest, digest(1));
    assert_eq!(world.stored.trial, None);
    assert_eq!(world.stored.trouble, "");
}

#[test]
fn what_becomes_of_a_version_depends_on_whose_fault_it_is() {
    for kind in KINDS {
        let mut world = World::serving();
        world.offer(2, kind);
        world.run(LONG);
        let phase = world.stored.trial.as_ref().map(|trial| trial.phase);
        let state = world.state();
        let found = (
            world.serves() == Some(digest(2)),
            world.stored.is_rejected(&digest(2)),
            phase,
            state,
        );
        let expected = match kind {
            Kind::Good | Kind::Adjusts | Kind::Reshaped | Kind::Flaky => {
                (true, false, None, RolloutState::Active)
            }
            Kind::Wider => (
                false,
                false,
                Some(Phase::WaitsForApproval),
                RolloutState::WaitsForApproval,
            ),
            Kind::Ungranted => (
                false,
                false,
                Some(Phase::WaitsForGrants),
                RolloutState::WaitsForGrants,
            ),
            Kind::Distrusted => (
                false,
                false,
                Some(Phase::Fetched),
                RolloutState::ActiveWithTrouble,
            ),
            Kind::Broken | Kind::FailsSelfTest | Kind::Rewrites | Kind::Differs => {
                (false, true, None, RolloutState::Rejected)
            }
            Kind::FailsCalls => (false, true, None, RolloutState::RolledBack),
        };
        assert_eq!(found, expected, "{kind:?}");
        if !found.0 {
            assert_eq!(world.serves(), Some(digest(1)), "{kind:?}");
        }
    }
}

#[test]
fn a_rejected_version_is_not_tried_again_by_the_next_leader_until_a_person_says_so() {
    let mut world = World::serving();
    world.offer(2, Kind::Broken);
    world.run(LONG);
    assert_eq!(world.told(), ["ProviderActivated", "ProviderRejected"]);
    let examined = |world: &World| world.begun(|work| matches!(work, Work::Examine(_)));
    assert_eq!(examined(&world), 1);
    world.restart();
    world.offer(2, Kind::Broken);
    world.run(LONG);
    assert_eq!(examined(&world), 1);
    assert_eq!(world.serves(), Some(digest(1)));
    world.kinds.insert(digest(2), Kind::Good);
    world.order(Orders {
        retry: Some(digest(2)),
        ..Orders::default()
    });
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)));
    assert_eq!(world.orders, Orders::default(), "the order is taken away");
}

#[test]
fn a_wider_version_waits_for_its_approval_and_goes_on_with_it() {
    let mut world = World::serving();
    world.offer(2, Kind::Wider);
    world.run(LONG);
    assert_eq!(
        world.stored.trial.as_ref().unwrap().lines,
        ["+ POST /servers"]
    );
    assert_eq!(world.begun(|work| matches!(work, Work::Compile(_))), 0);
    world.order(Orders {
        approve: Some(digest(3)),
        ..Orders::default()
    });
    world.run(LONG);
    assert_eq!(
        world.serves(),
        Some(digest(1)),
        "that was another version's"
    );
    world.restart();
    world.offer(2, Kind::Wider);
    world.run(LONG);
    let told = world.told();
    let asked = told
        .iter()
        .filter(|it| **it == "PermissionsPending")
        .count();
    assert_eq!(asked, 1, "once, whoever leads: {told:?}");
    world.order(Orders {
        approve: Some(digest(2)),
        ..Orders::default()
    });
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)));
}

#[test]
fn g7_a_version_that_would_change_everything_is_rejected_before_it_is_tried_until_a_person_allows_it()
 {
    let mut world = World::serving();
    world.offer(2, Kind::Rewrites);
    // An approval covers requests, and may have been given before the planned changes were known.
    world.order(Orders {
        approve: Some(digest(2)),
        allow_changes: Some(digest(3)),
        ..Orders::default()
    });
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    let rejected = &world.stored.rejected[0];
    assert_eq!(rejected.digest, digest(2));
    assert!(
        rejected.reason.starts_with(
            "it would change 6 of 6 load balancers that the version that serves leaves alone"
        ),
        "{}",
        rejected.reason
    );
    assert!(world.told().contains(&"ProviderRejected"));
    let shadows = world.done.iter();
    let shadows = shadows.filter(|effect| matches!(effect, RolloutEffect::Shadow(_)));
    assert_eq!(shadows.count(), 0);
    world.order(Orders {
        allow_changes: Some(digest(2)),
        retry: Some(digest(2)),
        ..Orders::default()
    });
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)));
}

#[test]
fn what_the_plan_saw_is_shown_while_the_version_is_tried() {
    let mut world = World::serving();
    world.offer(2, Kind::Adjusts);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)));
    let trials = world.done.iter().filter_map(|effect| match effect {
        RolloutEffect::Keep(record) => record.trial.clone(),
        _ => None,
    });
    let mut tried: Vec<Trial> = trials.collect();
    tried.retain(|trial| matches!(trial.phase, Phase::Shadow | Phase::Canary));
    assert!(tried.iter().any(|trial| trial.phase == Phase::Canary));
    for trial in tried {
        let seen =
            "it would change 2 of 6 load balancers that the version that serves leaves alone";
        assert_eq!(trial.lines, [seen], "{:?}", trial.phase);
    }
}

#[test]
fn when_the_terms_change_the_same_version_is_loaded_anew_at_once() {
    let mut world = World::serving();
    world.facts.policy_changed();
    world.run(1);
    let serving = world.facts.serving.clone().unwrap();
    assert_eq!(
        (serving.release.digest, serving.policy_generation),
        (digest(1), world.facts.policy_generation)
    );
    assert_eq!(
        world.begun(|work| matches!(work, Work::Examine(_))),
        0,
        "no rollout"
    );
}

#[test]
fn a_failure_under_the_former_terms_says_nothing_about_the_new_ones() {
    let mut world = World::new();
    world.offer(1, Kind::Good);
    world.settle();
    let work = world.facts.work.clone().unwrap();
    let (former, now) = (world.facts.policy_generation, world.now());
    world.facts.policy_changed();
    let end = Cause::Policy.because("+ DELETE /servers/*");
    world.facts.ended(&work, former, end, now);
    world.run(5);
    assert_eq!(world.serves(), Some(digest(1)));
}

#[test]
fn terms_on_which_the_version_that_serves_does_not_load_change_nothing_but_what_is_said() {
    let mut world = World::new();
    world.enough = 0;
    world.offer(1, Kind::Ungranted);
    world.run(10);
    assert_eq!(world.serves(), Some(digest(1)));
    world.enough = 7;
    world.facts.policy_changed();
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)), "the old one stays");
    assert!(
        world.stored.trouble.contains("DELETE /servers"),
        "{}",
        world.stored.trouble
    );
    // A version that the new load policy covers takes over all the same.
    world.offer(2, Kind::Good);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)));
    assert_eq!(world.stored.trouble, "");
}

#[test]
fn grants_that_come_bring_the_waiting_version_further() {
    for kind in [Kind::Ungranted, Kind::Distrusted] {
        let mut world = World::serving();
        world.offer(2, kind);
        world.run(LONG);
        assert_eq!(world.serves(), Some(digest(1)));
        world.enough = world.facts.policy_generation + 1;
        world.facts.policy_changed();
        world.run(LONG);
        assert_eq!(world.serves(), Some(digest(2)), "{kind:?}");
    }
}

#[test]
fn ten_offers_in_a_second_start_one_compilation_of_the_last() {
    let mut world = World::serving();
    for second in 0..60 {
        for _ in 0..10 {
            // Never the same version twice in a row.
            let number = if second % 2 == 0 { 3 } else { 4 };
            world.offer(number, Kind::Good);
            world.settle();
        }
        world.seconds += 1;
        world.settle();
        world.work();
    }
    world.offer(5, Kind::Good);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(5)));
    let compiled = world.begun(|work| matches!(work, Work::Compile(_)));
    assert!(compiled <= 1, "{compiled} compilations");
}

#[test]
fn a_newer_offer_ends_the_trial_of_the_older_one() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(20);
    world.offer(3, Kind::Good);
    world.settle();
    assert!(world.facts.candidate.is_none());
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(3)));
    assert_eq!(world.stored.previous.as_ref().unwrap().digest, digest(1));
    assert!(
        !world.stored.is_rejected(&digest(2)),
        "nothing was wrong with it"
    );
}

#[test]
fn a_source_that_is_emptied_leaves_the_last_good_version_and_says_so() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(20);
    world
        .facts
        .unoffered("configmap://kube-system/provider: there is nothing", true);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    assert_eq!(world.stored.trial, None);
    assert!(world.stored.trouble.contains("there is nothing"));
    assert_eq!(world.state(), RolloutState::ActiveWithTrouble);
}

#[test]
fn a_source_that_cannot_be_asked_does_not_end_a_trial() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(20);
    world
        .facts
        .unoffered("oci://registry: cannot be asked", false);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)));
    assert!(world.stored.trouble.contains("cannot be asked"));
}

#[test]
fn a_follower_loads_what_is_written_down_and_writes_nothing() {
    let mut world = World::serving();
    let mut follower = World::new();
    follower.facts.follows();
    follower.kinds.clone_from(&world.kinds);
    follower.facts.record = None;
    follower.facts.read(Some(world.stored.clone()));
    follower.offer(2, Kind::Good);
    follower.run(LONG);
    assert_eq!(follower.serves(), Some(digest(1)), "whatever is offered");
    world.offer(2, Kind::Good);
    world.run(LONG);
    follower.facts.read(Some(world.stored.clone()));
    follower.run(10);
    assert_eq!(follower.serves(), Some(digest(2)));
    let is_quiet = |effect: &RolloutEffect| {
        matches!(
            effect,
            RolloutEffect::Begin(Work::Load(_)) | RolloutEffect::Place(_)
        )
    };
    assert!(follower.done.iter().all(is_quiet), "{:?}", follower.done);
}

#[test]
fn a_follower_with_nothing_written_down_is_ready_with_what_is_offered() {
    let mut world = World::new();
    world.facts.follows();
    world.offer(1, Kind::Good);
    world.run(10);
    assert_eq!(world.serves(), Some(digest(1)));
    assert_eq!(world.facts.record, Some(Record::default()));
    // A process that never leads tries nothing.
    world.offer(2, Kind::Good);
    world.run(10);
    assert_eq!(world.serves(), Some(digest(1)));
    world.facts.leads(None);
    world.settle();
    assert_eq!(
        world.stored.active.as_ref().unwrap().release.digest,
        digest(1)
    );
    let loads = world.begun(|work| matches!(work, Work::Load(_)));
    assert_eq!(loads, 1, "it is not loaded twice");
}

#[test]
fn nothing_is_decided_before_the_record_was_read() {
    let mut world = World::new();
    world.facts = RolloutFacts::default();
    world.offer(1, Kind::Good);
    assert_eq!(
        decide(&world.facts, world.now()),
        RolloutDecision::Wait(None)
    );
}

#[test]
fn the_lists_of_the_record_are_bounded_and_the_latest_stay() {
    let mut world = World::serving();
    for number in 10..80 {
        world.offer(number, Kind::Broken);
        world.run(6);
    }
    assert_eq!(world.stored.rejected.len(), MOST_REJECTED);
    assert_eq!(world.stored.rejected[0].digest, digest(79));
    for number in 10..80 {
        world.order(Orders {
            approve: Some(digest(number)),
            ..Orders::default()
        });
        world.run(1);
    }
    assert_eq!(world.stored.approved.len(), MOST_APPROVED);
    assert!(world.stored.is_approved(&digest(79)));
}

#[test]
fn that_nothing_serves_is_told_once_and_stands_in_the_record() {
    let mut world = World::serving();
    world.restart();
    world.done.clear();
    let lose = |world: &mut World| {
        world.settle();
        let work = world.facts.work.clone().unwrap();
        let (policy_generation, now) = (world.facts.policy_generation, world.now());
        let gone = Cause::Gone.because("its bytes are nowhere");
        world.facts.ended(&work, policy_generation, gone, now);
        world.settle();
    };
    lose(&mut world);
    assert_eq!(world.told(), ["ProviderNotServing"]);
    let trouble = world.record().trouble.clone();
    assert!(trouble.ends_with("its bytes are nowhere"), "{trouble}");
    world.seconds += 3_600;
    lose(&mut world);
    assert_eq!(world.told(), ["ProviderNotServing"], "once is enough");
    // The bytes are available again.
    world.seconds += 3_600;
    world.run(10);
    assert_eq!(world.serves(), Some(digest(1)));
    assert_eq!(world.record().trouble, "");
    assert_eq!(world.told(), ["ProviderNotServing"]);
}
