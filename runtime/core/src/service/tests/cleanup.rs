//! SVC-040 to SVC-056: an unwanted load balancer is deleted, and its Service released only afterwards.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::{Found, GetReply, Progress};
use crate::reconciliation::effect::{ClusterError, When};
use crate::service::{Account, ServiceAction, Witnesses};
use serde_json::json;
use std::time::Duration;

pub(super) const REMOVAL: [&str; 7] = [
    "take budget load-balancer-deletion",
    "event Normal DeletingLoadBalancer",
    "delete load balancer of",
    "get load balancer of",
    "vouch for",
    "patch -finalizer annotations(1)",
    "event Normal DeletedLoadBalancer",
];

#[test]
fn svc_043_the_finalizer_goes_after_absence_is_proven() {
    let mut world = made();
    world.stored["metadata"]["finalizers"] = json!(["foo", FINALIZER, "bar"]);
    world.delete_object();
    let run = world.reconcile();
    assert_eq!(run.acts(), REMOVAL);
    assert_eq!(run.end, When::AwaitChange);
    assert_eq!(
        world.stored["metadata"]["finalizers"],
        json!(["foo", "bar"])
    );
    assert_eq!(world.annotation(OWNER), None);
    does_nothing(&mut world);
}

#[test]
fn svc_045_another_type_clears_the_status_in_the_same_patch() {
    let mut world = made();
    world.stored["spec"]["type"] = json!("ClusterIP");
    let run = world.reconcile();
    let mut expected = REMOVAL.map(str::to_owned);
    expected[5] =
        "patch -finalizer annotations(1) status=no ingress wasm-ccm.dev/LoadBalancer=false"
            .to_owned();
    assert_eq!(run.acts(), expected);
    assert!(!world.has_finalizer() && world.addresses().is_empty());
    does_nothing(&mut world);
    // The type changes back again.
    world.stored["spec"]["type"] = json!("LoadBalancer");
    world.ensure = [ready(&["192.0.2.2"], 1)].into();
    let run = world.reconcile();
    assert_eq!(
        run.event_reasons(),
        ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]
    );
    assert!(world.has_finalizer());
}

#[test]
fn a_service_that_changes_its_type_in_the_middle_of_its_creation_is_cleaned_up() {
    let mut world = world();
    world.ensure = [begun("action 7")].into();
    world.reconcile();
    world.stored["spec"]["type"] = json!("ClusterIP");
    let run = world.reconcile();
    assert!(
        run.acts()
            .contains(&"delete load balancer of hint".to_owned()),
        "{:?}",
        run.acts()
    );
    assert!(!world.has_finalizer());
    assert_eq!(world.annotation(OWNER), None);
}

#[test]
fn f21_the_finalizer_stays_until_a_read_proves_absence() {
    let present = || {
        Ok(GetReply {
            found: Found::Present(status(&["192.0.2.1"])),
            complete: true,
        })
    };
    let incomplete = || {
        Ok(GetReply {
            found: Found::Absent,
            complete: false,
        })
    };
    let mut world = made();
    world.delete_object();
    world.get = [
        present(),
        present(),
        incomplete(),
        Err(unavailable()),
        absent(),
    ]
    .into();
    let mut delays = Vec::new();
    for _ in 0..4 {
        let run = world.reconcile();
        delays.push(run.again().as_secs());
        assert!(world.has_finalizer(), "{:?}", run.acts());
    }
    assert_eq!(delays, [1, 2, 4, 8]);
    assert_eq!(world.reconcile().end, When::AwaitChange);
    assert!(!world.has_finalizer());
}

#[test]
fn a_load_balancer_that_is_still_there_is_deleted_again_and_said_the_second_time() {
    let mut world = made();
    world.delete_object();
    let present = || {
        Ok(GetReply {
            found: Found::Present(status(&[])),
            complete: true,
        })
    };
    world.get = [present(), present(), absent()].into();
    // A cloud may list for a moment what it deletes.
    assert_eq!(world.reconcile().events.len(), 1);
    let run = world.reconcile();
    assert_eq!(
        run.acts()[..2],
        ["delete load balancer of", "get load balancer of"],
        "no second budget, and no second announcement"
    );
    assert_eq!(
        run.events,
        [(
            "SyncLoadBalancerFailed".to_owned(),
            "Error syncing load balancer: the provider reported the deletion, but still finds the load balancer".to_owned()
        )]
    );
    assert_eq!(world.reconcile().end, When::AwaitChange);
    assert!(!world.has_finalizer());
}

#[test]
fn svc_041_an_error_is_told_and_keeps_the_finalizer() {
    let mut world = made();
    world.delete_object();
    world.delete = [Err(unavailable())].into();
    let run = world.reconcile();
    assert_eq!(
        run.events[1].1,
        "Error syncing load balancer: failed to delete load balancer: unavailable: 502"
    );
    assert!(world.has_finalizer());
}

#[test]
fn svc_040_an_error_of_the_proving_look_is_told_and_keeps_the_finalizer() {
    let mut world = made();
    world.delete_object();
    world.get = [Err(denied())].into();
    let run = world.reconcile();
    assert_eq!(
        run.events[1].1,
        "Error syncing load balancer: failed to check if load balancer exists after cleanup: denied: 401"
    );
    assert_eq!(
        world.condition("wasm-ccm.dev/LoadBalancer"),
        Some(("False".to_owned(), "Denied".to_owned()))
    );
    assert!(world.has_finalizer());
}

#[test]
fn svc_054_what_somebody_else_implements_holds_nothing() {
    for is_gone in [false, true] {
        let mut world = made();
        world.delete_object();
        world.is_gone = is_gone;
        world.delete = [Err(ProviderError::Elsewhere)].into();
        world.get = [Err(ProviderError::Elsewhere)].into();
        let run = world.reconcile();
        assert_eq!(run.end, When::AwaitChange);
        assert_eq!(
            run.event_reasons(),
            ["DeletingLoadBalancer"],
            "nothing was deleted"
        );
        assert_eq!(
            world.has_finalizer(),
            is_gone,
            "nothing is written about what is gone"
        );
        does_nothing(&mut world);
    }
}

#[test]
fn a_deletion_that_takes_long_is_asked_about_with_its_hint() {
    let mut world = made();
    world.delete_object();
    world.delete = [
        Ok(Progress::Pending(pending("action 9"))),
        Ok(Progress::Done),
    ]
    .into();
    let run = world.reconcile();
    assert_eq!(run.again(), Duration::from_millis(500));
    does_nothing(&mut world);
    world.wait(1);
    let run = world.reconcile();
    assert_eq!(run.acts()[0], "delete load balancer of hint");
    assert_eq!(run.event_reasons(), ["DeletedLoadBalancer"]);
}

#[test]
fn a_deletion_that_does_not_end_is_reported_after_ten_minutes_of_its_own() {
    let mut world = world();
    world.ensure = [begun("action 7")].into();
    world.reconcile();
    world.wait(601);
    assert_eq!(world.reconcile().event_reasons(), ["LoadBalancerPending"]);
    world.delete_object();
    world.delete = [Ok(Progress::Pending(pending("action 9")))].into();
    for (seconds, reasons) in [
        (1, &["DeletingLoadBalancer"][..]),
        (599, &[]),
        (1, &["LoadBalancerPending"]),
        (1, &[]),
    ] {
        world.wait(seconds);
        assert_eq!(world.reconcile().event_reasons(), reasons);
    }
}

#[test]
fn svc_050_and_052_what_is_gone_loses_its_load_balancer_and_nothing_is_written() {
    let mut world = made();
    world.is_gone = true;
    let run = world.reconcile();
    let acts = run.acts();
    assert_eq!(acts[..5], REMOVAL[..5]);
    assert_eq!(acts[5..], REMOVAL[6..]);
    assert_eq!(run.end, When::AwaitChange);
    does_nothing(&mut world);
}

#[test]
fn svc_051_what_never_was_one_of_ours_leaves_nothing() {
    let mut world = world();
    world.is_gone = true;
    does_nothing(&mut world);
    let mut world = made();
    world.is_gone = true;
    world.stored["metadata"]["annotations"][OWNER] = json!("other");
    does_nothing(&mut world);
}

#[test]
fn svc_056_a_restart_loses_no_orphan_whose_last_state_is_known() {
    let mut world = made();
    world.past = Default::default();
    world.is_gone = true;
    assert_eq!(
        world.reconcile().event_reasons(),
        ["DeletingLoadBalancer", "DeletedLoadBalancer"]
    );
}

#[test]
fn svc_053_an_error_about_what_is_gone_is_told_raw_and_comes_back() {
    let mut world = made();
    world.is_gone = true;
    world.delete = [Err(unavailable())].into();
    let run = world.reconcile();
    assert_eq!(
        run.events[1],
        (
            "DeleteLoadBalancerFailed".to_owned(),
            "Error deleting load balancer: unavailable: 502".to_owned()
        )
    );
    assert_eq!(run.again(), Duration::from_secs(1));
}

#[test]
fn what_is_released_is_not_deleted_again_when_the_object_goes() {
    let mut world = made();
    world.delete_object();
    let before = world.service();
    world.reconcile();
    world.is_gone = true;
    let run = world.reconcile_from(before);
    assert_eq!(run.acts(), [] as [&str; 0]);
}

#[test]
fn edge_066_a_finalizer_that_was_removed_by_hand_leaks_nothing() {
    // Another controller's finalizer still holds the object.
    let mut world = made();
    world.stored["metadata"]["finalizers"] = json!(["other"]);
    world.delete_object();
    let run = world.reconcile();
    assert_eq!(
        run.event_reasons(),
        ["DeletingLoadBalancer", "DeletedLoadBalancer"]
    );
    assert_eq!(world.annotation(OWNER), None);
    assert_eq!(world.stored["metadata"]["finalizers"], json!(["other"]));
}

#[test]
fn edge_066_a_service_that_goes_in_the_write_that_drops_both_marks_leaks_nothing() {
    let is_unwanted: fn(&mut World) = |world| world.stored["spec"]["type"] = json!("ClusterIP");
    for goes in [is_unwanted, World::delete_object] {
        let unmark = |world: &mut World| {
            world.stored["metadata"]["finalizers"] = json!(["other"]);
            world.stored["metadata"]["annotations"] = json!({});
            goes(world);
        };
        let mut world = made();
        unmark(&mut world);
        let run = world.reconcile();
        assert_eq!(
            run.event_reasons(),
            ["DeletingLoadBalancer", "DeletedLoadBalancer"]
        );
        assert_eq!(run.end, When::AwaitChange);
        does_nothing(&mut world);
        // It never had one.
        let mut world = super::world::world();
        unmark(&mut world);
        does_nothing(&mut world);
    }
}

#[test]
fn svc_031_a_service_that_is_being_deleted_gets_no_finalizer() {
    let mut world = world();
    world.delete_object();
    world.stored["metadata"]["finalizers"] = json!(["other"]);
    does_nothing(&mut world);
}

#[test]
fn svc_044_the_end_is_said_after_the_last_write() {
    let mut world = made();
    world.delete_object();
    world.errors = vec![ClusterError::Unavailable("away".to_owned())];
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["DeletingLoadBalancer"]);
    assert_eq!(
        run.why(),
        "failed to remove load balancer cleanup finalizer: unavailable: away"
    );
    assert_eq!(world.reconcile().event_reasons(), ["DeletedLoadBalancer"]);
}

#[test]
fn nothing_is_let_go_of_on_the_word_of_an_account_in_which_nothing_known_was_found() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    for (found, missing, is_let_go) in [
        (&[][..], &["node/a"][..], false),
        (&["node/a"], &["node/b"], false),
        (&["node/a"], &["node/b", "node/c"], false),
        (&["node/a", "node/b"], &["node/c"], true),
        (&["node/a"], &[], true),
        (&[], &[], true),
    ] {
        let mut world = made();
        world.witnesses = Ok(Witnesses {
            found: names(found),
            missing: names(missing),
        });
        world.delete_object();
        let run = world.reconcile();
        assert_eq!(!world.has_finalizer(), is_let_go, "{found:?} {missing:?}");
        if !is_let_go {
            assert_eq!(
                run.event_reasons().last().map(|last| &**last),
                Some("SyncLoadBalancerFailed")
            );
            assert_eq!(
                world.condition("wasm-ccm.dev/LoadBalancer").unwrap().1,
                "UnknownAccount"
            );
            // A person gives it up.
            let until = json!("2026-01-01T00:00:00Z");
            world.stored["metadata"]["annotations"]["wasm-ccm.dev/delete-until"] = until;
            world.wait(10);
            world.reconcile();
            assert!(!world.has_finalizer());
        }
    }
}

#[test]
fn an_unknown_account_keeps_what_is_gone_until_a_restart() {
    for (is_gone, remedy) in [
        (false, "set the annotation wasm-ccm.dev/delete-until"),
        (true, "restart the manager, which then gives it up"),
    ] {
        let mut world = made();
        world.witnesses = Ok(Witnesses {
            found: Vec::new(),
            missing: vec!["node/a".to_owned()],
        });
        world.delete_object();
        world.is_gone = is_gone;
        let run = world.reconcile();
        let (_, message) = run.events.last().unwrap();
        assert!(message.ends_with(remedy), "{message}");
        assert_eq!(run.again(), Duration::from_secs(10));
    }
}

#[test]
fn an_order_of_unknown_end_keeps_the_finalizer_for_half_a_minute() {
    let mut world = world();
    world.ensure = [Err(unavailable())].into();
    world.reconcile();
    world.wait(5);
    world.delete_object();
    world.reconcile();
    assert!(world.has_finalizer());
    world.wait(24);
    world.reconcile();
    assert!(world.has_finalizer());
    world.wait(1);
    world.reconcile();
    assert!(!world.has_finalizer());
    // One that never began orders nothing.
    let mut world = super::world::world();
    world.ensure = [Err(ProviderError::NotBegun("no turn".to_owned()))].into();
    world.reconcile();
    world.wait(5);
    world.delete_object();
    world.reconcile();
    assert!(!world.has_finalizer());
}

#[test]
fn who_vouched_before_the_load_balancer_was_looked_for_does_not_vouch_for_its_absence() {
    let mut world = made();
    world.account = Account {
        generation: 2,
        is_known: false,
    };
    // It is wanted when the reconciliation begins, and not any more when it ends.
    world.past.drift_due = true;
    world.witnesses = Ok(Witnesses::default());
    world.ensure = [ready(&["192.0.2.1", "2001:db8::1"], 1)].into();
    world.meanwhile.push_back(|stored| {
        stored["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    });
    world.reconcile();
    world.reconcile();
    let calls = world.calls.iter();
    let calls: Vec<&str> = calls
        .filter_map(|call| match call {
            ServiceAction::ProveAccount(_) => Some("vouch"),
            ServiceAction::Ensure(_) => Some("ensure"),
            ServiceAction::Delete(_) => Some("delete"),
            ServiceAction::Get(_) => Some("get"),
            _ => None,
        })
        .collect();
    assert_eq!(calls, ["vouch", "ensure", "delete", "get", "vouch"]);
    assert!(!world.has_finalizer());
}
