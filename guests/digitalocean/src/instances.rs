//! Converts a droplet to an instance of the contract. Pure: no request, no clock.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use ccm_guest::{Address, Instance};

use crate::api::Droplet;

#[cfg(test)]
mod tests;

/// The scheme of provider IDs.
pub const SCHEME: &str = "digitalocean";
/// The status of a droplet that is switched off.
const OFF: &str = "off";

/// Converts `droplet`, with the Go manager's order of addresses: host name, private IPv4, public IPv4, public IPv6.
/// There is no zone. The second value is false, and the addresses are missing, without a private IPv4 address: the Go
/// manager then does not initialise a node.
pub fn instance(droplet: &Droplet) -> (Instance, bool) {
    let private = ipv4(droplet, "private");
    let addresses = match private {
        None => Vec::new(),
        Some(private) => {
            let ipv4 = ipv4(droplet, "public").map(|ip| ip.to_string());
            let ipv6 = ipv6(droplet).map(|ip| ip.to_string());
            [
                Address::hostname(&droplet.name),
                Address::internal(private.to_string()),
            ]
            .into_iter()
            .chain(ipv4.into_iter().chain(ipv6).map(Address::external))
            .collect()
        }
    };
    let instance = Instance {
        instance_type: Some(droplet.size_slug.clone()),
        region: Some(droplet.region.slug.clone()),
        addresses,
        shutdown: Some(droplet.status == OFF),
        ..Instance::new(format!("{SCHEME}://{}", droplet.id))
    };
    (instance, private.is_some())
}

/// Possible names of a node on this droplet that has no provider ID: the droplet's name, or one of its addresses, as
/// the Go manager documents. People write capital letters at the vendor, and a node's name has none.
pub fn names(droplet: &Droplet) -> BTreeSet<String> {
    let addresses = [
        ipv4(droplet, "private").map(|ip| ip.to_string()),
        ipv4(droplet, "public").map(|ip| ip.to_string()),
        ipv6(droplet).map(|ip| ip.to_string()),
    ];
    let name = droplet.name.to_ascii_lowercase();
    addresses.into_iter().flatten().chain([name]).collect()
}

/// The first address of this kind.
fn ipv4(droplet: &Droplet, kind: &str) -> Option<Ipv4Addr> {
    let mut found = droplet.networks.v4.iter().filter(|one| one.kind == kind);
    found.find_map(|one| one.ip_address.parse().ok())
}

fn ipv6(droplet: &Droplet) -> Option<Ipv6Addr> {
    let mut found = droplet
        .networks
        .v6
        .iter()
        .filter(|one| one.kind == "public");
    found.find_map(|one| one.ip_address.parse().ok())
}
