//! How an allowance rises for a change that is held. Brakes guard against mistakes, and a mistake is noticed and
//! corrected within minutes: a cloud's inventory catches up, or an operator stops the manager. A change that stays
//! uncontradicted for longer is less and less likely to be a mistake, and deleting a hundred nodes whose machines are
//! really gone must not take a day.
//!
//! The rule: the allowance for a change doubles with every four minutes for which this brake held it and every answer
//! confirmed it, at most four times. One contradicting answer resets it. A change that was requested later has been
//! held for less time and has a smaller allowance. [`Allowance::risen`](super::Allowance::risen) has the number. The
//! budget of all changes at a cloud rises for all of them together ([`SharedBudget`](super::SharedBudget)).

use std::time::Duration;

use crate::moment::Moment;

/// Two and a half steps fit into the ten-minute window: a paged operator sees the first doubling before the third.
const STEP: Duration = Duration::from_secs(240);
/// Sixteen times a tenth is more than everything. An upper bound of twenty has then become one of 5120, which is more
/// than the nodes of the largest cluster that Kubernetes supports.
const MOST_STEPS: u32 = 4;

/// How many times an allowance has doubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rise(u32);

impl Rise {
    /// The initial allowance, not doubled.
    pub const NONE: Rise = Rise(0);
    /// The maximum number of doublings.
    pub const MOST: Rise = Rise(MOST_STEPS);

    /// The rise for a change that has been held since `held`.
    pub fn since(held: Option<Moment>, now: Moment) -> Rise {
        let Some(held) = held else {
            return Rise::NONE;
        };
        let steps = held.until(now).as_secs() / STEP.as_secs();
        Rise(u32::try_from(steps).unwrap_or(MOST_STEPS).min(MOST_STEPS))
    }

    /// When the allowance rises next for a change held since `held`; [`Duration::MAX`] when it is at its maximum.
    pub fn next(held: Option<Moment>, now: Moment) -> Moment {
        let Rise(steps) = Rise::since(held, now);
        match steps < MOST_STEPS {
            true => held.unwrap_or(now).after(STEP * (steps + 1)),
            false => Moment(Duration::MAX),
        }
    }

    /// Doubled once more, unless it is at its maximum.
    pub(super) fn doubled(self) -> Rise {
        Rise((self.0 + 1).min(MOST_STEPS))
    }

    /// The factor by which the initial allowance is multiplied.
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
