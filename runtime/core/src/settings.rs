//! What the controllers are told, as meaning: no strings to be parsed and no defaults. The binary reads
//! flags and files, checks them, and fills these in.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use ipnet::IpNet;

use crate::brake::Allowances;

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
    pub allowances: Allowances,
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

/// The node lifecycle controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleSettings {
    /// `--node-monitor-period` (upstream's default 5 s): from one pass over the NotReady nodes to the next
    /// (LIFE-002).
    pub monitor_period: Duration,
    /// What decisions are held against.
    pub rules: LifecycleRules,
}

/// What has to hold before a node is deleted; `node_lifecycle::deletion_guard` has the conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleRules {
    /// How long a node has to be NotReady. Half a minute is longer than a kubelet takes to restart, and leaves two
    /// thirds of the 90 s in which a node that is gone should go.
    pub not_ready: Duration,
    /// How old it has to be. Machines are in every cloud's inventory after five minutes.
    pub min_age: Duration,
    /// How long after the first answer a second one counts: longer than clouds and guests keep an answer by default.
    pub confirm_after: Duration,
    /// How long a mass of nodes has to be called gone before it is believed. A quarter of an hour is time for
    /// somebody to be woken and to look.
    pub mass_hold: Duration,
    /// `--delete-last-node`: whether the nodes of a scheme may go although none of them is left that could vouch for
    /// the answers.
    pub delete_last_node: bool,
}

impl Default for LifecycleRules {
    fn default() -> LifecycleRules {
        LifecycleRules {
            not_ready: Duration::from_secs(30),
            min_age: Duration::from_secs(300),
            confirm_after: Duration::from_secs(10),
            mass_hold: Duration::from_secs(900),
            delete_last_node: false,
        }
    }
}

impl Default for NodeRules {
    fn default() -> NodeRules {
        NodeRules {
            reconcile_labels: false,
            addresses: AddressRules::default(),
            confirm_after: Duration::from_secs(10),
            allowances: Allowances::default(),
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
