//! How good a witness each node is: one that was found under its provider ID before shows best that an answer is about this
//! cluster. Asks nobody.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

use super::contradictions::Contradictions;
use crate::node::object::{name, uid};

/// Whoever was asked so often and never found vouches for nobody: somebody else is asked first. One bad answer, which
/// finds nobody, changes no witness.
const IN_VAIN: u32 = 3;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Witnesses {
    /// Who was found under the provider ID that it has, by UID.
    known: BTreeMap<String, String>,
    /// Who was asked, by UID, and how often in a row without being found.
    in_vain: BTreeMap<String, (String, u32)>,
}

impl Witnesses {
    /// It was found under its provider ID.
    pub(super) fn was_found(&mut self, node: &Node) {
        self.in_vain.remove(name(node));
        let (name, uid) = (name(node).to_owned(), uid(node).to_owned());
        self.known.insert(name, uid);
    }

    /// It was asked about, and not found, or there was no answer because of it, perhaps.
    pub(super) fn was_not_found(&mut self, node: &Node) {
        let (name, uid) = (name(node).to_owned(), uid(node).to_owned());
        self.in_vain.entry(name).or_insert((uid, 0)).1 += 1;
    }

    /// Whether it was found once.
    pub(super) fn is_known(&self, node: &Node) -> bool {
        self.known
            .get(name(node))
            .is_some_and(|known| known == uid(node))
    }

    /// Its place among the witnesses: the lower, the better. One that is in doubt is asked again, so that the doubt can
    /// end; more than one would leave no room for those that are known to be good.
    pub(super) fn rank(&self, node: &Node, contradictions: &Contradictions) -> u8 {
        let in_vain = self.in_vain.get(name(node));
        let is_in_vain = in_vain.is_some_and(|(who, times)| who == uid(node) && *times >= IN_VAIN);
        match (self.is_known(node), contradictions.contains(name(node))) {
            _ if contradictions.first() == Some(name(node)) => 0,
            (true, false) if !is_in_vain => 0,
            (false, false) if !is_in_vain => 1,
            (_, true) => 2,
            (_, false) => 3,
        }
    }

    /// Forgets who is not there any more: `is_there` is asked by name and UID.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str, &str) -> bool) {
        self.known.retain(|name, uid| is_there(name, uid));
        self.in_vain.retain(|name, (uid, _)| is_there(name, uid));
    }
}
