//! Speaks Kubernetes: watches, asks `ccm-core` what to do, and performs it. Knows nothing of Wasm.
//!
//! ```text
//! watch ──► providers ──► set: node, route, …──► reconcile ──decide──► core
//!           (one for all)  (one for each) ▲         │  ▲
//!                            └──── when ────────────┘  └─ outcome ── executor ─► API server, CloudProvider (look-ups
//!                                                                                 through batch)
//! ```
//!
//! Every provider has a set of controllers of its own, so that one that is slow or hostile delays no other; `cluster` is
//! what they share. The node IPAM controller needs no provider, and there is one of it.
//!
//! `executor` performs effects: the only module that writes to the cluster and the only one that calls a
//! [`CloudProvider`]. `lease` stands apart: it holds the Lease under which all this is done, and writes nothing
//! else. `guarded` refuses, below everything, what is written outside of it. `clock` is the only one that reads a
//! clock.
#![forbid(unsafe_code)]

mod clock;
mod cluster;
mod executor;
mod ipam;
pub mod lease;
mod lookup_batch;
mod metrics;
mod node;
mod node_lifecycle;
mod plan;
mod provider_controllers;
mod providers;
mod pruned_objects;
mod queue;
mod reconcile;
mod route;
mod service;
pub mod tenure_client;
mod watch;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::audit::AuditSink;
use ccm_core::cloud::CloudProvider;
use ccm_core::ownership::NodeClaim;
use ccm_core::permit::Mode;
use ccm_core::settings::{
    IpamSettings, LifecycleSettings, NodeSettings, RouteSettings, ServiceRules, ServiceSettings,
};
use ccm_core::tenure::Tenure;
use kube::Client;
use thiserror::Error;

pub use clock::Pace;
pub use executor::LeaseName;
pub use metrics::Metrics;
pub use plan::PlanBook;
pub use providers::run_all;

/// What all controllers of one leadership share, those of all providers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which controllers run.
    pub controllers: Controllers,
    /// Of the node controller, and what holds for all of them.
    pub node: NodeSettings,
    /// Of the node lifecycle controller.
    pub lifecycle: LifecycleSettings,
    /// Of the service controller.
    pub service: ServiceSettings,
    /// Of the route controller.
    pub route: RouteSettings,
    /// Of the node IPAM controller. `None`: somebody else gives nodes their pod CIDRs.
    pub ipam: Option<IpamSettings>,
    /// The Lease in which spent budgets are written down, so that they outlive a restart. `None`: they do not.
    pub budget_lease: Option<LeaseName>,
    /// Hears of every change at the cloud and of every deletion of a node.
    pub audit: Arc<dyn AuditSink>,
    /// What would be changed, in plan mode.
    pub plan: PlanBook,
    /// Whether writes are made.
    pub mode: Mode,
    /// How fast the clock of decisions goes.
    pub pace: Pace,
    /// How long one call of the provider may last.
    pub call_time: Duration,
    /// How long [`run`] waits, when told to stop, for what is on the wire.
    pub drain: Duration,
    /// Written by whoever renews the lease, and ended by [`run`] when it is told to stop. No cloud request and no
    /// request to the cluster begins outside of it.
    pub tenure: Arc<Tenure>,
}

/// Which controllers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controllers {
    /// `cloud-node-controller`.
    pub node: bool,
    /// `cloud-node-lifecycle-controller`.
    pub node_lifecycle: bool,
    /// `service-lb-controller`. It runs only for providers that make load balancers.
    pub service: bool,
    /// `node-route-controller`. It runs only for providers that make routes, and where the pods' networks are known.
    pub route: bool,
    /// `node-ipam-controller`. It runs only where it has settings.
    pub node_ipam: bool,
}

impl Controllers {
    /// All of them.
    pub const ALL: Controllers = Controllers {
        node: true,
        node_lifecycle: true,
        service: true,
        route: true,
        node_ipam: true,
    };

    /// Whether one of them asks about nodes' machines.
    fn need_instances(self) -> bool {
        self.node || self.node_lifecycle
    }
}

/// Why the controllers could not run.
#[derive(Debug, Error)]
pub enum RunError {
    /// No provider has instances, and a controller was asked for that needs them (IFACE-003).
    #[error("cloud provider {0:?} does not support instances")]
    NoInstances(String),
    /// Providers claim the same nodes or Services, and nobody could say whose they are: all mistakes.
    #[error("{}", .0.join("; "))]
    Contradiction(Vec<String>),
}

/// A provider, and what is its own.
#[derive(Clone)]
pub struct Provided {
    /// The provider. Its name is what is written down as the owner of nodes and Services.
    pub cloud: Arc<dyn CloudProvider>,
    /// Which nodes it may speak for.
    pub nodes: NodeClaim,
    /// What holds for its load balancers.
    pub service: ServiceRules,
}

impl Provided {
    /// Whether nothing has changed: the very same provider under the same rules.
    fn is_same(&self, other: &Provided) -> bool {
        Arc::ptr_eq(&self.cloud, &other.cloud)
            && self.nodes == other.nodes
            && self.service == other.service
    }
}

/// What was left when [`run`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing: every request has had its answer.
    Drained,
    /// Requests were still on the wire; what they did is not known.
    OnTheWire,
}

/// Runs the controllers of one provider until `shutdown` ends, and then waits at most `settings.drain` for what is on
/// the wire.
///
/// # Assumptions
/// `client` repeats nothing by itself: `kube::Config::default_retry` is off. It is on by default, and a
/// repeated request could begin after the lease is lost. Failed requests are repeated here, after a new
/// decision.
///
/// # Guarantees
/// An API server that is away, at the start or in the middle, ends nothing: watches and writes come
/// back with growing delays. One reconciliation that panics takes no other with it.
///
/// # Errors
/// See [`RunError`].
pub async fn run(
    client: Client,
    provider: Arc<dyn CloudProvider>,
    settings: Settings,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Stopped, RunError> {
    let provided = Provided {
        cloud: provider,
        nodes: NodeClaim::default(),
        service: settings.service.rules.clone(),
    };
    // Whoever could change it is here until the end.
    let (_kept, provided) = tokio::sync::watch::channel(Arc::from([provided]));
    run_all(client, provided, settings, metrics, shutdown).await
}
