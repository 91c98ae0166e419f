//! Random bytes from the host.

use crate::host;

/// Returns `length` unpredictable bytes, at most 4096.
///
/// # Panics
/// When `length` is greater: the host ends the call with a trap.
pub fn bytes(length: u32) -> Vec<u8> {
    host::random::bytes(length)
}
