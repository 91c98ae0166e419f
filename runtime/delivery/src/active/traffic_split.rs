//! One trial of a candidate: selects its calls and counts how they end. Makes no calls and draws no conclusions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ccm_core::cloud::ProviderError;
use ccm_core::rollout::{Counts, TrialKind, TrialTally};
use ccm_core::safety::permit::Permit;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::{Generation, Holding, revoked};

/// At most one in this many calls answered by the serving generation is repeated for comparison: the candidate takes at
/// most a tenth of what the cloud allows.
const ONE_IN: i64 = 10;
/// Maximum number of stored differences; the verdict comes long before.
const DIFFERENCES: usize = 64;
/// Maximum length of a fatal error's text, in characters, as stored in a record.
const FATAL: usize = 1_000;

/// The generation that a call went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The serving generation.
    Serving,
    /// The generation on trial.
    Candidate,
}

/// Calls of the serving generation since the last one that was repeated for comparison.
#[derive(Default)]
pub(super) struct Uncompared(Mutex<i64>);

impl Uncompared {
    /// Accounts for additional calls of a comparison: ten times as many must pass before the next one.
    pub(super) fn asked_more(&self, calls: i64) {
        *self.0.lock() -= calls * ONE_IN;
    }
}

/// A candidate on trial, and the counts of its calls.
pub(super) struct Trial<P> {
    pub(super) kind: TrialKind,
    pub(super) candidate: Arc<Generation<P>>,
    tally: Mutex<TrialTally>,
    changed: Arc<Notify>,
    finds: AtomicU32,
    /// Of the look-ups.
    pub(super) finds_uncompared: Uncompared,
    /// Of the route lists, which are rare: the first one counts as ten.
    pub(super) lists_uncompared: Uncompared,
    /// A single permit: at most one comparison runs at a time. Closed when the trial is over.
    comparing: Arc<Semaphore>,
    comparison: Mutex<Option<AbortHandle>>,
}

impl<P: Holding> Trial<P> {
    pub(super) fn new(
        kind: TrialKind,
        candidate: Arc<Generation<P>>,
        changed: Arc<Notify>,
    ) -> Trial<P> {
        Trial {
            kind,
            candidate,
            tally: Mutex::default(),
            changed,
            finds: AtomicU32::new(0),
            finds_uncompared: Uncompared::default(),
            lists_uncompared: Uncompared(Mutex::new(ONE_IN - 1)),
            comparing: Arc::new(Semaphore::new(1)),
            comparison: Mutex::default(),
        }
    }

    /// Whether this `find` goes to the candidate: every second one does.
    pub(super) fn takes_find(&self) -> bool {
        self.kind == TrialKind::Canary && self.finds.fetch_add(1, Ordering::Relaxed) % 2 == 1
    }

    /// Whether calls about the Service with this UID go to the candidate. Depends on the UID only, so that all calls
    /// about a Service stay with one generation.
    pub(super) fn takes_service(&self, uid: &str) -> bool {
        // FNV-1a: the API server chooses UIDs, so that a user cannot choose the half.
        let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.kind == TrialKind::Canary && (hash ^ (hash >> 32)) % 2 == 1
    }

    /// Permits the comparison of the call that was just answered: at most one in ten, one at a time, and not during a
    /// rate-limit hold.
    pub(super) fn may_compare(&self, uncompared: &Uncompared) -> Option<OwnedSemaphorePermit> {
        let mut calls = uncompared.0.lock();
        *calls = calls.saturating_add(1);
        if *calls < ONE_IN || self.candidate.provider.held_for().is_some() {
            return None;
        }
        let turn = self.comparing.clone().try_acquire_owned().ok()?;
        *calls -= ONE_IN;
        Some(turn)
    }

    /// Waits for the permit of a requested comparison.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.comparing.clone().acquire_owned().await.ok()
    }

    /// Compares in the background, and holds the permit of the comparison until it ends. Aborted when the trial ends.
    pub(super) fn compare_later(
        &self,
        turn: OwnedSemaphorePermit,
        comparison: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = tokio::spawn(async move {
            comparison.await;
            drop(turn);
        });
        *self.comparison.lock() = Some(task.abort_handle());
        // The trial may have ended in between.
        if self.comparing.is_closed() {
            self.end();
        }
    }

    /// Ends the trial: stops counting and aborts the comparison.
    pub(super) fn end(&self) {
        self.comparing.close();
        if let Some(comparison) = self.comparison.lock().take() {
            comparison.abort();
        }
    }

    pub(super) fn tally(&self) -> TrialTally {
        self.tally.lock().clone()
    }

    /// Counts how a call ended.
    pub(super) fn count_answer<T>(
        &self,
        side: Side,
        function: &str,
        answer: &Result<T, ProviderError>,
        permit: &Permit,
    ) {
        let error = answer.as_ref().err();
        if error.is_some_and(|error| self.is_placeholders(error, permit)) {
            return;
        }
        if let Some(ProviderError::Interrupted(_) | ProviderError::NotBegun(_)) = error {
            if side == Side::Candidate {
                self.count(|tally| tally.interrupted = tally.interrupted.saturating_add(1));
            }
            return;
        }
        self.count(|tally| {
            let counts = match side {
                Side::Serving => &mut tally.serving,
                Side::Candidate => &mut tally.candidate,
            };
            counts.calls = counts.calls.saturating_add(1);
            let Some(error) = error else {
                return;
            };
            let times = counts.errors.entry(error.reason()).or_default();
            *times = times.saturating_add(1);
            if side == Side::Candidate && is_fatal(error, &tally.serving) {
                let text = format!("{function}: {error}");
                tally
                    .fatal
                    .get_or_insert_with(|| text.chars().take(FATAL).collect());
            }
        });
    }

    /// Counts a compared answer and its differences.
    pub(super) fn compared(&self, differences: Vec<String>) {
        self.count(|tally| {
            tally.compared = tally.compared.saturating_add(1);
            let room = DIFFERENCES.saturating_sub(tally.differences.len());
            tally.differences.extend(differences.into_iter().take(room));
        });
    }

    /// Records an impossible answer of the candidate as fatal.
    pub(super) fn lied(&self, what: String) {
        self.count(|tally| {
            tally.fatal.get_or_insert(what);
        });
    }

    fn count(&self, change: impl FnOnce(&mut TrialTally)) {
        if !self.comparing.is_closed() {
            change(&mut self.tally.lock());
            self.changed.notify_one();
        }
    }

    /// Whether an error says nothing about the module: the tenure has ended, or the host answered in the guest's place
    /// during a rate-limit hold.
    fn is_placeholders(&self, error: &ProviderError, permit: &Permit) -> bool {
        match error {
            ProviderError::Throttled { .. } => self.candidate.provider.held_for().is_some(),
            _ => revoked(permit.tenure()).is_some(),
        }
    }
}

/// Whether an error of this kind fails the candidate's trial. A trap always does; a time-out or an invalid answer does
/// if the serving generation had none.
fn is_fatal(error: &ProviderError, serving: &Counts) -> bool {
    match error {
        ProviderError::Trapped(_) => true,
        ProviderError::TimedOut(_) | ProviderError::Internal(_) => {
            !serving.errors.contains_key(error.reason())
        }
        _ => false,
    }
}
