//! Versions that are recorded as active and can no longer be loaded, and the versions offered in their place.

use super::world::{Kind, LONG, World, digest, release};
use crate::rollout::*;

/// A world in which version 1 is recorded as active, and a new process that cannot load it.
fn lost() -> World {
    let mut world = World::serving();
    world.gone.insert(digest(1));
    world.restart();
    world.done.clear();
    world
}

fn is_loaded(world: &World, number: u8) -> bool {
    let digest = digest(number);
    world.begun(|work| !matches!(work, Work::Examine(_)) && work.release().digest == digest) > 0
}

#[test]
fn a_follower_stops_serving_what_the_leader_rejected_and_does_not_record_it_when_it_leads() {
    for (is_read_first, record_has_active) in [(false, false), (true, false), (true, true)] {
        let mut world = World::new();
        world.facts.follows();
        world.offer(1, Kind::Good);
        world.run(5);
        assert_eq!(world.serves(), Some(digest(1)));
        // On the leader's machine the same version failed.
        let rejected = Rejected {
            digest: digest(1),
            version: release(1).version,
            reason: "it traps".to_owned(),
            has_answered: true,
            at: 7,
        };
        world.stored.rejected = vec![rejected];
        if record_has_active {
            world.unreachable.insert(digest(2));
            world.kinds.insert(digest(2), Kind::Good);
            world.stored.active = Some(Placed {
                release: release(2),
                since: 7,
                noted: Noted::default(),
                untried: None,
            });
        }
        if is_read_first {
            world.facts.read(Some(world.stored.clone()));
            world.run(5);
            assert_eq!(world.serves(), None);
        }
        world.facts.leads(Some(world.stored.clone()));
        world.run(LONG);
        assert_eq!(world.serves(), None);
        assert!(world.stored.is_rejected(&digest(1)));
        let why = not_serving(&world.facts).unwrap().0;
        assert!(why.contains("but rejected: it traps"), "{why}");
        // The next version serves as usual.
        world.unreachable.clear();
        world.offer(2, Kind::Good);
        world.run(LONG);
        assert_eq!(world.serves(), Some(digest(2)));
        assert!(world.stored.is_rejected(&digest(1)));
    }
}

#[test]
fn what_requests_no_more_stands_in_for_a_version_that_is_lost_and_it_is_said_why_it_was_not_tried()
{
    let mut world = lost();
    world.offer(2, Kind::Good);
    world.run(5);
    assert_eq!(world.serves(), Some(digest(2)));
    let active = world.stored.active.clone().unwrap();
    let why =
        "it was not tried beside 1.0.1 (sha256:010101010101), which cannot be loaded: it is gone";
    assert_eq!(active.untried.as_deref(), Some(why));
    assert_eq!(active.noted.requests.as_deref(), Some("GET /servers"));
    assert_eq!(world.stored.previous.as_ref().unwrap().digest, digest(1));
    let said = world.done.iter().find_map(|effect| match effect {
        RolloutEffect::RecordEvent(event) => Some((event.reason, event.message.clone())),
        _ => None,
    });
    let (reason, message) = said.unwrap();
    assert_eq!(
        reason, "ProviderActivated",
        "and not first that nothing serves"
    );
    assert!(message.ends_with(why), "{message}");
    // The version after it has a trial again.
    world.offer(3, Kind::Good);
    world.run(LONG);
    let active = world.stored.active.clone().unwrap();
    assert_eq!((active.release.digest, active.untried), (digest(3), None));
}

/// A registry that is away comes back; grants and signatures may never.
#[test]
fn a_version_is_lost_unless_the_circumstances_alone_keep_it_from_being_loaded() {
    for (kind, is_lost) in [
        (Kind::Good, false),
        (Kind::Ungranted, true),
        (Kind::Distrusted, true),
    ] {
        let mut world = World::new();
        world.enough = 0;
        world.offer(1, kind);
        world.run(5);
        assert_eq!(world.serves(), Some(digest(1)));
        world.enough = u64::MAX;
        world.unreachable.insert(digest(1));
        world.restart();
        world.done.clear();
        world.offer(2, Kind::Good);
        world.run(3_600);
        assert_eq!(world.serves(), is_lost.then(|| digest(2)), "{kind:?}");
        let loads =
            |work: &Work| matches!(work, Work::Load(release) if release.digest == digest(1));
        let tried = world.begun(loads);
        assert!(
            (1..30).contains(&tried),
            "{kind:?}: {tried} attempts in an hour"
        );
        world.unreachable.clear();
        world.run(LONG);
        let untried = world.stored.active.as_ref().unwrap().untried.as_ref();
        assert_eq!(untried.is_some(), is_lost, "{kind:?}");
        assert_eq!(world.serves(), Some(digest(2)), "{kind:?}");
    }
}

#[test]
fn what_requests_more_than_a_version_that_is_lost_is_not_started_before_somebody_approves_it() {
    for was_seen_before in [false, true] {
        let mut world = World::serving();
        if was_seen_before {
            world.offer(2, Kind::Wider);
            world.run(LONG);
        }
        world.gone.insert(digest(1));
        world.restart();
        world.offer(2, Kind::Wider);
        world.run(LONG);
        assert_eq!(world.serves(), None);
        assert!(!is_loaded(&world, 2));
        let trial = world.stored.trial.clone().unwrap();
        assert_eq!(trial.phase, Phase::WaitsForApproval);
        assert_eq!(trial.lines, ["+ POST /servers"]);
        assert_eq!(world.state(), RolloutState::WaitsForApproval);
        let told = world.told();
        let asked = told.iter().filter(|it| **it == "PermissionsPending");
        assert_eq!(asked.count(), 1, "{told:?}");
        world.order(Orders {
            approve: Some(digest(2)),
            ..Orders::default()
        });
        world.run(LONG);
        assert_eq!(world.serves(), Some(digest(2)));
        assert!(world.stored.active.as_ref().unwrap().untried.is_some());
    }
}

#[test]
fn a_wider_version_needs_no_approval_where_the_grants_suffice() {
    for is_lost in [false, true] {
        let mut world = World::serving();
        world.facts.rules.approve_within_grants = true;
        if is_lost {
            world.gone.insert(digest(1));
            world.restart();
        }
        world.offer(2, Kind::Wider);
        world.run(LONG);
        assert_eq!(world.serves(), Some(digest(2)), "{is_lost}");
        assert_eq!(world.stored.approved, Vec::<String>::new());
    }
}

#[test]
fn a_version_that_is_found_again_serves_and_ends_the_wait_of_the_other_one() {
    let mut world = lost();
    world.offer(2, Kind::Wider);
    world.run(LONG);
    assert_eq!(world.serves(), None);
    world.gone.clear();
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    assert_eq!(world.stored.active.as_ref().unwrap().untried, None);
    assert!(!is_loaded(&world, 2));
}

#[test]
fn a_version_that_stands_in_is_looked_at_by_the_leader_alone_and_not_given_up_with_the_lease() {
    let mut world = lost();
    world.facts.follows();
    world.offer(2, Kind::Good);
    world.run(LONG);
    assert_eq!(
        (world.serves(), world.facts.candidate.clone()),
        (None, None)
    );
    world.facts.leads(Some(world.stored.clone()));
    // It leads for a moment, too short to load anything.
    world.settle();
    assert!(!is_loaded(&world, 2));
    world.work();
    world.settle();
    assert!(is_loaded(&world, 2));
    world.facts.follows();
    world.settle();
    world.work();
    world.settle();
    assert_eq!(
        world.serves(),
        None,
        "it writes nothing down, so it places nothing"
    );
    world.facts.leads(Some(world.stored.clone()));
    world.settle();
    assert_eq!(world.serves(), Some(digest(2)));
    assert_eq!(world.begun(|work| *work.release() == release(2)), 1);
}

#[test]
fn a_version_that_is_lost_beside_a_rejected_one_is_what_has_to_be_put_back() {
    let mut world = World::serving();
    world.offer(2, Kind::Broken);
    world.run(LONG);
    world.gone.insert(digest(1));
    world.restart();
    world.offer(2, Kind::Broken);
    world.run(LONG);
    assert_eq!(
        (world.serves(), world.state()),
        (None, RolloutState::NotServing)
    );
    let expected = "1.0.1 (sha256:010101010101) must serve, but it is gone; \
                    1.0.2 (sha256:020202020202) is offered, but rejected: it does not compile";
    assert_eq!(world.stored.trouble, expected);
    let said = world.done.iter().rev().find_map(|effect| match effect {
        RolloutEffect::RecordEvent(event) if event.reason == "ProviderNotServing" => {
            Some(&event.message)
        }
        _ => None,
    });
    assert_eq!(said, Some(&format!("nothing serves: {expected}")));
}

/// As by a leader of an earlier release, or on a slower machine.
#[test]
fn an_active_version_that_one_process_cannot_load_is_not_rejected_and_serves_in_the_next() {
    let mut world = World::serving();
    world.restart();
    world.offer(1, Kind::Broken);
    world.run(LONG);
    assert_eq!(
        (world.serves(), world.state()),
        (None, RolloutState::NotServing)
    );
    assert!(!world.stored.is_rejected(&digest(1)));
    let expected = "1.0.1 (sha256:010101010101) must serve, but it does not compile";
    assert_eq!(world.stored.trouble, expected);
    assert_eq!(not_serving(&world.facts), Some((expected.to_owned(), true)));
    world.restart();
    world.offer(1, Kind::Good);
    world.run(5);
    assert_eq!(world.serves(), Some(digest(1)));
    assert_eq!(world.state(), RolloutState::Active);
}

#[test]
fn settings_that_do_not_fit_what_serves_say_what_follows() {
    let mut world = World::serving();
    world.kinds.insert(digest(1), Kind::Ungranted);
    world.facts.policy_changed();
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    let expected = "1.0.1 (sha256:010101010101): + DELETE /servers/*; \
                    the previous settings stay, and the next start will fail";
    assert_eq!(world.stored.trouble, expected);
    assert_eq!(world.state(), RolloutState::ActiveWithTrouble);
}

#[test]
fn what_is_written_down_without_its_requests_gets_them_when_it_serves() {
    let mut world = World::serving();
    let active = world.stored.active.as_mut().unwrap();
    assert_eq!(
        active.noted.requests.take().as_deref(),
        Some("GET /servers")
    );
    world.restart();
    world.run(2);
    let active = world.stored.active.as_ref().unwrap();
    assert_eq!(active.noted.requests.as_deref(), Some("GET /servers"));
}

#[test]
fn what_serves_in_place_of_a_version_that_cannot_be_loaded_is_named() {
    let mut world = World::serving();
    world.facts.follows();
    // Another process brings version 2 into service, which this one cannot load.
    world.unreachable.insert(digest(2));
    world.offer(2, Kind::Good);
    world.stored.active = Some(Placed {
        release: release(2),
        since: 7,
        noted: Noted::default(),
        untried: None,
    });
    world.stored.previous = Some(release(1));
    world.facts.read(Some(world.stored.clone()));
    world.run(LONG);
    world.facts.leads(Some(world.stored.clone()));
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    let expected = "1.0.2 (sha256:020202020202) must serve in place of \
                    1.0.1 (sha256:010101010101), but no route to host";
    assert_eq!(world.stored.trouble, expected);
    assert_eq!(world.state(), RolloutState::ActiveWithTrouble);
}
