//! Time, coarsened to one millisecond by the host.

use std::time::Duration;

use crate::host;

/// Time since the Unix epoch.
pub fn now() -> Duration {
    Duration::from_millis(host::clock::now())
}

/// Time since an unspecified moment, never going back.
pub fn monotonic() -> Duration {
    Duration::from_millis(host::clock::monotonic())
}
