//! Ready nodes that the cloud calls gone, and since when. Decides nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::moment::Moment;

/// A contradiction not renewed for this long counts as a new one when it recurs: without NotReady nodes there are no
/// look-ups. While there are, it is renewed every minute.
const RENEWED: Duration = Duration::from_secs(180);

/// Contradicted nodes, by name.
#[derive(Debug, Default)]
pub(super) struct Contradictions(BTreeMap<String, Contradiction>);

#[derive(Debug, Clone, Copy)]
struct Contradiction {
    since: Moment,
    last: Moment,
}

impl Contradictions {
    /// The node is called gone `at` this moment. After `hold` it is known to be a permanent exception and stays one:
    /// each further answer would delay other deletions anew.
    pub(super) fn note(&mut self, name: &str, at: Moment, hold: Duration) {
        let new = Contradiction {
            since: at,
            last: at,
        };
        let contradiction = self.0.entry(name.to_owned()).or_insert(new);
        let is_oddity = contradiction.since.after(hold) <= contradiction.last;
        if contradiction.last.after(RENEWED) < at && !is_oddity {
            *contradiction = new;
        }
        contradiction.last = at;
    }

    /// The node exists after all. Returns whether it was contradicted.
    pub(super) fn clear(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Drops the nodes that are not kept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }

    /// Whether no node is contradicted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the node is contradicted.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The node to ask about again first.
    pub(super) fn first(&self) -> Option<&str> {
        self.0.keys().next().map(String::as_str)
    }

    /// Nodes contradicted for less than `hold`. After that a node counts as a permanent exception.
    pub(super) fn since(&self, hold: Duration, now: Moment) -> impl Iterator<Item = &str> {
        let young = self
            .0
            .iter()
            .filter(move |(_, contradiction)| contradiction.since.after(hold) > now);
        young.map(|(name, _)| name.as_str())
    }
}
