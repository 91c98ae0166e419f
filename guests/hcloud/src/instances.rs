//! Converts an API server to an instance of the contract. Pure: no request, no clock.

use std::net::{Ipv4Addr, Ipv6Addr};

use ccm_guest::{Address, Instance};

use crate::api::Server;
use crate::config::Settings;
use crate::provider_id;

#[cfg(test)]
mod tests;

/// The label that distinguishes Hetzner Cloud servers (`cloud`) from Robot servers (`robot`). Existing clusters select
/// by it: do not change.
pub const PROVIDED_BY: &str = "instance.hetzner.cloud/provided-by";

/// Converts `server`. `network` is the id of the network for InternalIPs.
pub fn instance(settings: &Settings, network: Option<u64>, server: &Server) -> Instance {
    let location = &server.location.name;
    Instance {
        provider_id: provider_id::of_server(server.id),
        instance_type: Some(server.server_type.name.clone()),
        zone: settings.zones.then(|| zone(location).to_owned()),
        region: Some(location.clone()),
        addresses: addresses(settings, network, server),
        labels: vec![(PROVIDED_BY.to_owned(), "cloud".to_owned())],
        shutdown: Some(server.status == "off"),
        extra: Vec::new(),
    }
}

/// The zone of a location. Hetzner has retired the data centers behind these names, but volumes and node affinities in
/// existing clusters use them: do not change. A newer location is its own zone.
fn zone(location: &str) -> &str {
    match location {
        "nbg1" => "nbg1-dc3",
        "hel1" => "hel1-dc2",
        "fsn1" => "fsn1-dc14",
        "ash" => "ash-dc1",
        "hil" => "hil-dc1",
        "sin" => "sin-dc1",
        newer => newer,
    }
}

/// Host name, public IPv4, public IPv6, private IP, in the order in which they are stored.
fn addresses(settings: &Settings, network: Option<u64>, server: &Server) -> Vec<Address> {
    let mut addresses = vec![Address::hostname(&server.name)];
    if let Some(ipv4) = public_ipv4(server).filter(|_| settings.family.has_ipv4()) {
        addresses.push(Address::external(ipv4));
    }
    if let Some(ipv6) = public_ipv6(server).filter(|_| settings.family.has_ipv6()) {
        addresses.push(Address::external(ipv6));
    }
    let attached = server
        .private_net
        .iter()
        .find(|net| Some(net.network) == network);
    if let Some(net) = attached {
        addresses.push(Address::internal(&net.ip));
    }
    addresses
}

fn public_ipv4(server: &Server) -> Option<Ipv4Addr> {
    let ipv4 = server.public_net.ipv4.as_ref()?;
    ipv4.ip
        .parse()
        .ok()
        .filter(|ip: &Ipv4Addr| !ip.is_unspecified())
}

fn public_ipv6(server: &Server) -> Option<Ipv6Addr> {
    first_of(&server.public_net.ipv6.as_ref()?.ip)
}

/// The address of a server, which has a whole network: by convention the first one in it.
pub fn first_of(network: &str) -> Option<Ipv6Addr> {
    let network = network.split('/').next().unwrap_or(network);
    let network: Ipv6Addr = network.parse().ok()?;
    (!network.is_unspecified()).then(|| Ipv6Addr::from_bits(network.to_bits() | 1))
}
