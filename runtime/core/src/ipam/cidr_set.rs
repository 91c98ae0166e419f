//! The blocks of one range: which are free, and who holds the others. A block may have several holders, because people
//! can give two nodes the same one; it is free when the last holder releases it. Releasing a block without holding it
//! has no effect, so that a second release does not take it from its new holder (IPAM-027a).
//!
//! Arithmetic only: knows no nodes, and writes nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use thiserror::Error;

use super::bits::Bits;
use super::holder::Holder;

/// Maximum number of blocks of an IPv6 range, as a power of two (IPAM-041).
const MOST_OF_V6: u8 = 16;
/// The same for IPv4. Upstream has no limit; this many blocks cost two megabytes and exceed any number of nodes.
const MOST_OF_V4: u8 = 24;

/// Why a set cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CidrSetError {
    /// The node mask is shorter than that of the range (IPAM-008).
    #[error(
        "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family"
    )]
    MaskTooShort,
    /// The node mask is longer than an address.
    #[error("a mask of {0} is longer than an address")]
    MaskTooLong(u8),
    /// Too many blocks (IPAM-041, with the larger IPv4 limit).
    #[error(
        "New CIDR set failed; the node CIDR size is too big: there would be 2^{blocks} blocks, and at most 2^{most} can be counted"
    )]
    TooManyBlocks {
        /// The resulting number of blocks, as a power of two.
        blocks: u8,
        /// The maximum, as a power of two.
        most: u8,
    },
}

/// Consecutive blocks by index, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Index of the first block.
    pub first: usize,
    /// Index of the last block.
    pub last: usize,
}

/// The result of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// The block, which the requesting holder has now.
    pub block: IpNet,
    /// How many used blocks were skipped to find it (IPAM-040).
    pub tries: usize,
}

/// Counters since the set was created; operations without effect are not counted (IPAM-043).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockCounts {
    /// Blocks that became used.
    pub allocated: usize,
    /// Blocks that became free.
    pub released: usize,
}

/// The blocks of one range and their holders.
#[derive(Debug, Clone)]
pub struct CidrSet {
    cluster: IpNet,
    node_mask: u8,
    used: Bits,
    /// Holders of single blocks, by index.
    singles: BTreeMap<usize, Vec<Holder>>,
    /// Holders of several consecutive blocks: mostly Service ranges.
    spans: Vec<(Span, Holder)>,
    next: usize,
    tally: BlockCounts,
}

impl CidrSet {
    /// The blocks of `cluster` with prefix length `node_mask`, all free.
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
            tally: BlockCounts::default(),
        })
    }

    /// The range that is divided into blocks.
    pub fn cluster(&self) -> IpNet {
        self.cluster
    }

    /// Whether `cidr` is one block of this range.
    pub fn has_block(&self, cidr: &IpNet) -> bool {
        self.cluster.contains(cidr) && cidr.prefix_len() == self.node_mask
    }

    /// Number of blocks, free and used.
    pub fn size(&self) -> usize {
        self.used.len()
    }

    /// Number of used blocks.
    pub fn used(&self) -> usize {
        self.used.ones()
    }

    /// Counters of allocations and releases so far.
    pub fn tally(&self) -> BlockCounts {
        self.tally
    }

    /// The block with this index; `None` beyond the last one (IPAM-044).
    pub fn block(&self, index: usize) -> Option<IpNet> {
        if index >= self.size() {
            return None;
        }
        // If the range is a single block of the whole address space, the shift overflows, but the index is 0.
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

    /// The blocks that `cidr` overlaps: all covered blocks for a wider range, the enclosing block for a narrower one.
    /// `None`: it lies outside (IPAM-043).
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

    /// Allocates the next free block to `holder`, searching from the one after the last allocation, so that freed
    /// blocks are reused late (IPAM-040). `None`: no block is free (IPAM-042).
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

    /// Holders other than `holder` of blocks that overlap `cidr`.
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

    /// Adds `holder` to all blocks that `cidr` overlaps, also if they have other holders. Idempotent.
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

    /// Removes `holder` from all blocks that `cidr` overlaps. Other holders stay (IPAM-027a).
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

    /// Number of address bits after the block's mask.
    fn shift(&self) -> u32 {
        u32::from(self.cluster.max_prefix_len() - self.node_mask)
    }
}

impl Span {
    fn meets(self, other: Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The parts before and after `other`, which overlaps this span.
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
