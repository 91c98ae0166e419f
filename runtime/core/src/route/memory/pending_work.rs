//! What else was done while routes were listed. Operations that became pending meanwhile are merged into the new plan,
//! because the answer cannot know them. What a plan had to pass over because of a reconciliation in flight is looked at
//! again after its end.

use std::collections::{BTreeMap, BTreeSet};

use super::{Memory, Reconciliation};
use crate::moment::Moment;
use crate::route::destination_state::DestinationState;
use crate::route::facts::Key;
use crate::route::route_diff::Work;

impl Memory {
    /// Replaces the planned reconciliations by those of a new plan, after a listing requested at `asked_at`. The plan
    /// skips the operations that became pending since then; they stay planned.
    pub(super) fn replan(&mut self, mut plan: BTreeMap<Key, Work>, asked_at: Moment) {
        for (key, before) in std::mem::take(&mut self.reconciliations) {
            let Reconciliation::Planned(mut before) = before else {
                self.reconciliations.insert(key, before);
                continue;
            };
            let fingerprint = before.fingerprint;
            before.changes.retain(|change| {
                self.destinations
                    .get(&change.destination)
                    .is_some_and(|state| state.is_polled_since(asked_at, &key, fingerprint))
            });
            if !before.changes.is_empty() {
                let work = match plan.remove(&key) {
                    None => before,
                    Some(planned) => merged(planned, before),
                };
                plan.insert(key, work);
            }
        }
        let planned = plan.into_iter();
        let planned = planned.map(|(key, work)| (key, Reconciliation::Planned(work)));
        self.reconciliations.extend(planned);
    }

    /// Stores what the plan passed over. What changed it may have ended before the answer came.
    pub(super) fn pass_over(&mut self, passed_over: BTreeSet<Key>, now: Moment) {
        let is_in_flight = |passed: &Key| match passed {
            Key::Node(_) => true,
            Key::Destination(destination) => {
                let state = self.destinations.get(destination);
                state.is_some_and(DestinationState::is_in_flight)
            }
        };
        if !passed_over.iter().all(is_in_flight) {
            self.list_schedule.unsettle(now);
        }
        self.passed_over = passed_over;
    }
}

/// Adds the pending operations of `before`. A node that has changed since keeps the new plan only.
fn merged(mut planned: Work, mut before: Work) -> Work {
    if planned.fingerprint != before.fingerprint {
        return planned;
    }
    before.changes.retain(|change| {
        let mut changes = planned.changes.iter();
        !changes.any(|one| one.destination == change.destination)
    });
    if planned.changes.is_empty() {
        planned.at = before.at;
    }
    // The listing does not show the node's state; the earlier state together with the changes does.
    planned.rest = before.rest;
    planned.right = planned.right.max(before.right);
    planned.changes.append(&mut before.changes);
    planned
}
