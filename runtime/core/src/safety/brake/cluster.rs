//! Budgets per provider and for the whole cluster. Each provider has its own budget, and all providers together have
//! one, too: two providers that are wrong on the same day, or one that is configured ten times, delete no more of a
//! cluster than one may.

use std::collections::BTreeMap;

use super::budget::both;
use super::{Allowances, Brake, Budget, BudgetLevel, Rise};
use crate::moment::Moment;

/// The spent entries of all providers, by brake. The budgets of a provider and of the cluster are computed from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterBudgets {
    allowances: Allowances,
    spent: BTreeMap<Brake, Vec<Spent>>,
}

/// One change that was taken from the budgets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spent {
    /// When it was taken.
    pub at: Moment,
    /// The provider that took it. `None` if that was not recorded: it then counts for every provider.
    pub by: Option<String>,
}

/// Number of objects of the kind that a brake's percentage applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objects {
    /// Objects of this provider.
    pub own: usize,
    /// Objects of the whole cluster.
    pub all: usize,
}

impl ClusterBudgets {
    /// Budgets with nothing spent. The allowances apply to each provider and to the cluster as a whole.
    pub fn new(allowances: &Allowances) -> ClusterBudgets {
        ClusterBudgets {
            allowances: allowances.clone(),
            spent: BTreeMap::new(),
        }
    }

    /// Takes one change from the budgets of `provider` and of the cluster. Returns the spent entry.
    ///
    /// # Errors
    /// At least one of the budgets is exhausted and nothing was taken: the moment at which a change is available again.
    pub fn take(
        &mut self,
        provider: &str,
        brake: Brake,
        now: Moment,
        objects: Objects,
        rise: Rise,
    ) -> Result<Spent, Moment> {
        let (mut own, mut all) = (self.of_provider(provider, brake), self.of_all(brake));
        let own = own.take(now, objects.own, rise);
        both(own, all.take(now, objects.all, rise))?;
        // Expired entries are dropped.
        let kept: Vec<Moment> = all.spent().collect();
        let oldest = kept.first().copied().unwrap_or(now);
        let spent = self.spent.entry(brake).or_default();
        spent.retain(|one| one.at >= oldest);
        let one = Spent {
            at: kept.last().copied().unwrap_or(now),
            by: Some(provider.to_owned()),
        };
        spent.push(one.clone());
        Ok(one)
    }

    /// Returns the newest entry of `provider`: that change was refused permanently, or is not made.
    pub fn refused(&mut self, provider: &str, brake: Brake) {
        let is_theirs = |one: &&Spent| one.by.as_deref() == Some(provider);
        if let Some(last) = self.entries(brake).iter().rfind(is_theirs).cloned() {
            self.give_back(brake, &last);
        }
    }

    /// Returns a taken change that was not made.
    pub fn give_back(&mut self, brake: Brake, taken: &Spent) {
        let spent = self.spent.entry(brake).or_default();
        if let Some(place) = spent.iter().rposition(|one| one == taken) {
            spent.remove(place);
        }
    }

    /// How full a provider's budget is.
    pub fn level(&self, provider: &str, brake: Brake, now: Moment, objects: usize) -> BudgetLevel {
        self.of_provider(provider, brake).level(now, objects)
    }

    /// How full the cluster's budget is, that of all providers together.
    pub fn level_of_all(&self, brake: Brake, now: Moment, objects: usize) -> BudgetLevel {
        self.of_all(brake).level(now, objects)
    }

    /// The newest spent entries of this brake, oldest first: those that can count after a restart. May contain expired
    /// entries.
    pub fn spent(&self, brake: Brake) -> &[Spent] {
        let entries = self.entries(brake);
        let old = entries
            .len()
            .saturating_sub(self.allowances.of(brake).kept());
        entries.split_at(old).1
    }

    /// Adds the withdrawals of earlier processes.
    pub fn restore(&mut self, brake: Brake, mut spent: Vec<Spent>) {
        spent.extend(self.spent.remove(&brake).unwrap_or_default());
        spent.sort_unstable();
        let old = spent.len().saturating_sub(self.allowances.of(brake).kept());
        self.spent.insert(brake, spent.split_off(old));
    }

    fn entries(&self, brake: Brake) -> &[Spent] {
        self.spent.get(&brake).map_or(&[], Vec::as_slice)
    }

    fn of_provider(&self, provider: &str, brake: Brake) -> Budget {
        let is_theirs = |one: &&Spent| one.by.as_deref().is_none_or(|by| by == provider);
        let theirs = self.entries(brake).iter().filter(is_theirs);
        Budget::restore(self.allowances.of(brake), theirs.map(|one| one.at))
    }

    fn of_all(&self, brake: Brake) -> Budget {
        let all = self.entries(brake).iter();
        Budget::restore(self.allowances.of(brake), all.map(|one| one.at))
    }
}
