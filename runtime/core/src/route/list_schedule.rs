//! When to list routes: after node changes, after changes of routes that a plan had to pass over, at the slow resync,
//! and when a failed change is due again. With nothing changed or due, no listing. Decides nothing about routes.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cloud::error::ProviderError;
use crate::moment::Moment;
use crate::reconciliation::conclusion::Next;
use crate::reconciliation::retry::{self, Backoff};
use crate::settings::RouteSettings;

/// Without a listing no new node gets a route, so a failed listing is retried within 30 s.
const LISTING: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
};

/// Schedule of the listings.
#[derive(Debug, Default)]
pub(super) struct ListSchedule {
    /// All nodes were read once. Before that, a missing node cannot be told from an unread one.
    is_open: bool,
    /// First and last reason to list anew since the last listing was requested.
    unsettled: Option<(Moment, Moment)>,
    /// When failed changes are due again.
    retries: BTreeSet<Moment>,
    /// When the last listing was requested.
    last: Option<Moment>,
    failures: u32,
    /// Earliest next listing after a failed one.
    not_before: Option<Moment>,
}

impl ListSchedule {
    /// All nodes are known.
    pub(super) fn open(&mut self, now: Moment) {
        if !self.is_open {
            self.is_open = true;
            self.unsettle(now);
        }
    }

    /// Number of listings that have failed since the last successful one.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// A node changed in a field that affects routes, or what the last plan passed over can be planned.
    pub(super) fn unsettle(&mut self, now: Moment) {
        let first = self.unsettled.map_or(now, |(first, _)| first);
        self.unsettled = Some((first, now));
    }

    /// Schedules a retry after `after` and returns when. Joins a retry that is already scheduled if that adds at most a
    /// quarter of the wait.
    pub(super) fn retry(&mut self, now: Moment, after: Duration) -> Moment {
        let at = now.after(after);
        let latest = at.after(after / 4);
        let joined = self.retries.range(at..=latest).next().copied();
        let at = joined.unwrap_or(at);
        self.retries.insert(at);
        at
    }

    /// Replaces the scheduled retries.
    pub(super) fn keep(&mut self, retries: impl Iterator<Item = Moment>) {
        self.retries = retries.collect();
    }

    /// When to list routes next; `None`: not scheduled.
    pub(super) fn next(&self, settings: &RouteSettings) -> Option<Moment> {
        if !self.is_open {
            return None;
        }
        let settled = self.unsettled.map(|(first, last)| {
            let quiet = last.after(settings.node_quiet);
            quiet.min(first.after(settings.node_wait))
        });
        let resync = self.last.map(|last| last.after(settings.resync));
        let retry = self.retries.first().copied();
        let at = settled.into_iter().chain(resync).chain(retry).min()?;
        let spaced = self.last.map(|last| last.after(settings.node_quiet));
        // After a failed listing its retry time overrides everything else that is due.
        self.not_before.or(spaced.max(Some(at)))
    }

    /// Records that a listing starts.
    pub(super) fn begin(&mut self, now: Moment) {
        self.unsettled = None;
        self.retries = self.retries.split_off(&now);
        self.retries.remove(&now);
        self.last = Some(now);
    }

    /// Records that the listing succeeded.
    pub(super) fn succeed(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }

    /// Records that the listing failed. Returns the delay until the next one.
    pub(super) fn fail(
        &mut self,
        error: &ProviderError,
        settings: &RouteSettings,
        now: Moment,
    ) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let grown = LISTING.after(self.failures);
        let after = match retry::after(error, self.failures) {
            // The delay that the cloud requested.
            Next::NotBefore(asked) if has_asked(error) => asked,
            Next::OnChange => settings.resync,
            Next::At(_) if retry::needs_a_person(error) => {
                retry::PERSON.after(self.failures).min(LISTING.most)
            }
            Next::NotBefore(_) | Next::At(_) => grown,
        };
        self.not_before = Some(now.after(after));
        after
    }
}

fn has_asked(error: &ProviderError) -> bool {
    let ProviderError::Throttled { retry_after, .. } = error else {
        return false;
    };
    retry_after.is_some()
}
