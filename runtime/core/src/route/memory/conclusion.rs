//! Stores the result of a reconciliation: what is known now, and when to poll or retry.

use std::time::Duration;

use super::{Memory, Note};
use crate::moment::{Moment, Now};
use crate::node::object::{name, uid};
use crate::own_write::OwnWrite;
use crate::retry;
use crate::route::change::{Change, Doing, End};
use crate::route::condition::Network;
use crate::route::facts::{About, Facts, Key};
use crate::route::route_diff::Work;
use crate::route::{Again, PATIENCE, after_trouble, again};

/// Added to the polling delay of a pending operation for each other pending one.
const SPREAD: Duration = Duration::from_millis(4);

impl Memory {
    /// Stores the result of a reconciliation.
    pub fn conclude(&mut self, facts: &Facts, now: Now) {
        let key = facts.key();
        self.busy.remove(&key);
        for change in &facts.changes {
            self.conclude_change(facts, &key, change, now);
        }
        self.await_begun(facts, key, now.moment);
        let About::Node(node) = &facts.about else {
            return;
        };
        if !self.seen.contains_key(name(node)) {
            // The node is gone or wants no routes now; its note is removed already.
            return;
        }
        if self.seen.get(name(node)) != Some(&facts.fingerprint) {
            self.list_schedule.unsettle(now.moment);
        }
        let is_elsewhere = |change: &&Change| change.end == Some(End::Elsewhere);
        let note = self.notes.entry(name(node).to_owned()).or_default();
        if !note.is_about(node) {
            *note = Note {
                uid: uid(node).to_owned(),
                ..Note::default()
            };
        }
        for change in facts.changes.iter().filter(is_elsewhere) {
            note.elsewhere.insert(change.destination, facts.fingerprint);
        }
        if facts.to_tell(now.moment).is_none() {
            let told = facts.complaints.iter().map(|event| event.message.clone());
            note.told.extend(told);
        }
        if facts.state.has_written {
            note.written = OwnWrite::new(&node.metadata, now.moment);
        }
        match facts.state.refusals.trouble() {
            Some(error) => {
                note.failures = note.failures.saturating_add(1);
                let after = after_trouble(facts, error);
                note.due = Some(self.list_schedule.retry(now.moment, after));
            }
            None => {
                note.failures = 0;
                note.due = None;
            }
        }
    }

    fn conclude_change(&mut self, facts: &Facts, key: &Key, change: &Change, now: Now) {
        let destination = change.destination;
        self.touched.insert(destination, now.moment);
        let is_made = facts.makes() && change.end == Some(End::Done);
        if change.end == Some(End::Done) || !change.gone().is_empty() {
            self.progress = Some(now.moment);
        }
        if let About::Node(node) = &facts.about
            && is_made
        {
            self.known.make(destination, name(node), now.moment);
        }
        if change.end == Some(End::Planned) {
            self.planned.insert(destination);
        }
        let place = (key.clone(), destination);
        let again = again(change, now);
        let Some(again) = again.or_else(|| interrupted(facts, change)) else {
            self.pasts.remove(&place);
            return;
        };
        let mut past = change.past.clone();
        match &change.end {
            Some(End::Begun(_)) => {
                let begun = *past.begun.get_or_insert(now.moment);
                let since = self.progress.map_or(begun, |progress| begun.max(progress));
                let is_over = since.after(PATIENCE) <= now.moment;
                past.in_vain = match past.in_vain {
                    0 => u32::from(is_over),
                    in_vain => in_vain.saturating_add(1),
                };
            }
            other => {
                past.begun = None;
                past.in_vain = 0;
                let has_failed = match other {
                    Some(End::Failed(..)) => true,
                    // For nodes, failed writes are counted in the node's note.
                    None => !facts.makes(),
                    Some(_) => false,
                };
                past.failures = past.failures.saturating_add(u32::from(has_failed));
            }
        }
        if let Some(End::Failed(Doing::Make, error)) = &change.end
            && facts.to_tell(now.moment).is_none()
        {
            past.told.insert(error.reason());
        }
        past.held = match change.end {
            Some(End::Held(_)) => past.held.or(Some(now.moment)),
            _ => None,
        };
        past.is_firm = again.is_firm;
        past.due = Some(match past.is_begun() {
            true => now.moment.after(again.after.max(self.spread())),
            false => self.list_schedule.retry(now.moment, again.after),
        });
        past.reservation
            .retain(|route| !change.gone().contains(route));
        self.pasts.insert(place, past);
    }

    /// Schedules pending operations for polling at the cloud's own pace.
    fn await_begun(&mut self, facts: &Facts, key: Key, now: Moment) {
        let past = |change: &Change| self.pasts.get(&(key.clone(), change.destination)).cloned();
        let begun = facts.changes.iter();
        let begun = begun.filter(|change| matches!(change.end, Some(End::Begun(_))));
        let begun = begun.filter_map(|change| Some((change, past(change)?)));
        let begun: Vec<_> = begun.filter(|(_, past)| past.is_begun()).collect();
        let Some(at) = begun.iter().filter_map(|(_, past)| past.due).max() else {
            return;
        };
        let others = facts.changes.iter().map(|change| match &change.end {
            Some(End::Done | End::Begun(_) | End::Elsewhere) => Some(Network::Available),
            Some(End::Failed(..)) if change.past.failures == 0 => Some(Network::Doubtful),
            Some(End::Held(_)) => Some(Network::Doubtful),
            Some(End::Failed(..)) => Some(Network::Unavailable),
            _ => None,
        });
        let rest = others.fold(facts.rest, |rest, other| match (rest?, other?) {
            (Network::Available, other) => Some(other),
            (_, Network::Unavailable) => Some(Network::Unavailable),
            (rest, _) => Some(rest),
        });
        let is_done = |change: &&Change| change.end == Some(End::Done);
        let done = facts.changes.iter().filter(is_done).count();
        let changes = begun.into_iter().map(|(change, past)| change.again(past));
        let work = Work {
            at: at.max(now),
            changes: changes.collect(),
            rest,
            right: facts.right + done,
            complaints: Vec::new(),
            fingerprint: facts.fingerprint,
        };
        self.begun.insert((work.at, key), work);
    }

    /// Minimum polling delay, so that many pending operations are not polled continuously.
    fn spread(&self) -> Duration {
        let waiting = u32::try_from(self.begun.len()).unwrap_or(u32::MAX);
        SPREAD.saturating_mul(waiting)
    }

    /// The reconciliation panicked and has no result.
    pub fn abandon(&mut self, key: &Key, now: Moment) {
        for destination in self.busy.remove(key).unwrap_or_default() {
            self.touched.insert(destination, now);
        }
        self.list_schedule.retry(now, retry::PERSON.first);
    }
}

/// A change that the reconciliation did not reach is retried together with the node.
fn interrupted(facts: &Facts, change: &Change) -> Option<Again> {
    let error = facts.state.refusals.trouble()?;
    change.end.is_none().then(|| Again {
        after: after_trouble(facts, error),
        is_firm: false,
        why: String::new(),
    })
}
