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

/// The nodes of a Service, by how the load balancer can use them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Targets {
    /// Droplets that receive traffic.
    pub droplets: BTreeSet<u64>,
    /// Nodes that the load balancer cannot reach: they have no public IPv4 address.
    pub unreachable: Vec<String>,
    /// Nodes whose provider ID names no droplet.
    pub unknown: Vec<String>,
    /// Nodes of these droplets that have no public IPv6 address.
    pub without_ipv6: Vec<String>,
}

impl Targets {
    /// Sorts the nodes for a load balancer of this type and network, as the Go manager does. An external one that
    /// forwards packets needs nodes with public IPv4 addresses; one that terminates connections also takes nodes with a
    /// private address; an internal one takes all.
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

    /// The network stack of a new load balancer without an annotation for it.
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
