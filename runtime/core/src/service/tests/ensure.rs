//! SVC-030 to SVC-039: a load balancer is made, and no Event or call is repeated.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::Ensured;
use crate::reconciliation::effect::{ClusterError, When};
use crate::service::{Account, ServiceAction, Witnesses};
use serde_json::json;
use std::time::Duration;

#[test]
fn svc_031_finalizer_and_owner_are_written_before_the_first_call() {
    let mut world = world();
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        [
            "event Normal EnsuringLoadBalancer",
            "patch +finalizer annotations(1)",
            "ensure targets(2)",
            "patch status=192.0.2.1 wasm-ccm.dev/LoadBalancer=true",
            "event Normal EnsuredLoadBalancer",
        ]
    );
    assert_eq!(run.end, When::AwaitChange);
    assert!(world.has_finalizer());
    assert_eq!(world.annotation(OWNER), Some("sim"));
    assert_eq!(world.addresses(), ["192.0.2.1"]);
}

#[test]
fn svc_031_without_the_finalizer_nothing_is_asked() {
    let mut world = world();
    world.errors = vec![ClusterError::Denied("403".to_owned())];
    let run = world.reconcile();
    assert_eq!(
        run.events.last().unwrap().1,
        "Error syncing load balancer: failed to add load balancer cleanup finalizer: denied: 403"
    );
    assert!(world.calls.is_empty());
}

#[test]
fn a_finalizer_that_an_admission_webhook_takes_away_is_not_written_for_ever() {
    let mut world = world();
    world.webhook = |stored| stored["metadata"]["finalizers"] = json!([]);
    let run = world.reconcile();
    assert_eq!(world.patches.len(), 1);
    assert!(
        run.why().contains("are not there after they were written"),
        "{}",
        run.why()
    );
    assert!(world.calls.is_empty());
}

#[test]
fn svc_013_a_finalizer_that_was_removed_by_hand_is_there_again_at_the_next_look() {
    let mut world = made();
    world.stored["metadata"]["finalizers"] = json!(["other"]);
    let run = world.reconcile();
    assert_eq!(run.acts(), ["patch +finalizer"]);
    assert_eq!(
        world.stored["metadata"]["finalizers"],
        json!(["other", FINALIZER])
    );
}

#[test]
fn what_is_made_is_neither_asked_about_nor_written_again() {
    let mut world = made();
    let run = does_nothing(&mut world);
    assert_eq!(run.end, When::AwaitChange);
    // Neither a write of our own nor one by kubectl causes a call.
    world.stored["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        json!("{}");
    world.stored["metadata"]["annotations"]["wasm-ccm.dev/x"] = json!("y");
    does_nothing(&mut world);
}

#[test]
fn edge_070_only_what_changes_is_announced() {
    let mut world = made();
    world.past.drift_due = true;
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        ["ensure targets(2)"],
        "a look that finds nothing says nothing"
    );
    assert!(!world.past.drift_due);

    world.stored["metadata"]["annotations"]["example.com/x"] = json!("y");
    assert_eq!(
        world.reconcile().acts(),
        ["ensure targets(2)"],
        "an annotation of anybody"
    );

    world.stored["spec"]["ports"][0]["nodePort"] = json!(30081);
    world.ensure = [ready(&["192.0.2.1"], 1)].into();
    assert_eq!(
        world.reconcile().acts(),
        [
            "event Normal EnsuringLoadBalancer",
            "ensure targets(2)",
            "event Normal EnsuredLoadBalancer"
        ]
    );
}

#[test]
fn a_recovery_is_said_after_a_failure_that_was() {
    let mut world = made();
    world.past.drift_due = true;
    world.ensure = [Err(denied())].into();
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["SyncLoadBalancerFailed"]);
    // The load balancer is as wanted after all: nothing is changed, and nothing stored.
    world.wait(600);
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["EnsuredLoadBalancer"]);
    world.past.drift_due = true;
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), Vec::<&str>::new(), "once");
}

#[test]
fn edge_070_ensured_is_said_after_the_status_is_stored() {
    let mut world = made();
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    world.ensure = [ready(&["192.0.2.2"], 1)].into();
    world.errors = vec![ClusterError::Unavailable("away".to_owned())];
    let run = world.reconcile();
    assert_eq!(
        run.event_reasons(),
        ["EnsuringLoadBalancer"],
        "it is not stored"
    );
    assert_eq!(
        run.why(),
        "failed to update load balancer status: unavailable: away"
    );
    let run = world.reconcile();
    assert_eq!(
        run.event_reasons(),
        ["EnsuredLoadBalancer"],
        "announced once, and ended once"
    );
    assert_eq!(world.addresses(), ["192.0.2.2"]);
}

#[test]
fn after_a_restart_everything_is_looked_at_once_and_nothing_is_announced() {
    let mut world = made();
    world.past = Default::default();
    assert_eq!(world.reconcile().acts(), ["ensure targets(2)"]);
    does_nothing(&mut world);
}

#[test]
fn edge_065_a_status_that_somebody_has_edited_is_repaired() {
    let mut world = made();
    world.stored["status"]["loadBalancer"] = json!({ "ingress": [{ "ip": "192.0.2.66" }] });
    let run = world.reconcile();
    assert_eq!(
        run.acts()[..2],
        ["ensure targets(2)", "patch status=192.0.2.1"]
    );
    does_nothing(&mut world);
}

#[test]
fn svc_035_what_somebody_else_implements_is_neither_said_nor_written() {
    let mut world = world();
    world.ensure = [Err(ProviderError::Elsewhere)].into();
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        [
            "event Normal EnsuringLoadBalancer",
            "patch +finalizer annotations(1)",
            "ensure targets(2)",
            "patch wasm-ccm.dev/LoadBalancer=true"
        ]
    );
    assert_eq!(run.end, When::AwaitChange);
    assert!(world.has_finalizer() && world.addresses().is_empty());
    does_nothing(&mut world);
}

#[test]
fn svc_036_an_error_is_told_in_upstreams_words_and_comes_back() {
    let mut world = world();
    world.ensure = [Err(unavailable())].into();
    let run = world.reconcile();
    assert_eq!(
        run.events.last().unwrap(),
        &(
            "SyncLoadBalancerFailed".to_owned(),
            "Error syncing load balancer: failed to ensure load balancer: unavailable: 502"
                .to_owned()
        )
    );
    let mut delay = || {
        world.wait(20);
        world.reconcile().again().as_secs()
    };
    let delays = [delay(), delay(), delay(), delay()];
    assert_eq!(delays, [2, 4, 8, 16], "the first was 1 s");
    assert!(world.addresses().is_empty());
}

#[test]
fn svc_022_a_delay_that_the_cloud_asks_for_is_honoured_on_every_path() {
    let throttled = || ProviderError::Throttled {
        message: "429".to_owned(),
        retry_after: Some(Duration::from_secs(42)),
    };
    let after = |run: Run| match run.end {
        When::NotBefore { after, .. } => after.as_secs(),
        other => panic!("{other}"),
    };
    let mut world = world();
    world.ensure = [Err(throttled())].into();
    assert_eq!(after(world.reconcile()), 42);

    let mut world = made();
    world.with_nodes(&["a", "b", "c"]);
    world.update = [Err(throttled())].into();
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["UpdateLoadBalancerFailed"]);
    assert_eq!(after(run), 42);
    assert_eq!(world.calls.len(), 1, "no second question");

    for (delete, get) in [(true, false), (false, true)] {
        let mut world = made();
        world.delete_object();
        if delete {
            world.delete = [Err(throttled())].into();
        }
        if get {
            world.get = [Err(throttled())].into();
        }
        assert_eq!(after(world.reconcile()), 42);
        assert!(world.has_finalizer());
        world.is_gone = true;
        assert_eq!(after(world.reconcile()), 42, "also without the object");
    }
}

/// Its part of the budget is spent: whoever edits a Service must not leave it on dead nodes, or keep it from deletion.
#[test]
fn f33_while_the_brake_holds_what_a_service_asks_for_its_targets_follow_and_it_can_be_deleted() {
    let mut world = made();
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    world.with_nodes(&["a", "b", "c"]);
    world.ensure = [
        Err(ProviderError::Held(Duration::from_secs(240))),
        ready(&["192.0.2.1"], 1),
    ]
    .into();
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        [
            "event Normal EnsuringLoadBalancer",
            "ensure targets(3)",
            "update targets(3)",
            "event Normal UpdatedLoadBalancer",
            "event Warning BrakeEngaged",
        ]
    );
    let held = "the brake cloud-mutations is engaged because its budget, or the part of it for one object or namespace, is exhausted: the cloud was changed very often; --brake=cloud-mutations=… raises it";
    assert_eq!((run.again().as_secs(), run.why()), (240, held));
    assert!(matches!(run.end, When::Retry { .. }), "{}", run.end);
    world.wait(10);
    world.with_nodes(&["a", "b"]);
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        ["update targets(2)", "event Normal UpdatedLoadBalancer"]
    );
    // Another edit would be held, too.
    world.stored["spec"]["ports"][0]["port"] = json!(82);
    assert_eq!(does_nothing(&mut world).again().as_secs(), 230);
    for is_deleted in [false, true] {
        let mut world = World {
            stored: world.stored.clone(),
            nodes: world.nodes.clone(),
            past: world.past.clone(),
            now: world.now,
            ensure: world.ensure.clone(),
            ..made()
        };
        match is_deleted {
            true => world.delete_object(),
            false => world.wait(230),
        }
        world.reconcile();
        let is_deletion = |call: &ServiceAction| matches!(call, ServiceAction::Delete(_));
        assert_eq!(world.calls.iter().any(is_deletion), is_deleted);
        let is_ensure = |call: &ServiceAction| matches!(call, ServiceAction::Ensure(_));
        assert_eq!(world.calls.iter().any(is_ensure), !is_deleted);
        assert_eq!(world.has_finalizer(), !is_deleted);
    }
}

#[test]
fn svc_032_without_nodes_it_is_said_once_and_the_provider_is_asked() {
    let mut world = world();
    world.with_nodes(&[]);
    let run = world.reconcile();
    assert!(
        run.effects
            .contains(&"ensure service/default/web targets(0)".to_owned())
    );
    assert!(run.events.contains(&(
        "UnAvailableLoadBalancer".to_owned(),
        "There are no available nodes for LoadBalancer".to_owned()
    )));
    world.past.drift_due = true;
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    assert_eq!(world.reconcile().event_reasons(), [] as [&str; 0]);
}

#[test]
fn what_was_begun_ends_without_a_wait_inside_of_the_reconciliation() {
    let mut world = world();
    world.ensure = [
        begun("action 7"),
        begun("action 7"),
        ready(&["192.0.2.1"], 0),
    ]
    .into();
    let run = world.reconcile();
    assert_eq!(run.again(), Duration::from_millis(500));
    assert_eq!(run.event_reasons(), ["EnsuringLoadBalancer"]);
    // An earlier reconciliation does not cause a call.
    let run = does_nothing(&mut world);
    assert_eq!(run.again(), Duration::from_millis(500));
    world.wait(1);
    assert_eq!(world.reconcile().acts(), ["ensure targets(2) hint"]);
    assert_eq!(world.past.failures, 0);
    world.wait(1);
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["EnsuredLoadBalancer"]);
    assert_eq!(run.end, When::AwaitChange);
    assert_eq!(world.addresses(), ["192.0.2.1"]);
    assert_eq!(world.past.phase.hint(), None);
}

#[test]
fn what_is_wanted_anew_does_not_wait_for_what_was_begun() {
    let mut world = world();
    world.ensure = [begun("action 7"), ready(&["192.0.2.1"], 0)].into();
    world.reconcile();
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    let run = world.reconcile();
    assert_eq!(run.end, When::AwaitChange);
    let Some(ServiceAction::Ensure(request)) = world.calls.last() else {
        panic!("{:?}", run.effects);
    };
    assert_eq!(request.service.ports[0].port, 81);
}

#[test]
fn a_provider_that_asks_for_no_or_endless_patience_gets_neither() {
    for (asked, millis) in [
        (0, 100),
        (100, 100),
        (599_000, 599_000),
        (86_400_000, 600_000),
    ] {
        let mut world = world();
        let mut long = pending("x");
        long.retry_after = Duration::from_millis(asked);
        world.ensure = [answered(Ensured::Pending(long), 0)].into();
        assert_eq!(world.reconcile().again().as_millis(), millis);
    }
}

#[test]
fn source_ranges_that_cannot_be_read_open_nothing() {
    let mut world = world();
    world.stored["spec"]["loadBalancerSourceRanges"] = json!(["10.0.0.1/33"]);
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["SyncLoadBalancerFailed"]);
    assert_eq!(run.again(), Duration::from_secs(10));
    assert!(world.calls.is_empty());
    assert_eq!(
        world.condition("wasm-ccm.dev/LoadBalancer"),
        Some(("False".to_owned(), "Invalid".to_owned()))
    );
}

/// An annotation may have 256 KiB, and control characters become longer in a message.
#[test]
fn source_ranges_that_cannot_be_read_are_repeated_in_part() {
    let long = "\u{1}".repeat(200_000);
    let annotation = "service.beta.kubernetes.io/load-balancer-source-ranges";
    for (path, value) in [
        ("metadata", json!({ "annotations": { annotation: long } })),
        ("spec", json!({ "loadBalancerSourceRanges": [long] })),
    ] {
        let mut world = world();
        merge(&mut world.stored[path], &value);
        let run = world.reconcile();
        assert!(run.why().contains("(200000 bytes) is not valid"), "{path}");
        assert!(run.why().len() < 2048, "{path}: {}", run.why().len());
    }
}

/// The answer to our own write is newer than the change, for which no further watch event arrives.
#[test]
fn edge_063_what_is_changed_while_the_status_is_written_is_not_lost() {
    let mut world = made();
    world.stored["spec"]["ports"][0]["port"] = json!(81);
    world.ensure = [ready(&["192.0.2.7"], 1)].into();
    world
        .meanwhile
        .push_back(|service| service["spec"]["ports"][0]["port"] = json!(82));
    assert!(world.reconcile().is_outdated);
    assert_eq!(world.addresses(), ["192.0.2.7"]);
    let next = world.reconcile();
    assert!(!next.is_outdated);
    assert!(
        next.acts().iter().any(|act| act.starts_with("ensure")),
        "{:?}",
        next.acts()
    );
    assert!(!world.reconcile().is_outdated);
}

#[test]
fn a_new_credential_makes_no_second_load_balancer_before_somebody_has_vouched_for_it() {
    let asked = |world: &World| {
        let count = |is: fn(&&ServiceAction) -> bool| world.calls.iter().filter(is).count();
        (
            count(|call| matches!(call, ServiceAction::Ensure(_))),
            count(|call| matches!(call, ServiceAction::UpdateTargets(_))),
        )
    };
    let unknown = Account {
        generation: 2,
        is_known: false,
    };
    let one = |name: &str| vec![name.to_owned()];
    let strange = Witnesses {
        found: Vec::new(),
        missing: one("node/a"),
    };
    let ours = Witnesses {
        found: one("node/a"),
        missing: Vec::new(),
    };
    for (witnesses, expected) in [
        (Ok(strange), (0, 0)),
        // Without an answer nothing is created, and an existing load balancer follows the nodes.
        (Err(ProviderError::Unavailable("away".to_owned())), (0, 1)),
        (Ok(ours), (1, 0)),
        (Ok(Witnesses::default()), (1, 0)),
    ] {
        let mut world = made();
        world.account = unknown;
        world.past.drift_due = true;
        world.nodes = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        world.witnesses = witnesses.clone();
        world.reconcile();
        assert_eq!(asked(&world), expected, "{witnesses:?}");
    }
}

/// The other account's status was stored while no witness could refute it. Once the credential is right again the
/// status is replaced, and the answer to that write is lost. Then the credential is wrong again.
#[test]
fn an_address_that_another_account_has_given_before_does_not_return_with_it() {
    let strange = Witnesses {
        found: Vec::new(),
        missing: vec!["node/a".to_owned()],
    };
    let mut world = world();
    world.ensure = [ready(&["198.51.100.9"], 1)].into();
    world.reconcile();
    assert_eq!(world.addresses(), ["198.51.100.9"]);

    world.account.generation += 1;
    world.ensure = [ready(&["192.0.2.1"], 1)].into();
    world.past.drift_due = true;
    world.errors = vec![ClusterError::Unavailable("reset".to_owned())];
    world.reconcile();
    world.stored["status"]["loadBalancer"]["ingress"][0]["ip"] = json!("192.0.2.1");

    world.account.generation += 1;
    world.witnesses = Ok(strange);
    world.ensure = [ready(&["198.51.100.9"], 0)].into();
    let run = world.reconcile();
    assert_eq!(world.addresses(), ["192.0.2.1"], "{:?}", run.acts());
}
