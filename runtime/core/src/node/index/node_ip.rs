//! The IPs of one node, and the lists of them that are kept. Holds no node.

use std::net::IpAddr;
use std::sync::Arc;

use crate::cloud::instance::AddressType;
use crate::node::answer_check::MAX_ADDRESSES;

/// IPs of one node in their order, at most [`MAX_ADDRESSES`]. Those that it reports, that are answered, and that count
/// are nearly always equal, and then share one list.
pub(super) type NodeIps = Arc<[NodeIp]>;

/// An InternalIP or an ExternalIP, in canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeIp {
    pub(super) is_internal: bool,
    pub(super) ip: IpAddr,
}

impl NodeIp {
    /// The first [`MAX_ADDRESSES`] of these: one of the `known` lists if it is equal.
    pub(super) fn list<'a>(
        ips: impl Iterator<Item = NodeIp>,
        known: impl IntoIterator<Item = &'a NodeIps>,
    ) -> NodeIps {
        let ips: Vec<NodeIp> = ips.take(MAX_ADDRESSES).collect();
        let known = known.into_iter().find(|known| ***known == *ips);
        known.map_or_else(|| ips.into(), NodeIps::clone)
    }

    /// `None` if it is no IP, or of another type.
    pub(super) fn of(address_type: AddressType, ip: Option<IpAddr>) -> Option<NodeIp> {
        let is_internal = address_type == AddressType::InternalIp;
        let ip = ip.filter(|_| address_type.is_ip())?;
        Some(NodeIp { is_internal, ip })
    }

    /// Whether type and family are equal.
    pub(super) fn is_alike(self, other: NodeIp) -> bool {
        (self.is_internal, self.ip.is_ipv4()) == (other.is_internal, other.ip.is_ipv4())
    }
}
