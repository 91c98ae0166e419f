//! The only module that reads a clock: one for decisions and their timers, one for permits, one for display. Decides
//! nothing.

use std::time::Duration;

use ccm_core::moment::{Moment, Now};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Speed of the decision clock relative to the machine's clock. All waits keep their length by the decision clock, so
/// that no guard of a decision is weaker; only observers wait less. For demonstrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    times: u32,
    wall: Option<Timestamp>,
}

impl Pace {
    /// Real time: the only pace allowed for a real cluster.
    pub const REAL: Pace = Pace {
        times: 1,
        wall: None,
    };

    /// A clock `times` as fast as real time, and never slower.
    pub fn times(times: u32) -> Pace {
        Pace {
            times: times.max(1),
            ..Pace::REAL
        }
    }

    /// The same pace with a wall clock that starts at `wall` instead of the machine's time. For simulated time: a
    /// restarted process must find the simulated date unchanged.
    pub fn starting(self, wall: Timestamp) -> Pace {
        Pace {
            wall: Some(wall),
            ..self
        }
    }
}

/// Clock of decisions and of their timers. Like the timers it stops while the machine is suspended; permits and others
/// that must not stop use [`boottime`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    start: Moment,
    /// Where the wall clock of simulated time began; `None`: real time.
    simulated: Option<Timestamp>,
    pace: Pace,
}

impl Clock {
    /// Starts a clock at the current time, at this pace.
    pub(crate) fn start(pace: Pace) -> Clock {
        Clock {
            started: Instant::now(),
            start: boottime(),
            simulated: pace.wall.or_else(|| (pace.times > 1).then(wall)),
            pace,
        }
    }

    /// The current moment of the decision clock.
    pub(crate) fn now(self) -> Moment {
        self.start.after(self.elapsed())
    }

    /// The current wall time: the machine's, which may be corrected while this process runs. Simulated time counts from
    /// its start.
    pub(crate) fn wall(self) -> Timestamp {
        let Some(began) = self.simulated else {
            return wall();
        };
        let since = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        began.checked_add(since).unwrap_or(Timestamp::MAX)
    }

    /// The current moment and wall time.
    pub(crate) fn both(self) -> Now {
        Now {
            moment: self.now(),
            wall: self.wall(),
        }
    }

    /// The tokio instant of a moment.
    pub(crate) fn instant(self, moment: Moment) -> Instant {
        self.started + self.timer(self.start.until(moment))
    }

    /// The timer duration that corresponds to a duration of the decision clock.
    pub(crate) fn timer(self, duration: Duration) -> Duration {
        duration / self.pace.times
    }

    fn elapsed(self) -> Duration {
        self.started.elapsed().saturating_mul(self.pace.times)
    }
}

/// Now by `CLOCK_BOOTTIME`, which continues during suspend.
pub(crate) fn boottime() -> Moment {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Moment(Duration::try_from(now).unwrap_or_default())
}

/// The machine's wall time.
pub(crate) fn wall() -> Timestamp {
    Timestamp::now()
}

/// The clock of the runtime's timers, for waits and for how long a request took.
pub(crate) fn timer_now() -> Instant {
    Instant::now()
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

    #[tokio::test(start_paused = true)]
    async fn the_wall_clock_of_real_time_is_the_machines_and_that_of_simulated_time_goes_on_by_itself()
     {
        let began = Timestamp::UNIX_EPOCH;
        let (real, simulated) = (
            Clock::start(Pace::REAL),
            Clock::start(Pace::REAL.starting(began)),
        );
        // The paused clock of the timers jumps, as seen from the machine's.
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        let later = wall() + SignedDuration::from_secs(3_600);
        assert!(real.wall() < later, "{}", real.wall());
        let day = SignedDuration::from_secs(86_400);
        assert_eq!(simulated.wall(), began + day);
    }
}
