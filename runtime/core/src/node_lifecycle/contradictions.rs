//! The Ready nodes that the cloud calls gone, and for how long. Decides nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::moment::Moment;

/// A doubt that nobody has renewed for so long is another one when it comes again: with no node NotReady, nobody
/// asks. While one is, it is asked about every minute.
const RENEWED: Duration = Duration::from_secs(180);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Contradictions(BTreeMap<String, Doubt>);

#[derive(Debug, Clone, Copy)]
struct Doubt {
    since: Moment,
    last: Moment,
}

impl Contradictions {
    /// It is called gone `at` this moment. One that was in doubt for as long as `hold` is known to be an oddity, and stays
    /// it: each of its answers would delay the deletion of others anew.
    pub(super) fn note(&mut self, name: &str, at: Moment, hold: Duration) {
        let new = Doubt {
            since: at,
            last: at,
        };
        let doubt = self.0.entry(name.to_owned()).or_insert(new);
        let is_oddity = doubt.since.after(hold) <= doubt.last;
        if doubt.last.after(RENEWED) < at && !is_oddity {
            *doubt = new;
        }
        doubt.last = at;
    }

    /// It exists after all. Says whether that was in doubt.
    pub(super) fn clear(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Forgets those who are not kept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }

    /// Whether it is in doubt.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The one that is asked about again first.
    pub(super) fn first(&self) -> Option<&str> {
        self.0.keys().next().map(String::as_str)
    }

    /// Those that have been in doubt for less than `hold`. After that such a node is an oddity of its own.
    pub(super) fn since(&self, hold: Duration, now: Moment) -> impl Iterator<Item = &str> {
        let young = self
            .0
            .iter()
            .filter(move |(_, doubt)| doubt.since.after(hold) > now);
        young.map(|(name, _)| name.as_str())
    }
}
