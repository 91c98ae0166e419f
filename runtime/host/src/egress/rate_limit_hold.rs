//! Rate-limit hold: how long a target asked for no requests, and the remaining time.
//!
//! The host applies a hold to all calls of a provider at once, so that one 429 does not become one per node. Parsing
//! the headers of an answer is a pure function; the clock is an argument.

use std::time::{Duration, SystemTime};

use http::header::{DATE, HeaderMap, RETRY_AFTER};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Range of a hold, which is the contract's for `throttled`. Other values are clamped to it.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);
/// Longest wait for a reset. Vendors use `RateLimit-Reset` differently: for the end of the window, or for the moment
/// when the whole bucket is full again, which can be an hour although the next request would pass in a second. So one
/// request is tried after a minute; its answer shows whether to wait on.
const LONGEST_RESET: Duration = Duration::from_secs(60);
/// Header names of Hetzner, DigitalOcean and many other vendors.
pub(super) const REMAINING: [&str; 3] = [
    "ratelimit-remaining",
    "x-ratelimit-remaining",
    "x-rate-limit-remaining",
];
const RESET: [&str; 3] = ["ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset"];
/// A reset at or above this is a Unix time in seconds, below it a number of seconds from now.
const EPOCH: u64 = 1_000_000_000;

/// End of the current hold of a target.
#[derive(Debug, Default)]
pub(super) struct RateLimitHold {
    until: Mutex<Option<Instant>>,
}

impl RateLimitHold {
    /// Remaining hold; `None` when requests may be sent.
    pub(super) fn remaining(&self, now: Instant) -> Option<Duration> {
        let until = *self.until.lock();
        until
            .map(|until| until.saturating_duration_since(now))
            .filter(|left| !left.is_zero())
    }

    /// Processes an answer. A hold is only ever extended: an older answer may arrive late.
    pub(super) fn observe(&self, status: u16, headers: &HeaderMap, now: Instant, wall: SystemTime) {
        let Some(hold) = asked_for(status, headers, wall) else {
            return;
        };
        let mut until = self.until.lock();
        *until = (*until).max(now.checked_add(hold));
    }
}

/// Wait that an answer asks for before the next request.
pub(super) fn asked_for(status: u16, headers: &HeaderMap, wall: SystemTime) -> Option<Duration> {
    let asked = matches!(status, 429 | 503)
        .then(|| retry_after(headers, wall))
        .flatten();
    let spent = || number(headers, &REMAINING).is_some_and(|left| left == 0);
    let reset = || Some(reset(headers, wall)?.min(LONGEST_RESET));
    let wait = match (asked, status) {
        (Some(wait), _) => wait,
        (None, 429) => reset().unwrap_or(SHORTEST),
        (None, _) if spent() => reset()?,
        (None, _) => return None,
    };
    Some(wait.clamp(SHORTEST, LONGEST))
}

/// Time until the moment that the cloud calls its reset.
pub(super) fn reset(headers: &HeaderMap, wall: SystemTime) -> Option<Duration> {
    let reset = number(headers, &RESET)?;
    Some(match reset.checked_sub(EPOCH) {
        Some(_) => (SystemTime::UNIX_EPOCH + Duration::from_secs(reset.min(u64::from(u32::MAX))))
            .duration_since(sent(headers).unwrap_or(wall))
            .unwrap_or_default(),
        None => Duration::from_secs(reset),
    })
}

/// `Retry-After` in both forms (RFC 9110, 10.2.3); `wall` is the time for an answer without one. A number too large to
/// parse counts as the longest wait.
pub fn retry_after(headers: &HeaderMap, wall: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse().map_or(LONGEST, Duration::from_secs));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let now = sent(headers).unwrap_or(wall);
    Some(date.duration_since(now).unwrap_or_default())
}

/// The time of an answer by its sender's clock, by which it also writes when to come back: this machine's may differ.
pub(super) fn sent(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

fn number(headers: &HeaderMap, names: &[&str]) -> Option<u64> {
    let value = names.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
