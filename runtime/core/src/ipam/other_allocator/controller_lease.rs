//! The Lease of kube-controller-manager: whether a process holds it, which one, and since when. Sends nothing.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::moment::Moment;
use crate::safety::lease::Observation;

/// kube-controller-manager's default, for a record that states no duration.
const UNSTATED: Duration = Duration::from_secs(15);
/// How much longer than its duration a Lease has to stay unchanged until its holder counts as gone: the time in which
/// another kube-controller-manager takes the Lease over, and in which the last writes of the holder arrive.
const MARGIN: Duration = Duration::from_secs(10);
/// Maximum time between a write of pod CIDRs and its observation: a process that has held the Lease for longer made it.
const LATENESS: Duration = Duration::from_secs(10);
/// How far the clocks of the API server and of kube-controller-manager may differ.
const MOST_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// The answer to a read of the Lease.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseAnswer {
    /// The Lease's content.
    Found(LeaseSpec),
    /// It does not exist.
    Absent,
    /// This manager may not read it.
    Denied,
    /// No answer, or an unusable one.
    Failed,
}

/// The Lease as it was read last.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ControllerLease {
    Unread,
    Denied,
    Absent,
    Found {
        observed: Observation,
        /// When the last read that found it was sent.
        confirmed: Moment,
        /// Since when it is known to have this holder.
        held: Moment,
    },
}

impl ControllerLease {
    /// Takes the answer to a read that was sent at `sent`. Returns whether the answer is usable.
    pub(super) fn read(&mut self, answer: LeaseAnswer, sent: Moment, now: Moment) -> bool {
        match (answer, &mut *self) {
            (LeaseAnswer::Failed, _) => return false,
            (
                LeaseAnswer::Found(record),
                ControllerLease::Found {
                    observed,
                    confirmed,
                    held,
                },
            ) => {
                let holder = observed.holder().to_owned();
                observed.see(record, now);
                *confirmed = sent;
                if observed.holder() != holder {
                    *held = now;
                }
            }
            (LeaseAnswer::Found(record), _) => {
                *self = ControllerLease::Found {
                    observed: Observation::new(record, now),
                    confirmed: sent,
                    held: now,
                };
            }
            (LeaseAnswer::Absent, _) => *self = ControllerLease::Absent,
            (LeaseAnswer::Denied, _) => *self = ControllerLease::Denied,
        }
        true
    }

    /// The process that holds the Lease and may be alive.
    pub(super) fn holder(&self) -> Option<&str> {
        let ControllerLease::Found {
            observed,
            confirmed,
            ..
        } = self
        else {
            return None;
        };
        let ends = observed.ends(UNSTATED).after(MARGIN);
        let is_alive = *confirmed <= ends && !observed.holder().is_empty();
        is_alive.then(|| observed.holder())
    }

    /// The holder of the Lease, if it was the holder already when a write that is observed now was made.
    pub(super) fn author(&self, now: Moment) -> Option<&str> {
        let ControllerLease::Found { held, .. } = self else {
            return None;
        };
        self.holder().filter(|_| held.until(now) >= LATENESS)
    }

    /// Whether a node created at this time was created under the present holder, whatever the clocks are.
    pub(super) fn is_older_than(&self, created: Timestamp) -> bool {
        let ControllerLease::Found { observed, .. } = self else {
            return false;
        };
        let acquired = observed.record().acquire_time.as_ref();
        acquired.is_some_and(|acquired| created.duration_since(acquired.0) >= MOST_SKEW)
    }
}
