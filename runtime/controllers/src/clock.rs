//! The only module that reads a clock: one for decisions and their timers, one for permits, one for people.
//! Decides nothing.

use ccm_core::permit::Moment;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// The clock of decisions and of the timers that wake them. It stands still while the machine is
/// suspended, like the timers; what must not, such as permits, asks [`boottime`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    start: Moment,
}

impl Clock {
    /// A clock that goes from now on.
    pub(crate) fn start() -> Clock {
        Clock {
            started: Instant::now(),
            start: boottime(),
        }
    }

    /// Now.
    pub(crate) fn now(self) -> Moment {
        self.start.after(self.started.elapsed())
    }

    /// The timer's name for a moment.
    pub(crate) fn instant(self, moment: Moment) -> Instant {
        self.started + self.start.until(moment)
    }
}

/// Now on `CLOCK_BOOTTIME`, which goes on during suspend.
pub(crate) fn boottime() -> Moment {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
    Moment(std::time::Duration::new(seconds, nanoseconds))
}

/// Now on the wall, for what is shown to people.
pub(crate) fn wall() -> Timestamp {
    Timestamp::now()
}
