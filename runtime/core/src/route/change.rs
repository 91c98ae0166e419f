//! The change to make for one destination: its progress, and the state kept from earlier attempts. Performs no I/O.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;

use crate::cloud::error::ProviderError;
use crate::cloud_route::CloudRoute;
use crate::load_balancer::{Pending, Progress};
use crate::moment::Moment;

/// Maximum number of routes to one destination that a reconciliation removes. Clouds have one, some may have a few.
const MOST_REMOVALS: usize = 16;

/// State kept from earlier reconciliations of one destination.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RetainedState {
    /// Number of consecutive failures.
    pub(super) failures: u32,
    /// Start of the current unbroken row of pending answers.
    pub(super) begun: Option<Moment>,
    /// Listings since the pending operation stopped progressing; 0 while it progresses.
    pub(super) in_vain: u32,
    /// Hint of the last pending answer.
    pub(super) hint: Option<Hint>,
    /// Routes for whose removal budget was taken.
    pub(super) reservation: Vec<Arc<CloudRoute>>,
    /// Error kinds already reported as Events.
    pub(super) told: BTreeSet<&'static str>,
    /// When to retry.
    pub(super) due: Option<Moment>,
    /// Do not retry before `due`, even when the node changes: the cloud asked for the delay.
    pub(super) is_firm: bool,
    /// Since when the brake holds the removal, with every listing since confirming it.
    pub(super) held: Option<Moment>,
    /// Fingerprint of the node at that time.
    pub(super) fingerprint: u64,
}

/// Hint of a pending call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hint {
    /// The route to remove; `None`: the call was to create a route.
    removal: Option<Arc<CloudRoute>>,
    carried: Arc<[u8]>,
}

impl RetainedState {
    /// Whether the operation is pending and progressing, so that it is polled at the cloud's own pace without a
    /// listing.
    pub(super) fn is_begun(&self) -> bool {
        self.begun.is_some() && self.in_vain == 0
    }
}

/// The change for one destination: first remove routes, then create one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) destination: IpNet,
    pub(super) remove: Vec<Arc<CloudRoute>>,
    pub(super) past: RetainedState,
    /// Number of routes in `remove` that are gone.
    removed: usize,
    /// More routes have to go than one reconciliation removes.
    has_more: bool,
    pub(super) end: Option<End>,
}

/// Result of a change.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    /// The routes are as desired.
    Done,
    /// The maximum number of removals is reached; the next reconciliation continues.
    More,
    /// The brake is engaged until this moment.
    Held(Moment),
    /// The cloud answered pending.
    Begun(Pending),
    /// The cloud refused, or the call failed.
    Failed(Doing, ProviderError),
    /// The provider creates no route for this node: another component does.
    Elsewhere,
    /// This mode permits no changes.
    Planned,
}

/// The operation requested from a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Make,
    Remove,
}

impl Change {
    pub(super) fn new(
        destination: IpNet,
        mut remove: Vec<Arc<CloudRoute>>,
        past: RetainedState,
    ) -> Change {
        let has_more = remove.len() > MOST_REMOVALS;
        remove.truncate(MOST_REMOVALS);
        Change {
            destination,
            remove,
            past,
            removed: 0,
            has_more,
            end: None,
        }
    }

    /// The rest of this change, to be continued later.
    pub(super) fn again(&self, past: RetainedState) -> Change {
        let remove = self.remove.get(self.removed..).unwrap_or_default();
        Change {
            has_more: self.has_more,
            ..Change::new(self.destination, remove.to_vec(), past)
        }
    }

    /// The next route to remove.
    pub(super) fn next_removal(&self) -> Option<&Arc<CloudRoute>> {
        self.remove.get(self.removed)
    }

    /// Whether budget was taken for the removal of `route`.
    pub(super) fn is_paid(&self, route: &Arc<CloudRoute>) -> bool {
        self.past.reservation.contains(route)
    }

    /// The routes that have been removed.
    pub(super) fn gone(&self) -> &[Arc<CloudRoute>] {
        self.remove.get(..self.removed).unwrap_or_default()
    }

    /// Hint of the last pending call for the same operation: removal of this route, or creation if `None`.
    pub(super) fn hint(&self, removal: Option<&Arc<CloudRoute>>) -> Option<Arc<[u8]>> {
        let hint = self.past.hint.as_ref();
        let hint = hint.filter(|hint| hint.removal.as_ref() == removal);
        hint.map(|hint| hint.carried.clone())
    }

    /// Takes the answer to a creation (`removal` is `None`) or to the removal of this route.
    pub(super) fn hear(
        &mut self,
        removal: Option<Arc<CloudRoute>>,
        answer: &Result<Progress, ProviderError>,
    ) {
        let is_removal = removal.is_some();
        match answer {
            Ok(Progress::Done) if is_removal => {
                self.removed += 1;
                if self.has_more && self.next_removal().is_none() {
                    self.end = Some(End::More);
                }
            }
            Ok(Progress::Done) => self.end = Some(End::Done),
            Ok(Progress::Pending(pending)) => {
                self.past.hint = pending
                    .hint
                    .clone()
                    .map(|carried| Hint { removal, carried });
                self.end = Some(End::Begun(pending.clone()));
                return;
            }
            Err(ProviderError::Elsewhere) if !is_removal => self.end = Some(End::Elsewhere),
            Err(error) => {
                let doing = if is_removal {
                    Doing::Remove
                } else {
                    Doing::Make
                };
                self.end = Some(End::Failed(doing, error.clone()));
            }
        }
        self.past.hint = None;
    }

    /// Ends the change when nothing is left to remove and no route is to be created.
    pub(super) fn end_if_nothing_is_left(&mut self, makes: bool) {
        if self.end.is_none() && !makes && self.next_removal().is_none() {
            self.end = Some(End::Done);
        }
    }
}
