//! The flags of the Kubernetes documentation at work: pod CIDRs, routes to them, and their cost.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use ccm_sim::hetzner::{Request, ServerSpec};
use ccm_tests::apiserver::AuditEntry;
use ccm_tests::process::Process;
use kube::api::DeleteParams;
use serde_json::json;

use crate::lifecycle::YOUNG;
use crate::pod_network::{
    DOCUMENTED, DOCUMENTED_CIDR, Network, names, pod_cidrs, setup, unavailable,
};
use crate::services::{Services, load_balancer};
use crate::world::{World, size, untainted, until};

/// How many nodes there are in the beginning.
const NODES: usize = 50;

/// The value of the flag --route-reconciliation-period.
const PERIOD: Duration = Duration::from_secs(20);

/// The manager renews its Lease every second: as long as changes of nodes have to be over before it lists routes.
const RENEWED: &str = "--leader-elect-retry-period=1s";

/// An event is over after so many renewals of the Lease without another write or a request to the cloud. They take at
/// least three seconds, and longer where the manager is slow.
const RENEWALS: usize = 4;

/// Arrival times of the requests for the network with all its routes.
fn listings(requests: &[Request]) -> Vec<SystemTime> {
    let is_listing = |one: &&Request| !one.write && one.path.starts_with("/networks");
    let listings = requests.iter().filter(is_listing);
    listings.map(|one| one.received).collect()
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "the counted calls are a figure")]
async fn the_documented_flags_give_every_node_its_pods_and_a_route_and_then_nothing_is_written() {
    let world = World::start(setup()).await;
    let network = Network::documented(&world);
    let servers = network.populate(&world, &names("worker", NODES)).await;
    let services = Services::of(&world).await;
    services.create("web", load_balancer(&[80])).await;
    // The smallest type has not as many targets.
    let larger = json!({"load-balancer.hetzner.cloud/type": "lb21"});
    let larger = json!({"metadata": {"annotations": larger}});
    services.change("web", larger).await;
    let shorter = [
        "--node-deletion-not-ready=1s",
        "--route-reconciliation-period=20s",
        RENEWED,
    ];
    let flags = [DOCUMENTED, YOUNG, &shorter].concat();
    let mut ccm = world.ccm(&network.configuration(&world), &flags);

    let nodes = network.all_routed(&world, &mut ccm, NODES).await;
    network.assert_whole(&world, &nodes, DOCUMENTED_CIDR);
    world.all_initialised(&mut ccm, NODES).await;
    services.has_address(&mut ccm, "web").await;

    // A person deletes a node with its machine, and another one whose machine runs on; a third one's machine vanishes.
    world.cloud.remove_server(servers[0]);
    world.delete("worker-1").await;
    world.delete("worker-2").await;
    world.cloud.remove_server(servers[2]);
    world.falls_silent("worker-3").await;
    let left = NODES - 3;
    until(&mut ccm, "three routes to go", async || {
        (network.routes(&world).len() == left).then_some(())
    })
    .await;
    let nodes = network.all_routed(&world, &mut ccm, left).await;
    network.assert_whole(&world, &nodes, DOCUMENTED_CIDR);
    assert_eq!(untainted(&nodes), left);
    until(
        &mut ccm,
        "a load balancer for those that are left",
        async || {
            let balancers = world.cloud.load_balancers();
            let targets = balancers[0]["targets"].as_array().unwrap().len();
            (targets == left).then_some(())
        },
    )
    .await;

    // From one periodic listing to another.
    settle(&world, &mut ccm).await;
    world.cloud.clear_requests();
    let listed = async |ccm: &mut Process, count: usize| {
        until(ccm, &format!("listing {count}"), async || {
            (listings(&world.cloud.requests()).len() >= count).then_some(())
        })
        .await;
    };
    listed(&mut ccm, 1).await;
    let asked = world.asked().len();
    let resyncs = size("CCM_CLUSTER_ROUTE_RESYNCS", 2, 6);
    for resync in 1..=resyncs {
        listed(&mut ccm, 1 + resync).await;
    }
    let requests = world.cloud.requests();
    let listings = listings(&requests);
    assert_eq!(requests.len(), listings.len(), "{requests:#?}");
    assert_eq!(world.writes_since(asked), []);
    let took = listings[resyncs].duration_since(listings[0]).unwrap();
    println!(
        "calls: idle, {resyncs} resyncs in {:.1} s: cloud {} (all listings), API server 0 writes",
        took.as_secs_f64(),
        listings.len() - 1,
    );
    // A bound that holds on a loaded machine, too: a listing may be late, and the next one is then not much earlier.
    let least = PERIOD * u32::try_from(resyncs).unwrap() - PERIOD / 4;
    assert!(took >= least, "more than one in {PERIOD:?}: {listings:?}");
    world.stop(ccm).await;
}

/// Waits until no more requests reach the cloud and no more writes the cluster.
async fn settle(world: &World, ccm: &mut Process) {
    let is_renewal = |one: &&AuditEntry| one.resource == "leases" && one.verb == "update";
    let renewals = || world.asked().iter().filter(is_renewal).count();
    let so_far = || (world.cloud.requests().len(), world.writes_since(0).len());
    let last = Cell::new((so_far(), renewals()));
    until(ccm, "renewals of the Lease and nothing else", async || {
        let (before, since) = last.get();
        let (now, renewed) = (so_far(), renewals());
        if now != before {
            last.set((now, renewed));
            return None;
        }
        (renewed >= since + RENEWALS).then_some(())
    })
    .await;
}

/// An event, and its maximum cost: requests to the cloud, and writes to the API server.
struct Row {
    event: &'static str,
    cloud: usize,
    writes: usize,
}

/// Counts requests and writes from its creation on.
struct Meter<'a> {
    world: &'a World,
    asked: usize,
}

impl Meter<'_> {
    /// Starts where the world has settled.
    fn start(world: &World) -> Meter<'_> {
        world.cloud.clear_requests();
        let asked = world.asked().len();
        Meter { world, asked }
    }

    /// Asserts the counts when the world has settled again. The periodic refreshes of all nodes are counted apart.
    #[allow(clippy::print_stdout, reason = "the counted calls are a figure")]
    async fn hold(self, ccm: &mut Process, row: &Row) {
        settle(self.world, ccm).await;
        let all = self.world.cloud.requests();
        let (refreshes, asked): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|one| !one.write && one.path.starts_with("/servers"));
        let shapes: Vec<_> = asked.iter().map(|one| shape(one)).collect();
        let writes = self.world.writes_since(self.asked);
        println!(
            "calls: {:<16} cloud {} (limit {}: {}) and {} about servers; API server {} writes (limit {})",
            row.event,
            asked.len(),
            row.cloud,
            shapes.join(", "),
            refreshes.len(),
            writes.len(),
            row.writes,
        );
        assert!(asked.len() <= row.cloud, "{}: {asked:#?}", row.event);
        let lines: Vec<_> = writes.iter().map(short).collect();
        assert!(writes.len() <= row.writes, "{}: {lines:#?}", row.event);
    }
}

/// A request without its numbers and its query.
fn shape(request: &Request) -> String {
    let path = request.path.split('?').next().unwrap_or_default();
    let parts = path.split('/').map(|part| match part.parse::<u64>() {
        Ok(_) => "N",
        Err(_) => part,
    });
    let parts: Vec<_> = parts.collect();
    format!("{} {}", request.method, parts.join("/"))
}

fn short(write: &AuditEntry) -> String {
    let AuditEntry {
        verb,
        resource,
        subresource,
        code,
        body,
        ..
    } = write;
    let body = body.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("{verb} {resource}/{subresource} {code} {body}")
}

/// Addresses, identity and taint, pod CIDRs, the condition, and the Event at the end; the network, the route, and its
/// action.
const ADDED: Row = Row {
    event: "node added",
    cloud: 3,
    writes: 5,
};
/// The network, the change, and its action.
const REMOVED: Row = Row {
    event: "node removed",
    cloud: 3,
    writes: 0,
};
/// The network, two changes, and their actions; the addresses.
const MOVED: Row = Row {
    event: "address changed",
    cloud: 5,
    writes: 1,
};

#[tokio::test]
async fn each_event_costs_at_most_its_calls() {
    let world = World::start(setup()).await;
    let network = Network::documented(&world);
    let servers = network.populate(&world, &names("worker", 3)).await;
    let more = ["--node-status-update-frequency=10s", RENEWED];
    let flags = [DOCUMENTED, &more].concat();
    let mut ccm = world.ccm(&network.configuration(&world), &flags);
    network.all_routed(&world, &mut ccm, 3).await;
    settle(&world, &mut ccm).await;

    let meter = Meter::start(&world);
    network.populate(&world, &names("new", 1)).await;
    network.all_routed(&world, &mut ccm, 4).await;
    meter.hold(&mut ccm, &ADDED).await;

    let meter = Meter::start(&world);
    let moved = pod_cidrs(&world.nodes.get("worker-1").await.unwrap()).remove(0);
    let to = "172.16.9.9";
    network.move_server(&world, servers[0], to.parse().unwrap());
    until(&mut ccm, "a route to the new address", async || {
        let gateway = network.routes(&world).remove(&moved);
        (gateway.as_deref() == Some(to)).then_some(())
    })
    .await;
    meter.hold(&mut ccm, &MOVED).await;

    let meter = Meter::start(&world);
    world.cloud.remove_server(servers[1]);
    let params = DeleteParams::default();
    world.nodes.delete("worker-2", &params).await.unwrap();
    until(&mut ccm, "the route to go", async || {
        (network.routes(&world).len() == 3).then_some(())
    })
    .await;
    meter.hold(&mut ccm, &REMOVED).await;
    let nodes = network.all_routed(&world, &mut ccm, 3).await;
    network.assert_whole(&world, &nodes, DOCUMENTED_CIDR);
    world.stop(ccm).await;
}

#[tokio::test]
async fn what_a_network_plugin_says_of_a_node_stays_and_the_route_is_made_all_the_same() {
    let world = World::start(setup()).await;
    let network = Network::documented(&world);
    let reported = |status: &str, reason: &str| {
        json!([{
            "type": "NetworkUnavailable", "status": status, "reason": reason, "message": "told",
            "lastTransitionTime": "2026-01-02T03:04:05Z", "lastHeartbeatTime": "2026-01-02T03:04:05Z",
        }])
    };
    let before = [
        (
            "calico",
            reported("False", "CalicoIsUp"),
            ("False", "CalicoIsUp"),
        ),
        (
            "cilium",
            reported("True", "CiliumIsDown"),
            ("True", "CiliumIsDown"),
        ),
        (
            "failed",
            reported("True", "NoRouteCreated"),
            ("False", "RouteCreated"),
        ),
        (
            "known",
            reported("False", "RouteCreated"),
            ("False", "RouteCreated"),
        ),
        ("new", json!([]), ("False", "RouteCreated")),
    ];
    let names: Vec<_> = before.iter().map(|row| row.0.to_owned()).collect();
    network.servers(&world, &names);
    for (name, conditions, _) in &before {
        world
            .join_tainted(name, json!({}), conditions.clone())
            .await;
    }
    let flags = [DOCUMENTED, &[RENEWED]].concat();
    let mut ccm = world.ccm(&network.configuration(&world), &flags);
    let nodes = world
        .nodes_until(&mut ccm, "what all nodes say of their networks", |nodes| {
            untainted(nodes) == before.len()
                && before.iter().all(|(name, _, (status, reason))| {
                    let wanted = Some(((*status).to_owned(), (*reason).to_owned()));
                    unavailable(&nodes[*name]) == wanted
                })
        })
        .await;
    until(&mut ccm, "all routes", async || {
        (network.routes(&world).len() == before.len()).then_some(())
    })
    .await;
    settle(&world, &mut ccm).await;
    world.stop(ccm).await;
    network.assert_whole(&world, &nodes, DOCUMENTED_CIDR);
    let mut written = world.condition_writes();
    written.sort();
    assert_eq!(written, ["failed", "new"]);
}

#[tokio::test]
async fn a_provider_without_a_network_leaves_routes_and_what_nodes_say_of_them_alone() {
    let world = World::start(setup()).await;
    let recorded = json!([{
        "type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated", "message": "told",
    }]);
    world
        .cloud
        .add_servers(["told", "new"].map(ServerSpec::named));
    world.join_tainted("told", json!({}), recorded).await;
    world.join_tainted("new", json!({}), json!([])).await;
    let often = [
        "--node-status-update-frequency=1s",
        "--route-reconciliation-period=1s",
    ];
    let flags = [DOCUMENTED, &often].concat();
    let configuration = world.configuration(json!({"HCLOUD_SERVER_CACHE_MAX_AGE": "0"}));
    let mut ccm = world.ccm(&configuration, &flags);
    let is_done = |nodes: &BTreeMap<String, _>| {
        untainted(nodes) == 2 && nodes.values().all(|node| pod_cidrs(node).len() == 1)
    };
    world
        .nodes_until(&mut ccm, "two nodes with pod CIDRs", is_done)
        .await;
    // Longer than a changed node waits for a listing.
    let looks = world.questions().len() + 6;
    until(&mut ccm, "six refreshes", async || {
        (world.questions().len() >= looks).then_some(())
    })
    .await;
    world.stop(ccm).await;
    let requests = world.questions();
    let mut paths = requests.iter().map(|request| &request.path);
    assert!(
        paths.all(|path| path.starts_with("/servers")),
        "{requests:#?}"
    );
    assert_eq!(world.condition_writes(), Vec::<String>::new());
    let recorded = world.nodes.get("told").await.unwrap();
    assert_eq!(unavailable(&recorded).unwrap().1, "NoRouteCreated");
}
