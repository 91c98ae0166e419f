//! What was spent of an allowance, and what is left. Whoever asks says what time it is.

use std::collections::{BTreeMap, VecDeque};

use super::{Allowance, Allowances, Brake, Rise};
use crate::moment::Moment;

/// What was spent of one allowance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    allowance: Allowance,
    /// Oldest first.
    spent: VecDeque<Moment>,
}

/// How full a budget was at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLevel {
    /// Taken in the window that ends now.
    pub taken: usize,
    /// What the window may have.
    pub allowed: usize,
}

impl Budget {
    /// A budget of which nothing is spent.
    pub fn new(allowance: Allowance) -> Budget {
        Budget::restore(allowance, std::iter::empty())
    }

    /// A budget of which this was spent before, in any order. What lies ahead of now, after a clock that was
    /// wrong, counts until its own window is over; whoever does not want that leaves it out.
    pub fn restore(allowance: Allowance, spent: impl Iterator<Item = Moment>) -> Budget {
        let mut spent: Vec<_> = spent.collect();
        spent.sort_unstable();
        let old = spent.len().saturating_sub(allowance.kept());
        Budget {
            allowance,
            spent: spent.into_iter().skip(old).collect(),
        }
    }

    /// When each change was taken, oldest first: what [`Budget::restore`] takes. May hold some that are free again.
    pub fn spent(&self) -> impl Iterator<Item = Moment> + '_ {
        self.spent.iter().copied()
    }

    /// Takes one change out, where there are `objects` objects of the kind and the allowance has risen so far.
    ///
    /// # Errors
    /// Nothing is left; the moment from which on there is something again without a further rise. It is the end of time
    /// when the allowance is zero.
    pub fn take(&mut self, now: Moment, objects: usize, rise: Rise) -> Result<(), Moment> {
        let window = self.allowance.window;
        while self.spent.front().is_some_and(|at| at.after(window) <= now) {
            self.spent.pop_front();
        }
        let most = self.allowance.of(objects).saturating_mul(rise.times());
        if self.spent.len() < most {
            // A clock that went back does not put it in front of what is younger.
            let at = self.spent.back().map_or(now, |last| now.max(*last));
            self.spent.push_back(at);
            return Ok(());
        }
        // With fewer objects than before, more than one has to become free.
        let blocking = self.spent.len() - most;
        let free = self.spent.get(blocking);
        Err(free.map_or(Moment(std::time::Duration::MAX), |at| at.after(window)))
    }

    /// What was taken last was refused for good.
    pub fn give_back(&mut self) {
        self.spent.pop_back();
    }

    /// How full it is, where there are `objects` objects of the kind.
    pub fn standing(&self, now: Moment, objects: usize) -> BudgetLevel {
        let window = self.allowance.window;
        let counts = |at: &&Moment| at.after(window) > now;
        BudgetLevel {
            taken: self.spent.iter().filter(counts).count(),
            allowed: self.allowance.of(objects),
        }
    }
}

/// One budget for each brake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    allowances: Allowances,
    budgets: BTreeMap<Brake, Budget>,
}

impl Budgets {
    /// Budgets of which nothing is spent.
    pub fn new(allowances: &Allowances) -> Budgets {
        Budgets {
            allowances: allowances.clone(),
            budgets: BTreeMap::new(),
        }
    }

    /// The budget of one brake.
    pub fn of(&mut self, brake: Brake) -> &mut Budget {
        let allowance = self.allowances.of(brake);
        let budget = self.budgets.entry(brake);
        budget.or_insert_with(|| Budget::new(allowance))
    }

    /// Of this brake, this was spent before the process began; in place of what is known now.
    pub fn restore(&mut self, brake: Brake, spent: impl Iterator<Item = Moment>) {
        let budget = Budget::restore(self.allowances.of(brake), spent);
        self.budgets.insert(brake, budget);
    }
}
