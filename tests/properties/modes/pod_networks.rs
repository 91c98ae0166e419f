//! The law of plan mode for routes and pod CIDRs: worlds of nodes with and without blocks, and a cloud with routes that
//! are right, outdated, in the way, or another owner's, played in each mode from the same start.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ccm_controllers::{Controllers, Metrics, Settings, SharedPlan};
use ccm_core::cloud::ProviderError;
use ccm_core::cloud::route::{CloudRoute, RouteTarget};
use ccm_core::safety::audit::End;
use ccm_core::safety::permit::Mode;
use ccm_core::settings::{IpamSettings, OtherAllocatorRules, PodNetwork, RouteSettings};
use ccm_fixtures::kubernetes::{ObjectBuilder, node};
use ccm_fixtures::permits::change;
use ccm_fixtures::provider::{Asked, ScriptedProvider, at_once, route};
use ccm_sim::cluster::Cluster;
use ccm_tests::controllers::{NO_CONTROLLERS, create, run_one};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use proptest::prelude::*;
use serde_json::json;

/// The user of the controllers at the API server.
const CONTROLLERS: &str = "ccm";
/// Duration of a play: the brake allows two deletions of routes in ten minutes.
const LONG: Duration = Duration::from_secs(90 * 60);
const CLUSTER: &str = "10.244.0.0/16";

/// The state of a node, and of its route at the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No block, and nothing at the cloud.
    Bare,
    /// A block, and no route to it.
    Unrouted,
    /// A block, a route and the condition.
    Well,
    /// A block and a route, without the condition.
    Untold,
    /// A route to an address that it had before.
    Moved,
    /// A route to its block leads nowhere.
    Blocked,
    /// A route to its block leads to a machine that is no node.
    Taken,
    /// Like `Unrouted`, and a network plugin has set the condition.
    Calico,
    /// The node is gone, and its route exists.
    Gone,
}

impl Fate {
    pub(crate) const ALL: [Fate; 9] = [
        Fate::Bare,
        Fate::Unrouted,
        Fate::Well,
        Fate::Untold,
        Fate::Moved,
        Fate::Blocked,
        Fate::Taken,
        Fate::Calico,
        Fate::Gone,
    ];
}

pub(crate) fn any_world() -> impl Strategy<Value = Vec<Fate>> {
    prop::collection::vec(prop::sample::select(Fate::ALL.to_vec()), 1..6)
}

/// The first change of each object.
type Made = Arc<Mutex<BTreeMap<String, String>>>;

/// The result of a play: the first change of each object, as planned and as made.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) planned: BTreeMap<String, String>,
    pub(crate) made: BTreeMap<String, String>,
    pub(crate) requests: usize,
}

fn block(index: usize) -> String {
    // From the opposite end of the range, where no blocks are allocated.
    format!("10.244.{}.0/24", 200 - index)
}

fn registered(index: usize, fate: Fate) -> Option<ObjectBuilder<Node>> {
    let condition = match fate {
        Fate::Well => Some(("False", "RouteCreated")),
        Fate::Taken => Some(("True", "NoRouteCreated")),
        Fate::Calico => Some(("False", "CalicoIsUp")),
        _ => None,
    };
    let conditions = condition.map(|(status, reason)| {
        json!([{ "type": "NetworkUnavailable", "status": status, "reason": reason }])
    });
    let node = node(&format!("n{index}"))
        .provider_id(&format!("sim://{index}"))
        .address("InternalIP", &format!("10.1.0.{index}"))
        .with(|node| node["status"]["conditions"] = json!(conditions));
    match fate {
        Fate::Gone => None,
        Fate::Bare => Some(node),
        _ => Some(node.pod_cidrs(&[&block(index)])),
    }
}

fn target(index: usize, fate: Fate) -> Option<RouteTarget> {
    let name = format!("n{index}");
    Some(match fate {
        Fate::Bare | Fate::Unrouted | Fate::Calico => return None,
        Fate::Well | Fate::Untold => RouteTarget::Node(name),
        Fate::Moved => RouteTarget::Outdated(name),
        Fate::Blocked | Fate::Gone => RouteTarget::Blackhole,
        Fate::Taken => RouteTarget::Other("machine 9".to_owned()),
    })
}

/// Plays a world in this mode.
pub(crate) fn play(world: &[Fate], mode: Mode) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(played(world, mode))
}

async fn played(world: &[Fate], mode: Mode) -> Played {
    let cluster = Cluster::with_clock(SystemTime::now);
    let nodes: Api<Node> = Api::all(cluster.client_as("somebody"));
    let fates = || world.iter().copied().enumerate();
    for node in fates().filter_map(|(index, fate)| registered(index, fate)) {
        create(&nodes, node).await;
    }
    cluster.keep_writes();
    let routes =
        fates().filter_map(|(index, fate)| Some(route(&block(index), target(index, fate)?)));
    let (cloud, made) = cloud(routes.collect());
    let shared_plan = SharedPlan::default();
    let result = run_one(
        cluster.client_as(CONTROLLERS),
        Arc::new(cloud),
        settings(mode, shared_plan.clone()),
        Metrics::default(),
        tokio::time::sleep(LONG),
    );
    result.await.expect("the provider makes routes");
    let mut played = Played::default();
    for planned in shared_plan.snapshot().changes() {
        let (object, verb) = (planned.object.clone(), planned.verb.clone());
        played.planned.insert(object, verb);
    }
    played.made = made.lock().unwrap().clone();
    for write in cluster.writes() {
        let request = write.request;
        if request.identity != CONTROLLERS {
            continue;
        }
        played.requests += 1;
        let is_done = request.code.is_some_and(|code| (200..300).contains(&code));
        if request.resource == "nodes" && is_done {
            let verb = format!("{} {}", request.verb, request.subresource);
            let object = format!("node/{}", request.name);
            let verb = verb.trim_end().to_owned();
            played.made.entry(object).or_insert(verb);
        }
    }
    played
}

fn settings(mode: Mode, plan: SharedPlan) -> Settings {
    let cluster_cidr = CLUSTER.parse().expect("a network");
    Settings {
        controllers: Controllers {
            route: true,
            node_ipam: true,
            ..NO_CONTROLLERS
        },
        route: RouteSettings {
            cluster_cidrs: vec![cluster_cidr],
            ..RouteSettings::default()
        },
        ipam: Some(IpamSettings {
            families: vec![PodNetwork {
                cluster_cidr,
                node_mask: 24,
            }],
            service_cidrs: Vec::new(),
            concurrent_syncs: NonZeroUsize::MIN,
            settle: Duration::from_secs(5),
            other_allocator: OtherAllocatorRules {
                settle_without_lease: Duration::from_secs(5),
                ..OtherAllocatorRules::default()
            },
        }),
        plan,
        mode,
        ..ccm_tests::controllers::settings()
    }
}

/// The provider `sim`, which makes each change under its permit, and the first change of each object.
fn cloud(routes: Vec<CloudRoute>) -> (ScriptedProvider, Made) {
    let made = Made::default();
    let noted = made.clone();
    let cloud = ScriptedProvider::new("sim")
        .finding(|_| unreachable!("nobody asks about machines"))
        .routing(routes)
        .scripted(move |asked| at_once(changed(&asked, &noted)));
    (cloud, made)
}

fn changed(asked: &Asked<'_>, made: &Made) -> Result<(), ProviderError> {
    let Asked { call, permit, .. } = asked;
    if call.function == "list" {
        return Ok(());
    }
    let request = change("POST", &format!("/routes/{}", call.function));
    // Any time at which it is valid.
    let now = permit.valid_until();
    let verdict = permit.ask(now, &request);
    verdict.map_err(|refusal| ProviderError::Denied(refusal.to_string()))?;
    permit.ended(now, now, &request, End::Done);
    let mut made = made.lock().unwrap();
    let object = format!("route/{}", call.object);
    made.entry(object)
        .or_insert(format!("POST {}", request.path));
    Ok(())
}
