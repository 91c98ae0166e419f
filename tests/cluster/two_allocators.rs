//! Beside a kube-controller-manager that allocates pod CIDRs (`--allocate-node-cidrs`): our allocator pauses, and takes
//! over when it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_tests::process::Process;
use futures::stream::{self, StreamExt};
use ipnet::Ipv4Net;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::pod_network::{names, pod_cidrs, setup};
use crate::world::{World, until};

/// kube-controller-manager's name in the Lease and in managed fields.
const KCM: &str = "kube-controller-manager";
const CLUSTER_CIDR: &str = "10.244.0.0/16";
const FLAGS: &[&str] = &[
    "--controllers=node-ipam-controller",
    "--leader-elect=false",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.244.0.0/16",
];

/// Imitates kube-controller-manager's Lease and allocation of pod CIDRs: it lists the nodes now and then, and gives
/// each node without pod CIDRs the first block that it believes free.
struct ControllerManager {
    tasks: Vec<JoinHandle<()>>,
    has_listed: watch::Receiver<bool>,
}

impl ControllerManager {
    /// It starts with a Lease that it has just won.
    async fn start(client: Client, identity: &'static str, allocates: bool) -> Self {
        let acquired = Timestamp::now();
        renew(&client, identity, acquired).await;
        let mut tasks = vec![tokio::spawn({
            let client = client.clone();
            async move {
                loop {
                    sleep(Duration::from_secs(2)).await;
                    renew(&client, identity, acquired).await;
                }
            }
        })];
        let (lists, has_listed) = watch::channel(false);
        if allocates {
            let nodes = Api::all(client);
            tasks.push(tokio::spawn(async move {
                // The duration of its start.
                sleep(Duration::from_secs(2)).await;
                loop {
                    allocate(&nodes, &lists).await;
                    sleep(Duration::from_millis(300)).await;
                }
            }));
        }
        Self { tasks, has_listed }
    }

    /// Waits until it knows all nodes.
    async fn has_listed(&mut self) {
        self.has_listed.wait_for(|has| *has).await.unwrap();
    }
}

impl Drop for ControllerManager {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn renew(client: &Client, identity: &str, acquired: Timestamp) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(KCM.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime(acquired)),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }),
    };
    let params = PatchParams::apply(KCM).force();
    leases
        .patch(KCM, &params, &Patch::Apply(&lease))
        .await
        .unwrap();
}

/// One pass over a list of all nodes, which is old by the time that the last of them is served.
async fn allocate(nodes: &Api<Node>, lists: &watch::Sender<bool>) {
    let all = nodes.list(&ListParams::default()).await.unwrap().items;
    lists.send_replace(true);
    let mut used: BTreeSet<String> = all.iter().flat_map(pod_cidrs).collect();
    let range: Ipv4Net = CLUSTER_CIDR.parse().unwrap();
    let wait = all.iter().filter(|node| pod_cidrs(node).is_empty());
    // In another order than our allocator.
    for node in wait.rev() {
        let mut blocks = range.subnets(24).unwrap().map(|block| block.to_string());
        let free = blocks.find(|block| !used.contains(block)).unwrap();
        let params = PatchParams {
            field_manager: Some(KCM.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Strategic(json!({"spec": {"podCIDR": free, "podCIDRs": [free]}}));
        let name = node.metadata.name.as_deref().unwrap();
        // Refused if the node has one by then.
        let _ = nodes.patch(name, &params, &patch).await;
        used.insert(free);
        // A client limited to 50 requests a second.
        sleep(Duration::from_millis(20)).await;
    }
}

/// This many nodes join at the same moment.
async fn join(world: &World, kind: &str, count: usize) {
    stream::iter(names(kind, count))
        .for_each_concurrent(count, async |name| {
            world.add_node(&name, json!({})).await;
        })
        .await;
}

/// Waits until this many nodes have pod CIDRs, and asserts that each has its own.
async fn each_has_its_own(
    world: &World,
    ccm: &mut Process,
    count: usize,
) -> BTreeMap<String, Node> {
    let what = format!("{count} nodes with pod CIDRs");
    let has = |node: &&Node| !pod_cidrs(node).is_empty();
    let nodes = world
        .nodes_until(ccm, &what, |nodes| {
            nodes.values().filter(has).count() == count
        })
        .await;
    let mut given = BTreeMap::new();
    for (name, node) in &nodes {
        for cidr in pod_cidrs(node) {
            let other = given.insert(cidr.clone(), name);
            assert_eq!(other, None, "{name} has {cidr}, too");
        }
    }
    nodes
}

/// The nodes about which there is an Event with this reason.
async fn nodes_with_event(world: &World, reason: &str) -> Vec<String> {
    let events = world.events().await.into_iter();
    let nodes_with_event = events.filter(|event| event.reason.as_deref() == Some(reason));
    let nodes_with_event = nodes_with_event.flat_map(|event| {
        let name = event.involved_object.name.unwrap();
        vec![name; usize::try_from(event.count.unwrap()).unwrap()]
    });
    nodes_with_event.collect()
}

/// Waits until our allocator has listed the nodes.
async fn knows_all_nodes(world: &World, ccm: &mut Process) {
    until(ccm, "the first list", async || {
        let log = world.log();
        log.contains("pod CIDRs of existing nodes loaded")
            .then_some(())
    })
    .await;
}

/// Waits until our allocator has recorded, once, that it pauses.
async fn stands_back(world: &World, ccm: &mut Process) {
    until(ccm, "that it stands back", async || {
        (nodes_with_event(world, "OtherPodCIDRAllocator").await.len() == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nodes_that_join_under_two_allocators_never_share_a_range_and_ours_takes_over_when_it_is_alone()
 {
    let world = World::start(setup()).await;
    let admin = world.nodes.clone().into_client();
    // Both start while a hundred nodes join.
    let (kcm, ()) = tokio::join!(
        ControllerManager::start(admin.clone(), "kcm-1", true),
        join(&world, "first", 50)
    );
    let mut ccm = world.ccm(&world.configuration(json!({})), FLAGS);
    join(&world, "second", 50).await;
    each_has_its_own(&world, &mut ccm, 100).await;
    // A hundred more, now that both know all nodes.
    knows_all_nodes(&world, &mut ccm).await;
    join(&world, "third", 100).await;
    each_has_its_own(&world, &mut ccm, 200).await;
    stands_back(&world, &mut ccm).await;
    assert_eq!(world.pod_cidr_writes().len(), 0, "the other one allocates");

    // Another process of kube-controller-manager leads, and our allocator goes on pausing without another Event.
    drop(kcm);
    let kcm = ControllerManager::start(admin, "kcm-2", true).await;
    join(&world, "fourth", 20).await;
    each_has_its_own(&world, &mut ccm, 220).await;
    assert_eq!(world.pod_cidr_writes().len(), 0, "the other one allocates");

    // kube-controller-manager ends, and its Lease expires.
    drop(kcm);
    join(&world, "late", 10).await;
    each_has_its_own(&world, &mut ccm, 230).await;
    has_allocated(&world, &mut ccm, 10).await;
    until(&mut ccm, "that it takes over", async || {
        (nodes_with_event(&world, "PodCIDRAllocationTakenOver")
            .await
            .len()
            == 1)
            .then_some(())
    })
    .await;
    join(&world, "last", 1).await;
    each_has_its_own(&world, &mut ccm, 231).await;
    world.stop(ccm).await;
    assert_eq!(
        nodes_with_event(&world, "OtherPodCIDRAllocator")
            .await
            .len(),
        1
    );
    assert_eq!(
        nodes_with_event(&world, "PodCIDRAllocationTakenOver")
            .await
            .len(),
        1
    );
    let log = world.log();
    assert_eq!(log.matches("this manager allocates none").count(), 1);
    assert_eq!(log.matches("the other allocator is gone").count(), 1);
}

/// `ccm` wrote so many pod CIDRs and no more. The audit log may have a write later than the API shows it.
async fn has_allocated(world: &World, ccm: &mut Process, count: usize) {
    until(ccm, "that the audit log has its writes", async || {
        (world.pod_cidr_writes().len() >= count).then_some(())
    })
    .await;
    assert_eq!(world.pod_cidr_writes().len(), count);
}

#[tokio::test]
async fn beside_one_that_does_not_allocate_ours_does_until_another_process_allocates() {
    let world = World::start(setup()).await;
    let admin = world.nodes.clone().into_client();
    let kcm = ControllerManager::start(admin.clone(), "kcm-1", false).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), FLAGS);
    join(&world, "first", 20).await;
    each_has_its_own(&world, &mut ccm, 20).await;
    has_allocated(&world, &mut ccm, 20).await;
    // An operator has given it --allocate-node-cidrs.
    drop(kcm);
    let mut kcm = ControllerManager::start(admin, "kcm-2", true).await;
    // Either of the two may serve these nodes: the new process has to start first.
    join(&world, "second", 50).await;
    each_has_its_own(&world, &mut ccm, 70).await;
    kcm.has_listed().await;
    join(&world, "third", 50).await;
    each_has_its_own(&world, &mut ccm, 120).await;
    stands_back(&world, &mut ccm).await;
    world.stop(ccm).await;
    // A write to a node of the second group may have been on its way when the other one served it.
    let mut writes = world.pod_cidr_writes();
    writes.retain(|write| write.name.starts_with("third-"));
    assert_eq!(writes, []);
}

#[tokio::test]
async fn with_the_rights_of_the_go_managers_it_is_known_by_what_it_writes() {
    let mut setup = setup();
    setup.without = &[("Role", "ccm:node-ipam-controller")];
    let world = World::start(setup).await;
    let admin = world.nodes.clone().into_client();
    let _kcm = ControllerManager::start(admin, "kcm-1", true).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), FLAGS);
    knows_all_nodes(&world, &mut ccm).await;
    join(&world, "first", 20).await;
    each_has_its_own(&world, &mut ccm, 20).await;
    stands_back(&world, &mut ccm).await;
    assert_eq!(world.pod_cidr_writes().len(), 0);
    let log = world.log();
    let denied = "reading the Lease kube-system/kube-controller-manager is forbidden";
    assert_eq!(log.matches(denied).count(), 1);
    world.stop(ccm).await;
}
