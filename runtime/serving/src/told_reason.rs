//! Whether a loop that looks again and again logs why its look failed: once for each reason, and hourly while the reason
//! stays. Reads no clock and logs nothing itself.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a reason that stays is not repeated.
const REPEATED: Duration = Duration::from_secs(3600);

/// The reason that was logged last, and when. Nothing after a look that succeeded.
#[derive(Debug, Default)]
pub(crate) struct ToldReason(Mutex<Option<(String, Instant)>>);

impl ToldReason {
    /// Whether a look that failed at `now` for this reason is to be logged; counts as logged if so.
    pub(crate) fn is_due(&self, reason: &str, now: Instant) -> bool {
        let mut told = self.0.lock();
        let is_fresh = |at: Instant| now.saturating_duration_since(at) < REPEATED;
        let is_known = |(known, at): &(String, Instant)| known == reason && is_fresh(*at);
        if told.as_ref().is_some_and(is_known) {
            return false;
        }
        *told = Some((reason.to_owned(), now));
        true
    }

    /// A look has succeeded: the same reason is logged when it comes back.
    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_and_hourly_while_it_stays_and_at_once_when_it_comes_back() {
        let (told, began) = (ToldReason::default(), Instant::now());
        for (seconds, failure, expected) in [
            (0, Some("the key is missing"), true),
            (10, Some("the key is missing"), false),
            (3_590, Some("the key is missing"), false),
            (3_600, Some("the key is missing"), true),
            (3_610, Some("the key is missing"), false),
            (3_620, Some("the key does not fit"), true),
            (3_630, Some("the key does not fit"), false),
            (3_640, None, false),
            (3_650, Some("the key does not fit"), true),
        ] {
            let now = began + Duration::from_secs(seconds);
            let is_due = match failure {
                Some(reason) => told.is_due(reason, now),
                None => {
                    told.clear();
                    false
                }
            };
            assert_eq!(is_due, expected, "after {seconds} s");
        }
    }
}
