//! Flags of the pod network: the routes that are created, and the component that assigns pod CIDRs to nodes.

use ccm_core::ipam::{self, PodNetworks};
use ccm_core::settings::{IpamSettings, RouteSettings};
use ccm_core::well_known::{IPAM_CONTROLLER, ROUTE_CONTROLLER};
use clap::ArgMatches;
use ipnet::IpNet;

use super::{period, text};

/// The pod network flags, validated together.
pub(crate) struct PodNetworkArguments {
    /// Whether `node-route-controller` and `--configure-cloud-routes` are on. Whether the controller runs also depends
    /// on the providers and on [`RouteSettings::cluster_cidrs`].
    pub configures_routes: bool,
    /// Settings of the route controller.
    pub route: RouteSettings,
    /// Settings of the node IPAM controller, if it is on and `--allocate-node-cidrs` is given.
    pub ipam: Option<IpamSettings>,
}

impl PodNetworkArguments {
    /// Reads the flags. Their valid values depend on each other (ROUTE-002, IPAM-003 to 009).
    pub(super) fn read(
        matches: &ArgMatches,
        controllers: &[&str],
        service_cidrs: &[IpNet],
        mistakes: &mut Vec<String>,
    ) -> PodNetworkArguments {
        let is_set = |name| matches.get_one(name) == Some(&true);
        let mask = |name| {
            let mask = matches.get_one::<u32>(name).copied().unwrap_or_default();
            // No prefix has this length either.
            i32::try_from(mask).unwrap_or(i32::MAX)
        };
        let configures_routes =
            is_set("configure-cloud-routes") && controllers.contains(&ROUTE_CONTROLLER);
        let networks = PodNetworks::read(&ipam::PodNetworkFlags {
            cluster_cidr: &text(matches, "cluster-cidr").unwrap_or_default(),
            has_routes: configures_routes,
            allocate_node_cidrs: is_set("allocate-node-cidrs")
                && controllers.contains(&IPAM_CONTROLLER),
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
        let route = RouteSettings {
            cluster_cidrs,
            resync: period(matches, "route-reconciliation-period", mistakes),
            ..RouteSettings::default()
        };
        PodNetworkArguments {
            configures_routes,
            route,
            ipam,
        }
    }
}

#[cfg(test)]
mod tests;
