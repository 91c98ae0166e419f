//! Whether too many nodes are called gone at once, and for how long that has been said of the same ones. Holds; it
//! deletes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::permit::Moment;

/// Fewer nodes than this are no mass: two of five may well go together.
const LEAST: usize = 3;

/// The nodes that are called gone at once: name to UID.
pub(super) type Called = BTreeMap<String, String>;

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Mass(Option<Under>);

#[derive(Debug, Clone)]
struct Under {
    since: Moment,
    called: Called,
}

impl Mass {
    /// These nodes are called gone, of so many that the provider owns. `exists` says whether a node is still there:
    /// one that was deleted is no change of mind.
    pub(super) fn update(
        &mut self,
        called: Called,
        owned: usize,
        exists: impl Fn(&str, &str) -> bool,
        now: Moment,
    ) {
        if called.len() < LEAST || called.len() * 3 <= owned {
            self.0 = None;
            return;
        }
        let is_same = self.0.as_ref().is_some_and(|under| {
            let is_new = called
                .iter()
                .any(|(name, uid)| under.called.get(name) != Some(uid));
            let came_back = under
                .called
                .iter()
                .any(|(name, uid)| called.get(name) != Some(uid) && exists(name, uid));
            !is_new && !came_back
        });
        match &mut self.0 {
            Some(under) if is_same => under.called = called,
            _ => self.0 = Some(Under { since: now, called }),
        }
    }

    /// An answer about these nodes was not complete, or there was none: the time begins again, if one of them is part
    /// of the mass.
    pub(super) fn interrupt<'a>(&mut self, mut about: impl Iterator<Item = &'a str>, now: Moment) {
        if let Some(under) = &mut self.0
            && about.any(|name| under.called.contains_key(name))
        {
            under.since = now;
        }
    }

    /// The end of the hold, if there is one.
    pub(super) fn until(&self, hold: Duration) -> Option<Moment> {
        self.0.as_ref().map(|under| under.since.after(hold))
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
            let mut mass = Mass::default();
            mass.update(called(&names), owned, |_, _| true, at(0));
            assert_eq!(mass.until(HOLD).is_some(), is_mass, "{count} of {owned}");
        }
    }

    #[test]
    fn the_hold_is_over_after_a_quarter_of_an_hour_about_the_same_nodes() {
        let mut mass = Mass::default();
        mass.update(called(&["a", "b", "c"]), 4, |_, _| true, at(0));
        mass.update(called(&["a", "b", "c"]), 4, |_, _| true, at(600));
        assert_eq!(mass.until(HOLD), Some(at(900)));
        // One more, one less that is still there, and a node of the same name with another machine.
        mass.update(called(&["a", "b", "c", "d"]), 4, |_, _| true, at(610));
        assert_eq!(mass.until(HOLD), Some(at(1510)));
        mass.update(called(&["a", "b", "c"]), 4, |_, _| true, at(620));
        assert_eq!(mass.until(HOLD), Some(at(1520)));
        let mut again = called(&["a", "b", "c"]);
        again.insert("c".to_owned(), "another".to_owned());
        mass.update(again.clone(), 4, |_, _| true, at(630));
        assert_eq!(mass.until(HOLD), Some(at(1530)));
        mass.interrupt(["x"].into_iter(), at(635));
        assert_eq!(
            mass.until(HOLD),
            Some(at(1530)),
            "x has nothing to do with it"
        );
        mass.interrupt(["x", "a"].into_iter(), at(640));
        assert_eq!(mass.until(HOLD), Some(at(1540)));
        // One that we deleted is no change of mind.
        again.remove("a");
        again.insert("d".to_owned(), "uid-d".to_owned());
        mass.update(again.clone(), 4, |_, _| true, at(650));
        again.remove("b");
        mass.update(again, 3, |name, _| name != "b", at(700));
        assert_eq!(mass.until(HOLD), None, "two are no mass");
    }

    #[test]
    fn deletions_within_the_hold_do_not_begin_it_again() {
        let mut mass = Mass::default();
        mass.update(called(&["a", "b", "c", "d"]), 6, |_, _| true, at(0));
        mass.update(called(&["b", "c", "d"]), 5, |name, _| name != "a", at(950));
        assert_eq!(mass.until(HOLD), Some(at(900)));
    }
}
