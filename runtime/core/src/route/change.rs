//! What is to be changed about one destination, how far that has come, and what earlier tries have left behind. Asks
//! nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;

use crate::cloud::error::ProviderError;
use crate::cloud_route::CloudRoute;
use crate::load_balancer::{Pending, Progress};
use crate::moment::Moment;

/// How many routes to one destination a reconciliation removes. Clouds have one, and some may have a few.
const MOST_REMOVALS: usize = 16;

/// What earlier reconciliations about one destination have left behind.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RetainedState {
    /// How many have failed in a row.
    pub(super) failures: u32,
    /// Since when the cloud has only begun, in an unbroken row of answers.
    pub(super) begun: Option<Moment>,
    /// How many listings there were since, because nothing came of it.
    pub(super) in_vain: u32,
    /// What the last pending call carried.
    pub(super) hint: Option<Hint>,
    /// The routes for whose removal budget was taken.
    pub(super) reservation: Vec<Arc<CloudRoute>>,
    /// The kinds of errors that people were told of.
    pub(super) told: BTreeSet<&'static str>,
    /// When it is tried again.
    pub(super) due: Option<Moment>,
    /// Not earlier either when the node changes: the cloud asked for it.
    pub(super) is_firm: bool,
    /// Since when the brake holds it, found right by every listing since.
    pub(super) held: Option<Moment>,
    /// What the node was like then, in what matters.
    pub(super) fingerprint: u64,
}

/// What a pending call carried.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hint {
    /// Which route it was to remove; none: it was to make one.
    removal: Option<Arc<CloudRoute>>,
    carried: Arc<[u8]>,
}

impl RetainedState {
    /// Whether the cloud is at it, so that it is asked about again at the cloud's own pace and without a listing.
    pub(super) fn is_begun(&self) -> bool {
        self.begun.is_some() && self.in_vain == 0
    }
}

/// What is to be changed about one destination: first some routes go, then one is made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) destination: IpNet,
    pub(super) remove: Vec<Arc<CloudRoute>>,
    pub(super) past: RetainedState,
    /// How many of `remove` are gone.
    removed: usize,
    /// There are more than one reconciliation removes.
    has_more: bool,
    pub(super) end: Option<End>,
}

/// How a change ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    /// All is as it has to be.
    Done,
    /// So far; the rest is left to the next reconciliation.
    More,
    /// The brake is engaged until then.
    Held(Moment),
    /// The cloud has begun.
    Begun(Pending),
    /// The cloud would not.
    Failed(Doing, ProviderError),
    /// The provider makes no route for this node: somebody else does.
    Elsewhere,
    /// Nothing may be changed in this mode.
    Planned,
}

/// What a provider was asked for.
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

    /// The same, from where it is now.
    pub(super) fn again(&self, past: RetainedState) -> Change {
        let remove = self.remove.get(self.removed..).unwrap_or_default();
        Change {
            has_more: self.has_more,
            ..Change::new(self.destination, remove.to_vec(), past)
        }
    }

    /// The route that has to go next.
    pub(super) fn next_removal(&self) -> Option<&Arc<CloudRoute>> {
        self.remove.get(self.removed)
    }

    /// Whether budget was taken for its removal.
    pub(super) fn is_paid(&self, route: &Arc<CloudRoute>) -> bool {
        self.past.reservation.contains(route)
    }

    /// The routes that are gone.
    pub(super) fn gone(&self) -> &[Arc<CloudRoute>] {
        self.remove.get(..self.removed).unwrap_or_default()
    }

    /// What the last pending call about this carried: the removal of a route, or the making of one.
    pub(super) fn hint(&self, removal: Option<&Arc<CloudRoute>>) -> Option<Arc<[u8]>> {
        let hint = self.past.hint.as_ref();
        let hint = hint.filter(|hint| hint.removal.as_ref() == removal);
        hint.map(|hint| hint.carried.clone())
    }

    /// Takes the answer to a call: to make a route, or to remove this one.
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

    /// Where nothing is made, nothing left to remove is the end.
    pub(super) fn end_if_nothing_is_left(&mut self, makes: bool) {
        if self.end.is_none() && !makes && self.next_removal().is_none() {
            self.end = Some(End::Done);
        }
    }
}
