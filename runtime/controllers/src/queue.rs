//! Which objects are due, one conversation per object at a time. A plain structure: the moment is an
//! argument, and nothing here waits.
//!
//! kube's own scheduler and runner are not used, because the runner polls every running conversation
//! whenever one of them moves: with thousands that wait for one batched look-up that is quadratic.

use std::collections::{BTreeMap, HashMap};

use ccm_core::permit::Moment;

/// The queue. Names are those of objects.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    due: BTreeMap<Turn, String>,
    entries: HashMap<String, Entry>,
    sequence: u64,
}

/// When an object's turn is: by moment, then urgent ones first, then in the order of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: Moment,
    is_calm: bool,
    sequence: u64,
}

#[derive(Debug, Default)]
struct Entry {
    turn: Option<Turn>,
    is_running: bool,
    not_before: Option<Moment>,
}

impl Queue {
    /// Asks for a turn of `name` at `at`. An earlier turn that it has already stays; of two at the same
    /// moment the urgent one stays. Never earlier than [`Queue::hold`] allows.
    pub(crate) fn ask(&mut self, name: &str, at: Moment, is_urgent: bool) {
        let entry = self.entries.entry(name.to_owned()).or_default();
        let at = entry.not_before.map_or(at, |earliest| at.max(earliest));
        self.sequence += 1;
        let turn = Turn {
            at,
            is_calm: !is_urgent,
            sequence: self.sequence,
        };
        if let Some(old) = entry.turn {
            if (old.at, old.is_calm) <= (turn.at, turn.is_calm) {
                return;
            }
            self.due.remove(&old);
        }
        entry.turn = Some(turn);
        // While a conversation is held, the turn is kept aside.
        if !entry.is_running {
            self.due.insert(turn, name.to_owned());
        }
    }

    /// From now on `name` gets no turn before `earliest`.
    pub(crate) fn hold(&mut self, name: &str, earliest: Moment) {
        self.entries.entry(name.to_owned()).or_default().not_before = Some(earliest);
    }

    /// When the next turn is, if there is one.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.due.keys().next().map(|turn| turn.at)
    }

    /// Takes the next object whose turn has come. It gets no other turn until [`Queue::finish`].
    pub(crate) fn take(&mut self, now: Moment) -> Option<String> {
        let first = self.due.first_entry()?;
        if first.key().at > now {
            return None;
        }
        let name = first.remove();
        if let Some(entry) = self.entries.get_mut(&name) {
            *entry = Entry {
                is_running: true,
                ..Entry::default()
            };
        }
        Some(name)
    }

    /// The conversation about `name` has ended. What was asked for meanwhile gets its turn.
    pub(crate) fn finish(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        entry.is_running = false;
        match entry.turn {
            Some(turn) => {
                self.due.insert(turn, name.to_owned());
            }
            None if entry.not_before.is_none() => {
                self.entries.remove(name);
            }
            None => {}
        }
    }

    /// `name` is no more. A conversation that is being held may end.
    pub(crate) fn forget(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        if let Some(turn) = entry.turn.take() {
            self.due.remove(&turn);
        }
        entry.not_before = None;
        if !entry.is_running {
            self.entries.remove(name);
        }
    }
}

#[cfg(test)]
mod tests;
