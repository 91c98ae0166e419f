//! Which annotations a provider may write to a Service.

use super::world::*;
use crate::reconciliation::effect::When;
use crate::safety::permit::Mode;
use serde_json::{Value, json};

#[test]
fn what_was_granted_is_written_with_the_status_and_costs_no_second_question() {
    let mut world = world();
    world.ensure = [annotating(
        ready(&["192.0.2.1"], 1),
        "lb.example.com/id",
        Some("7"),
    )]
    .into();
    let run = world.reconcile();
    assert_eq!(
        run.acts()[3],
        "patch annotations(1) status=192.0.2.1 wasm-ccm.dev/LoadBalancer=true"
    );
    assert_eq!(world.annotation("lb.example.com/id"), Some("7"));
    does_nothing(&mut world);
    // Another writer has removed it: the provider is called, and requests it again.
    world.stored["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove("lb.example.com/id");
    world.reconcile();
    assert_eq!(world.annotation("lb.example.com/id"), Some("7"));
}

#[test]
fn a_wish_can_remove_and_is_heard_while_something_is_begun() {
    let mut world = made();
    world.stored["metadata"]["annotations"]["lb.example.com/old"] = json!("x");
    world.ensure = [annotating(begun("h"), "lb.example.com/old", None)].into();
    let run = world.reconcile();
    assert_eq!(run.acts(), ["ensure targets(2)", "patch annotations(1)"]);
    assert_eq!(world.annotation("lb.example.com/old"), None);
    assert_ne!(run.end, When::AwaitChange);
    does_nothing(&mut world);
}

#[test]
fn an_annotation_that_a_webhook_changes_is_written_once_and_not_for_ever() {
    let webhooks: [fn(&mut Value); 2] = [
        |stored| stored["metadata"]["annotations"] = json!({ OWNER: "sim" }),
        |stored| stored["metadata"]["annotations"]["lb.example.com/id"] = json!("8"),
    ];
    for webhook in webhooks {
        let mut world = made();
        let answer = ready(&["192.0.2.1"], 0);
        world.ensure = [annotating(answer, "lb.example.com/id", Some("7"))].into();
        world.past.drift_due = true;
        world.webhook = webhook;
        assert!(!world.reconcile().is_outdated);
        does_nothing(&mut world);
    }
}

#[test]
fn an_annotation_that_the_mode_withholds_is_planned_once() {
    let mut world = made();
    let answer = ready(&["192.0.2.1"], 0);
    world.ensure = [annotating(answer, "lb.example.com/id", Some("7"))].into();
    world.past = Default::default();
    world.mode = Mode::Plan;
    let run = world.reconcile();
    assert_eq!(run.acts(), ["ensure targets(2)", "patch annotations(1)"]);
    assert!(!run.is_outdated);
    does_nothing(&mut world);
}

#[test]
fn what_was_not_granted_is_left_out_and_said() {
    let long = "x".repeat(4097);
    for (key, value, problem) in [
        ("other.example.com/id", "7", "not under a prefix"),
        ("id", "7", "not under a prefix"),
        (
            "wasm-ccm.dev/provider",
            "other",
            "belongs to Kubernetes or to this manager",
        ),
        (
            "x.wasm-ccm.dev/y",
            "7",
            "belongs to Kubernetes or to this manager",
        ),
        ("service.beta.kubernetes.io/x", "7", "belongs to Kubernetes"),
        ("kubernetes.io/x", "7", "belongs to Kubernetes"),
        ("autoscaling.k8s.io/x", "7", "belongs to Kubernetes"),
        ("lb.example.com/a b", "7", "not an annotation key"),
        ("lb.example.com/", "7", "not an annotation key"),
        ("lb.example.com/id", long.as_str(), "too long"),
        ("lb.example.com/id", "a\nb", "control characters"),
    ] {
        let mut world = world();
        // The operator has granted prefixes that are reserved.
        world
            .prefixes
            .extend(["wasm-ccm.dev/".to_owned(), "kubernetes.io/".to_owned()]);
        let before = world.annotation(OWNER).map(str::to_owned);
        assert_eq!(before, None);
        world.ensure = [annotating(ready(&["192.0.2.1"], 0), key, Some(value))].into();
        let run = world.reconcile();
        assert_eq!(
            world.stored["metadata"]["annotations"],
            json!({ OWNER: "sim" }),
            "{key}"
        );
        let reported = run
            .events
            .iter()
            .find(|(reason, _)| reason == "InvalidProviderAnswer");
        assert!(reported.unwrap().1.contains(problem), "{key}: {reported:?}");
        assert_eq!(world.addresses(), ["192.0.2.1"], "the rest is good");
        assert_eq!(run.end, When::AwaitChange);
    }
}

#[test]
fn more_than_sixteen_annotations_are_too_many() {
    let mut world = world();
    let mut answer = ready(&["192.0.2.1"], 0);
    for number in 0..20 {
        answer = annotating(answer, &format!("lb.example.com/k{number}"), Some("v"));
    }
    world.ensure = [answer].into();
    world.reconcile();
    let written = world.stored["metadata"]["annotations"]
        .as_object()
        .unwrap()
        .len();
    assert_eq!(written, 16 + 1);
}

#[test]
fn f26_the_providers_events_are_recorded_if_they_are_fit() {
    use crate::cloud::instance::{CloudEvent, EventType};
    let event = |reason: &str, message: &str| {
        CloudEvent::new(EventType::Warning, reason, message.to_owned())
    };
    let mut world = world();
    let mut answer = ready(&["192.0.2.1"], 0);
    answer.as_mut().unwrap().reply.events = vec![
        event("TypeDeprecated", "lb11\n\u{7}is old"),
        event("not a reason", "x"),
    ];
    world.ensure = [answer].into();
    let run = world.reconcile();
    assert_eq!(
        run.events[1],
        ("TypeDeprecated".to_owned(), "lb11is old".to_owned())
    );
    assert_eq!(
        run.event_reasons(),
        [
            "EnsuringLoadBalancer",
            "TypeDeprecated",
            "EnsuredLoadBalancer"
        ]
    );
}

/// Who takes such an annotation away is corrected at growing intervals; a setting of the user's counts at once.
#[test]
fn the_annotations_of_an_answer_are_remembered_if_they_may_be_written() {
    let (granted, other) = ("lb.example.com/id", "example.com/id");
    for (key, is_remembered) in [(granted, true), (other, false)] {
        let mut world = made();
        world.past.drift_due = true;
        world.ensure = [annotating(ready(&["192.0.2.1"], 0), key, Some("7"))].into();
        world.reconcile();
        let written = world.past.answers.annotations.contains(key);
        assert_eq!(written, is_remembered, "{key}");
        // A pending answer need not name it again.
        world.past.drift_due = true;
        world.ensure = [begun("h")].into();
        world.reconcile();
        let written = world.past.answers.annotations.contains(key);
        assert_eq!(written, is_remembered, "{key}, pending");
    }
}
