//! Second part of the demo: one machine is switched off and on again, another is deleted, and their nodes follow.

use std::time::Instant;

use anyhow::{bail, ensure};
use ccm_core::well_known;
use ccm_sim::hetzner::{Hetzner, ServerStatus};
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use kube::Api;
use kube::api::{Patch, PatchParams};

use super::narrate::Narrator;
use super::{PACE, STEP_TIMEOUT, is_tainted, wait};

/// The demo's cluster, cloud and machines.
pub(super) struct World<'a> {
    pub(super) nodes: &'a Api<Node>,
    pub(super) cloud: &'a Hetzner,
    pub(super) narrator: &'a Narrator,
    /// Node names, each with the ID of its server.
    pub(super) machines: &'a [(&'static str, u64)],
}

/// Switches a machine off and on again, and deletes another.
///
/// # Errors
/// A step did not happen.
pub(super) async fn show(world: &World<'_>) -> anyhow::Result<()> {
    let [_, (stopped, its_server), (deleted, server)] = world.machines else {
        bail!("the demo needs three machines");
    };
    world.cloud.set_status(*its_server, ServerStatus::Off);
    world.print("cloud", stopped, "its server is switched off");
    world
        .report(stopped, "Unknown", "its kubelet is silent: NotReady")
        .await?;
    world
        .until(stopped, "+taint(shutdown)", |node| {
            node.is_some_and(is_shut_down)
        })
        .await?;
    world.cloud.set_status(*its_server, ServerStatus::Running);
    world.print("cloud", stopped, "its server is switched on");
    world
        .report(stopped, "True", "its kubelet is back: Ready")
        .await?;
    world
        .until(stopped, "-taint(shutdown)", |node| {
            node.is_some_and(|node| !is_shut_down(node))
        })
        .await?;

    let since = Instant::now();
    world.cloud.remove_server(*server);
    world.print("cloud", deleted, "its server is deleted");
    world
        .report(deleted, "Unknown", "its kubelet is silent: NotReady")
        .await?;
    world
        .until(deleted, "delete node/", |node| node.is_none())
        .await?;
    let took = since.elapsed() * PACE;
    world.print(
        "cluster",
        deleted,
        &format!(
            "is gone, {} s after NotReady by the simulated clock: not before it was five minutes old",
            took.as_secs()
        ),
    );
    // The remaining nodes were looked up, too, and have machines.
    let left = world.nodes.list(&Default::default()).await?.items.len();
    ensure!(left == world.machines.len(), "{left} nodes are left");
    Ok(())
}

impl World<'_> {
    fn print(&self, who: &str, about: &str, what: &str) {
        self.narrator.print(who, about, what);
    }

    /// Reports a node's status, as its kubelet or the cluster would.
    async fn report(&self, name: &str, ready: &str, what: &str) -> anyhow::Result<()> {
        let patch = serde_json::json!({ "status": readiness(ready) });
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        self.nodes.patch_status(name, &params, &patch).await?;
        self.print("cluster", name, what);
        Ok(())
    }

    /// Waits until the decision was reported and is visible in the cluster.
    async fn until(
        &self,
        name: &str,
        decision: &str,
        is_so: impl Fn(Option<&Node>) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        while !self.narrator.has_printed(name, decision)
            || !is_so(self.nodes.get_opt(name).await?.as_ref())
        {
            wait(deadline, || format!("{name} still waits for {decision}")).await?;
        }
        Ok(())
    }
}

/// A node's status with only the condition `Ready`.
pub(super) fn readiness(ready: &str) -> NodeStatus {
    NodeStatus {
        conditions: Some(vec![NodeCondition {
            type_: "Ready".to_owned(),
            status: ready.to_owned(),
            ..NodeCondition::default()
        }]),
        ..NodeStatus::default()
    }
}

fn is_shut_down(node: &Node) -> bool {
    is_tainted(node, well_known::SHUTDOWN_TAINT)
}
