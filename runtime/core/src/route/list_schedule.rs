//! When routes are listed: after a change of the nodes, in the slow resync, and when something that has failed is due
//! again. Nothing due and nothing changed: no listing. Decides nothing about routes.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cloud::error::ProviderError;
use crate::moment::Moment;
use crate::retry::{self, Backoff, Retry};
use crate::settings::RouteSettings;

/// While routes cannot be listed nothing can be done for a new node, so that it is tried again within half a minute.
const LISTING: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct ListSchedule {
    /// All nodes were listed once: before that, nobody knows who is missing.
    is_open: bool,
    /// When the changes of the nodes that no listing was asked for have begun, and when the last one was.
    unsettled: Option<(Moment, Moment)>,
    /// When something that has failed is due again.
    retries: BTreeSet<Moment>,
    /// When the last listing was asked for.
    last: Option<Moment>,
    is_asking: bool,
    failures: u32,
    /// After a failed listing.
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

    /// The nodes have changed in what matters.
    pub(super) fn unsettle(&mut self, now: Moment) {
        let first = self.unsettled.map_or(now, |(first, _)| first);
        self.unsettled = Some((first, now));
    }

    /// Something is due again after so long. Says when: what fails one after another is tried again together, if that
    /// costs a quarter of the wait at most.
    pub(super) fn retry(&mut self, now: Moment, after: Duration) -> Moment {
        let at = now.after(after);
        let latest = at.after(after / 4);
        let joined = self.retries.range(at..=latest).next().copied();
        let at = joined.unwrap_or(at);
        self.retries.insert(at);
        at
    }

    /// Only these retries are still wanted.
    pub(super) fn keep(&mut self, retries: impl Iterator<Item = Moment>) {
        self.retries = retries.collect();
    }

    /// When routes are to be listed next, if ever.
    pub(super) fn next(&self, settings: &RouteSettings) -> Option<Moment> {
        if !self.is_open || self.is_asking {
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
        // After a failure the next try is all there is, whatever else is due.
        match self.not_before {
            Some(earliest) => Some(earliest),
            None => Some(at.max(spaced.unwrap_or(at))),
        }
    }

    /// Routes are being listed.
    pub(super) fn begin(&mut self, now: Moment) {
        self.unsettled = None;
        self.retries = self.retries.split_off(&now);
        self.retries.remove(&now);
        self.last = Some(now);
        self.is_asking = true;
    }

    /// They were listed.
    pub(super) fn succeed(&mut self) {
        self.is_asking = false;
        self.failures = 0;
        self.not_before = None;
    }

    /// They were not. Says how long it takes until they are asked for again.
    pub(super) fn fail(
        &mut self,
        error: &ProviderError,
        settings: &RouteSettings,
        now: Moment,
    ) -> Duration {
        self.is_asking = false;
        self.failures = self.failures.saturating_add(1);
        let grown = LISTING.after(self.failures);
        let after = match retry::after(error, self.failures) {
            // As long as the cloud asks for.
            Retry::NotBefore(asked) if has_asked(error) => asked,
            Retry::OnChange => settings.resync,
            Retry::After(_) if retry::needs_a_person(error) => {
                retry::PERSON.after(self.failures).min(LISTING.most)
            }
            Retry::NotBefore(_) | Retry::After(_) => grown,
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
