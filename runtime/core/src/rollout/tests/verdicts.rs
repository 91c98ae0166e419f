//! The verdict on a tally, case by case.

use std::time::Duration;

use crate::cloud::Capabilities;
use crate::rollout::trial_verdict::Verdict;
use crate::rollout::{Cause, Counts, Plans, RolloutRules, TrialTally, WorkResult};

fn counts(calls: u32, errors: &[(&'static str, u32)]) -> Counts {
    Counts {
        calls,
        errors: errors.iter().copied().collect(),
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Open => "open",
        Verdict::Passed => "passed",
        Verdict::Failed(_) => "failed",
    }
}

#[test]
fn a_canary_ends_after_twenty_calls_or_a_minute_and_fails_on_what_only_it_shows() {
    let rules = RolloutRules::default();
    let none: &[(&str, u32)] = &[];
    for (seconds, candidate, serving, expected, why) in [
        (1, (3, none), (3, none), "open", "too early"),
        (1, (20, none), (20, none), "passed", "twenty calls"),
        (60, (3, none), (3, none), "passed", "a minute"),
        (
            60,
            (0, none),
            (0, none),
            "passed",
            "nothing speaks against it",
        ),
        (
            1,
            (5, &[("denied", 1)]),
            (5, none),
            "open",
            "may be a hiccup",
        ),
        (
            1,
            (5, &[("denied", 2)]),
            (5, none),
            "failed",
            "twice is none",
        ),
        (
            1,
            (20, &[("denied", 1)]),
            (20, none),
            "failed",
            "the end of the window",
        ),
        (60, (3, &[("denied", 1)]), (3, none), "failed", "the same"),
        (
            1,
            (20, &[("unavailable", 2)]),
            (20, none),
            "failed",
            "G6: one in ten",
        ),
        (
            1,
            (20, &[("unavailable", 2)]),
            (20, &[("unavailable", 2)]),
            "passed",
            "the cloud",
        ),
        (
            1,
            (20, &[("unavailable", 2)]),
            (20, &[("denied", 2)]),
            "failed",
            "of another kind",
        ),
        (
            1,
            (20, &[("unavailable", 9)]),
            (20, &[("unavailable", 1)]),
            "failed",
            "far more often",
        ),
        (
            1,
            (20, &[("unavailable", 4)]),
            (20, &[("unavailable", 2)]),
            "passed",
            "ten points more",
        ),
        (
            1,
            (20, &[("unavailable", 5)]),
            (20, &[("unavailable", 2)]),
            "failed",
            "fifteen points more",
        ),
        (
            60,
            (20, &[("unavailable", 20)]),
            (20, &[("unavailable", 20)]),
            "open",
            "the cloud is away",
        ),
        (
            60,
            (1, &[("unavailable", 1)]),
            (0, none),
            "failed",
            "nobody else shows it",
        ),
    ] {
        let tally = TrialTally {
            candidate: counts(candidate.0, candidate.1),
            serving: counts(serving.0, serving.1),
            ..TrialTally::default()
        };
        let verdict = tally.canary(&rules, Duration::from_secs(seconds));
        assert_eq!(word(&verdict), expected, "{why}: {verdict:?}");
    }
}

#[test]
fn a_shadow_ends_after_ten_comparisons_or_half_a_minute_and_tolerates_no_difference() {
    let rules = RolloutRules::default();
    for (seconds, compared, differences, expected) in [
        (1, 9, 0, "open"),
        (1, 10, 0, "passed"),
        (30, 1, 0, "passed"),
        (1, 1, 1, "failed"),
        (30, 100, 1, "failed"),
    ] {
        let tally = TrialTally {
            compared,
            differences: vec!["node-1: zone a, zone b".to_owned(); differences],
            ..TrialTally::default()
        };
        let verdict = tally.shadow(&rules, Duration::from_secs(seconds));
        assert_eq!(word(&verdict), expected, "{compared} {differences}");
        let lenient = RolloutRules {
            tolerated_differences: 1,
            ..rules
        };
        let verdict = tally.shadow(&lenient, Duration::from_secs(seconds));
        assert_ne!(word(&verdict), "failed", "{compared} {differences}");
    }
}

#[test]
fn errors_that_only_the_candidate_shows_fail_a_shadow_too() {
    let rules = RolloutRules::default();
    for (seconds, errors, expected) in [(1, 1, "open"), (1, 2, "failed"), (30, 1, "failed")] {
        let tally = TrialTally {
            candidate: counts(5, &[("denied", errors)]),
            serving: counts(5, &[]),
            compared: 1,
            ..TrialTally::default()
        };
        let verdict = tally.shadow(&rules, Duration::from_secs(seconds));
        assert_eq!(word(&verdict), expected, "{errors} after {seconds} s");
    }
}

/// Its answers are compared with nothing: its shape is another one.
#[test]
fn a_version_that_is_only_asked_fails_by_its_own_fault_and_waits_for_the_cloud() {
    let all = Capabilities {
        instances: true,
        load_balancer: true,
        routes: true,
    };
    let none: &[(&'static str, u32)] = &[];
    let lie = Some("instances.find answers what cannot be");
    let (fails, waits) = (Some(Cause::Module), Some(Cause::Circumstances));
    for (calls, errors, fatal, interrupted, expected) in [
        (3, none, None, 0, None),
        (2, none, None, 0, waits),
        (3, none, None, 1, waits),
        (3, none, lie, 0, fails),
        (3, &[("denied", 1)], None, 0, fails),
        (3, &[("unavailable", 1)], None, 0, waits),
        (3, &[("throttled", 1), ("unavailable", 1)], None, 0, waits),
        (3, &[("denied", 1), ("unavailable", 1)], None, 0, fails),
    ] {
        let tally = TrialTally {
            candidate: counts(calls, errors),
            fatal: fatal.map(str::to_owned),
            interrupted,
            ..TrialTally::default()
        };
        let found = match WorkResult::of_reads(&tally, all) {
            WorkResult::Failed(cause, _) => Some(cause),
            _ => None,
        };
        assert_eq!(found, expected, "{tally:?}");
    }
}

#[test]
fn a_trap_ends_either_at_once() {
    let tally = TrialTally {
        fatal: Some("trapped: unreachable".to_owned()),
        ..TrialTally::default()
    };
    let expected = Verdict::Failed("trapped: unreachable".to_owned());
    let rules = RolloutRules::default();
    assert_eq!(tally.shadow(&rules, Duration::ZERO), expected);
    assert_eq!(tally.canary(&rules, Duration::ZERO), expected);
}

#[test]
fn g7_from_three_load_balancers_or_all_and_ten_times_as_many_on_it_is_too_much() {
    let rules = RolloutRules::default();
    let alone = "that the version that serves leaves alone";
    for (asked, serving, candidate, expected) in [
        (0, 0, 0, None),
        (6, 0, 0, None),
        (6, 0, 2, None),
        (6, 0, 3, Some(alone)),
        (6, 0, 6, Some(alone)),
        // In a small cluster, few load balancers are all of them.
        (1, 0, 1, Some(alone)),
        (2, 0, 2, Some(alone)),
        (2, 0, 1, None),
        (1, 0, 0, None),
        (1, 1, 1, None),
        (6, 6, 6, None),
        (12, 1, 10, None),
        (
            12,
            1,
            11,
            Some("of which the version that serves would change 1"),
        ),
        (12, 2, 12, None),
        (u32::MAX, u32::MAX, u32::MAX, None),
    ] {
        let plans = Plans {
            asked,
            serving,
            candidate,
        };
        let why = plans.excess(&rules);
        let expected = expected.map(|other| {
            format!(
                "it would change {candidate} of {asked} load balancers {other}; if that is meant, set wasm-ccm.dev/allow-changes and wasm-ccm.dev/retry to its digest"
            )
        });
        assert_eq!(why, expected, "{plans:?}");
    }
}
