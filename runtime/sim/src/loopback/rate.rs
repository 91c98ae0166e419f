//! The request budget of an account: a token bucket that refills at a steady rate.
//!
//! Never sleeps and never refuses by itself; the caller handles a spent budget.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::HeaderName;
use tokio::time::Instant;

use super::wire::Answer;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// A request budget, as a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The bucket size, in requests.
    pub limit: u32,
    /// Time to refill one request. With zero, the bucket is always full.
    pub refill_every: Duration,
}

/// The bucket of one account.
pub(crate) struct Bucket {
    rule: RateLimit,
    remaining: u32,
    refilled_at: Instant,
}

/// The state of the bucket after one request, for the `RateLimit-*` headers.
pub(crate) struct Spent {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// Time until the bucket is full again.
    pub(crate) full_in: Duration,
    pub(crate) allowed: bool,
}

impl Spent {
    /// Adds the headers that several vendors share: the limit, the remaining requests, and when the bucket is full, in
    /// seconds of Unix time.
    pub(crate) fn with_headers(&self, answer: Answer, now: SystemTime) -> Answer {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let full_at = now.saturating_add(self.full_in).as_secs();
        answer
            .header(LIMIT, &self.limit.to_string())
            .header(REMAINING, &self.remaining.to_string())
            .header(RESET, &full_at.to_string())
    }
}

impl Bucket {
    pub(crate) fn new(rule: RateLimit, now: Instant) -> Self {
        Self {
            rule,
            remaining: rule.limit,
            refilled_at: now,
        }
    }

    /// Takes one request from the bucket if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> Spent {
        self.refill(now);
        let allowed = self.remaining > 0;
        self.remaining = self.remaining.saturating_sub(1);
        let missing = self.rule.limit.saturating_sub(self.remaining);
        Spent {
            limit: self.rule.limit,
            remaining: self.remaining,
            full_in: self.rule.refill_every.saturating_mul(missing),
            allowed,
        }
    }

    fn refill(&mut self, now: Instant) {
        let every = self.rule.refill_every.as_nanos();
        let passed = now.saturating_duration_since(self.refilled_at).as_nanos();
        let Some(earned) = passed.checked_div(every) else {
            self.remaining = self.rule.limit;
            return;
        };
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        self.remaining = self.remaining.saturating_add(earned).min(self.rule.limit);
        self.refilled_at += self.rule.refill_every.saturating_mul(earned);
    }
}

#[cfg(test)]
mod tests;
