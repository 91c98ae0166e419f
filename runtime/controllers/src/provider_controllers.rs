//! The controllers of one provider: its queues, batches, priorities, memories and executor. They run in their own task,
//! so that a failing, slow or hostile provider affects no other. Started, notified and stopped from outside.

use std::sync::Arc;

use ccm_core::node::object::PrunedNode;
use ccm_core::node::ownership::OwnershipContext;
use ccm_core::service::Claims;
use ccm_core::well_known::{
    NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER,
};
use kube::runtime::watcher::Event;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::controller_lifecycle::{CUT_OFF, Ended, Handle, Runnable, run_until};
use crate::executor::EffectExecutor;
use crate::heartbeat::Heartbeats;
use crate::metrics::RunningController;
use crate::node::{NodeChange, NodeController};
use crate::node_lifecycle::NodeLifecycleController;
use crate::route::RouteController;
use crate::service::{NodeChangeFilter, NodeSet, ServiceChange, ServiceController, node_changes};
use crate::{Provided, Settings, Stopped};

/// Number of uninitialised nodes that the provider is asked about before the list of all nodes is complete: a call that
/// clouds answer with one or two rounds of requests, however many machines they have.
const MOST_EARLY: usize = 4;

/// Handle to running provider controllers.
pub(crate) struct ProviderControllers {
    pub(crate) provided: Provided,
    executor: Arc<EffectExecutor>,
    nodes: Option<mpsc::UnboundedSender<NodeChange>>,
    /// Number of nodes that were sent before the end of the first list.
    early: usize,
    changes_of_nodes: Option<NodeChangeFilter>,
    services: Option<mpsc::UnboundedSender<ServiceChange>>,
    routes: Option<mpsc::UnboundedSender<NodeChange>>,
    /// Notified at the end of a list of all nodes, for node lifecycle.
    listed: Arc<Notify>,
    handle: Handle,
}

/// The controllers themselves, which run in one task.
struct Controllers {
    heartbeats: Heartbeats,
    executor: Arc<EffectExecutor>,
    node: Option<NodeController>,
    lifecycle: Option<NodeLifecycleController>,
    service: Option<ServiceController>,
    route: Option<RouteController>,
    /// The executor's tasks, which never end.
    background: JoinSet<()>,
    /// Entries in the metric of running controllers, until dropped.
    running: Vec<RunningController>,
}

impl ProviderControllers {
    /// Starts the controllers of `provided` when all of `before` have ended: two sets that act on the same objects
    /// never run at the same time.
    pub(crate) fn start(
        cluster: &Arc<Cluster>,
        provided: Provided,
        ownership: Arc<OwnershipContext>,
        claims: Arc<Claims>,
        settings: &Settings,
        before: Vec<Ended>,
        tasks: &mut JoinSet<()>,
    ) -> ProviderControllers {
        let capabilities = provided.cloud.capabilities();
        let wanted = settings.controllers;
        let has_instances = wanted.need_instances() && capabilities.instances;
        let serves = wanted.service && capabilities.load_balancer;
        // EDGE-083: without the pod networks it is unknown which routes belong to the cluster, so that none is touched.
        let has_networks = !settings.route.cluster_cidrs.is_empty();
        let routes = wanted.route && capabilities.routes && has_networks;
        let mut background = JoinSet::new();
        let cloud = provided.cloud.clone();
        let executor = EffectExecutor::new(
            cluster.clone(),
            cloud,
            ownership.clone(),
            settings,
            &mut background,
        );
        let executor = Arc::new(executor);
        let passes = usize::from(has_instances) + usize::from(serves) + usize::from(routes);
        executor.expect_passes(passes);
        let (mut nodes, mut changes_of_nodes, mut services) = (None, None, None);
        let node = (has_instances && wanted.node).then(|| {
            let (sender, changes) = mpsc::unbounded_channel();
            cluster.listen(executor.name(), sender.clone());
            nodes = Some(sender);
            NodeController::new(executor.clone(), settings.node.clone(), changes)
        });
        let listed = Arc::new(Notify::new());
        let lifecycle = (has_instances && wanted.node_lifecycle).then(|| {
            NodeLifecycleController::new(
                executor.clone(),
                settings.lifecycle.clone(),
                listed.clone(),
                node.is_none(),
            )
        });
        let service = serves.then(|| {
            let (sender, changes) = mpsc::unbounded_channel();
            services = Some(sender);
            let (filter, receiver) = node_changes(ownership);
            changes_of_nodes = Some(filter);
            let targets = NodeSet::new(executor.clone(), receiver, &settings.service);
            let settings = settings.service.clone();
            let rules = provided.service.clone();
            ServiceController::new(executor.clone(), settings, rules, claims, changes, targets)
        });
        let (mut route_changes, mut route) = (None, None);
        if routes {
            let (sender, changes) = mpsc::unbounded_channel();
            route_changes = Some(sender);
            let settings = settings.route.clone();
            route = Some(RouteController::new(executor.clone(), settings, changes));
        }
        let mut controllers = Controllers {
            heartbeats: settings.reports.heartbeats.clone(),
            executor: executor.clone(),
            node,
            lifecycle,
            service,
            route,
            background,
            running: Vec::new(),
        };
        let drain = settings.drain;
        let handle = Handle::start(tasks, |stopped| async move {
            let stopped = run_until(&mut controllers, before, stopped, drain).await;
            let executor = controllers.executor.clone();
            if stopped == Stopped::OnTheWire {
                let provider = executor.name();
                tracing::warn!(provider, ?drain, "{CUT_OFF}");
            }
            // Aborts their tasks.
            drop(controllers);
            executor.ended();
            stopped
        });
        ProviderControllers {
            provided,
            executor,
            nodes,
            early: 0,
            changes_of_nodes,
            services,
            routes: route_changes,
            listed,
            handle,
        }
    }

    /// Whether the provider's controllers need the watch of Services.
    pub(crate) fn serves(&self) -> bool {
        self.services.is_some()
    }

    /// Forwards an event of the node watch, after the store has applied it.
    pub(crate) fn see_node(&mut self, event: &Event<Arc<PrunedNode>>, change: Option<&NodeChange>) {
        if let Some(changes_of_nodes) = &mut self.changes_of_nodes {
            changes_of_nodes.see(event, &self.executor.cluster.nodes);
        }
        if let Event::InitApply(node) = event
            && let Some(sender) = &self.nodes
            && self.early < MOST_EARLY
            && node.is_uninitialized()
            && !self.executor.cluster.knows_all_nodes()
            && self.executor.ownership().is_concerned(node)
        {
            self.early += 1;
            let _ = sender.send(NodeChange::Applied(node.clone()));
        }
        let Some(change) = change else {
            return;
        };
        for sender in self.nodes.iter().chain(&self.routes) {
            // A closed channel belongs to controllers that have ended.
            let _ = sender.send(change.clone());
        }
        if let NodeChange::Listed = change {
            self.listed.notify_one();
        }
    }

    /// Forwards an event of the Service watch.
    pub(crate) fn see_service(&self, change: &ServiceChange) {
        if let Some(services) = &self.services {
            let _ = services.send(change.clone());
        }
    }

    /// Announces a changed set of providers.
    pub(crate) fn reassign(&mut self, ownership: Arc<OwnershipContext>, claims: Arc<Claims>) {
        self.executor.reassign(ownership.clone());
        if let Some(changes_of_nodes) = &mut self.changes_of_nodes {
            changes_of_nodes.reassign(ownership);
        }
        for sender in self.nodes.iter().chain(&self.routes) {
            let _ = sender.send(NodeChange::Reassigned);
        }
        self.see_service(&ServiceChange::Reassigned(claims));
    }

    /// Whether the controllers have ended without a request to stop.
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    /// Takes the number of first passes that the controllers have not finished. They do not count any more.
    pub(crate) fn take_passes(&self) -> usize {
        self.executor.take_passes()
    }

    /// Removes the provider's state from the cluster's.
    pub(crate) fn leave(&self) {
        self.executor.leave();
    }

    /// Stops new work; the returned future completes when requests in flight are answered or timed out.
    pub(crate) fn stop(self) -> Ended {
        self.handle.stop()
    }
}

impl Runnable for Controllers {
    async fn run(&mut self) {
        let beats = self.heartbeats.clone();
        let running = [
            self.node.as_ref().map(|_| "cloud-node"),
            self.lifecycle.as_ref().map(|_| "cloud-node-lifecycle"),
            self.service.as_ref().map(|_| "service"),
            self.route.as_ref().map(|_| "route"),
        ];
        let controllers = &self.executor.metrics().controllers;
        let running = running.into_iter().flatten();
        self.running = running.map(|name| controllers.start(name)).collect();
        // `biased`, so that equal states give equal sequences; no branch ever ends by itself, unless a task panics.
        tokio::select! {
            biased;
            Some(_) = self.background.join_next() => {}
            () = beats.when(NODE_CONTROLLER, self.node.as_mut().map(Runnable::run)) => {}
            () = beats.when(SERVICE_CONTROLLER, self.service.as_mut().map(Runnable::run)) => {}
            () = beats.when(NODE_LIFECYCLE_CONTROLLER, self.lifecycle.as_mut().map(Runnable::run)) => {}
            () = beats.when(ROUTE_CONTROLLER, self.route.as_mut().map(Runnable::run)) => {}
        }
    }

    async fn drain(&mut self) {
        if let Some(node) = &mut self.node {
            node.drain().await;
        }
        if let Some(lifecycle) = &mut self.lifecycle {
            lifecycle.drain().await;
        }
        if let Some(service) = &mut self.service {
            service.drain().await;
        }
        if let Some(route) = &mut self.route {
            route.drain().await;
        }
    }
}
