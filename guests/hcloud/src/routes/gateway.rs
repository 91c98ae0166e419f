//! The address ranges of the private network, and the node address that serves as gateway.

use std::net::Ipv4Addr;
use std::time::Duration;

use ccm_guest::{AddressType, Error, Node, state};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::address_range;
use crate::api::networks::{self, Network};
use crate::config::RouteSettings;
use crate::provider_id::ProviderId;

/// How long the layout is cached. It changes rarely; if a request is refused because the cached layout is wrong, it is
/// read again.
const REMEMBERED: Duration = Duration::from_secs(600);
const KEY: &str = "routes/layout";

/// The gateway of the servers' public interfaces, in every project: no member of a network has it.
const PUBLIC_GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 31, 1, 1);

/// The address ranges of the network. As JSON it is cached in the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The network's name or id, as it is configured.
    network: String,
    /// The id of the network.
    pub id: u64,
    range: Ipv4Net,
    /// The vSwitch subnets, which contain the dedicated servers' addresses.
    vswitches: Vec<Ipv4Net>,
    /// Gateway addresses, which belong to no member.
    gateways: Vec<Ipv4Addr>,
}

impl Layout {
    /// Reads the current layout and the network.
    ///
    /// # Errors
    /// The reason why the layout is not known.
    pub fn ask(settings: &RouteSettings) -> Result<(Layout, Network), Error> {
        let network = networks::network(&settings.network)?;
        let layout = Layout::read(&settings.network, &network).ok_or_else(|| {
            Error::unavailable(format!("network {}: its ranges cannot be read", network.id))
        })?;
        state::set_json(KEY, &layout, REMEMBERED);
        Ok((layout, network))
    }

    fn read(name_or_id: &str, network: &Network) -> Option<Layout> {
        let range = address_range::read(&network.ip_range)?;
        let mut vswitches = Vec::new();
        let mut gateways = vec![
            Ipv4Addr::from_bits(range.network().to_bits() | 1),
            PUBLIC_GATEWAY,
        ];
        for subnet in &network.subnets {
            if subnet.kind == "vswitch" {
                vswitches.push(address_range::read(subnet.ip_range.as_deref()?)?);
            }
            gateways.push(subnet.gateway.parse().ok()?);
        }
        Some(Layout {
            network: name_or_id.to_owned(),
            id: network.id,
            range,
            vswitches,
            gateways,
        })
    }

    fn remembered(name_or_id: &str) -> Option<Layout> {
        let layout: Layout = state::get_json(KEY)?;
        (layout.network == name_or_id).then_some(layout)
    }

    /// The reason why an address cannot be a cloud server's or a load balancer's, by its range alone; `None` if it can
    /// be.
    pub fn place(&self, address: Ipv4Addr) -> Option<&'static str> {
        if self.is_behind_vswitch(address) {
            Some("behind a vSwitch")
        } else if self.gateways.contains(&address) {
            Some("the gateway of a subnet")
        } else if !self.range.contains(&address) {
            Some("outside of the network")
        } else {
            None
        }
    }

    fn is_behind_vswitch(&self, address: Ipv4Addr) -> bool {
        self.vswitches.iter().any(|range| range.contains(&address))
    }

    /// The gateway of routes to the node: the first of its InternalIPs that qualifies.
    ///
    /// # Errors
    /// [`Error::Elsewhere`] for a node that the vendor cannot route to: "an IP behind a vSwitch" is no gateway, and a
    /// dedicated server has no other address in the network. [`Error::Invalid`] for a node that is not in the network.
    pub fn gateway(&self, node: &Node) -> Result<Ipv4Addr, Error> {
        of_the_cloud(node)?;
        let inside: Vec<Ipv4Addr> = internal_ips(node)
            .filter(|address| self.range.contains(address))
            .collect();
        let gateway = inside
            .iter()
            .find(|address| self.place(**address).is_none());
        match gateway {
            Some(gateway) => Ok(*gateway),
            None if inside.iter().any(|one| self.is_behind_vswitch(*one)) => Err(Error::Elsewhere),
            None => Err(Error::invalid(format!(
                "node {} has no InternalIP in network {} ({}): its server has to be attached to it",
                node.name, self.id, self.range
            ))),
        }
    }
}

/// The network id and gateway for a node. Needs no request if the network's id is cached and there is only one
/// candidate address; the cloud then checks whether it is in the network.
///
/// # Errors
/// As [`Layout::gateway`]; otherwise the reason why the network is not known.
pub fn node_gateway(settings: &RouteSettings, node: &Node) -> Result<(u64, Ipv4Addr), Error> {
    of_the_cloud(node)?;
    let mut addresses = internal_ips(node);
    match (
        Layout::remembered(&settings.network),
        addresses.next(),
        addresses.next(),
    ) {
        (Some(layout), _, _) => Ok((layout.id, layout.gateway(node)?)),
        (None, Some(only), None) => Ok((networks::network_id(&settings.network)?, only)),
        (None, _, _) => {
            let (layout, _) = Layout::ask(settings)?;
            Ok((layout.id, layout.gateway(node)?))
        }
    }
}

/// Checks by the provider ID whether the vendor can route to the node.
fn of_the_cloud(node: &Node) -> Result<(), Error> {
    let Some(text) = node.provider_id.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    match ProviderId::parse(text) {
        ProviderId::Server(_) => Ok(()),
        ProviderId::Robot(_) | ProviderId::Foreign => Err(Error::Elsewhere),
        ProviderId::Unreadable => Err(Error::invalid(format!(
            "the provider ID {text:?} is not of the form hcloud://<number> or hrobot://<number>"
        ))),
    }
}

/// The node's IPv4 InternalIPs, in order.
pub fn internal_ips(node: &Node) -> impl Iterator<Item = Ipv4Addr> {
    let internal = node
        .addresses
        .iter()
        .filter(|address| address.address_type == AddressType::InternalIp);
    internal.filter_map(|address| address.address.parse().ok())
}

/// Whether `destination` is one of the node's pod CIDRs.
pub fn wants(node: &Node, destination: Ipv4Net) -> bool {
    let mut cidrs = node.pod_cidrs.iter();
    cidrs.any(|cidr| address_range::read(cidr) == Some(destination))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::fixtures::{network, node, vswitch};
    use super::*;

    fn layout() -> Layout {
        let network = serde_json::from_value(vswitch(network(&[]), "10.0.9.0/24")).unwrap();
        Layout::read("cluster", &network).unwrap()
    }

    #[test]
    fn the_gateway_is_the_first_internal_ip_that_the_vendor_routes_to() {
        let refused = "invalid";
        let table: &[(Option<&str>, &[&str], &str)] = &[
            (Some("hcloud://42"), &["10.0.0.7"], "10.0.0.7"),
            (None, &["10.0.0.7"], "10.0.0.7"),
            (Some(""), &["10.0.0.7"], "10.0.0.7"),
            (
                Some("hcloud://42"),
                &["192.168.1.7", "10.0.0.7", "10.0.0.8"],
                "10.0.0.7",
            ),
            (Some("hcloud://42"), &["fd00::7", "10.0.0.7"], "10.0.0.7"),
            // The first address of the network, and those of subnets, are the vendor's own.
            (Some("hcloud://42"), &["10.0.0.1", "10.0.0.7"], "10.0.0.7"),
            (Some("hcloud://42"), &["10.0.0.1"], refused),
            (Some("hcloud://42"), &["192.168.1.7"], refused),
            (Some("hcloud://42"), &["fd00::7"], refused),
            (Some("hcloud://42"), &[], refused),
            (Some("hcloud://x"), &["10.0.0.7"], refused),
            (Some("hrobot://321"), &["10.0.9.7"], "elsewhere"),
            (Some("hcloud://bm-321"), &["10.0.9.7"], "elsewhere"),
            (Some("hrobot://321"), &["10.0.0.7"], "elsewhere"),
            (Some("aws:///eu/i-1"), &["10.0.0.7"], "elsewhere"),
            (None, &["10.0.9.7"], "elsewhere"),
        ];
        for (provider_id, addresses, expected) in table {
            let mut node = node("node-1", 42, addresses, &[]);
            node.provider_id = provider_id.map(str::to_owned);
            let answer = match layout().gateway(&node) {
                Ok(gateway) => gateway.to_string(),
                Err(Error::Elsewhere) => "elsewhere".to_owned(),
                Err(Error::Invalid(_)) => refused.to_owned(),
                Err(error) => panic!("{error:?}"),
            };
            assert_eq!(answer, *expected, "{provider_id:?} {addresses:?}");
        }
    }

    #[test]
    fn only_internal_ips_count() {
        let mut node = node("node-1", 42, &["10.0.0.7"], &[]);
        node.addresses[0].address_type = AddressType::ExternalIp;
        assert!(matches!(layout().gateway(&node), Err(Error::Invalid(_))));
    }

    #[test]
    fn what_is_remembered_is_of_that_network_and_complete() {
        let host = ccm_guest::testing::TestHost::open(|_| unreachable!("nothing is asked"));
        // The form that other versions read and wrote.
        let kept = serde_json::json!({"network": "cluster", "id": 4711, "range": "10.0.0.0/16",
            "vswitches": ["10.0.9.0/24"], "gateways": ["10.0.0.1", "172.31.1.1", "10.0.0.1", "10.0.9.1"]});
        assert_eq!(serde_json::to_value(layout()).unwrap(), kept);
        state::set_json(KEY, &kept, REMEMBERED);
        assert_eq!(Layout::remembered("cluster"), Some(layout()));
        assert_eq!(Layout::remembered("other"), None);
        host.advance(REMEMBERED);
        assert_eq!(Layout::remembered("cluster"), None);
    }

    #[test]
    fn a_network_whose_ranges_cannot_be_read_is_none() {
        for (field, value) in [("ip_range", "fd00::/64"), ("ip_range", "")] {
            let mut network = network(&[]);
            network[field] = serde_json::json!(value);
            let network = serde_json::from_value(network).unwrap();
            assert_eq!(Layout::read("cluster", &network), None);
        }
        let mut network = vswitch(network(&[]), "10.0.9.0/24");
        network["subnets"][1]["ip_range"] = serde_json::Value::Null;
        let network = serde_json::from_value(network).unwrap();
        assert_eq!(Layout::read("cluster", &network), None);
    }
}
