//! Tracks which node holds which blocks: the stored ones, which the API server has on the Node, and the reserved ones,
//! which are not written yet. A node gets a block of every range or none. A reservation lasts until the node is gone or
//! it is certain that nothing was written. In memory only; writes nothing.

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;
use thiserror::Error;

use super::cidr_set::{CidrSet, CidrSetError};
use super::holder::Holder;
use crate::node::object::PrunedNode;
use crate::reconciliation::own_write::version;
use crate::settings::IpamSettings;

/// Longest quote of external text in messages, in characters.
const MOST_TEXT: usize = 64;

/// A range has no free block (IPAM-042). Nothing was taken from the other ranges (EDGE-096).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range {0}"
)]
pub struct Exhausted(pub IpNet);

/// A problem with a node's existing pod CIDR. Reported, never changed (IPAM-028).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPodCidr {
    /// Not a CIDR.
    #[error("{0:?} is no CIDR")]
    Unparsable(String),
    /// Not completely within one range.
    #[error("{0} lies outside of --cluster-cidr")]
    Outside(IpNet),
    /// Overlaps blocks of another holder.
    #[error("{0} overlaps what belongs to {1}")]
    Overlaps(IpNet, Holder),
}

/// The blocks of all ranges, and their holders.
#[derive(Debug, Clone)]
pub struct Allocator {
    families: Vec<CidrSet>,
    nodes: BTreeMap<String, Record>,
    tries: Vec<(usize, usize)>,
}

/// State of one node.
#[derive(Debug, Clone)]
struct Record {
    holder: Holder,
    /// Its pod CIDRs as stored on the Node.
    stored: Vec<String>,
    /// The resource version of the state that `stored` is from.
    version: Option<u64>,
    /// The stored pod CIDRs that could be parsed.
    occupied: Vec<IpNet>,
    /// Blocks reserved for it and, as far as is known, not written.
    pending: Option<Vec<IpNet>>,
    /// A write got no response: it may have been made, or may still be.
    is_unanswered: bool,
}

impl Allocator {
    /// An allocator in which only the Service ranges are occupied.
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

    /// The ranges, in the order of a node's CIDRs.
    pub fn families(&self) -> &[CidrSet] {
        &self.families
    }

    /// For each block allocated since the last call: the index of its range, and how many used blocks were skipped.
    pub fn take_tries(&mut self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.tries)
    }

    /// The number of stored pod CIDRs of exactly this node (by UID); `None` if it is not known.
    pub fn stored(&self, node: &PrunedNode) -> Option<usize> {
        let record = self.nodes.get(node.name())?;
        (record.holder == Holder::node(node)).then_some(record.stored.len())
    }

    /// Whether these pod CIDRs are the ones that are reserved for exactly this node.
    pub fn has_reserved(&self, node: &PrunedNode) -> bool {
        let record = self.nodes.get(node.name());
        let record = record.filter(|record| record.holder == Holder::node(node));
        let blocks = record.and_then(|record| record.pending.as_ref());
        let (blocks, has) = (blocks.into_iter().flatten(), pod_cidrs(node));
        blocks.map(ToString::to_string).eq(has.iter().cloned())
    }

    /// Whether blocks are reserved for the node of this name, which [`Allocator::reserve`] would return again.
    pub fn has_reservation(&self, name: &str) -> bool {
        let record = self.nodes.get(name);
        record.is_some_and(|record| record.pending.is_some())
    }

    /// Updates the state of a node from the API server. Its pod CIDRs belong to it from now on, even if they were
    /// reserved for another node, and never become fewer: an older state that arrives later is ignored. Returns the
    /// problems of new pod CIDRs.
    pub fn observe(&mut self, node: &PrunedNode) -> Vec<InvalidPodCidr> {
        let holder = Holder::node(node);
        let name = node.name();
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
            version: None,
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
        record.version = version(node.resource_version());
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
        // Blocks that were reserved or stored before and are not stored now become free.
        for cidr in pending.iter().chain(&before) {
            if !occupied.contains(cidr) {
                self.release(cidr, &holder);
            }
        }
        // Two narrow CIDRs may lie in one block, so occupy again after the release.
        for cidr in &occupied {
            self.occupy(cidr, &holder);
        }
        if let Some(record) = self.nodes.get_mut(name) {
            record.occupied = occupied;
        }
        invalid_pod_cidrs
    }

    /// Occupies a pod CIDR that a node has, in every range, not just in the one at its position: it is taken in any
    /// case.
    fn settle(&mut self, cidr: IpNet, holder: &Holder) -> Vec<InvalidPodCidr> {
        let mut invalid_pod_cidrs = Vec::new();
        let is_within = |set: &CidrSet| set.cluster().contains(&cidr);
        if !self.families.iter().any(is_within) {
            invalid_pod_cidrs.push(InvalidPodCidr::Outside(cidr));
        }
        let mut owner = None;
        for other in self.others(&cidr, holder) {
            // A stored pod CIDR takes precedence over a reservation, which only exists in this process and is
            // cancelled.
            if !self.cancel_reservation(&cidr, &other) {
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

    /// Cancels the reservation of `other`, if `other` has nothing stored that overlaps `cidr`.
    fn cancel_reservation(&mut self, cidr: &IpNet, other: &Holder) -> bool {
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
        let pending = record.pending.take().unwrap_or_default();
        record.is_unanswered = false;
        for block in &pending {
            self.release(block, other);
        }
        true
    }

    /// Reserves one block of every range for this node, in order. Returns the same blocks until they are written or
    /// given back.
    ///
    /// # Errors
    /// A range has no free block.
    pub fn reserve(&mut self, node: &PrunedNode) -> Result<Vec<IpNet>, Exhausted> {
        if self.stored(node).is_none() {
            self.observe(node);
        }
        let pending = self
            .nodes
            .get(node.name())
            .and_then(|record| record.pending.clone());
        if let Some(blocks) = pending {
            return Ok(blocks);
        }
        // Check all ranges before taking any block, so that nothing has to be returned.
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
        if let Some(record) = self.nodes.get_mut(node.name()) {
            record.pending = Some(blocks.clone());
        }
        Ok(blocks)
    }

    /// Takes note that exactly this node has lost its stored pod CIDRs, if it has. A state of the watch counts only if it
    /// is newer: it may be late. The same blocks become a reservation if they are valid and nobody else's. As after a
    /// write without a response, the node is read before anything is written.
    pub fn lose(&mut self, node: &PrunedNode, is_listed: bool) -> bool {
        let holder = Holder::node(node);
        let Some(record) = self.nodes.get_mut(node.name()) else {
            return false;
        };
        let is_newer =
            record.version.is_some() && version(node.resource_version()) > record.version;
        let has_lost = !record.stored.is_empty() && pod_cidrs(node).is_empty();
        if record.holder != holder || !has_lost || !(is_listed || is_newer) {
            return false;
        }
        record.stored.clear();
        let blocks = std::mem::take(&mut record.occupied);
        let are_valid = blocks.len() == self.families.len()
            && blocks.iter().zip(&self.families).all(|(block, set)| {
                set.has_block(block) && set.other_holders(block, &holder).is_empty()
            });
        record.pending = are_valid.then(|| blocks.clone());
        record.is_unanswered = true;
        if !are_valid {
            blocks.iter().for_each(|block| self.release(block, &holder));
        }
        true
    }

    /// Frees the reservation of this node because nothing was written. After a write without a response that is
    /// uncertain, and the node keeps it.
    pub fn give_back(&mut self, node: &PrunedNode) {
        let holder = Holder::node(node);
        let Some(record) = self.nodes.get_mut(node.name()) else {
            return;
        };
        if record.holder != holder || record.is_unanswered {
            return;
        }
        for block in record.pending.take().unwrap_or_default() {
            self.release(&block, &holder);
        }
    }

    /// Records that a write of this node's reservation got no response.
    pub fn keep_unanswered(&mut self, node: &PrunedNode) {
        if let Some(record) = self.nodes.get_mut(node.name())
            && record.holder == Holder::node(node)
        {
            record.is_unanswered = record.pending.is_some();
        }
    }

    /// Whether a write of this node's reservation got no response.
    pub fn is_unanswered(&self, node: &PrunedNode) -> bool {
        let record = self.nodes.get(node.name());
        record.is_some_and(|record| record.is_unanswered)
    }

    /// The node no longer exists: frees all its blocks.
    pub fn forget(&mut self, name: &str) {
        let Some(record) = self.nodes.remove(name) else {
            return;
        };
        let pending = record.pending.unwrap_or_default();
        for cidr in record.occupied.iter().chain(&pending) {
            self.release(cidr, &record.holder);
        }
    }

    /// The names of all known nodes.
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

/// The node's pod CIDRs.
pub fn pod_cidrs(node: &PrunedNode) -> &[String] {
    match (node.pod_cidrs(), node.only_pod_cidr()) {
        // The Node comes from an API server that supports only one family.
        ([], Some(cidr)) => std::slice::from_ref(cidr),
        (cidrs, _) => cidrs,
    }
}
