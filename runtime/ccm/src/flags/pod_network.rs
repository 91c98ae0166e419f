//! The flags about the pods' network: which routes are made, and who gives nodes their pod CIDRs.

use std::time::Duration;

use ccm_core::ipam::{self, PodNetworks};
use ccm_core::settings::{IpamSettings, RouteSettings};
use clap::ArgMatches;
use ipnet::IpNet;

use super::{is_enabled, text};

/// What was told about the pods' network, checked as a whole.
pub(crate) struct PodNetworkFlags {
    /// `node-route-controller` is left on, and so is `--configure-cloud-routes`. Whether it runs is for the providers
    /// and for [`RouteSettings::cluster_cidrs`] to say.
    pub configures_routes: bool,
    /// Of the route controller.
    pub route: RouteSettings,
    /// Of the node IPAM controller, if it is left on and `--allocate-node-cidrs` is given.
    pub ipam: Option<IpamSettings>,
}

impl PodNetworkFlags {
    /// Reads them. What each may be depends on the others (ROUTE-002, IPAM-003 to 009).
    pub(super) fn read(
        matches: &ArgMatches,
        controllers: &[String],
        service_cidrs: &[IpNet],
        mistakes: &mut Vec<String>,
    ) -> PodNetworkFlags {
        let is_set = |name| matches.get_one(name) == Some(&true);
        let mask = |name| {
            let mask = matches.get_one::<u32>(name).copied().unwrap_or_default();
            // No prefix is that long either.
            i32::try_from(mask).unwrap_or(i32::MAX)
        };
        let configures_routes = is_set("configure-cloud-routes")
            && is_enabled(controllers, "node-route-controller", "route");
        let networks = PodNetworks::read(&ipam::PodNetworkFlags {
            cluster_cidr: &text(matches, "cluster-cidr").unwrap_or_default(),
            has_routes: configures_routes,
            allocate_node_cidrs: is_set("allocate-node-cidrs")
                && is_enabled(controllers, "node-ipam-controller", "nodeipam"),
            service_cidrs,
            node_cidr_mask_size: mask("node-cidr-mask-size"),
            node_cidr_mask_size_ipv4: mask("node-cidr-mask-size-ipv4"),
            node_cidr_mask_size_ipv6: mask("node-cidr-mask-size-ipv6"),
            cidr_allocator_type: &text(matches, "cidr-allocator-type").unwrap_or_default(),
        });
        let (cluster_cidrs, ipam) = match networks {
            Ok(networks) => (networks.cluster_cidrs, networks.ipam),
            Err(found) => {
                mistakes.extend(found);
                (Vec::new(), None)
            }
        };
        let resync = matches.get_one::<Duration>("route-reconciliation-period");
        let unset = RouteSettings::default();
        let route = RouteSettings {
            cluster_cidrs,
            resync: resync.copied().unwrap_or(unset.resync),
            ..unset
        };
        if route.resync.is_zero() {
            mistakes.push("--route-reconciliation-period must be longer than nothing".to_owned());
        }
        PodNetworkFlags {
            configures_routes,
            route,
            ipam,
        }
    }
}

#[cfg(test)]
mod tests;
