//! A new node with several candidate providers, seen by one of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::cloud::error::ProviderError;
use crate::cloud::instance::{Address, AddressType, CloudEvent, EventType, Instance, Lookup};
use crate::moment::Moment;
use crate::node::index::Clashes;
use crate::node::ownership::{Claim, OtherVote, OwnershipContext, Verdict, Vote};
use crate::node::{CandidateVote, Facts, Looked, NodeEffect, NodeOutcome, RetainedState, decide};
use crate::reconciliation::effect::{Decision, EventOutcome, Performed, When};
use crate::settings::NodeRules;

/// A tainted node without a provider ID, with `b` as a second candidate, that has waited this many seconds.
fn facts(waited: Option<u64>) -> Facts {
    let node = json!({
        "metadata": { "name": "a", "uid": "u", "resourceVersion": "1" },
        "spec": { "taints": [{ "key": crate::well_known::UNINITIALIZED_TAINT, "effect": "NoSchedule" }] }
    });
    let ownership = OwnershipContext {
        others: vec![Claim {
            name: "b".to_owned(),
            schemes: vec!["b".to_owned()],
            selector: None,
        }],
        ..OwnershipContext::alone("sim", vec!["sim".to_owned()])
    };
    let past = RetainedState {
        waiting_since: waited.map(|seconds| Moment(Duration::from_secs(1_000 - seconds))),
        ..RetainedState::default()
    };
    let (ownership, rules) = (Arc::new(ownership), Arc::new(NodeRules::default()));
    Facts::new(
        Arc::new(serde_json::from_value(node).unwrap()),
        ownership,
        rules,
        past,
    )
}

fn now() -> Moment {
    Moment(Duration::from_secs(1_000))
}

fn looked(lookup: Lookup) -> NodeOutcome {
    NodeOutcome::Looked(Ok(Looked {
        lookup,
        // The Events of a provider that may not be the owner are not recorded.
        events: vec![CloudEvent::new(
            EventType::Warning,
            "Advertisement",
            "buy".to_owned(),
        )],
        complete: true,
        clashes: Clashes::default(),
    }))
}

fn found() -> Lookup {
    Lookup::Found(Box::new(Instance {
        provider_id: "sim://1".to_owned(),
        addresses: vec![Address {
            address_type: AddressType::InternalIp,
            address: "10.0.0.1".to_owned(),
        }],
        ..Instance::default()
    }))
}

/// The provider's vote after this answer.
fn vote_after(waited: Option<u64>, answer: NodeOutcome) -> (Facts, CandidateVote) {
    let mut facts = facts(waited);
    let Decision::Do(effects) = decide(&facts, now()) else {
        panic!("the provider is asked");
    };
    assert!(matches!(effects.as_slice(), [NodeEffect::Find(_)]));
    facts.absorb(&effects[0], Performed::Ended(answer));
    match decide(&facts, now()) {
        Decision::Do(effects) => match effects.as_slice() {
            [NodeEffect::CastVote(_, vote)] => (facts, vote.clone()),
            other => panic!("the others are heard before anything else: {other:?}"),
        },
        done @ Decision::Done(_) => panic!("{done:?}"),
    }
}

fn cast(facts: &mut Facts, vote: CandidateVote, verdict: Verdict, tell: bool) {
    let cast = NodeEffect::CastVote(facts.node.node_ref(), vote);
    let outcome = NodeOutcome::VoteCast(verdict, tell);
    facts.absorb(&cast, Performed::Ended(outcome));
}

/// The Events and the end of a reconciliation with this combined verdict.
fn end(waited: Option<u64>, answer: Lookup, verdict: Verdict, tell: bool) -> (Vec<String>, When) {
    let (mut facts, vote) = vote_after(waited, looked(answer));
    cast(&mut facts, vote, verdict, tell);
    let mut reasons = Vec::new();
    loop {
        match decide(&facts, now()) {
            Decision::Done((when, _)) => return (reasons, when),
            Decision::Do(effects) => {
                for effect in effects {
                    let NodeEffect::RecordEvent(_, event) = &effect else {
                        panic!("nothing is written: {effect}");
                    };
                    reasons.push(event.reason.clone());
                    let recorded = NodeOutcome::Event(EventOutcome::Recorded);
                    facts.absorb(&effect, Performed::Ended(recorded));
                }
            }
        }
    }
}

#[test]
fn every_answer_is_said_to_the_other_candidates_before_anything_is_done_with_it() {
    let down = || NodeOutcome::Looked(Err(ProviderError::Unavailable("no route".to_owned())));
    for (answer, expected) in [
        (looked(found()), "found"),
        (looked(Lookup::NotMine), "not-mine"),
        (looked(Lookup::Gone), "not-mine"),
        (looked(Lookup::Unknown("why".to_owned())), "silent"),
        (down(), "silent"),
    ] {
        let (_, vote) = vote_after(None, answer);
        assert_eq!(vote.vote.to_string(), expected);
        assert_eq!(vote.others, ["b"]);
        assert!(vote.is_quiet);
    }
    assert!(!vote_after(Some(30), down()).1.is_quiet, "half a minute");
}

#[test]
fn only_when_the_node_is_its_own_alone_does_a_candidate_write() {
    let (mut facts, vote) = vote_after(None, looked(found()));
    cast(&mut facts, vote, Verdict::Ours, false);
    let Decision::Do(effects) = decide(&facts, now()) else {
        panic!("it is initialised");
    };
    assert!(matches!(effects.as_slice(), [NodeEffect::PatchStatus(..)]));
}

#[test]
fn in_all_other_cases_nothing_is_written_and_one_event_says_why_when_it_is_this_ones_turn() {
    let names = || vec!["b".to_owned(), "sim".to_owned()];
    let silent = || {
        vec![OtherVote {
            provider: "b".to_owned(),
            vote: Some(Vote::Silent("down".to_owned())),
        }]
    };
    for (answer, verdict, reason, reported) in [
        (
            found(),
            Verdict::FoundBy(names()),
            "ProviderAmbiguous",
            "\"b\", \"sim\" all know",
        ),
        (
            found(),
            Verdict::WaitsFor(silent()),
            "ProviderUndecided",
            "\"b\" could not say (down)",
        ),
        (
            Lookup::NotMine,
            Verdict::NotFound(names()),
            "InstanceNotFound",
            "none of the providers \"b\", \"sim\"",
        ),
        (
            Lookup::Gone,
            Verdict::NotFound(names()),
            "InstanceNotFound",
            "none of the providers",
        ),
    ] {
        let (reasons, when) = end(Some(60), answer.clone(), verdict.clone(), true);
        assert_eq!(reasons, [reason]);
        let When::Retry { why, .. } = when else {
            panic!("it is tried again: {when:?}");
        };
        assert!(why.contains(reported), "{why}");
        let (reasons, _) = end(Some(60), answer, verdict, false);
        assert!(reasons.is_empty(), "somebody else has said it");
    }
    let (reasons, when) = end(Some(60), Lookup::NotMine, Verdict::Open, false);
    assert!(reasons.is_empty() && matches!(when, When::Retry { .. }));
}

#[test]
fn why_a_provider_cannot_answer_is_its_own_to_say() {
    let down = NodeOutcome::Looked(Err(ProviderError::Unavailable("no route".to_owned())));
    let (mut facts, vote) = vote_after(Some(60), down);
    cast(&mut facts, vote, Verdict::Open, false);
    let Decision::Do(effects) = decide(&facts, now()) else {
        panic!("it is told");
    };
    let is_recorded = matches!(effects.as_slice(), [NodeEffect::RecordEvent(_, event)] if event.reason == "InstanceLookupFailed");
    assert!(is_recorded, "{effects:?}");
}

#[test]
fn an_answer_that_waits_for_the_others_is_kept_and_one_that_does_not_is_asked_for_again() {
    let kept = |answer: Lookup, verdict: Verdict| {
        let (mut facts, vote) = vote_after(None, looked(answer));
        cast(&mut facts, vote, verdict, false);
        (facts.unstored_answer().is_some(), facts.is_anothers())
    };
    assert_eq!(kept(found(), Verdict::WaitsFor(Vec::new())), (true, false));
    assert_eq!(kept(found(), Verdict::FoundBy(Vec::new())), (false, false));
    assert_eq!(kept(Lookup::NotMine, Verdict::Open), (false, true));
    assert_eq!(
        kept(Lookup::Unknown("x".to_owned()), Verdict::Open),
        (false, false)
    );
}
