//! What the controllers are told, as meaning: no strings to be parsed and no defaults. The binary reads
//! flags and files, checks them, and fills these in.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use ipnet::IpNet;

use crate::brake::Allowance;

/// The node controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// What decisions about nodes are held against.
    pub rules: NodeRules,
}

/// What decisions about nodes are held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRules {
    /// `--reconcile-node-labels`: whether type, zone and region of known nodes follow the cloud after a resize
    /// or a move. Off, as upstream (NODE-055): volumes and workloads are placed by these labels.
    pub reconcile_labels: bool,
    /// Which addresses a node may get.
    pub addresses: AddressRules,
    /// How long after the first answer a second one that is equal counts, where one answer is not enough. Ten
    /// seconds is longer than clouds and guests keep an answer by default.
    pub confirm_after: Duration,
    /// How much of what is dangerous may be changed in a while.
    pub changes: Allowance,
}

/// Which addresses a node may get, besides what holds everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressRules {
    /// Networks that no machine is in: the range of the Services. An address in them would have the node's
    /// traffic sent to something else.
    pub refused: Vec<IpNet>,
    /// The API server's addresses, which only a node of the control plane may have.
    pub api_server: Vec<IpAddr>,
    /// `--node-internal-ip-cidrs`: an InternalIP is in one of these. Empty: it may be anywhere.
    pub internal: Vec<IpNet>,
}

impl Default for NodeRules {
    fn default() -> NodeRules {
        NodeRules {
            reconcile_labels: false,
            addresses: AddressRules::default(),
            confirm_after: Duration::from_secs(10),
            changes: Allowance::default(),
        }
    }
}

impl NodeSettings {
    /// How many known nodes are written at the same time.
    pub fn status_updates(&self) -> NonZeroUsize {
        self.concurrent_status_updates
            .unwrap_or(self.concurrent_syncs)
    }
}
