//! F22: load balancers of other owners, and an API server that does not store what was written.

use super::world::*;
use crate::cloud::error::{Owner, ProviderError};
use crate::cloud::instance::{CloudEvent, EventType};
use crate::reconciliation::effect::{ClusterError, When};
use crate::service::{OwnerState, ServiceAction, ServiceRef};
use crate::settings::Adoption;
use serde_json::json;
use std::time::Duration;

/// What helps when the owner is no Service of this cluster.
const ORPHANS: &str = "adoptLoadBalancers, or once the mark of its owner names this Service";

/// Whether the call may change something at the cloud.
fn may_change(call: &ServiceAction) -> bool {
    matches!(
        call,
        ServiceAction::Ensure(_) | ServiceAction::UpdateTargets(_) | ServiceAction::Delete(_)
    )
}

fn alive() -> OwnerState {
    OwnerState::Alive(ServiceRef {
        namespace: "secret".to_owned(),
        name: "shop".to_owned(),
        uid: "u1".to_owned(),
    })
}

#[test]
fn f22_the_load_balancer_of_a_service_that_is_alive_is_not_taken_over() {
    let mut world = world();
    world.rules.adoption = Adoption::Orphaned;
    world.owner = alive();
    world.ensure = [Err(conflict(Some("u1")))].into();
    let run = world.reconcile();
    assert_eq!(run.acts()[3], "find owner u1 for");
    assert_eq!(run.again(), Duration::from_secs(10));
    assert_eq!(
        run.why(),
        "the load balancer belongs to service/secret/shop"
    );
    let recorded = &run.events.last().unwrap().1;
    assert!(
        !recorded.contains("shop"),
        "not for this tenant: {recorded}"
    );
    assert_eq!(
        world.condition("wasm-ccm.dev/LoadBalancer"),
        Some(("False".to_owned(), "Conflict".to_owned()))
    );
    assert_eq!(world.calls.len(), 2, "no second try");
}

/// Clouds that keep a Service's name and not its UID: the Service with this name now owns the load balancer.
#[test]
fn f22_an_owner_may_be_named_by_its_name() {
    let named = |namespace: &str, name: &str| ProviderError::Conflict {
        message: "taken".to_owned(),
        owner: Some(Owner::Name {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
    };
    let rows = [
        (
            "secret",
            "shop",
            alive(),
            Some("find owner secret/shop for"),
            "belongs to service/secret/shop",
        ),
        (
            "secret",
            "shop",
            OwnerState::Unsynced,
            Some("find owner secret/shop for"),
            "waiting for the initial Service list",
        ),
        // The Service's own name, and a name that no object can have: no owner is looked up.
        (
            "default",
            "web",
            OwnerState::Gone,
            None,
            "with the name \"default/web\"",
        ),
        (
            "Secret",
            "shop",
            OwnerState::Gone,
            None,
            "with the name \"Secret/shop\"",
        ),
        ("", "", OwnerState::Gone, None, "with the name \"/\""),
        (
            "secret",
            "a/b",
            OwnerState::Gone,
            None,
            "with the name \"secret/a/b\"",
        ),
    ];
    for (namespace, name, state, looked, why) in rows {
        let mut world = world();
        world.rules.adoption = Adoption::Orphaned;
        world.owner = state;
        world.ensure = [Err(named(namespace, name))].into();
        let run = world.reconcile();
        let found = run
            .acts()
            .into_iter()
            .find(|act| act.starts_with("find owner"));
        assert_eq!(found.as_deref(), looked, "{namespace}/{name}");
        assert!(run.why().contains(why), "{namespace}/{name}: {}", run.why());
        assert!(world.addresses().is_empty(), "{namespace}/{name}");
    }
    let mut world = world();
    world.rules.adoption = Adoption::Orphaned;
    world.ensure = [Err(named("secret", "shop")), ready(&["192.0.2.1"], 1)].into();
    let run = world.reconcile();
    let adopts = "ensure targets(2) adopt=secret/shop".to_owned();
    assert!(run.acts().contains(&adopts), "{:?}", run.acts());
    assert_eq!(world.addresses(), ["192.0.2.1"]);
}

#[test]
fn what_a_provider_says_beside_an_error_is_recorded_once() {
    let event = |reason: &str| {
        CloudEvent::new(
            EventType::Warning,
            reason,
            "the subnet has no free address".to_owned(),
        )
    };
    let mut world = world();
    world.failure_events = vec![event("NoFreeAddress"), event("not a reason")];
    world.ensure = [Err(unavailable())].into();
    let run = world.reconcile();
    let reported = run.event_reasons();
    let count = |reason: &str| reported.iter().filter(|one| **one == reason).count();
    assert_eq!(count("NoFreeAddress"), 1, "{reported:?}");
    assert_eq!(count("SyncLoadBalancerFailed"), 1, "{reported:?}");
    assert_eq!(count("not a reason"), 0, "{reported:?}");
}

#[test]
fn f22_without_leave_nothing_is_taken_over_and_the_setting_is_named() {
    for (owner, remedy) in [(None, "adoptUnownedLoadBalancers"), (Some("u1"), ORPHANS)] {
        let mut world = world();
        world.ensure = [Err(conflict(owner))].into();
        let run = world.reconcile();
        let recorded = &run.events.last().unwrap().1;
        let end = format!("only with the setting {remedy}");
        assert!(recorded.ends_with(&end), "{recorded}");
        assert!(world.addresses().is_empty());
        assert_eq!(run.again(), Duration::from_secs(10));
    }
}

#[test]
fn f22_what_has_no_owner_who_is_alive_is_taken_over_with_leave() {
    for (owner, label, recorded) in [
        (
            None,
            "ensure targets(2) adopt",
            "Took over a load balancer which had no owner",
        ),
        (
            Some("u1"),
            "ensure targets(2) adopt=u1",
            "Took over a load balancer whose owner u1 does not exist any more",
        ),
    ] {
        let mut world = world();
        world.rules.adoption = Adoption::Orphaned;
        world.ensure = [Err(conflict(owner)), ready(&["192.0.2.1"], 1)].into();
        let run = world.reconcile();
        assert!(run.acts().contains(&label.to_owned()), "{:?}", run.acts());
        assert_eq!(
            run.event_reasons(),
            [
                "EnsuringLoadBalancer",
                "LoadBalancerAdopted",
                "EnsuredLoadBalancer"
            ]
        );
        assert_eq!(run.events[1].1, recorded);
        assert_eq!(run.end, When::AwaitChange);
    }
}

#[test]
fn f22_where_only_what_has_no_owner_may_be_taken_over_another_clusters_is_not() {
    let rows = [
        (None, OwnerState::Gone, 2, None),
        (Some("u1"), OwnerState::Gone, 1, Some(ORPHANS)),
        (
            Some("u1"),
            alive(),
            1,
            Some("another Service of this cluster"),
        ),
    ];
    for (owner, state, calls, recorded) in rows {
        let mut world = world();
        world.rules.adoption = Adoption::Unowned;
        world.owner = state;
        world.ensure = [Err(conflict(owner)), ready(&["192.0.2.1"], 1)].into();
        let run = world.reconcile();
        let ensured = world.calls.iter().filter(|call| may_change(call));
        assert_eq!(ensured.count(), calls, "{owner:?}");
        match recorded {
            None => assert_eq!(world.addresses(), ["192.0.2.1"]),
            Some(words) => {
                let (_, message) = run.events.last().unwrap();
                assert!(message.ends_with(words), "{message}");
                assert!(world.addresses().is_empty());
            }
        }
    }
}

#[test]
fn an_adoption_that_is_not_ready_yet_is_told_at_once_and_only_once() {
    let mut world = world();
    world.rules.adoption = Adoption::Unowned;
    world.ensure = [Err(conflict(None)), begun("h"), ready(&["192.0.2.1"], 1)].into();
    let run = world.reconcile();
    assert_eq!(
        run.event_reasons(),
        ["EnsuringLoadBalancer", "LoadBalancerAdopted"]
    );
    world.wait(1);
    let run = world.reconcile();
    assert_eq!(run.event_reasons(), ["EnsuredLoadBalancer"]);
}

#[test]
fn an_owner_is_gone_only_when_all_services_are_known() {
    let mut world = world();
    world.rules.adoption = Adoption::Orphaned;
    world.owner = OwnerState::Unsynced;
    world.ensure = [Err(conflict(Some("u1")))].into();
    let run = world.reconcile();
    assert_eq!(run.again(), Duration::from_secs(1));
    assert_eq!(
        run.event_reasons(),
        ["EnsuringLoadBalancer"],
        "nothing is wrong yet"
    );
}

#[test]
fn a_provider_that_knows_no_end_of_conflicts_is_asked_twice() {
    let mut world = world();
    world.rules.adoption = Adoption::Orphaned;
    world.ensure = [Err(conflict(None))].into();
    let run = world.reconcile();
    assert_eq!(run.again(), Duration::from_secs(10));
    assert_eq!(world.calls.len(), 2);

    // The Service's own UID, which the provider should have recognised.
    world.calls.clear();
    world.ensure = [Err(conflict(Some("u0")))].into();
    world.reconcile();
    assert_eq!(world.calls.len(), 1);
}

#[test]
fn a_write_that_conflicts_is_made_again_from_a_fresh_read() {
    let mut world = world();
    world.errors = vec![ClusterError::Conflict("409".to_owned())];
    let run = world.reconcile();
    assert_eq!(
        run.acts()[1..4],
        [
            "patch +finalizer annotations(1)",
            "read",
            "patch +finalizer annotations(1)"
        ]
    );
    assert_eq!(run.end, When::AwaitChange);
}

#[test]
fn endless_conflicts_end_after_twenty_and_come_back_later() {
    let mut world = world();
    world.errors = vec![ClusterError::Conflict("409".to_owned()); 100];
    let run = world.reconcile();
    assert_eq!(100 - world.errors.len(), 21);
    assert_eq!(run.again(), Duration::from_millis(5));
    assert!(world.calls.iter().all(|call| !may_change(call)));
}

#[test]
fn a_service_that_was_made_again_meanwhile_is_left_to_its_own_reconciliation() {
    let mut world = world();
    world
        .meanwhile
        .push_back(|stored| stored["metadata"]["uid"] = json!("u1"));
    let run = world.reconcile();
    assert_eq!(run.end, When::AwaitChange);
    assert!(world.patches.is_empty());
    assert!(world.calls.iter().all(|call| !may_change(call)));
}

#[test]
fn svc_084_a_status_that_cannot_be_stored_is_told_and_asked_for_again() {
    let mut world = made();
    world.ensure = [ready(&["192.0.2.2"], 0)].into();
    world.past.drift_due = true;
    world.errors = vec![ClusterError::Denied("403".to_owned())];
    let run = world.reconcile();
    assert_eq!(
        run.events[0].1,
        "Error syncing load balancer: failed to update load balancer status: denied: 403"
    );
    assert_eq!(run.again(), Duration::from_secs(1));
    let run = world.reconcile();
    assert_eq!(run.acts()[0], "ensure targets(2)");
    assert_eq!(world.addresses(), ["192.0.2.2"]);
}

#[test]
fn an_owner_that_is_no_uid_is_neither_asked_for_nor_taken_over_from() {
    let long = "x".repeat(65);
    for owner in ["", " ", "a b", "\u{7}", "../x", long.as_str()] {
        let mut world = world();
        world.rules.adoption = Adoption::Orphaned;
        world.ensure = [Err(conflict(Some(owner)))].into();
        let run = world.reconcile();
        assert_eq!(run.again(), Duration::from_secs(10), "{owner:?}");
        assert_eq!(world.calls.len(), 1, "{owner:?}");
    }
}

/// Such as an admission webhook without a backend, which concerns this object alone.
#[test]
fn svc_024_a_write_that_the_api_server_fails_for_long_is_reported_and_asks_the_cloud_ever_more_rarely()
 {
    for is_called in [true, false] {
        // Without a call, the first write already fails.
        let mut world = if is_called { made() } else { world() };
        world.ensure = [ready(&["192.0.2.2"], 0)].into();
        world.past.drift_due = true;
        world.errors = vec![ClusterError::Unavailable("failed calling webhook".to_owned()); 30];
        let mut pauses = Vec::new();
        let mut reported_after = None;
        for attempt in 1..=16 {
            let run = world.reconcile();
            let told = run.events.iter();
            let mut told = told.filter(|(reason, _)| reason == "SyncLoadBalancerFailed");
            if told.any(|(_, message)| message.contains("failed calling webhook")) {
                reported_after.get_or_insert(attempt);
            }
            pauses.push(run.again());
            world.wait(600);
        }
        let expected = if is_called {
            (5, Duration::from_secs(1), Duration::from_secs(300))
        } else {
            (12, Duration::from_millis(5), Duration::from_secs(30))
        };
        let shown = (reported_after.unwrap(), pauses[0], pauses[15]);
        assert_eq!(shown, expected, "{pauses:?}");
    }
}
