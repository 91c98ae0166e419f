//! Answers that come when the node is another one, or Ready again.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::super::*;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{FindReply, Instance, Lookup};
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::node::ownership::OwnershipContext;
use crate::settings::LifecycleRules;
use crate::well_known::SHUTDOWN_TAINT;

/// The node `a` of this provider.
fn node_a(uid: &str, ready: &str, taints: &Value) -> [Arc<PrunedNode>; 1] {
    identified(uid, "sim://a", ready, taints)
}

/// The same with this provider ID.
fn identified(uid: &str, provider_id: &str, ready: &str, taints: &Value) -> [Arc<PrunedNode>; 1] {
    [named("a", uid, provider_id, ready, taints)]
}

fn named(name: &str, uid: &str, provider_id: &str, ready: &str, taints: &Value) -> Arc<PrunedNode> {
    let node = json!({
        "metadata": { "name": name, "uid": uid, "labels": { "wasm-ccm.dev/provider": "sim" } },
        "spec": { "providerID": provider_id, "taints": taints },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

/// What passes have in common.
struct PassContext {
    ownership: Arc<OwnershipContext>,
    rules: Arc<LifecycleRules>,
}

impl PassContext {
    fn new() -> PassContext {
        PassContext {
            ownership: Arc::new(OwnershipContext::alone("sim", vec!["sim".to_owned()])),
            rules: Arc::default(),
        }
    }

    fn pass<'a>(&'a self, nodes: &'a [Arc<PrunedNode>], second: u64) -> Pass<'a> {
        Pass {
            nodes,
            ownership: &self.ownership,
            rules: &self.rules,
            now: Now {
                moment: at(second),
                wall: Timestamp::from_second(3600).unwrap(),
            },
        }
    }
}

fn at(second: u64) -> Moment {
    Moment(Duration::from_secs(second))
}

fn gone() -> FindReply {
    FindReply {
        lookups: vec![Lookup::Gone],
        complete: true,
        ..FindReply::default()
    }
}

#[test]
fn an_answer_that_comes_when_the_node_is_ready_again_does_not_keep_its_taint() {
    let taints = json!([{ "key": SHUTDOWN_TAINT, "effect": "NoSchedule" }]);
    let node = |ready: &str| node_a("u", ready, &taints);
    let (off, on) = (node("Unknown"), node("True"));
    let context = PassContext::new();
    let throttled = ProviderError::Throttled {
        message: "429".to_owned(),
        retry_after: Some(Duration::from_secs(3600)),
    };
    for answer in [Err(throttled), Ok(gone())] {
        let mut memory = Memory::default();
        let mut pass = |nodes: &[Arc<PrunedNode>], second: u64, answered: Option<&Survey>| {
            let pass = context.pass(nodes, second);
            let surveys = match answered {
                Some(survey) => {
                    memory.absorb(survey, &answer, at(second));
                    Vec::new()
                }
                None => memory.begin(&pass),
            };
            let findings = memory.facts(&pass).into_iter().map(|facts| facts.finding);
            (surveys, findings.collect::<Vec<_>>())
        };
        let (surveys, _) = pass(&off, 0, None);
        // The call goes on when the node is Ready.
        assert_eq!(pass(&on, 5, None), (vec![], vec![]));
        assert_eq!(pass(&on, 8, surveys.first()).1, []);
        assert_eq!(pass(&on, 10, None).1, [Finding::Back]);
    }
}

#[test]
fn edge_005_an_answer_about_the_node_that_had_the_name_before_is_no_answer_about_the_new_one() {
    let node = |uid: &str| node_a(uid, "Unknown", &json!([]));
    counts_for_nothing(&node("u1"), &node("u2"));
}

/// It may have been about another machine of that name.
#[test]
fn an_answer_about_a_node_without_a_provider_id_is_no_answer_about_it_once_it_has_one() {
    let node = |id: &str| identified("u", id, "Unknown", &json!([]));
    counts_for_nothing(&node(""), &node("sim://a"));
}

/// An answer about `old` that comes when the node is `new`.
fn counts_for_nothing(old: &[Arc<PrunedNode>], new: &[Arc<PrunedNode>]) {
    let context = PassContext::new();
    let unavailable = ProviderError::Unavailable("503".to_owned());
    for late in [Err(unavailable), Ok(gone())] {
        let mut memory = Memory::default();
        let mut pass = |nodes: &[Arc<PrunedNode>], second: u64, answered: Option<(&Survey, &_)>| {
            let pass = context.pass(nodes, second);
            let surveys = match answered {
                Some((survey, answer)) => {
                    memory.absorb(survey, answer, at(second));
                    Vec::new()
                }
                None => memory.begin(&pass),
            };
            (surveys, memory.facts(&pass))
        };
        let (about_old, _) = pass(old, 0, None);
        let (about_new, _) = pass(new, 5, None);
        // It neither counts nor ends the look-up of the new one.
        assert_eq!(pass(new, 8, Some((&about_old[0], &late))).1, []);
        assert_eq!(pass(new, 60, None), (vec![], vec![]));
        let (_, facts) = pass(new, 61, Some((&about_new[0], &Ok(gone()))));
        let findings: Vec<&Finding> = facts.iter().map(|facts| &facts.finding).collect();
        let [Finding::Gone(evidence)] = findings.as_slice() else {
            panic!("{late:?}: {findings:?}");
        };
        assert_eq!(evidence.gone.answers, 1, "{late:?}");
    }
}

/// The Ready node `a` is the witness of the look-up of `b`. Both are created again while the first look-up goes on.
#[test]
fn an_answer_about_a_former_witness_neither_counts_for_the_new_one_nor_takes_from_it() {
    let taints = json!([]);
    let nodes = |uid: &str| {
        [("a", "True"), ("b", "Unknown")]
            .map(|(name, ready)| named(name, uid, &format!("sim://{name}"), ready, &taints))
    };
    let (old, new) = (nodes("u1"), nodes("u2"));
    let context = PassContext::new();
    let found = Lookup::Found(Box::new(Instance {
        provider_id: "sim://a".to_owned(),
        ..Instance::default()
    }));
    // The answers about `a`. A young node that is called gone is a contradiction only if it was found itself.
    let of_old = |lookup: &Lookup| (false, lookup.clone());
    let of_new = |lookup: &Lookup| (true, lookup.clone());
    let gone_too = Lookup::Gone;
    for (answers, contradicted_by) in [
        (vec![of_old(&found), of_new(&gone_too)], None),
        (
            vec![of_new(&found), of_old(&found), of_new(&gone_too)],
            Some("a"),
        ),
        (vec![of_new(&found), of_old(&gone_too)], None),
    ] {
        let mut memory = Memory::default();
        let about_old = memory.begin(&context.pass(&old, 0));
        let about_new = memory.begin(&context.pass(&new, 5));
        for (is_new, of_a) in &answers {
            let surveys = if *is_new { &about_new } else { &about_old };
            let reply = FindReply {
                lookups: vec![Lookup::Gone, of_a.clone()],
                ..gone()
            };
            memory.absorb(&surveys[0], &Ok(reply), at(8));
        }
        let facts = memory.facts(&context.pass(&new, 8));
        let Finding::Gone(evidence) = &facts[0].finding else {
            panic!("{answers:?}: {:?}", facts[0].finding);
        };
        assert_eq!(
            evidence.contradicted_by.as_deref(),
            contradicted_by,
            "{answers:?}"
        );
    }
}

#[test]
fn two_answers_are_as_far_apart_as_the_receipt_of_one_and_the_request_of_the_next() {
    let nodes = node_a("u", "Unknown", &json!([]));
    let context = PassContext::new();
    let gone = Ok(gone());
    let mut memory = Memory::default();
    // The receipt of the first answer and the request of the last one.
    let mut spans = Vec::new();
    for asked in [0, 15] {
        let answered = asked + 3;
        let surveys = memory.begin(&context.pass(&nodes, asked));
        memory.absorb(&surveys[0], &gone, at(answered));
        let facts = memory.facts(&context.pass(&nodes, answered));
        let Finding::Gone(evidence) = &facts[0].finding else {
            panic!("{:?}", facts[0].finding);
        };
        spans.push((evidence.gone.first, evidence.gone.last));
        let when = When::Retry {
            after: Duration::from_secs(5),
            why: "a second answer is required".to_owned(),
        };
        memory.conclude(&facts[0], &when, at(answered));
    }
    assert_eq!(spans, [(at(3), at(0)), (at(3), at(15))]);
}

#[test]
fn what_is_concluded_about_a_node_that_is_ready_by_then_is_outdated() {
    let node = |ready: &str| node_a("u", ready, &json!([]));
    let (off, on) = (node("Unknown"), node("True"));
    let context = PassContext::new();
    let instance = Instance {
        provider_id: "sim://a".to_owned(),
        shutdown: Some(true),
        ..Instance::default()
    };
    let answer = Ok(FindReply {
        lookups: vec![Lookup::Found(Box::new(instance))],
        complete: true,
        ..FindReply::default()
    });
    let mut memory = Memory::default();
    let surveys = memory.begin(&context.pass(&off, 0));
    memory.absorb(&surveys[0], &answer, at(0));
    let facts = memory.facts(&context.pass(&off, 0));
    assert_eq!(facts[0].finding, Finding::ShutDown);
    // The reconciliation goes on when the node is Ready.
    memory.begin(&context.pass(&on, 5));
    assert!(memory.take_outdated().is_empty());
    memory.conclude(&facts[0], &When::AwaitChange, at(6));
    assert_eq!(memory.take_outdated(), ["a"]);
    assert!(memory.take_outdated().is_empty());
}

#[test]
fn what_is_concluded_about_the_node_that_had_the_name_before_is_no_past_of_the_new_one() {
    let node = |uid: &str| node_a(uid, "Unknown", &json!([]));
    let (old, new) = (node("u1"), node("u2"));
    let context = PassContext::new();
    let gone = Ok(gone());
    let mut memory = Memory::default();
    let surveys = memory.begin(&context.pass(&old, 0));
    memory.absorb(&surveys[0], &gone, at(0));
    let mut about_old = memory.facts(&context.pass(&old, 0));
    about_old[0].past.braked = Some(at(0));
    // The node is recreated during the reconciliation.
    let surveys = memory.begin(&context.pass(&new, 5));
    memory.conclude(&about_old[0], &When::AwaitChange, at(6));
    memory.absorb(&surveys[0], &gone, at(6));
    let about_new = memory.facts(&context.pass(&new, 6));
    assert_eq!(about_new[0].past.braked, None);
}
