//! The blocks of one range: which are free, and who holds the others. A block may have several holders, because nobody
//! keeps people from giving two nodes the same; it is free when the last of them has let go. Whoever holds nothing of a
//! block frees nothing of it, so that a second release takes nothing from whoever has the block by then (IPAM-027a).
//!
//! Arithmetic only: knows no nodes, and writes nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use thiserror::Error;

use super::bits::Bits;
use super::holder::Holder;

/// The most blocks of an IPv6 range, as a power of two (IPAM-041).
const MOST_OF_V6: u8 = 16;
/// The same for IPv4. Upstream has none; this many cost two megabytes, and are more than there can be nodes.
const MOST_OF_V4: u8 = 24;

/// Why there is no such set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CidrSetError {
    /// IPAM-008.
    #[error(
        "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family"
    )]
    MaskTooShort,
    /// There are no such masks.
    #[error("a mask of {0} is longer than an address")]
    MaskTooLong(u8),
    /// IPAM-041, and IPv4's larger bound.
    #[error(
        "New CIDR set failed; the node CIDR size is too big: there would be 2^{blocks} blocks, and at most 2^{most} can be counted"
    )]
    TooManyBlocks {
        /// How many there would be, as a power of two.
        blocks: u8,
        /// How many there may be.
        most: u8,
    },
}

/// Blocks in a row, by index, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first.
    pub first: usize,
    /// The last.
    pub last: usize,
}

/// What was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// The block.
    pub block: IpNet,
    /// How many used ones were skipped on the way to it (IPAM-040).
    pub tries: usize,
}

/// What has become of the blocks since the set was made; nothing is counted that changed nothing (IPAM-043).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Blocks that were free and are used.
    pub allocated: usize,
    /// Blocks that were used and are free.
    pub released: usize,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct CidrSet {
    cluster: IpNet,
    node_mask: u8,
    used: Bits,
    /// Who holds exactly this one.
    singles: BTreeMap<usize, Vec<Holder>>,
    /// Who holds several in a row: the ranges of Services, and hardly anybody else.
    spans: Vec<(Span, Holder)>,
    next: usize,
    tally: Tally,
}

impl CidrSet {
    /// The blocks of `cluster` with masks of this length, all free.
    ///
    /// # Errors
    /// See [`CidrSetError`].
    pub fn new(cluster: IpNet, node_mask: u8) -> Result<CidrSet, CidrSetError> {
        let cluster = cluster.trunc();
        let most = match cluster {
            IpNet::V4(_) => MOST_OF_V4,
            IpNet::V6(_) => MOST_OF_V6,
        };
        if node_mask > cluster.max_prefix_len() {
            return Err(CidrSetError::MaskTooLong(node_mask));
        }
        let Some(blocks) = node_mask.checked_sub(cluster.prefix_len()) else {
            return Err(CidrSetError::MaskTooShort);
        };
        if blocks > most {
            return Err(CidrSetError::TooManyBlocks { blocks, most });
        }
        Ok(CidrSet {
            cluster,
            node_mask,
            used: Bits::new(1 << blocks),
            singles: BTreeMap::new(),
            spans: Vec::new(),
            next: 0,
            tally: Tally::default(),
        })
    }

    /// The range that is divided.
    pub fn cluster(&self) -> IpNet {
        self.cluster
    }

    /// How many blocks there are.
    pub fn size(&self) -> usize {
        self.used.len()
    }

    /// How many of them are used.
    pub fn used(&self) -> usize {
        self.used.ones()
    }

    /// What has become of them so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The block of this index; beyond the last one there is none (IPAM-044).
    pub fn block(&self, index: usize) -> Option<IpNet> {
        if index >= self.size() {
            return None;
        }
        // Of a single block that is everything the index is 0, whatever it is shifted by.
        let offset = u128::try_from(index)
            .ok()?
            .checked_shl(self.shift())
            .unwrap_or_default();
        let address = number(self.cluster.network()).checked_add(offset)?;
        let address = match self.cluster {
            IpNet::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(address).ok()?)),
            IpNet::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(address)),
        };
        IpNet::new(address, self.node_mask).ok()
    }

    /// Which blocks `cidr` has a part in: of a wider range all that it covers, of a narrower one the block that it lies
    /// in. `None`: it lies outside (IPAM-043).
    pub fn span(&self, cidr: &IpNet) -> Option<Span> {
        let is_within = self.cluster.contains(&cidr.network());
        if !is_within && !cidr.contains(&self.cluster.network()) {
            return None;
        }
        let first = if is_within {
            self.index(cidr.network())?
        } else {
            0
        };
        let last = if self.cluster.contains(&cidr.broadcast()) {
            self.index(cidr.broadcast())?
        } else {
            self.size() - 1
        };
        Some(Span { first, last })
    }

    /// Hands the next free block to `holder`: the first one behind the last that was handed out, so that one that was
    /// freed is used again late (IPAM-040). `None`: there is none (IPAM-042).
    pub fn allocate(&mut self, holder: &Holder) -> Option<Allocated> {
        let from = self.next;
        let index = self
            .used
            .next_clear(from)
            .or_else(|| self.used.next_clear(0))?;
        let block = self.block(index)?;
        self.hold(
            Span {
                first: index,
                last: index,
            },
            holder,
        );
        self.next = (index + 1) % self.size();
        Some(Allocated {
            block,
            tries: (index + self.size() - from) % self.size(),
        })
    }

    /// Who else than `holder` has a part of `cidr`.
    pub fn other_holders(&self, cidr: &IpNet, holder: &Holder) -> Vec<&Holder> {
        let Some(span) = self.span(cidr) else {
            return Vec::new();
        };
        let singles = self.singles.range(span.first..=span.last);
        let singles = singles.flat_map(|(_, holders)| holders);
        let spans = self.spans.iter().filter(|(one, _)| one.meets(span));
        let all = singles.chain(spans.map(|(_, theirs)| theirs));
        all.filter(|theirs| *theirs != holder).collect()
    }

    /// `holder` has all of `cidr` that lies in here, whoever else has it. Doing it twice is doing it once.
    pub fn occupy(&mut self, cidr: &IpNet, holder: &Holder) {
        if let Some(span) = self.span(cidr) {
            self.hold(span, holder);
        }
    }

    fn hold(&mut self, span: Span, holder: &Holder) {
        if span.first == span.last {
            let holders = self.singles.entry(span.first).or_default();
            if !holders.contains(holder) {
                holders.push(holder.clone());
            }
        } else if !self
            .spans
            .iter()
            .any(|(one, theirs)| *one == span && theirs == holder)
        {
            self.spans.push((span, holder.clone()));
        }
        self.tally.allocated += self.used.fill(span.first, span.last, true);
    }

    /// `holder` does not have anything of `cidr` any more. What others hold of it stays (IPAM-027a).
    pub fn release(&mut self, cidr: &IpNet, holder: &Holder) {
        let Some(span) = self.span(cidr) else {
            return;
        };
        let mut held = false;
        let mut free = Vec::new();
        for (index, holders) in self.singles.range_mut(span.first..=span.last) {
            let before = holders.len();
            holders.retain(|theirs| theirs != holder);
            held |= holders.len() < before;
            if holders.is_empty() {
                free.push(*index);
            }
        }
        free.iter().for_each(|index| {
            self.singles.remove(index);
        });
        for (one, theirs) in std::mem::take(&mut self.spans) {
            if theirs != *holder || !one.meets(span) {
                self.spans.push((one, theirs));
                continue;
            }
            held = true;
            self.spans
                .extend(one.without(span).map(|rest| (rest, theirs.clone())));
        }
        if held {
            self.free_but_what_others_hold(span);
        }
    }

    fn free_but_what_others_hold(&mut self, span: Span) {
        let mut freed = self.used.fill(span.first, span.last, false);
        for (index, _) in self.singles.range(span.first..=span.last) {
            freed -= self.used.fill(*index, *index, true);
        }
        for (one, _) in self.spans.iter().filter(|(one, _)| one.meets(span)) {
            let (first, last) = (one.first.max(span.first), one.last.min(span.last));
            freed -= self.used.fill(first, last, true);
        }
        self.tally.released += freed;
    }

    fn index(&self, address: IpAddr) -> Option<usize> {
        let offset = number(address).checked_sub(number(self.cluster.network()))?;
        usize::try_from(offset.checked_shr(self.shift()).unwrap_or_default()).ok()
    }

    /// How many bits of an address lie behind the block's mask.
    fn shift(&self) -> u32 {
        u32::from(self.cluster.max_prefix_len() - self.node_mask)
    }
}

impl Span {
    fn meets(self, other: Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// What is left of it on both sides of `other`, which it meets.
    fn without(self, other: Span) -> impl Iterator<Item = Span> {
        let before = other
            .first
            .checked_sub(1)
            .filter(|last| self.first <= *last);
        let before = before.map(|last| Span { last, ..self });
        let first = other.last + 1;
        let after = (first <= self.last).then_some(Span { first, ..self });
        before.into_iter().chain(after)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}
