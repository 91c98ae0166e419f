//! Budget that an object's changes have taken without a change being made yet. It covers the next attempt for a while;
//! after that the object has to wait before it takes budget again, so that one object whose change is always refused
//! does not use up the budget of all others. Takes no budget itself.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::moment::Moment;
use crate::safety::brake::Brake;

/// How long taken budget covers the next attempt. Short, because otherwise budget that many objects took while no
/// change was possible would be spent at once when changes are possible again.
const VALID_FOR: Duration = Duration::from_secs(60);

/// How long no more budget is taken for the object: as long as the backoff after many refusals.
const REFUSED_FOR: Duration = Duration::from_secs(300);

/// The budgets asked in one reconciliation; an error is when budget is available again.
pub(crate) type Asked = BTreeMap<Brake, Result<(), Moment>>;

/// When budget was last taken for one object, by brake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BudgetReservation(BTreeMap<Brake, Moment>);

/// Whether budget covers an object's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// No budget was taken recently: take some.
    Nothing,
    /// Budget was taken in this reconciliation, or a moment ago: the change may be made.
    Covered,
    /// Budget was asked for in this reconciliation: there is none before this moment.
    Exhausted(Moment),
    /// Budget was taken and no change was made; before this moment no more is taken for this object.
    Refused(Moment),
}

/// Human-readable reason why the change waits after [`Reservation::Refused`].
pub(crate) fn why_refused(brake: Brake) -> String {
    format!(
        "the node's last change was refused after it took budget from the brake {brake}; other nodes go first for now"
    )
}

impl BudgetReservation {
    /// Whether budget covers this kind of change at `now`: budget taken earlier, unless this reconciliation has `asked`.
    pub(crate) fn credit(&self, brake: Brake, asked: &Asked, now: Moment) -> Reservation {
        match asked.get(&brake) {
            Some(Ok(())) => return Reservation::Covered,
            Some(Err(free)) => return Reservation::Exhausted(*free),
            None => {}
        }
        match self.0.get(&brake) {
            Some(at) if at.after(VALID_FOR) > now => Reservation::Covered,
            Some(at) if at.after(REFUSED_FOR) > now => Reservation::Refused(at.after(REFUSED_FOR)),
            Some(_) | None => Reservation::Nothing,
        }
    }

    /// The reservation after a reconciliation that asked for these budgets and made no change.
    pub(crate) fn and(mut self, asked: &Asked, now: Moment) -> BudgetReservation {
        let taken = asked.iter().filter(|(_, answer)| answer.is_ok());
        self.0.extend(taken.map(|(brake, _)| (*brake, now)));
        self.0.retain(|_, at| at.after(REFUSED_FOR) > now);
        self
    }

    /// The change was made, so the reservation is used up.
    pub(crate) fn forget(&mut self, brake: Brake) {
        self.0.remove(&brake);
    }

    /// For modes in which no change is ever made: each object takes budget once only, so that the plan for further
    /// objects is made with the budget that is left.
    pub(crate) fn for_ever(mut self) -> BudgetReservation {
        let never = Moment(Duration::MAX);
        self.0.values_mut().for_each(|at| *at = never);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRAKE: Brake = Brake::ShutdownTaint;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn paid_at(seconds: u64) -> BudgetReservation {
        BudgetReservation::default().and(&[(BRAKE, Ok(()))].into(), at(seconds))
    }

    #[test]
    fn what_was_taken_covers_the_next_try_and_is_not_taken_again_too_soon() {
        for (now, worth) in [
            (100, Reservation::Covered),
            (159, Reservation::Covered),
            (160, Reservation::Refused(at(400))),
            (399, Reservation::Refused(at(400))),
            (400, Reservation::Nothing),
        ] {
            let reservation = paid_at(100);
            let unasked = Asked::new();
            let credit = reservation.credit(BRAKE, &unasked, at(now));
            assert_eq!(credit, worth, "at {now}");
            let other = reservation.credit(Brake::NodeDeletion, &unasked, at(now));
            assert_eq!(other, Reservation::Nothing, "of another brake, at {now}");
        }
    }

    #[test]
    fn what_is_asked_now_counts_more_than_what_was_taken_earlier() {
        for earlier in [BudgetReservation::default(), paid_at(100)] {
            for (answer, worth) in [
                (Ok(()), Reservation::Covered),
                (Err(at(500)), Reservation::Exhausted(at(500))),
            ] {
                let asked = Asked::from([(BRAKE, answer)]);
                for now in [101, 160, 400] {
                    let credit = earlier.credit(BRAKE, &asked, at(now));
                    assert_eq!(credit, worth, "{earlier:?} at {now}");
                }
            }
        }
    }

    #[test]
    fn what_could_not_be_taken_is_worth_nothing_and_what_is_over_is_forgotten() {
        let refused = BudgetReservation::default().and(&[(BRAKE, Err(at(500)))].into(), at(100));
        assert_eq!(refused, BudgetReservation::default());
        assert_eq!(
            paid_at(100).and(&Asked::new(), at(400)),
            BudgetReservation::default()
        );
        assert_eq!(paid_at(100).and(&Asked::new(), at(399)), paid_at(100));
    }

    #[test]
    fn where_nothing_is_changed_one_payment_is_enough_for_ever() {
        let reservation = paid_at(100).for_ever().and(&Asked::new(), at(1_000_000));
        assert_eq!(
            reservation.credit(BRAKE, &Asked::new(), at(2_000_000)),
            Reservation::Covered
        );
    }
}
