//! Bad answers through the real controllers: the misbehaving guest in the real host, and a cluster behind the real
//! client. Whatever the guest answers, a stored provider ID stays, an initialised node stays as it is, nothing is
//! deleted, and an Event gives the reason why a node is not initialised.

mod cases;

use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::{Metrics, Settings};
use ccm_core::cloud::Lookup;
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::settings::NodeSettings;
use ccm_core::well_known::{OWNER_LABEL, UNINITIALIZED_TAINT};
use ccm_fixtures::kubernetes::node;
use ccm_fixtures::objects::cloud_node;
use ccm_sim::cluster::Cluster;
use ccm_tests::controllers::{create, run_one};
use ccm_tests::harness::trial;
use guest_misbehaving::behaviour::Behaviour;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Api;
use kube::api::ListParams;
use libtest_mimic::Trial;

use crate::misbehaving::log_lines::Lines;
use crate::misbehaving::world::{self, TIMEOUT, block_on};
use crate::permits;
use cases::{CASES, Case, NEW};

/// One test per case, and one on the real clock.
pub(crate) fn trials() -> Vec<Trial> {
    let checked = |case: &'static Case| {
        trial(format!("cluster::{}", case.name), || {
            check(case);
            Ok(())
        })
    };
    let endless = trial(
        "cluster::a_guest_that_does_not_end_holds_its_nodes_and_nothing_else",
        || {
            a_guest_that_does_not_end();
            Ok(())
        },
    );
    CASES.iter().map(checked).chain([endless]).collect()
}

/// An address without a listener: no behaviour here sends anything.
const NOWHERE: &str = "http://127.0.0.1:9/v1";
/// Texts that no answer may bring into a node: parts of the guest's invalid answers.
const RUBBISH: &[&str] = &[
    "169.254",
    "127.0.0.1",
    "not-an-ip",
    "0.0.0.0",
    "fe80",
    "blanks",
    "slashes",
    "dash",
    "control-plane",
    "another-node",
    "somebody-else",
    "node.k8s.io",
    "aws://",
    "well",
];

/// A cluster with the two new nodes and one that is initialised.
async fn cluster() -> (Cluster, Api<Node>) {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client_as("kubelet"));
    let old = node("old")
        .label(OWNER_LABEL, "misbehaving")
        .provider_id("misbehaving://old")
        .address("Hostname", "old")
        .address("InternalIP", "192.0.2.7");
    let known = node("known").provider_id("misbehaving://known");
    for node in [node("fresh").uninitialized(), known.uninitialized(), old] {
        create(&nodes, node).await;
    }
    (cluster, nodes)
}

pub(crate) fn settings(call_time: Duration) -> Settings {
    let base = ccm_tests::controllers::settings();
    Settings {
        node: NodeSettings {
            status_update_frequency: Duration::from_secs(20),
            ..base.node.clone()
        },
        call_time,
        drain: Duration::from_secs(1),
        ..base
    }
}

/// Runs the controllers with the guest until `over` completes.
async fn run(
    behaviour: Behaviour,
    cluster: &Cluster,
    call_time: Duration,
    over: impl Future<Output = ()> + Send,
) {
    let provider = world::load(behaviour, NOWHERE).await.unwrap();
    // From here on a minute of waiting passes in no time. A guest that computes is not waiting; a long computation
    // would wait for a long-call permit, which guests of other tests hold in real time.
    if call_time == TIMEOUT {
        tokio::time::pause();
    }
    let (client, settings) = (cluster.client_as("ccm"), settings(call_time));
    let (provider, metrics) = (Arc::new(provider), Metrics::default());
    let ran = run_one(client, provider, settings, metrics, over);
    ran.await.unwrap();
}

fn check(case: &Case) {
    block_on(async {
        let (cluster, nodes) = cluster().await;
        let old = nodes.get("old").await.unwrap();
        let over = tokio::time::sleep(TIMEOUT);
        run(case.behaviour, &cluster, TIMEOUT, over).await;

        assert_eq!(
            nodes.get("old").await.unwrap(),
            old,
            "an initialised node stays as it is"
        );
        for name in NEW {
            let node = nodes.get(name).await.unwrap();
            check_node(&node, case.initialised.contains(&name), case.shown);
        }
        let known = nodes.get("known").await.unwrap();
        assert_eq!(provider_id(&known), Some("misbehaving://known"));
        check_events(&cluster, case.told).await;
        assert_nothing_is_deleted(&cluster);
    });
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == UNINITIALIZED_TAINT))
}

fn check_node(node: &Node, is_initialised: bool, shown: &[&str]) {
    let name = node.metadata.name.as_deref().unwrap();
    let text = serde_json::to_string(node).unwrap();
    assert_eq!(is_tainted(node), !is_initialised, "{text}");
    let owner = node
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(OWNER_LABEL));
    assert_eq!(owner.is_some(), is_initialised, "{text}");
    let addresses = node
        .status
        .as_ref()
        .and_then(|status| status.addresses.as_ref());
    assert_eq!(
        addresses.is_some_and(|addresses| !addresses.is_empty()),
        is_initialised,
        "{text}"
    );
    if is_initialised {
        assert_eq!(owner.unwrap(), "misbehaving");
        shown
            .iter()
            .for_each(|word| assert!(text.contains(word), "{name} lacks {word}: {text}"));
    } else {
        assert!(
            provider_id(node).is_none_or(|id| id == "misbehaving://known"),
            "{text}"
        );
    }
    RUBBISH
        .iter()
        .for_each(|word| assert!(!text.contains(word), "{name} has {word}: {text}"));
}

async fn check_events(cluster: &Cluster, told: Option<(&str, &[&str])>) {
    let events: Api<Event> = Api::default_namespaced(cluster.client_as("kubectl"));
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    for event in &events {
        let message = text(&event.message);
        assert!(
            message.len() <= 1024 && !message.contains(char::is_control),
            "{message:?}"
        );
    }
    let warnings: Vec<_> = events
        .iter()
        .filter(|event| event.type_.as_deref() == Some("Warning"))
        .filter(|event| event.involved_object.name.as_deref() == Some("known"))
        .map(|event| (text(&event.reason), text(&event.message)))
        .collect();
    let Some((reason, parts)) = told else {
        assert!(warnings.is_empty(), "{warnings:?}");
        return;
    };
    let is_whole = |message: &String| parts.iter().all(|part| message.contains(part));
    assert!(
        warnings.iter().all(|(found, _)| found == reason),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|(_, message)| is_whole(message)),
        "{warnings:?}"
    );
}

/// The controllers have sent requests to the API server, none of which deletes.
fn assert_nothing_is_deleted(cluster: &Cluster) {
    let asked: Vec<_> = cluster
        .requests()
        .into_iter()
        .filter(|request| request.identity == "ccm")
        .collect();
    assert!(
        asked
            .iter()
            .any(|request| request.verb == "watch" || request.verb == "list")
    );
    for request in asked {
        let allowed: &[&str] = match request.resource {
            "nodes" => &["list", "watch", "get", "patch"],
            "events" => &["create", "patch"],
            _ => &[],
        };
        assert!(allowed.contains(&request.verb), "{request:?}");
    }
}

/// On the real clock, because the simulated one does not advance while a guest computes.
fn a_guest_that_does_not_end() {
    block_on(async {
        let lines = Lines::listen();
        let (cluster, nodes) = cluster().await;
        let old = nodes.get("old").await.unwrap();
        let everybody_waits = tokio::time::timeout(TIMEOUT, async {
            let is_said = |name: &str| {
                lines.so_far().iter().any(|line| {
                    let object = line.fields["object"].as_str().unwrap_or_default();
                    let why = line.message.as_str();
                    object.strip_prefix("node/") == Some(name)
                        && why.contains("timed out: instances.find in module")
                })
            };
            while !NEW.into_iter().all(is_said) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let everybody_waits = async { everybody_waits.await.expect("nobody says why they wait") };
        run(
            Behaviour::Spin,
            &cluster,
            Duration::from_millis(200),
            everybody_waits,
        )
        .await;
        for name in NEW {
            check_node(&nodes.get(name).await.unwrap(), false, &[]);
        }
        assert_eq!(nodes.get("old").await.unwrap(), old);
        assert_nothing_is_deleted(&cluster);
        // The next call of the same module, on the same host.
        let honest = world::load(Behaviour::Honest, NOWHERE).await.unwrap();
        let reply = honest
            .find(&[cloud_node("fresh")], permits::reads_for(TIMEOUT))
            .await
            .unwrap();
        assert!(
            matches!(reply.lookups.as_slice(), [Lookup::Found(_)]),
            "{reply:?}"
        );
    });
}
