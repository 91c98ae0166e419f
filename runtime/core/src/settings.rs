//! What the controllers are told, as meaning: no strings to be parsed and no defaults. The binary reads
//! flags and files, checks them, and fills these in.

use std::num::NonZeroUsize;
use std::time::Duration;

/// The node controller's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSettings {
    /// `--node-status-update-frequency` (upstream's default 5 min): from the end of one pass over all
    /// initialised nodes to the beginning of the next (NODE-050).
    pub status_update_frequency: Duration,
    /// `--concurrent-node-syncs`: how many nodes are initialised at the same time. Waiting for a
    /// look-up does not count, so that look-ups can be asked in batches.
    pub concurrent_syncs: NonZeroUsize,
    /// `--concurrent-node-status-updates`: how many known nodes are written at the same time. `None`,
    /// the flag's 0, means the value of `concurrent_syncs` (NODE-050).
    pub concurrent_status_updates: Option<NonZeroUsize>,
}

impl NodeSettings {
    /// How many known nodes are written at the same time.
    pub fn status_updates(&self) -> NonZeroUsize {
        self.concurrent_status_updates
            .unwrap_or(self.concurrent_syncs)
    }
}
