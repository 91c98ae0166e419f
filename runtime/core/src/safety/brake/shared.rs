//! One budget that concurrent calls take from: that of all changes at one provider's cloud.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Allowance, Brake, Budget, BudgetLevel, Rise};
use crate::moment::Moment;

/// A [`Budget`] behind a lock that is held for a few instructions. It has a fixed number, no percentage: its allowance
/// is computed for zero objects.
pub struct SharedBudget {
    brake: Brake,
    budget: Mutex<Budget>,
}

impl SharedBudget {
    /// A budget with nothing spent.
    pub fn new(brake: Brake, allowance: Allowance) -> SharedBudget {
        SharedBudget {
            brake,
            budget: Mutex::new(Budget::new(allowance)),
        }
    }

    /// The brake of this budget.
    pub fn brake(&self) -> Brake {
        self.brake
    }

    /// Takes one change.
    ///
    /// # Errors
    /// The budget is exhausted: the moment at which a change is available again.
    pub fn take(&self, now: Moment) -> Result<(), Moment> {
        self.budget().take(now, 0, Rise::NONE)
    }

    /// How full the budget is.
    pub fn level(&self, now: Moment) -> BudgetLevel {
        self.budget().level(now, 0)
    }

    /// No code under this lock can panic halfway, so a poisoned lock is used like any other.
    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedBudget").field(&self.brake).finish()
    }
}
