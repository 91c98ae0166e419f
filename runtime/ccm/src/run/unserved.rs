//! Before any provider serves: no lease is held, because whoever leads without a provider keeps those from leading that
//! have one (EDGE-095). Where nobody leads at all, the lease is taken for a moment, again and again, so that what stands in the
//! way is written down where people look, and what they say about it is heard. Writes nothing itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ccm_controllers::Settings;
use ccm_core::permit::Mode;
use ccm_core::tenure::Tenure;

use super::leading::{Groups, Manager};
use super::{Stop, as_user};
use crate::leadership::{Leadership, Lock};

/// How long a provider has to start. Compiling and a first look at a registry take seconds.
const START: Duration = Duration::from_secs(20);
/// How long the lease is left alone before it is taken once more. Somebody may have approved the version that is offered
/// in the place of one that is lost.
const AGAIN: Duration = Duration::from_secs(30);
/// How long writing down takes at most: what is written down before is read first. What is begun meanwhile goes on.
const TELLING: Duration = Duration::from_secs(5);

impl Manager {
    /// Waits until a provider serves.
    ///
    /// # Errors
    /// No lease can be stood for at all.
    pub(super) async fn able_to_lead(&self, groups: &Groups, stop: Stop) -> anyhow::Result<()> {
        if self.provided.borrow().is_empty() {
            tracing::warn!("no provider serves yet, so no lease is stood for");
        }
        let mut wait = START;
        loop {
            tokio::select! {
                () = self.served() => return Ok(()),
                () = stop.clone().told() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
            if self.settings.mode == Mode::Enforce {
                self.tell_that_nothing_serves(groups, &stop).await?;
            }
            wait = AGAIN;
        }
    }

    /// Ends when a provider serves.
    async fn served(&self) {
        let mut provided = self.provided.clone();
        // The provider manager does not end before the process does.
        if provided
            .wait_for(|provided| !provided.is_empty())
            .await
            .is_err()
        {
            std::future::pending().await
        }
    }

    /// Lets the provider manager write down what stands in the way, unless somebody leads, who does so himself.
    async fn tell_that_nothing_serves(&self, groups: &Groups, stop: &Stop) -> anyhow::Result<()> {
        let Some((settings, last_words)) = groups.lease() else {
            let settings = Settings {
                tenure: Arc::new(Tenure::unlimited()),
                ..self.settings.clone()
            };
            self.lead_fleet(&settings, None)?;
            // It goes on leading.
            tokio::select! {
                () = self.served() => {}
                () = stop.clone().told() => {}
            }
            return Ok(());
        };
        let timing = settings.timing;
        let lock = Lock {
            config: as_user(&self.kubernetes, "/leader-election"),
            settings,
            last_words,
        };
        let mut leadership = Leadership::stand(lock, self.election_metrics.clone())?;
        let has_won = tokio::select! {
            won = leadership.won() => won.map(|_| true).context("cannot take part in the election")?,
            () = self.served() => false,
            () = stop.clone().told() => false,
            // Somebody renews it.
            () = tokio::time::sleep(timing.lease_duration * 2) => false,
        };
        if has_won {
            tracing::info!(
                "nobody leads: the lease is taken for a moment, to write down that no provider serves"
            );
            let settings = Settings {
                tenure: leadership.tenure(),
                ..self.settings.clone()
            };
            let unacknowledged = timing.lease_duration.saturating_sub(timing.renew_deadline);
            self.lead_fleet(&settings, Some(unacknowledged))?;
            tokio::select! {
                () = tokio::time::sleep(TELLING) => {}
                () = stop.clone().told() => {}
            }
            self.leadership_signal.give_back();
        }
        leadership.give_back().await;
        Ok(())
    }
}
