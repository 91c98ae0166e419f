//! Watches for another allocator of pod CIDRs: sends the questions of [`OtherAllocator`], and reports its findings in
//! the log, in Events and in a metric. Allocates nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use ccm_core::ipam::other_allocator::{AllocationState, AllocatorChange, OtherAllocator};
use ccm_core::ipam::{Memory, pod_cidrs};
use ccm_core::moment::Moment;
use ccm_core::node::object::PrunedNode;
use ccm_core::settings::OtherAllocatorRules;
use ccm_core::well_known::IPAM_CONTROLLER;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::task::JoinSet;

use crate::executor::{Answer, ClusterExecutor};

/// Sends the questions of [`OtherAllocator`] and reports its findings.
pub(super) struct AllocatorWatch {
    executor: Arc<ClusterExecutor>,
    other: OtherAllocator,
    /// When the question was sent, and its answer.
    asking: Option<BoxFuture<'static, (Moment, Answer)>>,
    events: JoinSet<()>,
}

impl AllocatorWatch {
    pub(super) fn new(
        executor: Arc<ClusterExecutor>,
        rules: OtherAllocatorRules,
    ) -> AllocatorWatch {
        let now = executor.clock().now();
        executor.cluster.metrics.ipam.set_standing_back(false);
        AllocatorWatch {
            executor,
            other: OtherAllocator::new(rules, now),
            asking: None,
            events: JoinSet::new(),
        }
    }

    /// Starts with the complete list of nodes.
    pub(super) fn begin(&mut self, nodes: &[Arc<PrunedNode>]) {
        let with = nodes.iter().filter(|node| !pod_cidrs(node).is_empty());
        let youngest = with.max_by_key(|node| node.created());
        self.other
            .begin(youngest.map(|node| node.name().to_owned()));
    }

    /// Updates whether the node waits for pod CIDRs.
    pub(super) fn see(&mut self, node: &PrunedNode) {
        if lacks_pod_cidrs(node) {
            self.other
                .waits(node.name(), node.uid(), self.executor.clock().now());
        } else {
            self.other.leaves(node.name());
        }
    }

    /// Removes a node that was deleted.
    pub(super) fn leave(&mut self, name: &str) {
        self.other.leaves(name);
    }

    /// Whether this node has to wait, because it lacks pod CIDRs and none may be allocated now. If so, it is among the
    /// nodes that [`AllocatorWatch::released`] returns later. Where no block is left there is nothing to wait for, unless
    /// the other allocator gives nodes theirs.
    pub(super) fn holds(&mut self, node: &PrunedNode, memory: &Memory) -> bool {
        if !lacks_pod_cidrs(node) || self.other.may_allocate(self.executor.clock().now()) {
            return false;
        }
        if !self.is_standing_back() && !memory.has_blocks_for(node) {
            return false;
        }
        self.other.hold(node.name());
        true
    }

    /// Takes the nodes whose pod CIDRs another allocator set, sends the question that is due, and reports the new
    /// findings. Returns the nodes that waited and need not wait any longer.
    pub(super) fn released(&mut self, memory: &mut Memory) -> BTreeSet<String> {
        let now = self.executor.clock().now();
        for node in memory.take_foreign() {
            self.other.appeared(&node, now);
        }
        self.other.observe_blocks(memory.has_free_blocks(), now);
        if let Some(question) = self.other.question(now) {
            let executor = self.executor.clone();
            let asking = async move { (now, executor.answer(question).await) };
            self.asking = Some(asking.boxed());
        }
        while self.events.try_join_next().is_some() {}
        for changes in self.other.take_changes() {
            self.report(&changes);
        }
        self.other.released(now)
    }

    /// When the next question is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.other.next()
    }

    /// Waits for an answer and takes it. May be dropped at any time.
    pub(super) async fn answered(&mut self) {
        let Some(asking) = &mut self.asking else {
            return std::future::pending().await;
        };
        let (sent, answer) = asking.await;
        self.asking = None;
        let now = self.executor.clock().now();
        match answer {
            Answer::Lease(answer) => self.other.lease_read(answer, sent, now),
            Answer::Writer(node, why, answer) => {
                self.other.writer_read((&node, why), answer, now);
            }
        }
        let metrics = &self.executor.cluster.metrics.ipam;
        metrics.set_standing_back(self.is_standing_back());
    }

    fn is_standing_back(&self) -> bool {
        matches!(self.other.state(), AllocationState::StandingBack { .. })
    }

    /// Completes when all findings are reported.
    pub(super) async fn events_recorded(&mut self) {
        while self.events.join_next().await.is_some() {}
    }

    fn report(&mut self, changes: &AllocatorChange) {
        let controller = IPAM_CONTROLLER;
        match changes {
            AllocatorChange::Watches(Some(holder)) => tracing::info!(
                controller,
                holder,
                "nodes wait for their pod CIDRs until it is known whether kube-controller-manager allocates them"
            ),
            AllocatorChange::Watches(None) => tracing::info!(
                controller,
                "nodes wait for their pod CIDRs until it is known whether another allocator gives them any"
            ),
            AllocatorChange::LeaseDenied => tracing::warn!(
                controller,
                "reading the Lease kube-system/kube-controller-manager is forbidden, so kube-controller-manager is detected only by its writes; grant `get` on that Lease"
            ),
            AllocatorChange::StandsBack(evidence) => tracing::warn!(
                controller,
                node = evidence.node,
                manager = evidence.manager,
                condition = ?evidence.condition,
                "another allocator sets the pod CIDRs of nodes; this manager allocates none"
            ),
            AllocatorChange::TakesOver(manager, node) => tracing::warn!(
                controller,
                node,
                manager,
                "the other allocator is gone; this manager allocates pod CIDRs"
            ),
        }
        if let Some((name, event)) = changes.event()
            && let Some(node) = self.executor.cluster.nodes.get(name)
        {
            let (executor, node) = (self.executor.clone(), node.node_ref());
            self.events
                .spawn(async move { executor.record(&node, &event).await });
        }
    }
}

fn lacks_pod_cidrs(node: &PrunedNode) -> bool {
    pod_cidrs(node).is_empty() && !node.is_being_deleted()
}
