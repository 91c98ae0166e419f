//! Bad answers about routes through the real controllers: the misbehaving guest in the real host, a cloud on loopback
//! and a cluster behind the real client. Whatever the guest answers, no route is removed that may stay, no node is
//! reported as reachable after a worthless list, and messages for people are clean.

use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::{Controllers, Metrics, Settings};
use ccm_core::settings::RouteSettings;
use ccm_core::well_known::{NETWORK_UNAVAILABLE, OWNER_LABEL};
use ccm_fixtures::kubernetes::node;
use ccm_sim::cluster::Cluster;
use ccm_tests::controllers::{NO_CONTROLLERS, create, run_one};
use ccm_tests::harness::trial;
use guest_misbehaving::behaviour::Routing;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Api;
use kube::api::ListParams;
use libtest_mimic::Trial;

use crate::misbehaving::cluster::settings;
use crate::misbehaving::log_lines::{Line, Lines};
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, block_on};

/// One run of the controllers with a behaviour whose list asks the cloud or makes routes, and the state after it.
struct Case {
    name: &'static str,
    routing: Routing,
    /// The reason of the node's condition NetworkUnavailable.
    condition: &'static str,
    /// The changes that reached the cloud, repetitions excepted.
    changes: &'static [&'static str],
    /// The parts of one Event of type Warning about the node.
    told: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "a_list_that_is_right_is_believed",
        routing: Routing::Honest,
        condition: "RouteCreated",
        changes: &[],
        told: &[],
    },
    Case {
        name: "routes_outside_of_the_pods_networks_are_not_removed",
        routing: Routing::HostileDestinations,
        condition: "RouteCreated",
        changes: &[],
        told: &[],
    },
    Case {
        name: "what_somebody_else_uses_is_not_removed_and_is_told_clean",
        routing: Routing::TerminalTarget,
        condition: "NoRouteCreated",
        changes: &[],
        told: &["10.0.1.0/24", "all is well"],
    },
    Case {
        name: "what_leads_nowhere_by_proof_is_removed",
        routing: Routing::Dead,
        condition: "RouteCreated",
        changes: &["DELETE /v1/routes/9", "POST /v1/routes"],
        told: &[],
    },
    Case {
        name: "what_leads_nowhere_without_proof_stays",
        routing: Routing::DeadWithoutAsking,
        condition: "RouteCreated",
        changes: &["POST /v1/routes"],
        told: &[],
    },
];

/// Lists that are worth nothing, and the reason of their retry: the node has no condition, and there is no Event about
/// it.
const WORTHLESS: &[(&str, Routing, &str)] = &[
    (
        "too_many_routes_are_none",
        Routing::ManyRoutes,
        "list: 50000 routes, at most 40000",
    ),
    (
        "routes_that_are_too_long_are_none",
        Routing::LongRoutes,
        "trapped: routes.list in module",
    ),
    (
        "an_id_that_is_too_long_is_none",
        Routing::LongId,
        "513 bytes of an id",
    ),
    (
        "a_node_that_nobody_knows_has_not_vanished",
        Routing::UnknownNode,
        "a node that the call was not about",
    ),
    (
        "a_guest_that_crashes_changes_nothing",
        Routing::Panic,
        "because it was told to",
    ),
    (
        "an_error_full_of_rubbish_changes_nothing",
        Routing::GarbageError,
        "\\u{1b}[31mall is well",
    ),
    (
        "who_deletes_while_it_is_asked_to_list_is_refused",
        Routing::DeletesInList,
        "DELETE /routes/1 on target network",
    ),
];

/// One test per case, and one per worthless list.
pub(crate) fn trials() -> Vec<Trial> {
    let checked = |case: &'static Case| {
        trial(format!("routed::{}", case.name), || {
            block_on(check(case));
            Ok(())
        })
    };
    let worthless = |(name, routing, why): &(&str, Routing, &'static str)| {
        let (routing, why) = (*routing, *why);
        trial(format!("routed::{name}"), move || {
            block_on(check_worthless(routing, why));
            Ok(())
        })
    };
    let worthless = WORTHLESS.iter().map(worthless);
    CASES.iter().map(checked).chain(worthless).collect()
}

/// An address without a listener, because nothing is sent.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// A cluster with one node that is initialised and wants a route.
async fn cluster() -> (Cluster, Api<Node>) {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client_as("kubelet"));
    let node = node("one")
        .label(OWNER_LABEL, "misbehaving")
        .provider_id("misbehaving://one")
        .pod_cidrs(&["10.0.1.0/24"])
        .address("InternalIP", "192.0.2.7");
    create(&nodes, node).await;
    (cluster, nodes)
}

fn routing() -> Settings {
    Settings {
        controllers: Controllers {
            route: true,
            ..NO_CONTROLLERS
        },
        route: RouteSettings {
            cluster_cidrs: vec!["10.0.0.0/16".parse().unwrap()],
            resync: Duration::from_millis(200),
            node_quiet: Duration::from_millis(50),
            node_wait: Duration::from_millis(200),
            ..RouteSettings::default()
        },
        ..settings(TIMEOUT)
    }
}

/// The reason of the condition that is about routes.
fn condition(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let mut conditions = conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == NETWORK_UNAVAILABLE)?;
    condition.reason.clone()
}

/// Runs the controllers with the guest until `over`.
async fn run(
    routing_word: Routing,
    endpoint: &str,
    cluster: &Cluster,
    over: impl Future<Output = ()> + Send,
) {
    let provider = world::load_routing(routing_word, endpoint).await.unwrap();
    let (client, provider) = (cluster.client_as("ccm"), Arc::new(provider));
    let ran = run_one(client, provider, routing(), Metrics::default(), over);
    ran.await.unwrap();
}

/// On the real clock, because the cloud is on a socket, until the third pass has begun: the work of the first two is
/// done then.
async fn check(case: &Case) {
    let cloud = Target::start(TargetMode::Well).await;
    let (cluster, nodes) = cluster().await;
    let done = tokio::time::timeout(TIMEOUT, async {
        let is_there = async || {
            let node = nodes.get("one").await.unwrap();
            condition(&node).as_deref() == Some(case.condition)
        };
        while passes(&cloud) < 3 || !is_there().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let over = async {
        // The assertions below show what is missing.
        let _ = done.await;
    };
    run(case.routing, &cloud.endpoint(), &cluster, over).await;

    let node = nodes.get("one").await.unwrap();
    assert_eq!(condition(&node).as_deref(), Some(case.condition));
    assert!(passes(&cloud) >= 3, "{:?}", cloud.asked());
    let mut changes = changes(&cloud);
    changes.sort();
    changes.dedup();
    assert_eq!(changes, case.changes, "changes that reached the cloud");
    let text = serde_json::to_string(&node).unwrap();
    assert!(!text.contains("all is well"), "{text}");
    check_events(&cluster, case.told).await;
}

/// Until the reason of the list's retry is logged. On the real clock: the simulated one does not advance while a guest
/// computes.
async fn check_worthless(routing: Routing, why: &str) {
    let lines = Lines::listen();
    let (cluster, nodes) = cluster().await;
    let before = nodes.get("one").await.unwrap();
    let reasons = || {
        let lines = lines.so_far().into_iter();
        let waiting = lines.filter(|line| line.target == "waiting");
        waiting.map(|line: Line| line.message).collect::<Vec<_>>()
    };
    let over = async {
        let told = tokio::time::timeout(TIMEOUT, async {
            while reasons().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        told.await
            .expect("nobody says why the list is asked for again");
    };
    run(routing, NOWHERE, &cluster, over).await;
    assert_eq!(nodes.get("one").await.unwrap(), before);
    for reason in reasons() {
        assert!(reason.contains(why), "{reason}");
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
    check_events(&cluster, &[]).await;
}

/// How often all routes were listed; if the guest does not list them at the cloud, how often one was made.
fn passes(cloud: &Target) -> usize {
    let asked = cloud.asked();
    let times = |line: &str| asked.iter().filter(|asked| *asked == line).count();
    times("GET /v1/routes").max(times("POST /v1/routes"))
}

fn changes(cloud: &Target) -> Vec<String> {
    let mut asked = cloud.asked();
    asked.retain(|line| !line.starts_with("GET "));
    asked
}

async fn check_events(cluster: &Cluster, told: &[&str]) {
    let events: Api<Event> = Api::default_namespaced(cluster.client_as("kubectl"));
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let messages: Vec<_> = events
        .into_iter()
        .filter(|event| event.type_.as_deref() == Some("Warning"))
        .map(|event| event.message.unwrap_or_default())
        .collect();
    for message in &messages {
        let is_clean = message.len() <= 1024 && !message.contains(char::is_control);
        assert!(is_clean, "{message:?}");
    }
    let is_whole = |message: &String| told.iter().all(|part| message.contains(part));
    assert!(
        told.is_empty() || messages.iter().any(is_whole),
        "{messages:?}"
    );
}
