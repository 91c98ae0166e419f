//! Ranks nodes as witnesses: a node found under its provider ID before is the best evidence that an answer is about
//! this cluster. Performs no I/O.

use std::collections::BTreeMap;

use super::ready_yet_gone::Contradictions;
use crate::node::object::PrunedNode;

/// After this many look-ups in a row that do not find it, a node is no longer a preferred witness. A single bad answer,
/// which finds no node, changes no ranking.
const MAX_MISSES: u32 = 3;

/// Look-up results of witness nodes.
#[derive(Debug, Default)]
pub(super) struct Witnesses {
    /// UIDs of nodes found under their provider ID, by name.
    known: BTreeMap<String, String>,
    /// By name: UID, and number of consecutive look-ups that did not find the node.
    misses: BTreeMap<String, (String, u32)>,
}

impl Witnesses {
    /// The node was found under its provider ID.
    pub(super) fn was_found(&mut self, node: &PrunedNode) {
        self.misses.remove(node.name());
        let (name, uid) = (node.name().to_owned(), node.uid().to_owned());
        self.known.insert(name, uid);
    }

    /// The node was looked up and not found, or may have caused the lack of an answer.
    pub(super) fn was_not_found(&mut self, node: &PrunedNode) {
        let (name, uid) = (node.name().to_owned(), node.uid().to_owned());
        self.misses.entry(name).or_insert((uid, 0)).1 += 1;
    }

    /// Whether the node was found once.
    pub(super) fn is_known(&self, node: &PrunedNode) -> bool {
        self.known
            .get(node.name())
            .is_some_and(|known| known == node.uid())
    }

    /// Rank of a witness; lower is better. The first contradicted node is asked again so that the contradiction can
    /// end; more of them would displace known good witnesses.
    pub(super) fn rank(&self, node: &PrunedNode, contradictions: &Contradictions) -> u8 {
        let misses = self.misses.get(node.name());
        let is_often_missed =
            misses.is_some_and(|(who, times)| who == node.uid() && *times >= MAX_MISSES);
        match (
            self.is_known(node),
            contradictions.contains(node.name(), node.uid()),
        ) {
            _ if contradictions.first() == Some(node.name()) => 0,
            (true, false) if !is_often_missed => 0,
            (false, false) if !is_often_missed => 1,
            (_, true) => 2,
            (_, false) => 3,
        }
    }

    /// Drops nodes for whose name and UID `is_there` is false.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str, &str) -> bool) {
        self.known.retain(|name, uid| is_there(name, uid));
        self.misses.retain(|name, (uid, _)| is_there(name, uid));
    }
}
