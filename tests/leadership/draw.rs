//! The events of a trial, drawn from a seed: the same seed and number give the same trial, apart from the machine's
//! timing.

use std::time::Duration;

use crate::oracle::Timings;

/// The event that happens to the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The leader crashes.
    Killed,
    /// The leader is stopped until after its lease, and goes on.
    PausedPastLease,
    /// The leader is stopped until a time between its renew deadline and the end of its lease.
    PausedPastDeadline,
    /// The leader is stopped for so short a time that it keeps its lease.
    PausedShortly,
    /// The leader alone loses its connection to the API server, without a reset.
    CutSilently,
    /// The same, and every connection is reset.
    CutByReset,
    /// Another holder is written into the Lease.
    Stolen,
    /// The leader's wall clock steps.
    ClockOfLeader,
    /// The standby's wall clock steps, and the leader crashes.
    ClockOfStandby,
    /// The API server's answers to the leader take two seconds.
    SlowAnswers,
    /// The leader gets SIGTERM.
    Terminated,
}

/// All kinds, in the order in which trials have them.
pub(crate) const KINDS: [Kind; 11] = [
    Kind::Killed,
    Kind::PausedPastLease,
    Kind::CutSilently,
    Kind::Stolen,
    Kind::PausedPastDeadline,
    Kind::CutByReset,
    Kind::Terminated,
    Kind::SlowAnswers,
    Kind::PausedShortly,
    Kind::ClockOfLeader,
    Kind::ClockOfStandby,
];

/// One trial, as drawn from the seed.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) kind: Kind,
    /// Time between the start of the trial and the event.
    pub(crate) moment: Duration,
    /// Duration of the event, if it is drawn.
    pub(crate) time: Duration,
    /// Whether clocks go back rather than forward.
    pub(crate) back: bool,
    /// Whether a theft comes at the same time as a renewal, shifted by `time`.
    pub(crate) meets: bool,
    /// Whether there are three processes rather than two.
    pub(crate) crowd: bool,
}

impl Trial {
    pub(crate) fn draw(seed: u64, number: usize, timings: Timings) -> Trial {
        let mut numbers = Numbers(seed ^ (number as u64).wrapping_mul(0xd134_2543_de82_ef95));
        let kind = KINDS[number % KINDS.len()];
        let moment = numbers.between(Duration::ZERO, timings.retry * 3);
        let little = Duration::from_millis(100);
        let time = match kind {
            Kind::PausedPastLease => numbers.between(timings.lease + little, timings.lease * 3 / 2),
            Kind::PausedPastDeadline => numbers.between(timings.renew + little, timings.lease),
            // A renewal may be as old as a retry period when it begins, and must still come in time when it ends.
            Kind::PausedShortly => numbers.between(little, timings.renew - timings.retry * 3),
            Kind::Stolen => numbers.between(Duration::ZERO, Duration::from_millis(12)),
            _ => Duration::ZERO,
        };
        Trial {
            kind,
            moment,
            time,
            back: numbers.next().is_multiple_of(2),
            crowd: numbers.next().is_multiple_of(4),
            meets: numbers.next().is_multiple_of(2),
        }
    }
}

/// SplitMix64: as random as this needs, and the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let range = (to - from).as_micros().max(1);
        let step = u128::from(self.next()) % range;
        from + Duration::from_micros(u64::try_from(step).unwrap_or_default())
    }
}
