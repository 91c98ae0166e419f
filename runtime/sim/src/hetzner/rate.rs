//! The request budget of a project: a token bucket that refills at a steady rate.
//!
//! Never sleeps and never refuses by itself; the caller handles a spent budget.

use std::time::Duration;

use tokio::time::Instant;

/// The rate limit of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The bucket size, in requests.
    pub limit: u32,
    /// Time to refill one request. Zero: at once.
    pub refill_every: Duration,
}

impl RateLimit {
    /// The vendor's budget: 3600 requests, refilled at one per second.
    pub const VENDOR: Self = Self {
        limit: 3600,
        refill_every: Duration::from_secs(1),
    };
}

/// The bucket of one project.
pub(super) struct Bucket {
    rule: RateLimit,
    remaining: u32,
    refilled_at: Instant,
}

/// The state of the bucket after one request, for the `RateLimit-*` headers.
pub(super) struct Spent {
    pub(super) limit: u32,
    pub(super) remaining: u32,
    /// Time until the bucket is full again.
    pub(super) full_in: Duration,
    pub(super) allowed: bool,
}

impl Bucket {
    pub(super) fn new(rule: RateLimit, now: Instant) -> Self {
        Self {
            rule,
            remaining: rule.limit,
            refilled_at: now,
        }
    }

    /// Takes one request from the bucket if there is one.
    pub(super) fn take(&mut self, now: Instant) -> Spent {
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
