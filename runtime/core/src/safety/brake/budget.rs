//! Sliding-window budgets: the spent part of an allowance, and the rest. The caller supplies the current time.

use std::collections::VecDeque;

use super::{Allowance, Rise};
use crate::moment::Moment;

/// The spent part of one allowance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    allowance: Allowance,
    /// When each change was taken, oldest first.
    spent: VecDeque<Moment>,
}

/// How full a budget is at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLevel {
    /// Changes taken in the window that ends now.
    pub taken: usize,
    /// Changes allowed per window.
    pub allowed: usize,
}

/// Whether a change is available from two budgets; otherwise the moment at which it is available from both.
pub(super) fn both(one: Result<(), Moment>, other: Result<(), Moment>) -> Result<(), Moment> {
    match (one, other) {
        (Ok(()), other) => other,
        (one, Ok(())) => one,
        (Err(one), Err(other)) => Err(one.max(other)),
    }
}

impl Budget {
    /// A budget with nothing spent.
    pub fn new(allowance: Allowance) -> Budget {
        Budget::restore(allowance, std::iter::empty())
    }

    /// A budget with these changes already spent, in any order. Entries in the future, left by a wrong clock, count
    /// until their own window is over; the caller filters them out if it does not want that.
    pub fn restore(allowance: Allowance, spent: impl Iterator<Item = Moment>) -> Budget {
        let mut spent: Vec<_> = spent.collect();
        spent.sort_unstable();
        Budget {
            allowance,
            spent: spent.into(),
        }
    }

    /// When each change was taken, oldest first, as input for [`Budget::restore`]. May contain expired entries.
    pub fn spent(&self) -> impl Iterator<Item = Moment> + '_ {
        self.spent.iter().copied()
    }

    /// Takes one change, given `objects` objects of the kind and the current rise of the allowance.
    ///
    /// # Errors
    /// The budget is exhausted: the moment at which a change is available again without a further rise.
    /// [`Duration::MAX`](std::time::Duration::MAX) when the allowance is zero.
    pub fn take(&mut self, now: Moment, objects: usize, rise: Rise) -> Result<(), Moment> {
        self.expire(now);
        self.has_room(self.allowance.risen(objects, rise))?;
        self.spend(now);
        Ok(())
    }

    /// Drops expired entries. Returns whether there were some.
    pub(super) fn expire(&mut self, now: Moment) -> bool {
        let (window, before) = (self.allowance.window, self.spent.len());
        while self.spent.front().is_some_and(|at| at.after(window) <= now) {
            self.spent.pop_front();
        }
        self.spent.len() < before
    }

    /// Number of entries, with those that have expired since [`Budget::expire`].
    pub(super) fn entries(&self) -> usize {
        self.spent.len()
    }

    /// Whether a change is available if `most` are allowed. Expired entries are dropped before.
    ///
    /// # Errors
    /// The moment at which one is available; [`Duration::MAX`](std::time::Duration::MAX) if none is allowed.
    pub(super) fn has_room(&self, most: usize) -> Result<(), Moment> {
        if self.spent.len() < most {
            return Ok(());
        }
        // If fewer are allowed than before, more than one entry has to expire.
        let free = self.spent.get(self.spent.len() - most);
        let end = Moment(std::time::Duration::MAX);
        Err(free.map_or(end, |at| at.after(self.allowance.window)))
    }

    /// Adds an entry.
    pub(super) fn spend(&mut self, now: Moment) {
        // If the clock went back, the entry still does not sort before newer ones.
        let at = self.spent.back().map_or(now, |last| now.max(*last));
        self.spent.push_back(at);
    }

    /// How full the budget is, given `objects` objects of the kind.
    pub fn level(&self, now: Moment, objects: usize) -> BudgetLevel {
        let window = self.allowance.window;
        let counts = |at: &&Moment| at.after(window) > now;
        BudgetLevel {
            taken: self.spent.iter().filter(counts).count(),
            allowed: self.allowance.of(objects),
        }
    }
}
