//! Runs the real controllers in a test.

use std::sync::Arc;

use ccm_controllers::{Clients, Metrics, Provided, RunError, Settings, Stopped, run_all};
use ccm_core::cloud::CloudProvider;
use ccm_core::node_ownership::NodeClaim;

/// Runs the controllers of one provider, which may claim every node, until `shutdown` completes.
///
/// # Errors
/// See [`RunError`].
pub async fn run_one(
    client: impl Into<Clients>,
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
    // The sender is kept until the end, so that the channel stays open.
    let (_kept, provided) = tokio::sync::watch::channel(Arc::from([provided]));
    run_all(client, provided, settings, metrics, shutdown).await
}
