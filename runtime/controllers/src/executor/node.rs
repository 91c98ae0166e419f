//! The node controller's effects: look-ups, votes and writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ccm_core::cloud::{Lookup, ProviderError};
use ccm_core::node::object::{NodeRef, PrunedNode};
use ccm_core::node::ownership::Verdict;
use ccm_core::node::{CandidateVote, Looked, NodeEffect, NodeOutcome};
use ccm_core::reconciliation::effect::{Effect as _, Performed};

use super::node_requests::{patch_node, patch_node_status, read_node};
use super::{EffectExecutor, Perform, Priority, WritePermit};

impl Perform<NodeEffect> for EffectExecutor {
    async fn carry_out<'a>(
        &'a self,
        effect: &NodeEffect,
        priority: Priority,
        turn: &mut WritePermit<'a>,
    ) -> Performed<NodeOutcome> {
        const CONTROLLER: &str = NodeEffect::CONTROLLER;
        let (client, tenure) = (self.client(CONTROLLER), &*self.cluster.tenure);
        Performed::Ended(match effect {
            NodeEffect::Find(node) => NodeOutcome::Looked(self.find(priority, node).await),
            NodeEffect::CastVote(node, vote) => self.cast_vote(node, vote),
            NodeEffect::Read(node) => {
                NodeOutcome::Node(Box::pin(read_node(client, tenure, node)).await)
            }
            NodeEffect::TakeBudget(node, brake, rise) => {
                let taken = self.take(node, *brake, *rise);
                NodeOutcome::Budget(*brake, Box::pin(taken).await)
            }
            NodeEffect::PatchStatus(node, patch) => {
                let request = || patch_node_status(client, tenure, node, patch.to_json());
                NodeOutcome::Node(self.write(priority, turn, request).await)
            }
            NodeEffect::Patch(node, patch) => {
                let request = || patch_node(client, tenure, node, patch.to_json());
                NodeOutcome::Node(self.write(priority, turn, request).await)
            }
            NodeEffect::RecordEvent(node, event) => {
                let about = (node, event);
                NodeOutcome::Event(self.record_node_event(CONTROLLER, about, turn).await)
            }
        })
    }
}

impl EffectExecutor {
    async fn find(
        &self,
        priority: Priority,
        node: &Arc<PrunedNode>,
    ) -> Result<Looked, ProviderError> {
        let mut looked = self.class(priority).look_ups.find(node.clone()).await?;
        // The first nodes are asked about while the others are still being listed. Whether a machine or an address is
        // another node's is known only when every node is.
        if !self.cluster.knows_all_nodes() {
            // Boxed: otherwise it would enlarge the future of each reconciliation, of which thousands wait for a look-up.
            Box::pin(self.cluster.all_nodes_known()).await?;
        }
        if let Lookup::Found(instance) = &looked.lookup {
            looked.clashes = self.cluster.node_index().clashes(node.name(), instance);
        }
        Ok(looked)
    }

    /// Casts this provider's vote on a node that several providers may claim, and wakes the reconciliations that wait
    /// for it.
    fn cast_vote(&self, node: &NodeRef, vote: &CandidateVote) -> NodeOutcome {
        let now = self.cluster.clock.now();
        let mut claims = self.cluster.claims();
        let is_leaving = self.is_leaving.load(Ordering::Acquire);
        // The votes on a node that was deleted or recreated while the provider was asked are forgotten, after the node.
        if is_leaving || !self.cluster.node_index().contains(&node.name, &node.uid) {
            return NodeOutcome::VoteCast(Verdict::Open, false);
        }
        let claimed = claims.cast(
            &node.uid,
            self.name(),
            vote.vote.clone(),
            &vote.others,
            vote.is_quiet,
            now,
        );
        drop(claims);
        self.cluster.wake(&claimed.wakes, &node.name);
        NodeOutcome::VoteCast(claimed.verdict, claimed.report)
    }
}
