//! The whole controller against the in-memory API server: which nodes wake, and which failures it survives.
//! Reconciliations themselves are tested in `ccm-core` and in the scenarios.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_core::cloud::{CloudNode, ProviderError};
use ccm_core::node::ownership::NodeClaim;
use ccm_core::safety::permit::Mode;
use ccm_core::settings::ServiceRules;
use ccm_fixtures::kubernetes::node;
use ccm_fixtures::provider::{ScriptedProvider, at_once, found, instance, late};
use ccm_sim::cluster::Cluster;
use k8s_openapi::api::core::v1::{Event as NodeEvent, Node};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::pruned_objects::fixtures::pruned_nodes;
use crate::{Controllers, Metrics, Provided, RunError, Settings, SharedPlan, fixtures, run_all};

/// A cloud that finds every node by its name, after a moment.
fn finds_all() -> ScriptedProvider {
    behind(|_| Ok(()))
}

/// The same behind a service that gets the number of earlier calls, and whose error ends a call.
fn behind(
    first: impl Fn(usize) -> Result<(), ProviderError> + Send + Sync + 'static,
) -> ScriptedProvider {
    let named = |node: &CloudNode| format!("sim://{}", node.name);
    ScriptedProvider::new("sim")
        .finding(move |node| found(instance(named(node), "10.0.0.2")))
        .scripted(move |asked| match first(asked.number) {
            Ok(()) => late(Duration::from_millis(100)),
            error => at_once(error),
        })
}

fn settings() -> Settings {
    let base = fixtures::settings();
    Settings {
        controllers: Controllers {
            node: true,
            ..fixtures::NO_CONTROLLERS
        },
        node: NodeSettings {
            concurrent_syncs: NonZeroUsize::new(8).unwrap(),
            ..base.node.clone()
        },
        ..base
    }
}

async fn create(cluster: &Cluster, name: &str) {
    fixtures::create(&nodes(cluster), node(name).uninitialized()).await;
}

fn nodes(cluster: &Cluster) -> Api<Node> {
    Api::all(cluster.client_as("test"))
}

async fn left(cluster: &Cluster) -> usize {
    let all = pruned_nodes(cluster).await;
    all.iter().filter(|node| node.is_uninitialized()).count()
}

/// Runs the controllers for this many seconds of the paused clock, and then shuts them down.
async fn run_for(
    cluster: &Cluster,
    cloud: Arc<ScriptedProvider>,
    settings: Settings,
    seconds: u64,
) -> Metrics {
    let metrics = Metrics::register(&mut Registry::default());
    let shutdown = tokio::time::sleep(Duration::from_secs(seconds));
    fixtures::run_one(
        cluster.client_as("ccm"),
        cloud,
        settings,
        metrics.clone(),
        shutdown,
    )
    .await
    .unwrap();
    metrics
}

#[tokio::test(start_paused = true)]
async fn a_tainted_node_is_initialised_and_the_event_says_so() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    run_for(&cluster, Arc::new(finds_all()), settings(), 5).await;
    let node = nodes(&cluster).get("worker-1").await.unwrap();
    assert_eq!(left(&cluster).await, 0);
    assert_eq!(
        node.spec.unwrap().provider_id.as_deref(),
        Some("sim://worker-1")
    );
    assert_eq!(
        node.status.unwrap().addresses.unwrap()[0].address,
        "10.0.0.2"
    );
    let events: Api<NodeEvent> = Api::all(cluster.client());
    let events = events.list(&ListParams::default()).await.unwrap();
    let reasons: Vec<_> = events
        .iter()
        .map(|event| event.reason.as_deref().unwrap())
        .collect();
    assert_eq!(reasons, ["Synced"]);
    let writes: Vec<_> = cluster
        .requests()
        .into_iter()
        .filter(|request| request.identity == "ccm" && request.verb == "patch")
        .map(|request| (request.subresource, request.content_type, request.code))
        .collect();
    let strategic = "application/strategic-merge-patch+json".to_owned();
    assert_eq!(
        writes,
        [
            ("status".to_owned(), strategic.clone(), Some(200)),
            (String::new(), strategic, Some(200))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn node_047_many_new_nodes_cost_few_calls() {
    let cluster = Cluster::new();
    let cloud = Arc::new(finds_all());
    for number in 0..300 {
        create(&cluster, &format!("worker-{number}")).await;
    }
    run_for(&cluster, cloud.clone(), settings(), 60).await;
    assert_eq!(left(&cluster).await, 0);
    assert_eq!(
        cloud.lookup_sizes().iter().sum::<usize>(),
        300,
        "each is asked about once"
    );
    assert!(
        cloud.lookup_sizes().len() <= 3,
        "{:?}",
        cloud.lookup_sizes()
    );
}

#[tokio::test(start_paused = true)]
async fn node_050_every_known_node_is_asked_about_once_in_every_pass() {
    let cluster = Cluster::new();
    for number in 0..10 {
        create(&cluster, &format!("worker-{number}")).await;
    }
    run_for(&cluster, Arc::new(finds_all()), settings(), 5).await;
    let before = cluster.requests().len();
    let cloud = Arc::new(finds_all());
    run_for(&cluster, cloud.clone(), settings(), 700).await;
    assert_eq!(
        cloud.lookup_sizes(),
        [10, 10, 10],
        "at the start, after 5 and after 10 minutes"
    );
    let requests = cluster.requests();
    let writes = requests[before..]
        .iter()
        .filter(|request| request.verb == "patch")
        .count();
    assert_eq!(writes, 0, "what is equal is not written");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_wakes_nobody_and_a_label_does() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    let cloud = Arc::new(finds_all());
    let change = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let asked = cluster.requests().len();
        let beat = json!({ "metadata": { "annotations": { "volumes": "attached" } } });
        let (api, params) = (nodes(&cluster), PatchParams::default());
        api.patch("worker-1", &params, &Patch::Merge(beat))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(
            cluster.requests().len(),
            asked + 1,
            "only the heartbeat itself"
        );
        let label =
            json!({ "metadata": { "labels": { "beta.kubernetes.io/instance-type": "t" } } });
        api.patch("worker-1", &params, &Patch::Merge(label))
            .await
            .unwrap();
    };
    tokio::join!(run_for(&cluster, cloud.clone(), settings(), 60), change);
    let labels = nodes(&cluster)
        .get("worker-1")
        .await
        .unwrap()
        .metadata
        .labels
        .unwrap();
    assert_eq!(
        labels
            .get("node.kubernetes.io/instance-type")
            .map(String::as_str),
        Some("t")
    );
    assert_eq!(
        cloud.lookup_sizes(),
        [1],
        "NODE-012: the provider is not called for a label"
    );
}

#[tokio::test(start_paused = true)]
async fn iface_003_a_provider_without_instances_is_an_error() {
    let provided = Provided {
        cloud: Arc::new(ScriptedProvider::new("sim")),
        nodes: NodeClaim::default(),
        service: ServiceRules::default(),
    };
    let metrics = Metrics::register(&mut Registry::default());
    let client = Cluster::new().client();
    // No other provider can follow.
    let (_, provided) = watch::channel(Arc::from([provided]));
    let error = run_all(
        client,
        provided,
        settings(),
        metrics,
        std::future::pending(),
    )
    .await
    .unwrap_err();
    assert!(matches!(&error, RunError::NoInstances(name) if name == "sim"));
    assert_eq!(
        error.to_string(),
        "cloud provider \"sim\" does not support instances"
    );
}

#[tokio::test(start_paused = true)]
async fn in_plan_mode_the_cluster_is_not_changed() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    run_for(
        &cluster,
        Arc::new(finds_all()),
        Settings {
            mode: Mode::Plan,
            ..settings()
        },
        60,
    )
    .await;
    assert_eq!(left(&cluster).await, 1);
    let requests = cluster.requests();
    let ours = requests.iter().filter(|request| request.identity == "ccm");
    assert!(ours.clone().count() > 0);
    assert!(
        ours.clone()
            .all(|request| ["get", "list", "watch"].contains(&request.verb))
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_during_its_look_up_leaves_the_plan() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    let plan = SharedPlan::default();
    let settings = Settings {
        mode: Mode::Plan,
        plan: plan.clone(),
        ..settings()
    };
    let slow = ScriptedProvider::new("sim")
        .finding(|_| found(instance("sim://1", "10.0.0.2")))
        .scripted(|_| late(Duration::from_secs(5)));
    let delete = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let nodes = nodes(&cluster);
        nodes.delete("worker-1", &Default::default()).await.unwrap();
    };
    tokio::join!(run_for(&cluster, Arc::new(slow), settings, 30), delete);
    let plan = plan.snapshot();
    assert_eq!(plan.changes().count(), 0);
    assert!(plan.is_sure());
}

#[tokio::test(start_paused = true)]
async fn after_leadership_is_lost_nothing_is_written() {
    for (during_a_look_up, lookups) in [(false, 0), (true, 1)] {
        let cluster = Cluster::new();
        let settings = settings();
        let tenure = settings.tenure.clone();
        if !during_a_look_up {
            tenure.end();
        }
        create(&cluster, "worker-1").await;
        let cloud = Arc::new(behind(move |_| {
            tenure.end();
            Ok(())
        }));
        run_for(&cluster, cloud.clone(), settings, 60).await;
        assert_eq!(cloud.lookup_sizes().len(), lookups);
        let requests = cluster.requests();
        let written = requests.iter().filter(|request| request.verb == "patch");
        assert_eq!(written.count(), 0, "during a look-up: {during_a_look_up}");
    }
}

mod faults;
mod guard;
mod metrics;
mod upstream;
