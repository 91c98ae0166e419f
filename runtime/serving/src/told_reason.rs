//! Whether what fails again and again is logged: once for each reason, and at intervals while the reason stays. Reads no
//! clock and logs nothing itself.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// For a loop that looks again and again.
pub(crate) const HOURLY: Duration = Duration::from_secs(3600);
/// For a line that strangers can cause.
pub(crate) const ONCE_A_MINUTE: Duration = Duration::from_secs(60);

/// The reason that was logged last, and when.
#[derive(Debug)]
pub(crate) struct ToldReason {
    /// How long a reason that stays is not repeated.
    interval: Duration,
    /// Nothing after a success.
    told: Mutex<Option<(String, Instant)>>,
}

impl ToldReason {
    pub(crate) fn new(interval: Duration) -> ToldReason {
        let told = Mutex::default();
        ToldReason { interval, told }
    }

    /// Whether what failed at `now` for this reason is to be logged; counts as logged if so.
    pub(crate) fn is_due(&self, reason: &str, now: Instant) -> bool {
        let mut told = self.told.lock();
        let is_fresh = |at: Instant| now.saturating_duration_since(at) < self.interval;
        let is_known = |(known, at): &(String, Instant)| known == reason && is_fresh(*at);
        if told.as_ref().is_some_and(is_known) {
            return false;
        }
        *told = Some((reason.to_owned(), now));
        true
    }

    /// It has succeeded: the same reason is logged when it comes back.
    pub(crate) fn clear(&self) {
        *self.told.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_and_hourly_while_it_stays_and_at_once_when_it_comes_back() {
        let (told, began) = (ToldReason::new(HOURLY), Instant::now());
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

    #[test]
    fn what_strangers_can_cause_is_told_at_once_and_then_once_a_minute() {
        let (told, began) = (ToldReason::new(ONCE_A_MINUTE), Instant::now());
        for (seconds, expected) in [
            (0, true),
            (0, false),
            (59, false),
            (60, true),
            (61, false),
            (119, false),
            (500, true),
            (559, false),
            (560, true),
        ] {
            let now = began + Duration::from_secs(seconds);
            assert_eq!(told.is_due("refused", now), expected, "after {seconds} s");
        }
    }
}
