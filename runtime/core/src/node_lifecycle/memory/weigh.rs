//! How many nodes are called gone at once, and which missing answers interrupt that, as input for the mass hold. Decides
//! nothing about a node.

use std::sync::Arc;

use super::{Memory, Pass};
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::node::ownership::{Owner, owner};
use crate::node_lifecycle::deletion_guard::is_wanted;
use crate::node_lifecycle::mass_outage::Called;
use crate::node_lifecycle::not_ready_history::NodeHistory;
use crate::node_lifecycle::survey::{LookupGroup, Survey};

impl Memory {
    /// Counts the nodes called gone. The first answer counts already: one after another they would not be recognised as
    /// a mass.
    pub(super) fn weigh(&mut self, pass: &Pass<'_>) {
        let is_called = |history: &NodeHistory, node: &PrunedNode| {
            history.gone.is_some() && node.provider_id().is_some()
        };
        let mut called = Called::new();
        for node in pass.nodes {
            if let Some(history) = self.histories.get(node.name())
                && is_called(history, node)
                && !is_wanted(node, pass.rules, pass.now)
            {
                called.insert(node.name().to_owned(), history.uid.clone());
            }
        }
        let is_ours = |node: &&Arc<PrunedNode>| {
            matches!(
                owner(node, pass.ownership),
                Owner::Recorded | Owner::Implied
            )
        };
        for node in self.contradicted(pass) {
            called.insert(node.name().to_owned(), node.uid().to_owned());
        }
        let owned = match called.len() {
            0 => 0,
            _ => pass.nodes.iter().filter(is_ours).count(),
        };
        let (histories, contradictions) = (&self.histories, &self.contradictions);
        let is_back = |name: &str, uid: &str| {
            let node = pass.node(name).filter(|node| node.uid() == uid);
            // Neither a mark, nor a deletion that waits for a finalizer, nor an exception says that its machine exists.
            node.is_some_and(|node| {
                let history = histories.get(name);
                let is_gone = history.is_some_and(|history| history.gone.is_some());
                let is_exception = node.is_ready() && contradictions.contains(name, uid);
                !is_gone && !is_exception && !node.is_being_deleted()
            })
        };
        let (hold, now) = (pass.rules.mass_hold, pass.now.moment);
        self.mass_outage.update(called, owned, is_back, hold, now);
    }

    /// The answer to `survey` was incomplete or missing. If it was asked apart from most nodes that are called gone,
    /// because of the nodes that it is about, the mass goes on: one node that can never be judged must not hold all.
    pub(super) fn interrupt_mass(&mut self, survey: &Survey, at: Moment) {
        let is_apart = |history: &NodeHistory| history.group != LookupGroup::Identified;
        let called = self.histories.values().filter(|one| one.gone.is_some());
        let (apart, others): (Vec<_>, Vec<_>) = called.partition(|one| is_apart(one));
        let mut about = survey.about.iter();
        let is_asked_apart =
            about.all(|node| self.histories.get(node.name()).is_some_and(is_apart));
        if !is_asked_apart || apart.len() >= others.len() {
            let about = survey.about.iter().map(|node| node.name());
            self.mass_outage.interrupt(about, at);
        }
    }
}
