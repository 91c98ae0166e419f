//! The droplets behind a load balancer: those of the nodes that it can reach. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ccm_guest::provider_id::number;
use ccm_guest::{AddressType, Node};

use super::wanted::{Network, Stack};
use crate::config::Type;
use crate::instances::SCHEME;

#[cfg(test)]
mod tests;

/// The nodes of a Service, sorted out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Targets {
    /// Droplets that receive traffic.
    pub droplets: BTreeSet<u64>,
    /// Nodes that the load balancer cannot reach: without a public IPv4 address.
    pub unreachable: Vec<String>,
    /// Nodes whose provider ID names no droplet.
    pub unknown: Vec<String>,
    /// Nodes among the droplets that have no public IPv6 address.
    pub without_ipv6: Vec<String>,
}

impl Targets {
    /// Sorts the nodes out for a load balancer of this type and network, as the Go manager does. One that is reached from
    /// outside and passes packets on needs nodes with public IPv4 addresses; one that ends connections also takes nodes
    /// that have a private one; one inside of the VPC takes all.
    pub fn read(kind: Type, network: Network, nodes: &[Node]) -> Targets {
        let mut targets = Targets::default();
        for node in nodes {
            let public = |is_ipv4| has_address(node, AddressType::ExternalIp, is_ipv4);
            let private = has_address(node, AddressType::InternalIp, true);
            let is_reached = match (network, kind) {
                (Network::Internal, _) => true,
                (Network::External, Type::RegionalNetwork) => public(true),
                (Network::External, Type::Regional) => public(true) || !public(false) && private,
            };
            let droplet = node.machine_id(SCHEME).own().and_then(number);
            let name = node.name.clone();
            match droplet {
                _ if !is_reached => targets.unreachable.push(name),
                Some(id) => {
                    targets.droplets.insert(id);
                    if !public(false) {
                        targets.without_ipv6.push(name);
                    }
                }
                None => targets.unknown.push(name),
            }
        }
        targets
    }

    /// The network stack of a new load balancer that no annotation chooses.
    pub fn stack(&self, kind: Type, network: Network) -> Stack {
        let is_dual = match (network, kind) {
            (Network::Internal, _) => false,
            (Network::External, Type::Regional) => true,
            (Network::External, Type::RegionalNetwork) => {
                !self.droplets.is_empty() && self.without_ipv6.is_empty()
            }
        };
        match is_dual {
            true => Stack::DualStack,
            false => Stack::Ipv4,
        }
    }
}

fn has_address(node: &Node, address_type: AddressType, is_ipv4: bool) -> bool {
    let mut addresses = node.addresses.iter();
    addresses.any(|one| {
        let ip: Option<IpAddr> = one.address.parse().ok();
        one.address_type == address_type && ip.is_some_and(|ip| ip.is_ipv4() == is_ipv4)
    })
}
