//! A small store that outlives a call: memory only, one per generation and configuration, at most 256 KiB of keys and
//! values together, emptied on swap. A provider must reach the same answers without it: the host starts a confirming
//! look-up with an empty one.

use std::time::Duration;

use crate::host;

/// What was kept under `key`; `None` when unknown or older than its time to live.
pub fn get(key: &str) -> Option<Vec<u8>> {
    host::state::get(key)
}

/// Keeps `value`, at most for one hour. False: there is no room and nothing was kept.
pub fn set(key: &str, value: &[u8], time_to_live: Duration) -> bool {
    let millis = u64::try_from(time_to_live.as_millis()).unwrap_or(u64::MAX);
    host::state::set(key, value, millis)
}

/// Forgets.
pub fn delete(key: &str) {
    host::state::delete(key);
}
