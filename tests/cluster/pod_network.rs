//! Clusters whose machines share a network of the cloud, with routes to the pods of each: set-up, state, and checks of
//! whether it is consistent. The tests say what `ccm` does about it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ccm_sim::hetzner::{Location, ServerSpec};
use ccm_tests::apiserver::AuditEntry;
use ccm_tests::process::Process;
use futures::stream::{self, StreamExt};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::kubelet::{other_taint, uninitialized};
use crate::services::PLACE;
use crate::world::{Setup, World};

/// The flags of the DaemonSet in the Kubernetes documentation ("Cloud Controller Manager Administration"), beside the
/// provider's name, and without --use-service-account-credentials, which needs other rights: see `identities`.
pub(crate) const DOCUMENTED: &[&str] = &[
    "--leader-elect=true",
    "--allocate-node-cidrs=true",
    "--configure-cloud-routes=true",
    "--cluster-cidr=172.17.0.0/16",
];

/// The pod network of those flags.
pub(crate) const DOCUMENTED_CIDR: &str = "172.17.0.0/16";

/// How many nodes a test registers at once.
const AT_ONCE: usize = 16;

/// A world without the cloud's hourly request limit, for many nodes.
pub(crate) fn setup() -> Setup {
    let mut setup = Setup::default();
    setup.cloud.rate_limit = None;
    setup
}

/// A network at the cloud, by its ID.
#[derive(Clone, Copy)]
pub(crate) struct Network(u64);

impl Network {
    /// The ID of the first network that is added.
    pub(crate) const FIRST: Network = Network(1);

    /// Adds a network for pods in 10.0.0.0/8.
    pub(crate) fn add(world: &World) -> Network {
        Network::with(world, "10.0.0.0/8", "10.1.0.0/16")
    }

    /// Adds a network for the pod network of the documentation.
    pub(crate) fn documented(world: &World) -> Network {
        Network::with(world, "172.16.0.0/12", "172.16.0.0/16")
    }

    /// The machines' subnet is a part of the network; the rest is for the pods.
    fn with(world: &World, range: &str, machines: &str) -> Network {
        let (range, machines) = (range.parse().unwrap(), machines.parse().unwrap());
        let place = Location::default();
        let cloud = &world.cloud;
        Network(cloud.add_network_with_subnet("cluster", range, machines, place))
    }

    /// The configuration of the shipped guest for this network.
    pub(crate) fn configuration(self, world: &World) -> Value {
        let values = BTreeMap::from([PLACE, ("HCLOUD_NETWORK", "cluster")]);
        world.configuration(json!(values))
    }

    /// Starts `ccm` with the documentation's flags, another pod network, and further flags.
    pub(crate) fn ccm(self, world: &World, cluster_cidr: &str, more: &[&str]) -> Process {
        let is_ours = |flag: &&&str| !flag.starts_with("--cluster-cidr=");
        let cluster_cidr = format!("--cluster-cidr={cluster_cidr}");
        let documented = DOCUMENTED.iter().filter(is_ours).copied();
        let flags = documented.chain(more.iter().copied());
        let flags: Vec<_> = flags.chain([cluster_cidr.as_str()]).collect();
        world.ccm(&self.configuration(world), &flags)
    }

    /// Attaches a server to the network.
    pub(crate) fn attach(self, world: &World, server: u64) {
        world.cloud.attach(server, self.0, None).unwrap();
    }

    /// Adds servers in the network, and returns their IDs.
    pub(crate) fn servers(self, world: &World, names: &[String]) -> Vec<u64> {
        let servers = world.cloud.add_servers(names.iter().map(ServerSpec::named));
        for server in &servers {
            self.attach(world, *server);
        }
        servers
    }

    /// Adds servers in the network and their nodes, and returns the servers' IDs.
    pub(crate) async fn populate(self, world: &World, names: &[String]) -> Vec<u64> {
        let servers = self.servers(world, names);
        stream::iter(names)
            .for_each_concurrent(AT_ONCE, async |name| {
                world.join_tainted(name, json!({}), json!([])).await;
            })
            .await;
        servers
    }

    /// Adds a server and its node, which is initialised and has this pod CIDR.
    pub(crate) async fn initialised(self, world: &World, name: &str, pod_cidr: &str) {
        let server = self.servers(world, &[name.to_owned()]).remove(0);
        let shown = world.cloud.server(server).unwrap();
        let address = shown["private_net"][0]["ip"].clone();
        let node = json!({
            "metadata": {"name": name, "labels": {"wasm-ccm.dev/provider": "hcloud"}},
            "spec": {
                "providerID": format!("hcloud://{server}"), "podCIDR": pod_cidr, "podCIDRs": [pod_cidr],
            },
            "status": {
                "addresses": [
                    {"type": "Hostname", "address": name},
                    {"type": "InternalIP", "address": address},
                ],
                "conditions": [ready("True")],
            },
        });
        let node = serde_json::from_value(node).unwrap();
        let params = PostParams::default();
        world.nodes.create(&params, &node).await.unwrap();
    }

    /// Gives a server another address in the network.
    pub(crate) fn move_server(self, world: &World, server: u64, to: Ipv4Addr) {
        assert!(world.cloud.detach(server, self.0));
        world.cloud.attach(server, self.0, Some(to)).unwrap();
    }

    /// The routes: destination and gateway.
    pub(crate) fn routes(self, world: &World) -> BTreeMap<String, String> {
        let network = world.cloud.network(self.0).unwrap();
        let routes = network["routes"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        routes
            .map(|route| (text(&route["destination"]), text(&route["gateway"])))
            .collect()
    }

    /// Waits until exactly this many nodes report a route to their pods.
    pub(crate) async fn all_routed(
        self,
        world: &World,
        ccm: &mut Process,
        count: usize,
    ) -> BTreeMap<String, Node> {
        let what = format!("{count} nodes with routes");
        world
            .nodes_until(ccm, &what, |nodes| {
                routed(nodes) == count && nodes.len() == count
            })
            .await
    }

    /// Every node has a pod CIDR of its own in this range, and the network has exactly the routes to them.
    pub(crate) fn assert_whole(
        self,
        world: &World,
        nodes: &BTreeMap<String, Node>,
        cluster_cidr: &str,
    ) {
        let cluster_cidr: IpNet = cluster_cidr.parse().unwrap();
        let mut wanted = BTreeMap::new();
        for (name, node) in nodes {
            let cidrs = pod_cidrs(node);
            let [cidr] = cidrs.as_slice() else {
                panic!("{name}: {cidrs:?}");
            };
            let range: IpNet = cidr.parse().unwrap();
            assert!(cluster_cidr.contains(&range), "{name}: {cidr}");
            assert_eq!(range.prefix_len(), 24, "{name}");
            let first = node.spec.as_ref().unwrap().pod_cidr.as_ref();
            assert_eq!(first, Some(cidr), "{name}");
            let other = wanted.insert(cidr.clone(), internal_ip(node));
            assert_eq!(other, None, "{name} is not the only one with {cidr}");
        }
        assert_eq!(self.routes(world), wanted, "routes that nobody wants");
    }
}

impl World {
    /// Creates the node of a kubelet that is Ready and waits for its cloud provider, with further conditions and these
    /// pod CIDRs.
    pub(crate) async fn join_tainted(
        &self,
        name: &str,
        mut spec: Value,
        conditions: Value,
    ) -> Node {
        spec["taints"] = json!([uninitialized(), other_taint()]);
        let mut all = json!([ready("True")]);
        let more = conditions.as_array().unwrap().iter().cloned();
        all.as_array_mut().unwrap().extend(more);
        let node = json!({
            "metadata": {"name": name},
            "spec": spec,
            "status": {
                "addresses": [{"type": "Hostname", "address": name}],
                "conditions": all,
            },
        });
        let node = serde_json::from_value(node).unwrap();
        let params = PostParams::default();
        self.nodes.create(&params, &node).await.unwrap()
    }

    /// A kubelet stops reporting; conditions set by others stay.
    pub(crate) async fn falls_silent(&self, name: &str) {
        let patch = json!({"status": {"conditions": [ready("Unknown")]}});
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        self.nodes
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    /// The writes of pod CIDRs that `ccm` requested.
    pub(crate) fn pod_cidr_writes(&self) -> Vec<AuditEntry> {
        let mut log = self.asked();
        log.retain(|entry| {
            let body = entry.body.as_ref();
            body.is_some_and(|body| !body["spec"]["podCIDRs"].is_null())
        });
        log
    }

    /// The nodes whose condition NetworkUnavailable `ccm` wrote, once for each write. A patch of a version that another
    /// writer has replaced meanwhile writes nothing.
    pub(crate) fn condition_writes(&self) -> Vec<String> {
        let log = self.asked().into_iter().filter(|entry| entry.code != 409);
        let log = log.filter(|entry| {
            let body = entry.body.as_ref();
            let conditions = body.and_then(|body| body["status"]["conditions"].as_array());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|condition| condition["type"] == "NetworkUnavailable")
        });
        log.map(|entry| entry.name).collect()
    }

    /// Everything that `ccm` wrote after the first `asked` requests, apart from its Lease and the Events about it,
    /// which do not depend on nodes.
    pub(crate) fn writes_since(&self, asked: usize) -> Vec<AuditEntry> {
        let mut log = self.asked().split_off(asked);
        log.retain(|entry| {
            let is_read = ["get", "list", "watch"].contains(&entry.verb.as_str());
            let about = |kind: &str| {
                let body = entry.body.as_ref();
                body.is_some_and(|body| body["involvedObject"]["kind"] == kind)
            };
            !is_read && entry.resource != "leases" && !about("Lease")
        });
        log
    }
}

/// No node got pod CIDRs twice, and no two nodes got the same.
pub(crate) fn assert_given_once(writes: &[AuditEntry]) {
    let (mut nodes, mut ranges) = (BTreeSet::new(), BTreeSet::new());
    for write in writes.iter().filter(|write| write.code == 200) {
        assert!(nodes.insert(&write.name), "{} was given two", write.name);
        let given = write.body.as_ref().unwrap()["spec"]["podCIDRs"].to_string();
        assert!(ranges.insert(given), "{write:?}: another one has it");
    }
}

/// The first `count` names with this prefix.
pub(crate) fn names(kind: &str, count: usize) -> Vec<String> {
    (1..=count)
        .map(|number| format!("{kind}-{number}"))
        .collect()
}

/// The pod CIDRs of a node.
pub(crate) fn pod_cidrs(node: &Node) -> Vec<String> {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.pod_cidrs.clone())
        .unwrap_or_default()
}

/// Status and reason of a node's condition NetworkUnavailable.
pub(crate) fn unavailable(node: &Node) -> Option<(String, String)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let mut all = conditions.iter();
    let condition = all.find(|condition| condition.type_ == "NetworkUnavailable")?;
    let reason = condition.reason.clone().unwrap_or_default();
    Some((condition.status.clone(), reason))
}

/// The same for a node to which a route exists.
pub(crate) fn has_route() -> Option<(String, String)> {
    Some(("False".to_owned(), "RouteCreated".to_owned()))
}

/// How many nodes report that there is a route to their pods.
pub(crate) fn routed(nodes: &BTreeMap<String, Node>) -> usize {
    let reported = nodes.values().map(unavailable);
    reported.filter(|reported| *reported == has_route()).count()
}

/// The node's only InternalIP.
pub(crate) fn internal_ip(node: &Node) -> String {
    let status = node.status.as_ref().unwrap();
    let mut all = status.addresses.iter().flatten();
    let address = all.find(|address| address.type_ == "InternalIP");
    address.unwrap().address.clone()
}

fn ready(status: &str) -> Value {
    json!({"type": "Ready", "status": status, "reason": "Told", "message": "by the test"})
}
