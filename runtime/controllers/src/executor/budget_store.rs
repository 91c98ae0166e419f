//! Withdraws changes from the brakes' budgets, those of each provider and of the cluster. Decides only whether budget
//! is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::reconciliation::effect::{BudgetOutcome, ClusterError};
use ccm_core::safety::audit::BrakeState;
use ccm_core::safety::brake::{Allowances, Brake, ClusterBudgets, Objects, Rise, Spent};
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use ccm_core::status_report::{BrakeReport, HeldReport, Time};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use super::budget_lease::BudgetLease;
use super::request::stopping;
use crate::Settings;
use crate::activity::held_for_time;
use crate::clock::{Clock, boottime, wall};
use crate::metrics::Metrics;

/// The budgets' current balance.
struct Balance {
    budgets: ClusterBudgets,
    /// Number of withdrawals so far. Persisting number n also persists all earlier ones.
    taken: u64,
    /// The last attempt of each provider at each brake, for people.
    attempts: BTreeMap<(Brake, String), Attempt>,
}

/// An attempt to withdraw.
struct Attempt {
    /// Numbers of objects of that kind.
    objects: Objects,
    held: Option<HeldReport>,
}

/// Holds all budgets in memory and persists those that survive a restart.
pub(crate) struct BudgetStore {
    balance: Arc<Mutex<Balance>>,
    /// Locked during a write. Group commit: waiters usually find their withdrawal already persisted by an earlier
    /// writer, so that of many that arrive together only the first two write.
    budget_lease: AsyncMutex<BudgetLease>,
    /// Set once the budget lease has been read.
    is_restored: OnceCell<()>,
    allowances: Allowances,
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
        let allowances = settings.allowances.clone();
        let balance = Arc::new(Mutex::new(Balance {
            budgets: ClusterBudgets::new(&allowances),
            taken: 0,
            attempts: BTreeMap::new(),
        }));
        let (read, shown) = (Arc::downgrade(&balance), allowances.clone());
        settings.reports.activity.reads_brakes(move || {
            let balance = read.upgrade()?;
            Some(balance.lock().levels(&shown, clock))
        });
        BudgetStore {
            balance,
            budget_lease: AsyncMutex::new(BudgetLease::new(
                client,
                settings.budget_lease.clone(),
                settings.tenure.clone(),
            )),
            is_restored: OnceCell::new(),
            allowances,
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
    ) -> BudgetOutcome {
        let taken = self.try_take(provider, object, (brake, rise), objects);
        taken
            .await
            .map_or_else(BudgetOutcome::Failed, BudgetOutcome::Answered)
    }

    async fn try_take(
        &self,
        provider: &str,
        object: &str,
        (brake, rise): (Brake, Rise),
        objects: impl Fn() -> Objects,
    ) -> Result<Result<(), Moment>, ClusterError> {
        if self.mode != Mode::Enforce {
            // Outside enforce mode nothing is changed and nothing is spent: the plan shows what would happen
            // eventually.
            return Ok(Ok(()));
        }
        let mut is_kept = BudgetLease::keeps(brake);
        if is_kept {
            // Without the withdrawals of earlier processes, a write would delete them.
            is_kept = self.restore().await?;
            if !self.tenure.may_begin(boottime()) {
                return Err(stopping());
            }
        }
        let (number, spent) =
            match self.take_from_memory(provider, object, (brake, rise), objects()) {
                Ok(taken) => taken,
                Err(free) => return Ok(Err(free)),
            };
        if is_kept && let Err(error) = self.write_down(number).await {
            self.balance.lock().budgets.give_back(brake, &spent);
            return Err(error);
        }
        Ok(Ok(()))
    }

    /// Returns the last withdrawal of `provider`, whose change was refused for good or is not made, so that another change
    /// can use it. The next withdrawal persists this.
    pub(super) fn give_back(&self, provider: &str, brake: Brake) {
        self.balance.lock().budgets.refused(provider, brake);
    }

    /// Reads the withdrawals of earlier processes from the budget lease, once. Returns whether they are known: the Lease
    /// may be refused.
    async fn restore(&self) -> Result<bool, ClusterError> {
        let read = self.is_restored.get_or_try_init(|| async {
            let mut budget_lease = self.budget_lease.lock().await;
            let window = |brake| self.allowances.of(brake).window;
            let read = budget_lease.read(self.clock.both(), window).await;
            for (brake, spent) in read.map_err(Some)?.ok_or(None)? {
                self.balance.lock().budgets.restore(brake, spent);
            }
            Ok(())
        });
        match read.await {
            Ok(()) => Ok(true),
            Err(None) => Ok(false),
            Err(Some(error)) => Err(error),
        }
    }

    /// Persists all withdrawals so far, including the one with this number.
    async fn write_down(&self, number: u64) -> Result<(), ClusterError> {
        let mut budget_lease = self.budget_lease.lock().await;
        if budget_lease.has(number) {
            return Ok(());
        }
        let (budgets, taken) = {
            let balance = self.balance.lock();
            (balance.budgets.clone(), balance.taken)
        };
        let window = |brake| self.allowances.of(brake).window;
        let written = budget_lease.write(&budgets, taken, self.clock.both(), window);
        written.await
    }

    /// The state of a provider's budget, given its number of objects of that kind.
    pub(super) fn state(&self, provider: &str, brake: Brake, objects: usize) -> BrakeState {
        let now = self.clock.now();
        BrakeState {
            brake,
            level: self
                .balance
                .lock()
                .budgets
                .level(provider, brake, now, objects),
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
        let mut balance = self.balance.lock();
        let taken = balance.budgets.take(provider, brake, now, objects, rise);
        let held = taken.as_ref().err().map(|free| {
            let wait = self.clock.timer(now.until(*free));
            held_for_time(object, Duration::ZERO, wait)
        });
        let attempt = Attempt { objects, held };
        let before = balance
            .attempts
            .insert((brake, provider.to_owned()), attempt);
        if taken.is_err() {
            self.metrics.held(brake, provider);
            // Thousands of nodes may ask in turns; each has an Event of its own.
            match before.is_some_and(|before| before.held.is_some()) {
                true => tracing::debug!(%brake, provider, object, "the change is held, too"),
                false => {
                    tracing::warn!(%brake, provider, object, "the brake is engaged: the change is held");
                }
            }
        }
        let spent = taken?;
        balance.taken += 1;
        Ok((balance.taken, spent))
    }
}

impl Balance {
    fn levels(&self, allowances: &Allowances, clock: Clock) -> Vec<BrakeReport> {
        let now = clock.now();
        let level = |((brake, provider), attempt): (&(Brake, String), &Attempt)| {
            let Objects { own, all } = attempt.objects;
            let level = self.budgets.level(provider, *brake, now, own);
            let all = self.budgets.level_of_all(*brake, now, all);
            let held = attempt.held.clone();
            BrakeReport {
                is_spent_by_all: all.taken >= all.allowed,
                held: held.filter(|held| held.is_waiting(Time(wall()))),
                ..BrakeReport::new(*brake, provider, level, allowances.of(*brake).window)
            }
        };
        let levels = self.attempts.iter().map(level);
        levels
            .filter(|level| level.taken > 0 || level.held.is_some())
            .collect()
    }
}

#[cfg(test)]
mod tests;
