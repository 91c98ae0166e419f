//! Kubernetes controllers: watch, ask `ccm-core` for decisions and execute them. Knows nothing of Wasm.
//!
//! ```text
//! watch ──► providers ──► node, route, … ─────► reconcile ──decide──► core
//!           (one for all)  (one for each) ▲         │  ▲
//!                            └──── when ────────────┘  └─ outcome ── executor ─► API server, CloudProvider (look-ups
//!                                                                                 through batch)
//! ```
//!
//! Each provider has its own set of controllers, so that a slow or hostile provider delays no other; `cluster` holds
//! what they share. The node IPAM controller needs no provider and runs once.
//!
//! `executor` performs the effects: no other controller code calls a [`CloudProvider`] or writes to the cluster. `lease`
//! is separate: it writes the Lease under which all this happens, and Events about it. `clients` says which client each
//! controller acts with. `tenure_client` is the lowest layer: it refuses to send outside of the tenure, leads through a
//! proxy, and for controllers that have an identity of their own creates their ServiceAccounts and requests tokens. Only
//! `clock` reads a clock.
#![forbid(unsafe_code)]

pub mod activity;
pub mod api_error;
mod clients;
mod clock;
mod cluster;
mod controller;
mod controller_lifecycle;
mod executor;
#[cfg(test)]
pub mod fixtures;
mod heartbeat;
mod ipam;
pub mod lease;
mod lookup_batch;
mod metrics;
mod node;
mod node_lifecycle;
mod node_store;
mod plan;
mod provider_controllers;
mod providers;
mod pruned_objects;
mod queue;
mod reconcile;
mod rest_client;
mod route;
mod service;
pub mod tenure_client;
mod watch;
mod workers;

// `fixtures` names this crate as the suites do, which have the same file.
#[cfg(test)]
extern crate self as ccm_controllers;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud_provider::CloudProvider;
use ccm_core::node::ownership::NodeClaim;
use ccm_core::safety::audit::AuditSink;
use ccm_core::safety::brake::Allowances;
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use ccm_core::settings::{
    IpamSettings, LifecycleSettings, NodeSettings, RouteSettings, ServiceRules, ServiceSettings,
};
use thiserror::Error;

pub use activity::Activity;
pub use clients::Clients;
pub use clock::Pace;
pub use executor::LeaseName;
pub use heartbeat::Heartbeats;
pub use metrics::Metrics;
pub use plan::SharedPlan;
pub use providers::{contradictions, lacks_instances, run_all};
pub use rest_client::{RateLimit, RestClients};
pub use watch::with_response_timeout;

/// What the controllers report to probes and to the status page. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Reports {
    /// Shows whether the controllers hang.
    pub heartbeats: Heartbeats,
    /// Their last decisions, and the objects that wait.
    pub activity: Activity,
}

/// Settings shared by all controllers of all providers during one leadership.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The enabled controllers.
    pub controllers: Controllers,
    /// The node controller's settings, and those common to all controllers.
    pub node: NodeSettings,
    /// The node lifecycle controller's settings.
    pub lifecycle: LifecycleSettings,
    /// The service controller's settings.
    pub service: ServiceSettings,
    /// The route controller's settings.
    pub route: RouteSettings,
    /// The node IPAM controller's settings. `None`: another component assigns pod CIDRs.
    pub ipam: Option<IpamSettings>,
    /// `--brake`: the budgets for dangerous changes.
    pub allowances: Allowances,
    /// The Lease that persists spent budgets across restarts. `None`: they are lost.
    pub budget_lease: Option<LeaseName>,
    /// Receives every change at the cloud and every deletion of a node.
    pub audit: Arc<dyn AuditSink>,
    /// The changes that plan mode would make.
    pub plan: SharedPlan,
    /// Enforce, plan or observe: whether writes are made.
    pub mode: Mode,
    /// The controllers' reports to probes and to the status page.
    pub reports: Reports,
    /// Speed of the decision clock.
    pub pace: Pace,
    /// Longest duration of one provider call, its wait included. A provider may end its calls earlier.
    pub call_time: Duration,
    /// How long [`run_all`] waits at shutdown for requests in flight.
    pub drain: Duration,
    /// Renewed by the lease holder; ended by [`run_all`] at shutdown. No request to the cloud or the cluster begins
    /// outside of it.
    pub tenure: Arc<Tenure>,
}

/// The set of enabled controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controllers {
    /// `cloud-node-controller`.
    pub node: bool,
    /// `cloud-node-lifecycle-controller`.
    pub node_lifecycle: bool,
    /// `service-lb-controller`. Runs only for providers that support load balancers.
    pub service: bool,
    /// `node-route-controller`. Runs only for providers that support routes, and if the pod networks are known.
    pub route: bool,
    /// `node-ipam-controller`. Runs only if it has settings.
    pub node_ipam: bool,
}

impl Controllers {
    /// All controllers.
    pub const ALL: Controllers = Controllers {
        node: true,
        node_lifecycle: true,
        service: true,
        route: true,
        node_ipam: true,
    };

    /// Whether an enabled controller needs the nodes' instances.
    fn need_instances(self) -> bool {
        self.node || self.node_lifecycle
    }

    /// Whether an enabled controller runs only for providers.
    fn need_providers(self) -> bool {
        self.need_instances() || self.service || self.route
    }
}

/// Why the controllers could not run.
#[derive(Debug, Error)]
pub enum RunError {
    /// An enabled controller needs instances, and no provider supports them (IFACE-003).
    #[error("cloud provider {0:?} does not support instances")]
    NoInstances(String),
    /// Providers claim the same nodes or Services without a rule that decides between them; lists all such mistakes.
    #[error("{}", .0.join("; "))]
    Contradiction(Vec<String>),
}

/// A provider with its own settings.
#[derive(Clone)]
pub struct Provided {
    /// The provider. Its name is recorded as the owner of nodes and Services.
    pub cloud: Arc<dyn CloudProvider>,
    /// The nodes that it may claim.
    pub nodes: NodeClaim,
    /// Rules for its load balancers.
    pub service: ServiceRules,
}

impl Provided {
    /// Whether both are the same provider object with equal settings.
    fn is_same(&self, other: &Provided) -> bool {
        Arc::ptr_eq(&self.cloud, &other.cloud)
            && self.nodes == other.nodes
            && self.service == other.service
    }
}

/// State at the end of [`run_all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Every request was answered.
    Drained,
    /// Requests were still in flight; their effect is unknown.
    OnTheWire,
}
