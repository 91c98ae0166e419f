//! Response cache: merges equal reads of one burst into one request: `GET`, and `POST` where a rule marks it as a read
//! and the guest's contract is not 0.1.
//!
//! A guest opts in with `Cache-Control: max-age=N`. The first caller leads and sends the request; callers with an equal
//! request follow and get the same answer, or the same failure of the cloud. When a leader is cancelled or fails for a
//! reason of its own, one of its followers leads. A request that may change something drops the cached answers of its
//! target. Nothing here sends anything.
//!
//! Long bodies are stored compressed: machines in a listing share most of their text. Expired answers are dropped
//! within seconds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

use super::budget::Budget;
use super::message::{FetchError, FetchResponse};

/// Maximum age of an answer, whatever a guest asks for; decisions about nodes should not rest on older ones.
pub(super) const OLDEST: Duration = Duration::from_secs(600);
/// Maximum number of stored answers; keeps the bookkeeping small when answers are tiny.
const MAX_ANSWERS: usize = 4096;

/// Interval of the expiry task.
const EXPIRY: Duration = Duration::from_secs(15);
/// Shorter bodies are stored uncompressed: there is little to gain.
const COMPRESSED_FROM: usize = 4 << 10;

/// Result as shared with followers.
type Shared = Result<FetchResponse, FetchError>;

/// Identity of a request; equal keys share an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    target: usize,
    method: Method,
    url: String,
    headers: Vec<(String, Vec<u8>)>,
    /// SHA-256 of the body; `None` without one.
    body: Option<[u8; 32]>,
}

impl Key {
    /// `target` is the target's index in its egress, `url` path and query as sent, `headers` the guest's.
    pub(super) fn new(
        target: usize,
        method: &Method,
        url: &str,
        headers: &HeaderMap,
        body: Option<&[u8]>,
    ) -> Key {
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
        let mut headers: Vec<_> = pairs.collect();
        headers.sort();
        Key {
            target,
            method: method.clone(),
            url: url.to_owned(),
            headers,
            body: body.map(|body| Sha256::digest(body).into()),
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

/// Response cache of one egress.
pub(super) struct ResponseCache {
    cap: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stored: HashMap<Key, Stored>,
    bytes: usize,
    /// Whether the expiry task runs.
    is_expiring: bool,
    under_way: HashMap<Key, UnderWay>,
    /// Per target: number of possible changes there.
    changes: HashMap<usize, u64>,
}

struct Stored {
    answer: FetchResponse,
    /// Length of the body before compression, if compressed.
    compressed_from: Option<usize>,
    begun: Instant,
    /// Last moment at which a caller with the leader's `max-age` gets the answer.
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
            // A copy, because stored bytes must not count against a call's budget.
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

    /// Original answer; its size is reserved before decompression. `None` cannot happen: nothing else writes stored
    /// bodies.
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
    begun: Instant,
    answer: watch::Receiver<Option<Shared>>,
}

/// Next step of a caller.
pub(super) enum Lookup {
    /// Use this answer, or this error if the budget has no room for it.
    Answer(Shared),
    /// Wait on this channel; when it closes without a value, ask again.
    Follow(watch::Receiver<Option<Shared>>),
    /// Send the request and report the result.
    Lead(Lead),
}

impl ResponseCache {
    /// Creates a cache of at most `cap` bytes.
    pub(super) fn new(cap: usize) -> Arc<ResponseCache> {
        Arc::new(ResponseCache {
            cap,
            state: Mutex::default(),
        })
    }

    /// Decides whether the caller leads, follows or gets a cached answer not older than `max_age`. Decompressed
    /// bodies are reserved in `budget`.
    pub(super) fn turn(
        self: &Arc<ResponseCache>,
        key: &Key,
        max_age: Duration,
        now: Instant,
        budget: &Arc<Budget>,
    ) -> Lookup {
        let max_age = max_age.min(OLDEST);
        let is_young = |begun: Instant| now.saturating_duration_since(begun) <= max_age;
        let mut state = self.state.lock();
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
        let (sender, answer) = watch::channel(None);
        let under_way = UnderWay { begun: now, answer };
        state.under_way.insert(key.clone(), under_way);
        Lookup::Lead(Lead {
            kept: self.clone(),
            key: key.clone(),
            begun: now,
            until: now.checked_add(max_age).unwrap_or(now),
            changes: state.changes_of(key.target),
            sender,
        })
    }

    /// Drops the answers of a target, now and again when the guard is dropped: answers read during the change are
    /// not cached either.
    pub(super) fn changing(self: &Arc<ResponseCache>, target: usize) -> Changing {
        self.forget(target);
        Changing {
            kept: self.clone(),
            target,
        }
    }

    /// Drops the answers of a target. Those of requests under way are not cached.
    pub(super) fn forget(&self, target: usize) {
        let mut state = self.state.lock();
        *state.changes.entry(target).or_default() += 1;
        state.under_way.retain(|key, _| key.target != target);
        state.retain(|key, _| key.target != target);
    }

    /// Starts the task that drops expired answers even when no new answer comes. It ends when the cache is empty.
    fn expire_later(self: &Arc<ResponseCache>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if std::mem::replace(&mut self.state.lock().is_expiring, true) {
            return;
        }
        let kept = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(EXPIRY).await;
                let Some(kept) = kept.upgrade() else {
                    return;
                };
                let mut state = kept.state.lock();
                state.expire(Instant::now());
                if state.stored.is_empty() {
                    state.is_expiring = false;
                    return;
                }
            }
        });
    }
}

impl State {
    fn expire(&mut self, now: Instant) {
        self.retain(|_, stored| now <= stored.until);
    }

    fn retain(&mut self, is_kept: impl Fn(&Key, &Stored) -> bool) {
        let State { stored, bytes, .. } = self;
        stored.retain(|key, stored| {
            let keep = is_kept(key, stored);
            *bytes -= if keep { 0 } else { stored.bytes };
            keep
        });
    }

    fn changes_of(&self, target: usize) -> u64 {
        self.changes.get(&target).copied().unwrap_or_default()
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

/// The one request sent for a key.
pub(super) struct Lead {
    kept: Arc<ResponseCache>,
    key: Key,
    begun: Instant,
    until: Instant,
    changes: u64,
    sender: watch::Sender<Option<Shared>>,
}

impl Lead {
    /// Reports the result to the followers, and caches a complete answer of status 200. If it is a failure for a reason
    /// of the leader's own, or the lead is dropped without this, as when the leader's own time is over, one of the
    /// followers leads.
    pub(super) fn done(self, end: &Shared) {
        let share = match end {
            Ok(_) | Err(FetchError::Unavailable(_) | FetchError::TimedOut(_)) => true,
            Err(
                FetchError::Denied(_)
                | FetchError::Invalid(_)
                // Another call's budget may have room for the answer.
                | FetchError::TooLarge(_)
                | FetchError::Throttled(_),
            ) => false,
        };
        if let Ok(answer) = end
            && answer.status == 200
        {
            let stored = Stored::new(&self.key, answer, self.begun, self.until);
            let mut state = self.kept.state.lock();
            if state.changes_of(self.key.target) == self.changes {
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
        let mut state = self.kept.state.lock();
        let own = self.sender.subscribe();
        // Another lead may have started meanwhile, because this one was too old or something changed.
        if state
            .under_way
            .get(&self.key)
            .is_some_and(|under_way| under_way.answer.same_channel(&own))
        {
            state.under_way.remove(&self.key);
        }
    }
}

/// Drops the cached answers of a target when it is dropped; see [`ResponseCache::changing`].
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
