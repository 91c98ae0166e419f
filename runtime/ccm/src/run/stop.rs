//! The request to end, by a signal or by what else ends the process in order. Ends nothing itself, except at a second
//! signal.

use std::sync::Arc;

use tokio::sync::watch;

use crate::exit::Exit;
use crate::termination_signals::TerminationSignals;

/// The request to end in order. Clones share it.
#[derive(Clone)]
pub(super) struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// Set by SIGTERM and SIGINT. A second of them ends the process at once, as in Kubernetes' own programs.
    ///
    /// # Errors
    /// The process cannot handle signals.
    pub(super) fn listen() -> anyhow::Result<Stop> {
        let mut signals = TerminationSignals::listen()?;
        let stop = Stop(Arc::default());
        let set = stop.clone();
        tokio::spawn(async move {
            signals.next().await;
            set.set("received a signal");
            signals.next().await;
            tracing::warn!("ending at once: received a second signal");
            std::process::exit(Exit::Failed.code().into());
        });
        Ok(stop)
    }

    /// Set when `over` completes as well: the time for the plan is over.
    pub(super) fn after(&self, over: impl Future<Output = ()> + Send + 'static) {
        let set = self.clone();
        tokio::spawn(async move {
            over.await;
            set.set("the time for the plan is over");
        });
    }

    fn set(&self, why: &str) {
        if !self.0.send_replace(true) {
            tracing::info!("stopping: {why}");
        }
    }

    /// Completes when the process has to end.
    pub(super) async fn requested(self) {
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(|is_set| *is_set).await;
    }
}
