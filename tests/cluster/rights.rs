//! The roles in `deploy/` are exactly what the controllers need.

use std::collections::BTreeMap;

use ccm_sim::hetzner::{Fault, ServerSpec, Trouble};
use ccm_tests::apiserver::AuditEntry;
use ccm_tests::process::Process;
use serde_json::json;

use crate::delivered::Delivered;
use crate::deploy::define_providers;
use crate::kubelet::uninitialized;
use crate::lifecycle::YOUNG;
use crate::namespaces::Leaving;
use crate::pod_cidrs::{WriteBan, contended};
use crate::pod_network::{Network, pod_cidrs, setup};
use crate::provider_objects::{has, kubectl, output_of};
use crate::record::{granted, used};
use crate::services::{PLACE, Services, load_balancer};
use crate::world::{Setup, World, until};

#[tokio::test]
async fn the_roles_in_deploy_are_exactly_what_the_controllers_use() {
    let world = World::start(Setup {
        server_flags: LISTS.map(str::to_owned).into(),
        ..Setup::default()
    })
    .await;
    let mut ccm = use_every_right(&world, &[]).await;
    shows_what_serves(&world, &mut ccm).await;
    assert_every_right_is_used(&world, world.asked());
}

/// An API server that does not stream lists: listing needs one verb more.
pub(crate) const LISTS: [&str; 1] = ["--feature-gates=WatchList=false"];

/// Starts `ccm` with these flags, and gives it something to do for every right of the base.
pub(crate) async fn use_every_right(world: &World, flags: &[&str]) -> Process {
    // The manager writes the active versions into objects of the kind Provider.
    define_providers(&world.api.client_for("admin").await.unwrap()).await;
    let server = first_node(world).await;
    let flags = [YOUNG, SMALL_BUDGET, flags].concat();
    let mut ccm = world.ccm(&world.configuration(json!(BTreeMap::from([PLACE]))), &flags);
    let last = nodes_join(world, &mut ccm).await;

    // A node is deleted with its machine; the other one is the witness.
    world.cloud.remove_server(server);
    world
        .nodes_until(&mut ccm, "worker-1 to go", |nodes| nodes.len() == 1)
        .await;

    services_come_and_go(world, &mut ccm).await;

    // The last machine of a scheme goes, whose node was drained.
    let cordon = json!({"spec": {"unschedulable": true}});
    world.change("worker-2", cordon).await;
    world.cloud.remove_server(last);
    world
        .nodes_until(&mut ccm, "worker-2 to go", |nodes| nodes.is_empty())
        .await;
    ccm
}

/// What `kubectl get ccmp` prints of a base install, whose manager has written it with the base's rights alone.
async fn shows_what_serves(world: &World, ccm: &mut Process) {
    let delivered = Delivered::of(world).await;
    let status = has(&delivered, ccm, "hcloud", ("Ready", "True", "Serving")).await;
    let version = status["active"]["version"].as_str().unwrap();
    let admin = world.api.kubeconfig("admin").unwrap();
    let table = output_of(kubectl(&admin, &["get", "ccmp", "--no-headers"])).await;
    let words: Vec<_> = table.split_whitespace().collect();
    assert_eq!(words[..4], ["hcloud", version, "True", "Active"], "{table}");
}

/// A budget so small that a namespace's load balancers wait, unless the namespace is known to be deleted.
pub(crate) const SMALL_BUDGET: &[&str] = &["--brake=load-balancer-deletion=2:0:2"];

/// Adds a server with its node to a cloud that refuses everything, and returns the server's id.
pub(crate) async fn first_node(world: &World) -> u64 {
    // The same Event twice within minutes increments its count, which is a patch. A refusal is reported at once.
    let refusal = Trouble::Refuse {
        status: 403,
        code: "forbidden".to_owned(),
    };
    world.cloud.inject(Fault::new(refusal));
    let server = world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;
    server
}

/// Waits until the first node is initialised, and adds another one that is written to in between; returns its server's
/// id.
pub(crate) async fn nodes_join(world: &World, ccm: &mut Process) -> u64 {
    until(ccm, "the same Event again", async || {
        let mut events = world.events_about("worker-1").await.into_iter();
        events.find(|event| event.count >= Some(2))
    })
    .await;
    world.cloud.clear_faults();
    world.initialised(ccm, "worker-1").await;

    // A node that changes while the cloud is asked, and whose addresses are right already: its one write conflicts, and
    // the node has to be read again.
    let last = world.cloud.add_server(ServerSpec::named("worker-2"));
    let addresses = json!([
        {"type": "Hostname", "address": "worker-2"},
        {"type": "ExternalIP", "address": "198.18.0.2"},
    ]);
    world
        .register("worker-2", json!({}), json!([]), addresses)
        .await;
    world.cloud.clear_requests();
    world.cloud_link.hold();
    let taint = json!({"spec": {"taints": [uninitialized()]}});
    world.change("worker-2", taint).await;
    until(ccm, "a question about its name", async || {
        let requests = world.cloud.requests();
        let mut paths = requests.iter().map(|request| &request.path);
        // A pass over nodes that are not Ready asks for servers by their IDs.
        paths
            .any(|path| path.starts_with("/servers?"))
            .then_some(())
    })
    .await;
    let note = json!({"metadata": {"annotations": {"note": "meanwhile"}}});
    world.change("worker-2", note).await;
    world.cloud_link.release();
    world.initialised(ccm, "worker-2").await;
    last
}

/// Services that need every right of the service controller.
pub(crate) async fn services_come_and_go(world: &World, ccm: &mut Process) {
    // A Service gets a load balancer, and is deleted without a trace.
    let services = Services::of(world).await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(ccm, "web").await;
    services.delete("web").await;
    services.is_gone(ccm, "web").await;

    // A Service that changes before the cloud has answered: the write is refused, and it is read again.
    services.create("swift", load_balancer(&[80])).await;
    services.has_address(ccm, "swift").await;
    world.cloud.clear_requests();
    world.cloud_link.hold();
    let hostname = json!({"load-balancer.hetzner.cloud/hostname": "swift.example.com"});
    let shown = json!({"metadata": {"annotations": hostname}});
    services.change("swift", shown).await;
    until(ccm, "a question about it", async || {
        let requests = world.cloud.requests();
        let mut paths = requests.iter().map(|request| &request.path);
        paths
            .any(|path| path.starts_with("/load_balancers"))
            .then_some(())
    })
    .await;
    let unkept = json!({"metadata": {"finalizers": null}});
    services.change("swift", unkept).await;
    services.delete("swift").await;
    services.create("swift", load_balancer(&[80])).await;
    world.cloud_link.release();
    services.has_address(ccm, "swift").await;

    // The budget of deletions is spent; one more Service is deleted with its namespace.
    let leaving = Leaving::with(world, "leaving", 1).await;
    until(ccm, "its address", async || {
        (leaving.count(true).await == 1).then_some(())
    })
    .await;
    leaving.leave().await;
    until(ccm, "its end", async || {
        (leaving.count(false).await == 0).then_some(())
    })
    .await;
}

/// No request was refused for lack of a right, and every granted right was used.
pub(crate) fn assert_every_right_is_used(world: &World, mut log: Vec<AuditEntry>) {
    // No client may create an Event in a namespace that is being deleted.
    log.retain(|entry| {
        !(entry.code == 403 && entry.namespace == "leaving" && entry.resource == "events")
    });
    let refused: Vec<_> = log.iter().filter(|entry| entry.code == 403).collect();
    assert!(refused.is_empty(), "not granted: {refused:?}");
    assert_eq!(used(&log), granted(&world.rights));
}

/// A world in which `ccm` has exactly one role.
async fn only(role: &'static str) -> World {
    World::start(Setup {
        server_flags: LISTS.map(str::to_owned).into(),
        only_role: Some(role),
        ..setup()
    })
    .await
}

/// No request was refused, and every granted right was used. Patching a repeated Event, which all controllers do, is
/// tested above.
fn assert_exact(world: &World) {
    let log = world.asked();
    let refused: Vec<_> = log.iter().filter(|entry| entry.code == 403).collect();
    assert!(refused.is_empty(), "not granted: {refused:?}");
    let (mut used, mut granted) = (used(&log), granted(&world.rights));
    used.insert((String::new(), "events".to_owned(), "patch".to_owned()));
    // The status of providers is written whichever controllers run; that, too, is tested above.
    for rights in [&mut used, &mut granted] {
        rights.retain(|(group, ..)| group != "wasm-ccm.dev");
    }
    assert_eq!(used, granted);
}

#[tokio::test]
async fn the_role_of_the_controller_of_pod_cidrs_is_exactly_what_it_uses_alone() {
    let world = only("ccm:node-ipam-controller").await;
    world.add_node("worker-1", json!({})).await;
    // A node that is read again, because writes to it are refused.
    let ban = WriteBan::on_pod_cidrs();
    ban.begin(&world).await;
    world.add_node("contended-1", contended()).await;
    let mut ccm = world.ccm(
        &world.configuration(json!({})),
        &[
            "--controllers=node-ipam-controller",
            "--leader-elect=false",
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/23",
        ],
    );
    world
        .event(&mut ccm, "contended-1", "CIDRAssignmentFailed")
        .await;
    ban.end(&world).await;
    world
        .nodes_until(&mut ccm, "two pod CIDRs", |nodes| {
            nodes.values().all(|node| pod_cidrs(node).len() == 1)
        })
        .await;
    world.stop(ccm).await;
    assert_exact(&world);
}

#[tokio::test]
async fn the_role_of_the_controller_of_routes_is_exactly_what_it_uses_alone() {
    let world = only("ccm:node-route-controller").await;
    let network = Network::add(&world);
    network
        .initialised(&world, "worker-1", "10.244.0.0/24")
        .await;
    let ban = WriteBan::on_conditions();
    ban.begin(&world).await;
    let label = json!({"metadata": contended()});
    world.change("worker-1", label).await;
    let refusal = Trouble::Refuse {
        status: 403,
        code: "forbidden".to_owned(),
    };
    let changes = Fault::new(refusal).method(http::Method::POST);
    world.cloud.inject(changes.path("/networks/"));
    let mut ccm = world.ccm(
        &network.configuration(&world),
        &[
            "--controllers=node-route-controller",
            "--leader-elect=false",
            "--cluster-cidr=10.244.0.0/16",
        ],
    );
    world
        .event(&mut ccm, "worker-1", "FailedToCreateRoute")
        .await;
    until(&mut ccm, "a refusal", async || {
        let written = world.asked();
        let mut written = written.iter().filter(|entry| entry.verb == "patch");
        written.any(|entry| entry.code == 422).then_some(())
    })
    .await;
    world.cloud.clear_faults();
    ban.end(&world).await;
    network.all_routed(&world, &mut ccm, 1).await;
    world.stop(ccm).await;
    assert_exact(&world);
}
