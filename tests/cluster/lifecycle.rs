//! Nodes whose machines are deleted, are switched off, and run again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_sim::hetzner::{ServerSpec, ServerStatus};
use ccm_tests::observed::Observed;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::kubelet::uid;
use crate::machines::is_shut_down;
use crate::world::{Setup, World, size, until};

/// Nodes cannot be made old: the API server sets `creationTimestamp`. Every other condition has its default.
pub(crate) const YOUNG: &[&str] = &["--node-deletion-min-age=1s"];

/// Upper bound for the deletion of a node whose machine is gone, from when it is NotReady.
const DELETION_LIMIT: Duration = Duration::from_secs(90);

#[tokio::test]
#[allow(clippy::print_stdout, reason = "the measured times are a figure")]
async fn nodes_of_deleted_servers_go_within_ninety_seconds_of_not_ready_and_no_others() {
    let world = World::start(Setup::default()).await;
    let count = size("CCM_CLUSTER_MACHINES", 60, 60);
    let machines = world.machines(count).await;
    let mut observed = Observed::new(world.nodes.clone());
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    until(&mut ccm, "a first look at the cloud", async || {
        (!world.questions().is_empty()).then_some(())
    })
    .await;

    // A twelfth of the nodes: the brake allows a tenth in ten minutes. Not all at the same moment of a pass.
    let (lost, left) = machines.split_at(count / 12);
    let mut since = BTreeMap::new();
    for machine in lost {
        world.lose(machine).await;
        since.insert(machine.node.clone(), Instant::now());
        let next = Instant::now() + Duration::from_millis(1300);
        while timeout_at(next, observed.changed()).await.is_ok() {}
    }
    let mut took = Vec::new();
    while let Some((_, first)) = since.iter().min_by_key(|(_, since)| **since) {
        let change = timeout_at(*first + DELETION_LIMIT, observed.changed()).await;
        ccm.check().unwrap();
        let Ok(nodes) = change else {
            panic!("{:?} are still there:\n{}", since.keys(), ccm.tail());
        };
        since.retain(|name, since| {
            let is_there = nodes.contains_key(name);
            if !is_there {
                took.push(since.elapsed());
            }
            is_there
        });
    }
    took.sort_unstable();
    let [first, .., last] = took.as_slice() else {
        panic!("{took:?}");
    };
    println!(
        "{} true deletions: {:.1} s to {:.1} s after NotReady, {:.1} s in the middle",
        took.len(),
        first.as_secs_f64(),
        last.as_secs_f64(),
        took[took.len() / 2].as_secs_f64()
    );
    for machine in lost {
        let event = world.event(&mut ccm, &machine.node, "DeletingNode").await;
        let source = event.source.unwrap().component.unwrap();
        assert_eq!(source, "cloud-node-lifecycle-controller");
        assert_eq!(event.type_.as_deref(), Some("Normal"));
    }
    world.stop(ccm).await;

    let nodes = world.nodes.list(&Default::default()).await.unwrap();
    let nodes: BTreeSet<_> = nodes
        .into_iter()
        .filter_map(|node| node.metadata.name)
        .collect();
    assert_eq!(nodes, left.iter().map(|one| one.node.clone()).collect());
    let deletions = world.deletions();
    assert_eq!(deletions.len(), lost.len(), "{deletions:#?}");
    for deletion in deletions {
        let conditions = &deletion.body.as_ref().unwrap()["preconditions"];
        assert!(conditions["uid"].is_string(), "{deletion:?}");
        assert!(conditions["resourceVersion"].is_string(), "{deletion:?}");
    }
}

#[tokio::test]
async fn a_node_is_tainted_while_its_server_is_switched_off() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(3).await;
    let machine = &machines[0];
    world.cloud.set_status(machine.server, ServerStatus::Off);
    world.report(&machine.node, "Unknown").await;
    // Its server runs, and it is NotReady all the same.
    world.report(&machines[1].node, "False").await;

    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    let tainted = |wanted: bool| {
        let name = machine.node.clone();
        move |nodes: &BTreeMap<String, _>| nodes.get(&name).map(is_shut_down) == Some(wanted)
    };
    world
        .nodes_until(&mut ccm, "the taint", tainted(true))
        .await;
    // The server runs again; its kubelet does not report yet.
    world
        .cloud
        .set_status(machine.server, ServerStatus::Running);
    world
        .nodes_until(&mut ccm, "the taint to go with the cloud", tainted(false))
        .await;
    world.cloud.set_status(machine.server, ServerStatus::Off);
    world
        .nodes_until(&mut ccm, "the taint again", tainted(true))
        .await;
    // The cloud's answer may be late: a kubelet that reports runs on a machine.
    world.report(&machine.node, "True").await;
    world
        .nodes_until(&mut ccm, "the taint to go with the kubelet", tainted(false))
        .await;
    world.stop(ccm).await;

    let writes = world.writes_to(&machine.node);
    let taints: Vec<_> = writes
        .iter()
        .filter(|write| {
            write.code == 200 && write.body.as_ref().unwrap()["spec"]["taints"] != json!(null)
        })
        .collect();
    assert_eq!(taints.len(), 4, "{writes:#?}");
    for write in taints {
        let version = &write.body.as_ref().unwrap()["metadata"]["resourceVersion"];
        assert!(version.is_string(), "{write:?}");
        assert_eq!(
            (write.verb.as_str(), write.subresource.as_str()),
            ("patch", "")
        );
    }
    assert_eq!(world.deletions(), []);
}

#[tokio::test]
async fn many_nodes_that_are_not_ready_cost_one_list_for_each_pass() {
    let world = World::start(Setup::default()).await;
    for machine in world.machines(40).await {
        world.report(&machine.node, "Unknown").await;
    }
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    until(&mut ccm, "four looks at the cloud", async || {
        (world.questions().len() >= 4).then_some(())
    })
    .await;
    world.stop(ccm).await;
    let requests = world.questions();
    let is_list = |path: &str| path.starts_with("/servers?page=1&");
    assert!(
        requests.iter().all(|request| is_list(&request.path)),
        "{requests:#?}"
    );
    assert!(requests.len() <= 5, "{requests:#?}");
    assert_eq!(world.deletions(), []);
}

#[tokio::test]
async fn a_node_that_is_made_again_while_its_machine_is_looked_for_stays() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(8).await;
    let old = world.nodes.get(&machines[0].node).await.unwrap();
    for machine in &machines[..2] {
        world.lose(machine).await;
    }
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    // The first answers have come, the second ones have not.
    until(&mut ccm, "a second look at the cloud", async || {
        (world.questions().len() >= 4).then_some(())
    })
    .await;
    world.cloud_link.hold();
    let before = world.questions().len();
    until(
        &mut ccm,
        "a question that waits for its answer",
        async || (world.questions().len() > before).then_some(()),
    )
    .await;
    world.delete(&machines[0].node).await;
    let server = world.cloud.add_server(ServerSpec::named(&machines[0].node));
    let new = world.join(&machines[0].node, server, "Unknown").await;
    world.cloud_link.release();

    // The other node is deleted after the same answers.
    let other = machines[1].node.clone();
    let what = format!("{other} to go");
    world
        .nodes_until(&mut ccm, &what, |nodes| !nodes.contains_key(&other))
        .await;
    world.stop(ccm).await;
    let node = world.nodes.get(&machines[0].node).await.unwrap();
    assert_eq!(uid(&node), uid(&new));
    for deletion in world.deletions() {
        let meant = &deletion.body.as_ref().unwrap()["preconditions"]["uid"];
        assert_ne!(meant, uid(&new), "{deletion:?}");
        assert!(deletion.name == other || meant == uid(&old), "{deletion:?}");
    }
}

#[tokio::test]
async fn half_of_the_cluster_goes_when_an_autoscaler_has_said_so_on_the_nodes() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(10).await;
    let leaving = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
    for machine in &machines[..5] {
        let patch = json!({"spec": {"taints": leaving}});
        world.change(&machine.node, patch).await;
        world.lose(machine).await;
    }
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    let nodes = world
        .nodes_until(&mut ccm, "five nodes to go", |nodes| nodes.len() == 5)
        .await;
    world.stop(ccm).await;
    assert!(
        machines[5..]
            .iter()
            .all(|one| nodes.contains_key(&one.node))
    );
    assert_eq!(world.deletions().len(), 5);
}
