//! Bad answers about load balancers through the real controllers: the misbehaving guest in the real host, and a cluster
//! behind the real client. Whatever the guest answers, a stored status stays, no annotation is written that was not
//! granted, no finalizer is removed without proof, and each Service has an Event with the reason why it waits.

use std::sync::Arc;

use ccm_controllers::Metrics;
use ccm_core::well_known::{LOAD_BALANCER_FINALIZER, SERVICE_OWNER};
use ccm_fixtures::kubernetes::{node, service};
use ccm_sim::cluster::Cluster;
use ccm_tests::controllers::{create, run_one};
use ccm_tests::harness::trial;
use guest_misbehaving::behaviour::Balancing;
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use libtest_mimic::Trial;
use serde_json::json;

use crate::misbehaving::cluster::settings;
use crate::misbehaving::world::{self, TIMEOUT, block_on};

/// An address without a listener: no behaviour here sends anything.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// One run of the controllers with a behaviour, and the state a minute later.
struct Case {
    name: &'static str,
    balancing: Balancing,
    end: End,
}

/// The state of the Services afterwards.
enum End {
    /// The new one has the guest's address, and nothing else of its answer. Each of these texts is in an Event of type
    /// Warning about it.
    Served(&'static [&'static str]),
    /// The new one has no address, and the old one keeps its own. One Event of this reason has all of these texts.
    Held(&'static str, &'static [&'static str]),
    /// As `Held`, without an Event of type Warning.
    Waits,
}

/// The cases, each of which is a test.
const CASES: &[Case] = &[
    Case {
        name: "too_many_ways_in_are_none",
        balancing: Balancing::ManyWaysIn,
        end: End::Held("SyncLoadBalancerFailed", &["1000 ways in, at most 16"]),
    },
    Case {
        name: "a_way_in_that_leads_nowhere_is_not_stored",
        balancing: Balancing::NoWayIn,
        end: End::Held(
            "SyncLoadBalancerFailed",
            &["neither an IP address nor a hostname"],
        ),
    },
    Case {
        name: "addresses_that_no_load_balancer_has_are_not_stored",
        balancing: Balancing::HostileWaysIn,
        end: End::Held("InvalidProviderAnswer", &["127.0.0.1"]),
    },
    Case {
        name: "a_status_with_bad_ports_is_not_stored",
        balancing: Balancing::BadPorts,
        end: End::Held("SyncLoadBalancerFailed", &["the error of port 80"]),
    },
    Case {
        name: "a_hint_that_is_too_long_is_an_error",
        balancing: Balancing::HugeHint,
        end: End::Held("SyncLoadBalancerFailed", &["1048576 bytes of a hint"]),
    },
    Case {
        name: "who_wants_to_be_called_again_at_the_end_of_time_waits",
        balancing: Balancing::Never,
        end: End::Waits,
    },
    Case {
        name: "annotations_of_others_are_not_written_and_the_service_is_served",
        balancing: Balancing::ForeignAnnotations,
        end: End::Served(&[
            "kubectl.kubernetes.io/last-applied-configuration",
            "belongs to Kubernetes or to this manager",
        ]),
    },
    Case {
        name: "too_many_annotations_are_none",
        balancing: Balancing::ManyAnnotations,
        end: End::Held("SyncLoadBalancerFailed", &["1000 annotations, at most 16"]),
    },
    Case {
        name: "an_annotation_for_terminals_is_not_written",
        balancing: Balancing::TerminalAnnotation,
        end: End::Held("SyncLoadBalancerFailed", &["it has control characters"]),
    },
    Case {
        name: "events_with_terminal_codes_are_cleaned",
        balancing: Balancing::MarkupEvents,
        end: End::Served(&["<script>alert(1)</script>", "\\u{1b}[31mall is well"]),
    },
    Case {
        name: "a_guest_that_crashes_is_told_with_its_last_words",
        balancing: Balancing::Panic,
        end: End::Held(
            "SyncLoadBalancerFailed",
            &[
                "trapped: load-balancer.ensure in module",
                "because it was told to",
            ],
        ),
    },
    Case {
        name: "an_error_full_of_rubbish_is_told_in_one_clean_line",
        balancing: Balancing::GarbageError,
        end: End::Held("SyncLoadBalancerFailed", &["\\u{1b}[31mall is well"]),
    },
    Case {
        name: "a_conflict_with_an_owner_of_a_megabyte_is_no_conflict_with_nobody",
        balancing: Balancing::HugeOwner,
        end: End::Held("SyncLoadBalancerFailed", &["1048576 bytes of an owner"]),
    },
];

/// One test per case, and one about finalizers.
pub(crate) fn trials() -> Vec<Trial> {
    let checked = |case: &'static Case| {
        trial(format!("services::{}", case.name), || {
            block_on(check(case));
            Ok(())
        })
    };
    let unproven = trial(
        "services::absence_that_nobody_proved_keeps_the_finalizer",
        || {
            block_on(absence_that_nobody_proved());
            Ok(())
        },
    );
    CASES.iter().map(checked).chain([unproven]).collect()
}

/// Texts that no answer may bring into a Service, and no Event may show.
const RUBBISH: &[&str] = &[
    "169.254",
    "10.96.0.1",
    "0.0.0.0",
    "localhost",
    "another.example",
    "evil.example",
    "somebody-else",
];

/// A cluster with a node, a new Service, and one that has a load balancer already.
async fn cluster(has_old: bool) -> (Cluster, Api<Service>) {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client_as("kubelet"));
    let node = node("one")
        .label(SERVICE_OWNER, "misbehaving")
        .provider_id("misbehaving://one")
        .address("InternalIP", "192.0.2.7");
    create(&nodes, node).await;
    let services: Api<Service> = Api::default_namespaced(cluster.client_as("kubectl"));
    create(&services, service("new").port(80)).await;
    if has_old {
        let old = service("old").annotation(SERVICE_OWNER, "misbehaving");
        let finalizers = json!([LOAD_BALANCER_FINALIZER]);
        let old = old.with(|old| old["metadata"]["finalizers"] = finalizers);
        let mut old = create(&services, old.port(80)).await;
        let status = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.99" }] } });
        old.status = serde_json::from_value(status).unwrap();
        let params = PostParams::default();
        services.replace_status("old", &params, &old).await.unwrap();
    }
    (cluster, services)
}

/// Runs the controllers with the guest for a minute, which passes in no time.
async fn run(balancing: Balancing, cluster: &Cluster) {
    let provider = world::load_balancing(balancing, NOWHERE).await.unwrap();
    tokio::time::pause();
    let over = tokio::time::sleep(TIMEOUT);
    let (client, provider) = (cluster.client_as("ccm"), Arc::new(provider));
    let (settings, metrics) = (settings(TIMEOUT), Metrics::default());
    let ran = run_one(client, provider, settings, metrics, over);
    ran.await.unwrap();
}

fn addresses(service: &Service) -> Vec<String> {
    let status = service.status.as_ref();
    let ingress = status
        .and_then(|status| status.load_balancer.as_ref())
        .and_then(|balancer| balancer.ingress.clone());
    let places = ingress.unwrap_or_default().into_iter();
    places
        .map(|way| way.ip.or(way.hostname).unwrap_or_default())
        .collect()
}

/// The Service has owner and finalizer, and nothing else was written to it.
fn assert_owned(service: &Service) {
    let text = serde_json::to_string(service).unwrap();
    let metadata = &service.metadata;
    let finalizers = metadata.finalizers.clone().unwrap_or_default();
    assert_eq!(finalizers, [LOAD_BALANCER_FINALIZER], "{text}");
    let annotations = metadata.annotations.clone().unwrap_or_default();
    let owner = (SERVICE_OWNER.to_owned(), "misbehaving".to_owned());
    assert_eq!(annotations, [owner].into(), "{text}");
}

async fn check(case: &Case) {
    let is_served = matches!(case.end, End::Served(_));
    let (cluster, services) = cluster(!is_served).await;
    run(case.balancing, &cluster).await;

    let new = services.get("new").await.unwrap();
    assert_owned(&new);
    let expected: &[&str] = match is_served {
        true => &["203.0.113.10"],
        false => &[],
    };
    assert_eq!(addresses(&new), expected);
    if !is_served {
        let old = services.get("old").await.unwrap();
        assert_owned(&old);
        assert_eq!(addresses(&old), ["203.0.113.99"]);
    }
    let warnings = warnings(&cluster).await;
    let all = |parts: &[&str], text: &str| parts.iter().all(|part| text.contains(part));
    match case.end {
        End::Waits => assert!(warnings.is_empty(), "{warnings:?}"),
        End::Served(parts) => {
            for part in parts {
                let is_told = warnings.iter().any(|(_, text)| text.contains(part));
                assert!(is_told, "{part}: {warnings:?}");
            }
        }
        End::Held(reason, parts) => {
            let is_told = |(found, text): &(String, String)| found == reason && all(parts, text);
            assert!(warnings.iter().any(is_told), "{warnings:?}");
        }
    }
    for service in services.list(&ListParams::default()).await.unwrap() {
        let text = serde_json::to_string(&service.metadata).unwrap();
        for word in RUBBISH {
            assert!(!text.contains(word), "{word}: {text}");
        }
        let conditions = service.status.and_then(|status| status.conditions);
        for condition in conditions.unwrap_or_default() {
            let message = condition.message;
            assert!(!message.contains(char::is_control), "{message:?}");
        }
    }
}

/// Events of type Warning about the new Service: reason and message.
async fn warnings(cluster: &Cluster) -> Vec<(String, String)> {
    let events: Api<Event> = Api::default_namespaced(cluster.client_as("kubectl"));
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let mut warnings = Vec::new();
    for event in events {
        let message = event.message.unwrap_or_default();
        assert!(
            message.len() <= 1024 && !message.contains(char::is_control),
            "{message:?}"
        );
        let is_new = event.involved_object.name.as_deref() == Some("new");
        if is_new && event.type_.as_deref() == Some("Warning") {
            warnings.push((event.reason.unwrap_or_default(), message));
        }
    }
    warnings
}

/// F21: the guest reports a completed deletion and an absence without any request to the cloud.
async fn absence_that_nobody_proved() {
    let (cluster, services) = cluster(true).await;
    let params = DeleteParams::default();
    services.delete("old", &params).await.unwrap();
    run(Balancing::AbsentWithoutAsking, &cluster).await;
    let old = services.get("old").await.unwrap();
    assert!(old.metadata.deletion_timestamp.is_some());
    assert_owned(&old);
    // The other Service stays as it is.
    assert_eq!(
        addresses(&services.get("new").await.unwrap()),
        ["203.0.113.10"]
    );
}
