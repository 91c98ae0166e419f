//! A small store that outlives a call: in memory only, one per generation and configuration, at most 1024 entries and
//! 256 KiB of keys and values together, emptied on swap. A provider must reach the same results without it: the store is
//! empty in the look-up that confirms an absence, in `get` of load balancers and in `list` of routes.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{clock, host};

/// The value stored under `key`; `None` when unknown or older than its time to live.
pub fn get(key: &str) -> Option<Vec<u8>> {
    host::state::get(key)
}

/// Stores `value` for at most one hour. Returns false if there was no space: then the former value of `key` stays.
pub fn set(key: &str, value: &[u8], time_to_live: Duration) -> bool {
    host::state::set(key, value, clock::millis(time_to_live))
}

/// The value that [`set_json`] stored under `key`; `None` also if it does not parse as `T`.
pub fn get_json<T: DeserializeOwned>(key: &str) -> Option<T> {
    serde_json::from_slice(&get(key)?).ok()
}

/// Stores `value` as JSON, like [`set`].
pub fn set_json<T: Serialize + ?Sized>(key: &str, value: &T, time_to_live: Duration) -> bool {
    serde_json::to_vec(value).is_ok_and(|bytes| set(key, &bytes, time_to_live))
}

/// Deletes the value stored under `key`.
pub fn delete(key: &str) {
    host::state::delete(key);
}
