//! Speaks Kubernetes: watches, asks `ccm-core` what to do, and performs it. Knows nothing of Wasm.
//!
//! ```text
//! watch ──► node ──► reconcile ──decide──► core
//!            ▲          │  ▲
//!            └─ when ───┘  └─ outcome ── perform ──► API server, CloudProvider (through batch)
//! ```
//!
//! `perform` is the door: the only module that writes to the cluster and the only one that calls a
//! [`CloudProvider`]. `clock` is the only one that reads a clock.
#![forbid(unsafe_code)]

mod batch;
mod clock;
mod metrics;
mod node;
mod perform;
mod pruned;
mod queue;
mod reconcile;
mod watch;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::CloudProvider;
use ccm_core::permit::Mode;
use ccm_core::settings::NodeSettings;
use ccm_core::tenure::Tenure;
use kube::Client;
use thiserror::Error;
use tokio::task::JoinSet;

pub use metrics::Metrics;

use perform::Door;

/// What all controllers of one leadership share.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of the node controller.
    pub node: NodeSettings,
    /// Whether writes are made.
    pub mode: Mode,
    /// How long one call of the provider may last.
    pub call_time: Duration,
    /// How long [`run`] waits, when told to stop, for what is on the wire.
    pub drain: Duration,
    /// Written by whoever renews the lease, and ended by [`run`] when it is told to stop. No cloud request and no
    /// request to the cluster begins outside of it.
    pub tenure: Arc<Tenure>,
}

/// Why the controllers could not run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The provider has no instances, so that there is nothing to do (IFACE-003).
    #[error("cloud provider {0:?} does not support instances")]
    NoInstances(String),
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
) -> Result<(), RunError> {
    if !provider.capabilities().instances {
        return Err(RunError::NoInstances(provider.name().to_owned()));
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
    let mut controller =
        node::NodeController::new(door, settings.node.clone(), watch::nodes(client));
    tokio::select! {
        () = controller.run() => {}
        () = shutdown => {}
    }
    settings.tenure.end();
    if tokio::time::timeout(settings.drain, controller.drain())
        .await
        .is_err()
    {
        tracing::warn!(
            drain = ?settings.drain,
            "stopped while requests were still on the wire; what they did is not known"
        );
    }
    Ok(())
}
