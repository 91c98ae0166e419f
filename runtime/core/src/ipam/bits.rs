//! A bit set: a [`FixedBitSet`] that counts its set bits and finds the next clear bit from any position, which the
//! crate offers only from the start. Knows nothing of addresses.

use fixedbitset::FixedBitSet;

/// Bits per word.
const WIDTH: usize = usize::BITS as usize;

/// A fixed number of bits, initially clear.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    bits: FixedBitSet,
    ones: usize,
}

impl Bits {
    /// `len` clear bits.
    pub(super) fn new(len: usize) -> Bits {
        Bits {
            bits: FixedBitSet::with_capacity(len),
            ones: 0,
        }
    }

    /// Number of bits.
    pub(super) fn len(&self) -> usize {
        self.bits.len()
    }

    /// Number of set bits.
    pub(super) fn ones(&self) -> usize {
        self.ones
    }

    /// The first clear bit at or after `from`, without wrapping. Scans whole words: for 65 536 bits that takes less
    /// than a thousandth of the API write that follows.
    pub(super) fn next_clear(&self, from: usize) -> Option<usize> {
        let first = from / WIDTH;
        let words = self.bits.as_slice().iter().enumerate().skip(first);
        let mut clear = words.map(|(index, word)| match index == first {
            true => (index, !word & (usize::MAX << (from % WIDTH))),
            false => (index, !word),
        });
        let (index, clear) = clear.find(|(_, clear)| *clear != 0)?;
        let at = index * WIDTH + usize::try_from(clear.trailing_zeros()).ok()?;
        // The last word's bits beyond the end are clear, too.
        (at < self.len()).then_some(at)
    }

    /// Sets or clears the bits `begin` to `end`, both inclusive and within the set. Returns how many changed.
    pub(super) fn fill(&mut self, begin: usize, end: usize, is_set: bool) -> usize {
        let range = begin..end + 1;
        let before = self.bits.count_ones(range.clone());
        self.bits.set_range(range.clone(), is_set);
        if is_set {
            let changed = range.len() - before;
            self.ones += changed;
            changed
        } else {
            self.ones -= before;
            before
        }
    }
}
