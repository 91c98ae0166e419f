//! The controllers' metrics, under upstream's names where it has one. Holds no logic and starts no server.

mod ipam;
mod rest_client;
mod running;
mod workqueue;

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_core::reconciliation::effect::ObjectKind;
use ccm_core::route::Tally;
use ccm_core::safety::brake::Brake;
use ccm_metrics::Registration as _;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use ipam::IpamMetrics;
pub(crate) use rest_client::{RequestMeter, RestMetrics};
pub(crate) use running::{RunningController, RunningControllers};
pub(crate) use workqueue::{QueueMeter, QueueMetrics, QueueName};

/// Upstream's buckets for both node histograms, in seconds: 1 s to about 17 min.
const DELAYS: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
/// Upstream's buckets for both histograms about targets: 1 s to about four and a half hours.
const DOUBLED: [f64; 15] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0,
    16384.0,
];
/// Buckets for one provider call, in seconds: from a single request to a timed-out call.
const CALLS: [f64; 9] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

/// Labels with fixed values, plus the provider's name. Upstream's metrics have only upstream's labels.
type ByProvider<const WORDS: usize> = (
    [(&'static str, &'static str); WORDS],
    [(&'static str, String); 1],
);

/// The controllers' metrics. Clones share the same metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    taint_removal: Histogram,
    initial_sync: Histogram,
    held: Family<ByProvider<1>, Counter>,
    planned: Family<[(&'static str, &'static str); 1], Gauge>,
    held_deletions: Family<ByProvider<1>, Counter>,
    target_updates: Counter,
    failed_target_updates: Counter,
    target_update: Histogram,
    node_pass: Histogram,
    operations: Family<ByProvider<2>, Counter>,
    operation: Family<ByProvider<1>, Histogram>,
    route_passes: Counter,
    routes: Family<ByProvider<1>, Gauge>,
    route_operations: Family<ByProvider<2>, Counter>,
    route_operation: Family<ByProvider<1>, Histogram>,
    pub(crate) ipam: IpamMetrics,
    pub(crate) queues: QueueMetrics,
    pub(crate) controllers: RunningControllers,
}

/// A provider operation on a load balancer, or on routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Create or update a load balancer.
    Ensure,
    /// Replace the targets of a load balancer by the current nodes.
    UpdateTargets,
    /// Delete a load balancer.
    Delete,
    /// Read a load balancer.
    Get,
    /// List all routes.
    ListRoutes,
    /// Create a route.
    CreateRoute,
    /// Delete a route.
    DeleteRoute,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Ensure => "ensure",
            Operation::UpdateTargets => "update-targets",
            Operation::Get => "get",
            Operation::ListRoutes => "list",
            Operation::CreateRoute => "create",
            Operation::Delete | Operation::DeleteRoute => "delete",
        }
    }

    fn is_of_routes(self) -> bool {
        match self {
            Operation::ListRoutes | Operation::CreateRoute | Operation::DeleteRoute => true,
            Operation::Ensure | Operation::UpdateTargets | Operation::Delete | Operation::Get => {
                false
            }
        }
    }
}

impl Default for Metrics {
    /// Unregistered metrics, for programs that export none.
    fn default() -> Metrics {
        Metrics::register(&mut Registry::default())
    }
}

impl Metrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Metrics {
        Metrics {
            taint_removal: registry.add(
                "node_controller_cloud_provider_taint_removal_delay_seconds",
                "[ALPHA] Seconds from a node's creation until the uninitialized taint was removed",
                Histogram::new(DELAYS),
            ),
            initial_sync: registry.add(
                "node_controller_initial_node_sync_delay_seconds",
                "[ALPHA] Seconds from a node's creation until its initialisation was finished",
                Histogram::new(DELAYS),
            ),
            planned: registry.add(
                "ccm_plan_pending",
                "Objects that would be changed if the mode were enforce",
                Family::default(),
            ),
            held: registry.add(
                "ccm_brake_held",
                "Changes that were held because a brake's budget was spent",
                Family::default(),
            ),
            held_deletions: registry.add(
                "ccm_node_deletion_held",
                "Deletions of nodes that were held, by the unmet condition",
                Family::default(),
            ),
            target_updates: registry.add(
                "service_controller_loadbalancer_sync",
                "[ALPHA] Attempts to hand a changed set of nodes to a load balancer",
                Counter::default(),
            ),
            failed_target_updates: registry.add(
                "service_controller_nodesync_error",
                "[ALPHA] Failed attempts to hand a changed set of nodes to a load balancer",
                Counter::default(),
            ),
            node_pass: registry.add(
                "service_controller_nodesync_latency_seconds",
                "[ALPHA] Seconds from a node change until all load balancers had the new targets",
                Histogram::new(DOUBLED),
            ),
            target_update: registry.add(
                "service_controller_update_loadbalancer_host_latency_seconds",
                "[ALPHA] Seconds of one attempt to hand a changed set of nodes to a load balancer",
                Histogram::new(DOUBLED),
            ),
            operations: registry.add(
                "ccm_load_balancer_operations",
                "Provider calls about load balancers, and how they ended",
                Family::default(),
            ),
            operation: registry.add(
                "ccm_load_balancer_operation_duration_seconds",
                "Seconds of one provider call about a load balancer",
                Family::new_with_constructor(|| Histogram::new(CALLS)),
            ),
            route_passes: registry.add(
                "route_controller_route_sync",
                "[ALPHA] Passes over all routes",
                Counter::default(),
            ),
            routes: registry.add(
                "ccm_routes",
                "Routes after the last listing, by state",
                Family::default(),
            ),
            route_operations: registry.add(
                "ccm_route_operations",
                "Provider calls about routes, and how they ended",
                Family::default(),
            ),
            route_operation: registry.add(
                "ccm_route_operation_duration_seconds",
                "Seconds of one provider call about routes",
                Family::new_with_constructor(|| Histogram::new(CALLS)),
            ),
            ipam: IpamMetrics::register(registry),
            queues: QueueMetrics::register(registry),
            controllers: RunningControllers::register(registry),
        }
    }

    /// Counts a pass over all routes (ROUTE-020).
    pub(crate) fn passes_routes(&self) {
        self.route_passes.inc();
    }

    /// Sets the numbers of this provider's routes by state.
    pub(crate) fn count_routes(&self, provider: &str, tally: &Tally) {
        for (state, count) in [
            ("right", tally.right),
            ("missing", tally.missing),
            ("stray", tally.stray),
            ("foreign", tally.foreign),
            ("outside", tally.outside),
            ("refused", tally.refused),
            ("failing", tally.failing),
            ("held", tally.held),
        ] {
            let gauge = self
                .routes
                .get_or_create(&([("state", state)], by(provider)));
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Counts and times a provider call.
    pub(crate) fn asked(
        &self,
        provider: &str,
        operation: Operation,
        result: &'static str,
        took: Duration,
    ) {
        let took = took.as_secs_f64();
        let operation_label = ("operation", operation.as_str());
        let labels = ([operation_label, ("result", result)], by(provider));
        let (calls, durations) = match operation.is_of_routes() {
            true => (&self.route_operations, &self.route_operation),
            false => (&self.operations, &self.operation),
        };
        calls.get_or_create(&labels).inc();
        let labels = ([operation_label], by(provider));
        durations.get_or_create(&labels).observe(took);
        if operation == Operation::UpdateTargets {
            self.target_updates.inc();
            self.target_update.observe(took);
            // As upstream, a load balancer of another component is no failure; nor is what the mode withholds.
            if !["success", "elsewhere", "withheld"].contains(&result) {
                self.failed_target_updates.inc();
            }
        }
    }

    /// Records how long it took after a change of nodes until all affected load balancers had the new targets.
    pub(crate) fn passed_nodes(&self, took: Duration) {
        self.node_pass.observe(took.as_secs_f64());
    }

    /// Counts a held node deletion of this provider by the condition that holds it.
    pub(crate) fn held_deletion(&self, condition: &'static str, provider: &str) {
        let labels = ([("condition", condition)], by(provider));
        self.held_deletions.get_or_create(&labels).inc();
    }

    /// Sets the number of planned objects of each kind; zero for kinds not in `counts`.
    pub(crate) fn planned(&self, counts: &BTreeMap<&'static str, usize>) {
        for kind in ObjectKind::ALL.map(ObjectKind::as_str) {
            let count = counts.get(kind).copied().unwrap_or_default();
            let gauge = self.planned.get_or_create(&[("kind", kind)]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Counts a change of this provider held by a brake.
    pub(crate) fn held(&self, brake: Brake, provider: &str) {
        let labels = ([("brake", brake.as_str())], by(provider));
        self.held.get_or_create(&labels).inc();
    }

    /// Records that a node of this `age` lost its taint. Its addresses were stored before, so that its initialisation
    /// is finished, too; upstream has a write between the two (NODE-044, NODE-046).
    pub(crate) fn initialised(&self, age: Duration) {
        self.taint_removal.observe(age.as_secs_f64());
        self.initial_sync.observe(age.as_secs_f64());
    }
}

fn by(provider: &str) -> [(&'static str, String); 1] {
    [("provider", provider.to_owned())]
}

#[cfg(test)]
pub(crate) mod tests;
