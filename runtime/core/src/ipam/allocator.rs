//! Which node holds which blocks: those that the API server has of it, and those that were handed out to it and that are
//! not there yet. A node gets a block of every range or none. What it got is its own until it is gone or it is certain
//! that nothing was written. Plain memory; writes nothing.

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use thiserror::Error;

use super::cidr_set::{CidrSet, CidrSetError};
use super::holder::Holder;
use crate::node::object::name;
use crate::settings::IpamSettings;

/// The longest text of somebody else's that is repeated to people.
const MOST_TEXT: usize = 64;

/// A range has no free block (IPAM-042). Of other ranges nothing was taken (EDGE-096).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range {0}"
)]
pub struct Exhausted(pub IpNet);

/// What is wrong with a pod CIDR that a node has. It is reported and never changed (IPAM-028).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPodCidr {
    /// It is none.
    #[error("{0:?} is no CIDR")]
    Unparsable(String),
    /// No range has all of it.
    #[error("{0} lies outside of --cluster-cidr")]
    Outside(IpNet),
    /// Others have a part of it.
    #[error("{0} overlaps what belongs to {1}")]
    Overlaps(IpNet, Holder),
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Allocator {
    families: Vec<CidrSet>,
    nodes: BTreeMap<String, Record>,
    tries: Vec<(usize, usize)>,
}

/// What is known of one node.
#[derive(Debug, Clone)]
struct Record {
    holder: Holder,
    /// Its pod CIDRs, as they are written.
    stored: Vec<String>,
    /// What of them could be read.
    occupied: Vec<IpNet>,
    /// What was handed out to it and is, as far as is known, not written.
    pending: Option<Vec<IpNet>>,
    /// A write of it got no answer: it may have been made, or may be made yet.
    is_unanswered: bool,
}

impl Allocator {
    /// Nothing is held but what the Services have.
    ///
    /// # Errors
    /// See [`CidrSetError`].
    pub fn new(settings: &IpamSettings) -> Result<Allocator, CidrSetError> {
        let mut families = Vec::new();
        for family in &settings.families {
            let mut set = CidrSet::new(family.cluster_cidr, family.node_mask)?;
            for services in &settings.service_cidrs {
                set.occupy(services, &Holder::Services);
            }
            families.push(set);
        }
        Ok(Allocator {
            families,
            nodes: BTreeMap::new(),
            tries: Vec::new(),
        })
    }

    /// The ranges, in the order in which a node's CIDRs stand.
    pub fn families(&self) -> &[CidrSet] {
        &self.families
    }

    /// Of each block that was handed out since this was asked last: the range, and how many used ones were skipped.
    pub fn take_tries(&mut self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.tries)
    }

    /// Whether this very node is known, and how many pod CIDRs it has.
    pub fn stored(&self, node: &Node) -> Option<usize> {
        let record = self.nodes.get(name(node))?;
        (record.holder == Holder::node(node)).then_some(record.stored.len())
    }

    /// This is how the node is, as the API server says. What it has is its own from now on, whoever was to get it, and
    /// never becomes less: an older answer that arrives later says nothing. Says what is wrong with what is new.
    pub fn observe(&mut self, node: &Node) -> Vec<InvalidPodCidr> {
        let holder = Holder::node(node);
        let name = name(node);
        if self
            .nodes
            .get(name)
            .is_some_and(|record| record.holder != holder)
        {
            self.forget(name);
        }
        let cidrs = pod_cidrs(node);
        let record = self.nodes.entry(name.to_owned()).or_insert_with(|| Record {
            holder: holder.clone(),
            stored: Vec::new(),
            occupied: Vec::new(),
            pending: None,
            is_unanswered: false,
        });
        if cidrs.is_empty() || record.stored == cidrs {
            return Vec::new();
        }
        let pending = record.pending.take().unwrap_or_default();
        let before = std::mem::take(&mut record.occupied);
        record.stored = cidrs.to_vec();
        record.is_unanswered = false;
        let mut invalid_pod_cidrs = Vec::new();
        let mut occupied = Vec::new();
        for text in cidrs {
            match text.parse::<IpNet>() {
                Ok(cidr) => {
                    invalid_pod_cidrs.extend(self.settle(cidr.trunc(), &holder));
                    occupied.push(cidr.trunc());
                }
                Err(_) => {
                    invalid_pod_cidrs.push(InvalidPodCidr::Unparsable(
                        text.chars().take(MOST_TEXT).collect(),
                    ));
                }
            }
        }
        // What the node was to get, or had, and does not have is free.
        for cidr in pending.iter().chain(&before) {
            if !occupied.contains(cidr) {
                self.release(cidr, &holder);
            }
        }
        // Two narrow ones may lie in one block.
        for cidr in &occupied {
            self.occupy(cidr, &holder);
        }
        if let Some(record) = self.nodes.get_mut(name) {
            record.occupied = occupied;
        }
        invalid_pod_cidrs
    }

    /// The node has this one. It is looked for in every range, not in the one whose turn it is: what is taken is taken.
    fn settle(&mut self, cidr: IpNet, holder: &Holder) -> Vec<InvalidPodCidr> {
        let mut invalid_pod_cidrs = Vec::new();
        let is_within = |set: &CidrSet| set.cluster().contains(&cidr);
        if !self.families.iter().any(is_within) {
            invalid_pod_cidrs.push(InvalidPodCidr::Outside(cidr));
        }
        let mut owner = None;
        for other in self.others(&cidr, holder) {
            // Whoever has it on the API server has it; a promise that is only remembered here is broken instead.
            if !self.break_promise(&cidr, &other) {
                owner.get_or_insert(other);
            }
        }
        invalid_pod_cidrs.extend(owner.map(|owner| InvalidPodCidr::Overlaps(cidr, owner)));
        self.occupy(&cidr, holder);
        invalid_pod_cidrs
    }

    fn others(&self, cidr: &IpNet, holder: &Holder) -> Vec<Holder> {
        let sets = self.families.iter();
        let others = sets.flat_map(|set| set.other_holders(cidr, holder));
        others.cloned().collect()
    }

    /// Takes from `other` what it was to get, if that is all that it has of `cidr`.
    fn break_promise(&mut self, cidr: &IpNet, other: &Holder) -> bool {
        let Holder::Node { name, .. } = other else {
            return false;
        };
        let Some(record) = self.nodes.get_mut(&**name) else {
            return false;
        };
        let meets = |theirs: &IpNet| theirs.contains(cidr) || cidr.contains(theirs);
        if record.occupied.iter().any(meets) {
            return false;
        }
        let promised = record.pending.take().unwrap_or_default();
        record.is_unanswered = false;
        for block in &promised {
            self.release(block, other);
        }
        true
    }

    /// A block of every range for this node, in order: the same as before as long as they were neither written nor given
    /// back.
    ///
    /// # Errors
    /// A range has none left.
    pub fn reserve(&mut self, node: &Node) -> Result<Vec<IpNet>, Exhausted> {
        if self.stored(node).is_none() {
            self.observe(node);
        }
        let promised = self
            .nodes
            .get(name(node))
            .and_then(|record| record.pending.clone());
        if let Some(blocks) = promised {
            return Ok(blocks);
        }
        // Before anything is taken, so that nothing has to be given back.
        let full = self.families.iter().find(|set| set.used() == set.size());
        if let Some(full) = full {
            return Err(Exhausted(full.cluster()));
        }
        let holder = Holder::node(node);
        let mut blocks = Vec::new();
        for (index, set) in self.families.iter_mut().enumerate() {
            if let Some(allocated) = set.allocate(&holder) {
                self.tries.push((index, allocated.tries));
                blocks.push(allocated.block);
            }
        }
        if let Some(record) = self.nodes.get_mut(name(node)) {
            record.pending = Some(blocks.clone());
        }
        Ok(blocks)
    }

    /// Nothing was written of what this node was to get. After a write without an answer nobody knows that, and the node
    /// keeps it.
    pub fn give_back(&mut self, node: &Node) {
        let holder = Holder::node(node);
        let Some(record) = self.nodes.get_mut(name(node)) else {
            return;
        };
        if record.holder != holder || record.is_unanswered {
            return;
        }
        for block in record.pending.take().unwrap_or_default() {
            self.release(&block, &holder);
        }
    }

    /// A write of what this node was to get had no answer.
    pub fn keep_unanswered(&mut self, node: &Node) {
        if let Some(record) = self.nodes.get_mut(name(node))
            && record.holder == Holder::node(node)
        {
            record.is_unanswered = record.pending.is_some();
        }
    }

    /// Whether a write of what this node was to get had no answer.
    pub fn is_unanswered(&self, node: &Node) -> bool {
        let record = self.nodes.get(name(node));
        record.is_some_and(|record| record.is_unanswered)
    }

    /// There is no node of this name: whatever it held is free.
    pub fn forget(&mut self, name: &str) {
        let Some(record) = self.nodes.remove(name) else {
            return;
        };
        let pending = record.pending.unwrap_or_default();
        for cidr in record.occupied.iter().chain(&pending) {
            self.release(cidr, &record.holder);
        }
    }

    /// The names of all nodes that are known.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    fn occupy(&mut self, cidr: &IpNet, holder: &Holder) {
        for set in &mut self.families {
            set.occupy(cidr, holder);
        }
    }

    fn release(&mut self, cidr: &IpNet, holder: &Holder) {
        for set in &mut self.families {
            set.release(cidr, holder);
        }
    }
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, set) in self.families.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(
                f,
                "{comma}{} of {} blocks of {}",
                set.used(),
                set.size(),
                set.cluster()
            )?;
        }
        Ok(())
    }
}

/// The pod CIDRs that the node has.
pub fn pod_cidrs(node: &Node) -> &[String] {
    let Some(spec) = &node.spec else {
        return &[];
    };
    match spec.pod_cidrs.as_deref() {
        Some(cidrs) if !cidrs.is_empty() => cidrs,
        // Of an API server that knows one family only.
        _ => match &spec.pod_cidr {
            Some(cidr) if !cidr.is_empty() => std::slice::from_ref(cidr),
            _ => &[],
        },
    }
}
