//! Budget that an object's changes have taken and that has led to nothing yet. The next try is covered by it for a
//! while; after that the object has to wait before it takes again, so that one object whose change is refused for ever
//! does not use up what all others need. Takes nothing itself.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::brake::Brake;
use crate::moment::Moment;

/// How long a payment covers the next try. Not for long: what many objects have paid while nothing could be changed
/// would be spent at once when it can.
const COVERS: Duration = Duration::from_secs(60);

/// How long nothing more is taken for the object: as long as is waited after the last of many refusals.
const SPARES: Duration = Duration::from_secs(300);

/// What was asked of budgets in one reconciliation: when there is something again, where there was nothing.
pub(crate) type Asked = BTreeMap<Brake, Result<(), Moment>>;

/// See the module's documentation: when something was taken last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BudgetReservation(BTreeMap<Brake, Moment>);

/// What an object's payment is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// Nothing was taken lately.
    Nothing,
    /// The change may be made.
    Covered,
    /// It was taken in vain; until then no more is taken for this object.
    InVain(Moment),
}

/// Why an object's change waits that was paid for in vain, for people.
pub(crate) fn why_in_vain(brake: Brake) -> String {
    format!(
        "a change of the node was refused after it had taken of the budget {brake}: the rest is for others for a while"
    )
}

impl BudgetReservation {
    /// What was taken for this kind of change is worth so much.
    pub(crate) fn credit(&self, brake: Brake, now: Moment) -> Reservation {
        match self.0.get(&brake) {
            Some(at) if at.after(COVERS) > now => Reservation::Covered,
            Some(at) if at.after(SPARES) > now => Reservation::InVain(at.after(SPARES)),
            Some(_) | None => Reservation::Nothing,
        }
    }

    /// The same after a reconciliation that has asked for this and made no change.
    pub(crate) fn and(mut self, asked: &Asked, now: Moment) -> BudgetReservation {
        let taken = asked.iter().filter(|(_, answer)| answer.is_ok());
        self.0.extend(taken.map(|(brake, _)| (*brake, now)));
        self.0.retain(|_, at| at.after(SPARES) > now);
        self
    }

    /// The change was made: the next one is another.
    pub(crate) fn forget(&mut self, brake: Brake) {
        self.0.remove(&brake);
    }

    /// Where nothing is ever changed each object pays once: what is planned next is planned on what is left then.
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
            (160, Reservation::InVain(at(400))),
            (399, Reservation::InVain(at(400))),
            (400, Reservation::Nothing),
        ] {
            let reservation = paid_at(100);
            assert_eq!(reservation.credit(BRAKE, at(now)), worth, "at {now}");
            let other = paid_at(100).credit(Brake::NodeDeletion, at(now));
            assert_eq!(other, Reservation::Nothing, "of another brake, at {now}");
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
            reservation.credit(BRAKE, at(2_000_000)),
            Reservation::Covered
        );
    }
}
