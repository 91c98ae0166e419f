//! State that outlives a reconciliation: the holders of blocks, the nodes that wait for one, and the reported failures.
//! Observes nodes, creates reconciliations and stores their results; has no clock and performs no effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::allocator::{Allocator, InvalidPodCidr, pod_cidrs};
use super::cidr_set::CidrSetError;
use super::facts::{Facts, RetainedState};
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::When;
use crate::settings::IpamSettings;

/// The allocator and the retained state of all nodes.
#[derive(Debug, Clone)]
pub struct Memory {
    allocator: Allocator,
    /// State of nodes with failed reconciliations.
    pasts: BTreeMap<String, RetainedState>,
    /// Problems found on nodes and not reported yet.
    invalid_pod_cidrs: BTreeMap<String, Vec<InvalidPodCidr>>,
    /// Nodes that were known to have no pod CIDRs, and have some that this process did not write.
    foreign: Vec<String>,
    /// Nodes that wait for a free block.
    waiting: BTreeSet<String>,
    /// Number of blocks freed up to the last call of [`Memory::woken`].
    released: usize,
}

impl Memory {
    /// Empty state.
    ///
    /// # Errors
    /// See [`CidrSetError`].
    pub fn new(settings: &IpamSettings) -> Result<Memory, CidrSetError> {
        Ok(Memory {
            allocator: Allocator::new(settings)?,
            pasts: BTreeMap::new(),
            invalid_pod_cidrs: BTreeMap::new(),
            foreign: Vec::new(),
            waiting: BTreeSet::new(),
            released: 0,
        })
    }

    /// The allocator, which knows the holder of each block.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// The nodes whose pod CIDRs have appeared since the last call, and were not written by this process.
    pub fn take_foreign(&mut self) -> Vec<String> {
        std::mem::take(&mut self.foreign)
    }

    /// Whether every range has a free block.
    pub fn has_free_blocks(&self) -> bool {
        let mut families = self.allocator.families().iter();
        families.all(|set| set.used() < set.size())
    }

    /// Whether a reconciliation of this node could write blocks: those reserved for it, or free ones. Otherwise it only
    /// reports that a range has none.
    pub fn has_blocks_for(&self, node: &PrunedNode) -> bool {
        self.has_free_blocks() || self.allocator.has_reservation(node.name())
    }

    /// Number of used blocks skipped by each allocation: see [`Allocator::take_tries`].
    pub fn take_tries(&mut self) -> Vec<(usize, usize)> {
        self.allocator.take_tries()
    }

    /// Updates the state from a watch event, which may be late. Returns whether a reconciliation is due; heartbeats
    /// cause none.
    pub fn see(&mut self, node: &PrunedNode) -> bool {
        let name = node.name();
        let known = self.allocator.stored(node);
        if known.is_none() {
            // Also applies to another node with the same name.
            self.lose(name);
        }
        self.observe(node);
        if !pod_cidrs(node).is_empty() {
            self.pasts.remove(name);
            self.waiting.remove(name);
            // The node just got its CIDRs, or has unreported problems.
            return known == Some(0) || self.invalid_pod_cidrs.contains_key(name);
        }
        known.is_none() && !node.is_being_deleted()
    }

    /// Notices a node that had pod CIDRs and has none: an etcd restored from a backup has it from before. Called before
    /// [`Memory::see`], and for all nodes of a list before that for any: what one has lost may be another's. Returns
    /// whether a reconciliation is due; it reads the node first, because a list may be older than our own write.
    pub fn see_lost(&mut self, node: &PrunedNode, is_listed: bool) -> bool {
        if node.is_being_deleted() || !self.allocator.lose(node, is_listed) {
            return false;
        }
        self.invalid_pod_cidrs.remove(node.name());
        true
    }

    fn observe(&mut self, node: &PrunedNode) {
        let is_new = self.allocator.stored(node) == Some(0) && !pod_cidrs(node).is_empty();
        if is_new && !self.allocator.has_reserved(node) {
            self.foreign.push(node.name().to_owned());
        }
        let invalid_pod_cidrs = self.allocator.observe(node);
        if !invalid_pod_cidrs.is_empty() {
            self.invalid_pod_cidrs
                .insert(node.name().to_owned(), invalid_pod_cidrs);
        }
    }

    /// The node no longer exists (IPAM-024).
    pub fn forget(&mut self, name: &str) {
        self.lose(name);
        self.allocator.forget(name);
    }

    fn lose(&mut self, name: &str) {
        self.pasts.remove(name);
        self.invalid_pod_cidrs.remove(name);
        self.waiting.remove(name);
    }

    /// Removes all known nodes for which `is_there` is false after a full list. Returns their names.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        let names = self.allocator.names();
        let gone: Vec<String> = names
            .filter(|name| !is_there(name))
            .map(str::to_owned)
            .collect();
        gone.iter().for_each(|name| self.forget(name));
        gone
    }

    /// Starts a reconciliation of this node and reserves its blocks. `None`: nothing to do.
    pub fn begin(&mut self, node: Arc<PrunedNode>) -> Option<Facts> {
        let name = node.name().to_owned();
        self.see(&node);
        let has_cidrs = self.allocator.stored(&node) != Some(0);
        let invalid_pod_cidrs = self.invalid_pod_cidrs.remove(&name).unwrap_or_default();
        if has_cidrs && invalid_pod_cidrs.is_empty() {
            return None;
        }
        let blocks = match has_cidrs || node.is_being_deleted() {
            true => Ok(Vec::new()),
            false => self.allocator.reserve(&node),
        };
        let is_unanswered = self.allocator.is_unanswered(&node);
        let past = self.pasts.get(&name).cloned().unwrap_or_default();
        Some(Facts::new(
            node,
            blocks,
            invalid_pod_cidrs,
            past,
            is_unanswered,
        ))
    }

    /// Stores the result of a reconciliation. Returns whether new problems were found that need another one.
    pub fn conclude(&mut self, facts: &Facts, when: &When) -> bool {
        let node = &facts.node;
        let name = node.name();
        if self.allocator.stored(node).is_none() {
            // Deleted or recreated meanwhile.
            return false;
        }
        if facts.state.is_gone {
            self.forget(name);
            return false;
        }
        if pod_cidrs(node).is_empty() {
            if facts.state.is_unanswered {
                self.allocator.keep_unanswered(node);
            }
            // In plan mode the reservation stays until the node is gone or has pod CIDRs, so that no other node is
            // planned with the same blocks.
            if !facts.state.is_withheld {
                self.allocator.give_back(node);
            }
        } else {
            self.observe(node);
        }
        if matches!(when, When::AwaitChange) {
            self.pasts.remove(name);
            self.waiting.remove(name);
        } else {
            let past = self.pasts.entry(name.to_owned()).or_default();
            past.failures = past.failures.saturating_add(1);
            if let Some(reason) = &facts.state.reported {
                past.reported = Some(reason.clone());
            }
            if facts.blocks.is_err() {
                self.waiting.insert(name.to_owned());
            }
        }
        self.invalid_pod_cidrs.contains_key(name)
    }

    /// The reconciliation of this node ended without a known result.
    pub fn abandon(&mut self, node: &PrunedNode) {
        self.allocator.keep_unanswered(node);
        let past = self.pasts.entry(node.name().to_owned()).or_default();
        past.failures = past.failures.saturating_add(1);
    }

    /// Consecutive failed reconciliations of this node.
    pub fn failures(&self, name: &str) -> u32 {
        self.pasts.get(name).map_or(0, |past| past.failures)
    }

    /// Takes as many waiting nodes as blocks were freed since the last call.
    pub fn woken(&mut self) -> Vec<String> {
        let families = self.allocator.families().iter();
        let released = families.map(|set| set.tally().released).sum::<usize>();
        let freed = released.saturating_sub(self.released);
        self.released = released;
        let mut woken = Vec::new();
        while woken.len() < freed
            && let Some(name) = self.waiting.pop_first()
        {
            woken.push(name);
        }
        woken
    }
}
