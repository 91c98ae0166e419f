//! Many bits: a [`FixedBitSet`] that knows how many are set, and finds the next clear one behind a place, which the crate
//! has only from the beginning on. Holds bits; knows nothing of addresses.

use fixedbitset::FixedBitSet;

/// Bits of one word.
const WIDTH: usize = usize::BITS as usize;

/// A fixed number of bits, all clear at first.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    bits: FixedBitSet,
    ones: usize,
}

impl Bits {
    /// So many clear ones.
    pub(super) fn new(len: usize) -> Bits {
        Bits {
            bits: FixedBitSet::with_capacity(len),
            ones: 0,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.bits.len()
    }

    /// How many are set.
    pub(super) fn ones(&self) -> usize {
        self.ones
    }

    /// The first clear one from `from` on, without wrapping. Looks at a word at a time: of 65 536 bits that takes less than
    /// a thousandth of the write that follows.
    pub(super) fn next_clear(&self, from: usize) -> Option<usize> {
        let first = from / WIDTH;
        let words = self.bits.as_slice().iter().enumerate().skip(first);
        let mut clear = words.map(|(index, word)| match index == first {
            true => (index, !word & (usize::MAX << (from % WIDTH))),
            false => (index, !word),
        });
        let (index, clear) = clear.find(|(_, clear)| *clear != 0)?;
        let at = index * WIDTH + usize::try_from(clear.trailing_zeros()).ok()?;
        // What is behind the end, in the last word, is clear, too.
        (at < self.len()).then_some(at)
    }

    /// Sets or clears all from `begin` to `end`, both included and neither beyond the end. Says how many changed.
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
