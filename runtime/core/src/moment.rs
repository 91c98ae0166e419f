//! Moments and the clocks that they are on. Reads no clock: callers pass the moment in.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A moment on a monotonic clock that goes on during suspend (Linux: `CLOCK_BOOTTIME`), counted from an unspecified
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// The moment `duration` later; saturates.
    pub fn after(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }

    /// The time from `self` to `later`; zero if `later` has passed.
    pub fn until(self, later: Moment) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

/// The moment of a decision, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock: for everything but ages and dates.
    pub moment: Moment,
    /// The wall clock.
    pub wall: Timestamp,
}
