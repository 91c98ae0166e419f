//! Speaks Kubernetes: watches, asks `ccm-core` what to do, and performs it. Knows nothing of Wasm.
//!
//! ```text
//! watch ──► node, service ──► reconcile ──decide──► core
//!            ▲                    │  ▲
//!            └───── when ─────────┘  └─ outcome ── perform ──► API server, CloudProvider (look-ups through batch)
//! ```
//!
//! `perform` is the door: the only module that writes to the cluster and the only one that calls a
//! [`CloudProvider`]. `lease` stands apart: it holds the Lease under which all this is done, and writes nothing
//! else. `guarded` refuses, below everything, what is written outside of it. `clock` is the only one that reads a
//! clock.
#![forbid(unsafe_code)]

mod batch;
mod clock;
pub mod guarded;
pub mod lease;
mod metrics;
mod node;
mod node_lifecycle;
mod perform;
mod plan;
mod pruned;
mod queue;
mod reconcile;
mod service;
mod watch;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::audit::AuditSink;
use ccm_core::cloud::CloudProvider;
use ccm_core::names::SERVICE_CONTROLLER;
use ccm_core::permit::Mode;
use ccm_core::settings::{LifecycleSettings, NodeSettings, ServiceSettings};
use ccm_core::tenure::Tenure;
use kube::Client;
use thiserror::Error;
use tokio::task::JoinSet;

pub use clock::Pace;
pub use metrics::Metrics;
pub use perform::LeaseName;
pub use plan::PlanBook;

use perform::Door;

/// What all controllers of one leadership share.
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
    /// The Lease in which spent budgets are written down, so that they outlive a restart. `None`: they do not.
    pub ledger: Option<LeaseName>,
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
    /// `service-lb-controller`. It runs only where the provider makes load balancers.
    pub service: bool,
}

impl Controllers {
    /// All of them.
    pub const ALL: Controllers = Controllers {
        node: true,
        node_lifecycle: true,
        service: true,
    };

    /// Whether one of them asks about nodes' machines.
    fn need_instances(self) -> bool {
        self.node || self.node_lifecycle
    }
}

/// Why the controllers could not run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The provider has no instances, and a controller was asked for that needs them (IFACE-003).
    #[error("cloud provider {0:?} does not support instances")]
    NoInstances(String),
}

/// What was left when [`run`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing: every request has had its answer.
    Drained,
    /// Requests were still on the wire; what they did is not known.
    OnTheWire,
}

/// Runs the controllers until `shutdown` ends, and then waits at most `settings.drain` for what is on
/// the wire.
///
/// # Assumptions
/// `client` repeats nothing by itself: `kube::Config::default_retry` is off. It is on by default, and a
/// repeated request could begin after the lease is lost. Failed requests are repeated here, after a new
/// decision.
///
/// # Guarantees
/// An API server that is away, at the start or in the middle, ends nothing: watches and writes come
/// back with growing delays. One conversation that panics takes no other with it.
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
    let capabilities = provider.capabilities();
    if settings.controllers.need_instances() && !capabilities.instances {
        return Err(RunError::NoInstances(provider.name().to_owned()));
    }
    let serves = settings.controllers.service && capabilities.load_balancer;
    if settings.controllers.service && !serves {
        // IFACE-004; no mistake of anybody's, as most providers have none.
        tracing::info!(
            controller = SERVICE_CONTROLLER,
            "not started: the cloud provider does not support external load balancers"
        );
    }
    // Whatever is in here is aborted when this function returns.
    let mut background = JoinSet::new();
    let door = Arc::new(Door::new(
        client.clone(),
        provider,
        settings.clone(),
        metrics,
        &mut background,
    ));
    let planner = door.planner();
    planner.expect_passes(usize::from(settings.controllers.need_instances()) + usize::from(serves));
    let (news, said) = service::node_news();
    let nodes = watch::nodes(client.clone(), serves.then_some(news));
    let mut services = serves.then(|| {
        let targets = service::NodeSet::new(nodes.store.clone(), said, &settings.service);
        let changes = watch::services(client);
        service::ServiceController::new(door.clone(), settings.service.clone(), changes, targets)
    });
    let mut lifecycle = node_lifecycle::NodeLifecycleController::new(
        door.clone(),
        settings.lifecycle.clone(),
        nodes.store.clone(),
        !settings.controllers.node,
    );
    // It also keeps the store true that the others look at.
    let mut node = node::NodeController::new(
        door,
        settings.node.clone(),
        settings.controllers.node,
        nodes,
    );
    let serving = async {
        match &mut services {
            Some(services) => services.run().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = node.run() => {}
        () = serving => {}
        () = lifecycle.run(), if settings.controllers.node_lifecycle => {}
        () = shutdown => {}
    }
    settings.tenure.end();
    planner.sum_up();
    let drained = async {
        node.drain().await;
        lifecycle.drain().await;
        if let Some(services) = &mut services {
            services.drain().await;
        }
    };
    if tokio::time::timeout(settings.drain, drained).await.is_err() {
        tracing::warn!(
            drain = ?settings.drain,
            "stopped while requests were still on the wire; what they did is not known"
        );
        return Ok(Stopped::OnTheWire);
    }
    Ok(Stopped::Drained)
}
