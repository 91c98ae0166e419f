//! One trial of a candidate: whose turn it is, and how the calls end. Makes no call and draws no conclusion.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccm_core::cloud::ProviderError;
use ccm_core::permit::Permit;
use ccm_core::rollout::{Counts, Tally};
use ccm_host::egress::now;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::{Generation, Holding};

/// Of so many calls that the serving generation answered one may be asked once more for comparison: the candidate
/// takes at most a tenth of what the cloud allows.
const ONE_IN: i64 = 10;
/// Differences that are remembered; the verdict comes long before.
const DIFFERENCES: usize = 64;
/// The text of a fatal error is cut at this length, in characters: what a record holds of it.
const FATAL: usize = 1_000;

/// What a trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Answers are compared, and the candidate's used for nothing.
    Shadow,
    /// The candidate answers a part of the calls.
    Canary,
}

/// Whose call it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Of the generation that serves.
    Serving,
    /// Of the one that is tried.
    Candidate,
}

/// See the module's documentation.
pub(super) struct Trial<P> {
    pub(super) kind: Kind,
    pub(super) candidate: Arc<Generation<P>>,
    tally: Mutex<Tally>,
    changed: Arc<Notify>,
    is_over: AtomicBool,
    finds: AtomicU32,
    /// Look-ups since the last one that was asked once more.
    unshadowed: Mutex<i64>,
    /// Lists of routes since the last one that was asked once more. There are few of them, so that the first one counts
    /// for ten.
    unlisted: Mutex<i64>,
    /// One for the only comparison that may be under way.
    comparing: Arc<Semaphore>,
    comparison: Mutex<Option<AbortHandle>>,
}

impl<P: Holding> Trial<P> {
    pub(super) fn new(kind: Kind, candidate: Arc<Generation<P>>, changed: Arc<Notify>) -> Trial<P> {
        Trial {
            kind,
            candidate,
            tally: Mutex::default(),
            changed,
            is_over: AtomicBool::new(false),
            finds: AtomicU32::new(0),
            unshadowed: Mutex::default(),
            unlisted: Mutex::new(ONE_IN - 1),
            comparing: Arc::new(Semaphore::new(1)),
            comparison: Mutex::default(),
        }
    }

    /// Whether this `find` is the candidate's: every second one.
    pub(super) fn takes_find(&self) -> bool {
        self.kind == Kind::Canary && self.finds.fetch_add(1, Ordering::Relaxed) % 2 == 1
    }

    /// Whether calls about the Service with this UID are the candidate's. Always the same half, so that one sequence of
    /// calls stays with one generation.
    pub(super) fn takes_service(&self, uid: &str) -> bool {
        // FNV-1a: UIDs are chosen by the API server, so that nobody aims at one half.
        let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.kind == Kind::Canary && (hash ^ (hash >> 32)) % 2 == 1
    }

    /// Whether the look-up that was just answered is to be compared: at most one in ten, one at a time, and not while the
    /// cloud wants to be left alone.
    pub(super) fn may_compare(&self) -> Option<OwnedSemaphorePermit> {
        match self.kind {
            Kind::Shadow => self.turn_after(&self.unshadowed),
            Kind::Canary => None,
        }
    }

    /// The same of a list of routes, whatever the trial is: no list is the candidate's.
    pub(super) fn may_compare_lists(&self) -> Option<OwnedSemaphorePermit> {
        self.turn_after(&self.unlisted)
    }

    fn turn_after(&self, uncompared: &Mutex<i64>) -> Option<OwnedSemaphorePermit> {
        let mut uncompared = lock(uncompared);
        *uncompared = uncompared.saturating_add(1);
        if *uncompared < ONE_IN || self.candidate.provider.held_for().is_some() {
            return None;
        }
        let turn = self.comparing.clone().try_acquire_owned().ok()?;
        *uncompared -= ONE_IN;
        Some(turn)
    }

    /// Counts further look-ups for the sake of a comparison: as many more have to pass before the next one.
    pub(super) fn asked_more(&self, calls: i64) {
        *lock(&self.unshadowed) -= calls * ONE_IN;
    }

    /// The same of lists of routes.
    pub(super) fn listed_more(&self, calls: i64) {
        *lock(&self.unlisted) -= calls * ONE_IN;
    }

    /// Waits for the turn of a comparison that somebody asked for.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.comparing.clone().acquire_owned().await.ok()
    }

    /// Ends with the trial.
    pub(super) fn binds(&self, comparison: AbortHandle) {
        *lock(&self.comparison) = Some(comparison);
        // It may have ended a moment ago.
        if self.is_over() {
            self.end();
        }
    }

    /// Nothing is counted any more, and no comparison goes on.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.comparing.close();
        if let Some(comparison) = lock(&self.comparison).take() {
            comparison.abort();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(super) fn tally(&self) -> Tally {
        lock(&self.tally).clone()
    }

    /// Counts how a call ended.
    pub(super) fn heard<T>(
        &self,
        side: Side,
        function: &str,
        answer: &Result<T, ProviderError>,
        permit: &Permit,
    ) {
        let error = answer.as_ref().err();
        if error.is_some_and(|error| self.is_nobodys(error, permit)) {
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

    /// Counts an answer that was compared.
    pub(super) fn compared(&self, differences: Vec<String>) {
        self.count(|tally| {
            tally.compared = tally.compared.saturating_add(1);
            let room = DIFFERENCES.saturating_sub(tally.differences.len());
            tally.differences.extend(differences.into_iter().take(room));
        });
    }

    /// The candidate gave an answer that cannot be.
    pub(super) fn lied(&self, what: String) {
        self.count(|tally| {
            tally.fatal.get_or_insert(what);
        });
    }

    fn count(&self, change: impl FnOnce(&mut Tally)) {
        if !self.is_over() {
            change(&mut lock(&self.tally));
            self.changed.notify_one();
        }
    }

    /// Whether an error says nothing about the module: this process may not act any more, or the cloud wants to be left
    /// alone, which the host answers in a guest's place.
    fn is_nobodys(&self, error: &ProviderError, permit: &Permit) -> bool {
        match error {
            ProviderError::Throttled { .. } => self.candidate.provider.held_for().is_some(),
            _ => !permit.tenure().may_begin(now()),
        }
    }
}

/// Whether one such error of a candidate is enough. A trap always is; a time-out or an invalid answer if the one that
/// serves does better.
fn is_fatal(error: &ProviderError, serving: &Counts) -> bool {
    match error {
        ProviderError::Trapped(_) => true,
        ProviderError::TimedOut(_) | ProviderError::Internal(_) => {
            !serving.errors.contains_key(error.reason())
        }
        _ => false,
    }
}

/// Nothing that is kept behind these locks can be left half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
