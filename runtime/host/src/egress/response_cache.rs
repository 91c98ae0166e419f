//! Kept answers: equal `GET` requests of one burst become one request.
//!
//! A guest asks for it with `Cache-Control: max-age=N`. Whoever asks first leads and sends the request;
//! who asks for the same meanwhile follows and gets the same answer. When a leader is cancelled or fails for
//! a reason of its own, one of its followers leads. Any other method through a target, and a `GET` that changes
//! something there, drops what was kept for it. Nothing here sends anything.
//!
//! Long bodies are kept compressed: a listing of thousands of machines is hundreds of bytes that are new and
//! thousands that every machine repeats. What nobody may be given any more is dropped within seconds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::watch;
use tokio::time::Instant;

use super::budget::Budget;
use super::message::{FetchError, FetchResponse};

/// Nobody is given an older answer, whatever a guest asks for; decisions about nodes should not rest on more.
pub(super) const OLDEST: Duration = Duration::from_secs(600);
/// Keeps the bookkeeping small when answers are tiny.
const MAX_ANSWERS: usize = 4096;

/// How often it is looked whether something may be dropped.
const EXPIRY: Duration = Duration::from_secs(15);
/// Shorter bodies are kept as they are: there is little to gain.
const COMPRESSED_FROM: usize = 4 << 10;

/// An answer as followers get it.
type Shared = Result<FetchResponse, FetchError>;

/// What makes two requests equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    target: usize,
    url: String,
    headers: Vec<(String, Vec<u8>)>,
}

impl Key {
    /// `target` is the target's index in its egress, `url` path and query as sent, `headers` the guest's.
    pub(super) fn new(target: usize, url: &str, headers: &HeaderMap) -> Key {
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
        let mut headers: Vec<_> = pairs.collect();
        headers.sort();
        Key {
            target,
            url: url.to_owned(),
            headers,
        }
    }

    fn bytes(&self) -> usize {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len());
        self.url.len() + headers.sum::<usize>()
    }
}

/// The answers kept for one egress.
pub(super) struct ResponseCache {
    cap: usize,
    flights: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stored: HashMap<Key, Stored>,
    bytes: usize,
    /// Somebody will look after what is stored.
    is_expiring: bool,
    under_way: HashMap<Key, UnderWay>,
    /// Per target, how often something may have changed there.
    changes: HashMap<usize, u64>,
}

struct Stored {
    answer: FetchResponse,
    /// The length of the body before it was compressed, if it was.
    compressed_from: Option<usize>,
    begun: Instant,
    /// Nobody who asks as its leader did is given it later than this.
    until: Instant,
    bytes: usize,
}

impl Stored {
    fn new(key: &Key, answer: &FetchResponse, begun: Instant, until: Instant) -> Stored {
        let mut answer = answer.clone();
        let length = answer.body.len();
        let compressed_from = (length >= COMPRESSED_FROM).then_some(length);
        answer.body = match compressed_from {
            Some(_) => Bytes::from(lz4_flex::block::compress(&answer.body)),
            // A copy: what is kept is no call's.
            None => Bytes::copy_from_slice(&answer.body),
        }
        .into();
        let headers = answer
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let bytes = key.bytes() + headers.sum::<usize>() + answer.body.len();
        Stored {
            answer,
            compressed_from,
            begun,
            until,
            bytes,
        }
    }

    /// The answer as it came, which is paid for before it is unpacked. `None` cannot happen: nobody else writes what is
    /// kept.
    fn answer(&self, budget: &Arc<Budget>) -> Option<Shared> {
        let mut answer = self.answer.clone();
        if let Some(length) = self.compressed_from {
            let mut held = budget.hold();
            if let Err(error) = held.grow(length) {
                return Some(Err(error));
            }
            let body = lz4_flex::block::decompress(&answer.body, length).ok()?;
            answer.body = held.body(Bytes::from(body));
        }
        Some(Ok(answer))
    }
}

struct UnderWay {
    flight: u64,
    begun: Instant,
    answer: watch::Receiver<Option<Shared>>,
}

/// What a request does now.
pub(super) enum Lookup {
    /// Here it is, or there is no room for it.
    Answer(Shared),
    /// Wait for this; when it is closed without a value, ask again.
    Follow(watch::Receiver<Option<Shared>>),
    /// Send, and tell the end.
    Lead(Lead),
}

impl ResponseCache {
    /// Keeps at most `cap` bytes.
    pub(super) fn new(cap: usize) -> Arc<ResponseCache> {
        Arc::new(ResponseCache {
            cap,
            flights: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// Whose turn it is to send a request that would be content with an answer of `max_age`. What is kept and unpacked is held
    /// in `budget`.
    pub(super) fn turn(
        self: &Arc<ResponseCache>,
        key: &Key,
        max_age: Duration,
        now: Instant,
        budget: &Arc<Budget>,
    ) -> Lookup {
        let max_age = max_age.min(OLDEST);
        let is_young = |begun: Instant| now.saturating_duration_since(begun) <= max_age;
        let mut state = self.state();
        if let Some(answer) = state
            .stored
            .get(key)
            .filter(|stored| is_young(stored.begun))
            .and_then(|stored| stored.answer(budget))
        {
            return Lookup::Answer(answer);
        }
        if let Some(under_way) = state
            .under_way
            .get(key)
            .filter(|under_way| is_young(under_way.begun))
        {
            return Lookup::Follow(under_way.answer.clone());
        }
        let flight = self.flights.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = watch::channel(None);
        state.under_way.insert(
            key.clone(),
            UnderWay {
                flight,
                begun: now,
                answer,
            },
        );
        let changes = state.changes.get(&key.target).copied().unwrap_or_default();
        Lookup::Lead(Lead {
            kept: self.clone(),
            key: key.clone(),
            flight,
            begun: now,
            until: now.checked_add(max_age).unwrap_or(now),
            changes,
            sender,
        })
    }

    /// Forgets what is known about a target, now and when the guard is dropped: what was read while
    /// something was changing is not kept either.
    pub(super) fn changing(self: &Arc<ResponseCache>, target: usize) -> Changing {
        self.forget(target);
        Changing {
            kept: self.clone(),
            target,
        }
    }

    fn forget(&self, target: usize) {
        let mut state = self.state();
        *state.changes.entry(target).or_default() += 1;
        state.under_way.retain(|key, _| key.target != target);
        let State { stored, bytes, .. } = &mut *state;
        stored.retain(|key, stored| {
            let keep = key.target != target;
            *bytes -= if keep { 0 } else { stored.bytes };
            keep
        });
    }

    /// Sees to it that what nobody may be given any more is dropped, also when no other answer comes. Ends by itself
    /// when nothing is left.
    fn expire_later(self: &Arc<ResponseCache>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if std::mem::replace(&mut self.state().is_expiring, true) {
            return;
        }
        let kept = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(EXPIRY).await;
                let Some(kept) = kept.upgrade() else {
                    return;
                };
                let mut state = kept.state();
                state.expire(Instant::now());
                if state.stored.is_empty() {
                    state.is_expiring = false;
                    return;
                }
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn expire(&mut self, now: Instant) {
        let State { stored, bytes, .. } = self;
        stored.retain(|_, stored| {
            let keep = now <= stored.until;
            *bytes -= if keep { 0 } else { stored.bytes };
            keep
        });
    }

    fn store(&mut self, key: Key, next: Stored, cap: usize) {
        if let Some(old) = self.stored.remove(&key) {
            self.bytes -= old.bytes;
        }
        self.expire(next.begun);
        while self.bytes + next.bytes > cap || self.stored.len() >= MAX_ANSWERS {
            let oldest = self
                .stored
                .iter()
                .min_by_key(|(_, stored)| stored.begun)
                .map(|(key, _)| key.clone());
            match oldest.and_then(|key| self.stored.remove(&key)) {
                Some(old) => self.bytes -= old.bytes,
                // Nothing is left to drop: the answer alone is over the cap.
                None => return,
            }
        }
        self.bytes += next.bytes;
        self.stored.insert(key, next);
    }
}

/// The one request that was really sent for a key.
pub(super) struct Lead {
    kept: Arc<ResponseCache>,
    key: Key,
    flight: u64,
    begun: Instant,
    until: Instant,
    changes: u64,
    sender: watch::Sender<Option<Shared>>,
}

impl Lead {
    /// Tells the end to the followers, and keeps a complete answer of status 200. Dropping a lead without this
    /// lets one of the followers lead; so do ends that only concern the leader: its deadline, its permit.
    pub(super) fn done(self, end: &Shared) {
        let share = match end {
            Ok(_) | Err(FetchError::Unavailable(_)) => true,
            Err(
                FetchError::Denied(_)
                | FetchError::Invalid(_)
                // There may be more room in another call.
                | FetchError::TooLarge(_)
                | FetchError::Throttled(_)
                | FetchError::TimedOut(_),
            ) => false,
        };
        if let Ok(answer) = end
            && answer.status == 200
        {
            let stored = Stored::new(&self.key, answer, self.begun, self.until);
            let mut state = self.kept.state();
            if state
                .changes
                .get(&self.key.target)
                .copied()
                .unwrap_or_default()
                == self.changes
            {
                state.store(self.key.clone(), stored, self.kept.cap);
                drop(state);
                self.kept.expire_later();
            }
        }
        if share {
            self.sender.send_replace(Some(end.clone()));
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut state = self.kept.state();
        // Another lead may have begun meanwhile, because this one was too old or something changed.
        if state
            .under_way
            .get(&self.key)
            .is_some_and(|under_way| under_way.flight == self.flight)
        {
            state.under_way.remove(&self.key);
        }
    }
}

/// See [`ResponseCache::changing`].
pub(super) struct Changing {
    kept: Arc<ResponseCache>,
    target: usize,
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.kept.forget(self.target);
    }
}

#[cfg(test)]
mod tests;
