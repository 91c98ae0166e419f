//! The end of a reconciliation: when to reconcile again, and the state to retain. Performs no I/O.

use std::time::Duration;

use super::BEGUN;
use super::change::{Change, Doing, End};
use super::destination_state::{Attempts, Wait};
use super::facts::Facts;
use crate::moment::Moment;
use crate::reconciliation::conclusion::Next;
use crate::reconciliation::effect::{ClusterError, When};
use crate::reconciliation::retry;
use crate::safety::brake::Brake;

/// State that a reconciliation leaves behind, for [`Memory::conclude`](super::Memory::conclude).
#[derive(Debug, Clone, PartialEq)]
pub struct CarryOver {
    /// The unfinished rest of each change of the facts; `None`: it is finished.
    pub(super) unfinished: Vec<Option<Remainder>>,
    /// Delay until the retry of a failed write at the API server.
    pub(super) retry: Option<Duration>,
    /// Whether no Event is left to record.
    pub(super) has_recorded_events: bool,
}

/// The rest of an unfinished change, with the delay until it is due.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remainder {
    pub(super) attempts: Attempts,
    pub(super) wait: Wait,
    /// Delay until it is due again.
    pub(super) after: Duration,
    why: String,
}

/// The end of a reconciliation with all its Events recorded: due again as soon as the first unfinished change is.
pub(super) fn finished(facts: &Facts, now: Moment) -> (When, CarryOver) {
    let carry_over = CarryOver::new(facts, true, now);
    let unfinished = carry_over.unfinished.iter().flatten();
    let when = match unfinished.min_by_key(|one| one.after) {
        None => When::AwaitChange,
        Some(first) => {
            let (after, why) = (first.after, first.why.clone());
            match first.wait {
                Wait::Backoff { is_firm: true } => When::NotBefore { after, why },
                _ => When::Retry { after, why },
            }
        }
    };
    (when, carry_over)
}

/// The end of a reconciliation because of `error`, which the API server answered to a write.
pub(super) fn failed(facts: &Facts, error: &ClusterError, now: Moment) -> (When, CarryOver) {
    let what = match facts.current() {
        Some(_) => "the spent budget of the route removal",
        None => "the node's condition",
    };
    let why = format!("the API server did not store {what}: {error}");
    let carry_over = cut_short(facts, now);
    let after = carry_over.retry.unwrap_or_default();
    (When::Retry { after, why }, carry_over)
}

/// The state to retain of a reconciliation that is stopped before its end.
pub fn cut_short(facts: &Facts, now: Moment) -> CarryOver {
    CarryOver::new(facts, facts.next_event(now).is_none(), now)
}

impl CarryOver {
    fn new(facts: &Facts, has_recorded_events: bool, now: Moment) -> CarryOver {
        let retry = facts.state.refusals.trouble();
        let retry = retry.map(|error| after_trouble(facts, error));
        let unfinished = facts.changes.iter().map(|change| {
            let (wait, after, why) = match &change.end {
                // Not reached: retried together with the node.
                None => (Wait::Backoff { is_firm: false }, retry?, String::new()),
                Some(end) => wait(change, end, now)?,
            };
            Some(Remainder {
                attempts: attempts(facts, change, has_recorded_events),
                wait,
                after,
                why,
            })
        });
        CarryOver {
            unfinished: unfinished.collect(),
            retry,
            has_recorded_events,
        }
    }
}

fn after_trouble(facts: &Facts, error: &ClusterError) -> Duration {
    let after = retry::cluster(error).after(facts.failures.saturating_add(1));
    // Each retry costs a listing.
    after.max(BEGUN.first)
}

/// The wait after a change that ended with `end`, its delay and the reason; `None`: the change is finished.
fn wait(change: &Change, end: &End, now: Moment) -> Option<(Wait, Duration, String)> {
    let destination = change.destination;
    let backoff = Wait::Backoff { is_firm: false };
    Some(match end {
        End::Done | End::Elsewhere | End::Planned => return None,
        End::More => {
            let why = format!("more routes to {destination} remain to be removed");
            (backoff, BEGUN.first, why)
        }
        End::Held(free) => {
            let since = change.held_since().unwrap_or(now);
            let after = retry::braked(now.until(*free));
            let why = format!("{}: {destination}", Brake::RouteDeletion.engaged());
            (Wait::Held { since }, after, why)
        }
        End::Begun(pending) => {
            let (since, stalled_listings) = change.pending().unwrap_or((now, 0));
            let asked = retry::polled(pending);
            let after = match stalled_listings {
                0 => asked,
                stalled_listings => asked.max(BEGUN.after(stalled_listings)),
            };
            let why = format!("the cloud has begun to change the route to {destination}");
            (
                Wait::Pending {
                    since,
                    stalled_listings,
                },
                after,
                why,
            )
        }
        End::Failed(doing, error) => {
            let doing = match doing {
                Doing::Make => "made",
                Doing::Remove => "removed",
            };
            let why = format!("the route to {destination} could not be {doing}: {error}");
            let failures = change.attempts.failures.saturating_add(1);
            match retry::after(error, failures) {
                Next::At(after) => (backoff, after, why),
                Next::NotBefore(after) => (Wait::Backoff { is_firm: true }, after, why),
                // Retrying cannot help: only a change elsewhere can, and that may never come.
                Next::OnChange => (backoff, retry::PERSON.most, why),
            }
        }
    })
}

/// The record of the attempts at an unfinished change, this one included.
fn attempts(facts: &Facts, change: &Change, has_recorded_events: bool) -> Attempts {
    let mut attempts = change.attempts.clone();
    let has_failed = match &change.end {
        Some(End::Failed(..)) => true,
        // A node's failed writes are counted in its record.
        None => !facts.makes(),
        Some(_) => false,
    };
    attempts.failures = attempts.failures.saturating_add(u32::from(has_failed));
    if let Some(End::Failed(Doing::Make, error)) = &change.end
        && has_recorded_events
    {
        attempts.reported.insert(error.reason());
    }
    let gone = change.gone();
    attempts.reservation.retain(|route| !gone.contains(route));
    attempts
}
