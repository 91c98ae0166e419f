//! Ranks nodes as witnesses: a node found under its provider ID before is the best evidence that an answer is about
//! this cluster. Performs no I/O.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

use super::ready_yet_gone::Contradictions;
use crate::node::object::{name, uid};

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
    pub(super) fn was_found(&mut self, node: &Node) {
        self.misses.remove(name(node));
        let (name, uid) = (name(node).to_owned(), uid(node).to_owned());
        self.known.insert(name, uid);
    }

    /// The node was looked up and not found, or may have caused the lack of an answer.
    pub(super) fn was_not_found(&mut self, node: &Node) {
        let (name, uid) = (name(node).to_owned(), uid(node).to_owned());
        self.misses.entry(name).or_insert((uid, 0)).1 += 1;
    }

    /// Whether the node was found once.
    pub(super) fn is_known(&self, node: &Node) -> bool {
        self.known
            .get(name(node))
            .is_some_and(|known| known == uid(node))
    }

    /// Rank of a witness; lower is better. The first contradicted node is asked again so that the contradiction can
    /// end; more of them would displace known good witnesses.
    pub(super) fn rank(&self, node: &Node, contradictions: &Contradictions) -> u8 {
        let misses = self.misses.get(name(node));
        let is_often_missed =
            misses.is_some_and(|(who, times)| who == uid(node) && *times >= MAX_MISSES);
        match (
            self.is_known(node),
            contradictions.contains(name(node), uid(node)),
        ) {
            _ if contradictions.first() == Some(name(node)) => 0,
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
