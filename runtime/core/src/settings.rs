//! The controllers' settings as typed values: no strings to be parsed and no defaults from flags. The binary reads
//! flags and files, validates them, and fills these in.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use ipnet::IpNet;

use crate::cloud::error::Owner;
use crate::selector::Selector;

/// The node controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// `--node-status-update-frequency` (upstream's default 5 min): from the end of one pass over all initialised nodes
    /// to the beginning of the next (NODE-050).
    pub status_update_frequency: Duration,
    /// `--concurrent-node-syncs`: how many nodes are initialised concurrently. Nodes that wait for a look-up do not
    /// count, so that look-ups can be batched.
    pub concurrent_syncs: NonZeroUsize,
    /// `--concurrent-node-status-updates`: how many initialised nodes are written concurrently. `None`, the flag's 0,
    /// means the value of `concurrent_syncs` (NODE-050).
    pub concurrent_status_updates: Option<NonZeroUsize>,
    /// Rules for decisions about nodes.
    pub rules: NodeRules,
}

/// Rules for decisions about nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRules {
    /// `--reconcile-node-labels`: whether type, zone and region of initialised nodes follow the cloud after a resize or
    /// a move. Off, as upstream (NODE-055): volumes and workloads are placed by these labels.
    pub reconcile_labels: bool,
    /// Which addresses a node may get.
    pub addresses: AddressRules,
    /// `--node-change-confirm-after`: minimum time between the first answer and an equal second one, where one answer
    /// is not enough. Ten seconds is longer than clouds and guests cache an answer by default.
    pub confirm_after: Duration,
}

/// Which addresses a node may get, in addition to the general checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressRules {
    /// Networks that contain no machines: the Service ranges. An address in them would send the node's traffic
    /// elsewhere.
    pub refused: Vec<IpNet>,
    /// The API server's addresses, which only a control-plane node may have.
    pub api_server: Vec<IpAddr>,
    /// `--node-internal-ip-cidrs`: every InternalIP has to be in one of these. Empty: no restriction.
    pub internal: Vec<IpNet>,
}

/// The node lifecycle controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleSettings {
    /// `--node-monitor-period` (upstream's default 5 s): interval between passes over the NotReady nodes (LIFE-002).
    pub monitor_period: Duration,
    /// Rules for decisions about NotReady nodes.
    pub rules: LifecycleRules,
}

/// Conditions for deleting a node; `node_lifecycle::deletion_guard` applies them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleRules {
    /// `--node-deletion-not-ready`: how long a node has to be NotReady. Half a minute is longer than a kubelet restart
    /// takes, and leaves two thirds of the 90 s within which a node without a machine should be deleted.
    pub not_ready: Duration,
    /// `--node-deletion-min-age`: minimum age of the node. Every cloud's inventory lists a machine after five minutes.
    pub min_age: Duration,
    /// `--node-deletion-confirm-after`: minimum time between the first and the second answer: longer than clouds and
    /// guests cache an answer by default.
    pub confirm_after: Duration,
    /// `--node-deletion-mass-hold`: how long a mass of nodes has to be reported gone before it is believed. A quarter
    /// of an hour is enough for an operator to be paged and to look.
    pub mass_hold: Duration,
    /// `--node-deletion-wanted-selector`: nodes that are always meant to be deleted with their machine.
    pub wanted: Option<Selector>,
    /// `--delete-last-node`: whether the nodes of a scheme may be deleted although no node is left that vouches for the
    /// answers.
    pub delete_last_node: bool,
}

/// The service controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// `--concurrent-service-syncs`: how many Services are processed concurrently. Services that wait for a pending
    /// cloud operation do not count.
    pub concurrent_syncs: NonZeroUsize,
    /// How long the set of nodes has to stay unchanged before it is sent to load balancers: nodes come and go in
    /// groups, and each change costs one request per load balancer.
    pub node_quiet: Duration,
    /// Maximum delay of a change of the set of nodes.
    pub node_wait: Duration,
    /// How often each load balancer is checked without a change, plus or minus half of it. `None`: never.
    pub drift_check: Option<Duration>,
}

/// Rules for decisions about one provider's Services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRules {
    /// `spec.loadBalancerClass` values that the provider serves.
    pub classes: BTreeSet<String>,
    /// Whether the provider serves Services without a class.
    pub is_default: bool,
    /// Which load balancers may be adopted.
    pub adoption: Adoption,
    /// Which addresses a Service may get.
    pub ingress: IngressRules,
    /// `--load-balancer-removal-confirm-after`: minimum time between the first and the confirming request to remove
    /// most targets or all addresses.
    pub confirm_removal: Duration,
}

/// Which existing load balancers may be adopted for a Service that requests their name. One whose owner is a Service of
/// this cluster is never adopted (F22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Adoption {
    /// No load balancer is adopted.
    #[default]
    Never,
    /// Those without a recorded owner. One that names an owner may be another cluster's.
    Unowned,
    /// Load balancers without a recorded owner, and those whose owner is no Service of this cluster.
    Orphaned,
}

impl Adoption {
    /// Whether it allows the adoption of a load balancer with this owner, who is no Service of this cluster.
    pub fn allows(self, owner: Option<&Owner>) -> bool {
        match self {
            Adoption::Never => false,
            Adoption::Unowned => owner.is_none(),
            Adoption::Orphaned => true,
        }
    }
}

/// Which addresses a Service may get, in addition to the general checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngressRules {
    /// Networks inside the cluster: Service and pod ranges. An address in them would divert other workloads' traffic
    /// (CVE-2020-8554).
    pub refused: Vec<IpNet>,
    /// The API server's addresses.
    pub api_server: Vec<IpAddr>,
    /// `ingressCIDRs`: every address has to be in one of these. Empty: no restriction.
    pub allowed: Vec<IpNet>,
}

/// The route controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSettings {
    /// `--cluster-cidr`: the pod networks, one or one per family. Empty: the controller does not run.
    pub cluster_cidrs: Vec<IpNet>,
    /// `--route-reconciliation-period`: how often all routes are listed without a change.
    pub resync: Duration,
    /// How many routes are changed concurrently.
    pub concurrent_syncs: NonZeroUsize,
    /// How long the nodes have to stay unchanged before routes are listed for them: nodes come and go in groups, and
    /// each listing costs requests.
    pub node_quiet: Duration,
    /// Maximum delay after a change of the nodes.
    pub node_wait: Duration,
}

/// The node IPAM controller's settings, with one entry for each IP family of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpamSettings {
    /// In the order of a node's CIDRs: one, or one per family.
    pub families: Vec<PodNetwork>,
    /// The Service ranges: no block in them is allocated.
    pub service_cidrs: Vec<IpNet>,
    /// How many nodes are written concurrently.
    pub concurrent_syncs: NonZeroUsize,
    /// How long nothing is allocated after the first list of all nodes, so that the last writes of the previous leader
    /// have been observed.
    pub settle: Duration,
    /// When another allocator counts as absent.
    pub other_allocator: OtherAllocatorRules,
}

/// How long a node has to be without pod CIDRs, although every range has a free block, until there is no other
/// allocator. kube-controller-manager serves a node within a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherAllocatorRules {
    /// While a process holds kube-controller-manager's Lease, or the Lease may not be read. A process that has just
    /// started needs longer than a second.
    pub settle: Duration,
    /// While nobody holds the Lease: a kube-controller-manager without leader election starts with its API server.
    pub settle_without_lease: Duration,
    /// After kube-controller-manager was seen to allocate without holding its Lease, or had no free block: the nodes'
    /// heartbeats, five minutes apart at most, make it try again.
    pub quiet_period: Duration,
}

/// One pod address range, and the size of each node's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodNetwork {
    /// The range, one of `--cluster-cidr`.
    pub cluster_cidr: IpNet,
    /// Prefix length of a node's block.
    pub node_mask: u8,
}

impl Default for OtherAllocatorRules {
    fn default() -> OtherAllocatorRules {
        OtherAllocatorRules {
            settle: Duration::from_secs(30),
            settle_without_lease: Duration::from_secs(10),
            quiet_period: Duration::from_secs(330),
        }
    }
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
            adoption: Adoption::Never,
            ingress: IngressRules::default(),
            confirm_removal: crate::safety::brake::target_removal::CONFIRM_AFTER,
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
        }
    }
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings {
            status_update_frequency: Duration::from_secs(300),
            // Upstream's default of one worker suits its client-side throttle. Without that throttle, eight concurrent
            // nodes saturate a small API server (`tests/bench`: 32 are slower); twice as many use the capacity of one
            // whose store waits for its disk.
            concurrent_syncs: NonZeroUsize::MIN.saturating_add(15),
            concurrent_status_updates: None,
            rules: NodeRules::default(),
        }
    }
}

impl NodeSettings {
    /// How many initialised nodes are written concurrently.
    pub fn status_updates(&self) -> NonZeroUsize {
        self.concurrent_status_updates
            .unwrap_or(self.concurrent_syncs)
    }
}
