//! Nodes that joined the cluster a while ago, each on a server of its own, and their later life. Asserts nothing.

use ccm_fixtures::kubernetes::node;
use ccm_sim::hetzner::ServerSpec;
use ccm_tests::apiserver::AuditEntry;
use ccm_tests::controllers::create;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::World;

/// How many nodes a test registers at once.
const AT_ONCE: usize = 16;

/// The key of the taint for machines that are switched off.
pub(crate) const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// A node and the id of its server.
pub(crate) struct Machine {
    pub(crate) node: String,
    pub(crate) server: u64,
}

impl World {
    /// Adds servers with nodes that are initialised and ready.
    pub(crate) async fn machines(&self, count: usize) -> Vec<Machine> {
        let names: Vec<_> = (1..=count)
            .map(|number| format!("worker-{number}"))
            .collect();
        let servers = self.cloud.add_servers(names.iter().map(ServerSpec::named));
        let machines: Vec<_> = names
            .into_iter()
            .zip(servers)
            .map(|(node, server)| Machine { node, server })
            .collect();
        stream::iter(&machines)
            .for_each_concurrent(AT_ONCE, async |machine| {
                self.join(&machine.node, machine.server, "True").await;
            })
            .await;
        machines
    }

    /// Creates the node of a server that was initialised before.
    pub(crate) async fn join(&self, name: &str, server: u64, ready: &str) -> Node {
        let node = node(name)
            .label("wasm-ccm.dev/provider", "hcloud")
            .provider_id(&format!("hcloud://{server}"))
            .address("Hostname", name)
            .with(|node| node["status"]["conditions"] = condition(ready));
        create(&self.nodes, node).await
    }

    /// Reports a node's readiness: `True`, `False` or `Unknown`.
    pub(crate) async fn report(&self, name: &str, ready: &str) {
        let status = json!({"status": {"conditions": condition(ready)}});
        let params = PatchParams::default();
        let patch = Patch::Merge(status);
        self.nodes
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    /// Deletes a machine's server; its kubelet stops reporting.
    pub(crate) async fn lose(&self, machine: &Machine) {
        self.cloud.remove_server(machine.server);
        self.report(&machine.node, "Unknown").await;
    }

    /// The deletions of nodes that `ccm` asked for.
    pub(crate) fn deletions(&self) -> Vec<AuditEntry> {
        let mut log = self.asked();
        log.retain(|entry| entry.resource == "nodes" && entry.verb == "delete");
        log
    }

    /// How often an Event with this reason about a node was counted.
    pub(crate) async fn event_count(&self, name: &str, reason: &str) -> i32 {
        let events = self.events_about(name).await;
        let reported = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        reported.map(|event| event.count.unwrap_or(1)).sum()
    }
}

/// Whether the node is marked as switched off.
pub(crate) fn is_shut_down(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint.key == SHUTDOWN && taint.effect == "NoSchedule")
}

fn condition(ready: &str) -> Value {
    json!([{"type": "Ready", "status": ready, "reason": "Told", "message": "by the test"}])
}
