//! The clocks of a stage: one for waits, which demonstrations let go faster, and one for people.

use std::time::{Duration, SystemTime};

use ccm_core::moment::Moment;
use ccm_core::rollout::Now;
use tokio::time::Instant;

/// See the module's documentation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    started: Instant,
    pace: u32,
}

impl Clock {
    /// A clock that goes from now on, so many times as fast as others and never slower.
    pub(super) fn start(pace: u32) -> Clock {
        Clock {
            started: Instant::now(),
            pace: pace.max(1),
        }
    }

    /// Now, on both.
    pub(super) fn now(&self) -> Now {
        Now {
            moment: Moment(self.started.elapsed().saturating_mul(self.pace)),
            wall: wall(),
        }
    }

    /// How long a timer runs in which so much time goes by. At least a millisecond, which is what timers are exact to.
    pub(super) fn timer(&self, duration: Duration) -> Duration {
        (duration / self.pace).max(Duration::from_millis(1))
    }
}

/// Seconds since the Unix epoch.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
