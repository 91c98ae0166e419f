//! Clusters whose machines share a network of the cloud, in which routes lead to the pods of each: what a person sets up,
//! what stands there, and whether all of it fits together. What `ccm` does about it is for the tests to say.

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

/// The pods' addresses with those flags.
pub(crate) const DOCUMENTED_CIDR: &str = "172.17.0.0/16";

/// How many nodes are registered at once.
const AT_ONCE: usize = 16;

/// A world in which many nodes cost nobody's budget of an hour.
pub(crate) fn setup() -> Setup {
    let mut setup = Setup::default();
    setup.cloud.rate_limit = None;
    setup
}

/// A network at the cloud.
#[derive(Clone, Copy)]
pub(crate) struct Network(u64);

impl Network {
    /// The first one that was added.
    pub(crate) const FIRST: Network = Network(1);

    /// Adds one for pods in 10.0.0.0/8.
    pub(crate) fn add(world: &World) -> Network {
        Network::with(world, "10.0.0.0/8", "10.1.0.0/16")
    }

    /// Adds one for the pods of the documentation.
    pub(crate) fn documented(world: &World) -> Network {
        Network::with(world, "172.16.0.0/12", "172.16.0.0/16")
    }

    /// The machines are in a part of it, and outside of that there is room for the pods.
    fn with(world: &World, range: &str, machines: &str) -> Network {
        let (range, machines) = (range.parse().unwrap(), machines.parse().unwrap());
        let place = Location::default();
        let cloud = &world.cloud;
        Network(cloud.add_network_with_subnet("cluster", range, machines, place))
    }

    /// What the shipped guest is told of it.
    pub(crate) fn configuration(self, world: &World) -> Value {
        let values = BTreeMap::from([PLACE, ("HCLOUD_NETWORK", "cluster")]);
        world.configuration(json!(values))
    }

    /// Starts `ccm` with the flags of the documentation, but for the pods' addresses, and further ones.
    pub(crate) fn ccm(self, world: &World, cluster_cidr: &str, more: &[&str]) -> Process {
        let is_ours = |flag: &&&str| !flag.starts_with("--cluster-cidr=");
        let cluster_cidr = format!("--cluster-cidr={cluster_cidr}");
        let documented = DOCUMENTED.iter().filter(is_ours).copied();
        let flags = documented.chain(more.iter().copied());
        let flags: Vec<_> = flags.chain([cluster_cidr.as_str()]).collect();
        world.ccm(&self.configuration(world), &flags)
    }

    /// Attaches a server to it.
    pub(crate) fn attach(self, world: &World, server: u64) {
        world.cloud.attach(server, self.0, None).unwrap();
    }

    /// Adds servers in it, and returns their ids.
    pub(crate) fn servers(self, world: &World, names: &[String]) -> Vec<u64> {
        let servers = world.cloud.add_servers(names.iter().map(ServerSpec::named));
        for server in &servers {
            self.attach(world, *server);
        }
        servers
    }

    /// Adds servers in it and their nodes, and returns the servers' ids.
    pub(crate) async fn populate(self, world: &World, names: &[String]) -> Vec<u64> {
        let servers = self.servers(world, names);
        stream::iter(names)
            .for_each_concurrent(AT_ONCE, async |name| {
                world.join_tainted(name, json!({}), json!([])).await;
            })
            .await;
        servers
    }

    /// Adds a server and its node, which has been initialised and given a range for its pods.
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

    /// Gives a server another address in it.
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

    /// Waits until so many nodes, and no others, say that there is a route to their pods.
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

    /// Every node has a range of its own for its pods, in this one, and the network has the routes there and no others.
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
    /// Creates the node of a kubelet that is ready and waits for its cloud provider, with further conditions and with
    /// these ranges for its pods.
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

    /// A kubelet falls silent; what others say of the node stays.
    pub(crate) async fn falls_silent(&self, name: &str) {
        let patch = json!({"status": {"conditions": [ready("Unknown")]}});
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        self.nodes
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    /// The writes of pods' ranges that `ccm` asked for.
    pub(crate) fn pod_cidr_writes(&self) -> Vec<AuditEntry> {
        let mut log = self.asked();
        log.retain(|entry| {
            let body = entry.body.as_ref();
            body.is_some_and(|body| !body["spec"]["podCIDRs"].is_null())
        });
        log
    }

    /// The names of the nodes of which `ccm` wrote whether there is a route to them, once for each time.
    pub(crate) fn condition_writes(&self) -> Vec<String> {
        let log = self.asked().into_iter().filter(|entry| {
            let body = entry.body.as_ref();
            let conditions = body.and_then(|body| body["status"]["conditions"].as_array());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|condition| condition["type"] == "NetworkUnavailable")
        });
        log.map(|entry| entry.name).collect()
    }

    /// Everything that `ccm` wrote since so many requests, but for its Lease and the Events about that, which go on
    /// whatever the nodes do.
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

/// No node was given a range twice, and no range was given to two.
pub(crate) fn assert_given_once(writes: &[AuditEntry]) {
    let (mut nodes, mut ranges) = (BTreeSet::new(), BTreeSet::new());
    for write in writes.iter().filter(|write| write.code == 200) {
        assert!(nodes.insert(&write.name), "{} was given two", write.name);
        let given = write.body.as_ref().unwrap()["spec"]["podCIDRs"].to_string();
        assert!(ranges.insert(given), "{write:?}: another one has it");
    }
}

/// The first so many names of this kind.
pub(crate) fn names(kind: &str, count: usize) -> Vec<String> {
    (1..=count)
        .map(|number| format!("{kind}-{number}"))
        .collect()
}

/// The ranges of a node's pods.
pub(crate) fn pod_cidrs(node: &Node) -> Vec<String> {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.pod_cidrs.clone())
        .unwrap_or_default()
}

/// What a node says of its network: status and reason.
pub(crate) fn unavailable(node: &Node) -> Option<(String, String)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let mut all = conditions.iter();
    let condition = all.find(|condition| condition.type_ == "NetworkUnavailable")?;
    let reason = condition.reason.clone().unwrap_or_default();
    Some((condition.status.clone(), reason))
}

/// What a node says of which everybody knows the way.
pub(crate) fn has_route() -> Option<(String, String)> {
    Some(("False".to_owned(), "RouteCreated".to_owned()))
}

/// How many nodes say that there is a route to their pods.
pub(crate) fn routed(nodes: &BTreeMap<String, Node>) -> usize {
    let said = nodes.values().map(unavailable);
    said.filter(|said| *said == has_route()).count()
}

/// The one address of a node inside the cloud's network.
pub(crate) fn internal_ip(node: &Node) -> String {
    let status = node.status.as_ref().unwrap();
    let mut all = status.addresses.iter().flatten();
    let address = all.find(|address| address.type_ == "InternalIP");
    address.unwrap().address.clone()
}

fn ready(status: &str) -> Value {
    json!({"type": "Ready", "status": status, "reason": "Told", "message": "by the test"})
}
