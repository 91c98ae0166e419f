//! Parses networks as clouds, nodes and operators write them; two spellings of one network are equal (EDGE-082).
//! Decides nothing.

use crate::node::object::PrunedNode;
use ipnet::{IpNet, Ipv4Net};

/// Parses `text` as a network, without host bits; an IPv4-mapped IPv6 network becomes IPv4. `None`: not a network.
pub fn read(text: &str) -> Option<IpNet> {
    let network: IpNet = text.parse().ok()?;
    let network = network.trunc();
    let IpNet::V6(six) = network else {
        return Some(network);
    };
    let four = six
        .addr()
        .to_ipv4_mapped()
        .zip(six.prefix_len().checked_sub(96));
    let four = four.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok());
    Some(four.map_or(network, IpNet::V4))
}

/// Whether one of `all` contains the whole of `network`. A wider network is not inside (ROUTE-024).
pub(super) fn is_inside(network: &IpNet, all: &[IpNet]) -> bool {
    all.iter().any(|one| one.contains(network))
}

/// Whether one of `all` has the same address family.
pub(super) fn has_family(network: &IpNet, all: &[IpNet]) -> bool {
    all.iter()
        .any(|one| one.addr().is_ipv4() == network.addr().is_ipv4())
}

/// Whether `network` is one of the node's pod networks.
pub(super) fn has(node: &PrunedNode, network: &IpNet) -> bool {
    let mut networks = node.pod_cidrs().iter().filter_map(|text| read(text));
    networks.any(|one| one == *network)
}
