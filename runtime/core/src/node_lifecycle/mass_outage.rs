//! Whether too many nodes are called gone at once, and for how long these have been the same nodes. Holds deletions;
//! deletes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::moment::Moment;

/// Fewer nodes than this are no mass: two of five may well go together.
const LEAST: usize = 3;

/// Time that each incomplete or missing answer deducts from the hold: the longest interval between two answers. An
/// occasional failure must not hold nodes forever; permanent failure does.
const UNANSWERED: Duration = Duration::from_secs(60);

/// Nodes called gone at once: name to UID.
pub(super) type Called = BTreeMap<String, String>;

/// State of the mass hold.
#[derive(Debug, Clone, Default)]
pub(super) enum MassOutage {
    /// Too few nodes are called gone.
    #[default]
    None,
    /// The same nodes have been called gone since then.
    Held { since: Moment, called: Called },
    /// The hold is over. A node called gone later is held by itself, since then.
    Confirmed {
        called: Called,
        late: BTreeMap<String, Moment>,
    },
}

impl MassOutage {
    /// Takes the nodes called gone, of `owned` nodes of the provider; they are believed after `hold`. `is_back` says
    /// whether a node that is not among them any more exists after all, which restarts the hold: one that was deleted
    /// or does not count any more is no contradiction.
    pub(super) fn update(
        &mut self,
        called: Called,
        owned: usize,
        is_back: impl Fn(&str, &str) -> bool,
        hold: Duration,
        now: Moment,
    ) {
        if called.len() < LEAST || called.len() * 3 <= owned {
            *self = MassOutage::None;
            return;
        }
        let before = match self {
            MassOutage::None => None,
            MassOutage::Held { called, .. } | MassOutage::Confirmed { called, .. } => {
                Some(&*called)
            }
        };
        let has_come_back = before.is_some_and(|before| {
            let mut before = before.iter();
            before.any(|(name, uid)| called.get(name) != Some(uid) && is_back(name, uid))
        });
        let new: Vec<String> = called
            .iter()
            .filter(|(name, uid)| before.is_none_or(|before| before.get(*name) != Some(*uid)))
            .map(|(name, _)| name.clone())
            .collect();
        *self = match std::mem::take(self) {
            MassOutage::Held { since, .. } if since.after(hold) <= now && !has_come_back => {
                let late = new.into_iter().map(|name| (name, now)).collect();
                MassOutage::Confirmed { called, late }
            }
            MassOutage::Held { since, .. } if new.is_empty() && !has_come_back => {
                MassOutage::Held { since, called }
            }
            MassOutage::Confirmed { mut late, .. } if !has_come_back => {
                late.retain(|name, _| called.contains_key(name));
                late.extend(new.into_iter().map(|name| (name, now)));
                MassOutage::Confirmed { called, late }
            }
            _ => MassOutage::Held { since: now, called },
        };
    }

    /// An answer about these nodes was incomplete or missing: if one of them is part of the mass, that time does not
    /// count. A confirmed mass stays confirmed: a missing answer is no contradiction.
    pub(super) fn interrupt<'a>(&mut self, mut about: impl Iterator<Item = &'a str>, now: Moment) {
        match self {
            MassOutage::None => {}
            MassOutage::Held { since, called } => {
                if about.any(|name| called.contains_key(name)) {
                    *since = since.after(UNANSWERED).min(now);
                }
            }
            MassOutage::Confirmed { late, .. } => {
                about.for_each(|name| {
                    let late = late.entry(name.to_owned());
                    late.and_modify(|since| *since = since.after(UNANSWERED).min(now));
                });
            }
        }
    }

    /// End of this node's hold, if it is held.
    pub(super) fn until(&self, name: &str, hold: Duration) -> Option<Moment> {
        match self {
            MassOutage::None => None,
            MassOutage::Held { since, .. } => Some(since.after(hold)),
            MassOutage::Confirmed { late, .. } => late.get(name).map(|since| since.after(hold)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(900);

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn called(names: &[&str]) -> Called {
        names
            .iter()
            .map(|name| ((*name).to_owned(), format!("uid-{name}")))
            .collect()
    }

    #[test]
    fn three_nodes_and_more_than_a_third_are_a_mass() {
        for (count, owned, is_mass) in [
            (2, 2, false),
            (2, 5, false),
            (3, 8, true),
            (3, 9, false),
            (4, 9, true),
            (33, 99, false),
            (34, 99, true),
        ] {
            let names: Vec<String> = (0..count).map(|index| format!("n{index}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut mass_outage = MassOutage::default();
            mass_outage.update(called(&names), owned, |_, _| true, HOLD, at(0));
            assert_eq!(
                mass_outage.until("a", HOLD).is_some(),
                is_mass,
                "{count} of {owned}"
            );
        }
    }

    #[test]
    fn the_hold_is_over_after_a_quarter_of_an_hour_about_the_same_nodes() {
        let mut mass_outage = MassOutage::default();
        mass_outage.update(called(&["a", "b", "c"]), 4, |_, _| true, HOLD, at(0));
        mass_outage.update(called(&["a", "b", "c"]), 4, |_, _| true, HOLD, at(600));
        assert_eq!(mass_outage.until("a", HOLD), Some(at(900)));
        // One more, one less that still exists, and one of the same name with another machine.
        mass_outage.update(called(&["a", "b", "c", "d"]), 4, |_, _| true, HOLD, at(610));
        assert_eq!(mass_outage.until("a", HOLD), Some(at(1510)));
        mass_outage.update(called(&["a", "b", "c"]), 4, |_, _| true, HOLD, at(620));
        assert_eq!(mass_outage.until("a", HOLD), Some(at(1520)));
        let mut again = called(&["a", "b", "c"]);
        again.insert("c".to_owned(), "another".to_owned());
        mass_outage.update(again, 4, |_, _| true, HOLD, at(630));
        assert_eq!(mass_outage.until("a", HOLD), Some(at(1530)));
        mass_outage.interrupt(["x"].into_iter(), at(635));
        assert_eq!(
            mass_outage.until("a", HOLD),
            Some(at(1530)),
            "x has nothing to do with it"
        );
        mass_outage.interrupt(["x", "a"].into_iter(), at(640));
        assert_eq!(mass_outage.until("a", HOLD), Some(at(1540)));
        mass_outage.interrupt(["a"].into_iter(), at(800));
        assert_eq!(mass_outage.until("a", HOLD), Some(at(1600)));
    }

    #[test]
    fn deletions_within_the_hold_do_not_begin_it_again() {
        let mut mass_outage = MassOutage::default();
        mass_outage.update(called(&["a", "b", "c", "d"]), 6, |_, _| true, HOLD, at(0));
        mass_outage.update(
            called(&["b", "c", "d"]),
            5,
            |name, _| name != "a",
            HOLD,
            at(950),
        );
        assert_eq!(mass_outage.until("a", HOLD), None, "it was confirmed");
    }

    #[test]
    fn what_was_confirmed_stays_so_until_it_is_contradicted_and_whoever_is_late_waits_alone() {
        let all = ["a", "b", "c", "d"];
        let mut mass_outage = MassOutage::default();
        mass_outage.update(called(&all[..3]), 6, |_, _| true, HOLD, at(0));
        mass_outage.update(called(&all[..3]), 6, |_, _| true, HOLD, at(900));
        assert_eq!(mass_outage.until("a", HOLD), None);
        mass_outage.interrupt(["a"].into_iter(), at(910));
        mass_outage.update(called(&all), 6, |_, _| true, HOLD, at(920));
        assert_eq!(
            mass_outage.until("a", HOLD),
            None,
            "no answer is no contradiction"
        );
        assert_eq!(mass_outage.until("d", HOLD), Some(at(1_820)));
        mass_outage.interrupt(["d"].into_iter(), at(930));
        assert_eq!(mass_outage.until("d", HOLD), Some(at(1_830)));
        // A deleted node is no contradiction, either; one that exists again is.
        mass_outage.update(called(&all[1..]), 5, |name, _| name != "a", HOLD, at(940));
        assert_eq!(mass_outage.until("b", HOLD), None);
        mass_outage.update(called(&["c", "d", "e"]), 5, |_, _| true, HOLD, at(950));
        assert_eq!(mass_outage.until("c", HOLD), Some(at(1_850)));
    }
}
