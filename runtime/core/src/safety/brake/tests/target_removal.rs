//! Large removals of load-balancer targets.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::at;
use crate::moment::Moment;
use crate::safety::brake::target_removal::{CONFIRM_AFTER, PendingRemoval, RemovalVerdict, judge};

fn set(names: &str) -> BTreeSet<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

fn ask(current: &str, wanted: &str, before: Option<&PendingRemoval>, now: u64) -> RemovalVerdict {
    let (current, wanted) = (set(current), set(wanted));
    judge(&current, &wanted, true, before, CONFIRM_AFTER, at(now))
}

fn confirmation(verdict: RemovalVerdict) -> (PendingRemoval, Moment) {
    match verdict {
        RemovalVerdict::Confirm { pending, again } => (pending, again),
        other => unreachable!("{other:?}"),
    }
}

fn confirmed(verdict: RemovalVerdict) -> PendingRemoval {
    match verdict {
        RemovalVerdict::Confirmed(pending) => pending,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn up_to_half_of_the_targets_may_go_at_once() {
    for (current, wanted) in [
        ("", ""),
        ("", "a b"),
        ("a b", "a b"),
        ("a b", "a"),
        ("a b c", "a b"),
        ("a b c d", "a b e"),
        ("a", "a"),
    ] {
        assert_eq!(
            ask(current, wanted, None, 0),
            RemovalVerdict::Go,
            "{current} -> {wanted}"
        );
    }
}

#[test]
fn more_than_half_or_all_need_the_same_wish_half_a_minute_later() {
    for (current, wanted) in [("a b c", "a"), ("a", ""), ("a b", ""), ("a b", "c d e f")] {
        let (first, again) = confirmation(ask(current, wanted, None, 100));
        assert_eq!(again, at(130), "{current} -> {wanted}");
        let (second, again) = confirmation(ask(current, wanted, Some(&first), 129));
        assert_eq!(
            again,
            at(130),
            "asking early moves nothing: {current} -> {wanted}"
        );
        let third = confirmed(ask(current, wanted, Some(&second), 130));
        // The removal takes time, and stays confirmed.
        confirmed(ask(current, wanted, Some(&third), 131));
    }
}

#[test]
fn without_a_synced_node_cache_nothing_large_goes_however_often_it_is_wanted() {
    let (current, wanted) = (set("a b c"), set(""));
    let (before, _) = confirmation(ask("a b c", "", None, 0));
    let verdict = judge(
        &current,
        &wanted,
        false,
        Some(&before),
        CONFIRM_AFTER,
        at(999),
    );
    assert_eq!(verdict, RemovalVerdict::Unsynced);
    let small = judge(&current, &set("a b"), false, None, CONFIRM_AFTER, at(0));
    assert_eq!(small, RemovalVerdict::Go);
}

#[test]
fn a_wish_that_grows_begins_anew_and_one_that_shrinks_does_not() {
    let (before, _) = confirmation(ask("a b c d e", "a b", None, 0));
    let (_, again) = confirmation(ask("a b c d e", "a", Some(&before), 40));
    assert_eq!(again, at(70));
    let (before, _) = confirmation(ask("a b c d e", "a", None, 0));
    let second = confirmed(ask("a b c d e", "a b", Some(&before), 40));
    // A target that was wanted in between is not covered by the earlier confirmation.
    let (_, again) = confirmation(ask("a b c d e", "a", Some(&second), 41));
    assert_eq!(again, at(71));
}

#[test]
fn a_wait_of_zero_still_needs_a_second_wish_at_a_later_moment() {
    let (current, wanted) = (set("a"), set(""));
    let verdict = |before: Option<&PendingRemoval>, now| {
        judge(&current, &wanted, true, before, Duration::ZERO, at(now))
    };
    let (first, _) = confirmation(verdict(None, 5));
    assert!(matches!(
        verdict(Some(&first), 5),
        RemovalVerdict::Confirm { .. }
    ));
    confirmed(verdict(Some(&first), 6));
}

proptest! {
    #[test]
    fn whatever_is_wanted_no_target_goes_with_a_majority_before_it_was_unwanted_for_half_a_minute(
        steps in proptest::collection::vec((0_u64..40, proptest::collection::btree_set("[a-e]", 0..5), any::<bool>()), 1..60),
    ) {
        let current: BTreeSet<String> = set("a b c d e");
        let (mut now, mut before) = (0, None::<PendingRemoval>);
        let mut kept_at: std::collections::BTreeMap<String, u64> = current.iter().map(|name| (name.clone(), 0)).collect();
        for (wait, wanted, synced) in steps {
            now += wait;
            for name in &wanted {
                kept_at.insert(name.clone(), now);
            }
            let removed: Vec<_> = current.difference(&wanted).collect();
            match judge(&current, &wanted, synced, before.as_ref(), CONFIRM_AFTER, at(now)) {
                RemovalVerdict::Confirmed(pending) => {
                    prop_assert!(synced);
                    for name in removed {
                        prop_assert!(now - kept_at[name] >= 30, "{name} was wanted {} s ago", now - kept_at[name]);
                    }
                    before = Some(pending);
                }
                RemovalVerdict::Go => {
                    prop_assert!(removed.len() * 2 <= current.len());
                    before = None;
                }
                RemovalVerdict::Unsynced => before = None,
                RemovalVerdict::Confirm { pending, .. } => before = Some(pending),
            }
        }
    }
}
