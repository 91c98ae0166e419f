//! Large removals of load-balancer targets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::at;
use crate::cloud::load_balancer::TargetNodes;
use crate::fixtures::node;
use crate::moment::Moment;
use crate::node::cloud_node::cloud_node;
use crate::safety::brake::target_removal::{CONFIRM_AFTER, PendingRemoval, RemovalVerdict, judge};

fn set(names: &str) -> BTreeSet<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

fn nodes(names: &BTreeSet<String>) -> TargetNodes {
    let nodes = names
        .iter()
        .map(|name| Arc::new(cloud_node(&node(name).build())));
    nodes.collect()
}

fn ask(current: &str, wanted: &str, before: Option<&PendingRemoval>, now: u64) -> RemovalVerdict {
    let (current, wanted) = (set(current), nodes(&set(wanted)));
    judge(&current, &wanted, true, before, CONFIRM_AFTER, at(now))
}

/// The removal is not confirmed, or not that of the targets `kept`.
fn held(verdict: RemovalVerdict, kept: &str) -> (PendingRemoval, Moment) {
    match verdict {
        RemovalVerdict::Confirm {
            pending,
            kept: found,
            again,
        } => {
            assert_eq!(found, set(kept));
            (pending, again)
        }
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
    for (current, wanted, kept) in [
        ("a b c", "a", "b c"),
        ("a", "", "a"),
        ("a b", "", "a b"),
        ("a b", "c d e f", "a b"),
    ] {
        let (first, again) = held(ask(current, wanted, None, 100), kept);
        assert_eq!(again, at(130), "{current} -> {wanted}");
        let (second, again) = held(ask(current, wanted, Some(&first), 129), kept);
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
    let (current, wanted) = (set("a b c"), nodes(&set("")));
    let (before, _) = held(ask("a b c", "", None, 0), "a b c");
    let verdict = judge(
        &current,
        &wanted,
        false,
        Some(&before),
        CONFIRM_AFTER,
        at(999),
    );
    assert_eq!(verdict, RemovalVerdict::Unsynced);
    let most = nodes(&set("a b"));
    let small = judge(&current, &most, false, None, CONFIRM_AFTER, at(0));
    assert_eq!(small, RemovalVerdict::Go);
}

#[test]
fn a_wish_that_grows_or_shrinks_delays_no_target_that_was_in_it_all_the_time() {
    let (before, _) = held(ask("a b c d e", "a b", None, 0), "c d e");
    let (before, again) = held(ask("a b c d e", "a", Some(&before), 40), "b");
    assert_eq!(again, at(70));
    confirmed(ask("a b c d e", "a", Some(&before), 70));
    let (before, _) = held(ask("a b c d e", "a", None, 0), "b c d e");
    let second = confirmed(ask("a b c d e", "a b", Some(&before), 40));
    // A target that was wanted in between waits anew.
    let (_, again) = held(ask("a b c d e", "a", Some(&second), 41), "b");
    assert_eq!(again, at(71));
    // So does one that has become a target only since.
    let with_f = confirmed(ask("a b c d e", "a b f", Some(&second), 43));
    let (_, again) = held(ask("a b c d e f", "a", Some(&with_f), 44), "b f");
    assert_eq!(again, at(74));
}

#[test]
fn in_a_cluster_whose_nodes_go_all_the_time_what_is_gone_for_half_a_minute_goes() {
    let current = "a b c d e f g h";
    let mut before = None;
    // One of the remaining nodes leaves every ten seconds.
    for (now, wanted, kept, again) in [
        (0, "a b c", "d e f g h", 30),
        (10, "a b", "c d e f g h", 30),
        (20, "a", "b c d e f g h", 30),
        (30, "", "a b c", 40),
    ] {
        let (pending, until) = held(ask(current, wanted, before.as_ref(), now), kept);
        assert_eq!(until, at(again), "at {now}");
        before = Some(pending);
    }
    // The first five are gone by now.
    let (before, again) = held(ask("a b c", "", before.as_ref(), 40), "a b");
    assert_eq!(again, at(50));
    let (before, _) = held(ask("a b", "", Some(&before), 50), "a");
    confirmed(ask("a", "", Some(&before), 60));
}

#[test]
fn a_list_that_flickers_confirms_nothing() {
    let mut before = None;
    for now in (0..300).step_by(20) {
        let wanted = if now % 40 == 0 { "a b" } else { "c d" };
        let kept = if now % 40 == 0 { "c d e" } else { "a b e" };
        // One that is in neither list goes.
        let kept = if now < 40 { kept } else { &kept[..3] };
        let (pending, _) = held(ask("a b c d e", wanted, before.as_ref(), now), kept);
        before = Some(pending);
    }
}

#[test]
fn a_wait_of_zero_still_needs_a_second_wish_at_a_later_moment() {
    let (current, wanted) = (set("a"), nodes(&set("")));
    let verdict = |before: Option<&PendingRemoval>, now| {
        judge(&current, &wanted, true, before, Duration::ZERO, at(now))
    };
    let (first, _) = held(verdict(None, 5), "a");
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
        let mut kept_at: BTreeMap<String, u64> = current.iter().map(|name| (name.clone(), 0)).collect();
        for (wait, wanted, synced) in steps {
            now += wait;
            for name in &wanted {
                kept_at.insert(name.clone(), now);
            }
            let removed: BTreeSet<String> = current.difference(&wanted).cloned().collect();
            let verdict = judge(&current, &nodes(&wanted), synced, before.as_ref(), CONFIRM_AFTER, at(now));
            let kept = match &verdict {
                RemovalVerdict::Confirm { kept, .. } => kept.clone(),
                _ => BTreeSet::new(),
            };
            prop_assert!(kept.is_subset(&removed));
            let goes = removed.difference(&kept);
            let since: Vec<u64> = goes.map(|name| now - kept_at[name]).collect();
            match verdict {
                RemovalVerdict::Confirmed(pending) | RemovalVerdict::Confirm { pending, .. } => {
                    prop_assert!(synced);
                    prop_assert!(since.iter().all(|since| *since >= 30), "wanted {since:?} s ago");
                    before = Some(pending);
                }
                RemovalVerdict::Go => {
                    prop_assert!(removed.len() * 2 <= current.len());
                    before = None;
                }
                RemovalVerdict::Unsynced => before = None,
            }
        }
    }
}
