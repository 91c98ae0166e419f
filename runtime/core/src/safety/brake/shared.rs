//! One budget that concurrent calls take from: that of all changes at one provider's cloud, in this process.
//!
//! Users decide about a part of these changes: whoever may edit a Service can have its load balancer changed without
//! end. So no object and no namespace gets all of a budget of at least four changes, and a part is kept for what nodes
//! and deletions require ([`BudgetShare`]).
//!
//! The allowance rises as that of the other brakes ([`Rise`]), but for all changes together: if it rose for each by
//! itself, those that were held would leave nothing to new ones. It rises with every four minutes after which changes
//! are still held, until two thirds of the first allowance are free. Only changes of objects count that have had none
//! in the window: whatever changes the same objects again and again is a loop, which the brake is to stop.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::budget::both;
use super::{Allowance, Brake, Budget, BudgetLevel, Rise};
use crate::moment::Moment;
use crate::safety::permit::LOAD_BALANCER_CHANGES;

/// How long a count of the objects serves. Counting reads thousands.
const COUNTED_FOR: Duration = Duration::from_secs(60);

/// What is held asks again within this time: the longest pause is half of it, and a call takes time, too.
const ASKS_AGAIN: Duration = Duration::from_secs(600);

/// The part of a shared budget that a change may use. An object's part does not rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetShare {
    /// All of it: deletions, which have brakes of their own, and what follows the nodes. One object gets half, and at
    /// least a quarter more than as [`Common`](Self::Common), but never the last quarter.
    Whole,
    /// Three quarters: what users can ask for at any time. A namespace gets two thirds of that. One object gets a third,
    /// or as many changes as one call may make, if its namespace has them: a call that cannot finish would leave a load
    /// balancer half changed, perhaps with all its targets removed.
    Common,
}

/// On whose account a change is made.
#[derive(Debug, Clone, Copy)]
pub struct Spender<'a> {
    /// The object that the change is for.
    pub object: &'a str,
    /// The object's namespace, if it has one.
    pub namespace: Option<&'a str>,
    /// The part of the budget that such a change may use.
    pub share: BudgetShare,
}

/// An object whose change was held, and that has had none since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSpender {
    /// The object.
    pub object: String,
    /// When the change was held.
    pub at: Moment,
    /// When to ask again.
    pub free: Moment,
}

/// A [`Budget`] behind a lock. It is held for a few instructions, unless changes have expired: then all objects are walked
/// that have had some, at most as many as changes fit into a window.
pub struct SharedBudget {
    brake: Brake,
    allowance: Allowance,
    count: Box<dyn Fn() -> usize + Send + Sync>,
    state: Mutex<State>,
}

struct State {
    /// Number of objects, and when they were counted.
    counted: Option<(usize, Moment)>,
    all: Budget,
    /// By object, what it has taken.
    objects: BTreeMap<String, Budget>,
    /// By namespace, what its objects have taken as [`BudgetShare::Common`].
    namespaces: BTreeMap<String, Budget>,
    rise: Rise,
    /// Since when changes are held although the allowance has risen so far.
    held: Option<Held>,
    /// Of the objects whose changes are held, the one that waits longest.
    held_longest: Option<HeldSpender>,
}

/// A time in which changes are held again and again.
#[derive(Clone, Copy)]
struct Held {
    since: Moment,
    /// When one was held last.
    last: Moment,
}

impl BudgetShare {
    /// The part of all changes together.
    fn of_all(self, allowed: usize) -> usize {
        match self {
            BudgetShare::Whole => allowed,
            BudgetShare::Common => allowed - allowed / 4,
        }
    }

    /// The part of one object.
    fn of_object(self, allowed: usize) -> usize {
        let asked = allowed.div_ceil(4).max(LOAD_BALANCER_CHANGES as usize);
        let asked = asked.min(allowed.div_ceil(2));
        match self {
            BudgetShare::Common => asked,
            BudgetShare::Whole => (asked + allowed / 4)
                .max(allowed.div_ceil(2))
                .min(allowed - allowed / 4),
        }
    }

    /// The part of one namespace; `None` if all namespaces share what there is.
    fn of_namespace(self, allowed: usize) -> Option<usize> {
        match self {
            BudgetShare::Whole => None,
            BudgetShare::Common => Some(allowed.div_ceil(2)),
        }
    }
}

impl SharedBudget {
    /// A budget with nothing spent. `count` returns the number of objects that the allowance's percentage applies to.
    pub fn new(
        brake: Brake,
        allowance: Allowance,
        count: impl Fn() -> usize + Send + Sync + 'static,
    ) -> SharedBudget {
        SharedBudget {
            brake,
            allowance,
            count: Box::new(count),
            state: Mutex::new(State {
                counted: None,
                all: Budget::new(allowance),
                objects: BTreeMap::new(),
                namespaces: BTreeMap::new(),
                rise: Rise::NONE,
                held: None,
                held_longest: None,
            }),
        }
    }

    /// The brake of this budget.
    pub fn brake(&self) -> Brake {
        self.brake
    }

    /// Takes one change for `spender`.
    ///
    /// # Errors
    /// The budget is exhausted, for this spender or for all: the moment at which to ask again.
    pub fn take(&self, now: Moment, spender: Spender<'_>) -> Result<(), Moment> {
        let counted = self.state().counted;
        if counted.is_none_or(|(_, at)| at.after(COUNTED_FOR) <= now) {
            // Not under the lock: counting takes others.
            let objects = (self.count)();
            self.state().counted = Some((objects, now));
        }
        let mut state = self.state();
        let taken = state.take(self.allowance, now, spender);
        let object = spender.object;
        match taken {
            Ok(()) => drop(state.held_longest.take_if(|held| held.object == object)),
            Err(free) => {
                let longest = state.held_longest.as_ref();
                let is_longest = longest.is_none_or(|held| {
                    held.object == object || held.free <= now || held.free < free
                });
                if is_longest {
                    let object = object.to_owned();
                    state.held_longest = Some(HeldSpender {
                        object,
                        at: now,
                        free,
                    });
                }
            }
        }
        taken
    }

    /// Of the objects whose changes are held, the one that waits longest.
    pub fn held_longest(&self, now: Moment) -> Option<HeldSpender> {
        let held = self.state().held_longest.clone();
        held.filter(|held| held.free > now)
    }

    /// How full the budget is, and how far it has risen.
    pub fn level(&self, now: Moment) -> BudgetLevel {
        let state = self.state();
        BudgetLevel {
            allowed: self.allowance.risen(state.count(), state.rise),
            ..state.all.level(now, 0)
        }
    }

    /// No code under this lock can panic halfway, so a poisoned lock is used like any other.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&self) -> usize {
        self.counted.map_or(0, |(objects, _)| objects)
    }

    fn take(
        &mut self,
        allowance: Allowance,
        now: Moment,
        spender: Spender<'_>,
    ) -> Result<(), Moment> {
        let allowed = allowance.of(self.count());
        self.expire(now);
        if self.all.entries() < allowed.div_ceil(3) {
            (self.rise, self.held) = (Rise::NONE, None);
        }
        let of_object = spender.share.of_object(allowed);
        let own = self.objects.get(spender.object);
        let is_first = own.is_none();
        let own = own.map_or(Ok(()), |own| own.has_room(of_object));
        let mut room = self.has_room(allowance, spender);
        if is_first && room.is_err() && allowed > 0 {
            // Otherwise all of these were made, or are not wanted any more.
            self.held = self.held.filter(|held| now <= held.last.after(ASKS_AGAIN));
            if Rise::since(self.held_since(), now) != Rise::NONE {
                (self.rise, self.held) = (self.rise.doubled(), None);
                room = self.has_room(allowance, spender);
            }
            if room.is_err() {
                let since = self.held_since().unwrap_or(now);
                self.held = Some(Held { since, last: now });
            }
        }
        both(own, room.map_err(|free| free.min(self.rises(now))))?;
        self.spend(allowance, now, spender);
        Ok(())
    }

    /// Drops what has expired.
    fn expire(&mut self, now: Moment) {
        if !self.all.expire(now) {
            return;
        }
        let has_some = |_: &String, one: &mut Budget| {
            one.expire(now);
            one.entries() > 0
        };
        self.objects.retain(has_some);
        self.namespaces.retain(has_some);
    }

    /// Whether there is room in the part of all, and in that of the namespace.
    fn has_room(&self, allowance: Allowance, spender: Spender<'_>) -> Result<(), Moment> {
        let allowed = allowance.risen(self.count(), self.rise);
        let share = spender.share;
        let namespace = spender.namespace.and_then(|name| self.namespaces.get(name));
        let of_namespace = match (namespace, share.of_namespace(allowed)) {
            (Some(namespace), Some(most)) => namespace.has_room(most),
            (None, _) | (_, None) => Ok(()),
        };
        both(self.all.has_room(share.of_all(allowed)), of_namespace)
    }

    fn held_since(&self) -> Option<Moment> {
        self.held.map(|held| held.since)
    }

    /// When the allowance rises next if changes are still held then; [`Duration::MAX`] if it does not.
    fn rises(&self, now: Moment) -> Moment {
        match (self.rise, self.held_since()) {
            (Rise::MOST, _) | (_, None) => Moment(Duration::MAX),
            (_, since) => Rise::next(since, now),
        }
    }

    fn spend(&mut self, allowance: Allowance, now: Moment, spender: Spender<'_>) {
        let new = || Budget::new(allowance);
        self.all.spend(now);
        let object = self.objects.entry(spender.object.to_owned());
        object.or_insert_with(new).spend(now);
        if let (Some(name), BudgetShare::Common) = (spender.namespace, spender.share) {
            let namespace = self.namespaces.entry(name.to_owned());
            namespace.or_insert_with(new).spend(now);
        }
    }
}

impl fmt::Debug for SharedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedBudget").field(&self.brake).finish()
    }
}
