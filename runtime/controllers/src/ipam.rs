//! The node IPAM controller: one for the cluster, independent of providers. Schedules the nodes; `ccm-core` decides
//! which CIDRs they get, and whether another allocator is at work. Runs in its own task; started, notified and stopped
//! from outside, as provider controllers are.

mod other_allocator;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::ipam::{BlockCounts, Facts, Memory, pod_cidrs};
use ccm_core::moment::Moment;
use ccm_core::node::object::PrunedNode;
use ccm_core::reconciliation::conclusion::Conclusion;
use ccm_core::reconciliation::effect::When;
use ccm_core::reconciliation::retry;
use ccm_core::safety::permit::Mode;
use ccm_core::settings::IpamSettings;
use ccm_core::well_known::IPAM_CONTROLLER;
use other_allocator::AllocatorWatch;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::controller::{Controller, Input, InputOf};
use crate::controller_lifecycle::{CUT_OFF, Ended, Handle, pause, run_until};
use crate::executor::{ClusterExecutor, Executor as _};
use crate::metrics::QueueName;
use crate::node::NodeChange;
use crate::queue::{Capacity, Queue};
use crate::reconcile::{ConclusionOf, reconcile};
use crate::workers::Workers;
use crate::{Settings, Stopped};

/// Handle to the running controller.
pub(crate) struct Ipam {
    changes: mpsc::UnboundedSender<NodeChange>,
    /// Whether the plan awaits its first pass.
    is_awaited: Arc<AtomicBool>,
    handle: Handle,
}

/// The controller itself, which runs in its own task.
struct IpamController {
    executor: Arc<ClusterExecutor>,
    settings: IpamSettings,
    changes: mpsc::UnboundedReceiver<NodeChange>,
    clock: Clock,
    queue: Queue,
    memory: Memory,
    /// `None` outside enforce mode: without writes two allocators do not collide.
    other_allocator: Option<AllocatorWatch>,
    /// The tally of each range at the last update of the metrics.
    measured: Vec<Option<BlockCounts>>,
    reconciliations: Workers<Arc<PrunedNode>, ConclusionOf<Facts>>,
    /// Nothing is allocated before this moment; `None`: the first list of all nodes is not complete.
    begins: Option<Moment>,
    /// Whether the plan awaits the first pass.
    is_awaited: Arc<AtomicBool>,
}

/// A change that the controller is notified of.
enum Change {
    Nodes(NodeChange),
    /// The search for another allocator has an answer.
    Allocator,
}

impl Ipam {
    /// Starts the controller, if it is enabled and its settings are valid; after a pause in place of `former`, which
    /// ended by a defect.
    pub(crate) fn start(
        former: Option<Ipam>,
        cluster: &Arc<Cluster>,
        settings: &Settings,
        tasks: &mut JoinSet<()>,
    ) -> Option<Ipam> {
        let ipam = settings.ipam.as_ref();
        let ipam = ipam.filter(|_| settings.controllers.node_ipam)?.clone();
        let memory = match Memory::new(&ipam) {
            Ok(memory) => memory,
            Err(error) => {
                tracing::error!(%error, controller = IPAM_CONTROLLER, "not started");
                return None;
            }
        };
        cluster.planner.expect_passes(1);
        let before: Vec<Ended> = former.iter().map(|_| pause()).collect();
        // Only now, when the first pass of the successor is expected: the plan is not complete in between.
        if former.is_some_and(|ipam| ipam.is_awaited.load(Ordering::Acquire)) {
            cluster.planner.end_passes(1);
        }
        let (sender, changes) = mpsc::unbounded_channel();
        if cluster.knows_all_nodes() {
            // The receiver exists.
            let _ = sender.send(NodeChange::Listed);
        }
        let executor = Arc::new(ClusterExecutor::new(cluster.clone()));
        let mut controller = IpamController::new(executor, ipam, memory, changes);
        let is_awaited = controller.is_awaited.clone();
        let drain = settings.drain;
        let heartbeats = settings.reports.heartbeats.clone();
        let handle = Handle::start(tasks, |stopped| async move {
            let run = run_until(&mut controller, before, stopped, drain);
            let stopped = heartbeats.monitored(IPAM_CONTROLLER, run).await;
            if stopped == Stopped::OnTheWire {
                tracing::warn!(controller = IPAM_CONTROLLER, ?drain, "{CUT_OFF}");
            }
            stopped
        });
        Some(Ipam {
            changes: sender,
            is_awaited,
            handle,
        })
    }

    /// Forwards an event of the node watch, after the store has applied it.
    pub(crate) fn see_node(&self, change: &NodeChange) {
        // A closed channel belongs to a controller that has ended.
        let _ = self.changes.send(change.clone());
    }

    /// Whether the controller has ended without a request to stop.
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    /// Stops new work; the returned future completes when requests in flight are answered or timed out.
    pub(crate) fn stop(self) -> Ended {
        self.handle.stop()
    }
}

impl IpamController {
    fn new(
        executor: Arc<ClusterExecutor>,
        settings: IpamSettings,
        memory: Memory,
        changes: mpsc::UnboundedReceiver<NodeChange>,
    ) -> IpamController {
        let clock = executor.clock();
        let queues = &executor.cluster.metrics.queues;
        let queue = Queue::new(queues.meter(QueueName::PodCidrs, clock));
        let writes = executor.cluster.mode == Mode::Enforce;
        let rules = settings.other_allocator;
        let watch = || AllocatorWatch::new(executor.clone(), rules);
        IpamController {
            other_allocator: writes.then(watch),
            clock,
            measured: vec![None; settings.families.len()],
            executor,
            settings,
            changes,
            queue,
            memory,
            reconciliations: Workers::new(),
            begins: None,
            is_awaited: Arc::new(AtomicBool::new(true)),
        }
    }

    fn see_node(&mut self, node: &PrunedNode, now: Moment) {
        if self.memory.see(node) {
            self.queue.ask(node.name(), now, false);
        }
        if let Some(watch) = &mut self.other_allocator {
            watch.see(node);
        }
    }

    fn see_lost(&mut self, node: &PrunedNode, is_listed: bool, now: Moment) {
        if self.memory.see_lost(node, is_listed) {
            tracing::warn!(
                controller = IPAM_CONTROLLER,
                node = node.name(),
                "the node had pod CIDRs and has none, as after a restore of etcd"
            );
            self.queue.ask(node.name(), now, false);
        }
    }

    /// Marks the CIDRs of all nodes as used before any is allocated (IPAM-022). Then waits for late writes of the
    /// previous leader.
    fn see_all(&mut self) {
        let now = self.clock.now();
        let nodes = self.executor.cluster.nodes.all();
        let is_there = |wanted: &str| {
            nodes
                .binary_search_by(|node| node.name().cmp(wanted))
                .is_ok()
        };
        for gone in self.memory.keep(is_there) {
            self.leave(&gone);
        }
        // Before anything else is learned: what one node has lost may be another's.
        for node in &nodes {
            self.see_lost(node, true, now);
        }
        for node in &nodes {
            self.see_node(node, now);
        }
        if self.begins.is_none() {
            if let Some(watch) = &mut self.other_allocator {
                watch.begin(&nodes);
            }
            // Without writes there can be no conflict.
            let is_bold = self.executor.cluster.mode != Mode::Enforce;
            let settle = if is_bold {
                Duration::ZERO
            } else {
                self.settings.settle
            };
            self.begins = Some(now.after(settle));
            tracing::info!(
                controller = IPAM_CONTROLLER,
                used = %self.memory.allocator(),
                nodes = nodes.len(),
                ?settle,
                "pod CIDRs of existing nodes loaded"
            );
        }
    }

    /// Removes a node from queue and plan.
    fn leave(&mut self, name: &str) {
        self.queue.forget(name);
        if let Some(watch) = &mut self.other_allocator {
            watch.leave(name);
        }
        let (cluster, object) = (&self.executor.cluster, format!("node/{name}"));
        cluster.planner.gone(&object);
        cluster.activity.left(self.executor.name(), &object);
    }

    fn next_moment(&self) -> Option<Moment> {
        let begins = self.begins?;
        // At the limit, only the end of a reconciliation frees a slot.
        let next = self
            .queue
            .next(Capacity::Any)
            .filter(|_| self.has_capacity());
        let next = next.map(|next| next.max(begins));
        let question = self.other_allocator.as_ref().and_then(AllocatorWatch::next);
        next.into_iter().chain(question).min()
    }

    fn has_capacity(&self) -> bool {
        self.reconciliations.len() < self.settings.concurrent_syncs.get()
    }

    fn start_reconciliations(&mut self) {
        let now = self.clock.now();
        if self.begins.is_none_or(|begins| now < begins) {
            return;
        }
        while self.has_capacity()
            && let Some((name, _)) = self.queue.take(now, Capacity::Any)
        {
            self.start(&name, now);
        }
    }

    fn start(&mut self, name: &str, now: Moment) {
        let Some(node) = self.executor.cluster.nodes.get(name) else {
            self.queue.finish(name, now);
            self.memory.forget(name);
            self.leave(name);
            return;
        };
        if self.memory.allocator().stored(&node).is_none() {
            // The store is ahead of the changes. Those to come, such as the deletion of a former node of this name,
            // would take away what this one gets now; the last of them requests its turn.
            self.queue.finish(name, now);
            return;
        }
        let watch = self.other_allocator.as_mut();
        if watch.is_some_and(|watch| watch.holds(&node, &self.memory)) {
            self.queue.finish(name, now);
            return;
        }
        let Some(facts) = self.memory.begin(node.clone()) else {
            // The node already has what it needs.
            let object = format!("node/{name}");
            let planner = &self.executor.cluster.planner;
            let provider = self.executor.name();
            planner.concluded(
                &object,
                IPAM_CONTROLLER,
                provider,
                &When::AwaitChange,
                false,
            );
            self.queue.finish(name, now);
            return;
        };
        for invalid in &facts.invalid_pod_cidrs {
            tracing::warn!(node = name, %invalid, "the node's pod CIDRs cannot be right, and are left as they are");
        }
        let (executor, clock) = (self.executor.clone(), self.clock);
        let facts = Box::new(facts);
        let task = async move { reconcile(facts, &*executor, clock).await };
        self.reconciliations.spawn(node, task);
    }

    /// Reports the first pass to the planner when every node was reconciled.
    fn report_first_pass(&mut self) {
        let now = self.clock.now();
        let is_under_way = self.begins.is_none_or(|begins| now < begins)
            || !self.reconciliations.is_empty()
            || self
                .queue
                .next(Capacity::Any)
                .is_some_and(|next| next <= now);
        if !is_under_way && self.is_awaited.swap(false, Ordering::AcqRel) {
            self.executor.cluster.planner.end_passes(1);
        }
    }

    fn see_nodes(&mut self, change: NodeChange) {
        match &change {
            NodeChange::Applied(node) => {
                let now = self.clock.now();
                self.see_lost(node, false, now);
                self.see_node(node, now);
            }
            NodeChange::Deleted(name) => {
                self.memory.forget(name);
                self.leave(name);
            }
            NodeChange::Listed => self.see_all(),
            // These changes concern providers, of which this controller has none.
            NodeChange::Requeued(_) | NodeChange::Reassigned => {}
        }
    }

    fn measure(&mut self) {
        let metrics = &self.executor.cluster.metrics.ipam;
        for (index, tries) in self.memory.take_tries() {
            if let Some(set) = self.memory.allocator().families().get(index) {
                metrics.tried(set, tries);
            }
        }
        let families = self.memory.allocator().families();
        for (set, measured) in families.iter().zip(&mut self.measured) {
            let now = Some(set.tally());
            if *measured != now {
                metrics.set_blocks(set, measured.unwrap_or_default());
                *measured = now;
            }
        }
    }
}

impl Controller for IpamController {
    type Key = Arc<PrunedNode>;
    type Ended = ConclusionOf<Facts>;
    type Change = Change;

    fn clock(&self) -> Clock {
        self.clock
    }

    fn start_due(&mut self) -> Option<Moment> {
        match &mut self.other_allocator {
            Some(watch) => {
                for name in watch.released(&mut self.memory) {
                    self.queue.ask(&name, self.clock.now(), false);
                }
            }
            // Nobody else takes them, and there may be one for each node that ever joined.
            None => drop(self.memory.take_foreign()),
        }
        for name in self.memory.woken() {
            self.queue.ask(&name, self.clock.now(), false);
        }
        self.measure();
        self.start_reconciliations();
        self.report_first_pass();
        self.next_moment()
    }

    async fn input(&mut self) -> Option<InputOf<Self>> {
        tokio::select! {
            biased;
            (node, ended) = self.reconciliations.next() => Some(Input::Ended(node, ended)),
            change = self.changes.recv() => change.map(|change| Input::Change(Change::Nodes(change))),
            () = answered(&mut self.other_allocator) => Some(Input::Change(Change::Allocator)),
        }
    }

    fn conclude(&mut self, node: Arc<PrunedNode>, ended: Option<ConclusionOf<Facts>>) {
        let now = self.clock.now();
        let name = node.name();
        if ended.as_ref().is_none_or(Conclusion::is_retried) {
            self.queue.retries();
        }
        let next = match ended {
            Some(Conclusion { when, facts, .. }) => {
                let has_found = self.memory.conclude(&facts, &when);
                if let Some(watch) = &mut self.other_allocator
                    && !pod_cidrs(&facts.node).is_empty()
                {
                    watch.leave(name);
                }
                match has_found {
                    true => Some(now),
                    false => when.after().map(|after| now.after(after)),
                }
            }
            None => {
                tracing::error!(
                    node = name,
                    "a reconciliation ended with a panic; this is a defect"
                );
                self.memory.abandon(&node);
                Some(now.after(retry::CLOUD.after(self.memory.failures(name))))
            }
        };
        // A node deleted meanwhile is not queued again.
        let is_known = self.memory.allocator().stored(&node).is_some();
        if let Some(next) = next.filter(|_| is_known) {
            self.queue.ask(name, next, false);
        }
        self.queue.finish(name, now);
    }

    fn see(&mut self, change: Change) {
        match change {
            Change::Nodes(change) => self.see_nodes(change),
            // What it says is read before anything starts.
            Change::Allocator => {}
        }
    }

    async fn drain(&mut self) {
        self.reconciliations.drain().await;
        if let Some(watch) = &mut self.other_allocator {
            watch.events_recorded().await;
        }
    }
}

async fn answered(watch: &mut Option<AllocatorWatch>) {
    match watch {
        Some(watch) => watch.answered().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
