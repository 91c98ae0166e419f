//! Parses all flags about pod networks together: returns settings, or every mistake at once. Upstream finds half of the
//! mistakes only after winning the leader election, and exits; here they are known at startup.

use std::num::NonZeroUsize;
use std::time::Duration;

use ipnet::IpNet;

use super::CidrSet;
use crate::settings::{IpamSettings, OtherAllocatorRules, PodNetwork};

/// Maximum number of blocks per node: one per family.
const MOST_FAMILIES: usize = 2;
/// Upstream's default masks (IPAM-002).
const MASK_OF_V4: i32 = 24;
const MASK_OF_V6: i32 = 64;
/// Upstream's number of workers (IPAM-023).
const WORKERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(29);
/// When the previous leader's Lease has run out, its last writes are on the API server, but the watch may not have
/// delivered them yet. Five seconds lie between its last possible request and the end of its Lease.
const SETTLE: Duration = Duration::from_secs(5);

/// The upstream allocator that is implemented here.
const RANGE_ALLOCATOR: &str = "RangeAllocator";
/// Allocators that take the blocks from GCE or check them against GCE (IPAM-009).
const OF_GCE: [&str; 3] = ["CloudAllocator", "IPAMFromCluster", "IPAMFromCloud"];

/// The flags' values as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodNetworkFlags<'a> {
    /// `--cluster-cidr`.
    pub cluster_cidr: &'a str,
    /// `--configure-cloud-routes`, and the route controller is enabled.
    pub has_routes: bool,
    /// `--allocate-node-cidrs`, and the node IPAM controller is enabled.
    pub allocate_node_cidrs: bool,
    /// `--service-cluster-ip-range`.
    pub service_cidrs: &'a [IpNet],
    /// `--node-cidr-mask-size`. For this and the next two, 0 means not given.
    pub node_cidr_mask_size: i32,
    /// `--node-cidr-mask-size-ipv4`.
    pub node_cidr_mask_size_ipv4: i32,
    /// `--node-cidr-mask-size-ipv6`.
    pub node_cidr_mask_size_ipv6: i32,
    /// `--cidr-allocator-type`.
    pub cidr_allocator_type: &'a str,
}

/// The settings that result from the flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodNetworks {
    /// The pod ranges: one, or one per family. Empty if not given, or if no controller needs them.
    pub cluster_cidrs: Vec<IpNet>,
    /// Settings of the node IPAM controller. `None`: it does not run (IPAM-004).
    pub ipam: Option<IpamSettings>,
}

impl PodNetworks {
    /// Converts the flags into settings.
    ///
    /// # Errors
    /// Every mistake, human-readable, one per entry.
    pub fn read(flags: &PodNetworkFlags<'_>) -> Result<PodNetworks, Vec<String>> {
        if !flags.has_routes && !flags.allocate_node_cidrs {
            return Ok(PodNetworks::default());
        }
        let mut mistakes = Vec::new();
        let cluster_cidrs = flags.cluster_cidrs(&mut mistakes);
        let ipam = flags
            .allocate_node_cidrs
            .then(|| flags.ipam(&cluster_cidrs, &mut mistakes));
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(PodNetworks {
            cluster_cidrs,
            ipam,
        })
    }
}

impl PodNetworkFlags<'_> {
    /// Parses `--cluster-cidr` (ROUTE-002, ROUTE-003, IPAM-005). Spaces around an element are accepted.
    fn cluster_cidrs(&self, mistakes: &mut Vec<String>) -> Vec<IpNet> {
        let text = self.cluster_cidr.trim();
        let parts = text.split(',').map(str::trim);
        let mut cidrs: Vec<IpNet> = Vec::new();
        for part in parts.filter(|_| !text.is_empty()) {
            match part.parse::<IpNet>() {
                Ok(cidr) => cidrs.push(cidr.trunc()),
                Err(_) => mistakes.push(format!("--cluster-cidr: invalid CIDR address: {part}")),
            }
        }
        let count = cidrs.len();
        if count > 1 && !is_dual_stack(&cidrs) {
            mistakes.push(format!(
                "len of ClusterCIDRs=={count} and they are not configured as dual stack (at least one from each IPFamily)"
            ));
        }
        if count > MOST_FAMILIES {
            mistakes.push(format!(
                "length of clusterCIDRs is:{count} more than max allowed of {MOST_FAMILIES}"
            ));
        }
        cidrs
    }

    fn ipam(&self, cluster_cidrs: &[IpNet], mistakes: &mut Vec<String>) -> IpamSettings {
        self.check_allocator(mistakes);
        self.check_services(cluster_cidrs, mistakes);
        if self.cluster_cidr.trim().is_empty() {
            let what = "Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set";
            mistakes.push(what.to_owned());
        }
        let before = mistakes.len();
        self.check_masks(cluster_cidrs, mistakes);
        // Only check the blocks if the mask flags are valid, to avoid follow-up errors.
        let is_fit = mistakes.len() == before;
        let mut families = Vec::new();
        for cluster_cidr in cluster_cidrs {
            let mask = self.mask(cluster_cidr);
            let Ok(node_mask) = u8::try_from(mask) else {
                mistakes.push(format!("the node CIDR mask {mask} is invalid"));
                continue;
            };
            if is_fit && let Err(error) = CidrSet::new(*cluster_cidr, node_mask) {
                mistakes.push(format!(
                    "{error} ({cluster_cidr} in blocks of /{node_mask})"
                ));
            }
            families.push(PodNetwork {
                cluster_cidr: *cluster_cidr,
                node_mask,
            });
        }
        IpamSettings {
            families,
            service_cidrs: self.service_cidrs.to_vec(),
            concurrent_syncs: WORKERS,
            settle: SETTLE,
            other_allocator: OtherAllocatorRules::default(),
        }
    }

    /// Checks `--cidr-allocator-type` (IPAM-009, IPAM-060).
    fn check_allocator(&self, mistakes: &mut Vec<String>) {
        let kind = self.cidr_allocator_type;
        if OF_GCE.contains(&kind) {
            mistakes.push(format!(
                "--cidr-allocator-type={kind} is for Google's cloud alone, whose machines have ranges of their own; use {RANGE_ALLOCATOR}"
            ));
        } else if kind != RANGE_ALLOCATOR {
            mistakes.push(format!("invalid CIDR allocator type: {kind}"));
        }
    }

    /// Checks `--service-cluster-ip-range` (IPAM-003, IPAM-006).
    fn check_services(&self, cluster_cidrs: &[IpNet], mistakes: &mut Vec<String>) {
        let services = self.service_cidrs;
        if services.len() > MOST_FAMILIES {
            let what = "--service-cluster-ip-range can not contain more than two entries";
            mistakes.push(what.to_owned());
        } else if services.len() == MOST_FAMILIES && !is_dual_stack(services) {
            let what =
                "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)";
            mistakes.push(what.to_owned());
        }
        for cluster_cidr in cluster_cidrs {
            if let Some(all) = services.iter().find(|one| one.contains(cluster_cidr)) {
                mistakes.push(format!(
                    "--service-cluster-ip-range {all} has all of --cluster-cidr {cluster_cidr}: nothing is left for nodes"
                ));
            }
        }
    }

    /// Checks which mask flags are given together (IPAM-007).
    fn check_masks(&self, cluster_cidrs: &[IpNet], mistakes: &mut Vec<String>) {
        let is_given = self.node_cidr_mask_size != 0;
        let (v4, v6) = (
            self.node_cidr_mask_size_ipv4 != 0,
            self.node_cidr_mask_size_ipv6 != 0,
        );
        if is_given && (v4 || v6) {
            let what = "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags";
            mistakes.push(what.to_owned());
        }
        match cluster_cidrs {
            [_, _, ..] if is_given => {
                let what = "usage of --node-cidr-mask-size is not allowed with dual-stack clusters";
                mistakes.push(what.to_owned());
            }
            [IpNet::V6(_)] if v4 => {
                let what = "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster";
                mistakes.push(what.to_owned());
            }
            [IpNet::V4(_)] if v6 => {
                let what = "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster";
                mistakes.push(what.to_owned());
            }
            _ => {}
        }
    }

    /// The mask of a node's block in this range.
    fn mask(&self, cluster_cidr: &IpNet) -> i32 {
        let (of_family, otherwise) = match cluster_cidr {
            IpNet::V4(_) => (self.node_cidr_mask_size_ipv4, MASK_OF_V4),
            IpNet::V6(_) => (self.node_cidr_mask_size_ipv6, MASK_OF_V6),
        };
        [self.node_cidr_mask_size, of_family]
            .into_iter()
            .find(|mask| *mask != 0)
            .unwrap_or(otherwise)
    }
}

/// Whether both families are present.
fn is_dual_stack(cidrs: &[IpNet]) -> bool {
    let is_v4 = |cidr: &IpNet| matches!(cidr, IpNet::V4(_));
    cidrs.iter().any(is_v4) && !cidrs.iter().all(is_v4)
}
