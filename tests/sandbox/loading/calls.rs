//! Calls: the whole way from a node to an instance, and the reasons that end it early.

use std::time::Duration;

use ccm_core::cloud::{AddressType, Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_fixtures::objects::ready_node;

use crate::loading::cloud::{Cloud, CloudMode};
use crate::loading::world::{self, block_on};
use crate::permits;
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "a_node_is_found_through_the_sandbox",
        a_node_is_found_through_the_sandbox,
    ),
    (
        "absence_is_proven_by_complete_answers_only",
        absence_is_proven_by_complete_answers_only,
    ),
    (
        "a_fresh_look_up_uses_nothing_that_was_kept",
        a_fresh_look_up_uses_nothing_that_was_kept,
    ),
    ("a_call_ends_with_its_permit", a_call_ends_with_its_permit),
    (
        "an_expired_permit_starts_nothing",
        an_expired_permit_starts_nothing,
    ),
    (
        "too_many_nodes_are_not_asked_about",
        too_many_nodes_are_not_asked_about,
    ),
    (
        "many_calls_at_once_all_get_their_answer",
        many_calls_at_once_all_get_their_answer,
    ),
    (
        "a_call_that_gets_no_turn_never_begins",
        a_call_that_gets_no_turn_never_begins,
    ),
    ("a_provider_outlives_its_host", a_provider_outlives_its_host),
];

fn a_node_is_found_through_the_sandbox() {
    block_on(async {
        let cloud = Cloud::start(CloudMode::Well).await;
        let host = world::warm_host();
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        assert!(provider.capabilities().instances);
        assert_eq!(provider.name(), "hcloud");
        assert_eq!(cloud.requests(), 0, "init sends nothing");

        let nodes = [ready_node("worker-1", None), ready_node("stranger", None)];
        let reply = provider.find(&nodes, permits::reads()).await.unwrap();
        let [Lookup::Found(instance), Lookup::NotMine] = reply.lookups.as_slice() else {
            panic!("{:?}", reply.lookups)
        };
        assert_eq!(instance.provider_id, "hcloud://42");
        assert_eq!(instance.region.as_deref(), Some("fsn1"));
        let external = instance
            .addresses
            .iter()
            .find(|address| address.address_type == AddressType::ExternalIp);
        assert_eq!(
            external.map(|address| address.address.as_str()),
            Some("203.0.113.7")
        );
        assert!(reply.complete);
        assert!(cloud.requests() > 0);
    });
}

fn absence_is_proven_by_complete_answers_only() {
    block_on(async {
        let host = world::warm_host();
        let nodes = [
            ready_node("worker-1", Some("hcloud://42")),
            ready_node("old", Some("hcloud://41")),
        ];

        let cloud = Cloud::start(CloudMode::Well).await;
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        let reply = provider.find(&nodes, permits::reads()).await.unwrap();
        assert!(
            matches!(reply.lookups.as_slice(), [Lookup::Found(_), Lookup::Gone]),
            "{:?}",
            reply.lookups
        );
        assert!(reply.complete);

        let cloud = Cloud::start(CloudMode::Broken).await;
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        match provider.find(&nodes, permits::reads()).await {
            Ok(reply) => {
                assert!(!reply.complete);
                assert!(
                    !reply.lookups.contains(&Lookup::Gone),
                    "{:?}",
                    reply.lookups
                );
            }
            Err(error) => assert_eq!(error.reason(), "unavailable", "{error}"),
        }
    });
}

fn a_fresh_look_up_uses_nothing_that_was_kept() {
    block_on(async {
        let cloud = Cloud::start(CloudMode::Well).await;
        let host = world::warm_host();
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        // One node would be looked up directly; two are looked up in the list, which may be cached.
        let nodes = [
            ready_node("worker-1", Some("hcloud://42")),
            ready_node("worker-2", Some("hcloud://43")),
        ];

        provider.find(&nodes, permits::reads()).await.unwrap();
        let first = cloud.requests();
        provider.find(&nodes, permits::reads()).await.unwrap();
        assert_eq!(
            cloud.requests(),
            first,
            "the list of servers is kept for some seconds"
        );
        let reply = provider.find_fresh(&nodes, permits::reads()).await.unwrap();
        assert_eq!(cloud.requests(), 2 * first, "asked all over again");
        assert!(
            reply
                .lookups
                .iter()
                .all(|lookup| matches!(lookup, Lookup::Found(_)))
        );
    });
}

fn a_call_ends_with_its_permit() {
    block_on(async {
        let cloud = Cloud::start(CloudMode::Silent).await;
        let host = world::warm_host();
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        let nodes = [ready_node("worker-1", Some("hcloud://42"))];
        let permit = permits::reads_for(Duration::from_millis(300));
        let answer = provider.find(&nodes, permit).await;
        // Either the host ends the call, or the guest gets the timeout in time and reports it.
        match answer {
            Err(ProviderError::TimedOut(text)) => {
                assert!(text.starts_with("instances.find"), "{text}")
            }
            Err(ProviderError::Unavailable(_) | ProviderError::Denied(_)) => {}
            Ok(reply) => {
                assert!(!reply.complete && matches!(reply.lookups.as_slice(), [Lookup::Unknown(_)]))
            }
            other => panic!("{other:?}"),
        }
    });
}

fn an_expired_permit_starts_nothing() {
    block_on(async {
        let cloud = Cloud::start(CloudMode::Well).await;
        let host = world::warm_host();
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        let nodes = [ready_node("worker-1", None)];
        let answer = provider.find(&nodes, world::expired_permit()).await;
        assert!(
            matches!(answer, Err(ProviderError::NotBegun(_))),
            "{answer:?}"
        );
        assert_eq!(cloud.requests(), 0);
    });
}

fn too_many_nodes_are_not_asked_about() {
    block_on(async {
        let cloud = Cloud::start(CloudMode::Well).await;
        let host = world::warm_host();
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        let nodes = vec![ready_node("worker-1", None); 5_001];
        let answer = provider.find(&nodes, permits::reads()).await;
        assert!(
            matches!(answer, Err(ProviderError::Invalid(_))),
            "{answer:?}"
        );
        let reply = provider.find(&nodes[1..], permits::reads()).await.unwrap();
        assert_eq!(reply.lookups.len(), 5_000);
    });
}

fn many_calls_at_once_all_get_their_answer() {
    block_on(async {
        let cloud = Cloud::start(CloudMode::Well).await;
        let host = world::warm_host();
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        let nodes = [ready_node("worker-1", None)];
        let calls = (0..50).map(|_| provider.find(&nodes, permits::reads()));
        for answer in futures::future::join_all(calls).await {
            assert!(matches!(
                answer.unwrap().lookups.as_slice(),
                [Lookup::Found(_)]
            ));
        }
    });
}

fn a_call_that_gets_no_turn_never_begins() {
    block_on(async {
        let cloud = Cloud::start(CloudMode::Silent).await;
        let host = world::warm_host();
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        let nodes = [ready_node("worker-1", None)];
        let long =
            (0..8).map(|_| provider.find(&nodes, permits::reads_for(Duration::from_secs(2))));
        let short = async {
            // The other calls have asked for their slots by the time that this one is polled again.
            tokio::task::yield_now().await;
            provider
                .find(&nodes, permits::reads_for(Duration::from_millis(200)))
                .await
        };
        let (_, answer) = futures::future::join(futures::future::join_all(long), short).await;
        match answer {
            Err(ProviderError::NotBegun(text)) => {
                assert!(text.contains("(8 at once)"), "{text}")
            }
            other => panic!("{other:?}"),
        }
    });
}

fn a_provider_outlives_its_host() {
    block_on(async {
        let cloud = Cloud::start(CloudMode::Well).await;
        let host = world::warm_host();
        let provider = world::load(&host, &cloud.endpoint, &[]).await.unwrap();
        drop(host);
        let reply = provider
            .find(&[ready_node("worker-1", None)], permits::reads())
            .await
            .unwrap();
        assert!(matches!(reply.lookups.as_slice(), [Lookup::Found(_)]));
    });
}
