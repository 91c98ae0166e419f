//! Permits for calls that tests make themselves, by the clock of the host.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::safety::permit::{Mode, Permit};
use ccm_fixtures::permits;

/// A permit for reads, valid for a minute.
pub(crate) fn reads() -> Arc<Permit> {
    reads_for(Duration::from_secs(60))
}

/// A permit for reads, valid for `time`.
pub(crate) fn reads_for(time: Duration) -> Arc<Permit> {
    Arc::new(Permit::read_only(ccm_host::egress::now().after(time)))
}

/// A permit for `changes` changes, valid for `time`.
pub(crate) fn permit(time: Duration, mode: Mode, changes: u32) -> Arc<Permit> {
    permits::permit(ccm_host::egress::now().after(time), mode, changes)
}
