//! What the controllers are doing, for people: the objects that wait and why, the last decisions, and how much of the
//! brakes' budgets is spent. The controllers report here; a status page reads copies. Decides nothing, and no
//! controller ever reads it.
//!
//! Bounded: [`MOST_WAITING`] objects, [`MOST_DECISIONS`] decisions, [`MOST_TEXT`] bytes of each text.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Display, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ccm_core::reconciliation::effect::When;
use ccm_core::status_report::{BrakeReport, DecisionReport, HeldReport, Time, WaitingReport};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::clock::wall;

/// Maximum number of waiting objects that are kept; further ones are only counted.
pub const MOST_WAITING: usize = 10_000;
/// Maximum number of decisions that are kept.
pub const MOST_DECISIONS: usize = 100;
/// Maximum length of a text, in bytes. Clouds and guests contribute to reasons and outcomes.
pub const MOST_TEXT: usize = 512;
/// An object whose next attempt is this much overdue has left its controller without a report, and is not shown. Attempts
/// may be late: in an outage thousands of objects wait for their turn, behind calls of minutes.
const OVERDUE: SignedDuration = SignedDuration::from_hours(1);

/// The controllers' activity. Clones share it.
#[derive(Clone, Default)]
pub struct Activity(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: BTreeMap<Key, WaitingReport>,
    /// Number of reports about objects beyond [`MOST_WAITING`].
    left_out: u64,
    /// The last decisions, oldest first.
    decisions: VecDeque<DecisionReport>,
    brakes: Vec<BrakeReader>,
}

/// Returns the current levels of one set of budgets; `None` once there is no such set any more.
type BrakeReader = Box<dyn Fn() -> Option<Vec<BrakeReport>> + Send>;

/// Object, provider, controller: sorted like this, an object's entries stand together.
type Key = (String, String, &'static str);

/// A change of `object` that was held `ago`, until `wait` is over.
pub(crate) fn held_for_time(object: &str, ago: Duration, wait: Duration) -> HeldReport {
    let now = wall();
    let [ago, wait] = [ago, wait].map(|time| SignedDuration::try_from(time).ok());
    HeldReport {
        object: object.to_owned(),
        at: Time(ago.and_then(|ago| now.checked_sub(ago).ok()).unwrap_or(now)),
        free: wait.and_then(|wait| now.checked_add(wait).ok()).map(Time),
    }
}

/// A copy of the activity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The objects that wait, those that wait longest first.
    pub waiting: Vec<WaitingReport>,
    /// Whether further objects wait that are not kept.
    pub is_cut: bool,
    /// The last decisions, newest first.
    pub decisions: Vec<DecisionReport>,
    /// Levels of the brakes that were used.
    pub brakes: Vec<BrakeReport>,
}

/// The object, provider and controller of a reconciliation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActivitySubject<'a> {
    pub(crate) object: &'a str,
    pub(crate) provider: &'a str,
    pub(crate) controller: &'static str,
}

impl Activity {
    /// A copy for a reader.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_at(wall())
    }

    fn snapshot_at(&self, now: Timestamp) -> Snapshot {
        let mut state = self.0.lock();
        let is_overdue = |entry: &WaitingReport| {
            let next = entry.next.and_then(|next| next.0.checked_add(OVERDUE).ok());
            next.is_some_and(|latest| latest < now)
        };
        state.waiting.retain(|_, entry| !is_overdue(entry));
        if state.waiting.len() < MOST_WAITING {
            state.left_out = 0;
        }
        let mut brakes = Vec::new();
        state.brakes.retain(|read| {
            let levels = read();
            let is_there = levels.is_some();
            brakes.extend(levels.into_iter().flatten());
            is_there
        });
        let mut waiting: Vec<WaitingReport> = state.waiting.values().cloned().collect();
        waiting.sort_by_key(|one| one.since);
        Snapshot {
            waiting,
            is_cut: state.left_out > 0,
            decisions: state.decisions.iter().rev().cloned().collect(),
            brakes,
        }
    }

    /// Records the end of a reconciliation, at `now`. `after` is the delay until the next one, in real time.
    pub(crate) fn ended(
        &self,
        about: ActivitySubject<'_>,
        when: &When,
        attempt: u32,
        after: Option<Duration>,
        is_deletion: bool,
        now: Timestamp,
    ) {
        let Some(why) = when.why() else {
            let mut state = self.0.lock();
            // Most objects do not wait; nothing is allocated for them while none does.
            if !state.waiting.is_empty() {
                state.waiting.remove(&key(about));
            }
            return;
        };
        let next = after.and_then(|after| SignedDuration::try_from(after).ok());
        let next = next.and_then(|after| now.checked_add(after).ok()).map(Time);
        let (key, why) = (key(about), cut(why));
        let mut state = self.0.lock();
        let before = state.waiting.get(&key);
        let since = before.map_or(Time(now), |entry| entry.since);
        if state.waiting.len() >= MOST_WAITING && !state.waiting.contains_key(&key) {
            state.left_out += 1;
            return;
        }
        let (object, provider, controller) = key.clone();
        let entry = WaitingReport {
            object,
            provider,
            controller: controller.to_owned(),
            why,
            attempt,
            since,
            next,
            is_deletion,
        };
        state.waiting.insert(key, entry);
    }

    /// Records the end of an effect.
    pub(crate) fn decided(
        &self,
        about: ActivitySubject<'_>,
        effect: impl Display,
        outcome: impl Display,
        is_success: bool,
    ) {
        let mut new = DecisionReport {
            at: Time(wall()),
            controller: about.controller.to_owned(),
            provider: cut(about.provider),
            object: cut(about.object),
            effect: cut(effect),
            outcome: cut(outcome),
            is_success,
            times: 1,
        };
        let mut state = self.0.lock();
        let decisions = &mut state.decisions;
        let last = decisions.iter().rposition(|one| new.is_like(one));
        if let Some(last) = last.and_then(|place| decisions.remove(place)) {
            new.times = last.times.saturating_add(1);
        }
        if decisions.len() >= MOST_DECISIONS {
            decisions.pop_front();
        }
        decisions.push_back(new);
    }

    /// Removes an object that this provider has nothing to do with any more. Also called for objects that never waited.
    pub(crate) fn left(&self, provider: &str, object: &str) {
        let mut state = self.0.lock();
        if state.waiting.is_empty() {
            return;
        }
        let first = (cut(object), cut(provider), "");
        let own = state.waiting.range(first.clone()..);
        let own = own.take_while(|((of, by, _), _)| (of, by) == (&first.0, &first.1));
        let own: Vec<Key> = own.map(|(key, _)| key.clone()).collect();
        for key in own {
            state.waiting.remove(&key);
        }
    }

    /// Keeps, of the objects that wait for this controller, only those for which `waits` is true.
    pub(crate) fn keep(
        &self,
        provider: &str,
        controller: &'static str,
        waits: impl Fn(&str) -> bool,
    ) {
        let mut state = self.0.lock();
        state
            .waiting
            .retain(|(object, by, own), _| *own != controller || by != provider || waits(object));
    }

    /// Removes all objects of a provider whose controllers have ended.
    pub(crate) fn ended_all(&self, provider: &str) {
        self.0.lock().waiting.retain(|(_, by, _), _| by != provider);
    }

    /// Adds a set of budgets, whose levels `read` returns; `None` removes it, here and for a reader: there may be no
    /// reader, while each start of a provider's controllers adds a set.
    pub(crate) fn reads_brakes(
        &self,
        read: impl Fn() -> Option<Vec<BrakeReport>> + Send + 'static,
    ) {
        let mut state = self.0.lock();
        state.brakes.retain(|read| read().is_some());
        state.brakes.push(Box::new(read));
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Activity")
            .field("waiting", &state.waiting.len())
            .field("decisions", &state.decisions.len())
            .finish_non_exhaustive()
    }
}

fn key(about: ActivitySubject<'_>) -> Key {
    (cut(about.object), cut(about.provider), about.controller)
}

/// A text of bounded length. Formatting ends where the bound is reached.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let remaining = MOST_TEXT.saturating_sub(self.0.len());
        if text.len() <= remaining {
            self.0.push_str(text);
            return Ok(());
        }
        self.0
            .push_str(&text[..text.floor_char_boundary(remaining)]);
        self.0.push('…');
        Err(fmt::Error)
    }
}

fn cut(text: impl Display) -> String {
    let mut bounded = Bounded(String::new());
    // An error means that the bound is reached.
    let _ = write!(bounded, "{text}");
    bounded.0
}

#[cfg(test)]
mod tests;
