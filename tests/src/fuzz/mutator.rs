//! Derives inputs from other inputs: changes bits, bytes and ranges, inserts dictionary words, and combines two
//! entries. Independent of the format.

use crate::random::Random;

/// Bytes with a special meaning for parsers.
const BYTES: [u8; 16] = [
    0, 1, 0x0a, 0x0d, 0x20, b'"', b'%', b'.', b'/', b':', b'\\', 0x7f, 0x80, 0xc3, 0xfe, 0xff,
];
/// Maximum number of copies of a range.
const MOST_COPIES: usize = 32;

pub(super) struct Mutator {
    /// The corpus, followed by the added entries.
    entries: Vec<Vec<u8>>,
    given: usize,
    words: &'static [&'static str],
    longest: usize,
}

impl Mutator {
    /// `entries` must not be empty.
    pub(super) fn new(
        entries: Vec<Vec<u8>>,
        words: &'static [&'static str],
        longest: usize,
    ) -> Mutator {
        Mutator {
            given: entries.len(),
            entries,
            words,
            longest,
        }
    }

    /// Adds an entry to mutate.
    pub(super) fn grow(&mut self, entry: Vec<u8>) {
        self.entries.push(entry);
    }

    /// An entry, changed in one to eight places.
    pub(super) fn next(&mut self, random: &mut Random) -> Vec<u8> {
        let mut input = self.any(random).to_vec();
        for _ in 0..random.within(1, 8) {
            self.change(&mut input, random);
        }
        input.truncate(self.longest);
        input
    }

    /// Picks an entry: from the original corpus half of the time, however many were added.
    fn any(&self, random: &mut Random) -> &[u8] {
        let end = if random.per_cent(50) {
            self.given
        } else {
            self.entries.len()
        };
        let entries = self.entries.get(..end).unwrap_or_default();
        random.one_of(entries).map_or(&[], Vec::as_slice)
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let place = random.below(input.len() + 1);
        let (start, end) = range(input.len(), random);
        match random.below(9) {
            0 => {
                if let Some(byte) = input.get_mut(place) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let (Some(byte), Some(other)) = (input.get_mut(place), random.one_of(&BYTES)) {
                    *byte = *other;
                }
            }
            2 => {
                // Off-by-one numbers.
                if let Some(byte) = input.get_mut(place) {
                    *byte = byte.wrapping_add(if random.per_cent(50) { 1 } else { 0xff });
                }
            }
            3 => input.insert(place, random.one_of(&BYTES).copied().unwrap_or_default()),
            4 => drop(input.drain(start..end)),
            5 => {
                let copies = random.below(MOST_COPIES) + 1;
                let piece = input.get(start..end).unwrap_or_default().repeat(copies);
                input.splice(place..place, piece);
            }
            6 => {
                let word = random.one_of(self.words).copied().unwrap_or_default();
                // Inserted, or replacing a range.
                let end = if random.per_cent(50) { end } else { start };
                input.splice(start..end, word.bytes());
            }
            7 => {
                let other = self.any(random);
                let (from, to) = range(other.len(), random);
                let piece = other.get(from..to).unwrap_or_default().to_vec();
                input.splice(start..end, piece);
            }
            _ => {
                // The start of this entry and the end of another.
                let other = self.any(random);
                let rest = other.get(random.below(other.len() + 1)..);
                input.truncate(place);
                input.extend_from_slice(rest.unwrap_or_default());
            }
        }
        // Repeated copies must not exhaust the memory.
        input.truncate(self.longest);
    }
}

/// A random range within `length` bytes; short ranges are as likely as long ones.
fn range(length: usize, random: &mut Random) -> (usize, usize) {
    let start = random.below(length + 1);
    let most = (length - start).min(1 << random.below(12));
    (start, start + random.below(most + 1))
}
