//! The route controller against the in-memory API server: for which providers it runs, how often it lists, which routes
//! it writes and which it leaves alone. Its decisions are tested in `ccm-core` and in the scenarios.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::node::ownership::NodeClaim;
use ccm_core::settings::{NodeSettings, ServiceRules};
use ccm_fixtures::kubernetes::node;
use ccm_fixtures::provider::{ScriptedProvider, at_once, late};
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::client::Body;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::metrics::tests::encoded;
use crate::{Controllers, Metrics, Provided, Settings, Stopped, fixtures, run_all};

/// A cloud with the capability of routes.
fn cloud() -> ScriptedProvider {
    ScriptedProvider::new("sim").routing(Vec::new())
}

/// The same, which takes this long to make a route.
fn slow(time: Duration) -> Arc<ScriptedProvider> {
    let slow = cloud().scripted(move |asked| match asked.call.function {
        "create" => late(time),
        _ => at_once(Ok(())),
    });
    Arc::new(slow)
}

fn destinations(cloud: &ScriptedProvider) -> Vec<String> {
    let routes = cloud.routes().into_iter();
    routes.map(|route| route.destination_cidr).collect()
}

fn settings(cluster_cidrs: &[&str]) -> Settings {
    let cluster_cidrs = cluster_cidrs.iter().map(|text| text.parse().unwrap());
    let base = fixtures::settings();
    Settings {
        controllers: Controllers {
            route: true,
            ..fixtures::NO_CONTROLLERS
        },
        route: RouteSettings {
            cluster_cidrs: cluster_cidrs.collect(),
            ..RouteSettings::default()
        },
        node: NodeSettings {
            concurrent_syncs: NonZeroUsize::new(2).unwrap(),
            ..base.node.clone()
        },
        drain: Duration::from_secs(5),
        ..base
    }
}

async fn create(cluster: &Cluster, name: &str, cidr: &str, conditions: Value) {
    let node = node(name).pod_cidrs(&[cidr]);
    let node = node.with(|node| node["status"]["conditions"] = conditions);
    fixtures::create(&Api::all(cluster.client_as("test")), node).await;
}

/// `name=status/reason` of every node that has the condition.
async fn shown_conditions(cluster: &Cluster) -> Vec<String> {
    let api: Api<Node> = Api::all(cluster.client_as("test"));
    let all = api.list(&ListParams::default()).await.unwrap();
    let mut shown = Vec::new();
    for node in all {
        let name = node.metadata.name.clone().unwrap_or_default();
        let conditions = node.status.and_then(|status| status.conditions);
        for one in conditions.into_iter().flatten() {
            if one.type_ == "NetworkUnavailable" {
                let reason = one.reason.unwrap_or_default();
                shown.push(format!("{name}={}/{reason}", one.status));
            }
        }
    }
    shown
}

/// The list of this one provider.
fn list(cloud: &Arc<ScriptedProvider>) -> Arc<[Provided]> {
    Arc::new([Provided {
        cloud: cloud.clone(),
        nodes: NodeClaim::default(),
        service: ServiceRules {
            is_default: false,
            ..ServiceRules::default()
        },
    }])
}

async fn run_while(
    cluster: &Cluster,
    cloud: &Arc<ScriptedProvider>,
    settings: Settings,
    script: impl AsyncFnOnce(),
) -> Stopped {
    let (_told, received) = watch::channel(list(cloud));
    let client = cluster.client_as("ccm");
    run_listed(client, received, settings, Metrics::default(), script).await
}

/// Runs the controllers of the listed providers while the script lasts.
async fn run_listed(
    client: Client,
    received: watch::Receiver<Arc<[Provided]>>,
    settings: Settings,
    metrics: Metrics,
    script: impl AsyncFnOnce(),
) -> Stopped {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let running = run_all(client, received, settings, metrics, stopped);
    let script = async {
        script().await;
        let _ = stop.send(());
    };
    tokio::join!(running, script).0.unwrap()
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// An alert counts missing routes.
#[tokio::test(start_paused = true)]
async fn a_provider_that_is_removed_while_its_cloud_hangs_leaves_no_counts_behind() {
    let cloud = cloud().scripted(|asked| match asked.call.to_string().as_str() {
        "create 10.1.1.0/24" => Box::pin(std::future::pending()),
        _ => at_once(Ok(())),
    });
    let (cluster, cloud) = (Cluster::new(), Arc::new(cloud));
    for (name, cidr) in [("a", "10.1.0.0/24"), ("b", "10.1.1.0/24")] {
        create(&cluster, name, cidr, json!([])).await;
    }
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let counted = || {
        let text = encoded(&registry);
        let lines = text.lines().filter(|line| line.starts_with("ccm_routes{"));
        lines.filter(|line| !line.ends_with(" 0")).count()
    };
    let (told, received) = watch::channel(list(&cloud));
    let settings = settings(&["10.1.0.0/16"]);
    let client = cluster.client_as("ccm");
    run_listed(client, received, settings, metrics, async || {
        seconds(5).await;
        assert_ne!(counted(), 0);
        told.send_replace(Arc::new([]));
        seconds(10).await;
        assert_eq!(counted(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_gets_its_route_and_one_that_goes_loses_it_with_one_listing_each() {
    let (cluster, cloud) = (Cluster::new(), Arc::new(cloud()));
    create(&cluster, "a", "10.1.0.0/24", json!([])).await;
    let settings = settings(&["10.1.0.0/16"]);
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let (_told, received) = watch::channel(list(&cloud));
    let client = cluster.client_as("ccm");
    run_listed(client, received, settings, metrics, async || {
        seconds(5).await;
        assert_eq!(cloud.take_asked(), ["list", "create 10.1.0.0/24"]);
        assert_eq!(shown_conditions(&cluster).await, ["a=False/RouteCreated"]);
        create(&cluster, "b", "10.1.1.0/24", json!([])).await;
        seconds(5).await;
        assert_eq!(cloud.take_asked(), ["list", "create 10.1.1.0/24"]);
        let api: Api<Node> = Api::all(cluster.client_as("test"));
        api.delete("a", &DeleteParams::default()).await.unwrap();
        seconds(5).await;
        assert_eq!(cloud.take_asked(), ["list", "delete 10.1.0.0/24"]);
        cluster.keep_writes();
        seconds(3600).await;
        assert_eq!(cloud.take_asked(), ["list"; 12], "an idle hour");
        assert!(
            cluster
                .writes()
                .iter()
                .all(|write| write.request.identity != "ccm")
        );
    })
    .await;
    let text = encoded(&registry);
    for line in [
        "route_controller_route_sync_total 15",
        "running_managed_controllers{name=\"route\",manager=\"cloud-controller-manager\"} 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}

/// Without nodes, all routes would seem to be unwanted.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_providers_before_all_nodes_are_known_has_no_routes_listed() {
    let (cluster, cloud) = (Cluster::new(), Arc::new(cloud()));
    create(&cluster, "a", "10.1.0.0/24", json!([])).await;
    for verb in [Verb::List, Verb::Watch] {
        let slow = FaultEffect::Delayed(Duration::from_secs(10));
        cluster.inject(Fault::next(verb, "nodes", slow));
    }
    let second = Arc::new(ScriptedProvider::new("second"));
    let both: Arc<[Provided]> = [list(&cloud), list(&second)]
        .iter()
        .flat_map(|list| list.iter().cloned())
        .collect();
    let (told, received) = watch::channel(list(&cloud));
    let settings = settings(&["10.1.0.0/16"]);
    run_listed(
        cluster.client_as("ccm"),
        received,
        settings,
        Metrics::default(),
        async || {
            seconds(1).await;
            told.send_replace(both);
            seconds(4).await;
            assert_eq!(cloud.take_asked(), [""; 0]);
            seconds(20).await;
            assert_eq!(cloud.take_asked().first().unwrap(), "list");
        },
    )
    .await;
}

/// No reconciliation reports that.
#[tokio::test(start_paused = true)]
async fn a_removal_that_is_not_needed_any_more_waits_no_longer() {
    let cloud = cloud().scripted(|asked| match asked.call.function {
        "delete" => at_once(Err(ProviderError::Unavailable("away".to_owned()))),
        _ => at_once(Ok(())),
    });
    let (cluster, cloud) = (Cluster::new(), Arc::new(cloud));
    create(&cluster, "a", "10.1.0.0/24", json!([])).await;
    let settings = settings(&["10.1.0.0/16"]);
    let activity = settings.reports.activity.clone();
    let waiting = || {
        let waiting = activity.snapshot().waiting.into_iter();
        waiting.map(|one| one.object).collect::<Vec<_>>()
    };
    run_while(&cluster, &cloud, settings, async || {
        seconds(5).await;
        assert_eq!(waiting(), [""; 0]);
        let api: Api<Node> = Api::all(cluster.client_as("test"));
        api.delete("a", &DeleteParams::default()).await.unwrap();
        seconds(10).await;
        assert_eq!(waiting(), ["route/10.1.0.0/24"]);
        create(&cluster, "a", "10.1.0.0/24", json!([])).await;
        seconds(30).await;
        assert_eq!(waiting(), [""; 0]);
        assert_eq!(destinations(&cloud), ["10.1.0.0/24"]);
    })
    .await;
}

/// Without a listing no node gets a route, and no reconciliation begins that could tell why.
#[tokio::test(start_paused = true)]
async fn a_listing_that_fails_is_shown_as_waiting_until_one_succeeds() {
    let cloud = cloud().scripted(|asked| match asked.number {
        0 => at_once(Err(ProviderError::Denied("no right".to_owned()))),
        _ => at_once(Ok(())),
    });
    let (cluster, cloud) = (Cluster::new(), Arc::new(cloud));
    create(&cluster, "a", "10.1.0.0/24", json!([])).await;
    let settings = settings(&["10.1.0.0/16"]);
    let activity = settings.reports.activity.clone();
    let waiting = || {
        let waiting = activity.snapshot().waiting.into_iter();
        waiting
            .map(|one| (one.object, one.next.is_some()))
            .collect::<Vec<_>>()
    };
    let listings = || {
        let decisions = activity.snapshot().decisions.into_iter();
        let listings = decisions.filter(|one| one.object == "routes");
        listings.map(|one| one.is_success).collect::<Vec<_>>()
    };
    run_while(&cluster, &cloud, settings, async || {
        seconds(5).await;
        assert_eq!(waiting(), [("routes".to_owned(), true)]);
        assert_eq!(listings(), [false]);
        seconds(60).await;
        assert!(waiting().is_empty());
        assert_eq!(listings().first(), Some(&true), "the newest is first");
        assert_eq!(destinations(&cloud), ["10.1.0.0/24"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn edge_081_another_s_condition_is_seen_for_what_it_is_and_stays() {
    let (cluster, cloud) = (Cluster::new(), Arc::new(cloud()));
    let theirs =
        json!([{ "type": "NetworkUnavailable", "status": "False", "reason": "CalicoIsUp" }]);
    create(&cluster, "a", "10.1.0.0/24", theirs).await;
    let settings = settings(&["10.1.0.0/16"]);
    run_while(&cluster, &cloud, settings, async || {
        seconds(600).await;
        assert_eq!(destinations(&cloud), ["10.1.0.0/24"]);
        assert_eq!(shown_conditions(&cluster).await, ["a=False/CalicoIsUp"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn route_001_and_edge_083_it_runs_only_for_who_makes_routes_and_where_the_networks_are_known()
{
    for (cidrs, can, is_wanted, runs) in [
        (["10.1.0.0/16"].as_slice(), true, true, true),
        (&[], true, true, false),
        (&["10.1.0.0/16"], false, true, false),
        (&["10.1.0.0/16"], true, false, false),
    ] {
        let cluster = Cluster::new();
        let mut cloud = cloud();
        cloud.capabilities.routes = can;
        let cloud = Arc::new(cloud);
        create(&cluster, "a", "10.1.0.0/24", json!([])).await;
        let mut settings = settings(cidrs);
        settings.controllers.route = is_wanted;
        run_while(&cluster, &cloud, settings, async || {
            seconds(600).await;
            assert_eq!(!cloud.take_asked().is_empty(), runs);
            assert_eq!(!shown_conditions(&cluster).await.is_empty(), runs);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_panics_is_tried_again() {
    let cluster = Cluster::new();
    let cloud = Arc::new(cloud().scripted(|asked| {
        assert!(asked.number > 0, "on purpose, in a test");
        at_once(Ok(()))
    }));
    create(&cluster, "a", "10.1.0.0/24", json!([])).await;
    let settings = settings(&["10.1.0.0/16"]);
    run_while(&cluster, &cloud, settings, async || {
        seconds(10).await;
        assert_eq!(cloud.take_asked(), ["list", "list", "create 10.1.0.0/24"]);
    })
    .await;
}

/// Its routes would be looked at no more.
#[tokio::test(start_paused = true)]
async fn a_node_whose_reconciliation_panics_has_another_one() {
    let (cluster, cloud) = (Cluster::new(), Arc::new(cloud()));
    create(&cluster, "a", "10.1.0.0/24", json!([])).await;
    let (inner, has_panicked) = (cluster.client_as("ccm"), AtomicBool::new(false));
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        let is_of_condition = request.uri().path().ends_with("/nodes/a/status");
        let panics = is_of_condition && !has_panicked.swap(true, Ordering::Relaxed);
        async move {
            assert!(!panics, "on purpose, in a test");
            Ok::<_, tower::BoxError>(inner.send(request).await?)
        }
    });
    let client = Client::new(service, "default");
    let (_told, received) = watch::channel(list(&cloud));
    let (settings, metrics) = (settings(&["10.1.0.0/16"]), Metrics::default());
    run_listed(client, received, settings, metrics, async || {
        seconds(5).await;
        assert_eq!(shown_conditions(&cluster).await, [""; 0]);
        seconds(15).await;
        assert_eq!(shown_conditions(&cluster).await, ["a=False/RouteCreated"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_provider_is_asked_for_the_routes_that_the_former_one_left_to_others() {
    let cluster = Cluster::new();
    let cloud = Arc::new(cloud().scripted(|asked| match asked.number {
        1 => at_once(Err(ProviderError::Elsewhere)),
        _ => at_once(Ok(())),
    }));
    create(&cluster, "a", "10.1.0.0/24", json!([])).await;
    let settings = settings(&["10.1.0.0/16"]);
    run_while(&cluster, &cloud, settings, async || {
        seconds(10).await;
        assert_eq!(cloud.take_asked(), ["list", "create 10.1.0.0/24"]);
        seconds(300).await;
        assert_eq!(cloud.take_asked(), ["list"]);
        cloud.replace();
        seconds(300).await;
        assert_eq!(cloud.take_asked(), ["list", "create 10.1.0.0/24"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn as_many_routes_as_is_allowed_are_changed_at_the_same_time() {
    let cluster = Cluster::new();
    let cloud = slow(Duration::from_secs(10));
    for number in 0..6 {
        let cidr = format!("10.1.{number}.0/24");
        create(&cluster, &format!("n{number}"), &cidr, json!([])).await;
    }
    let mut settings = settings(&["10.1.0.0/16"]);
    settings.route.concurrent_syncs = NonZeroUsize::new(2).unwrap();
    run_while(&cluster, &cloud, settings, async || {
        seconds(5).await;
        assert_eq!(cloud.take_asked().len(), 3, "the listing and two");
        seconds(10).await;
        assert_eq!(cloud.take_asked().len(), 2);
        seconds(20).await;
        assert_eq!(destinations(&cloud).len(), 6);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_it_waits_for_what_is_on_the_wire_and_starts_nothing_else() {
    let cluster = Cluster::new();
    let cloud = slow(Duration::from_secs(4));
    for number in 0..3 {
        let cidr = format!("10.1.{number}.0/24");
        create(&cluster, &format!("n{number}"), &cidr, json!([])).await;
    }
    let mut settings = settings(&["10.1.0.0/16"]);
    settings.route.concurrent_syncs = NonZeroUsize::MIN;
    let stopped = run_while(&cluster, &cloud, settings, async || seconds(2).await).await;
    assert_eq!(stopped, Stopped::Drained);
    assert_eq!(destinations(&cloud), ["10.1.0.0/24"]);
    assert_eq!(
        shown_conditions(&cluster).await,
        [""; 0],
        "nothing begins any more"
    );
}
