//! One look-up of a pass: the nodes in question and the witnesses for the answer.

use std::fmt;
use std::sync::Arc;

use crate::cloud::instance::MOST_NODES;
use crate::cloud::provider_id::ProviderId;
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::node::ownership::{Owner, OwnershipContext, owner};

/// Maximum number of nodes in one look-up, including witnesses: half of what the contract allows.
const MOST: usize = MOST_NODES / 2;
/// Maximum number of nodes in question.
pub(super) const LARGEST: usize = MOST - WITNESSES;
/// Number of witnesses for an answer that may be followed by a deletion. One may be gone itself; three that are gone at
/// once are a mass.
pub(super) const WITNESSES: usize = 3;
/// Number of witnesses while no node in question is called gone. Nothing is deleted after the next answer, and each
/// witness costs most clouds a request for each look-up, as long as a node is NotReady. If neither is found, the row of
/// answers begins with the next one.
pub(super) const FIRST_WITNESSES: usize = 2;

/// Which nodes share a look-up: a node that cannot be answered must not spoil the answers for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LookupGroup {
    /// All nodes that the provider can identify.
    Identified,
    /// The nodes that it could not identify the last time.
    Unidentified,
    /// The node alone: the provider crashed when asked about it alone.
    Alone,
}

/// One look-up: nodes in question and witnesses.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// The NotReady nodes, by name.
    pub about: Vec<Arc<PrunedNode>>,
    /// Witnesses: nodes of the same scheme that should be found.
    pub witnesses: Vec<Arc<PrunedNode>>,
    /// Whether the provider must not use cached data.
    pub is_fresh: bool,
    /// When the look-up is sent: the answer is about a later moment.
    pub asked: Moment,
}

impl Survey {
    /// All nodes of the look-up, in the order of the answer.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<PrunedNode>> {
        self.about.iter().chain(&self.witnesses)
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |nodes: &[Arc<PrunedNode>]| {
            let names: Vec<&str> = nodes.iter().map(|node| node.name()).collect();
            names.join(" ")
        };
        let word = if self.is_fresh { "find fresh" } else { "find" };
        write!(f, "{word} {}", names(&self.about))?;
        if !self.witnesses.is_empty() {
            write!(f, " with {}", names(&self.witnesses))?;
        }
        Ok(())
    }
}

/// Scheme of a node's provider ID. One provider may manage several clouds with a credential each, and a node of one
/// proves nothing about another.
pub(super) fn scheme(node: &PrunedNode) -> Option<&str> {
    ProviderId::parse(node.provider_id()?)
        .ok()
        .map(|id| id.scheme)
}

/// Nodes that an answer about this cluster must find: the oldest Ready ones of the provider.
pub fn witnesses<'a>(
    nodes: impl Iterator<Item = &'a PrunedNode>,
    ownership: &OwnershipContext,
) -> Vec<&'a PrunedNode> {
    let is_witness = |node: &&PrunedNode| {
        node.is_ready()
            && scheme(node).is_some()
            && matches!(owner(node, ownership), Owner::Recorded | Owner::Implied)
    };
    let mut witnesses: Vec<&PrunedNode> = nodes.filter(is_witness).collect();
    witnesses.sort_unstable_by_key(|node| (node.created(), node.name()));
    witnesses.truncate(WITNESSES);
    witnesses
}
