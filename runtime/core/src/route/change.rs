//! The change to make for one destination, and its progress. Performs no I/O.

use std::sync::Arc;

use ipnet::IpNet;

use super::destination_state::{Attempts, Wait};
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::{Pending, Progress};
use crate::cloud::route::CloudRoute;
use crate::moment::Moment;

/// Maximum number of routes to one destination that a reconciliation removes. Clouds have one, some may have a few.
const MOST_REMOVALS: usize = 16;

/// Hint of a pending call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hint {
    /// The route to remove; `None`: the call was to create a route.
    removal: Option<Arc<CloudRoute>>,
    carried: Arc<[u8]>,
}

/// A planned change for one destination: first remove routes, then create one.
#[derive(Debug, Clone)]
pub(super) struct PlannedChange {
    pub(super) destination: IpNet,
    pub(super) remove: Vec<Arc<CloudRoute>>,
    /// More routes have to go than one reconciliation removes.
    has_more: bool,
}

impl PlannedChange {
    pub(super) fn new(destination: IpNet, mut remove: Vec<Arc<CloudRoute>>) -> PlannedChange {
        let has_more = remove.len() > MOST_REMOVALS;
        remove.truncate(MOST_REMOVALS);
        PlannedChange {
            destination,
            remove,
            has_more,
        }
    }
}

/// A change in progress.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) destination: IpNet,
    pub(super) remove: Vec<Arc<CloudRoute>>,
    /// The attempts before this one, and the wait after the last of them.
    pub(super) attempts: Attempts,
    wait: Option<Wait>,
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
    /// The brake is engaged; budget is available again from this moment on.
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
    pub(super) fn begin(
        planned: PlannedChange,
        (attempts, wait): (Attempts, Option<Wait>),
    ) -> Change {
        Change {
            destination: planned.destination,
            remove: planned.remove,
            attempts,
            wait,
            removed: 0,
            has_more: planned.has_more,
            end: None,
        }
    }

    /// The rest of this change, to be continued later.
    pub(super) fn rest(&self) -> PlannedChange {
        PlannedChange {
            destination: self.destination,
            remove: self.remove.get(self.removed..).unwrap_or_default().to_vec(),
            has_more: self.has_more,
        }
    }

    /// Since when the brake holds the removal.
    pub(super) fn held_since(&self) -> Option<Moment> {
        match self.wait {
            Some(Wait::Held { since }) => Some(since),
            _ => None,
        }
    }

    /// Since when the cloud has answered pending, and the number of listings since it stopped progressing.
    pub(super) fn pending(&self) -> Option<(Moment, u32)> {
        match self.wait {
            Some(Wait::Pending {
                since,
                stalled_listings,
            }) => Some((since, stalled_listings)),
            _ => None,
        }
    }

    /// The next route to remove.
    pub(super) fn next_removal(&self) -> Option<&Arc<CloudRoute>> {
        self.remove.get(self.removed)
    }

    /// Whether budget was taken for the removal of `route`.
    pub(super) fn is_paid(&self, route: &Arc<CloudRoute>) -> bool {
        self.attempts.reservation.contains(route)
    }

    /// The routes that have been removed.
    pub(super) fn gone(&self) -> &[Arc<CloudRoute>] {
        self.remove.get(..self.removed).unwrap_or_default()
    }

    /// Hint of the last pending call for the same operation: removal of this route, or creation if `None`.
    pub(super) fn hint(&self, removal: Option<&Arc<CloudRoute>>) -> Option<Arc<[u8]>> {
        let hint = self.attempts.hint.as_ref();
        let hint = hint.filter(|hint| hint.removal.as_ref() == removal);
        hint.map(|hint| hint.carried.clone())
    }

    /// Takes the answer to a creation (`removal` is `None`) or to the removal of this route.
    pub(super) fn absorb_answer(
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
                self.attempts.hint = pending
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
        self.attempts.hint = None;
    }

    /// Ends the change when nothing is left to remove and no route is to be created.
    pub(super) fn end_if_nothing_is_left(&mut self, makes: bool) {
        if self.end.is_none() && !makes && self.next_removal().is_none() {
            self.end = Some(End::Done);
        }
    }
}
