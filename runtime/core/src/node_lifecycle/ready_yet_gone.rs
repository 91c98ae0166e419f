//! Ready nodes that the cloud calls gone, and since when. Decides nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::moment::Moment;
use crate::node::object::PrunedNode;

/// A contradiction not renewed for this long counts as a new one when it recurs: without NotReady nodes there are no
/// look-ups. While there are, it is renewed every minute.
const RENEWED: Duration = Duration::from_secs(180);

/// Contradicted nodes, by name.
#[derive(Debug, Default)]
pub(super) struct Contradictions(BTreeMap<String, Contradiction>);

#[derive(Debug, Clone)]
struct Contradiction {
    /// The node's UID: one that is created again is another node.
    uid: String,
    since: Moment,
    last: Moment,
}

impl Contradictions {
    /// The node is called gone `at` this moment. After `hold` it is known to be a permanent exception and stays one:
    /// each further answer would delay other deletions anew.
    pub(super) fn note(&mut self, node: &PrunedNode, at: Moment, hold: Duration) {
        let new = Contradiction {
            uid: node.uid().to_owned(),
            since: at,
            last: at,
        };
        let entry = self.0.entry(node.name().to_owned());
        let contradiction = entry.or_insert_with(|| new.clone());
        let is_oddity = contradiction.since.after(hold) <= contradiction.last;
        let is_over = contradiction.last.after(RENEWED) < at && !is_oddity;
        if is_over || contradiction.uid != new.uid {
            *contradiction = new;
        }
        contradiction.last = at;
    }

    /// The node exists after all. Returns whether it was contradicted.
    pub(super) fn clear(&mut self, node: &PrunedNode) -> bool {
        self.contains(node.name(), node.uid()) && self.0.remove(node.name()).is_some()
    }

    /// Drops the nodes for whose name and UID `is_kept` is false.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        self.0.retain(|name, one| is_kept(name, &one.uid));
    }

    /// Whether no node is contradicted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the node with this name and UID is contradicted.
    pub(super) fn contains(&self, name: &str, uid: &str) -> bool {
        self.0.get(name).is_some_and(|one| one.uid == uid)
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
