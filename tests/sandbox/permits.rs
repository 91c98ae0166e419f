//! Permits for calls that tests make themselves, by the clock of the host.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::permit::{Mode, Permit};
use ccm_fixtures::permits;

/// Lets reads through for a minute.
pub(crate) fn reads() -> Arc<Permit> {
    reads_for(Duration::from_secs(60))
}

/// Lets reads through for `time`.
pub(crate) fn reads_for(time: Duration) -> Arc<Permit> {
    Arc::new(Permit::read_only(ccm_host::egress::now().after(time)))
}

/// For `time` and so many changes.
pub(crate) fn permit(time: Duration, mode: Mode, changes: u32) -> Arc<Permit> {
    permits::permit(ccm_host::egress::now().after(time), mode, changes)
}
