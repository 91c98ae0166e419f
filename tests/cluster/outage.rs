//! Parts that fail while the manager works, and come back.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::apiserver::AuditEntry;
use ccm_tests::process::Process;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::kubelet::addresses;
use crate::record::is_write_to;
use crate::world::{LONG_LEASE, Setup, World, size, untainted, until};

#[tokio::test]
async fn an_api_server_that_crashes_during_a_look_up_comes_back_to_a_finished_job() {
    let mut world = World::start(Setup::default()).await;
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    world.add_node("worker-1", json!({})).await;
    world.cloud_link.hold();
    let mut ccm = world.ccm(&world.configuration(json!({})), &LONG_LEASE);
    world.cloud_is_asked(&mut ccm).await;

    world.api.restart().await.unwrap();
    world.cloud_link.release();

    world.initialised(&mut ccm, "worker-1").await;
    // The watch is open again, too.
    world.add_node("worker-2", json!({})).await;
    world.initialised(&mut ccm, "worker-2").await;
    for name in ["worker-1", "worker-2"] {
        // A freshly started API server knows no roles yet and may refuse once or twice.
        let mut writes = world.writes_to(name);
        writes.retain(|write| write.code != 403);
        assert_eq!(writes.len(), 2, "{name}: {writes:#?}");
    }
}

#[tokio::test]
async fn a_process_that_starts_before_the_api_server_answers_waits_for_it() {
    let mut world = World::start(Setup::default()).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;
    world.api.kill();

    // With an election the watch would start only after the Lease is won.
    let mut ccm = world.ccm(&world.configuration(json!({})), &["--leader-elect=false"]);
    until(&mut ccm, "a watch that fails", async || {
        world.log().contains("watching nodes failed").then_some(())
    })
    .await;
    // There is no known node, so there is nothing to look up. The provider may have proved its token meanwhile: its
    // self-check needs no API server.
    let requests = world.cloud.requests();
    let mut paths = requests.iter().map(|request| request.path.as_str());
    assert!(paths.all(|path| path == "/locations"), "{requests:#?}");
    world.api.restart().await.unwrap();

    world.initialised(&mut ccm, "worker-1").await;
    let mut writes = world.writes_to("worker-1");
    writes.retain(|write| write.code != 403);
    assert_eq!(writes.len(), 2, "{writes:#?}");
}

/// A world in which some of many nodes are initialised and etcd has just stopped answering, so that all others stay as
/// they are. Returns the number of all nodes and the least number of initialised ones.
async fn stopped_in_the_middle(lease: &[&str]) -> (World, Process, usize) {
    let world = World::start(Setup {
        etcd_link: true,
        ..Setup::default()
    })
    .await;
    let count = size("CCM_CLUSTER_NODES", 200, 1_000) / 5;
    world.populate(count).await;
    let link = world.api.etcd_link().unwrap();
    link.delay(Duration::from_millis(25));
    let flags = [&["--concurrent-node-syncs=4"], lease].concat();
    let mut ccm = world.ccm(&world.configuration(json!({})), &flags);
    let what = "the first quarter of the nodes";
    world
        .nodes_until(&mut ccm, what, |nodes| untainted(nodes) >= count / 4)
        .await;
    link.hold();
    (world, ccm, count)
}

/// Each node is fully initialised, and no write was made a second time.
fn assert_each_write_was_made_once(world: &World, nodes: &BTreeMap<String, Node>) {
    let asked = world.asked();
    for (name, node) in nodes {
        let id = node.spec.as_ref().unwrap().provider_id.as_ref().unwrap();
        let number: u64 = id.strip_prefix("hcloud://").unwrap().parse().unwrap();
        assert_eq!(world.cloud.server(number).unwrap()["name"], **name);
        assert_eq!(addresses(node)[1]["type"], "ExternalIP", "{name}");
        assert_eq!(
            node.metadata.labels.as_ref().unwrap()["wasm-ccm.dev/provider"],
            "hcloud"
        );
        let done: Vec<_> = asked
            .iter()
            .filter(|entry| is_write_to(entry, name) && entry.code == 200)
            .map(|entry| entry.subresource.as_str())
            .collect();
        // A request whose answer was lost with the server is in no log.
        let is_in_order = [vec!["status", ""], vec!["status"], vec![""]].contains(&done);
        assert!(is_in_order, "{name}: {done:?}");
    }
}

#[tokio::test]
async fn an_api_server_that_crashes_while_many_nodes_are_written_comes_back_to_a_finished_job() {
    let (mut world, mut ccm, count) = stopped_in_the_middle(&LONG_LEASE).await;

    let before = world.asked().len();
    world.api.kill();
    world.api.etcd_link().unwrap().release();
    world.api.restart().await.unwrap();

    let nodes = world.all_initialised(&mut ccm, count).await;
    world.stop(ccm).await;
    let asked = world.asked();
    let is_write = |entry: &AuditEntry| {
        entry.resource == "nodes" && entry.code == 200 && entry.verb == "patch"
    };
    assert!(
        asked[before..].iter().any(is_write),
        "the crash came too late"
    );
    assert_each_write_was_made_once(&world, &nodes);
}

#[tokio::test]
async fn a_process_that_is_killed_while_many_nodes_are_written_is_followed_by_one_that_does_the_rest()
 {
    // The second process takes over the Lease when it has expired.
    let (world, mut ccm, count) = stopped_in_the_middle(&[]).await;

    ccm.kill();
    world.api.etcd_link().unwrap().release();
    let left = world.nodes.list(&Default::default()).await.unwrap();
    let left = left.into_iter().filter(crate::kubelet::is_tainted).count();
    assert!((1..count).contains(&left), "{left} of {count} were left");

    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    let nodes = world.all_initialised(&mut ccm, count).await;
    world.stop(ccm).await;
    assert_each_write_was_made_once(&world, &nodes);
}
