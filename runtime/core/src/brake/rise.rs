//! How an allowance rises for a change that it holds. A brake stops a mistake, and a mistake is noticed and corrected
//! within minutes: a cloud's inventory catches up, a person stops the manager. What is wanted without a contradiction for
//! longer is ever less likely to be one, and a hundred machines that are really gone must not take a day.
//!
//! The rule: the allowance for a change doubles with every four minutes for which it was held by this brake and found
//! right again each time, at most four times. One answer that says otherwise begins it anew; what is wanted later has
//! waited for less, and gets less.

use std::time::Duration;

use crate::moment::Moment;

/// Twice and a half in the ten minutes of a window: whoever is paged sees the first doubling before the third.
const STEP: Duration = Duration::from_secs(240);
/// Sixteen times a tenth is everything.
const MOST_STEPS: u32 = 4;

/// How often an allowance has doubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rise(u32);

impl Rise {
    /// Not at all.
    pub const NONE: Rise = Rise(0);
    /// As far as it goes.
    pub const MOST: Rise = Rise(MOST_STEPS);

    /// For a change that has been held since then.
    pub fn since(held: Option<Moment>, now: Moment) -> Rise {
        let Some(held) = held else {
            return Rise::NONE;
        };
        let steps = held.until(now).as_secs() / STEP.as_secs();
        Rise(u32::try_from(steps).unwrap_or(MOST_STEPS).min(MOST_STEPS))
    }

    /// When the allowance rises next for a change that has been held since then; the end of time when it does not.
    pub fn next(held: Option<Moment>, now: Moment) -> Moment {
        let Rise(steps) = Rise::since(held, now);
        match steps < MOST_STEPS {
            true => held.unwrap_or(now).after(STEP * (steps + 1)),
            false => Moment(Duration::MAX),
        }
    }

    /// How many times the allowance of the beginning.
    pub fn times(self) -> usize {
        1 << self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    #[test]
    fn an_allowance_doubles_every_four_minutes_and_four_times() {
        let end = Moment(Duration::MAX);
        for (held, now, times, next) in [
            (None, 1_000, 1, at(1_240)),
            (Some(at(1_000)), 1_000, 1, at(1_240)),
            (Some(at(1_000)), 1_239, 1, at(1_240)),
            (Some(at(1_000)), 1_240, 2, at(1_480)),
            (Some(at(1_000)), 1_480, 4, at(1_720)),
            (Some(at(1_000)), 1_959, 8, at(1_960)),
            (Some(at(1_000)), 1_960, 16, end),
            (Some(at(1_000)), 100_000, 16, end),
        ] {
            assert_eq!(Rise::since(held, at(now)).times(), times, "at {now}");
            assert_eq!(Rise::next(held, at(now)), next, "at {now}");
        }
    }
}
