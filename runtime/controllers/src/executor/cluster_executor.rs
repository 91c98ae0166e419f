//! Executor of a controller without a provider: reads nodes and writes their pod CIDRs; never calls a cloud.

use std::sync::Arc;

use ccm_core::ipam::{IpamEffect, IpamOutcome};
use ccm_core::reconciliation::effect::Performed;
use ccm_core::well_known::IPAM_CONTROLLER;

use super::node_requests::{patch_node, read_node};
use super::request::stopping;
use super::{Executor, Perform, Priority, WritePermit};
use crate::clock::{Clock, boottime};
use crate::cluster::Cluster;

/// Shown in logs in place of a provider's name.
const NO_PROVIDER: &str = "-";

/// Executes effects without a provider. Callers limit the number of concurrent reconciliations, and with it the number
/// of writes.
pub(crate) struct ClusterExecutor {
    pub(crate) cluster: Arc<Cluster>,
}

impl ClusterExecutor {
    /// Creates an executor for `cluster`.
    pub(crate) fn new(cluster: Arc<Cluster>) -> ClusterExecutor {
        ClusterExecutor { cluster }
    }

    /// The clock for decisions.
    pub(crate) fn clock(&self) -> Clock {
        self.cluster.clock
    }
}

impl Executor for ClusterExecutor {
    fn name(&self) -> &str {
        NO_PROVIDER
    }

    fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

impl Perform<IpamEffect> for ClusterExecutor {
    async fn carry_out<'a>(
        &'a self,
        effect: &IpamEffect,
        _: Priority,
        _: &mut WritePermit<'a>,
    ) -> Performed<IpamOutcome> {
        let cluster = &*self.cluster;
        let (client, tenure) = (cluster.clients.of(IPAM_CONTROLLER), &*cluster.tenure);
        Performed::Ended(match effect {
            IpamEffect::Read(node) => {
                IpamOutcome::Node(Box::pin(read_node(client, tenure, node)).await)
            }
            IpamEffect::Patch(..) if !tenure.may_begin(boottime()) => {
                IpamOutcome::Node(Err(stopping()))
            }
            IpamEffect::Patch(node, patch) => {
                let request = patch_node(client, tenure, node, patch.to_json());
                IpamOutcome::Node(Box::pin(request).await)
            }
            IpamEffect::RecordEvent(node, event) => {
                let recorded = cluster.record_node_event(IPAM_CONTROLLER, node, event);
                IpamOutcome::Event(Box::pin(recorded).await)
            }
        })
    }
}
