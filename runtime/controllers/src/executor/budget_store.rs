//! Withdraws changes from the brakes' budgets, those of each provider and of the cluster. Decides only whether budget
//! is left.

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

/// The budgets' current balance.
struct Balance {
    budgets: ClusterBudgets,
    /// Number of withdrawals so far. Persisting number n also persists all earlier ones.
    taken: u64,
}

/// Holds all budgets in memory and persists those that survive a restart.
pub(crate) struct BudgetStore {
    account: StdMutex<Balance>,
    /// Locked during a write. Group commit: waiters usually find their withdrawal already persisted by an earlier
    /// writer, so that of many that arrive together only the first two write.
    budget_lease: Mutex<BudgetLease>,
    /// Set once the budget lease was read.
    is_restored: OnceCell<()>,
    clock: Clock,
    mode: Mode,
    tenure: Arc<Tenure>,
    metrics: Metrics,
}

impl BudgetStore {
    /// Creates budgets from which only the budget lease's withdrawals are spent.
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

    /// Withdraws one change of `object` from the budgets, for `provider`; `objects` counts the objects of that kind.
    /// Persists the withdrawal first if the brake's budget survives restarts.
    pub(super) async fn take(
        &self,
        provider: &str,
        object: &str,
        (brake, rise): (Brake, Rise),
        objects: impl Fn() -> Objects,
    ) -> Outcome {
        if self.mode != Mode::Enforce {
            // Outside enforce mode nothing is changed and nothing is spent: the plan shows what would happen
            // eventually.
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

    /// Returns the last withdrawal of `provider` after its change was refused for good, so that another change can use
    /// it. The next withdrawal persists this.
    pub(super) fn refused(&self, provider: &str, brake: Brake) {
        locked(&self.account).budgets.refused(provider, brake);
    }

    /// Reads the withdrawals of earlier processes from the budget lease, once.
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

    /// Persists all withdrawals so far, including the one with this number.
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

    /// The state of a provider's budget, given its number of objects of that kind.
    pub(super) fn state(&self, provider: &str, brake: Brake, objects: usize) -> BrakeState {
        let now = self.clock.now();
        BrakeState {
            brake,
            standing: locked(&self.account)
                .budgets
                .standing(provider, brake, now, objects),
        }
    }

    /// Withdraws in memory; returns the withdrawal's number and the withdrawal.
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
