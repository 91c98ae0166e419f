//! From the vendor's Go manager to this one and back: the check beforehand, the switch, the work afterwards, and what
//! the Go manager finds when it returns.
//!
//! What the real Go manager left behind was recorded, and is replayed. With CCM_GO_HCLOUD, the path of its binary, the
//! real one runs instead, before and after; with CCM_BLESS=1 the recording is made anew.

#[path = "migration/check.rs"]
mod check;
#[path = "migration/estate.rs"]
mod estate;
#[path = "migration/go_manager.rs"]
mod go_manager;
#[path = "migration/recording.rs"]
mod recording;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ccm_sim::hetzner::{Options, Request, ServerSpec};
use ccm_tests::apiserver::AuditEntry;
use ccm_tests::process::Process;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::pod_network::Network;
use crate::world::{Setup, World, until};
use check::{Checker, all_variables};
use estate::Variant;
use go_manager::GoManager;
use recording::{Recording, Uids, state};

/// After this long without a write, all effects of a change are done.
const QUIET: Duration = Duration::from_millis(2500);
/// The same for the Go manager, which starts from scratch and waits longer between two passes.
const GO_QUIET: Duration = Duration::from_secs(10);

const CONDITION: &str = "wasm-ccm.dev/LoadBalancer";
const OWNER: &str = "wasm-ccm.dev/provider";

async fn world() -> World {
    let mut cloud = Options::new(ccm_fixtures::TOKEN);
    cloud.rate_limit = None;
    World::start(Setup {
        cloud,
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn the_way_there_and_back_with_a_network() {
    there_and_back(Variant::Network).await;
}

#[tokio::test]
async fn the_way_there_and_back_with_public_addresses() {
    there_and_back(Variant::Public).await;
}

async fn there_and_back(variant: Variant) {
    let world = world().await;
    estate::prepare(&world, variant).await;
    match go_manager::binary() {
        Some(binary) => beside_the_real_one(&world, variant, &binary).await,
        None => {
            let recording = Recording::read(variant);
            recording.replay(&world).await;
            assert_same(&state(&world).await, &recording.left, "what was replayed");
            let worked = there(&world, variant, async || ()).await;
            assert_same(
                &worked,
                &recording.worked,
                "what the Go manager returned to",
            );
        }
    }
}

/// The same with the real Go manager.
async fn beside_the_real_one(world: &World, variant: Variant, binary: &Path) {
    let go = GoManager::of(world).await;
    let first = go.start(world, binary, variant);
    settle(world, GO_QUIET).await;
    drop(first);
    let requests = go.written();
    let left = state(world).await;
    // The Go manager asks the cloud again for existing objects at every start. What follows is compared with that.
    let second = go.start(world, binary, variant);
    settle(world, GO_QUIET).await;
    let uids = Uids::of(world).await;
    let restart = go_manager::named(&go.written().split_off(requests.len()));
    assert_same(&state(world).await, &left, "a restart of the Go manager");

    // The second Go manager runs until this one starts.
    let before = go.written().len();
    let worked = there(world, variant, async || {
        drop(second);
    })
    .await;
    assert_eq!(go.written().len(), before, "the Go manager had stopped");

    let written = go_manager::cluster_writes(world).len();
    let third = go.start(world, binary, variant);
    settle(world, GO_QUIET).await;
    assert_same(&state(world).await, &worked, "the Go manager's return");
    let returned = go_manager::named(&go.written().split_off(before));
    let update = |one: &String| one.ends_with("/actions/update_service");
    assert!(restart.iter().all(update), "{restart:?}");
    assert!(returned.iter().all(update), "{returned:?}");
    let mut visible = go_manager::cluster_writes(world).split_off(written);
    visible.retain(|one| one.resource != "events");
    assert!(visible.is_empty(), "{visible:#?}");
    drop(third);
    if std::env::var_os("CCM_BLESS").is_some() {
        let requests = requests
            .iter()
            .filter(|one| one["status"].as_u64() < Some(300));
        Recording {
            manager: "hcloud-cloud-controller-manager v1.35.0".to_owned(),
            requests: requests.map(|one| uids.take_out(one)).collect(),
            left,
            restart,
            worked,
        }
        .write(variant);
    }
}

/// Check, switch, work, and the end of this manager. Returns the state of the world then.
async fn there(world: &World, variant: Variant, go_ends: impl AsyncFnOnce()) -> Value {
    let left = state(world).await;
    let checker = Checker::of(world).await;
    let checked = match variant {
        Variant::Network => checker.of_the_deployment(world, variant).await,
        Variant::Public => checker.of_the_daemon_set(world, variant).await,
    };
    assert_eq!(checked.code, Some(0), "{:#}", checked.report);
    assert_eq!(checked.report["verdict"], "clean");
    assert_eq!(checked.requests(), [""; 0]);
    assert_eq!(checked.differences(), variant.differences());
    assert_same(&state(world).await, &left, "the check");
    let announced: BTreeSet<String> = checked.objects("bookkeeping").into_iter().collect();
    go_ends().await;

    let requests = world.cloud.requests().len();
    let mut ccm = start(world, variant);
    taken_over(world, &mut ccm).await;
    settle(world, QUIET).await;
    assert_same(&state(world).await, &left, "the switch");
    let made = cloud_writes(world, requests);
    assert!(made.is_empty(), "{made:?}");
    let noted = cluster_writes(world);
    let objects: BTreeSet<String> = noted.iter().map(object).collect();
    assert_eq!(
        objects, announced,
        "what was announced, and what was written"
    );

    work(world, variant, &mut ccm).await;
    world.stop(ccm).await;
    state(world).await
}

/// A node joins, and another leaves; a Service is created, two change, and one is deleted.
async fn work(world: &World, variant: Variant, ccm: &mut Process) {
    let server = world.cloud.add_server(ServerSpec::named("worker-3"));
    if variant == Variant::Network {
        Network::FIRST.attach(world, server);
    }
    let cidr = (variant == Variant::Network).then_some("10.244.9.0/24");
    estate::register(world, "worker-3", cidr).await;
    let annotations = json!({"type": "lb11", "uses-proxyprotocol": "true"});
    estate::create(world, 50, "new", annotations, json!({})).await;
    world.delete("worker-2").await;
    let services = estate::services(world).await;
    let ports = json!({"spec": {"ports": [
        {"name": "first", "port": 80, "nodePort": 30_100},
        {"name": "third", "port": 9000, "nodePort": 30_299},
    ]}});
    let params = PatchParams::default();
    services
        .patch("web", &params, &Patch::Merge(&ports))
        .await
        .unwrap();
    services
        .delete("some", &DeleteParams::default())
        .await
        .unwrap();
    let algorithm = "load-balancer.hetzner.cloud/algorithm-type";
    let algorithm = json!({"metadata": {"annotations": {algorithm: "round_robin"}}});
    services
        .patch("proxy", &params, &Patch::Merge(&algorithm))
        .await
        .unwrap();
    until(ccm, "what was asked for", async || {
        let now = state(world).await;
        let all = now["loadBalancers"].as_array().unwrap();
        let of = |service: &str| {
            let name = format!("UID({service})");
            let is_its = |one: &&Value| one["labels"]["hcloud-ccm/service-uid"] == name;
            all.iter().find(is_its)
        };
        let reaches = |one: &Value, server: u64| {
            let mut targets = one["targets"].as_array().unwrap().iter();
            targets.any(|target| target["server"]["id"] == server)
        };
        // The third server is that of worker-2.
        let follow = all
            .iter()
            .all(|one| reaches(one, server) && !reaches(one, 3));
        let has_port = |one: &Value| {
            let mut services = one["services"].as_array().unwrap().iter();
            services.any(|service| service["listen_port"] == 9000)
        };
        let routes = now["routes"].to_string();
        let taints = now["nodes"]["worker-3"]["taints"].to_string();
        let is_done = follow
            && of("some").is_none()
            && now["services"]["some"].is_null()
            && now["services"]["new"]["ingress"].is_array()
            && of("web").is_some_and(has_port)
            && of("proxy").is_some_and(|one| one["algorithm"]["type"] == "round_robin")
            && !taints.contains("uninitialized")
            && !routes.contains("10.244.2.0/24")
            && (variant == Variant::Public || routes.contains("10.244.9.0/24"));
        is_done.then_some(())
    })
    .await;
    settle(world, QUIET).await;
}

#[tokio::test]
async fn what_has_drifted_is_named_and_then_done() {
    let variant = Variant::Network;
    let world = world().await;
    estate::prepare(&world, variant).await;
    let recording = Recording::read(variant);
    recording.replay(&world).await;
    let balancer = async |service: &str| {
        let services = estate::services(&world).await;
        let uid = services.get(service).await.unwrap().metadata.uid;
        let mut all = world.cloud.load_balancers().into_iter();
        let is_its = |one: &Value| one["labels"]["hcloud-ccm/service-uid"] == json!(uid);
        all.find(is_its).unwrap()["id"].as_u64().unwrap()
    };
    // A person has changed an algorithm, deleted a load balancer, and removed a node's label.
    let (proxy, web) = (balancer("proxy").await, balancer("web").await);
    let change = format!("/load_balancers/{proxy}/actions/change_algorithm");
    let algorithm = json!({"type": "round_robin"});
    world.ask_cloud("POST", &change, Some(&algorithm)).await;
    world.cloud.remove_load_balancer(web);
    let label = "topology.kubernetes.io/region";
    let patch = json!({"metadata": {"labels": {label: null}}});
    world.change("worker-2", patch).await;

    let checker = Checker::of(&world).await;
    let checked = checker.with_arguments(&world, variant).await;
    assert_eq!(checked.code, Some(2), "{:#}", checked.report);
    let named: BTreeSet<String> = checked.requests().into_iter().collect();
    let create = "POST /load_balancers".to_owned();
    let change = format!("POST {change}");
    assert_eq!(named, BTreeSet::from([change.clone(), create.clone()]));
    assert_eq!(checked.objects("clusterChanges"), ["node/worker-2"]);
    assert_eq!(checked.objects("undecided"), [""; 0]);

    let requests = world.cloud.requests().len();
    let mut ccm = start(&world, variant);
    // The owner of the node that lacked a label is written later, with the next pass over all nodes.
    ensured(&world, &mut ccm).await;
    settle(&world, QUIET).await;
    world.stop(ccm).await;
    let made = balancer("web").await;
    let ours = format!("POST /load_balancers/{made}/");
    let first: BTreeSet<String> = cloud_writes(&world, requests)
        .into_iter()
        .filter(|one| !one.starts_with(&ours))
        .collect();
    assert_eq!(first, named, "what was named, and what was done");
    let labels = world.nodes.get("worker-2").await.unwrap().metadata.labels;
    assert!(labels.unwrap().contains_key(label));
}

/// This manager with the arguments and variables of the Go manager.
fn start(world: &World, variant: Variant) -> Process {
    let mut arguments = vec!["run".to_owned()];
    arguments.extend(variant.arguments().iter().map(|one| (*one).to_owned()));
    let variables = all_variables(world, variant);
    let variables: Vec<_> = variables
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    world.spawn(&arguments, &variables)
}

/// Waits until this manager has processed all objects that it owns.
async fn taken_over(world: &World, ccm: &mut Process) {
    until(ccm, "marks on all nodes", async || {
        let nodes = world.nodes.list(&ListParams::default()).await.unwrap();
        let are_marked = nodes.iter().map(|node| json!(node)).all(|node| {
            let id = node["spec"]["providerID"].as_str().unwrap_or_default();
            !id.starts_with("hcloud://") || node["metadata"]["labels"][OWNER] == "hcloud"
        });
        are_marked.then_some(())
    })
    .await;
    ensured(world, ccm).await;
}

/// Waits until all Services that it owns have what they want.
async fn ensured(world: &World, ccm: &mut Process) {
    let services = estate::services(world).await;
    until(ccm, "marks on all Services", async || {
        let services = services.list(&ListParams::default()).await.unwrap();
        let are_ensured = services.iter().map(|one| json!(one)).all(|service| {
            let conditions = service["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let is_ours = service["spec"]["type"] == "LoadBalancer"
                && service["spec"]["loadBalancerClass"].is_null();
            !is_ours || conditions.any(|one| one["type"] == CONDITION && one["status"] == "True")
        });
        are_ensured.then_some(())
    })
    .await;
}

/// Method and path of each change requested of the cloud after the first `since` requests.
fn cloud_writes(world: &World, since: usize) -> Vec<String> {
    let requests = world.cloud.requests().split_off(since);
    let writes = requests.iter().filter(|one| one.write);
    let named = |one: &Request| format!("{} {}", one.method, one.path);
    writes.map(named).collect()
}

/// The writes of this manager to nodes and Services.
fn cluster_writes(world: &World) -> Vec<AuditEntry> {
    let mut log = world.asked();
    log.retain(|one| ["nodes", "services"].contains(&one.resource.as_str()) && !is_read(one));
    log
}

fn object(entry: &AuditEntry) -> String {
    match entry.resource.as_str() {
        "nodes" => format!("node/{}", entry.name),
        _ => format!("service/{}/{}", entry.namespace, entry.name),
    }
}

fn is_read(entry: &AuditEntry) -> bool {
    ["get", "list", "watch"].contains(&entry.verb.as_str())
}

/// Waits until nothing has changed at the cloud or in the cluster for this long.
async fn settle(world: &World, quiet: Duration) {
    let so_far = || {
        let log = world.api.audit_log().unwrap();
        let writes = log
            .iter()
            .filter(|one| !is_read(one) && !["leases", "events"].contains(&one.resource.as_str()));
        (cloud_writes(world, 0).len(), writes.count())
    };
    let mut before = (usize::MAX, 0);
    while before != so_far() {
        before = so_far();
        sleep(quiet).await;
    }
}

#[track_caller]
fn assert_same(found: &Value, expected: &Value, what: &str) {
    if found == expected {
        return;
    }
    let mut differences = Vec::new();
    compare("", found, expected, &mut differences);
    panic!("{what}: {}", differences.join("\n"));
}

fn compare(at: &str, found: &Value, expected: &Value, differences: &mut Vec<String>) {
    match (found, expected) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                compare(
                    &format!("{at}/{key}"),
                    &found[key],
                    &expected[key],
                    differences,
                );
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (found, expected)) in one.iter().zip(other).enumerate() {
                compare(&format!("{at}/{index}"), found, expected, differences);
            }
        }
        _ if found != expected => differences.push(format!("{at}: {found}, not {expected}")),
        _ => {}
    }
}
