//! The look-ups of a pass: which nodes share one, and the witnesses for its answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Memory, Pass};
use crate::node::object::PrunedNode;
use crate::node::ownership::{Owner, owner};
use crate::node_lifecycle::survey::{
    FIRST_WITNESSES, LARGEST, LookupGroup, Survey, WITNESSES, scheme,
};

impl Memory {
    /// Look-ups of a pass for the nodes in `due`.
    pub(super) fn surveys(&self, due: Vec<Arc<PrunedNode>>, pass: &Pass<'_>) -> Vec<Survey> {
        let mut groups: BTreeMap<(Option<String>, LookupGroup), Vec<Arc<PrunedNode>>> =
            BTreeMap::new();
        for node in due {
            let history = self.histories.get(node.name());
            let group = history.map_or(LookupGroup::Identified, |history| history.group);
            let group = (scheme(&node).map(str::to_owned), group);
            groups.entry(group).or_default().push(node);
        }
        let mut surveys = Vec::new();
        for ((wanted, group), about) in groups {
            let most = match group {
                LookupGroup::Alone => 1,
                LookupGroup::Identified | LookupGroup::Unidentified => {
                    self.halving.most(&wanted).clamp(1, LARGEST)
                }
            };
            for about in about.chunks(most) {
                let is_fresh = about.iter().any(|node| self.is_called_gone(node));
                // A contradicted node is among them, and is no evidence until it is found.
                let count = match is_fresh || !self.contradictions.is_empty() {
                    true => WITNESSES,
                    false => FIRST_WITNESSES,
                };
                surveys.push(Survey {
                    witnesses: match &wanted {
                        Some(wanted) => self.best_witnesses(wanted, about, count, pass),
                        None => Vec::new(),
                    },
                    is_fresh,
                    asked: pass.now.moment,
                    about: about.to_vec(),
                });
            }
        }
        surveys
    }

    /// The best witnesses of a scheme, this many: Ready ones first, then by rank.
    fn best_witnesses(
        &self,
        wanted: &str,
        about: &[Arc<PrunedNode>],
        count: usize,
        pass: &Pass<'_>,
    ) -> Vec<Arc<PrunedNode>> {
        let mut best: Vec<(u8, bool, &Arc<PrunedNode>)> = Vec::new();
        for node in pass.nodes {
            let is_other = scheme(node) != Some(wanted);
            if is_other || about.iter().any(|one| Arc::ptr_eq(one, node)) {
                continue;
            }
            let owner = owner(node, pass.ownership);
            // A node that is called gone is looked up itself.
            if !matches!(owner, Owner::Recorded | Owner::Implied) || self.is_called_gone(node) {
                continue;
            }
            let Some(witness) = self.witness(node) else {
                continue;
            };
            let rank = witness.rank(node.name(), &self.contradictions);
            best.push((rank, !node.is_ready(), node));
            best.sort_by_key(|(rank, is_not_ready, _)| (*is_not_ready, *rank));
            best.truncate(count);
        }
        best.into_iter().map(|(_, _, node)| node.clone()).collect()
    }

    pub(super) fn is_called_gone(&self, node: &PrunedNode) -> bool {
        let history = self.histories.get(node.name());
        history.is_some_and(|history| history.gone.is_some())
    }
}
