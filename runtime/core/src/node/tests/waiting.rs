//! NODE-020 to NODE-025 and NODE-041 to NODE-043: why a tainted node keeps its taint, and how that is reported.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{AddressType, CloudEvent, EventType, Instance, Lookup};
use crate::moment::Moment;
use crate::node::Looked;
use crate::node::index::Clashes;
use crate::reconciliation::effect::{ClusterError, When};
use serde_json::json;
use std::time::Duration;

#[test]
fn node_020_a_failed_look_up_keeps_the_taint_and_comes_back() {
    let mut world = world();
    world.answer = Err(ProviderError::Unavailable("502".to_owned()));
    let run = changes_nothing(&mut world);
    assert_eq!(
        run.effects,
        ["find node/node0"],
        "what may pass by itself is not told at once"
    );
    assert_eq!(
        run.end,
        When::Retry {
            after: Duration::from_secs(1),
            why: "failed to look up the instance: unavailable: 502".to_owned()
        }
    );
}

#[test]
fn a_node_that_waits_says_why_after_a_while_and_soon_if_its_machine_is_not_known() {
    let mut world = world();
    for (answer, wait) in [
        (Err(ProviderError::Unavailable("502".to_owned())), 30),
        (looked(Lookup::Gone), 5),
        (looked(Lookup::NotMine), 5),
        (looked(Lookup::Unknown("page 2 is missing".to_owned())), 30),
    ] {
        world.answer = answer;
        world.waiting_since = Some(Moment(NOW.0 - Duration::from_secs(wait - 1)));
        assert_eq!(changes_nothing(&mut world).events, []);
        world.waiting_since = Some(Moment(NOW.0 - Duration::from_secs(wait)));
        assert_eq!(changes_nothing(&mut world).events.len(), 1);
    }
}

#[test]
fn what_a_person_has_to_change_is_told_at_once() {
    let mut world = world();
    world.answer = Err(ProviderError::Denied("401".to_owned()));
    let run = changes_nothing(&mut world);
    assert_eq!(
        run.events,
        [(
            "InstanceLookupFailed".to_owned(),
            "failed to look up the instance: denied: 401".to_owned()
        )]
    );
    assert!(matches!(run.end, When::Retry { after, .. } if after == Duration::from_secs(10)));
}

#[test]
fn a_provider_that_is_broken_is_told_of_at_the_first_node_that_waits_for_it() {
    for error in [
        ProviderError::Trapped("unreachable".to_owned()),
        ProviderError::Internal("no look-ups".to_owned()),
    ] {
        let mut world = world();
        world.answer = Err(error.clone());
        let run = changes_nothing(&mut world);
        let [(reason, message)] = run.events.as_slice() else {
            panic!("{error}: {:?}", run.events);
        };
        assert_eq!(reason, "InstanceLookupFailed");
        assert!(message.ends_with(&error.to_string()), "{message}");
    }
}

#[test]
fn a_throttling_cloud_is_not_asked_earlier_whatever_changes() {
    let mut world = world();
    world.answer = Err(ProviderError::Throttled {
        message: "slow down".to_owned(),
        retry_after: Some(Duration::from_secs(90)),
    });
    let end = changes_nothing(&mut world).end;
    assert!(
        matches!(end, When::NotBefore { after, .. } if after == Duration::from_secs(90)),
        "{end:?}"
    );
}

#[test]
fn node_021_a_machine_that_is_not_known_keeps_the_taint_and_is_asked_for_again() {
    for lookup in [
        Lookup::Gone,
        Lookup::NotMine,
        Lookup::Unknown("?".to_owned()),
    ] {
        let mut world = world();
        world.answer = looked(lookup.clone());
        world.failures = 3;
        let run = changes_nothing(&mut world);
        assert_eq!(run.effects, ["find node/node0"]);
        assert!(
            matches!(run.end, When::Retry { after, .. } if after == Duration::from_secs(8)),
            "{lookup:?} {:?}",
            run.end
        );
    }
}

#[test]
fn node_022_without_any_provider_id_the_taint_stays() {
    let mut world = world();
    world.answer = found(Instance {
        provider_id: String::new(),
        ..instance()
    });
    let run = changes_nothing(&mut world);
    assert_eq!(run.events[0].0, "InvalidProviderAnswer");
    assert!(
        run.events[0].1.contains("did not set a provider ID"),
        "{:?}",
        run.events
    );
    assert!(matches!(run.end, When::Retry { .. }));
}

#[test]
fn node_024_another_provider_id_than_the_stored_one_holds_the_node() {
    let mut world = world();
    world.stored["spec"]["providerID"] = json!("sim://41");
    let run = changes_nothing(&mut world);
    assert_eq!(run.events[0].0, "InvalidProviderAnswer");
    assert!(run.events[0].1.contains("sim://41") && run.events[0].1.contains("sim://42"));
}

#[test]
fn a_node_of_another_provider_is_not_even_asked_about() {
    let mut world = world();
    world.stored["metadata"]["labels"] = json!({ "wasm-ccm.dev/provider": "other" });
    let run = changes_nothing(&mut world);
    assert!(run.effects.is_empty());
    assert!(matches!(run.end, When::Blocked { .. }), "{:?}", run.end);
}

/// Another manager's nodes are initialised before that, and cause no Event.
#[test]
fn a_node_whose_provider_id_is_of_no_provider_here_says_so_after_a_while_and_is_not_asked_about() {
    for (provider_id, why) in [
        (
            "other://1",
            "no provider that serves here has the scheme \"other\" of the node's provider ID",
        ),
        (
            "nonsense",
            "the node's provider ID \"nonsense\" is not of the form SCHEME://ID",
        ),
    ] {
        let mut world = world();
        world.stored["spec"]["providerID"] = json!(provider_id);
        for (waited, told) in [
            (None, &[""; 0][..]),
            (Some(29), &[]),
            (Some(30), &["event node/node0 Warning NodeNotServed"]),
        ] {
            let since = waited.map(|seconds| Moment(NOW.0 - Duration::from_secs(seconds)));
            world.waiting_since = since;
            let run = changes_nothing(&mut world);
            assert_eq!(run.effects, told, "{provider_id} {waited:?}");
            assert!(run.events.iter().all(|(_, message)| message == why));
            let expected = When::Retry {
                after: Duration::from_secs(10),
                why: why.to_owned(),
            };
            assert_eq!(run.end, expected);
        }
    }
}

#[test]
fn node_025_a_node_ip_that_cannot_be_honoured_keeps_the_taint() {
    for provided in ["", "invalid-ip", "10.0.0.2", "10.0.0.1,2001:db8::1"] {
        let mut world = world();
        world.stored["metadata"]["annotations"] =
            json!({ "alpha.kubernetes.io/provided-node-ip": provided });
        let run = changes_nothing(&mut world);
        assert_eq!(run.events[0].0, "InvalidProvidedNodeIP", "{provided}");
        assert!(matches!(run.end, When::Retry { .. }));
    }
    let mut world = world();
    world.stored["metadata"]["annotations"] =
        json!({ "alpha.kubernetes.io/provided-node-ip": "10.0.0.1" });
    world.answer = found(Instance {
        addresses: Vec::new(),
        ..instance()
    });
    assert_eq!(
        changes_nothing(&mut world).events[0].0,
        "InvalidProvidedNodeIP"
    );
}

#[test]
fn an_answer_whose_addresses_are_all_wrong_keeps_the_taint() {
    let mut world = world();
    let bad = addresses(&[
        (AddressType::InternalIp, "999.1.1.1"),
        (AddressType::ExternalIp, "127.0.0.1"),
    ]);
    world.answer = found(Instance {
        addresses: bad,
        ..instance()
    });
    assert_eq!(
        changes_nothing(&mut world).events[0].0,
        "InvalidProviderAnswer"
    );
}

#[test]
fn what_the_provider_wants_recorded_is_recorded_once() {
    let mut world = world();
    let event = |reason: &str| CloudEvent::new(EventType::Warning, reason, "text".to_owned());
    world.answer = Ok(Looked {
        lookup: Lookup::NotMine,
        events: vec![event("Locked"), event("not a reason")],
        complete: true,
        clashes: Clashes::default(),
    });
    assert_eq!(
        changes_nothing(&mut world).events,
        [("Locked".to_owned(), "text".to_owned())]
    );
}

#[test]
fn node_041_endless_conflicts_end_after_twenty_and_come_back_later() {
    let mut world = world();
    world.errors = vec![ClusterError::Conflict("busy".to_owned()); 40];
    let run = world.reconcile();
    assert!(matches!(run.end, When::Retry { .. }), "{:?}", run.end);
    assert_eq!(world.errors.len(), 19);
}

#[test]
fn node_042_a_node_that_went_or_was_made_again_meanwhile_is_left_alone() {
    let conflict = ClusterError::Conflict("busy".to_owned());
    for (is_gone, errors, last) in [
        (false, vec![], "read node/node0"),
        (true, vec![], "patch node/node0/status addresses(3)"),
        (true, vec![conflict], "read node/node0"),
    ] {
        let mut world = world();
        let cached = world.node();
        world.is_gone = is_gone;
        world.errors = errors;
        world.stored["metadata"]["uid"] = json!("u1");
        world.stored["metadata"]["resourceVersion"] = json!("9");
        let before = world.stored.clone();
        let run = world.reconcile_from(cached);
        assert_eq!(run.effects.last().map(String::as_str), Some(last));
        assert_eq!((run.events, run.end), (vec![], When::AwaitChange));
        assert_eq!(world.stored, before);
    }
}

#[test]
fn node_043_what_the_api_server_rejects_is_told_and_backs_off() {
    let mut world = world();
    world.errors = vec![ClusterError::Rejected("no such field".to_owned())];
    let run = changes_nothing(&mut world);
    assert_eq!(run.events[0].0, "NodeUpdateFailed");
    assert!(run.events[0].1.contains("no such field"));
    let end = run.end;
    assert!(
        matches!(end, When::Retry { after, .. } if after == Duration::from_secs(1)),
        "{end:?}"
    );
}

#[test]
fn a_taint_that_somebody_puts_back_at_once_is_not_fought_over() {
    let mut world = world();
    world.puts_taint_back = true;
    let run = world.reconcile();
    let removals = run
        .effects
        .iter()
        .filter(|effect| effect.contains("-taint"));
    assert_eq!(removals.count(), 1, "{:?}", run.effects);
    assert!(matches!(run.end, When::Retry { .. }), "{:?}", run.end);
}
