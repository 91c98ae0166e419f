//! What is remembered of each node, and its rank as a witness: a node found under its provider ID before is the best
//! evidence that an answer is about this cluster. Performs no I/O.

use super::deletion_guard::Seen;
use super::ready_yet_gone::Contradictions;
use crate::node::object::PrunedNode;

/// After this many look-ups in a row that do not find it, a node is no longer a preferred witness. A single bad answer,
/// which finds no node, changes no ranking.
const MAX_MISSES: u32 = 3;

/// What is remembered of one node, Ready or not.
#[derive(Debug)]
pub(super) struct Witness {
    pub(super) uid: String,
    /// Since when it is seen.
    pub(super) seen: Seen,
    /// Whether it was found under its provider ID once.
    pub(super) is_known: bool,
    /// Number of consecutive look-ups that did not find it.
    misses: u32,
}

impl Witness {
    pub(super) fn new(node: &PrunedNode, seen: Seen) -> Witness {
        Witness {
            uid: node.uid().to_owned(),
            seen,
            is_known: false,
            misses: 0,
        }
    }

    /// Notes a look-up: it has found the node under its provider ID, or has not, or the node may have caused the lack of
    /// an answer.
    pub(super) fn was_looked_up(&mut self, is_found: bool) {
        self.is_known |= is_found;
        self.misses = match is_found {
            true => 0,
            false => self.misses.saturating_add(1),
        };
    }

    /// Rank of the node with this name; lower is better. The first contradicted node is asked again so that the
    /// contradiction can end; more of them would displace known good witnesses.
    pub(super) fn rank(&self, name: &str, contradictions: &Contradictions) -> u8 {
        let is_often_missed = self.misses >= MAX_MISSES;
        match (self.is_known, contradictions.contains(name, &self.uid)) {
            _ if contradictions.first() == Some(name) => 0,
            (true, false) if !is_often_missed => 0,
            (false, false) if !is_often_missed => 1,
            (_, true) => 2,
            (_, false) => 3,
        }
    }
}
