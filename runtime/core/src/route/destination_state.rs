//! The state of one destination between reconciliations: idle, being changed, or unfinished. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::change::Hint;
use super::facts::Key;
use crate::cloud::route::CloudRoute;
use crate::moment::Moment;

/// State of one destination.
#[derive(Debug, Default)]
pub(super) struct DestinationState {
    /// UID of the node that owned this pod network at the last pass: a node that claims it later does not get it.
    pub(super) holder: Option<String>,
    /// When its last reconciliation ended, and its subject, if the last listing was requested before that and does not
    /// show the result.
    pub(super) ended: Option<(Moment, Key)>,
    pub(super) phase: Phase,
}

/// Phase of the change of one destination.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// Nothing is known to be left to do.
    #[default]
    Idle,
    /// The reconciliation `by` changes it. Until that ends, the unfinished change before it counts.
    InFlight { by: Key, before: Option<Unfinished> },
    /// The last reconciliation did not finish the change.
    Unfinished(Unfinished),
}

/// A change that a reconciliation did not finish.
#[derive(Debug, Clone)]
pub(super) struct Unfinished {
    /// The subject that the change is for. For another subject it does not count.
    pub(super) subject: Key,
    pub(super) attempts: Attempts,
    pub(super) wait: Wait,
    /// When to poll or retry.
    pub(super) due: Moment,
}

/// Why a change is unfinished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wait {
    /// The cloud answered pending.
    Pending {
        /// Start of the current unbroken row of pending answers.
        since: Moment,
        /// Listings since the operation stopped progressing; 0 while it progresses.
        stalled_listings: u32,
    },
    /// The brake holds the removal, and every listing since then has confirmed it.
    Held { since: Moment },
    /// It failed, was interrupted or is too long for one reconciliation.
    Backoff {
        /// Do not retry early, even when the node changes: the cloud asked for the delay.
        is_firm: bool,
    },
}

/// Record of the attempts at an unfinished change.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Attempts {
    /// Fingerprint of the node; zero without one.
    pub(super) fingerprint: u64,
    /// Number of consecutive failures.
    pub(super) failures: u32,
    /// Hint of the last pending answer.
    pub(super) hint: Option<Hint>,
    /// Routes for whose removal budget was taken.
    pub(super) reservation: Vec<Arc<CloudRoute>>,
    /// Error kinds already reported as Events.
    pub(super) reported: BTreeSet<&'static str>,
}

/// Whether a change may be attempted.
pub(super) enum Attempt {
    /// From this moment on.
    Due(Moment),
    /// Not yet; `true`: it has failed more than once.
    Later(bool),
}

impl Unfinished {
    /// Whether the operation is pending and progressing, so that it is polled at the cloud's own pace without a
    /// listing.
    pub(super) fn is_polled(&self) -> bool {
        matches!(
            self.wait,
            Wait::Pending {
                stalled_listings: 0,
                ..
            }
        )
    }
}

impl DestinationState {
    /// The unfinished change, also while a reconciliation continues it.
    pub(super) fn unfinished(&self) -> Option<&Unfinished> {
        match &self.phase {
            Phase::Idle => None,
            Phase::InFlight { before, .. } => before.as_ref(),
            Phase::Unfinished(unfinished) => Some(unfinished),
        }
    }

    pub(super) fn is_unfinished_for(&self, subject: &Key) -> bool {
        self.unfinished().is_some_and(|one| one.subject == *subject)
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.phase, Phase::InFlight { .. })
    }

    /// The subject whose reconciliation changes the destination, or did after the provider was asked, so that the
    /// listing is outdated.
    pub(super) fn changed_by(&self, asked_at: Moment) -> Option<&Key> {
        match &self.phase {
            Phase::InFlight { by, .. } => Some(by),
            Phase::Idle | Phase::Unfinished(_) => self.ended_since(asked_at),
        }
    }

    fn ended_since(&self, asked_at: Moment) -> Option<&Key> {
        let (at, by) = self.ended.as_ref()?;
        (*at >= asked_at).then_some(by)
    }

    /// Whether an operation for this subject became pending after the provider was asked, and is polled.
    pub(super) fn is_polled_since(
        &self,
        asked_at: Moment,
        subject: &Key,
        fingerprint: u64,
    ) -> bool {
        let is_polled = |one: &Unfinished| {
            one.is_polled() && one.subject == *subject && one.attempts.fingerprint == fingerprint
        };
        self.unfinished().is_some_and(is_polled) && self.ended_since(asked_at).is_some()
    }

    /// Each destination has its own retry time; a change of its node makes all of them due at once.
    pub(super) fn attempt(&self, subject: &Key, fingerprint: u64, now: Moment) -> Attempt {
        let unfinished = self.unfinished().filter(|one| one.subject == *subject);
        let Some(unfinished) = unfinished.filter(|one| one.due > now) else {
            return Attempt::Due(now);
        };
        let is_same = unfinished.attempts.fingerprint == fingerprint;
        let is_firm = unfinished.wait == Wait::Backoff { is_firm: true };
        match unfinished.is_polled() && is_same {
            true => Attempt::Due(unfinished.due),
            false if is_same || is_firm => Attempt::Later(unfinished.attempts.failures > 1),
            false => Attempt::Due(now),
        }
    }

    /// The attempts so far for this subject, and the wait after the last one. After a change of the node only the
    /// budget already taken counts.
    pub(super) fn attempts(&self, subject: &Key, fingerprint: u64) -> (Attempts, Option<Wait>) {
        let unfinished = self.unfinished().filter(|one| one.subject == *subject);
        match unfinished {
            Some(one) if one.attempts.fingerprint == fingerprint => {
                (one.attempts.clone(), Some(one.wait))
            }
            other => {
                let reservation = other.map(|one| one.attempts.reservation.clone());
                let attempts = Attempts {
                    fingerprint,
                    reservation: reservation.unwrap_or_default(),
                    ..Attempts::default()
                };
                (attempts, None)
            }
        }
    }

    /// A reconciliation of this destination begins.
    pub(super) fn begin(&mut self, by: Key) {
        let before = self.unfinished().cloned();
        self.phase = Phase::InFlight { by, before };
    }

    /// The reconciliation `by` of this destination ended; `unfinished` is the rest of its change.
    pub(super) fn end(&mut self, by: &Key, unfinished: Option<Unfinished>, now: Moment) {
        self.ended = Some((now, by.clone()));
        self.phase = unfinished.map_or(Phase::Idle, Phase::Unfinished);
    }

    /// The reconciliation `by` ended without a result.
    pub(super) fn abandon(&mut self, by: &Key, now: Moment) {
        if let Phase::InFlight { by: one, before } = &mut self.phase
            && one == by
        {
            let before = before.take();
            self.end(by, before, now);
        }
    }

    /// Takes the result of a listing requested at `asked_at`: the holder, and whether the unfinished change is still
    /// wanted for its subject. Returns whether there is anything to retain.
    pub(super) fn retain(
        &mut self,
        asked_at: Moment,
        holder: Option<String>,
        is_wanted: impl Fn(&Key) -> bool,
    ) -> bool {
        self.holder = holder;
        self.ended = self.ended.take().filter(|(at, _)| *at >= asked_at);
        if let Phase::Unfinished(unfinished) = &self.phase
            && self.ended.is_none()
            && !is_wanted(&unfinished.subject)
        {
            self.phase = Phase::Idle;
        }
        self.holder.is_some() || self.ended.is_some() || !matches!(self.phase, Phase::Idle)
    }
}
