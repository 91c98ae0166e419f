//! The client-side limit: a bucket of tokens, as client-go has it. Waits nowhere.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many requests a client may begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests per second, over a long time.
    per_second: f32,
    /// Requests that may begin at once after a pause.
    burst: u32,
}

impl RateLimit {
    /// A limit of `per_second` requests, and of `burst` at once. As in client-go, zero means 5 per second and 10 at
    /// once, and a negative rate, or one that is no number, means no limit.
    pub fn new(per_second: f32, burst: u32) -> Option<RateLimit> {
        let per_second = match per_second {
            0.0 => 5.0,
            rate if rate > 0.0 => rate,
            _ => return None,
        };
        let burst = if burst == 0 { 10 } else { burst };
        Some(RateLimit { per_second, burst })
    }

    /// Requests per second, over a long time.
    pub fn per_second(self) -> f32 {
        self.per_second
    }

    /// Requests that may begin at once after a pause.
    pub fn burst(self) -> u32 {
        self.burst
    }
}

/// The tokens of one client.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: RateLimit,
    /// Below zero while requests wait for tokens that do not exist yet.
    state: Mutex<(f64, Option<Instant>)>,
}

impl Bucket {
    /// Creates a full bucket.
    pub(super) fn new(limit: RateLimit) -> Bucket {
        Bucket {
            limit,
            state: Mutex::new((f64::from(limit.burst), None)),
        }
    }

    /// Takes a token, and says how long to wait until it exists. Requests get theirs in the order in which they came.
    pub(super) fn take(self: &Arc<Bucket>, now: Instant) -> Turn {
        Turn {
            wait: self.wait(now),
            unused: Some(self.clone()),
        }
    }

    fn wait(&self, now: Instant) -> Duration {
        let mut state = self.state.lock();
        let (tokens, before) = *state;
        let passed = before.map_or(Duration::ZERO, |before| {
            now.saturating_duration_since(before)
        });
        let per_second = f64::from(self.limit.per_second);
        let gained = passed.as_secs_f64() * per_second;
        let tokens = (tokens + gained).min(f64::from(self.limit.burst)) - 1.0;
        *state = (tokens, Some(now));
        Duration::try_from_secs_f64((-tokens).max(0.0) / per_second).unwrap_or(Duration::MAX)
    }

    fn put_back(&self) {
        let mut state = self.state.lock();
        state.0 = (state.0 + 1.0).min(f64::from(self.limit.burst));
    }
}

/// A token that was taken. If it is dropped before it is used, such as with a request that gave up waiting, the bucket has
/// it back: otherwise all others would wait for requests that were never sent.
pub(super) struct Turn {
    /// Time until the token exists.
    pub(super) wait: Duration,
    unused: Option<Arc<Bucket>>,
}

impl Turn {
    /// The request is sent.
    pub(super) fn used(mut self) {
        self.unused = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(bucket) = &self.unused {
            bucket.put_back();
        }
    }
}
