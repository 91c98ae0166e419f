//! The only module that reads a clock: one for decisions and their timers, one for permits, one for people.
//! Decides nothing.

use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::moment::Now;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// How many seconds the clock of decisions goes while the machine's goes one. Every wait is as long as ever by that
/// clock, so that nothing is decided on less; only whoever watches waits less. For demonstrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    times: u32,
    wall: Option<Timestamp>,
}

impl Pace {
    /// The machine's own: the only one with which a real cluster may be managed.
    pub const REAL: Pace = Pace {
        times: 1,
        wall: None,
    };

    /// So many times as fast, and never slower.
    pub fn times(times: u32) -> Pace {
        Pace {
            times: times.max(1),
            ..Pace::REAL
        }
    }

    /// The same, where it is `wall` at the start, whatever the machine says. For simulated time: what is started anew
    /// in it has to find it as late as it is.
    pub fn starting(self, wall: Timestamp) -> Pace {
        Pace {
            wall: Some(wall),
            ..self
        }
    }
}

/// The clock of decisions and of the timers that wake them. It stands still while the machine is
/// suspended, like the timers; what must not, such as permits, asks [`boottime`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    start: Moment,
    wall: Timestamp,
    pace: Pace,
}

impl Clock {
    /// A clock that goes from now on.
    pub(crate) fn start(pace: Pace) -> Clock {
        Clock {
            started: Instant::now(),
            start: boottime(),
            wall: pace.wall.unwrap_or_else(wall),
            pace,
        }
    }

    /// Now.
    pub(crate) fn now(self) -> Moment {
        self.start.after(self.elapsed())
    }

    /// Now on the wall, as this process has it from its start: whoever sets the machine's clock meanwhile makes no
    /// node older.
    pub(crate) fn wall(self) -> Timestamp {
        let since = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(since).unwrap_or(Timestamp::MAX)
    }

    /// Now on both.
    pub(crate) fn both(self) -> Now {
        Now {
            moment: self.now(),
            wall: self.wall(),
        }
    }

    /// The timer's name for a moment.
    pub(crate) fn instant(self, moment: Moment) -> Instant {
        self.started + self.timer(self.start.until(moment))
    }

    /// How long a timer runs in which so much time goes by.
    pub(crate) fn timer(self, duration: Duration) -> Duration {
        duration / self.pace.times
    }

    fn elapsed(self) -> Duration {
        self.started.elapsed().saturating_mul(self.pace.times)
    }
}

/// Now on `CLOCK_BOOTTIME`, which goes on during suspend.
pub(crate) fn boottime() -> Moment {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
    Moment(Duration::new(seconds, nanoseconds))
}

/// Now on the wall, for what is shown to people.
pub(crate) fn wall() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_faster_clock_waits_as_long_as_ever_by_itself() {
        let (real, fast) = (Clock::start(Pace::REAL), Clock::start(Pace::times(60)));
        assert_eq!(Pace::times(0), Pace::REAL, "never slower");
        let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
        let due = fast.now().after(minute);
        assert_eq!(fast.timer(minute), second);
        assert_eq!(real.timer(minute), minute);
        let wall = fast.wall();
        tokio::time::sleep_until(fast.instant(due)).await;
        assert_eq!(fast.now(), due);
        assert_eq!(fast.wall(), wall + SignedDuration::from_secs(60));
        assert_eq!(real.now(), real.start.after(second));
    }
}
