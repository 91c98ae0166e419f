//! Stores the result of a reconciliation: what is known now, and when to poll or retry.

use std::time::Duration;

use super::{Memory, Reconciliation};
use crate::moment::Moment;
use crate::reconciliation::own_write::OwnWrite;
use crate::reconciliation::retry;
use crate::route::PROGRESS_TIMEOUT;
use crate::route::carry_over::{CarryOver, Remainder};
use crate::route::change::{Change, End};
use crate::route::destination_state::{Unfinished, Wait};
use crate::route::facts::{About, Facts, Key};
use crate::route::node_state::NodeRecord;
use crate::route::route_diff::Work;

/// Added to the polling delay of a pending operation for each other pending one.
const SPREAD: Duration = Duration::from_millis(4);

/// Number of remembered messages about a node at which they are forgotten: a cloud whose routes lead elsewhere with
/// each answer must not fill the memory. What still holds is then reported once more.
const MOST_REPORTED: usize = 16;

impl Memory {
    /// Stores the result of a reconciliation: the facts at its end, and what [`decide`](crate::route::decide) returned.
    pub fn conclude(&mut self, facts: &Facts, carry_over: CarryOver, now: Moment) {
        let key = facts.key();
        self.reconciliations.remove(&key);
        let (retry, has_recorded_events) = (carry_over.retry, carry_over.has_recorded_events);
        let mut is_passed_over = self.passed_over.remove(&key);
        let mut polled = Vec::new();
        let mut poll_at = now;
        for (change, remainder) in facts.changes.iter().zip(carry_over.unfinished) {
            self.note_progress(facts, change, now);
            let unfinished = remainder.map(|one| self.schedule(&key, one, now));
            if let Some(unfinished) = unfinished.as_ref().filter(|one| one.is_polled()) {
                polled.push(change.rest());
                poll_at = poll_at.max(unfinished.due);
            }
            let state = self.destinations.entry(change.destination).or_default();
            state.end(&key, unfinished, now);
            let destination = Key::Destination(change.destination);
            is_passed_over |= self.passed_over.remove(&destination);
        }
        if is_passed_over {
            self.list_schedule.unsettle(now);
        }
        if !polled.is_empty() {
            let is_done = |change: &&Change| change.end == Some(End::Done);
            let work = Work {
                at: poll_at,
                changes: polled,
                rest: facts.network_once_created(),
                right: facts.right + facts.changes.iter().filter(is_done).count(),
                node_events: Vec::new(),
                fingerprint: facts.fingerprint,
            };
            let planned = Reconciliation::Planned(work);
            self.reconciliations.insert(key, planned);
        }
        self.record_node(facts, retry, has_recorded_events, now);
    }

    fn note_progress(&mut self, facts: &Facts, change: &Change, now: Moment) {
        let destination = change.destination;
        if change.end == Some(End::Done) || !change.gone().is_empty() {
            self.progress = Some(now);
        }
        if let About::Node(node) = &facts.about
            && change.end == Some(End::Done)
        {
            self.known.make(destination, node, now);
        }
        if change.end == Some(End::Planned) {
            self.withheld.insert(destination);
        }
    }

    /// When an unfinished change is due: a pending operation that progresses is polled at the cloud's own pace,
    /// everything else follows a listing.
    fn schedule(&mut self, key: &Key, remainder: Remainder, now: Moment) -> Unfinished {
        let mut wait = remainder.wait;
        if let Wait::Pending {
            since,
            stalled_listings,
        } = &mut wait
        {
            let since = self.progress.map_or(*since, |last| last.max(*since));
            *stalled_listings = match *stalled_listings {
                0 => u32::from(since.after(PROGRESS_TIMEOUT) <= now),
                before => before.saturating_add(1),
            };
        }
        let after = remainder.after;
        let due = match wait {
            Wait::Pending {
                stalled_listings: 0,
                ..
            } => now.after(after.max(self.spread(now))),
            _ => self.list_schedule.retry(now, after),
        };
        Unfinished {
            subject: key.clone(),
            attempts: remainder.attempts,
            wait,
            due,
        }
    }

    /// Minimum polling delay, so that many pending operations are not polled continuously.
    fn spread(&self, now: Moment) -> Duration {
        let waiting = self.planned().filter(|(_, work)| work.at > now).count();
        SPREAD.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX))
    }

    fn record_node(
        &mut self,
        facts: &Facts,
        retry: Option<Duration>,
        has_recorded_events: bool,
        now: Moment,
    ) {
        let About::Node(node) = &facts.about else {
            return;
        };
        // A plan that was made since the node has changed, or is gone, does not cover what was changed for it.
        let wants = self.nodes.get(node.name()).and_then(|state| state.wants);
        let has_changed = wants != Some(facts.fingerprint);
        if has_changed && (wants.is_some() || !facts.changes.is_empty()) {
            self.list_schedule.unsettle(now);
        }
        // If the node is gone, nothing about it is retained. One without pod networks may have a condition (ROUTE-040).
        let Some(state) = self.nodes.get_mut(node.name()) else {
            return;
        };
        let record = &mut state.record;
        if !record.is_about(node) {
            *record = NodeRecord::new(node);
        }
        let is_elsewhere = |change: &&Change| change.end == Some(End::Elsewhere);
        for change in facts.changes.iter().filter(is_elsewhere) {
            let destination = change.destination;
            let state = (facts.fingerprint, facts.generation);
            record.elsewhere.insert(destination, state);
        }
        if has_recorded_events {
            let messages = facts.node_events.iter().map(|event| event.message.clone());
            if record.reported.len() >= MOST_REPORTED {
                record.reported.clear();
            }
            record.reported.extend(messages);
        }
        if facts.state.has_written {
            record.written = OwnWrite::new(node.resource_version(), now);
        }
        record.failures = match retry {
            Some(_) => record.failures.saturating_add(1),
            None => 0,
        };
        record.due = retry.map(|after| self.list_schedule.retry(now, after));
    }

    /// The reconciliation panicked and has no result.
    pub fn abandon(&mut self, key: &Key, now: Moment) {
        self.reconciliations.remove(key);
        for state in self.destinations.values_mut() {
            state.abandon(key, now);
        }
        self.list_schedule.retry(now, retry::PERSON.first);
    }
}
