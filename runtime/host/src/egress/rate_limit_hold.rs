//! Patience: how long a target asked to be left alone, and for how long it still is.
//!
//! The host obeys for all calls of a provider at once, so that one 429 does not become as many as there are
//! nodes. Reading an answer's headers is a plain function; the clock is an argument.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::header::{HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

/// What a target may ask for; less is raised, more is cut. The contract's range for `throttled`.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);
/// Vendors mean different things by `RateLimit-Reset`: the moment when the window ends, or when the whole
/// bucket is full again, which can be an hour although the next request would be fine in a second. So
/// one request is tried after a minute; its answer tells more.
const LONGEST_RESET: Duration = Duration::from_secs(60);
/// A reset above this is a moment (seconds since 1970), below it is a number of seconds from now.
const EPOCH: u64 = 1_000_000_000;

/// Until when a target is left alone.
#[derive(Debug, Default)]
pub(super) struct RateLimitHold {
    until: Mutex<Option<Instant>>,
}

impl RateLimitHold {
    /// How long requests are still held back; `None` when they may go.
    pub(super) fn remaining(&self, now: Instant) -> Option<Duration> {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until
            .map(|until| until.saturating_duration_since(now))
            .filter(|left| !left.is_zero())
    }

    /// Hears an answer. A hold is only ever made longer: an older answer may arrive late.
    pub(super) fn hear(&self, status: u16, headers: &HeaderMap, now: Instant, wall: SystemTime) {
        let Some(hold) = asked_for(status, headers, wall) else {
            return;
        };
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(now.checked_add(hold));
    }
}

/// How long an answer asks to wait before the next request.
pub(super) fn asked_for(status: u16, headers: &HeaderMap, wall: SystemTime) -> Option<Duration> {
    let told = matches!(status, 429 | 503)
        .then(|| retry_after(headers, wall))
        .flatten();
    let spent = || {
        number(headers, ["ratelimit-remaining", "x-ratelimit-remaining"])
            .is_some_and(|left| left == 0)
    };
    let reset = || {
        let reset = number(headers, ["ratelimit-reset", "x-ratelimit-reset"])?;
        let wait = match reset.checked_sub(EPOCH) {
            Some(_) => (SystemTime::UNIX_EPOCH
                + Duration::from_secs(reset.min(u64::from(u32::MAX))))
            .duration_since(wall)
            .unwrap_or_default(),
            None => Duration::from_secs(reset),
        };
        Some(wait.min(LONGEST_RESET))
    };
    let wait = match (told, status) {
        (Some(wait), _) => wait,
        (None, 429) => reset().unwrap_or(SHORTEST),
        (None, _) if spent() => reset()?,
        (None, _) => return None,
    };
    Some(wait.clamp(SHORTEST, LONGEST))
}

/// `Retry-After` in both of its forms (RFC 9110, 10.2.3). A number too large to read asks for the longest wait.
fn retry_after(headers: &HeaderMap, wall: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse().map_or(LONGEST, Duration::from_secs));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(wall).unwrap_or_default())
}

fn number(headers: &HeaderMap, names: [&str; 2]) -> Option<u64> {
    let value = names.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
