//! The work of the processes: new nodes, steadily, each with a server at the cloud; and the check that each was
//! initialised once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_fixtures::kubernetes::node;
use ccm_sim::hetzner::{Hetzner, ServerSpec};
use ccm_tests::controllers::create;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::recorder::NodeWrites;
use crate::world::{TIMEOUT, World};

/// Interval between two new nodes.
const PACE: Duration = Duration::from_millis(400);

/// A node that was made, and the number of its server.
type Made = (String, u64);

/// The nodes of one cluster.
pub(crate) struct Work {
    nodes: Api<Node>,
    cloud: Hetzner,
    made: Arc<Mutex<Vec<Made>>>,
    count: Arc<AtomicU64>,
    task: Option<JoinHandle<()>>,
}

impl Work {
    pub(crate) fn new(client: &Client, cloud: &Hetzner) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            cloud: cloud.clone(),
            made: Arc::default(),
            count: Arc::default(),
            task: None,
        }
    }

    /// Begins to create nodes.
    pub(crate) fn start(&mut self) {
        let (nodes, cloud) = (self.nodes.clone(), self.cloud.clone());
        let (made, count) = (Arc::clone(&self.made), Arc::clone(&self.count));
        self.task = Some(tokio::spawn(async move {
            loop {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let made_now = make(&nodes, &cloud, format!("node-{number}")).await;
                made.lock().unwrap().push(made_now);
                sleep(PACE).await;
            }
        }));
    }

    /// Stops creating nodes.
    pub(crate) fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Makes one node and its server.
    pub(crate) async fn make_one(&self) -> String {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let made = make(&self.nodes, &self.cloud, format!("node-{number}")).await;
        let name = made.0.clone();
        self.made.lock().unwrap().push(made);
        name
    }

    /// How many nodes wait for their cloud provider.
    pub(crate) async fn waiting(&self) -> usize {
        let nodes = self.nodes.list(&ListParams::default()).await.unwrap();
        nodes.iter().filter(|node| is_tainted(node)).count()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn make(nodes: &Api<Node>, cloud: &Hetzner, name: String) -> Made {
    let server = cloud.add_server(ServerSpec::named(&name));
    let node = node(&name).uninitialized().address("Hostname", &name);
    create(nodes, node).await;
    (name, server)
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut keys = taints.into_iter().flatten().map(|taint| taint.key.as_str());
    keys.any(|key| key == "node.cloudprovider.kubernetes.io/uninitialized")
}

/// Counts of the nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) nodes: usize,
    /// Nodes without an Event that they are initialised: it was lost with the process that should have written it.
    pub(crate) unsaid: usize,
}

impl World {
    /// Waits until every node that was made before is initialised, asserts that this happened once, and removes them.
    pub(crate) async fn converge(&mut self) -> Done {
        let made: Vec<Made> = self.work.made.lock().unwrap().drain(..).collect();
        let names: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let nodes = self.work.nodes.list(&ListParams::default()).await.unwrap();
            let waiting: Vec<_> = nodes
                .iter()
                .filter(|node| is_tainted(node))
                .map(ResourceExt::name_any)
                .filter(|name| names.contains(&name.as_str()))
                .collect();
            if waiting.is_empty() {
                break;
            }
            self.all_run();
            self.recorder.refresh(&self.api, &self.cloud);
            assert!(
                Instant::now() < deadline,
                "{waiting:?} wait:\n{}",
                self.report()
            );
            sleep(Duration::from_millis(50)).await;
        }
        let mut done = Done::default();
        for (name, server) in &made {
            // The record of a write may come a moment after its effect.
            let what = format!("the write of {name} in the audit log");
            let NodeWrites { synced, .. } = self
                .until(&what, |world| {
                    let writes = world.recorder.node_writes(name);
                    (writes.initialised + writes.unanswered > 0).then_some(writes)
                })
                .await;
            done.nodes += 1;
            done.unsaid += usize::from(synced == 0);
            let params = DeleteParams::default();
            self.work.nodes.delete(name, &params).await.unwrap();
            self.cloud.remove_server(*server);
        }
        for (name, _) in &made {
            let writes = self.recorder.node_writes(name);
            let is_once = match writes.unanswered {
                0 => writes.initialised == 1,
                _ => writes.initialised <= 1,
            };
            let is_once = is_once && writes.synced <= 1;
            assert!(is_once, "{name}: {writes:?}\n{}", self.report());
        }
        done
    }
}
