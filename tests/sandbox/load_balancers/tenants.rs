//! The users of the cluster and the cloud: tenants who write Services, an operator who adds and removes nodes, and a
//! person who changes the cloud by hand. A seed determines their actions.

use std::collections::{BTreeMap, BTreeSet};

use ccm_sim::hetzner::LoadBalancerSpec;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::load_balancers::inventory::{EXCLUDE, LEAVING, OWNER, PREFIX};
use crate::load_balancers::world::{World, load_balancer, tcp};
use ccm_tests::random::Random;

const SERVICES: u64 = 30;
const NODES: usize = 12;
/// Ports that Services use; the smallest type has five.
const PORTS: [u16; 6] = [80, 443, 8080, 8443, 9000, 9100];
/// The class of another controller.
const OTHER_CLASS: &str = "example.com/other";
/// An algorithm that does not exist: the whole annotation is refused.
pub(crate) const MISTAKE: &str = "nonsense";
/// The name of a load balancer that is older than the cluster.
const FOREIGN: &str = "the-old-shop";

pub(crate) struct Tenants<'a> {
    world: &'a World,
    pub(crate) random: Random,
    /// The load balancers from before the cluster, which must stay as they are.
    foreign: Vec<Value>,
    /// The server of each node, by the node's name.
    servers: BTreeMap<String, u64>,
    made: u64,
}

impl<'a> Tenants<'a> {
    /// A few nodes, and load balancers of other owners.
    pub(crate) async fn new(world: &'a World, seed: u64) -> Tenants<'a> {
        let other_cluster = "11111111-2222-4333-8444-555555555555";
        for (name, labels) in [
            (FOREIGN, BTreeMap::new()),
            (
                "of-another-cluster",
                BTreeMap::from([(OWNER.to_owned(), other_cluster.to_owned())]),
            ),
        ] {
            world.cloud.add_load_balancer(LoadBalancerSpec {
                labels,
                ..LoadBalancerSpec::named(name)
            });
        }
        let mut tenants = Tenants {
            world,
            random: Random::new(seed),
            foreign: world.cloud.load_balancers(),
            servers: BTreeMap::new(),
            made: 0,
        };
        for _ in 0..4 {
            tenants.join().await;
        }
        tenants
    }

    /// The IDs of the load balancers of other owners.
    pub(crate) fn foreign(&self) -> BTreeSet<u64> {
        let ids = self.foreign.iter().filter_map(|one| one["id"].as_u64());
        ids.collect()
    }

    /// The changes that have happened to these.
    pub(crate) fn harm(&self) -> Vec<String> {
        let is_harmed = |before: &&Value| {
            let id = before["id"].as_u64().unwrap();
            self.world.cloud.load_balancer(id).as_ref() != Some(before)
        };
        let harmed = self.foreign.iter().filter(is_harmed);
        harmed
            .map(|one| format!("{} was harmed", one["name"]))
            .collect()
    }

    /// Makes one change that takes effect, and describes it.
    pub(crate) async fn act(&mut self) -> String {
        loop {
            let done = match self.random.within(0, 99) {
                0..70 => self.service().await,
                70..90 => self.node().await,
                90..95 => self.cloud(),
                _ => self.api_server(),
            };
            if let Some(done) = done {
                return done;
            }
        }
    }

    /// At the end the nodes without servers are deleted, too. One node stays that can prove the account.
    pub(crate) async fn tidy(&mut self) {
        self.join().await;
        for (name, server) in std::mem::take(&mut self.servers) {
            if self.world.cloud.server(server).is_none() {
                // It may be deleted already.
                let _ = self
                    .world
                    .nodes
                    .delete(&name, &DeleteParams::default())
                    .await;
            }
        }
    }

    async fn service(&mut self) -> Option<String> {
        let name = format!("s{:02}", self.random.within(1, SERVICES));
        let service = self.world.service(&name).await;
        if service.is_null() {
            let new = self.new_service(&name);
            return self
                .world
                .try_create(&new)
                .await
                .ok()
                .map(|_| format!("create {name} {}", new["spec"]));
        }
        let spec = &service["spec"];
        let patch = match self.random.within(0, 99) {
            0..30 => json!({"spec": {"ports": self.ports(&spec["ports"])}}),
            30..60 => json!({"metadata": {"annotations": self.annotation(&name)}}),
            60..70 => {
                let types = ["LoadBalancer", "ClusterIP", "NodePort"];
                json!({"spec": of_type(spec, self.random.one_of(&types)?)})
            }
            70..80 => {
                let policies = ["Cluster", "Local"];
                let policy = self.random.one_of(&policies)?;
                json!({"spec": {"externalTrafficPolicy": policy}})
            }
            _ => {
                let params = DeleteParams::default();
                self.world.services.delete(&name, &params).await.ok()?;
                return Some(format!("delete {name}"));
            }
        };
        self.world.try_change(&name, patch.clone()).await.ok()?;
        Some(format!("change {name} {patch}"))
    }

    fn new_service(&mut self, name: &str) -> Value {
        let mut annotations = json!({});
        if self.random.per_cent(3) {
            annotations[format!("{PREFIX}/name")] = json!(FOREIGN);
        }
        if self.random.per_cent(30) {
            annotations = self.annotation(name);
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.retain(|_, value| value.is_string());
            }
        }
        let mut service = load_balancer(name, &[], annotations);
        service["spec"]["ports"] = self.ports(&Value::Null);
        match self.random.within(0, 9) {
            0 => service["spec"]["type"] = json!("ClusterIP"),
            1 => service["spec"]["loadBalancerClass"] = json!(OTHER_CLASS),
            _ => {}
        }
        service
    }

    /// Some ports: some of the previous ones, with the same or other node ports, and some new ones.
    fn ports(&mut self, before: &Value) -> Value {
        let before = before.as_array().cloned().unwrap_or_default();
        let mut after = Vec::new();
        for port in PORTS {
            let old = before.iter().find(|one| one["port"] == port);
            match (old, self.random.within(0, 5)) {
                (Some(old), 0..4) => after.push(old.clone()),
                (Some(_), 4) | (None, 0) => after.push(tcp(port)),
                _ => {}
            }
        }
        after.truncate(5);
        if after.is_empty() {
            after.push(tcp(PORTS[0]));
        }
        json!(after)
    }

    fn annotation(&mut self, name: &str) -> Value {
        self.made += 1;
        let key = |name: &str| format!("{PREFIX}/{name}");
        match self.random.within(0, 8) {
            8 => json!({key("algorithm-type"): MISTAKE}),
            0 => json!({key("algorithm-type"): "least_connections"}),
            1 => json!({key("algorithm-type"): "round_robin"}),
            2 => {
                let size = if self.random.per_cent(50) {
                    "lb11"
                } else {
                    "lb21"
                };
                json!({key("type"): size})
            }
            3 => json!({key("name"): format!("{name}-{}", self.made)}),
            4 => json!({key("node-selector"): "pool=a"}),
            5 => json!({key("node-selector"): null, key("hostname"): null}),
            6 => json!({key("ipv6-disabled"): "true", key("hostname"): "shop.example.com"}),
            _ => json!({"example.com/note": self.made.to_string()}),
        }
    }

    async fn node(&mut self) -> Option<String> {
        let nodes = self.world.nodes.list(&ListParams::default()).await.unwrap();
        let nodes: Vec<Value> = nodes.into_iter().map(|node| json!(node)).collect();
        if nodes.len() < NODES && self.random.per_cent(30) {
            return Some(format!("add {}", self.join().await));
        }
        let node = self.random.one_of(&nodes)?.clone();
        let name = node["metadata"]["name"].as_str()?.to_owned();
        let server = *self.servers.get(&name)?;
        let labels = &node["metadata"]["labels"];
        let patch = match self.random.within(0, 9) {
            0 => {
                self.world.leave(&name, server).await;
                return Some(format!("remove {name}"));
            }
            1 => {
                let params = DeleteParams::default();
                self.world.nodes.delete(&name, &params).await.ok()?;
                return Some(format!("remove the node {name}"));
            }
            2 => {
                self.world.cloud.remove_server(server);
                return Some(format!("remove the server of {name}"));
            }
            3..6 => {
                let value = labels[EXCLUDE].is_null().then_some("true");
                json!({"metadata": {"labels": {EXCLUDE: value}}})
            }
            6..8 => {
                let pool = ["a", "b"][usize::from(self.random.per_cent(50))];
                json!({"metadata": {"labels": {"pool": pool}}})
            }
            _ => {
                let taint = json!([{"key": LEAVING, "effect": "NoSchedule"}]);
                let is_leaving = node["spec"]["taints"].to_string().contains(LEAVING);
                json!({"spec": {"taints": if is_leaving { Value::Null } else { taint }}})
            }
        };
        let params = PatchParams::default();
        let merge = Patch::Merge(&patch);
        let done = self.world.nodes.patch(&name, &params, &merge).await;
        done.ok()?;
        Some(format!("change {name} {patch}"))
    }

    async fn join(&mut self) -> String {
        self.made += 1;
        let name = format!("n{}", self.made);
        let server = self.world.join(&name).await;
        self.servers.insert(name.clone(), server);
        name
    }

    /// A person deletes a load balancer in the cloud's console.
    fn cloud(&mut self) -> Option<String> {
        let foreign = self.foreign();
        let mut ids = self.world.cloud.load_balancer_ids();
        ids.retain(|id| !foreign.contains(id));
        let id = *self.random.one_of(&ids)?;
        self.world.cloud.remove_load_balancer(id);
        Some(format!("remove load balancer {id}"))
    }

    /// The API server is restarted, or has forgotten its history.
    fn api_server(&mut self) -> Option<String> {
        match self.random.per_cent(50) {
            true => self.world.cluster.end_watches(),
            false => self.world.cluster.expire_watches(),
        }
        Some("the watches end".to_owned())
    }
}

/// The part of a spec that follows from a type: node ports and classes only where they are allowed.
fn of_type(spec: &Value, wanted: &str) -> Value {
    let mut patch = json!({"type": wanted});
    if wanted != "LoadBalancer" {
        patch["loadBalancerClass"] = Value::Null;
        patch["allocateLoadBalancerNodePorts"] = Value::Null;
    }
    if wanted == "ClusterIP" {
        let mut ports = spec["ports"].clone();
        for port in ports.as_array_mut().into_iter().flatten() {
            port["nodePort"] = Value::Null;
            port.as_object_mut().unwrap().remove("nodePort");
        }
        patch["ports"] = ports;
        patch["externalTrafficPolicy"] = Value::Null;
        patch["healthCheckNodePort"] = Value::Null;
    }
    patch
}
