//! The node IPAM controller against the in-memory API server, without a provider: when nodes are reconciled. `ccm-core`
//! tests which blocks they get.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroUsize;

use ccm_core::settings::{NodeSettings, OtherAllocatorRules, PodNetwork};
use ccm_fixtures::kubernetes::node;
use ccm_sim::cluster;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::metrics::tests::encoded;
use crate::node_store::NodeStore;
use crate::pruned_objects::fixtures::pruned_nodes;
use crate::{Metrics, Provided, fixtures, run_all};

mod outside_enforce;

fn settings(cluster_cidr: &str, node_mask: u8, mode: Mode) -> Settings {
    let base = fixtures::settings();
    Settings {
        ipam: Some(IpamSettings {
            families: vec![PodNetwork {
                cluster_cidr: cluster_cidr.parse().unwrap(),
                node_mask,
            }],
            service_cidrs: Vec::new(),
            concurrent_syncs: NonZeroUsize::new(3).unwrap(),
            settle: Duration::from_secs(5),
            other_allocator: OtherAllocatorRules {
                settle_without_lease: Duration::from_secs(5),
                ..OtherAllocatorRules::default()
            },
        }),
        node: NodeSettings {
            concurrent_syncs: NonZeroUsize::new(2).unwrap(),
            ..base.node.clone()
        },
        mode,
        drain: Duration::from_secs(1),
        ..base
    }
}

fn nodes(cluster: &cluster::Cluster) -> Api<Node> {
    Api::all(cluster.client_as("test"))
}

async fn create(cluster: &cluster::Cluster, name: &str, cidr: &str) {
    let node = match cidr {
        "" => node(name),
        cidr => node(name).pod_cidrs(&[cidr]),
    };
    fixtures::create(&nodes(cluster), node).await;
}

async fn delete(cluster: &cluster::Cluster, name: &str) {
    let deleted = nodes(cluster).delete(name, &DeleteParams::default()).await;
    deleted.unwrap();
}

/// `NAME CIDR` of each node, by name.
async fn cidrs(cluster: &cluster::Cluster) -> Vec<String> {
    let all = pruned_nodes(cluster).await;
    let one = |node: &Arc<PrunedNode>| {
        let cidrs = pod_cidrs(node).join(",");
        format!("{} {cidrs}", node.name())
    };
    let mut all: Vec<String> = all.iter().map(one).collect();
    all.sort();
    all
}

/// The writes of the manager so far: `VERB RESOURCE NAME`.
fn written(cluster: &cluster::Cluster) -> Vec<String> {
    let writes = cluster.writes().into_iter();
    let ours = writes.filter(|write| write.request.identity == "ccm");
    let nodes = ours.filter(|write| write.request.resource == "nodes");
    nodes.map(|write| write.request.name.clone()).collect()
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// Runs without any provider until `script` ends.
async fn run_while(
    cluster: &cluster::Cluster,
    settings: Settings,
    metrics: Metrics,
    script: impl AsyncFnOnce(),
) -> Stopped {
    let none: Arc<[Provided]> = Arc::from([]);
    let (_kept, received) = watch::channel(none);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let client = cluster.client_as("ccm");
    let running = run_all(client, received, settings, metrics, stopped);
    let script = async {
        script().await;
        let _ = stop.send(());
    };
    tokio::join!(running, script).0.unwrap()
}

#[tokio::test(start_paused = true)]
async fn ipam_020_nothing_is_handed_out_before_all_nodes_are_known_and_the_last_leaders_writes_too()
{
    let cluster = cluster::Cluster::new();
    cluster.keep_writes();
    create(&cluster, "new", "").await;
    create(&cluster, "old", "10.0.0.0/24").await;
    let settings = settings("10.0.0.0/22", 24, Mode::Enforce);
    let stopped = run_while(&cluster, settings, Metrics::default(), async || {
        seconds(4).await;
        assert_eq!(written(&cluster), [""; 0]);
        // The last write of the previous leader.
        create(&cluster, "late", "10.0.1.0/24").await;
        seconds(3).await;
        let expected = ["late 10.0.1.0/24", "new 10.0.2.0/24", "old 10.0.0.0/24"];
        assert_eq!(cidrs(&cluster).await, expected);
    })
    .await;
    assert_eq!(stopped, Stopped::Drained);
}

#[tokio::test(start_paused = true)]
async fn ipam_023_every_node_gets_a_block_with_one_write_and_heartbeats_cost_none() {
    let cluster = cluster::Cluster::new();
    cluster.keep_writes();
    let settings = settings("10.0.0.0/16", 24, Mode::Enforce);
    run_while(&cluster, settings, Metrics::default(), async || {
        for number in 0..20 {
            create(&cluster, &format!("n{number:02}"), "").await;
        }
        seconds(10).await;
        let all = cidrs(&cluster).await;
        let distinct: std::collections::BTreeSet<&str> =
            all.iter().filter_map(|one| one.split(' ').nth(1)).collect();
        assert_eq!(distinct.len(), 20, "{all:?}");
        assert_eq!(written(&cluster).len(), 20);
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let patch = kube::api::Patch::Merge(label);
        let params = kube::api::PatchParams::default();
        nodes(&cluster).patch("n07", &params, &patch).await.unwrap();
        seconds(3600).await;
        assert_eq!(written(&cluster).len(), 20);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn ipam_025_whoever_waits_for_a_block_gets_it_as_soon_as_one_is_free() {
    let cluster = cluster::Cluster::new();
    cluster.keep_writes();
    for name in ["a", "b", "c"] {
        create(&cluster, name, "").await;
    }
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let settings = settings("10.0.0.0/23", 24, Mode::Enforce);
    run_while(&cluster, settings, metrics, async || {
        seconds(6).await;
        assert_eq!(
            cidrs(&cluster).await,
            ["a 10.0.0.0/24", "b 10.0.1.0/24", "c "]
        );
        delete(&cluster, "a").await;
        // Far earlier than the node's own retry.
        seconds(1).await;
        assert_eq!(cidrs(&cluster).await, ["b 10.0.1.0/24", "c 10.0.0.0/24"]);
    })
    .await;
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::all(cluster.client_as("test"));
    let events = events.list(&ListParams::default()).await.unwrap();
    let recorded: Vec<_> = events
        .iter()
        .filter_map(|event| event.reason.as_deref())
        .collect();
    assert_eq!(recorded, ["CIDRNotAvailable"]);
    let source = events.items[0]
        .source
        .as_ref()
        .unwrap()
        .component
        .as_deref();
    assert_eq!(source, Some("cidrAllocator"), "IPAM-029");
    let text = encoded(&registry);
    for line in [
        "node_ipam_controller_cidrset_cidrs_allocations_total{clusterCIDR=\"10.0.0.0/23\"} 3",
        "node_ipam_controller_cidrset_cidrs_releases_total{clusterCIDR=\"10.0.0.0/23\"} 1",
        "node_ipam_controller_cidrset_usage_cidrs{clusterCIDR=\"10.0.0.0/23\"} 1.0",
        "node_ipam_controller_cidrset_allocation_tries_per_request_count{clusterCIDR=\"10.0.0.0/23\"} 3",
    ] {
        assert!(
            text.lines().any(|one| one == line),
            "{line} is not in {text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn ipam_025_where_all_blocks_are_used_from_the_start_a_node_is_told_and_later_gets_one() {
    let cluster = cluster::Cluster::new();
    cluster.keep_writes();
    for (name, cidr) in [("a", "10.0.0.0/24"), ("b", "10.0.1.0/24"), ("c", "")] {
        create(&cluster, name, cidr).await;
    }
    let settings = settings("10.0.0.0/23", 24, Mode::Enforce);
    run_while(&cluster, settings, Metrics::default(), async || {
        seconds(60).await;
        let events: Api<k8s_openapi::api::core::v1::Event> = Api::all(cluster.client_as("test"));
        let events = events.list(&ListParams::default()).await.unwrap();
        let recorded = events.iter().filter_map(|event| event.reason.as_deref());
        assert_eq!(recorded.collect::<Vec<_>>(), ["CIDRNotAvailable"]);
        delete(&cluster, "a").await;
        // Another allocator would try again by then.
        seconds(300).await;
        assert_eq!(written(&cluster), [""; 0]);
        seconds(60).await;
        assert_eq!(cidrs(&cluster).await, ["b 10.0.1.0/24", "c 10.0.0.0/24"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn in_plan_mode_the_blocks_are_said_and_in_neither_other_mode_is_anything_written() {
    for mode in [Mode::Plan, Mode::Observe] {
        let cluster = cluster::Cluster::new();
        cluster.keep_writes();
        create(&cluster, "a", "").await;
        create(&cluster, "b", "").await;
        create(&cluster, "c", "10.0.0.0/24").await;
        let mut settings = settings("10.0.0.0/22", 24, mode);
        settings.controllers = outside_enforce::ALONE;
        let plan = settings.plan.clone();
        run_while(&cluster, settings, Metrics::default(), async || {
            seconds(1).await;
            let plan = plan.snapshot();
            let reported: Vec<String> = plan.changes().map(ToString::to_string).collect();
            match mode {
                Mode::Plan => {
                    let expected = [
                        "patch node/a podCIDRs=10.0.1.0/24",
                        "patch node/b podCIDRs=10.0.2.0/24",
                    ];
                    assert_eq!(reported, expected);
                    assert!(plan.is_sure(), "everything was looked at");
                }
                _ => assert_eq!(reported, [""; 0]),
            }
            delete(&cluster, "a").await;
            seconds(1).await;
        })
        .await;
        assert_eq!(
            plan.snapshot().changes().count(),
            usize::from(mode == Mode::Plan)
        );
        assert_eq!(written(&cluster), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn ipam_004_without_settings_or_switched_off_no_node_gets_anything() {
    for is_off in [false, true] {
        let cluster = cluster::Cluster::new();
        cluster.keep_writes();
        create(&cluster, "a", "").await;
        let mut settings = settings("10.0.0.0/22", 24, Mode::Enforce);
        if is_off {
            settings.controllers.node_ipam = false;
        } else {
            settings.ipam = None;
        }
        run_while(&cluster, settings, Metrics::default(), async || {
            seconds(60).await;
        })
        .await;
        assert_eq!(written(&cluster), [""; 0]);
    }
}

/// How often the manager has read kube-controller-manager's Lease.
fn lease_reads(cluster: &cluster::Cluster) -> usize {
    let requests = cluster.requests().into_iter();
    let reads = requests.filter(|request| {
        request.resource == "leases" && request.name == "kube-controller-manager"
    });
    reads.count()
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_kube_controller_manager_is_read_only_while_a_node_waits() {
    let cluster = cluster::Cluster::new();
    let on = settings("10.0.0.0/16", 24, Mode::Enforce);
    run_while(&cluster, on, Metrics::default(), async || {
        seconds(3600).await;
        assert_eq!(lease_reads(&cluster), 1, "to begin with");
        create(&cluster, "a", "").await;
        seconds(3600).await;
        assert_eq!(cidrs(&cluster).await, ["a 10.0.0.0/24"]);
        let waited = lease_reads(&cluster);
        assert!((3..6).contains(&waited), "every other second: {waited}");
        for number in 0..200 {
            create(&cluster, &format!("n{number:03}"), "").await;
        }
        seconds(3600).await;
        let all = cidrs(&cluster).await;
        assert!(all.iter().all(|one| one.contains('/')), "{all:?}");
        assert_eq!(
            lease_reads(&cluster),
            waited + 1,
            "once for all that join together"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_kube_controller_manager_is_not_read_where_nothing_is_allocated() {
    for mode in [Mode::Enforce, Mode::Plan, Mode::Observe] {
        let cluster = cluster::Cluster::new();
        create(&cluster, "a", "").await;
        let mut off = settings("10.0.0.0/16", 24, mode);
        if mode == Mode::Enforce {
            off.ipam = None;
        }
        run_while(&cluster, off, Metrics::default(), async || {
            seconds(60).await;
        })
        .await;
        assert_eq!(lease_reads(&cluster), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_else_gives_a_node_its_pod_cidrs_is_waited_for_and_told_once() {
    let cluster = cluster::Cluster::new();
    cluster.keep_writes();
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let gauge = || {
        let text = encoded(&registry);
        let mut lines = text.lines();
        lines.any(|line| line == "ccm_node_ipam_stands_back 1")
    };
    let on = settings("10.0.0.0/16", 24, Mode::Enforce);
    run_while(&cluster, on, metrics, async || {
        seconds(10).await;
        for name in ["a", "b", "c"] {
            create(&cluster, name, "").await;
            seconds(1).await;
            let number = cidrs(&cluster).await.len();
            let cidr = format!("10.0.{number}.0/24");
            let theirs = json!({ "spec": { "podCIDR": cidr, "podCIDRs": [cidr] } });
            let patch = kube::api::Patch::Merge(theirs);
            let params = kube::api::PatchParams::default();
            nodes(&cluster).patch(name, &params, &patch).await.unwrap();
            seconds(1).await;
            assert!(gauge());
        }
        assert_eq!(written(&cluster), [""; 0]);
        create(&cluster, "d", "").await;
        seconds(10).await;
        assert!(!gauge());
        assert_eq!(written(&cluster), ["d"]);
    })
    .await;
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::all(cluster.client_as("test"));
    let events = events.list(&ListParams::default()).await.unwrap();
    let recorded: Vec<_> = events
        .iter()
        .map(|event| (event.reason.clone().unwrap(), event.count.unwrap()))
        .collect();
    let expected = ["OtherPodCIDRAllocator", "PodCIDRAllocationTakenOver"];
    assert_eq!(recorded, expected.map(|reason| (reason.to_owned(), 1)));
}

/// A controller with a range of one block that does not run: the test shows it each change, which the channel's sender
/// keeps from being the last one.
fn stopped(
    cluster: &cluster::Cluster,
) -> (IpamController, NodeStore, mpsc::UnboundedSender<NodeChange>) {
    let settings = settings("10.0.0.0/24", 24, Mode::Enforce);
    let mut ipam = settings.ipam.clone().unwrap();
    ipam.settle = Duration::ZERO;
    let store = NodeStore::default();
    let clients = cluster.client_as("ccm").into();
    let shared = Cluster::new(clients, &settings, Metrics::default(), store.clone());
    let executor = Arc::new(ClusterExecutor::new(Arc::new(shared)));
    let memory = Memory::new(&ipam).unwrap();
    let (sender, changes) = mpsc::unbounded_channel();
    let mut controller = IpamController::new(executor, ipam, memory, changes);
    controller.other_allocator = None;
    (controller, store, sender)
}

/// Ends the running reconciliations, and those that start meanwhile.
async fn finish(controller: &mut IpamController) {
    while !controller.reconciliations.is_empty() {
        if let Some(Input::Ended(node, ended)) = controller.input().await {
            controller.conclude(node, ended);
            controller.start_due();
        }
    }
}

/// After an outage of the watch all changes arrive at once, and the store has them before the controller has seen them.
#[tokio::test(start_paused = true)]
async fn ipam_024_a_node_made_again_keeps_its_block_when_the_deletion_before_is_seen_late() {
    let cluster = cluster::Cluster::new();
    for (name, cidr) in [("a", "10.0.0.0/24"), ("b", ""), ("c", "")] {
        create(&cluster, name, cidr).await;
    }
    let (mut controller, store, _changes) = stopped(&cluster);
    let mut gone = Vec::new();
    for node in pruned_nodes(&cluster).await {
        store.apply(&watcher::Event::Apply(node.clone()));
        gone.push(node);
    }
    controller.see(Change::Nodes(NodeChange::Listed));
    controller.start_due();
    finish(&mut controller).await;
    assert_eq!(cidrs(&cluster).await, ["a 10.0.0.0/24", "b ", "c "]);

    delete(&cluster, "a").await;
    delete(&cluster, "b").await;
    create(&cluster, "b", "").await;
    let mut there = pruned_nodes(&cluster).await.into_iter();
    let again = there.find(|node| node.name() == "b").unwrap();
    gone.retain(|node| node.name() != "c");
    for node in gone {
        store.apply(&watcher::Event::Delete(node));
    }
    store.apply(&watcher::Event::Apply(again.clone()));
    for change in [
        NodeChange::Deleted("a".to_owned()),
        NodeChange::Deleted("b".to_owned()),
        NodeChange::Applied(again),
    ] {
        controller.see(Change::Nodes(change));
        controller.start_due();
    }
    finish(&mut controller).await;
    assert_eq!(cidrs(&cluster).await, ["b 10.0.0.0/24", "c "]);
}

/// A restored etcd; or a list that is older than our own write, so that the node is read before it is written.
#[tokio::test(start_paused = true)]
async fn ipam_026_a_node_that_a_list_has_without_its_pod_cidrs_is_read_again() {
    let cluster = cluster::Cluster::new();
    create(&cluster, "a", "").await;
    let (mut controller, store, _changes) = stopped(&cluster);
    let before = pruned_nodes(&cluster).await.remove(0);
    store.apply(&watcher::Event::Apply(before));
    for expected in [0, 1] {
        let requests = cluster.requests().len();
        controller.see(Change::Nodes(NodeChange::Listed));
        controller.start_due();
        finish(&mut controller).await;
        let requests = cluster.requests().into_iter().skip(requests);
        assert_eq!(requests.filter(|one| one.verb == "get").count(), expected);
        assert_eq!(cidrs(&cluster).await, ["a 10.0.0.0/24"]);
    }
}

/// Such as an API server that has just started, beside a kube-controller-manager that starts: it refuses every token for
/// a moment, and no right is missing.
#[tokio::test(start_paused = true)]
async fn whoever_is_not_known_for_a_moment_reads_the_lease_of_kube_controller_manager_again() {
    for (code, expected) in [(401, 2), (403, 1)] {
        let cluster = cluster::Cluster::new();
        let refused = cluster::FaultEffect::Refused {
            code,
            retry_after: None,
        };
        cluster.inject(cluster::Fault::next(cluster::Verb::Get, "leases", refused));
        let on = settings("10.0.0.0/16", 24, Mode::Enforce);
        run_while(&cluster, on, Metrics::default(), async || {
            seconds(60).await;
        })
        .await;
        assert_eq!(lease_reads(&cluster), expected, "{code}");
    }
}
