//! Each condition alone: a node that may be deleted, with one thing changed.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::fixtures;
use crate::well_known::DELETE_UNTIL;

const NOW: u64 = 10_000;

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

fn now() -> Now {
    Now {
        moment: at(NOW),
        wall: "2026-11-21T12:00:00Z".parse().unwrap(),
    }
}

fn node(change: impl FnOnce(&mut Value)) -> PrunedNode {
    let node = fixtures::node("a").uid("u").provider_id("sim://1");
    let created = json!("2026-11-21T11:55:00Z");
    let node = node.with(|node| node["metadata"]["creationTimestamp"] = created);
    node.with(change).build()
}

/// Evidence for which every condition holds, by the smallest margin.
fn evidence() -> Evidence {
    evidence_about(&node(|_| {}))
}

/// The same about this node.
fn evidence_about(node: &PrunedNode) -> Evidence {
    Evidence {
        not_ready_since: at(NOW - 30),
        seen: Seen::before(node, now()),
        gone: Gone {
            first: at(NOW - 10),
            last: at(NOW),
            answers: 2,
            is_fresh: true,
            found_first: Arc::default(),
            known_good: ["b".to_owned()].into(),
        },
        enough: 2,
        contradicted_by: None,
        mass_until: None,
        is_last: false,
    }
}

fn verdict(
    node: &PrunedNode,
    evidence: &Evidence,
    rules: &LifecycleRules,
) -> Result<(), &'static str> {
    let is_wanted = is_wanted(node, rules, now());
    check(node, evidence, rules, is_wanted, now()).map_err(|held| held.condition())
}

fn judged(evidence: &Evidence) -> Result<(), &'static str> {
    verdict(&node(|_| {}), evidence, &LifecycleRules::default())
}

#[test]
fn what_just_meets_every_condition_may_go() {
    assert_eq!(judged(&evidence()), Ok(()));
}

/// A node that may be deleted, with what says that its deletion is meant.
fn marked(mark: &str) -> PrunedNode {
    node(|node| match mark {
        "taint" => {
            let taint = json!({ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" });
            node["spec"]["taints"] = json!([taint]);
        }
        "selector" => node["metadata"]["labels"]["pool"] = json!("spot"),
        "annotation" => {
            node["metadata"]["annotations"][DELETE_UNTIL] = json!("2026-11-21T13:00:00Z");
        }
        _ => {}
    })
}

#[test]
fn each_condition_holds_alone() {
    type Change = fn(&mut Evidence);
    let all = &["nothing", "taint", "selector", "annotation"][..];
    // The condition, what makes it hold, and the marks despite which it does: none stands for an answer or an age.
    let changes: [(&str, Change, &[&str]); 10] = [
        (
            "just-not-ready",
            |one| one.not_ready_since = at(NOW - 29),
            all,
        ),
        ("young", |one| one.seen = Seen::new(at(NOW - 299)), all),
        ("unconfirmed", |one| one.gone.first = at(NOW - 9), all),
        ("unconfirmed", |one| one.gone.is_fresh = false, all),
        ("unconfirmed", |one| one.gone.answers = 1, all),
        ("unconfirmed", |one| one.enough = 3, all),
        (
            "no-known-good-node",
            |one| one.gone.known_good.clear(),
            &["nothing", "taint", "selector"],
        ),
        (
            "no-known-good-node",
            |one| {
                one.gone.known_good.clear();
                one.is_last = true;
            },
            &["nothing"],
        ),
        (
            "contradicted",
            |one| one.contradicted_by = Some("b".to_owned()),
            &["nothing", "taint", "selector"],
        ),
        (
            "mass",
            |one| one.mass_until = Some(at(NOW + 1)),
            &["nothing"],
        ),
    ];
    let rules = LifecycleRules {
        wanted: Some(Selector::parse("pool=spot").unwrap()),
        ..LifecycleRules::default()
    };
    for (condition, change, held) in changes {
        let mut evidence = evidence();
        change(&mut evidence);
        for mark in all {
            let expected = match held.contains(mark) {
                true => Err(condition),
                false => Ok(()),
            };
            let judged = verdict(&marked(mark), &evidence, &rules);
            assert_eq!(judged, expected, "{evidence:?} with {mark}");
        }
    }
}

#[test]
fn f16_a_node_that_registered_a_moment_ago_stays_whatever_the_wall_says() {
    let rules = LifecycleRules::default();
    let young = node(|node| {
        node["metadata"]["creationTimestamp"] = json!("2026-11-21T11:55:01Z");
    });
    let held = |node: &PrunedNode| verdict(node, &evidence_about(node), &rules);
    assert_eq!(held(&young), Err("young"));
    let undated = node(|node| node["metadata"]["creationTimestamp"] = Value::Null);
    assert_eq!(held(&undated), Err("young"));
    let from_the_future = node(|node| {
        node["metadata"]["creationTimestamp"] = json!("2030-01-01T00:00:00Z");
    });
    assert_eq!(held(&from_the_future), Err("young"));
}

#[test]
fn f16_a_clock_that_is_set_meanwhile_makes_no_node_older_or_younger() {
    let rules = LifecycleRules::default();
    for (created, wall, expected) in [
        ("2026-11-21T11:55:01Z", "2026-11-22T12:00:00Z", Err("young")),
        ("2026-11-21T11:55:00Z", "2026-11-20T12:00:00Z", Ok(())),
    ] {
        let node = node(|node| node["metadata"]["creationTimestamp"] = json!(created));
        let evidence = evidence_about(&node);
        let set = Now {
            wall: wall.parse().unwrap(),
            ..now()
        };
        let checked = check(&node, &evidence, &rules, false, set);
        assert_eq!(checked.map_err(|held| held.condition()), expected, "{wall}");
    }
}

#[test]
fn a_node_without_provider_id_stays_until_a_person_says_so() {
    let rules = LifecycleRules::default();
    let mut unwitnessed = evidence();
    unwitnessed.gone.known_good.clear();
    for (until, verdict_of_it) in [
        ("", Err("no-provider-id")),
        ("tomorrow", Err("no-provider-id")),
        ("2026-11-21T12:00:00Z", Err("no-provider-id")),
        ("2026-11-21T12:00:01Z", Ok(())),
        ("2026-11-22T00:00:00+14:00", Err("no-provider-id")),
    ] {
        let node = node(|node| {
            node["spec"]["providerID"] = json!("");
            node["metadata"]["annotations"][DELETE_UNTIL] = json!(until);
        });
        assert_eq!(
            verdict(&node, &unwitnessed, &rules),
            verdict_of_it,
            "{until}"
        );
    }
}

#[test]
fn delete_last_node_counts_only_when_no_other_node_could_vouch() {
    let rules = LifecycleRules {
        delete_last_node: true,
        ..LifecycleRules::default()
    };
    let mut unwitnessed = evidence();
    unwitnessed.gone.known_good.clear();
    assert_eq!(
        verdict(&node(|_| {}), &unwitnessed, &rules),
        Err("no-known-good-node")
    );
    unwitnessed.is_last = true;
    assert_eq!(verdict(&node(|_| {}), &unwitnessed, &rules), Ok(()));
}

#[test]
fn a_scale_down_that_was_announced_is_no_mass() {
    let mut mass_outage = evidence();
    mass_outage.mass_until = Some(at(NOW + 900));
    for (key, verdict_of_it) in [
        ("ToBeDeletedByClusterAutoscaler", Ok(())),
        ("node.kubernetes.io/out-of-service", Ok(())),
        ("DeletionCandidateOfClusterAutoscaler", Err("mass")),
    ] {
        let node = node(|node| {
            node["spec"]["taints"] = json!([{ "key": key, "effect": "NoSchedule" }]);
        });
        assert_eq!(
            verdict(&node, &mass_outage, &LifecycleRules::default()),
            verdict_of_it,
            "{key}"
        );
    }
    mass_outage.mass_until = Some(at(NOW));
    assert_eq!(judged(&mass_outage), Ok(()), "a quarter of an hour is over");
}

#[test]
fn f15_a_provider_that_changed_its_mind_has_to_say_it_longer() {
    let mut contradicted = evidence();
    (contradicted.enough, contradicted.gone.answers) = (4, 4);
    contradicted.gone.first = at(NOW - 29);
    assert_eq!(judged(&contradicted), Err("unconfirmed"));
    contradicted.gone.first = at(NOW - 30);
    assert_eq!(judged(&contradicted), Ok(()));
}

#[test]
fn the_audit_log_says_how_often_the_machine_was_called_gone_and_who_was_found_then() {
    assert_eq!(
        evidence().reason(),
        "2 complete answers over 10 s call its machine gone; the last one used nothing that was kept; found in the same answers: b"
    );
}

#[test]
fn what_is_told_says_the_condition_and_when_it_is_tried_again() {
    let described = |held: Held| held.describe(now());
    assert_eq!(
        described(Held::MassOutage(at(NOW + 900))),
        "more than a third of the provider's nodes are said to be gone at once; if that is meant, set the annotation wasm-ccm.dev/delete-until; asked again every minute, and not deleted before 2026-11-21T12:15:00Z"
    );
    let unwitnessed = described(Held::NoKnownGood);
    assert!(unwitnessed.contains(DELETE_UNTIL), "{unwitnessed}");
    assert!(unwitnessed.ends_with("tried again within a minute"));
}
