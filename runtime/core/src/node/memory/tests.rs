#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;
use crate::cloud::instance::{Address, AddressType, Instance, Lookup};
use crate::node::index::Clashes;
use crate::node::{NodeEffect, NodeOutcome, decide};
use crate::reconciliation::effect::{ClusterError, Decision, EventOutcome, Performed};
use serde_json::{Value, json};

fn node(change: impl FnOnce(&mut Value)) -> PrunedNode {
    let mut node = json!({
        "metadata": { "name": "a", "uid": "u", "resourceVersion": "5", "labels": { "l": "1" } },
        "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] },
        "status": { "addresses": [{ "type": "Hostname", "address": "a" }] }
    });
    change(&mut node);
    serde_json::from_value(node).unwrap()
}

const TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

#[test]
fn only_what_can_change_a_decision_is_news() {
    type Change = fn(&mut Value);
    let changes: [(Change, bool); 7] = [
        (
            |node| node["metadata"]["resourceVersion"] = json!("6"),
            false,
        ),
        (
            |node| node["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]),
            false,
        ),
        (
            |node| node["metadata"]["annotations"] = json!({ "x": "y" }),
            false,
        ),
        (|node| node["metadata"]["uid"] = json!("v"), true),
        (|node| node["metadata"]["labels"]["l"] = json!("2"), true),
        (|node| node["spec"]["providerID"] = json!("sim://1"), true),
        (
            |node| node["spec"]["taints"] = json!([{ "key": TAINT, "effect": "NoSchedule" }]),
            true,
        ),
    ];
    for (index, (change, is_relevant_change)) in changes.into_iter().enumerate() {
        let mut memory = NodeMemory::default();
        assert!(
            memory.is_relevant_change(&node(|_| {})),
            "the first look is news"
        );
        assert_eq!(
            memory.is_relevant_change(&node(change)),
            is_relevant_change,
            "change {index}"
        );
        assert!(
            !memory.is_relevant_change(&node(change)),
            "change {index} again"
        );
    }
}

#[test]
fn annotations_and_addresses_are_news_while_a_node_waits() {
    let taint = |node: &mut Value| node["spec"]["taints"][0]["key"] = json!(TAINT);
    let mut memory = NodeMemory::default();
    memory.is_relevant_change(&node(taint));
    assert!(memory.is_relevant_change(&node(|node| {
        node["spec"]["taints"][0]["key"] = json!(TAINT);
        node["metadata"]["annotations"] =
            json!({ "alpha.kubernetes.io/provided-node-ip": "10.0.0.1" });
    })));
    assert!(memory.is_relevant_change(&node(|node| {
        node["spec"]["taints"][0]["key"] = json!(TAINT);
        node["status"]["addresses"][0]["address"] = json!("b");
    })));
}

#[test]
fn a_node_that_was_made_again_while_the_watch_was_interrupted_begins_anew() {
    let ownership = Arc::new(OwnershipContext::alone("sim", vec!["sim".to_owned()]));
    let rules = Arc::new(NodeRules::default());
    let at = |seconds| Moment(Duration::from_secs(seconds));
    let taint = |node: &mut Value| node["spec"]["taints"][0]["key"] = json!(TAINT);
    let again = |node: &mut Value| {
        node["spec"]["taints"][0]["key"] = json!(TAINT);
        node["metadata"]["uid"] = json!("v");
    };
    let mut memory = NodeMemory::default();
    let mut facts = |node: PrunedNode, now| {
        memory.is_relevant_change(&node);
        let node = Arc::new(node);
        let facts = memory.facts(node, ownership.clone(), rules.clone(), at(now));
        let past = facts.past.clone();
        let conclusion = Conclusion {
            facts: Box::new(facts),
            when: When::Retry {
                after: Duration::from_secs(1),
                why: "not listed".to_owned(),
            },
            retained: None,
            has_written: false,
        };
        memory.conclude(conclusion, at(now));
        past
    };
    facts(node(taint), 0);
    let past = facts(node(taint), 1);
    assert_eq!((past.failures, past.waiting_since), (1, Some(at(0))));
    let past = facts(node(again), 900);
    assert_eq!(past, RetainedState::default());
    let past = facts(node(again), 901);
    assert_eq!((past.failures, past.waiting_since), (1, Some(at(900))));
}

/// NODE-050: every pass asks about every node.
#[test]
fn a_check_that_is_requested_during_a_reconciliation_is_made_after_it() {
    let ownership = Arc::new(OwnershipContext::alone("sim", Vec::new()));
    let rules = Arc::new(NodeRules::default());
    let now = Moment(Duration::from_secs(100));
    let mut memory = NodeMemory::default();
    let facts = |memory: &mut NodeMemory| {
        let node = Arc::new(node(|_| {}));
        memory.facts(node, ownership.clone(), rules.clone(), now)
    };
    let ended = |facts| Conclusion {
        facts: Box::new(facts),
        when: When::AwaitChange,
        retained: None,
        has_written: false,
    };
    let begun = facts(&mut memory);
    memory.wants_refresh();
    memory.conclude(ended(begun), now);
    let next = facts(&mut memory);
    assert!(next.past.refresh);
    memory.conclude(ended(next), now);
    assert!(!facts(&mut memory).past.refresh);
}

#[test]
fn passes_that_end_with_the_same_obstacle_are_counted() {
    let (ownership, rules) = (
        Arc::new(OwnershipContext::alone("sim", Vec::new())),
        Arc::new(NodeRules::default()),
    );
    let now = Moment(Duration::from_secs(1));
    let mut memory = NodeMemory::default();
    for (is_pass, obstacle, expected) in [
        (true, Some("a"), Some(("a", 0))),
        (false, Some("a"), Some(("a", 0))),
        (true, Some("a"), Some(("a", 1))),
        (true, Some("a"), Some(("a", 2))),
        (true, Some("b"), Some(("b", 0))),
        (true, None, None),
    ] {
        if is_pass {
            memory.wants_refresh();
        }
        let node = Arc::new(node(|_| {}));
        let facts = memory.facts(node, ownership.clone(), rules.clone(), now);
        let when = obstacle.map_or(When::AwaitChange, |why| When::Blocked {
            why: why.to_owned(),
        });
        let conclusion = Conclusion {
            facts: Box::new(facts),
            when,
            retained: None,
            has_written: false,
        };
        memory.conclude(conclusion, now);
        let kept = memory.past.obstacle.as_ref();
        let kept = kept.map(|(why, passes)| (why.as_str(), *passes));
        assert_eq!(kept, expected, "{obstacle:?}");
    }
}

#[test]
fn an_answer_that_could_not_be_stored_is_recalled_for_a_minute_and_for_the_same_node() {
    let at = |seconds| Moment(Duration::from_secs(seconds));
    let ownership = Arc::new(OwnershipContext::alone("sim", Vec::new()));
    let answer = Looked {
        lookup: Lookup::Gone,
        events: Vec::new(),
        complete: true,
        clashes: Clashes::default(),
    };
    for (uid, now, is_recalled) in [
        ("u", 100, true),
        ("u", 160, true),
        ("u", 161, false),
        ("v", 100, false),
    ] {
        let mut memory = NodeMemory {
            kept: Some(Box::new(KeptAnswer {
                looked: answer.clone(),
                answered: at(100),
                uid: uid.into(),
            })),
            ..NodeMemory::default()
        };
        let node = Arc::new(node(|_| {}));
        let rules = Arc::new(NodeRules::default());
        let facts = memory.facts(node.clone(), ownership.clone(), rules.clone(), at(now));
        let unknowing = NodeMemory::default().facts(node, ownership.clone(), rules, at(now));
        assert_eq!(facts != unknowing, is_recalled, "{uid} at {now}");
    }
}

#[test]
fn while_the_api_server_is_away_the_cloud_is_asked_less_often_than_it_is_tried() {
    let minutes = 7;
    let ownership = Arc::new(OwnershipContext::alone("sim", vec!["sim".to_owned()]));
    let rules = Arc::new(NodeRules::default());
    let tainted = Arc::new(node(|node| node["spec"]["taints"][0]["key"] = json!(TAINT)));
    let answer = Looked {
        lookup: Lookup::Found(Box::new(Instance {
            provider_id: "sim://1".to_owned(),
            addresses: vec![Address {
                address_type: AddressType::InternalIp,
                address: "10.0.0.1".to_owned(),
            }],
            ..Instance::default()
        })),
        events: Vec::new(),
        complete: true,
        clashes: Clashes::default(),
    };
    let mut memory = NodeMemory::default();
    let (mut now, mut failed, mut look_ups) = (Moment(Duration::ZERO), 0, 0);
    while now.0 < Duration::from_secs(60 * minutes) {
        let mut facts = memory.facts(tainted.clone(), ownership.clone(), rules.clone(), now);
        let when = loop {
            let effects = match decide(&facts, now) {
                Decision::Done((when, _)) => break when,
                Decision::Do(effects) => effects,
            };
            for effect in effects {
                let outcome = Performed::Ended(match effect {
                    NodeEffect::Find(_) => {
                        look_ups += 1;
                        NodeOutcome::Looked(Ok(answer.clone()))
                    }
                    NodeEffect::RecordEvent(..) => NodeOutcome::Event(EventOutcome::Recorded),
                    _ => NodeOutcome::Node(Err(ClusterError::Unavailable("away".to_owned()))),
                });
                let goes_on = outcome.is_success();
                facts.absorb(&effect, outcome);
                if !goes_on {
                    break;
                }
            }
        };
        failed += 1;
        // As long as a refused connection takes.
        now = now.after(Duration::from_millis(10));
        let conclusion = Conclusion {
            facts: Box::new(facts),
            when,
            retained: None,
            has_written: false,
        };
        let (Next::At(next), None) = memory.conclude(conclusion, now) else {
            panic!("the write is tried again after {failed} failures");
        };
        now = next;
    }
    assert!(failed >= 20, "{failed}");
    assert!(look_ups <= 1 + minutes, "{look_ups} of {failed}");
    assert!(
        look_ups >= minutes / 2,
        "an answer is kept for a minute only: {look_ups}"
    );
}

#[test]
fn node_006_a_reconciliation_that_panics_is_held_again_and_a_success_ends_the_row_of_failures() {
    let ownership = Arc::new(OwnershipContext::alone("sim", Vec::new()));
    let (node, rules) = (Arc::new(node(|_| {})), Arc::new(NodeRules::default()));
    let now = Moment(Duration::from_secs(100));
    let facts =
        |memory: &mut NodeMemory| memory.facts(node.clone(), ownership.clone(), rules.clone(), now);
    let mut memory = NodeMemory::default();
    drop(facts(&mut memory));
    let after = |seconds| Next::At(now.after(Duration::from_secs(seconds)));
    assert_eq!(memory.abandon(now), after(1));
    assert_eq!(memory.abandon(now), after(2));
    assert_eq!(memory.past.failures, 2);
    let ended = Conclusion {
        facts: Box::new(facts(&mut memory)),
        when: When::AwaitChange,
        retained: None,
        has_written: false,
    };
    assert_eq!(memory.conclude(ended, now).0, Next::OnChange);
    assert_eq!(memory.abandon(now), after(1));
}

#[test]
fn a_cache_that_is_behind_our_own_write_is_waited_for_and_not_for_ever() {
    let at = |seconds| Moment(Duration::from_secs(seconds));
    let cached = node(|_| {});
    let written = |version: u64| NodeMemory {
        last_write: OwnWrite::new(&version.to_string(), at(100)).into(),
        ..NodeMemory::default()
    };
    assert_eq!(written(5).waits_for_cache(&cached, at(100)), None);
    assert_eq!(written(6).waits_for_cache(&cached, at(109)), Some(at(110)));
    assert_eq!(written(6).waits_for_cache(&cached, at(110)), None);
    assert_eq!(NodeMemory::default().waits_for_cache(&cached, at(1)), None);
}

#[test]
fn a_turn_that_waits_for_our_own_write_ends_or_is_due_when_the_write_is_seen() {
    type Change = fn(&mut NodeMemory);
    let version = |version: u64, label: &str| {
        node(|seen| {
            seen["metadata"]["resourceVersion"] = json!(version.to_string());
            seen["metadata"]["labels"] = json!({ "l": label });
        })
    };
    let (needless, due) = (Some(AwaitedTurn::Needless), Some(AwaitedTurn::Due));
    let table: [(&str, Change, u64, Option<AwaitedTurn>); 7] = [
        ("the write itself", |_| {}, 7, needless),
        ("a later heartbeat", |_| {}, 8, needless),
        ("still older", |_| {}, 6, None),
        ("a pass wants it, too", NodeMemory::wants_refresh, 7, due),
        (
            "it failed before",
            |memory| memory.past.failures = 1,
            7,
            due,
        ),
        (
            "it failed, and is older",
            |memory| memory.past.failures = 1,
            6,
            None,
        ),
        ("others ask for it", NodeMemory::reconsider, 7, None),
    ];
    for (what, change, seen, expected) in table {
        let now = Moment(Duration::from_secs(100));
        let mut memory = NodeMemory {
            last_write: OwnWrite::new("7", now).into(),
            ..NodeMemory::default()
        };
        memory.is_relevant_change(&version(7, "1"));
        change(&mut memory);
        assert!(memory.waits_for_cache(&version(5, "1"), now).is_some());
        let seen = version(seen, "1");
        let turn = match memory.is_relevant_change(&seen) {
            true => None,
            false => memory.caught_up(&seen),
        };
        assert_eq!(turn, expected, "{what}");
        assert_eq!(memory.caught_up(&seen), None, "{what}: once");
        // A change by another writer needs a turn.
        assert!(memory.is_relevant_change(&version(9, "2")), "{what}");
        assert_eq!(memory.caught_up(&version(9, "2")), None, "{what}");
    }
}
