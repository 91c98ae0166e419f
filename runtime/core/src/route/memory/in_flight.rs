//! Carries operations that became pending after the provider was asked into the new plan: the answer cannot know them.

use std::collections::BTreeMap;

use super::Memory;
use crate::moment::Moment;
use crate::route::change::Change;
use crate::route::facts::Key;
use crate::route::route_diff::Work;

impl Memory {
    /// Takes the operations that became pending after the provider was asked. The answer lacks them, and the plan skips
    /// them.
    pub(super) fn take_carried(&mut self, asked_at: Moment) -> Vec<(Key, Work)> {
        let begun = std::mem::take(&mut self.begun);
        let begun = begun.into_iter().map(|((_, key), work)| (key, work));
        let waiting = std::mem::take(&mut self.work).into_iter();
        let touched = &self.touched;
        let is_newer = |change: &Change| {
            let ended = touched.get(&change.destination);
            change.past.is_begun() && ended.is_some_and(|ended| *ended >= asked_at)
        };
        let all = begun.chain(waiting).map(|(key, mut work)| {
            work.changes.retain(&is_newer);
            (key, work)
        });
        all.filter(|(_, work)| !work.changes.is_empty()).collect()
    }

    /// Merges them into the new plan. A node that has changed since keeps the new plan only.
    pub(super) fn carry(&mut self, carried: Vec<(Key, Work)>) {
        let begun = self.begun.keys().cloned();
        let begun: BTreeMap<Key, Moment> = begun.map(|(at, key)| (key, at)).collect();
        for (key, old) in carried {
            let planned = match begun.get(&key) {
                Some(at) => self.begun.remove(&(*at, key.clone())),
                None => self.work.remove(&key),
            };
            let work = match planned {
                None => old,
                Some(new) if new.fingerprint != old.fingerprint => new,
                Some(mut new) => {
                    let is_planned = |change: &Change| {
                        let mut changes = new.changes.iter();
                        changes.any(|one| one.destination == change.destination)
                    };
                    let mut old = old;
                    old.changes.retain(|change| !is_planned(change));
                    if new.changes.is_empty() {
                        new.at = old.at;
                    }
                    // The answer cannot tell the node's state; the earlier state together with the changes can.
                    new.rest = old.rest;
                    new.right = new.right.max(old.right);
                    new.changes.append(&mut old.changes);
                    new
                }
            };
            self.begun.insert((work.at, key), work);
        }
    }

    /// Whether a failure after the provider was asked is due for a retry already. The plan does not cover it.
    pub(super) fn is_overdue(&self, now: Moment) -> bool {
        self.pasts.iter().any(|((_, destination), past)| {
            let is_due = past.due.is_some_and(|due| due <= now);
            is_due && !past.is_begun() && self.touched.contains_key(destination)
        })
    }
}
