//! Clocks of the host, with a resolution of one millisecond.

use std::time::Duration;

use crate::host;

/// Time since the Unix epoch.
pub fn now() -> Duration {
    Duration::from_millis(host::clock::now())
}

/// Monotonic time since an unspecified moment.
pub fn monotonic() -> Duration {
    Duration::from_millis(host::clock::monotonic())
}

/// A duration as the contract has it.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
