//! Executor of a controller without a provider: reads nodes and writes their pod CIDRs; never calls a cloud.

use std::sync::Arc;

use ccm_core::effect::{ClusterError, Effect, Outcome};
use ccm_core::well_known::IPAM_CONTROLLER;
use kube::Api;

use super::request::stopping;
use super::{Priority, WritePermit, node, withholds};
use crate::activity::Activity;
use crate::clock::{Clock, boottime};
use crate::cluster::Cluster;
use crate::plan::Planner;
use crate::pruned_objects::PrunedNode;
use crate::reconcile::Performer;

/// Stands in logs in place of a provider's name.
const NOBODY: &str = "-";

/// Executes effects without a provider. Callers limit the number of concurrent reconciliations, and with it the number
/// of writes.
pub(crate) struct ClusterExecutor {
    pub(crate) cluster: Arc<Cluster>,
    pub(super) nodes: Api<PrunedNode>,
}

impl ClusterExecutor {
    /// Creates an executor for `cluster`.
    pub(crate) fn new(cluster: Arc<Cluster>) -> ClusterExecutor {
        ClusterExecutor {
            nodes: Api::all(cluster.clients.of(IPAM_CONTROLLER).clone()),
            cluster,
        }
    }

    /// The clock for decisions.
    pub(crate) fn clock(&self) -> Clock {
        self.cluster.clock
    }

    async fn carry_out(&self, effect: &Effect, controller: &'static str) -> Outcome {
        if withholds(self.cluster.mode, effect) {
            self.planner().withheld(effect, controller);
            return Outcome::Withheld;
        }
        match effect {
            Effect::ReadNode(node) => Box::pin(node::read(&self.cluster, &self.nodes, node)).await,
            Effect::PatchPodCidrs(node, patch) => {
                if !self.cluster.tenure.may_begin(boottime()) {
                    return Outcome::Node(Err(stopping()));
                }
                Box::pin(node::patch_pod_cidrs(
                    &self.cluster,
                    &self.nodes,
                    node,
                    patch,
                ))
                .await
            }
            Effect::RecordNodeEvent(node, event) => {
                Box::pin(self.cluster.record_node_event(controller, node, event)).await
            }
            other => {
                tracing::error!(controller, effect = %other, "this act needs a provider; this is a defect");
                let why = "there is no provider to do this".to_owned();
                Outcome::Node(Err(ClusterError::Denied(why)))
            }
        }
    }
}

impl Performer for ClusterExecutor {
    fn name(&self) -> &str {
        NOBODY
    }

    fn activity(&self) -> &Activity {
        &self.cluster.activity
    }

    fn planner(&self) -> &Planner {
        &self.cluster.planner
    }

    async fn perform<'a>(
        &'a self,
        effect: &Effect,
        controller: &'static str,
        _: Priority,
        _: &mut WritePermit<'a>,
    ) -> Outcome {
        self.carry_out(effect, controller).await
    }
}
