//! What outlives a reconciliation: which blocks are whose, which nodes wait for one, and what was said of whom. Hears of the
//! nodes, makes reconciliations and takes in what came of them; knows no clock, and performs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::allocator::{Allocator, InvalidPodCidr, pod_cidrs};
use super::cidr_set::CidrSetError;
use super::facts::{Facts, RetainedState};
use crate::effect::When;
use crate::node::object::name;
use crate::settings::IpamSettings;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Memory {
    allocator: Allocator,
    /// Of nodes about which something has failed.
    pasts: BTreeMap<String, RetainedState>,
    /// What was found in nodes and not told yet.
    invalid_pod_cidrs: BTreeMap<String, Vec<InvalidPodCidr>>,
    /// Who waits for a block to be freed.
    waiting: BTreeSet<String>,
    /// How many blocks had been freed when those who wait were told last.
    released: usize,
}

impl Memory {
    /// Nothing is known yet.
    ///
    /// # Errors
    /// See [`CidrSetError`].
    pub fn new(settings: &IpamSettings) -> Result<Memory, CidrSetError> {
        Ok(Memory {
            allocator: Allocator::new(settings)?,
            pasts: BTreeMap::new(),
            invalid_pod_cidrs: BTreeMap::new(),
            waiting: BTreeSet::new(),
            released: 0,
        })
    }

    /// Which blocks are whose.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// See [`Allocator::take_tries`].
    pub fn take_tries(&mut self) -> Vec<(usize, usize)> {
        self.allocator.take_tries()
    }

    /// The node is like this now, as the watch says, which may be late. Says whether that is news about which a
    /// reconciliation is due: a heartbeat is none.
    pub fn see(&mut self, node: &Node) -> bool {
        let name = name(node);
        let known = self.allocator.stored(node);
        if known.is_none() {
            // Also of another node of this name.
            self.lose(name);
        }
        self.observe(node);
        if !pod_cidrs(node).is_empty() {
            self.pasts.remove(name);
            self.waiting.remove(name);
            // Who has waited for it hears that it came.
            return known == Some(0) || self.invalid_pod_cidrs.contains_key(name);
        }
        known.is_none() && node.metadata.deletion_timestamp.is_none()
    }

    fn observe(&mut self, node: &Node) {
        let invalid_pod_cidrs = self.allocator.observe(node);
        if !invalid_pod_cidrs.is_empty() {
            self.invalid_pod_cidrs
                .insert(name(node).to_owned(), invalid_pod_cidrs);
        }
    }

    /// There is no node of this name any more (IPAM-024).
    pub fn forget(&mut self, name: &str) {
        self.lose(name);
        self.allocator.forget(name);
    }

    fn lose(&mut self, name: &str) {
        self.pasts.remove(name);
        self.invalid_pod_cidrs.remove(name);
        self.waiting.remove(name);
    }

    /// All nodes were listed, and these are their names. Says who of those that were known is gone.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        let names = self.allocator.names();
        let gone: Vec<String> = names
            .filter(|name| !is_there(name))
            .map(str::to_owned)
            .collect();
        gone.iter().for_each(|name| self.forget(name));
        gone
    }

    /// A reconciliation about this node; it is promised what it is to get. `None`: there is nothing to be done.
    pub fn begin(&mut self, node: Arc<Node>) -> Option<Facts> {
        let name = name(&node).to_owned();
        self.see(&node);
        let has_cidrs = self.allocator.stored(&node) != Some(0);
        let invalid_pod_cidrs = self.invalid_pod_cidrs.remove(&name).unwrap_or_default();
        if has_cidrs && invalid_pod_cidrs.is_empty() {
            return None;
        }
        let blocks = match has_cidrs || node.metadata.deletion_timestamp.is_some() {
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

    /// What a reconciliation has come to. Says whether something was found that is a matter for another one.
    pub fn conclude(&mut self, facts: &Facts, when: &When) -> bool {
        let node = &facts.node;
        let name = name(node);
        if self.allocator.stored(node).is_none() {
            // Deleted meanwhile, or made again.
            return false;
        }
        if facts.is_gone() {
            self.forget(name);
            return false;
        }
        if pod_cidrs(node).is_empty() {
            if facts.is_unanswered() {
                self.allocator.keep_unanswered(node);
            }
            // What a plan says of one node it does not say of the next: until the node is gone, or has its own.
            if !facts.is_withheld() {
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
            past.told = facts.told().or(past.told);
            if facts.blocks.is_err() {
                self.waiting.insert(name.to_owned());
            }
        }
        self.invalid_pod_cidrs.contains_key(name)
    }

    /// The reconciliation about this node ended in a way that nobody can say anything about.
    pub fn abandon(&mut self, node: &Node) {
        self.allocator.keep_unanswered(node);
        let past = self.pasts.entry(name(node).to_owned()).or_default();
        past.failures = past.failures.saturating_add(1);
    }

    /// How many reconciliations about this one have failed in a row.
    pub fn failures(&self, name: &str) -> u32 {
        self.pasts.get(name).map_or(0, |past| past.failures)
    }

    /// Of those who wait for a block as many as there were freed since this was asked last.
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
