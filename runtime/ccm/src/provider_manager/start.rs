//! The wait for the providers' first outcomes at a start. One that is slow to come does not delay the others for long.

use std::time::Duration;

use ccm_core::cloud_provider::CloudProvider as _;
use ccm_delivery::active::Active;
use ccm_delivery::rollout_controller::Served;
use ccm_delivery::source::Location;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;

/// How long a start waits for the other providers once one serves.
pub(super) const OTHERS: Duration = Duration::from_secs(20);

/// Waits for the first outcome of a provider's start; returns whether it serves.
pub(super) async fn serves(mut served: watch::Receiver<Served>) -> bool {
    let has_outcome = |served: &Served| !matches!(served, Served::Starting);
    // The sender lives in the rollout controller, which ends with the instance.
    let first = served.wait_for(has_outcome).await;
    first.is_ok_and(|first| matches!(*first, Served::Serving(_)))
}

/// Waits for all of these; after the first one that is true, at most [`OTHERS`] longer.
pub(super) async fn wait_for_outcomes(outcomes: impl Iterator<Item = impl Future<Output = bool>>) {
    let mut outcomes: FuturesUnordered<_> = outcomes.collect();
    while let Some(serves) = outcomes.next().await {
        if serves {
            let others = outcomes.for_each(|_| std::future::ready(()));
            // The others come later.
            let _ = tokio::time::timeout(OTHERS, others).await;
            return;
        }
    }
}

/// Logs which version of a provider serves.
pub(super) fn introduce(active: &Active, source: &Location) {
    let serving = active.serving();
    let provider = &serving.provider;
    let manifest = provider.manifest();
    tracing::info!(provider = active.name(), version = manifest.version, digest = %provider.digest(), module = %source, "provider loaded");
    for warning in provider.warnings() {
        tracing::warn!(provider = active.name(), "{warning}");
    }
}
