//! A release of the chart with one controller: what Helm grants is what that controller, the election and the rest of the
//! process use, nothing missing and nothing spare.

use std::collections::BTreeMap;

use ccm_sim::hetzner::ServerStatus;
use serde_json::json;

use crate::chart_release::Release;
use crate::lifecycle::YOUNG;
use crate::machines::is_shut_down;
use crate::record::{granted, used};
use crate::rights::{SMALL_BUDGET, first_node, nodes_join, services_come_and_go};
use crate::services::PLACE;
use crate::world::{World, until};

/// A release with this list of controllers, and without the secure port, whose rights are Kubernetes' own roles.
async fn only(controllers: &str) -> World {
    let values = json!({"args": {"controllers": controllers, "secure-port": 0}});
    let (world, _) = Release::install(&values).await;
    world
}

/// That an Event is counted up, which all controllers have in common, is shown for one of them.
fn assert_exact(world: &World) {
    let mut log = world.asked();
    // Nobody may make an Event in a namespace that is being deleted.
    log.retain(|entry| {
        !(entry.code == 403 && entry.namespace == "leaving" && entry.resource == "events")
    });
    let refused: Vec<_> = log.iter().filter(|entry| entry.code == 403).collect();
    assert!(refused.is_empty(), "not granted: {refused:?}");
    let mut used = used(&log);
    used.insert((String::new(), "events".to_owned(), "patch".to_owned()));
    assert_eq!(used, granted(&world.rights));
}

#[tokio::test]
async fn a_release_with_the_controller_of_nodes_has_exactly_its_rights() {
    let world = only("cloud-node").await;
    first_node(&world).await;
    let mut ccm = world.ccm(
        &world.configuration(json!({})),
        &["--controllers=cloud-node"],
    );
    nodes_join(&world, &mut ccm).await;
    world.stop(ccm).await;
    assert_exact(&world);
}

#[tokio::test]
async fn a_release_with_the_controller_of_services_has_exactly_its_rights() {
    let world = only("service").await;
    world.machines(1).await;
    let flags = [SMALL_BUDGET, &["--controllers=service"]].concat();
    let place = json!(BTreeMap::from([PLACE]));
    let mut ccm = world.ccm(&world.configuration(place), &flags);
    services_come_and_go(&world, &mut ccm).await;
    world.stop(ccm).await;
    assert_exact(&world);
}

#[tokio::test]
async fn a_release_with_the_controller_of_nodes_that_go_has_exactly_its_rights() {
    let world = only("-*,cloud-node-lifecycle-controller").await;
    let machines = world.machines(3).await;
    let [off, drained, _] = machines.as_slice() else {
        panic!("three machines");
    };
    let flags = [
        YOUNG,
        &[
            "--brake=node-deletion=0:0:0",
            "--controllers=cloud-node-lifecycle",
        ],
    ]
    .concat();
    let mut ccm = world.ccm(&world.configuration(json!({})), &flags);

    // It changes while the cloud is asked about it: the write meets a conflict, and the node is read again.
    world.cloud.set_status(off.server, ServerStatus::Off);
    world.report(&off.node, "Unknown").await;
    world.cloud_link.hold();
    world.cloud.clear_requests();
    world.cloud_is_asked(&mut ccm).await;
    let note = json!({"metadata": {"annotations": {"note": "meanwhile"}}});
    world.change(&off.node, note).await;
    world.cloud_link.release();
    world
        .nodes_until(&mut ccm, "the taint", |nodes| {
            is_shut_down(&nodes[&off.node])
        })
        .await;

    // There is no budget, and a node that was drained waits for none.
    let cordon = json!({"spec": {"unschedulable": true}});
    world.change(&drained.node, cordon).await;
    world.lose(drained).await;
    world
        .nodes_until(&mut ccm, "the drained one to go", |nodes| nodes.len() == 2)
        .await;
    until(&mut ccm, "an Event about it", async || {
        let said = world.events_about(&drained.node).await;
        let mut said = said.iter().map(|event| event.reason.as_deref());
        said.any(|reason| reason == Some("DeletingNode"))
            .then_some(())
    })
    .await;
    world.stop(ccm).await;
    assert_exact(&world);
}
