//! Randomness.

use crate::host;

/// The most that one call of [`bytes`] may ask for; the host traps on more.
pub const MAX_BYTES: u32 = 4096;

/// `length` unpredictable bytes, at most [`MAX_BYTES`].
pub fn bytes(length: u32) -> Vec<u8> {
    host::random::bytes(length)
}
