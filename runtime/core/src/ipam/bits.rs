//! Many bits, of which the next clear one is found without looking at all of them: above the words stands a bit for each
//! word that says whether it is full, above those words again one, and so on to a single word. Holds bits; knows nothing
//! of addresses.

const WIDTH: usize = 64;

/// A fixed number of bits, all clear at first.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    len: usize,
    ones: usize,
    /// The bits themselves, then for each word of the level before whether it is full. What is beyond the end of a level
    /// is set, so that it is never found clear.
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// So many clear ones.
    pub(super) fn new(len: usize) -> Bits {
        let mut levels = Vec::new();
        let mut bits = len.max(1);
        loop {
            let words = bits.div_ceil(WIDTH);
            let mut level = vec![0; words];
            let used = bits % WIDTH;
            if used != 0
                && let Some(last) = level.last_mut()
            {
                *last = u64::MAX << used;
            }
            levels.push(level);
            if words == 1 {
                break;
            }
            bits = words;
        }
        Bits {
            len,
            ones: 0,
            levels,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many are set.
    pub(super) fn ones(&self) -> usize {
        self.ones
    }

    /// The first clear one from `from` on, without wrapping.
    pub(super) fn next_clear(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for level in 0..self.levels.len() {
            let word = self.levels.get(level)?.get(at / WIDTH)?;
            let clear = !word & (u64::MAX << (at % WIDTH));
            if clear != 0 {
                return self.descend(level, at / WIDTH * WIDTH + first(clear));
            }
            // Above, from the next word on.
            at = at / WIDTH + 1;
        }
        None
    }

    fn descend(&self, level: usize, at: usize) -> Option<usize> {
        let mut at = at;
        for below in (0..level).rev() {
            let word = self.levels.get(below)?.get(at)?;
            at = at * WIDTH + first(!word);
        }
        Some(at)
    }

    /// Sets or clears all from `begin` to `end`, both included and neither beyond the end. Says how many changed.
    pub(super) fn fill(&mut self, begin: usize, end: usize, is_set: bool) -> usize {
        let mut changed = 0;
        let (first_word, last_word) = (begin / WIDTH, end / WIDTH);
        for at in first_word..=last_word {
            let Some(word) = self.levels.first_mut().and_then(|words| words.get_mut(at)) else {
                break;
            };
            let mut mask = u64::MAX;
            if at == first_word {
                mask &= u64::MAX << (begin % WIDTH);
            }
            if at == last_word {
                mask &= u64::MAX >> (WIDTH - 1 - end % WIDTH);
            }
            let before = word.count_ones();
            if is_set {
                *word |= mask;
            } else {
                *word &= !mask;
            }
            changed += usize::try_from(word.count_ones().abs_diff(before)).unwrap_or_default();
        }
        if is_set {
            self.ones += changed;
        } else {
            self.ones -= changed;
        }
        self.sum_up(first_word, last_word);
        changed
    }

    /// Keeps true what stands above these words.
    fn sum_up(&mut self, begin: usize, end: usize) {
        let (mut begin, mut end) = (begin, end);
        for level in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(level);
            let (Some(below), Some(above)) = (below.last(), above.first_mut()) else {
                return;
            };
            for at in begin..=end {
                let is_full = below.get(at).is_none_or(|word| *word == u64::MAX);
                let Some(word) = above.get_mut(at / WIDTH) else {
                    continue;
                };
                let bit = 1 << (at % WIDTH);
                *word = if is_full { *word | bit } else { *word & !bit };
            }
            (begin, end) = (begin / WIDTH, end / WIDTH);
        }
    }
}

/// The position of the lowest bit that is set.
fn first(word: u64) -> usize {
    usize::try_from(word.trailing_zeros()).unwrap_or_default()
}
