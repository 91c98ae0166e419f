//! How long a trial lasts.

use std::time::Duration;

use super::world::{Kind, LONG, World, digest};
use crate::rollout::*;

#[test]
fn a_trial_without_traffic_asks_by_itself_and_ends() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    for _ in 0..LONG {
        world.settle();
        world.work();
        world.settle();
        world.seconds += 1;
    }
    assert_eq!(world.serves(), Some(digest(2)));
    assert!(
        world.begun(|work| matches!(work, Work::Ask(_))) >= 2,
        "in shadow and in canary"
    );
}

/// It is shorter than the time after which the host asks by itself, and the cloud answers late.
#[test]
fn a_short_trial_without_traffic_waits_for_all_answers_to_what_the_host_asks() {
    for (answers, is_good) in [(0, true), (0, false), (1, true)] {
        let mut world = World::serving();
        world.facts.rules.shadow_time = Duration::from_secs(5);
        world.facts.rules.canary_time = Duration::from_secs(5);
        world.offer(2, Kind::Good);
        for _ in 0..80 {
            world.settle();
            match world.facts.work {
                Some(Work::Ask(_)) => world.facts.tally.compared = answers,
                _ => world.work(),
            }
            world.seconds += 1;
        }
        assert_eq!(world.stored.trial.as_ref().unwrap().phase, Phase::Shadow);
        if is_good {
            world.work();
        } else {
            world.facts.tally.fatal = Some("trapped".to_owned());
        }
        world.run(LONG);
        assert_eq!(world.serves() == Some(digest(2)), is_good);
        assert_eq!(world.stored.is_rejected(&digest(2)), !is_good);
    }
}

#[test]
fn with_no_time_for_trials_a_new_version_serves_within_seconds() {
    let mut world = World::serving();
    world.facts.rules = RolloutRules {
        shadow_comparisons: 0,
        shadow_time: Duration::ZERO,
        canary_calls: 0,
        canary_time: Duration::ZERO,
        quiet: Duration::ZERO,
        ..RolloutRules::default()
    };
    world.offer(2, Kind::Good);
    world.run(5);
    assert_eq!(world.serves(), Some(digest(2)));
}
