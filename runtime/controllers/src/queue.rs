//! Queue of due objects, with one reconciliation per object at a time. A plain data structure: time is an argument, and
//! nothing here waits. Counting for upstream's `workqueue_*` metrics costs nothing per object that waits.
//!
//! kube's own scheduler and runner are not used, because the runner polls every running reconciliation whenever one of
//! them makes progress: with thousands that wait for one batched look-up that is quadratic.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use ccm_core::moment::Moment;

use crate::metrics::QueueMeter;

/// The queue, keyed by object name.
#[derive(Debug)]
pub(crate) struct Queue {
    urgent: BTreeMap<Due, String>,
    low_priority: BTreeMap<Due, String>,
    entries: HashMap<String, Entry>,
    sequence: u64,
    /// Turns until this moment are counted as waiting.
    counted: Option<Moment>,
    meter: QueueMeter,
}

/// Sort key of a turn: by moment, then in the order of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Moment,
    sequence: u64,
}

#[derive(Debug, Default)]
struct Entry {
    turn: Option<Due>,
    is_urgent: bool,
    running_since: Option<Moment>,
    not_before: Option<Moment>,
}

/// The kinds of turns that may start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// Urgent and other turns.
    Any,
    /// Urgent turns only.
    Urgent,
    /// Non-urgent turns only.
    LowPriority,
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new(meter: QueueMeter) -> Queue {
        Queue {
            urgent: BTreeMap::new(),
            low_priority: BTreeMap::new(),
            entries: HashMap::new(),
            sequence: 0,
            counted: None,
            meter,
        }
    }

    /// Requests a turn for `name` at `at`. If it already has one, the earlier of the two stays, urgent if either is.
    /// Never earlier than [`Queue::hold`] allows.
    pub(crate) fn ask(&mut self, name: &str, at: Moment, is_urgent: bool) {
        let mut entry = self.entries.remove(name).unwrap_or_default();
        let was_counted = self.withdraw(&entry);
        let at = entry.not_before.map_or(at, |earliest| at.max(earliest));
        self.sequence += 1;
        let turn = Due {
            at,
            sequence: self.sequence,
        };
        entry.is_urgent = is_urgent || entry.turn.is_some() && entry.is_urgent;
        entry.turn = Some(match entry.turn {
            Some(old) if old.at <= at => old,
            _ => turn,
        });
        self.put(name, &entry, was_counted);
        self.entries.insert(name.to_owned(), entry);
    }

    /// Inserts the turn into its queue, unless a reconciliation of the object is running. `was_counted`: the object
    /// counted as waiting before.
    fn put(&mut self, name: &str, entry: &Entry, was_counted: bool) {
        let mut is_counted = false;
        if let Some(turn) = entry.turn.filter(|_| entry.running_since.is_none()) {
            self.line(entry.is_urgent).insert(turn, name.to_owned());
            is_counted = self.is_counted(turn);
        }
        match (was_counted, is_counted) {
            (false, true) => self.meter.added(1),
            (true, false) => self.meter.waits(-1),
            (true, true) | (false, false) => {}
        }
    }

    /// Removes the turn from its queue; returns whether the object counted as waiting.
    fn withdraw(&mut self, entry: &Entry) -> bool {
        let Some(turn) = entry.turn else {
            return false;
        };
        self.line(entry.is_urgent).remove(&turn).is_some() && self.is_counted(turn)
    }

    fn is_counted(&self, turn: Due) -> bool {
        self.counted.is_some_and(|until| turn.at <= until)
    }

    /// Counts the turns that have come since the last count: each turn once, however long the queues are.
    fn count(&mut self, now: Moment) {
        if self.counted.is_some_and(|until| now <= until) {
            return;
        }
        let last = |at| Due {
            at,
            sequence: u64::MAX,
        };
        let range = (
            self.counted
                .map_or(Bound::Unbounded, |until| Bound::Excluded(last(until))),
            Bound::Included(last(now)),
        );
        let come = self.urgent.range(range).count() + self.low_priority.range(range).count();
        if come > 0 {
            self.meter.added(come);
        }
        self.counted = Some(now);
    }

    /// Counts an object that is put back because something failed.
    pub(crate) fn retries(&self) {
        self.meter.retries();
    }

    fn line(&mut self, is_urgent: bool) -> &mut BTreeMap<Due, String> {
        if is_urgent {
            &mut self.urgent
        } else {
            &mut self.low_priority
        }
    }

    /// Delays turns of `name` until `earliest`, including one already requested.
    pub(crate) fn hold(&mut self, name: &str, earliest: Moment) {
        let entry = self.entries.entry(name.to_owned()).or_default();
        entry.not_before = Some(earliest);
        if let Some(turn) = entry.turn.filter(|turn| turn.at < earliest) {
            let is_urgent = entry.is_urgent;
            entry.turn = None;
            let was_waiting = self.line(is_urgent).remove(&turn).is_some() && self.is_counted(turn);
            if was_waiting {
                self.meter.waits(-1);
            }
            self.ask(name, earliest, is_urgent);
        }
    }

    /// Time of the next turn that `capacity` allows.
    pub(crate) fn next(&self, capacity: Capacity) -> Option<Moment> {
        let urgent = self
            .urgent
            .keys()
            .next()
            .filter(|_| capacity != Capacity::LowPriority);
        let low_priority = self
            .low_priority
            .keys()
            .next()
            .filter(|_| capacity != Capacity::Urgent);
        let first = urgent.into_iter().chain(low_priority);
        first.map(|turn| turn.at).min()
    }

    /// Takes the next due object that `capacity` allows, urgent ones first; returns also whether it is urgent. The
    /// object gets no other turn until [`Queue::finish`].
    pub(crate) fn take(&mut self, now: Moment, capacity: Capacity) -> Option<(String, bool)> {
        self.count(now);
        let is_due =
            |line: &BTreeMap<Due, String>| line.keys().next().is_some_and(|turn| turn.at <= now);
        let is_urgent = capacity != Capacity::LowPriority && is_due(&self.urgent);
        let is_low_priority = capacity != Capacity::Urgent && is_due(&self.low_priority);
        if !is_urgent && !is_low_priority {
            return None;
        }
        let (turn, name) = self.line(is_urgent).pop_first()?;
        self.meter.begins(turn.at, now);
        if let Some(entry) = self.entries.get_mut(&name) {
            *entry = Entry {
                running_since: Some(now),
                ..Entry::default()
            };
        }
        Some((name, is_urgent))
    }

    /// Ends the reconciliation of `name`; queues a turn requested meanwhile.
    pub(crate) fn finish(&mut self, name: &str, now: Moment) {
        let Some(mut entry) = self.entries.remove(name) else {
            return;
        };
        if let Some(began) = entry.running_since.take() {
            self.meter.ends(began, now);
        }
        if entry.turn.is_some() || entry.not_before.is_some() {
            self.put(name, &entry, false);
            self.entries.insert(name.to_owned(), entry);
        }
    }

    /// Removes a deleted object. A running reconciliation may still end.
    pub(crate) fn forget(&mut self, name: &str) {
        let Some(entry) = self.entries.remove(name) else {
            return;
        };
        if self.withdraw(&entry) {
            self.meter.waits(-1);
        }
        if entry.running_since.is_some() {
            let running = Entry {
                running_since: entry.running_since,
                ..Entry::default()
            };
            self.entries.insert(name.to_owned(), running);
        }
    }
}

#[cfg(test)]
mod tests;
