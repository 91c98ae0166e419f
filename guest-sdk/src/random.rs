//! Random bytes from the host.

use crate::host;

/// Maximum `length` of one [`bytes`] call; the host traps on more.
pub const MAX_BYTES: u32 = 4096;

/// Returns `length` unpredictable bytes, at most [`MAX_BYTES`].
pub fn bytes(length: u32) -> Vec<u8> {
    host::random::bytes(length)
}
