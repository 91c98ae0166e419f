//! One budget that many calls take from at the same time: that of all changes at one provider's cloud.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Allowance, Brake, Budget, BudgetLevel, Rise};
use crate::moment::Moment;

/// A [`Budget`] behind a lock that is held for a few instructions. It is about a number, not about a share: its
/// allowance is asked for no objects.
pub struct SharedBudget {
    brake: Brake,
    budget: Mutex<Budget>,
}

impl SharedBudget {
    /// A budget of which nothing is spent.
    pub fn new(brake: Brake, allowance: Allowance) -> SharedBudget {
        SharedBudget {
            brake,
            budget: Mutex::new(Budget::new(allowance)),
        }
    }

    /// Which brake it is.
    pub fn brake(&self) -> Brake {
        self.brake
    }

    /// Takes one change out.
    ///
    /// # Errors
    /// Nothing is left; the moment from which on there is something again.
    pub fn take(&self, now: Moment) -> Result<(), Moment> {
        self.budget().take(now, 0, Rise::NONE)
    }

    /// How full it is.
    pub fn standing(&self, now: Moment) -> BudgetLevel {
        self.budget().standing(now, 0)
    }

    /// Nothing that is done under this lock can panic half-way; a poisoned one is as good as any.
    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedBudget").field(&self.brake).finish()
    }
}
