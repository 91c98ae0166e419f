//! Queue of due objects, with one reconciliation per object at a time. A plain data structure: time is an argument, and
//! nothing here waits.
//!
//! kube's own scheduler and runner are not used, because the runner polls every running reconciliation whenever one of
//! them makes progress: with thousands that wait for one batched look-up that is quadratic.

use std::collections::{BTreeMap, HashMap};

use ccm_core::moment::Moment;

/// The queue, keyed by object name.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    urgent: BTreeMap<Due, String>,
    low_priority: BTreeMap<Due, String>,
    entries: HashMap<String, Entry>,
    sequence: u64,
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
    is_running: bool,
    not_before: Option<Moment>,
}

/// The kinds of turns that may start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// All turns.
    Any,
    /// Urgent turns only.
    Urgent,
    /// Non-urgent turns only.
    Calm,
}

impl Queue {
    /// Requests a turn for `name` at `at`. If it already has one, the earlier of the two stays, urgent if either is.
    /// Never earlier than [`Queue::hold`] allows.
    pub(crate) fn ask(&mut self, name: &str, at: Moment, is_urgent: bool) {
        let mut entry = self.entries.remove(name).unwrap_or_default();
        self.withdraw(&entry);
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
        self.put(name, &entry);
        self.entries.insert(name.to_owned(), entry);
    }

    /// Inserts the turn into its line, unless a reconciliation of the object is running.
    fn put(&mut self, name: &str, entry: &Entry) {
        if let Some(turn) = entry.turn.filter(|_| !entry.is_running) {
            self.line(entry.is_urgent).insert(turn, name.to_owned());
        }
    }

    fn withdraw(&mut self, entry: &Entry) {
        if let Some(turn) = &entry.turn {
            self.line(entry.is_urgent).remove(turn);
        }
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
            self.line(is_urgent).remove(&turn);
            self.ask(name, earliest, is_urgent);
        }
    }

    /// Time of the next turn that `capacity` allows.
    pub(crate) fn next(&self, capacity: Capacity) -> Option<Moment> {
        let urgent = self
            .urgent
            .keys()
            .next()
            .filter(|_| capacity != Capacity::Calm);
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
        let is_due =
            |line: &BTreeMap<Due, String>| line.keys().next().is_some_and(|turn| turn.at <= now);
        let is_urgent = capacity != Capacity::Calm && is_due(&self.urgent);
        let is_low_priority = capacity != Capacity::Urgent && is_due(&self.low_priority);
        if !is_urgent && !is_low_priority {
            return None;
        }
        let (_, name) = self.line(is_urgent).pop_first()?;
        if let Some(entry) = self.entries.get_mut(&name) {
            *entry = Entry {
                is_running: true,
                ..Entry::default()
            };
        }
        Some((name, is_urgent))
    }

    /// Ends the reconciliation of `name`; queues a turn requested meanwhile.
    pub(crate) fn finish(&mut self, name: &str) {
        let Some(mut entry) = self.entries.remove(name) else {
            return;
        };
        entry.is_running = false;
        if entry.turn.is_some() || entry.not_before.is_some() {
            self.put(name, &entry);
            self.entries.insert(name.to_owned(), entry);
        }
    }

    /// Removes a deleted object. A running reconciliation may still end.
    pub(crate) fn forget(&mut self, name: &str) {
        let Some(entry) = self.entries.remove(name) else {
            return;
        };
        self.withdraw(&entry);
        if entry.is_running {
            let running = Entry {
                is_running: true,
                ..Entry::default()
            };
            self.entries.insert(name.to_owned(), running);
        }
    }
}

#[cfg(test)]
mod tests;
