//! Handles the time before any provider serves. No lease is held, because a leader without a provider would block
//! processes that have one (EDGE-095). If there is no leader, the lease is repeatedly taken for a moment, so that the
//! obstacle is recorded for people and approvals are read. Writes nothing itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ccm_controllers::Settings;
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use tokio::sync::watch;

use super::Stop;
use super::leading::{Groups, Manager};
use crate::leadership::Leadership;

/// Time for a provider to start. Compiling and the first registry poll take seconds.
const START: Duration = Duration::from_secs(20);
/// Interval between two attempts to take the lease. Meanwhile the version offered as a replacement for a lost one may
/// have been approved.
const AGAIN: Duration = Duration::from_secs(30);
/// Time limit for recording, which first reads the existing record. Work started meanwhile continues.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

impl Manager {
    /// Waits until a provider serves.
    ///
    /// # Errors
    /// The process cannot take part in an election.
    pub(super) async fn able_to_lead(&self, groups: &Groups, stop: Stop) -> anyhow::Result<()> {
        if self.provided.borrow().is_empty() {
            tracing::warn!(
                "no provider serves yet, so this process is not a candidate for the Lease"
            );
        }
        let mut wait = START;
        loop {
            tokio::select! {
                () = self.served() => return Ok(()),
                () = stop.clone().requested() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
            if self.settings.mode == Mode::Enforce {
                self.record_unserved(groups, &stop).await?;
            }
            wait = AGAIN;
        }
    }

    /// Completes when a provider serves.
    async fn served(&self) {
        let mut provided = self.provided.clone();
        // The provider manager lives as long as the process.
        if provided
            .wait_for(|provided| !provided.is_empty())
            .await
            .is_err()
        {
            std::future::pending().await
        }
    }

    /// Lets the provider manager record the obstacle, unless another process leads, which does so itself.
    async fn record_unserved(&self, groups: &Groups, stop: &Stop) -> anyhow::Result<()> {
        let Some(lease) = groups.lease() else {
            let settings = Settings {
                tenure: Arc::new(Tenure::unlimited()),
                ..self.settings.clone()
            };
            self.lead_providers(&settings, None)?;
            // Leadership is kept.
            tokio::select! {
                () = self.served() => {}
                () = stop.clone().requested() => {}
            }
            return Ok(());
        };
        let timing = lease.settings.timing;
        let lock = self.lock(lease, watch::Sender::default());
        // No leader for whoever looks at the metrics: nothing is done for nodes and Services meanwhile.
        let mut leadership = Leadership::start(lock, self.election_metrics.of_a_standby())?;
        let has_won = tokio::select! {
            won = leadership.won() => won.map(|_| true).context("cannot take part in the election")?,
            () = self.served() => false,
            () = stop.clone().requested() => false,
            // Another process renews the lease.
            () = tokio::time::sleep(timing.lease_duration * 2) => false,
        };
        if has_won {
            tracing::info!(
                "no leader: taking the Lease briefly to record that no provider is serving"
            );
            let settings = Settings {
                tenure: leadership.tenure(),
                ..self.settings.clone()
            };
            self.lead_providers(&settings, Some(timing.unacknowledged()))?;
            tokio::select! {
                () = tokio::time::sleep(RECORD_TIMEOUT) => {}
                () = stop.clone().requested() => {}
            }
            self.leadership_signal.give_back().await;
        }
        leadership.give_back().await;
        Ok(())
    }
}
