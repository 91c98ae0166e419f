//! The law of plan mode for routes and pod CIDRs: worlds of nodes with and without blocks, and a cloud with routes that are right,
//! outdated, in the way, or nobody's business, played in each mode from the same start.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use ccm_controllers::{Controllers, Metrics, PlanBook, Settings};
use ccm_core::audit::Author;
use ccm_core::cloud::{Capabilities, CloudNode, CloudProvider, FindReply, ProviderError, Reply};
use ccm_core::cloud_route::{
    CloudRoute, CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply, RouteTarget,
};
use ccm_core::load_balancer::Progress;
use ccm_core::permit::{Access, CloudRequest, Mode, Permit, RequestOutcome};
use ccm_core::settings::{IpamSettings, OtherAllocatorRules, PodNetwork, RouteSettings};
use ccm_sim::cluster::Cluster;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Who the controllers are at the API server.
const CONTROLLERS: &str = "ccm";
/// How long everything takes: two routes may go in ten minutes.
const LONG: Duration = Duration::from_secs(90 * 60);
const CLUSTER: &str = "10.244.0.0/16";

/// What a node has, and what the cloud has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No block, and nothing at the cloud.
    Bare,
    /// A block, and no route to it.
    Unrouted,
    /// All that it needs.
    Well,
    /// A route, and nobody has said so.
    Untold,
    /// A route to an address that it had.
    Moved,
    /// Its destination leads to nothing.
    Blocked,
    /// Its destination leads to somebody's machine.
    Taken,
    /// Like `Unrouted`, and a network plugin has spoken.
    Calico,
    /// It is gone, and its route is there.
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

/// How a play went: by object the first change, as it was planned and as it was made.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) planned: BTreeMap<String, String>,
    pub(crate) made: BTreeMap<String, String>,
    pub(crate) requests: usize,
}

fn block(index: usize) -> String {
    // From the other end than that from which blocks are given out.
    format!("10.244.{}.0/24", 200 - index)
}

fn node(index: usize, fate: Fate) -> Option<Value> {
    let condition = match fate {
        Fate::Well => Some(("False", "RouteCreated")),
        Fate::Taken => Some(("True", "NoRouteCreated")),
        Fate::Calico => Some(("False", "CalicoIsUp")),
        _ => None,
    };
    let conditions = condition.map(|(status, reason)| {
        json!([{ "type": "NetworkUnavailable", "status": status, "reason": reason }])
    });
    let block = block(index);
    let is_bare = fate == Fate::Bare;
    let node = json!({
        "metadata": { "name": format!("n{index}") },
        "spec": {
            "providerID": format!("sim://{index}"),
            "podCIDR": (!is_bare).then_some(&block),
            "podCIDRs": (!is_bare).then_some([&block]),
        },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": format!("10.1.0.{index}") }],
            "conditions": conditions,
        },
    });
    (fate != Fate::Gone).then_some(node)
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
    for node in fates().filter_map(|(index, fate)| node(index, fate)) {
        let node: Node = serde_json::from_value(node).expect("a node");
        let made = nodes.create(&PostParams::default(), &node).await;
        made.expect("the node can be made");
    }
    cluster.keep_writes();
    let routes = fates().filter_map(|(index, fate)| Some((block(index), target(index, fate)?)));
    let cloud = Arc::new(Cloud {
        routes: Mutex::new(routes.collect()),
        made: Mutex::default(),
    });
    let book = PlanBook::default();
    let result = ccm_tests::controllers::run_one(
        cluster.client_as(CONTROLLERS),
        cloud.clone(),
        settings(mode, book.clone()),
        Metrics::default(),
        tokio::time::sleep(LONG),
    );
    result.await.expect("the provider makes routes");
    let mut played = Played::default();
    for planned in book.plan().changes() {
        let (object, verb) = (planned.object.clone(), planned.verb.clone());
        played.planned.insert(object, verb);
    }
    played.made = cloud.made.lock().unwrap().clone();
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

fn settings(mode: Mode, plan: PlanBook) -> Settings {
    let cluster_cidr = CLUSTER.parse().expect("a network");
    Settings {
        controllers: Controllers {
            route: true,
            node_ipam: true,
            ..ccm_tests::controllers::NO_CONTROLLERS
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

/// The provider `sim`, with its table of routes.
struct Cloud {
    routes: Mutex<BTreeMap<String, RouteTarget>>,
    /// By object, the first change that was made.
    made: Mutex<BTreeMap<String, String>>,
}

impl Cloud {
    /// A change under its permit.
    fn change(
        &self,
        permit: &Permit,
        destination: &str,
        what: &str,
        change: impl FnOnce(&mut BTreeMap<String, RouteTarget>),
    ) -> Result<RouteReply, ProviderError> {
        let template = format!("/routes/{what}");
        let request = CloudRequest {
            author: Author::default(),
            target: "api".to_owned(),
            host: "cloud.test".to_owned(),
            method: "POST".to_owned(),
            path: template.clone(),
            template: template.clone(),
            rule: format!("POST {template} (write)"),
            sha256: String::new(),
            access: Access::Write,
        };
        // Any moment at which it is valid.
        let now = permit.valid_until();
        let asked = permit.ask(now, &request);
        asked.map_err(|refusal| ProviderError::Denied(refusal.to_string()))?;
        change(&mut self.routes.lock().unwrap());
        permit.ended(now, now, &request, RequestOutcome::Answered(200, None));
        let object = format!("route/{destination}");
        let mut made = self.made.lock().unwrap();
        made.entry(object).or_insert(format!("POST {template}"));
        Ok(RouteReply {
            progress: Progress::Done,
            events: Vec::new(),
        })
    }
}

impl CloudProvider for Cloud {
    fn name(&self) -> &str {
        "sim"
    }

    fn schemes(&self) -> &[String] {
        static SCHEMES: LazyLock<Vec<String>> = LazyLock::new(|| vec!["sim".to_owned()]);
        &SCHEMES
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            instances: true,
            routes: true,
            ..Capabilities::default()
        }
    }

    fn find<'a>(&'a self, _: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, FindReply> {
        unreachable!("nobody asks about machines")
    }

    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply> {
        self.find(nodes, permit)
    }

    fn list_routes<'a>(&'a self, _: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, ListRoutesReply> {
        let routes = self.routes.lock().unwrap().clone();
        let routes = routes.into_iter().map(|(destination, target)| CloudRoute {
            id: destination.clone(),
            destination_cidr: destination,
            target,
            extra: Vec::new(),
        });
        let routes = routes.collect();
        Box::pin(async move {
            Ok(ListRoutesReply {
                routes,
                complete: true,
            })
        })
    }

    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        let destination = request.destination_cidr.clone();
        let target = RouteTarget::Node(request.node.name.clone());
        let reply = self.change(&permit, &request.destination_cidr, "create", |routes| {
            drop(routes.insert(destination, target));
        });
        Box::pin(async move { reply })
    }

    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        let destination = &request.route.destination_cidr;
        let reply = self.change(&permit, destination, "delete", |routes| {
            drop(routes.remove(destination));
        });
        Box::pin(async move { reply })
    }
}
