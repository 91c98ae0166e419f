//! What all providers of a cluster have spent, and what is left for each of them: a provider has its own budget, and all
//! of them together have one, too. Two providers that are wrong on the same day, or one that is configured as ten, do
//! not delete more of a cluster than one may.

use std::collections::BTreeMap;

use super::{Allowances, Brake, Budget, BudgetLevel, Rise};
use crate::moment::Moment;

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterBudgets {
    allowances: Allowances,
    spent: BTreeMap<Brake, Vec<Spent>>,
}

/// One change that was taken out of the budgets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spent {
    /// When.
    pub at: Moment,
    /// By which provider. `None`, where that was not written down: it counts for each of them.
    pub by: Option<String>,
}

/// How many objects there are of the kind that a brake's share is taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objects {
    /// The provider's own.
    pub own: usize,
    /// Of the whole cluster.
    pub all: usize,
}

impl ClusterBudgets {
    /// Budgets of which nothing is spent. Each provider has this allowance, and so has the cluster.
    pub fn new(allowances: &Allowances) -> ClusterBudgets {
        ClusterBudgets {
            allowances: allowances.clone(),
            spent: BTreeMap::new(),
        }
    }

    /// Takes one change of `provider` out of its budget and the cluster's. Says what is spent by it.
    ///
    /// # Errors
    /// Nothing is left in one of them, and nothing was taken; the moment from which on there is something again.
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
        let taken = (own, all.take(now, objects.all, rise));
        match taken {
            (Ok(()), Ok(())) => {}
            (Err(free), Ok(())) | (Ok(()), Err(free)) => return Err(free),
            (Err(one), Err(other)) => return Err(one.max(other)),
        }
        // What is free again is not kept.
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

    /// One change of `provider` was taken last, and was refused for good: nothing comes of it.
    pub fn refused(&mut self, provider: &str, brake: Brake) {
        let is_theirs = |one: &&Spent| one.by.as_deref() == Some(provider);
        if let Some(last) = self.spent(brake).iter().rfind(is_theirs).cloned() {
            self.give_back(brake, &last);
        }
    }

    /// This was taken, and nothing comes of it.
    pub fn give_back(&mut self, brake: Brake, taken: &Spent) {
        let spent = self.spent.entry(brake).or_default();
        if let Some(place) = spent.iter().rposition(|one| one == taken) {
            spent.remove(place);
        }
    }

    /// How full a provider's budget is.
    pub fn standing(
        &self,
        provider: &str,
        brake: Brake,
        now: Moment,
        objects: usize,
    ) -> BudgetLevel {
        self.of_provider(provider, brake).standing(now, objects)
    }

    /// What was spent of this brake, oldest first. May hold some that are free again.
    pub fn spent(&self, brake: Brake) -> &[Spent] {
        self.spent.get(&brake).map_or(&[], Vec::as_slice)
    }

    /// This was spent of this brake; in place of what is known now.
    pub fn restore(&mut self, brake: Brake, mut spent: Vec<Spent>) {
        spent.sort_unstable();
        let old = spent.len().saturating_sub(self.allowances.of(brake).kept());
        self.spent.insert(brake, spent.split_off(old));
    }

    fn of_provider(&self, provider: &str, brake: Brake) -> Budget {
        let is_theirs = |one: &&Spent| one.by.as_deref().is_none_or(|by| by == provider);
        let theirs = self.spent(brake).iter().filter(is_theirs);
        Budget::restore(self.allowances.of(brake), theirs.map(|one| one.at))
    }

    fn of_all(&self, brake: Brake) -> Budget {
        let all = self.spent(brake).iter();
        Budget::restore(self.allowances.of(brake), all.map(|one| one.at))
    }
}
