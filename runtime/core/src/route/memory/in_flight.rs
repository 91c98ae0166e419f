//! What an answer cannot know, because it happened since the provider was asked: it is carried over into the new plan.

use std::collections::BTreeMap;

use super::Memory;
use crate::moment::Moment;
use crate::route::change::Change;
use crate::route::facts::Key;
use crate::route::route_diff::Work;

impl Memory {
    /// What was begun since the provider was asked: no answer has it, and the plan leaves it alone.
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

    /// Puts it beside what was planned. Of a node that has changed since there is another plan soon.
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
                    // The answer could not say how the node stands; what was known before can, with the changes.
                    new.rest = old.rest;
                    new.right = new.right.max(old.right);
                    new.changes.append(&mut old.changes);
                    new
                }
            };
            self.begun.insert((work.at, key), work);
        }
    }

    /// Whether something that has failed since the provider was asked is due already. Nothing was planned about it.
    pub(super) fn is_overdue(&self, now: Moment) -> bool {
        self.pasts.iter().any(|((_, destination), past)| {
            let is_due = past.due.is_some_and(|due| due <= now);
            is_due && !past.is_begun() && self.touched.contains_key(destination)
        })
    }
}
