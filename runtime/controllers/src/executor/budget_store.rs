//! Taking changes out of the brakes' budgets, each provider's and the cluster's. Decides nothing but whether there is
//! something left.

use std::sync::{Arc, Mutex as StdMutex};

use ccm_core::audit::BrakeState;
use ccm_core::brake::{Brake, ClusterBudgets, Objects, Rise, Spent};
use ccm_core::effect::{ClusterError, Outcome};
use ccm_core::moment::Moment;
use ccm_core::permit::Mode;
use ccm_core::tenure::Tenure;
use kube::Client;
use tokio::sync::{Mutex, OnceCell};

use super::budget_lease::BudgetLease;
use super::request::stopping;
use crate::Settings;
use crate::clock::{Clock, boottime};
use crate::cluster::locked;
use crate::metrics::Metrics;

/// What was spent.
struct Balance {
    budgets: ClusterBudgets,
    /// How often something was taken: what is written down then has every earlier one.
    taken: u64,
}

/// See the module's documentation.
pub(crate) struct BudgetStore {
    account: StdMutex<Balance>,
    /// Held while something is written down. Whoever waits for it finds, as a rule, that somebody else has written what
    /// he took, too: of many that come together only the first two write.
    budget_lease: Mutex<BudgetLease>,
    /// What the budget lease said at the beginning is known.
    is_restored: OnceCell<()>,
    clock: Clock,
    mode: Mode,
    tenure: Arc<Tenure>,
    metrics: Metrics,
}

impl BudgetStore {
    /// Budgets of which nothing is spent but what the budget lease says.
    pub(crate) fn new(
        client: Client,
        settings: &Settings,
        clock: Clock,
        metrics: Metrics,
    ) -> BudgetStore {
        let allowances = &settings.node.rules.allowances;
        BudgetStore {
            account: StdMutex::new(Balance {
                budgets: ClusterBudgets::new(allowances),
                taken: 0,
            }),
            budget_lease: Mutex::new(BudgetLease::new(
                client,
                settings.budget_lease.clone(),
                settings.tenure.clone(),
            )),
            is_restored: OnceCell::new(),
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
        (brake, rise): (Brake, Rise),
        objects: impl Fn() -> Objects,
    ) -> Outcome {
        if self.mode != Mode::Enforce {
            // Nothing is done, so nothing is spent: what is reported is what would be done in the end.
            return Outcome::Budget(Ok(()));
        }
        if !BudgetLease::keeps(brake) {
            let taken = self.take_from_memory(provider, object, (brake, rise), objects());
            return Outcome::Budget(taken.map(|_| ()));
        }
        if let Err(error) = self.restore().await {
            return Outcome::Node(Err(error));
        }
        if !self.tenure.may_begin(boottime()) {
            return Outcome::Node(Err(stopping()));
        }
        match self.take_from_memory(provider, object, (brake, rise), objects()) {
            Ok((number, spent)) => match self.write_down(number).await {
                Ok(()) => Outcome::Budget(Ok(())),
                Err(error) => {
                    locked(&self.account).budgets.give_back(brake, &spent);
                    Outcome::Node(Err(error))
                }
            },
            Err(free) => Outcome::Budget(Err(free)),
        }
    }

    /// What a change of `provider` has taken last was refused for good: somebody else may have it. It is written down with
    /// what is taken next.
    pub(super) fn refused(&self, provider: &str, brake: Brake) {
        locked(&self.account).budgets.refused(provider, brake);
    }

    /// What was spent before this process began is known afterwards.
    async fn restore(&self) -> Result<(), ClusterError> {
        let read = self.is_restored.get_or_try_init(|| async {
            let mut budget_lease = self.budget_lease.lock().await;
            for (brake, spent) in budget_lease.read(self.clock.both()).await? {
                locked(&self.account).budgets.restore(brake, spent);
            }
            Ok(())
        });
        read.await.copied()
    }

    /// What was taken so far, the one with this number included, is written down afterwards.
    async fn write_down(&self, number: u64) -> Result<(), ClusterError> {
        let mut budget_lease = self.budget_lease.lock().await;
        if budget_lease.has(number) {
            return Ok(());
        }
        let (budgets, taken) = {
            let account = locked(&self.account);
            (account.budgets.clone(), account.taken)
        };
        budget_lease.write(&budgets, taken, self.clock.both()).await
    }

    /// How full a provider's budget is, where it has so many objects of the kind.
    pub(super) fn state(&self, provider: &str, brake: Brake, objects: usize) -> BrakeState {
        let now = self.clock.now();
        BrakeState {
            brake,
            standing: locked(&self.account)
                .budgets
                .standing(provider, brake, now, objects),
        }
    }

    /// Says which taking it was, and what is spent by it.
    fn take_from_memory(
        &self,
        provider: &str,
        object: &str,
        (brake, rise): (Brake, Rise),
        objects: Objects,
    ) -> Result<(u64, Spent), Moment> {
        let now = self.clock.now();
        let mut account = locked(&self.account);
        let taken = account.budgets.take(provider, brake, now, objects, rise);
        if taken.is_err() {
            self.metrics.held(brake, provider);
            tracing::warn!(%brake, provider, object, "the brake is engaged: the change is held");
        }
        let spent = taken?;
        account.taken += 1;
        Ok((account.taken, spent))
    }
}

#[cfg(test)]
mod tests;
