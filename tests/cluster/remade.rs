//! Nodes that are deleted, or deleted and created again under the same name, while they are being initialised.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::observed::Observed;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::kubelet::{addresses, is_tainted, uid};
use crate::record::meant_for;
use crate::world::{Setup, World};

#[tokio::test]
async fn a_node_that_is_deleted_during_its_look_up_is_let_go() {
    let world = World::start(Setup::default()).await;
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    world.add_node("worker-1", json!({})).await;
    world.cloud_link.hold();
    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    world.cloud_is_asked(&mut ccm).await;
    world.delete("worker-1").await;
    world.cloud_link.release();

    // When the second node is initialised, all Events about the first have been written.
    world.add_node("worker-2", json!({})).await;
    world.initialised(&mut ccm, "worker-2").await;
    world.stop(ccm).await;

    // At most one write was under way already; there is no retry for a node that is gone.
    let writes = world.writes_to("worker-1");
    assert!(writes.len() <= 1, "{writes:#?}");
    assert!(writes.iter().all(|write| write.code == 404), "{writes:#?}");
    let events = world.events_about("worker-1").await;
    assert!(events.is_empty(), "{events:#?}");
    assert_eq!(world.writes_to("worker-2").len(), 2);
}

#[tokio::test]
async fn a_node_that_is_made_again_during_its_look_up_is_initialised_and_gets_nothing_of_the_old_one()
 {
    let world = World::start(Setup::default()).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    let old = world.add_node("worker-1", json!({})).await;
    world.cloud_link.hold();
    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    world.cloud_is_asked(&mut ccm).await;
    world.delete("worker-1").await;
    let labels = json!({"labels": {"generation": "second"}});
    let new = world.add_node("worker-1", labels).await;
    assert_ne!(uid(&old), uid(&new));
    world.cloud_link.release();

    let node = world.initialised(&mut ccm, "worker-1").await;
    world.stop(ccm).await;
    assert_eq!(uid(&node), uid(&new));
    assert_eq!(node.metadata.labels.unwrap()["generation"], "second");

    let (for_old, for_new): (Vec<_>, Vec<_>) = world
        .writes_to("worker-1")
        .into_iter()
        .partition(|write| meant_for(write) == uid(&old));
    // The cloud's answer was for the old node; the API server refused the write by its UID.
    assert_eq!(for_old.len(), 1, "{for_old:#?}");
    assert!([409, 422].contains(&for_old[0].code), "{for_old:#?}");
    let codes: Vec<_> = for_new.iter().map(|write| write.code).collect();
    assert_eq!(codes, [200, 200], "{for_new:#?}");
    let events = world.events_about("worker-1").await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0].involved_object.uid, new.metadata.uid);
}

/// Whether the first of the two writes was made, but not the second.
fn is_half_done(node: &Node) -> bool {
    is_tainted(node) && addresses(node)[1]["type"] == "ExternalIP"
}

#[tokio::test]
async fn nodes_that_are_made_again_between_their_two_writes_are_initialised_once_more() {
    const COUNT: usize = 20;
    let world = World::start(Setup {
        etcd_link: true,
        ..Setup::default()
    })
    .await;
    let names = world.populate(COUNT).await;
    let mut uids = BTreeMap::new();
    for name in &names {
        let node = world.nodes.get(name).await.unwrap();
        uids.insert(name.clone(), [uid(&node).to_owned(), String::new()]);
    }
    // The delay between two writes is long enough for other requests to come between them.
    let link = world.api.etcd_link().unwrap();
    link.delay(Duration::from_millis(30));
    let mut observed = Observed::new(world.nodes.clone());
    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    let mut half_done = 0;
    while uids.values().any(|[_, new]| new.is_empty()) {
        ccm.check().unwrap();
        let nodes = observed.changed().await.clone();
        for (name, [old, new]) in &mut uids {
            let Some(node) = nodes.get(name).filter(|node| uid(node) == old) else {
                continue;
            };
            if new.is_empty() && (is_half_done(node) || !is_tainted(node)) {
                half_done += usize::from(is_half_done(node));
                world.delete(name).await;
                *new = uid(&world.add_node(name, json!({})).await).to_owned();
            }
        }
    }
    assert!(half_done > 0, "no node was seen between its two writes");

    let nodes = world.all_initialised(&mut ccm, COUNT).await;
    for name in &names {
        world.initialised(&mut ccm, name).await;
    }
    world.stop(ccm).await;
    for (name, [_, new]) in &uids {
        assert_eq!(uid(&nodes[name]), new);
        let writes = world.writes_to(name);
        let for_new: Vec<_> = writes
            .iter()
            .filter(|write| meant_for(write) == new)
            .collect();
        let done: Vec<_> = for_new.iter().map(|write| write.code).collect();
        assert_eq!(done, [200, 200], "{name}: {for_new:#?}");
        // Two writes, one of which may have been retried before the change was known.
        assert!(writes.len() - for_new.len() <= 3, "{name}: {writes:#?}");
    }
}
