//! Several providers in one manager, against the in-memory API server: none affects another, and the set of providers
//! may change or contradict itself. Decisions about nodes and Services are tested in `ccm-core` and in the scenarios.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_core::cloud::{Capabilities, CloudNode, Lookup};
use ccm_core::node::ownership::NodeClaim;
use ccm_core::selector::Selector;
use ccm_core::settings::{NodeSettings, ServiceRules};
use ccm_fixtures::kubernetes::{ObjectBuilder, node};
use ccm_fixtures::provider::{ScriptedProvider, found, instance, late};
use ccm_sim::cluster;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};

use super::*;
use crate::pruned_objects::fixtures::pruned_nodes;
use crate::{Controllers, fixtures};

mod defects;
mod first_list;
mod leaving;
mod plan;

/// How a cloud behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CloudMode {
    /// It finds every node whose name begins with the cloud's.
    Good,
    /// The same, after this delay.
    Late(Duration),
    /// Its calls never return.
    Endless,
    /// Each of its calls panics.
    Panics,
    /// Every machine has moved to another network.
    Moves,
}

/// A cloud whose scheme is its name.
fn cloud(name: &str, mode: CloudMode) -> Arc<ScriptedProvider> {
    Arc::new(scripted(name, mode))
}

fn scripted(name: &str, mode: CloudMode) -> ScriptedProvider {
    let own = name.to_owned();
    ScriptedProvider::new(name)
        .finding(move |node| answer(&own, mode, node))
        .scripted(move |_| match mode {
            CloudMode::Good | CloudMode::Moves => late(Duration::from_millis(100)),
            CloudMode::Late(time) => late(time),
            CloudMode::Endless => Box::pin(std::future::pending()),
            CloudMode::Panics => panic!("on purpose, in a test"),
        })
}

fn answer(cloud: &str, mode: CloudMode, node: &CloudNode) -> Lookup {
    let Some(number) = node.name.strip_prefix(&format!("{cloud}-")) else {
        return Lookup::NotMine;
    };
    let third = if mode == CloudMode::Moves { 9 } else { 0 };
    let second = if cloud == "east" { 1 } else { 2 };
    let address = format!("10.{second}.{third}.{number}");
    found(instance(format!("{cloud}://{number}"), address))
}

/// The same, with these capabilities.
fn able(name: &str, capabilities: Capabilities) -> Arc<ScriptedProvider> {
    let mut cloud = scripted(name, CloudMode::Good);
    cloud.capabilities = capabilities;
    Arc::new(cloud)
}

fn provided(cloud: &Arc<ScriptedProvider>) -> Provided {
    Provided {
        cloud: cloud.clone(),
        nodes: NodeClaim::default(),
        service: ServiceRules {
            is_default: false,
            ..ServiceRules::default()
        },
    }
}

fn settings() -> Settings {
    let base = fixtures::settings();
    Settings {
        controllers: Controllers {
            service: false,
            ..Controllers::ALL
        },
        node: NodeSettings {
            concurrent_syncs: NonZeroUsize::new(2).unwrap(),
            ..base.node.clone()
        },
        drain: Duration::from_secs(1),
        ..base
    }
}

/// A node of this cloud that waits to be initialised, as the kubelet registers it with its provider ID.
async fn create(cluster: &cluster::Cluster, cloud: &str, number: usize) {
    let node = node(&format!("{cloud}-{number}")).provider_id(&format!("{cloud}://{number}"));
    post(cluster, node.uninitialized()).await;
}

async fn post(cluster: &cluster::Cluster, node: ObjectBuilder<Node>) {
    fixtures::create(&Api::all(cluster.client_as("test")), node).await;
}

async fn waiting(cluster: &cluster::Cluster) -> Vec<String> {
    let all = pruned_nodes(cluster).await;
    let waiting = all.iter().filter(|node| node.is_uninitialized());
    let names = waiting.map(|node| node.name().to_owned());
    names.collect()
}

/// A list of providers that may change.
type List = watch::Sender<Arc<[Provided]>>;

fn list(clouds: &[&Arc<ScriptedProvider>]) -> Arc<[Provided]> {
    clouds.iter().map(|cloud| provided(cloud)).collect()
}

/// Runs the controllers until `script` ends.
async fn run_while(
    cluster: &cluster::Cluster,
    clouds: &[&Arc<ScriptedProvider>],
    settings: Settings,
    script: impl AsyncFnOnce(&List),
) -> Result<Stopped, RunError> {
    let (told, received) = watch::channel(list(clouds));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let client = cluster.client_as("ccm");
    let running = run_all(client, received, settings, Metrics::default(), stopped);
    let script = async {
        script(&told).await;
        let _ = stop.send(());
    };
    tokio::join!(running, script).0
}

/// The writes about the nodes of this cloud, each with its time after the start.
async fn written(others: Option<CloudMode>) -> Vec<(Duration, String)> {
    let cluster = cluster::Cluster::new();
    cluster.keep_writes();
    for number in 1..=20 {
        create(&cluster, "east", number).await;
        create(&cluster, "west", number).await;
    }
    let east = cloud("east", CloudMode::Good);
    let west = others.map(|mode| cloud("west", mode));
    let clouds: Vec<&Arc<ScriptedProvider>> = [&east].into_iter().chain(&west).collect();
    let began = tokio::time::Instant::now();
    let ended = run_while(&cluster, &clouds, settings(), async |_| {
        tokio::time::sleep(Duration::from_secs(40)).await;
        create(&cluster, "east", 21).await;
        tokio::time::sleep(Duration::from_secs(400)).await;
    })
    .await;
    ended.unwrap();
    let writes = cluster.writes().into_iter();
    let writes = writes.filter(|write| write.request.identity == "ccm");
    let ours = writes.filter(|write| write.request.name.starts_with("east-"));
    let nodes = ours.filter(|write| write.request.resource == "nodes");
    let told = nodes.map(|write| {
        let what = format!("{} {}", write.request.name, write.body);
        // The API server counts versions for the whole cluster.
        let version = format!("{}", write.body["metadata"]["resourceVersion"]);
        (write.at - began, what.replace(&version, "…"))
    });
    let mut told: Vec<(Duration, String)> = told.collect();
    told.sort();
    told
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_slow_silent_or_panics_delays_no_other_by_a_moment() {
    let alone = without_uids(written(None).await);
    assert_eq!(alone.len(), 2 * 21, "addresses and the rest, of each node");
    for mode in [
        CloudMode::Good,
        CloudMode::Late(Duration::from_secs(30)),
        CloudMode::Endless,
        CloudMode::Panics,
    ] {
        let beside = without_uids(written(Some(mode)).await);
        assert_eq!(beside, alone);
    }
}

/// Without UIDs: the server makes new ones in every run.
fn without_uids(told: Vec<(Duration, String)>) -> Vec<(Duration, String)> {
    let without = |text: String| {
        let (begin, rest) = text.split_once("\"uid\":\"").unwrap();
        let (_, end) = rest.split_once('"').unwrap();
        format!("{begin}{end}")
    };
    told.into_iter()
        .map(|(at, text)| (at, without(text)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn providers_come_change_and_go_and_the_others_are_asked_no_more_often_for_that() {
    let cluster = cluster::Cluster::new();
    let (east, west) = (
        cloud("east", CloudMode::Good),
        cloud("west", CloudMode::Good),
    );
    // Look-ups of nodes that are not Ready are repeated again and again.
    let mut settings = settings();
    settings.controllers.node_lifecycle = false;
    let ended = run_while(&cluster, &[], settings, async |told| {
        let wait = || tokio::time::sleep(Duration::from_secs(5));
        create(&cluster, "east", 1).await;
        create(&cluster, "west", 1).await;
        wait().await;
        assert_eq!(
            waiting(&cluster).await,
            ["east-1", "west-1"],
            "nobody is here"
        );
        told.send_replace(list(&[&east]));
        wait().await;
        assert_eq!(waiting(&cluster).await, ["west-1"]);
        let asked = east.calls().len();
        told.send_replace(list(&[&east, &west]));
        wait().await;
        assert_eq!(waiting(&cluster).await, Vec::<String>::new());
        // A new generation of the same name.
        let next = cloud("west", CloudMode::Good);
        told.send_replace(list(&[&east, &next]));
        create(&cluster, "west", 2).await;
        wait().await;
        assert_eq!(waiting(&cluster).await, Vec::<String>::new());
        assert!(!next.calls().is_empty());
        told.send_replace(list(&[&east]));
        create(&cluster, "west", 3).await;
        wait().await;
        assert_eq!(waiting(&cluster).await, ["west-3"]);
        assert_eq!(east.calls().len(), asked, "east has noticed nothing");
    })
    .await;
    assert_eq!(ended.unwrap(), Stopped::Drained);
}

#[tokio::test(start_paused = true)]
async fn what_a_replaced_provider_still_says_about_a_new_node_does_not_count() {
    let cluster = cluster::Cluster::new();
    let (east, west) = (
        cloud("east", CloudMode::Good),
        cloud("west", CloudMode::Late(Duration::from_secs(3))),
    );
    // The account of the next west has such a machine, too.
    let next = ScriptedProvider::new("west");
    let next = Arc::new(next.finding(|_| found(instance("west://1", "10.2.0.1"))));
    let settings = Settings {
        drain: Duration::from_secs(30),
        ..settings()
    };
    let ended = run_while(&cluster, &[&east, &west], settings, async |told| {
        // Without a provider ID, so that both are candidates.
        post(&cluster, node("east-1").uninitialized()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        told.send_replace(list(&[&east, &next]));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!next.calls().is_empty());
        assert_eq!(waiting(&cluster).await, ["east-1"], "both find a machine");
    })
    .await;
    assert_eq!(ended.unwrap(), Stopped::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_let_go_holds_up_its_successor_for_the_drain_and_nobody_else() {
    let cluster = cluster::Cluster::new();
    let (east, west) = (
        cloud("east", CloudMode::Good),
        cloud("west", CloudMode::Endless),
    );
    let ended = run_while(&cluster, &[&east, &west], settings(), async |told| {
        create(&cluster, "west", 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        told.send_replace(list(&[&east, &cloud("west", CloudMode::Good)]));
        create(&cluster, "east", 1).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(
            waiting(&cluster).await,
            ["west-1"],
            "within the drain of one second"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(waiting(&cluster).await, Vec::<String>::new());
    })
    .await;
    assert_eq!(ended.unwrap(), Stopped::Drained);
}

#[tokio::test(start_paused = true)]
async fn iface_003_several_providers_are_an_error_only_when_none_has_instances() {
    let without = |name| able(name, Capabilities::default());
    let cluster = cluster::Cluster::new();
    let (east, west) = (without("east"), without("west"));
    let both: Arc<[Provided]> = [provided(&east), provided(&west)].into();
    let (_, received) = watch::channel(both);
    let (client, never) = (cluster.client_as("ccm"), std::future::pending());
    let none = run_all(client, received, settings(), Metrics::default(), never).await;
    assert_eq!(
        none.unwrap_err().to_string(),
        "cloud provider \"east, west\" does not support instances"
    );
    let others_may_come = run_while(&cluster, &[&east, &west], settings(), async |_| {}).await;
    assert_eq!(others_may_come.unwrap(), Stopped::Drained);
    let north = cloud("north", CloudMode::Good);
    let one = run_while(&cluster, &[&east, &north], settings(), async |_| {}).await;
    assert_eq!(one.unwrap(), Stopped::Drained);
    let nobody = run_while(&cluster, &[], settings(), async |_| {}).await;
    assert_eq!(nobody.unwrap(), Stopped::Drained, "somebody may come");
}

#[tokio::test(start_paused = true)]
async fn providers_that_contradict_each_other_are_refused_with_all_mistakes_and_later_change_nothing()
 {
    let cluster = cluster::Cluster::new();
    let (east, west) = (
        cloud("east", CloudMode::Good),
        cloud("west", CloudMode::Good),
    );
    let same = Provided {
        nodes: NodeClaim {
            schemes: vec!["east".to_owned()],
            selector: Some(Selector::parse("a=b").unwrap()),
        },
        service: ServiceRules::default(),
        ..provided(&west)
    };
    let both: Arc<[Provided]> = [provided(&east), same].into();
    let (_told, received) = watch::channel(both.clone());
    let client = cluster.client_as("ccm");
    let never = std::future::pending();
    let error = run_all(client, received, settings(), Metrics::default(), never).await;
    let Err(RunError::Contradiction(mistakes)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert!(mistakes[0].contains("\"east\" and \"west\" share the provider ID scheme east"));
    let ended = run_while(&cluster, &[&east], settings(), async |told| {
        told.send_replace(both.clone());
        create(&cluster, "east", 1).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(waiting(&cluster).await, Vec::<String>::new());
    })
    .await;
    ended.unwrap();
    assert_eq!(west.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_providers_that_are_wrong_on_the_same_day_change_no_more_of_the_cluster_than_one_may() {
    let cluster = cluster::Cluster::new();
    for number in 0..40 {
        let name = if number % 2 == 0 { "east" } else { "west" };
        let second = if number % 2 == 0 { 1 } else { 2 };
        let node = node(&format!("{name}-{number}"))
            .label("wasm-ccm.dev/provider", name)
            .provider_id(&format!("{name}://{number}"))
            .address("InternalIP", &format!("10.{second}.0.{number}"))
            .ready();
        post(&cluster, node).await;
    }
    let moved = async || {
        let api: Api<Node> = Api::all(cluster.client_as("test"));
        let all = api.list(&ListParams::default()).await.unwrap();
        let mut counts = BTreeMap::new();
        for node in all {
            let owner = node.metadata.labels.unwrap()["wasm-ccm.dev/provider"].clone();
            let address = &node.status.unwrap().addresses.unwrap()[0].address;
            *counts.entry(owner).or_insert(0_usize) += usize::from(address.contains(".9."));
        }
        counts
    };
    let (east, west) = (
        cloud("east", CloudMode::Moves),
        cloud("west", CloudMode::Moves),
    );
    let ended = run_while(&cluster, &[&east, &west], settings(), async |_| {
        tokio::time::sleep(Duration::from_secs(500)).await;
    })
    .await;
    ended.unwrap();
    let moved = moved().await;
    // Each provider may change three; the cluster a tenth of forty.
    assert_eq!(moved.values().sum::<usize>(), 4, "{moved:?}");
    assert!(moved.values().all(|count| *count <= 3), "{moved:?}");
}

#[test]
fn providers_that_could_make_the_same_routes_are_named_with_the_one_that_does() {
    let router = |name: &str, selector: Option<&str>, instances: bool| {
        let cloud = able(
            name,
            Capabilities {
                routes: true,
                instances,
                ..Capabilities::default()
            },
        );
        Provided {
            nodes: NodeClaim {
                selector: selector.map(|text| Selector::parse(text).unwrap()),
                ..NodeClaim::default()
            },
            ..provided(&cloud)
        }
    };
    for (list, expected) in [
        (
            vec![("b", None, false), ("a", None, false)],
            vec!["\"a\" and \"b\""],
        ),
        (
            vec![("b", Some("rack=b"), false), ("a", None, false)],
            vec!["\"a\" and \"b\""],
        ),
        (
            vec![("b", Some("rack=b"), false), ("a", Some("rack=a"), false)],
            vec![],
        ),
        // A provider with instances makes the routes of its own nodes.
        (vec![("b", None, true), ("a", None, false)], vec![]),
        (
            vec![("c", None, false), ("b", None, false), ("a", None, false)],
            vec!["\"a\" and \"b\"", "\"a\" and \"c\"", "\"b\" and \"c\""],
        ),
    ] {
        let list: Vec<Provided> = list
            .into_iter()
            .map(|(name, selector, instances)| router(name, selector, instances))
            .collect();
        let reported = contested_routes(&list);
        let begins: Vec<&str> = reported
            .iter()
            .map(|text| text.split_once(" make").unwrap().0)
            .collect();
        assert_eq!(begins, expected);
    }
}
