//! Pod CIDRs and routes while processes, the API server and the cloud fail in the middle: in the end all exist, nothing
//! exists twice, and nothing was lost on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sim::hetzner::{Fault, Trouble};
use ccm_tests::process::Process;
use http::Method;
use k8s_openapi::api::core::v1::Node;

use crate::pod_network::{Network, assert_given_once, names, pod_cidrs, routed, setup};
use crate::world::{LONG_LEASE, Setup, World, until};

/// How many nodes there are in the beginning.
const NODES: usize = 50;

/// Pod CIDRs for exactly 64 nodes: if one is lost, or given twice, the last node lacks one.
const SMALL: &str = "10.244.0.0/18";
const FITS: usize = 64;

/// How many nodes have pod CIDRs.
fn given(nodes: &BTreeMap<String, Node>) -> usize {
    let given = nodes.values().filter(|node| !pod_cidrs(node).is_empty());
    given.count()
}

/// In the end all pod CIDRs are used, each by one node, and no route was ever deleted.
async fn fill_up(world: &World, network: Network, mut ccm: Process) {
    network.populate(world, &names("late", FITS - NODES)).await;
    let nodes = network.all_routed(world, &mut ccm, FITS).await;
    world.all_initialised(&mut ccm, FITS).await;
    world.stop(ccm).await;
    network.assert_whole(world, &nodes, SMALL);
    assert_given_once(&world.pod_cidr_writes());
    let requests = world.cloud.requests();
    let mut paths = requests.iter().map(|request| request.path.as_str());
    assert!(paths.all(|path| !path.ends_with("delete_route")));
}

#[tokio::test]
async fn leaders_that_are_killed_while_half_of_the_nodes_are_done_are_followed_by_one_that_does_the_rest()
 {
    let world = World::start(Setup {
        etcd_link: true,
        ..setup()
    })
    .await;
    let network = Network::add(&world);
    let names = names("worker", NODES);
    let (first, others) = names.split_at(NODES / 2 + 5);
    network.populate(&world, first).await;
    // Each write takes as long as in a large cluster: joining nodes are processed one after another.
    let link = world.api.etcd_link().unwrap();
    link.delay(Duration::from_millis(25));
    let mut ccm = network.ccm(&world, SMALL, &[]);
    let joining = async {
        for name in others {
            network.populate(&world, std::slice::from_ref(name)).await;
        }
    };
    let killing = async {
        let what = "pod CIDRs for half of the nodes";
        world
            .nodes_until(&mut ccm, what, |nodes| given(nodes) >= NODES / 2)
            .await;
        ccm.kill();
        let nodes = world.nodes.list(&Default::default()).await.unwrap();
        assert!(nodes.items.len() > NODES / 2);
    };
    tokio::join!(joining, killing);
    link.delay(Duration::ZERO);

    let mut ccm = network.ccm(&world, SMALL, &[]);
    let nodes = world
        .nodes_until(&mut ccm, "routes to half of the nodes", |nodes| {
            routed(nodes) >= NODES / 2
        })
        .await;
    ccm.kill();
    let done = routed(&nodes);
    assert!(done < NODES, "the end came too late");

    let mut ccm = network.ccm(&world, SMALL, &[]);
    network.all_routed(&world, &mut ccm, NODES).await;
    fill_up(&world, network, ccm).await;
}

#[tokio::test]
async fn an_api_server_that_crashes_while_pod_cidrs_and_routes_are_made_comes_back_to_a_finished_job()
 {
    let mut world = World::start(setup()).await;
    let network = Network::add(&world);
    network.populate(&world, &names("worker", NODES)).await;
    let mut ccm = network.ccm(&world, SMALL, &LONG_LEASE);
    for (what, is_so) in [
        ("the first pod CIDRs", (|nodes| given(nodes) > 0) as IsSo),
        ("half of the routes", |nodes| routed(nodes) >= NODES / 2),
    ] {
        let nodes = world.nodes_until(&mut ccm, what, is_so).await;
        world.api.kill();
        assert!(routed(&nodes) < NODES, "the crash came too late");
        world.api.restart().await.unwrap();
    }
    network.all_routed(&world, &mut ccm, NODES).await;
    fill_up(&world, network, ccm).await;
}

type IsSo = fn(&BTreeMap<String, Node>) -> bool;

#[tokio::test]
async fn a_cloud_that_takes_one_change_at_a_time_and_loses_answers_gets_every_route_once() {
    let mut setup = setup();
    setup.cloud.action_duration = Duration::from_millis(200);
    let world = World::start(setup).await;
    let network = Network::add(&world);
    // One change is carried out and its answer is lost; another one is not carried out.
    let changes = |trouble| {
        let fault = Fault::new(trouble).method(Method::POST);
        fault.path("/networks/").after(1).every(3).times(2)
    };
    world.cloud.inject(changes(Trouble::ResetAfter));
    world.cloud.inject(changes(Trouble::ResetBefore));
    network.populate(&world, &names("worker", 8)).await;
    let mut ccm = network.ccm(&world, SMALL, &[]);
    let nodes = network.all_routed(&world, &mut ccm, 8).await;
    until(&mut ccm, "an end of all changes", async || {
        (network.routes(&world).len() == 8).then_some(())
    })
    .await;
    world.stop(ccm).await;
    network.assert_whole(&world, &nodes, SMALL);
    let requests = world.cloud.requests();
    let lost = requests
        .iter()
        .filter(|one| one.write && one.status.is_none());
    assert_eq!(lost.count(), 4, "{requests:#?}");
    let mut paths = requests.iter().map(|request| request.path.as_str());
    assert!(paths.all(|path| !path.ends_with("delete_route")));
}
