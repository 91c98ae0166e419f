//! Taking changes out of the brakes' budgets, each provider's and the cluster's. Decides nothing but whether there is
//! something left.

use std::sync::{Arc, Mutex as StdMutex};

use ccm_core::audit::BrakeState;
use ccm_core::brake::{Brake, ClusterBudgets, Objects};
use ccm_core::effect::Outcome;
use ccm_core::permit::Mode;
use ccm_core::tenure::Tenure;
use kube::Client;
use tokio::sync::Mutex;

use super::ledger::Ledger;
use super::request::stopping;
use crate::Settings;
use crate::clock::{Clock, boottime};
use crate::cluster::locked;
use crate::metrics::Metrics;

/// See the module's documentation.
pub(crate) struct Purse {
    budgets: StdMutex<ClusterBudgets>,
    /// Held from the moment a deletion's budget is asked for until it is written down.
    ledger: Mutex<Ledger>,
    clock: Clock,
    mode: Mode,
    tenure: Arc<Tenure>,
    metrics: Metrics,
}

impl Purse {
    /// Budgets of which nothing is spent but what the ledger says.
    pub(crate) fn new(
        client: Client,
        settings: &Settings,
        clock: Clock,
        metrics: Metrics,
    ) -> Purse {
        let allowances = &settings.node.rules.allowances;
        Purse {
            budgets: StdMutex::new(ClusterBudgets::new(allowances)),
            ledger: Mutex::new(Ledger::new(
                client,
                settings.ledger.clone(),
                settings.tenure.clone(),
            )),
            clock,
            mode: settings.mode,
            tenure: settings.tenure.clone(),
            metrics,
        }
    }

    /// Takes a change of `object` out of the budgets, for `provider`; `objects` counts the objects of the kind. What
    /// outlives a restart is written down first.
    pub(super) async fn take(
        &self,
        provider: &str,
        object: &str,
        brake: Brake,
        objects: impl Fn() -> Objects,
    ) -> Outcome {
        if self.mode != Mode::Enforce {
            // Nothing is done, so nothing is spent: what is reported is what would be done in the end.
            return Outcome::Budget(Ok(()));
        }
        if !Ledger::keeps(brake) {
            return Outcome::Budget(self.take_from_memory(provider, object, brake, objects()));
        }
        let mut ledger = self.ledger.lock().await;
        match ledger.read(self.clock.both()).await {
            Ok(spent) => {
                let mut budgets = locked(&self.budgets);
                for (brake, spent) in spent {
                    budgets.restore(brake, spent);
                }
            }
            Err(error) => return Outcome::Node(Err(error)),
        }
        if !self.tenure.may_begin(boottime()) {
            return Outcome::Node(Err(stopping()));
        }
        let before = locked(&self.budgets).spent(brake).to_vec();
        let taken = self.take_from_memory(provider, object, brake, objects());
        if taken.is_ok() {
            let after = locked(&self.budgets).clone();
            if let Err(error) = ledger.write(&after, self.clock.both()).await {
                // Nobody else takes from these: the ledger is locked.
                locked(&self.budgets).restore(brake, before);
                return Outcome::Node(Err(error));
            }
        }
        Outcome::Budget(taken)
    }

    /// How full a provider's budget is, where it has so many objects of the kind.
    pub(super) fn state(&self, provider: &str, brake: Brake, objects: usize) -> BrakeState {
        let now = self.clock.now();
        BrakeState {
            brake,
            standing: locked(&self.budgets).standing(provider, brake, now, objects),
        }
    }

    fn take_from_memory(
        &self,
        provider: &str,
        object: &str,
        brake: Brake,
        objects: Objects,
    ) -> Result<(), ccm_core::permit::Moment> {
        let taken = locked(&self.budgets).take(provider, brake, self.clock.now(), objects);
        if taken.is_err() {
            self.metrics.held(brake, provider);
            tracing::warn!(%brake, provider, object, "the brake is engaged: the change is held");
        }
        taken
    }
}
