//! One node's reconciliation, from the reservation of its blocks to its end.

use super::world::*;
use crate::fixtures;
use crate::ipam::{IpamEffect, IpamOutcome, Memory, decide};
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::{ClusterError, Decision, EventOutcome, Performed, When};
use serde_json::json;
use std::sync::Arc;

fn one_node() -> (Memory, Api) {
    let mut api = Api::default();
    api.add(node("a", "1", ""));
    (memory("10.0.0.0/22 /24", ""), api)
}

fn used(memory: &Memory) -> usize {
    memory.allocator().families()[0].used()
}

fn is_retry(when: &When) -> bool {
    matches!(when, When::Retry { .. })
}

#[test]
fn ipam_026_the_patch_has_the_first_and_all_and_is_for_exactly_this_node() {
    let mut memory = memory("10.0.0.0/22 /24,fd00::/56 /64", "");
    let facts = memory.begin(Arc::new(node("a", "1", ""))).unwrap();
    let Decision::Do(effects) = decide(&facts) else {
        unreachable!("there is something to write")
    };
    let IpamEffect::Patch(_, patch) = &effects[0] else {
        unreachable!("{effects:?}")
    };
    let body = serde_json::json!({
        "metadata": { "uid": "1" },
        "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"] },
    });
    assert_eq!(patch.to_json(), body);
}

/// As [`node`], while it waits for its finalizers.
fn going(name: &str, uid: &str, cidrs: &str) -> PrunedNode {
    let cidrs: Vec<&str> = cidrs.split(',').filter(|cidr| !cidr.is_empty()).collect();
    let node = fixtures::node(name).uid(uid).pod_cidrs(&cidrs);
    node.with(|node| node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"))
        .build()
}

#[test]
fn ipam_024_a_node_that_has_pod_cidrs_or_is_going_gets_none() {
    let mut memory = memory("10.0.0.0/22 /24", "");
    // An API server that knows one family has no list of them.
    let only: PrunedNode = fixtures::node("c")
        .uid("3")
        .with(|node| node["spec"]["podCIDR"] = json!("10.0.1.0/24"))
        .build();
    for has in [node("a", "1", "10.0.0.0/24"), only] {
        assert!(!memory.see(&has), "nothing is wrong with it");
        assert_eq!(memory.begin(Arc::new(has)), None);
    }
    let going = going("b", "2", "");
    assert!(!memory.see(&going));
    let facts = memory.begin(Arc::new(going)).unwrap();
    assert_eq!(decide(&facts), Decision::Done(When::AwaitChange));
    assert_eq!(used(&memory), 2);
}

#[test]
fn ipam_024_a_node_that_is_going_keeps_its_block_until_it_is_gone() {
    let mut memory = memory("10.0.0.0/24 /24", "");
    memory.see(&node("a", "1", "10.0.0.0/24"));
    memory.see(&going("a", "1", "10.0.0.0/24"));
    assert_eq!(used(&memory), 1);
    memory.forget("a");
    assert_eq!(used(&memory), 0);
}

#[test]
fn ipam_027_a_write_that_was_refused_is_told_once_and_gives_the_block_back() {
    let (mut memory, mut api) = one_node();
    let (done, when) = reconcile(&mut memory, &mut api, "a", Fate::Refused);
    let patch = |block: &str| format!("patch node/a podCIDRs=10.0.{block}.0/24");
    assert_eq!(
        done,
        [
            patch("0"),
            "event node/a Warning CIDRAssignmentFailed".to_owned()
        ]
    );
    assert!(is_retry(&when));
    assert_eq!(used(&memory), 0);
    let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Refused);
    assert_eq!(done, [patch("1")], "it was told");
    assert_eq!(memory.failures("a"), 2);
    let (done, when) = reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert_eq!((done, when), (vec![patch("2")], When::AwaitChange));
    assert_eq!((used(&memory), memory.failures("a")), (1, 0));
}

#[test]
fn ipam_027_a_write_without_an_answer_keeps_the_block_until_the_node_was_read() {
    for (fate, then) in [
        (
            Fate::Lost,
            vec!["read node/a", "patch node/a podCIDRs=10.0.0.0/24"],
        ),
        (Fate::AnswerLost, vec!["read node/a"]),
    ] {
        let (mut memory, mut api) = one_node();
        let (done, when) = reconcile(&mut memory, &mut api, "a", fate);
        assert_eq!(done, ["patch node/a podCIDRs=10.0.0.0/24"]);
        assert!(is_retry(&when) && used(&memory) == 1, "{when}");
        let mut cached = api.clone();
        cached.add(node("a", "1", ""));
        // The cache does not show the change yet.
        let mut facts = memory.begin(cached.get("a").unwrap()).unwrap();
        let (done, when) = lead(&mut facts, &mut api, Fate::Made);
        memory.conclude(&facts, &when);
        assert_eq!(done, then);
        assert_eq!((when, used(&memory)), (When::AwaitChange, 1));
    }
}

#[test]
fn ipam_027_what_may_pass_by_itself_is_told_when_it_lasts() {
    let (mut memory, mut api) = one_node();
    for _ in 0..2 {
        let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Lost);
        assert!(
            done.iter().all(|effect| !effect.starts_with("event")),
            "{done:?}"
        );
    }
    let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Lost);
    assert_eq!(
        done.last().unwrap(),
        "event node/a Warning CIDRAssignmentFailed"
    );
    assert_eq!(used(&memory), 1);
}

#[test]
fn ipam_027b_an_old_answer_of_the_watch_allocates_nothing_again() {
    let (mut memory, mut api) = one_node();
    let before = api.get("a").unwrap();
    reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert!(!memory.see(&before));
    assert_eq!(memory.begin(before), None);
    assert_eq!(used(&memory), 1);
}

#[test]
fn ipam_026_a_node_that_got_others_meanwhile_keeps_those() {
    let (mut memory, mut api) = one_node();
    let cached = api.get("a").unwrap();
    api.add(node("a", "1", "10.0.3.0/24"));
    let mut facts = memory.begin(cached).unwrap();
    let (done, when) = lead(&mut facts, &mut api, Fate::Made);
    memory.conclude(&facts, &when);
    assert_eq!(done, ["patch node/a podCIDRs=10.0.0.0/24", "read node/a"]);
    assert_eq!(
        (when, used(&memory)),
        (When::AwaitChange, 1),
        "ours was given back"
    );
}

#[test]
fn ipam_024_and_025_nothing_stays_behind_for_a_node_that_went_meanwhile() {
    for again in [None, Some(node("a", "2", ""))] {
        let (mut memory, mut api) = one_node();
        let cached = api.get("a").unwrap();
        api.nodes.remove("a");
        if let Some(again) = again.clone() {
            api.add(again);
        }
        let mut facts = memory.begin(cached).unwrap();
        let (done, when) = lead(&mut facts, &mut api, Fate::Made);
        memory.conclude(&facts, &when);
        assert_eq!(when, When::AwaitChange, "{done:?}");
        assert_eq!(used(&memory), 0);
        if let Some(again) = again {
            assert!(
                memory.see(&again),
                "the new one has a reconciliation of its own"
            );
        }
    }
}

#[test]
fn a_conflict_is_answered_by_reading_and_three_of_them_by_coming_back() {
    let (mut memory, api) = one_node();
    let mut facts = memory.begin(api.get("a").unwrap()).unwrap();
    let mut done = Vec::new();
    loop {
        let effect = match decide(&facts) {
            Decision::Do(effects) => effects[0].clone(),
            Decision::Done(when) => {
                assert!(is_retry(&when));
                break;
            }
        };
        let outcome = match &effect {
            IpamEffect::Patch(..) => {
                let error = ClusterError::Conflict("changed".to_owned());
                Performed::Ended(IpamOutcome::Node(Err(error)))
            }
            _ => api.clone().perform(&effect, Fate::Made),
        };
        done.push(effect.to_string());
        facts.absorb(&effect, outcome);
    }
    let patches = done
        .iter()
        .filter(|effect| effect.starts_with("patch"))
        .count();
    assert_eq!((patches, done.len()), (4, 8), "{done:?}");
}

#[test]
fn an_api_server_that_stores_nothing_is_not_asked_for_ever() {
    let (mut memory, api) = one_node();
    let mut facts = memory.begin(api.get("a").unwrap()).unwrap();
    let Decision::Do(effects) = decide(&facts) else {
        unreachable!("there is something to write")
    };
    facts.absorb(
        &effects[0],
        Performed::Ended(IpamOutcome::Node(Ok(Some(Box::new(node("a", "1", "")))))),
    );
    facts.absorb(
        &IpamEffect::RecordEvent(
            crate::node::object::NodeRef {
                name: "a".to_owned(),
                uid: "1".to_owned(),
            },
            event(decide(&facts)),
        ),
        Performed::Ended(IpamOutcome::Event(EventOutcome::Recorded)),
    );
    let Decision::Done(when) = decide(&facts) else {
        unreachable!("told once")
    };
    memory.conclude(&facts, &when);
    assert!(is_retry(&when));
    assert_eq!(used(&memory), 0);
}

fn event(decision: Decision<IpamEffect>) -> crate::cloud::instance::CloudEvent {
    match decision {
        Decision::Do(effects) => match effects.into_iter().next() {
            Some(IpamEffect::RecordEvent(_, event)) => event,
            other => unreachable!("{other:?}"),
        },
        Decision::Done(when) => unreachable!("{when}"),
    }
}

#[test]
fn ipam_022_and_028_what_is_wrong_with_a_node_is_told_once_and_nothing_is_written() {
    let mut memory = memory("10.0.0.0/22 /24", "");
    let mut api = Api::default();
    api.add(node("a", "1", "192.168.0.0/24"));
    assert!(memory.see(&api.get("a").unwrap()));
    let (done, when) = reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert_eq!(done, ["event node/a Warning InvalidPodCIDR"]);
    assert_eq!(when, When::AwaitChange);
    assert!(!memory.see(&api.get("a").unwrap()), "a heartbeat");
    assert_eq!(reconcile(&mut memory, &mut api, "a", Fate::Made).0, [""; 0]);
}

#[test]
fn what_is_withheld_is_worked_out_once_and_no_other_node_gets_the_same_in_a_plan() {
    let mut memory = memory("10.0.0.0/23 /24", "");
    let mut plan = |name: &str| {
        let mut facts = memory.begin(Arc::new(node(name, name, ""))).unwrap();
        let Decision::Do(effects) = decide(&facts) else {
            unreachable!("there is something to say")
        };
        facts.absorb(&effects[0], Performed::Withheld);
        let Decision::Done(when) = decide(&facts) else {
            unreachable!("it was said")
        };
        memory.conclude(&facts, &when);
        (effects[0].to_string(), when == When::AwaitChange)
    };
    let expected = |name: &str, block: &str| (format!("patch node/{name} podCIDRs={block}"), true);
    assert_eq!(plan("a"), expected("a", "10.0.0.0/24"));
    assert_eq!(plan("a"), expected("a", "10.0.0.0/24"));
    assert_eq!(plan("b"), expected("b", "10.0.1.0/24"));
    let full = ("event node/c Warning CIDRNotAvailable".to_owned(), false);
    assert_eq!(plan("c"), full);
    assert_eq!(used(&memory), 2);
    memory.forget("a");
    memory.see(&node("b", "b", "10.0.0.0/24"));
    assert_eq!(used(&memory), 1, "nothing stays behind");
}

#[test]
fn ipam_025_upstreams_form_of_the_message_and_the_range_that_is_full() {
    let mut memory = memory("10.0.0.0/24 /24", "");
    let mut api = Api::default();
    api.add(node("a", "1", "10.0.0.0/24"));
    memory.see(&api.get("a").unwrap());
    let facts = memory.begin(Arc::new(node("b", "2", ""))).unwrap();
    let event = event(decide(&facts));
    assert_eq!(event.event_type, crate::cloud::instance::EventType::Warning);
    assert_eq!(
        event.message,
        "Node b status is now: CIDRNotAvailable (CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range 10.0.0.0/24)"
    );
}

#[test]
fn a_reconciliation_that_nobody_knows_the_end_of_keeps_its_block() {
    let (mut memory, api) = one_node();
    let node = api.get("a").unwrap();
    assert!(memory.begin(node.clone()).is_some());
    memory.abandon(&node);
    memory
        .allocator()
        .is_unanswered(&node)
        .then_some(())
        .unwrap();
    assert_eq!((used(&memory), memory.failures("a")), (1, 1));
    memory.forget("a");
    assert_eq!(used(&memory), 0);
}

#[test]
fn ipam_023_a_deletion_that_nobody_told_of_is_noticed_by_the_next_list() {
    let mut memory = memory("10.0.0.0/22 /24", "");
    for name in ["a", "b", "c"] {
        memory.see(&node(name, name, ""));
    }
    memory.see(&node("a", "a", "10.0.0.0/24"));
    assert!(memory.begin(Arc::new(node("b", "b", ""))).is_some());
    assert_eq!(used(&memory), 2);
    assert_eq!(memory.keep(|name| name == "c"), ["a", "b"]);
    assert_eq!(
        (
            used(&memory),
            memory.allocator().names().collect::<Vec<_>>()
        ),
        (0, vec!["c"])
    );
}

#[test]
fn a_node_that_was_made_again_has_nothing_of_the_one_before() {
    let (mut memory, mut api) = one_node();
    reconcile(&mut memory, &mut api, "a", Fate::Made);
    // The watch did not deliver its deletion.
    api.add(node("a", "2", ""));
    assert!(memory.see(&api.get("a").unwrap()));
    assert_eq!(used(&memory), 0);
    let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert_eq!(done, ["patch node/a podCIDRs=10.0.1.0/24"]);
}

/// A restored etcd has the node from before it got its pod CIDRs.
#[test]
fn ipam_026_a_node_that_a_restored_etcd_has_without_its_pod_cidrs_gets_them_again() {
    let (mut memory, mut api) = one_node();
    api.add(node("b", "2", ""));
    let restored = api.get("a").unwrap();
    reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert!(!memory.see_lost(&restored, false), "the watch may be late");
    assert!(memory.see_lost(&restored, true));
    assert_eq!(used(&memory), 1, "nobody else gets them meanwhile");
    // The list was older than our write.
    let mut facts = memory.begin(restored.clone()).unwrap();
    let (done, when) = lead(&mut facts, &mut api, Fate::Made);
    memory.conclude(&facts, &when);
    assert_eq!(done, ["read node/a"]);
    assert!(!memory.see_lost(&api.get("a").unwrap(), true));
    api.add((*restored).clone());
    assert!(memory.see_lost(&restored, true));
    reconcile(&mut memory, &mut api, "b", Fate::Made);
    let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert_eq!(done, ["read node/a", "patch node/a podCIDRs=10.0.0.0/24"]);
    assert_eq!(used(&memory), 2);
}

#[test]
fn of_lost_pod_cidrs_a_watch_tells_only_by_a_newer_state() {
    let node = |version: &str| fixtures::node("a").uid("1").resource_version(version);
    for (version, is_lost) in [("4", false), ("5", false), ("6", true), ("x", false)] {
        let mut memory = memory("10.0.0.0/22 /24", "");
        let has: PrunedNode = node("5").pod_cidrs(&["10.0.0.0/24"]).build();
        memory.see(&has);
        let later: PrunedNode = node(version).build();
        assert_eq!(memory.see_lost(&later, false), is_lost, "{version}");
    }
}

#[test]
fn pod_cidrs_that_a_restored_etcd_has_lost_are_not_given_again_where_they_belong_to_others() {
    let (mut memory, mut api) = one_node();
    let restored = api.get("a").unwrap();
    reconcile(&mut memory, &mut api, "a", Fate::Made);
    // A node of the time before, whose deletion and whose block's reuse the restored etcd does not know.
    api.add((*restored).clone());
    api.add(node("old", "9", "10.0.0.0/24"));
    assert!(memory.see_lost(&restored, true));
    memory.see(&api.get("old").unwrap());
    let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert_eq!(done, ["patch node/a podCIDRs=10.0.1.0/24"]);
    // Nor are those that another node has, too.
    let (mut memory, mut api) = one_node();
    memory.see(&node("a", "1", "10.0.0.0/24"));
    memory.see(&node("b", "2", "10.0.0.0/24"));
    assert!(memory.see_lost(&restored, true));
    let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert_eq!(done, ["read node/a", "patch node/a podCIDRs=10.0.1.0/24"]);
    // Pod CIDRs that lie outside are not given again, either.
    let mut memory = super::world::memory("10.0.0.0/22 /24", "");
    memory.see(&node("a", "1", "192.168.0.0/24"));
    assert!(memory.see_lost(&restored, true));
    api.add((*restored).clone());
    let (done, _) = reconcile(&mut memory, &mut api, "a", Fate::Made);
    assert_eq!(done, ["read node/a", "patch node/a podCIDRs=10.0.0.0/24"]);
    assert_eq!(used(&memory), 1);
}
