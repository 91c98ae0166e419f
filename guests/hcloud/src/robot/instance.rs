//! Converts a Robot server to an instance of the contract. Pure: no request, no clock.

use std::net::IpAddr;

use ccm_guest::{Address, AddressType, Event, Instance, Node};

use super::Server;
use crate::config::{AddressFamily, Settings};
use crate::instances::{PROVIDED_BY, first_of};
use crate::provider_id;

#[cfg(test)]
mod tests;

/// Maximum length of a label value.
const LABEL: usize = 63;

/// Converts `server`, and returns events for the operator. Excludes the power state, which needs another request.
/// `forward`: whether to keep the InternalIPs that the kubelet reports, because Robot knows none.
pub fn instance(
    settings: &Settings,
    forward: bool,
    node: &Node,
    server: &Server,
) -> (Instance, Vec<Event>) {
    let (addresses, events) = addresses(settings.family, forward, node, server);
    let zone = server.dc.to_ascii_lowercase();
    let region = zone.split('-').next().unwrap_or_default();
    let stored = node.provider_id.clone().filter(|text| !text.is_empty());
    let instance = Instance {
        // A provider ID never changes, not even from the older form to the newer one.
        provider_id: stored.unwrap_or_else(|| provider_id::of_robot(server.number)),
        instance_type: label(&server.product),
        zone: label(&zone),
        region: label(region),
        addresses,
        labels: vec![(PROVIDED_BY.to_owned(), "robot".to_owned())],
        shutdown: None,
        extra: Vec::new(),
    };
    (instance, events)
}

/// Converts vendor text to a label value: blanks become `-`, other invalid characters are dropped.
fn label(text: &str) -> Option<String> {
    let is_edge = |letter: char| !letter.is_ascii_alphanumeric();
    let kept: String = text
        .chars()
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .filter(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(*letter))
        .collect();
    let begin = kept.trim_start_matches(is_edge);
    let cut = begin.get(..LABEL).unwrap_or(begin);
    let value = cut.trim_end_matches(is_edge);
    (!value.is_empty()).then(|| value.to_owned())
}

/// Hostname, public IPv6, public IPv4, then the kubelet's InternalIPs: the order on existing nodes.
fn addresses(
    family: AddressFamily,
    forward: bool,
    node: &Node,
    server: &Server,
) -> (Vec<Address>, Vec<Event>) {
    let ipv6 = server.ipv6_net.as_deref().and_then(first_of);
    let ipv4 = server.ipv4.as_deref().and_then(|text| text.parse().ok());
    let external: Vec<IpAddr> = [
        ipv6.filter(|_| family.has_ipv6()).map(IpAddr::V6),
        ipv4.filter(|_| family.has_ipv4()).map(IpAddr::V4),
    ]
    .into_iter()
    .flatten()
    .collect();

    let mut addresses = vec![Address::hostname(&server.name)];
    addresses.extend(external.iter().map(Address::external));
    let mut events = Vec::new();
    let internal = node
        .addresses
        .iter()
        .filter(|address| forward && address.address_type == AddressType::InternalIp);
    for known in internal {
        let Ok(ip) = known.address.parse::<IpAddr>() else {
            continue;
        };
        match misconfigured(family, &external, ip) {
            None => addresses.push(Address::internal(&known.address)),
            Some(why) => events.push(Event::warning(
                "MisconfiguredInternalIP",
                format!("the kubelet's InternalIP {ip} is left out: {why}"),
            )),
        }
    }
    (addresses, events)
}

/// The reason to reject the kubelet's InternalIP; `None` if it is valid.
fn misconfigured(family: AddressFamily, external: &[IpAddr], ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(_) if !family.has_ipv4() => {
            Some("it is IPv4, and HCLOUD_INSTANCES_ADDRESS_FAMILY is ipv6")
        }
        IpAddr::V6(_) if !family.has_ipv6() => {
            Some("it is IPv6, and HCLOUD_INSTANCES_ADDRESS_FAMILY is ipv4")
        }
        _ if external.contains(&ip) => Some("it is an ExternalIP of the server already"),
        _ => None,
    }
}
