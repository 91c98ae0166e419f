//! Clocks of a rollout controller: a monotonic one for waits, which demonstrations speed up, and the wall clock for
//! people.

use std::time::{Duration, SystemTime};

use ccm_core::moment::Moment;
use ccm_core::rollout::RolloutTime;
use tokio::time::Instant;

/// When the clock began, and how many times as fast as real time it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    started: Instant,
    pace: u32,
}

impl Clock {
    /// Starts a clock that runs `pace` times as fast as real time; a `pace` below 1 counts as 1.
    pub(super) fn start(pace: u32) -> Clock {
        Clock {
            started: Instant::now(),
            pace: pace.max(1),
        }
    }

    /// The current time on both clocks.
    pub(super) fn now(&self) -> RolloutTime {
        RolloutTime {
            moment: Moment(self.started.elapsed().saturating_mul(self.pace)),
            wall: wall(),
        }
    }

    /// Real time of a timer that spans `duration` on this clock. At least 1 ms, the resolution of timers.
    pub(super) fn timer(&self, duration: Duration) -> Duration {
        (duration / self.pace).max(Duration::from_millis(1))
    }
}

/// Seconds since the Unix epoch.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
