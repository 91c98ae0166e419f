//! What the controllers are told, as meaning: no strings to be parsed and no defaults. The binary reads
//! flags and files, checks them, and fills these in.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use ipnet::IpNet;

use crate::brake::Allowances;
use crate::selector::Selector;

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
    /// `--node-change-confirm-after`: how long after the first answer a second one that is equal counts, where one answer
    /// is not enough. Ten
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
    /// `--node-deletion-not-ready`: how long a node has to be NotReady. Half a minute is longer than a kubelet takes to restart, and leaves two
    /// thirds of the 90 s in which a node that is gone should go.
    pub not_ready: Duration,
    /// `--node-deletion-min-age`: how old it has to be. Machines are in every cloud's inventory after five minutes.
    pub min_age: Duration,
    /// `--node-deletion-confirm-after`: how long after the first answer a second one counts: longer than clouds and guests
    /// keep an answer by default.
    pub confirm_after: Duration,
    /// `--node-deletion-mass-hold`: how long a mass of nodes has to be called gone before it is believed. A quarter of an hour is time for
    /// somebody to be woken and to look.
    pub mass_hold: Duration,
    /// `--node-deletion-wanted-selector`: the nodes of which it is always meant that they go with their machine.
    pub wanted: Option<Selector>,
    /// `--delete-last-node`: whether the nodes of a scheme may go although none of them is left that could vouch for
    /// the answers.
    pub delete_last_node: bool,
}

/// The service controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// `--concurrent-service-syncs`: how many Services are worked on at the same time. Waiting for what the cloud has
    /// begun does not count.
    pub concurrent_syncs: NonZeroUsize,
    /// How long the set of nodes has to be quiet before it is handed to load balancers: nodes come and go in groups,
    /// and each change costs a request for every load balancer.
    pub node_quiet: Duration,
    /// The longest that a change of the set of nodes waits for quiet.
    pub node_wait: Duration,
    /// How often each load balancer is looked at although nothing changed, give or take half of it. `None`: never.
    pub drift_check: Option<Duration>,
    /// What decisions are held against.
    pub rules: ServiceRules,
}

/// What decisions about Services are held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRules {
    /// `spec.loadBalancerClass` values that the provider serves.
    pub classes: BTreeSet<String>,
    /// Whether it serves Services without a class.
    pub is_default: bool,
    /// Whether a load balancer whose owner is not alive, or that has none, may be taken over.
    pub adoption: bool,
    /// Which addresses a Service may get.
    pub ingress: IngressRules,
    /// `--load-balancer-removal-confirm-after`: how long after the first wish a removal of most targets, or of all
    /// addresses, is believed.
    pub confirm_removal: Duration,
    /// How much of what is dangerous may be changed in a while.
    pub allowances: Allowances,
}

/// Which addresses a Service may get, besides what holds everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngressRules {
    /// Networks inside the cluster: the ranges of Services and pods. Traffic to an address in them would be taken
    /// from somebody else (CVE-2020-8554).
    pub refused: Vec<IpNet>,
    /// The API server's addresses.
    pub api_server: Vec<IpAddr>,
    /// `ingressCIDRs`: every address is in one of these. Empty: it may be anywhere.
    pub allowed: Vec<IpNet>,
}

/// The route controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSettings {
    /// `--cluster-cidr`: the pods' networks, one or one of each family. Empty: the controller does not run.
    pub cluster_cidrs: Vec<IpNet>,
    /// `--route-reconciliation-period`: how often all routes are listed although nothing changed.
    pub resync: Duration,
    /// How many routes are changed at the same time.
    pub concurrent_syncs: NonZeroUsize,
    /// How long the nodes have to be quiet before routes are listed for them: they come and go in groups, and each
    /// listing costs requests.
    pub node_quiet: Duration,
    /// The longest that a change of the nodes waits for quiet.
    pub node_wait: Duration,
}

/// The node IPAM controller's settings. One entry for each family that the cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpamSettings {
    /// In the order in which a node's CIDRs stand: one, or one of each family.
    pub families: Vec<PodNetwork>,
    /// The ranges of the Services: nothing of them is handed out.
    pub service_cidrs: Vec<IpNet>,
    /// How many nodes are written at the same time.
    pub concurrent_syncs: NonZeroUsize,
    /// How long after the first list of all nodes nothing is handed out yet: what the leader before has sent last is
    /// heard of by then.
    pub settle: Duration,
}

/// One range of pod addresses, and how much of it each node gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodNetwork {
    /// Of `--cluster-cidr`.
    pub cluster_cidr: IpNet,
    /// The prefix length of what a node gets.
    pub node_mask: u8,
}

impl Default for RouteSettings {
    fn default() -> RouteSettings {
        RouteSettings {
            cluster_cidrs: Vec::new(),
            resync: Duration::from_secs(300),
            concurrent_syncs: NonZeroUsize::MIN.saturating_add(15),
            node_quiet: Duration::from_secs(1),
            node_wait: Duration::from_secs(5),
        }
    }
}

impl Default for ServiceRules {
    fn default() -> ServiceRules {
        ServiceRules {
            classes: BTreeSet::new(),
            is_default: true,
            adoption: false,
            ingress: IngressRules::default(),
            confirm_removal: crate::brake::targets::CONFIRM_AFTER,
            allowances: Allowances::default(),
        }
    }
}

impl Default for ServiceSettings {
    fn default() -> ServiceSettings {
        ServiceSettings {
            concurrent_syncs: NonZeroUsize::MIN.saturating_add(15),
            node_quiet: Duration::from_secs(1),
            node_wait: Duration::from_secs(5),
            drift_check: Some(Duration::from_secs(3600)),
            rules: ServiceRules::default(),
        }
    }
}

impl Default for LifecycleRules {
    fn default() -> LifecycleRules {
        LifecycleRules {
            not_ready: Duration::from_secs(30),
            min_age: Duration::from_secs(300),
            confirm_after: Duration::from_secs(10),
            mass_hold: Duration::from_secs(900),
            wanted: None,
            delete_last_node: false,
        }
    }
}

impl Default for LifecycleSettings {
    fn default() -> LifecycleSettings {
        LifecycleSettings {
            monitor_period: Duration::from_secs(5),
            rules: LifecycleRules::default(),
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
