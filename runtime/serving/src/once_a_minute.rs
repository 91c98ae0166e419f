//! Whether a line that strangers can cause is logged: once a minute. Reads no clock and logs nothing itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Seconds between two lines.
const PAUSE: u64 = 60;

/// When the next line is due.
#[derive(Debug, Default)]
pub(crate) struct OnceAMinute {
    /// When the first line was due.
    first: OnceLock<Instant>,
    /// Seconds from `first` on.
    next: AtomicU64,
}

impl OnceAMinute {
    /// Whether a line is to be logged at `now`; counts as logged if so.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let first = *self.first.get_or_init(|| now);
        let seconds = now.saturating_duration_since(first).as_secs();
        let following = |next: u64| (seconds >= next).then(|| seconds.saturating_add(PAUSE));
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, following)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_is_due_at_once_and_then_once_a_minute() {
        let (line, began) = (OnceAMinute::default(), Instant::now());
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
            assert_eq!(line.is_due(now), expected, "after {seconds} s");
        }
    }
}
