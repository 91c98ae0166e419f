//! The cloud's own rate limit, as the rate-limit headers of its answers state it. For people and metrics; decides
//! nothing: holds are decided in [`super::rate_limit_hold`], and budgets are the operator's.

use std::time::{Duration, SystemTime};

use http::header::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::rate_limit_hold::{REMAINING, reset};

/// Header names of the same vendors.
const LIMIT: [&str; 3] = ["ratelimit-limit", "x-ratelimit-limit", "x-rate-limit-limit"];
/// Largest number of requests that is believed; no cloud admits more.
const MOST: u64 = 1_000_000_000;
/// Latest reset that is believed; no rate limit has a later one.
const LATEST_RESET: Duration = Duration::from_secs(24 * 3600);

/// The cloud's last statement about its own rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloudQuota {
    /// Requests that the cloud still admits in the current window.
    pub remaining: u64,
    /// Requests that it admits in a whole window; `None` if it did not say so.
    pub limit: Option<u64>,
    /// Time until the window ends or the bucket is full, whichever the cloud means. Zero: that has happened.
    pub reset: Option<Duration>,
    /// Time since the statement.
    pub age: Duration,
}

/// The last statement and when it was made, shared by all generations of a provider.
#[derive(Debug, Default)]
pub(super) struct StatedQuota(Mutex<Option<(CloudQuota, Instant)>>);

impl StatedQuota {
    /// Reads the headers of an answer. An answer without a usable statement leaves the last one as it is.
    pub(super) fn observe(&self, headers: &HeaderMap, now: Instant, wall: SystemTime) {
        let Some(remaining) = number(headers, &REMAINING) else {
            return;
        };
        let limit = number(headers, &LIMIT);
        if limit.is_some_and(|limit| remaining > limit) {
            return;
        }
        let stated = CloudQuota {
            remaining,
            limit,
            reset: reset(headers, wall).filter(|reset| *reset <= LATEST_RESET),
            age: Duration::ZERO,
        };
        *self.0.lock() = Some((stated, now));
    }

    /// The last statement, as old as it is at `now`.
    pub(super) fn last(&self, now: Instant) -> Option<CloudQuota> {
        let last = *self.0.lock();
        let (stated, at) = last?;
        let age = now.saturating_duration_since(at);
        Some(CloudQuota {
            reset: stated.reset.map(|reset| reset.saturating_sub(age)),
            age,
            ..stated
        })
    }
}

/// A number of requests. Of a list such as `100, 100;w=60` the first counts.
fn number(headers: &HeaderMap, names: &[&str]) -> Option<u64> {
    let value = names.iter().find_map(|name| headers.get(*name))?;
    let text = value.to_str().ok()?;
    let first = text.split([',', ';']).next().unwrap_or_default().trim();
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let number = first.parse().ok().filter(|_| is_number)?;
    (number <= MOST).then_some(number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        lines.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_statement_is_kept_with_its_age_and_nonsense_changes_nothing() {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let began = Instant::now();
        let later = began + Duration::from_secs(7);
        let kept = CloudQuota {
            remaining: 3512,
            limit: Some(3600),
            reset: Some(Duration::from_secs(81)),
            age: Duration::from_secs(7),
        };
        let good = [
            ("RateLimit-Limit", "3600"),
            ("RateLimit-Remaining", "3512"),
            ("RateLimit-Reset", "1800000088"),
        ];
        let none: &[(&str, &str)] = &[];
        for bad in [
            none,
            &[("ratelimit-remaining", "-1")],
            &[("ratelimit-remaining", "+1")],
            &[("ratelimit-remaining", "many")],
            &[("ratelimit-remaining", "")],
            &[("ratelimit-remaining", "1.5")],
            &[("ratelimit-remaining", "NaN")],
            &[("ratelimit-remaining", "1000000001")],
            &[("ratelimit-remaining", "99999999999999999999999999")],
            &[("ratelimit-remaining", "\u{661}")],
            &[("ratelimit-remaining", "11"), ("ratelimit-limit", "10")],
            &[("ratelimit-limit", "10")],
        ] {
            let stated = StatedQuota::default();
            assert_eq!(stated.last(began), None);
            stated.observe(&headers(bad), began, wall);
            assert_eq!(stated.last(began), None, "{bad:?}");
            stated.observe(&headers(&good), began, wall);
            stated.observe(&headers(bad), later, wall);
            assert_eq!(stated.last(later), Some(kept), "{bad:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_clouds_spell_it_otherwise() {
        let (now, wall) = (Instant::now(), SystemTime::UNIX_EPOCH);
        for (lines, remaining, limit, reset) in [
            (vec![("ratelimit-remaining", "0")], 0, None, None),
            (
                vec![("x-ratelimit-remaining", "5"), ("x-ratelimit-limit", "9")],
                5,
                Some(9),
                None,
            ),
            (
                vec![
                    ("x-rate-limit-remaining", " 5 "),
                    ("x-rate-limit-limit", "-9"),
                ],
                5,
                None,
                None,
            ),
            (
                vec![
                    ("ratelimit-remaining", "5"),
                    ("ratelimit-limit", "100, 100;w=60"),
                    ("ratelimit-reset", "30"),
                ],
                5,
                Some(100),
                Some(Duration::from_secs(30)),
            ),
            (
                vec![
                    ("ratelimit-remaining", "5"),
                    ("ratelimit-reset", "999999999"),
                ],
                5,
                None,
                None,
            ),
        ] {
            let stated = StatedQuota::default();
            stated.observe(&headers(&lines), now, wall);
            let expected = CloudQuota {
                remaining,
                limit,
                reset,
                age: Duration::ZERO,
            };
            assert_eq!(stated.last(now), Some(expected), "{lines:?}");
        }
    }
}
