//! The vendor's documented rules for subnets and routes of a network.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::Deserialize;

use super::api::Refusal;
use super::locations::Location;
use super::objects::{Network, Route, Subnet, first_address};

/// The vendor's limits for one network.
const MAX_ROUTES: usize = 100;
const MAX_SUBNETS: usize = 50;

/// The gateway of every server's public interface, which no route may cover.
const PUBLIC_GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 31, 1, 1);

/// A subnet in a request. Ranges and addresses are strings here: the vendor answers invalid ones with `invalid_input`,
/// not as malformed JSON.
#[derive(Deserialize)]
pub(super) struct RequestedSubnet {
    pub(super) ip_range: Option<String>,
    pub(super) network_zone: String,
    pub(super) r#type: String,
    pub(super) vswitch_id: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct RequestedRoute {
    pub(super) destination: String,
    pub(super) gateway: String,
}

pub(super) fn read_range(field: &str, text: &str) -> Result<Ipv4Net, Refusal> {
    let range: Ipv4Net = text
        .parse()
        .map_err(|_| Refusal::invalid(field, "is not an IPv4 network"))?;
    Ok(range.trunc())
}

/// Whether the whole range is private (RFC 1918).
pub(super) fn is_private(range: Ipv4Net) -> bool {
    range.network().is_private() && range.broadcast().is_private()
}

pub(super) fn read_route(requested: &RequestedRoute) -> Result<Route, Refusal> {
    let destination = read_range("destination", &requested.destination)?;
    let gateway = requested
        .gateway
        .parse()
        .map_err(|_| Refusal::invalid("gateway", "is not an IPv4 address"))?;
    Ok(Route {
        destination,
        gateway,
    })
}

pub(super) fn allowed_route(
    network: &Network,
    requested: &RequestedRoute,
) -> Result<Route, Refusal> {
    let route = read_route(requested)?;
    let to = route.destination;
    let everything = Ipv4Net::default();
    let overlaps = |range: Ipv4Net| range.contains(&to) || to.contains(&range);
    // The vendor's message as seen in users' logs; it names no field.
    let refuse = |message| Err(Refusal::unprocessable("invalid_input", message));
    let overlap = "network route destination overlaps with another subnetwork or network route";
    if to != everything && !is_private(to) {
        return Err(Refusal::invalid(
            "destination",
            "is not a private IPv4 range",
        ));
    }
    // The default route overlaps with everything but is allowed.
    let subnet = network
        .subnets
        .iter()
        .any(|subnet| overlaps(subnet.ip_range));
    if to != everything && (subnet || to.contains(&PUBLIC_GATEWAY)) {
        return refuse(overlap);
    }
    let known = network.routes.iter().map(|known| known.destination);
    let clashes = |known: Ipv4Net| {
        known == to || (known != everything && to != everything && overlaps(known))
    };
    if known.into_iter().any(clashes) {
        return refuse(overlap);
    }
    let reserved = [first_address(network.ip_range), PUBLIC_GATEWAY];
    let is_behind_vswitch = |subnet: &Subnet| subnet.holds_behind_vswitch(route.gateway);
    if reserved.contains(&route.gateway)
        || !network.ip_range.contains(&route.gateway)
        || network.subnets.iter().any(is_behind_vswitch)
    {
        return refuse("invalid gateway");
    }
    if network.routes.len() >= MAX_ROUTES {
        return Err(Refusal::over_limit("route_limit"));
    }
    Ok(route)
}

pub(super) fn allowed_subnet(
    network: &Network,
    requested: RequestedSubnet,
) -> Result<Subnet, Refusal> {
    let vswitch = match (requested.r#type.as_str(), requested.vswitch_id) {
        ("cloud" | "server", None) => None,
        ("vswitch", Some(id)) => Some(id),
        ("cloud" | "server", Some(_)) => {
            return Err(Refusal::invalid("vswitch_id", "needs the type vswitch"));
        }
        ("vswitch", None) => {
            return Err(Refusal::invalid(
                "vswitch_id",
                "is needed by the type vswitch",
            ));
        }
        _ => {
            return Err(Refusal::invalid("type", "must be cloud, server or vswitch"));
        }
    };
    // Robot's vSwitches reach only one zone.
    if vswitch.is_some() && requested.network_zone != Location::Fsn1.network_zone() {
        return Err(Refusal::invalid("network_zone", "has no vSwitches"));
    }
    let known_zone = |place: &Location| place.network_zone() == requested.network_zone;
    if !Location::ALL.iter().any(known_zone) {
        return Err(Refusal::invalid("network_zone", "unknown network zone"));
    }
    if network.subnets.len() >= MAX_SUBNETS {
        return Err(Refusal::over_limit("subnet_limit"));
    }
    let subnets = network.subnets.iter().map(|known| known.ip_range);
    let routes = network.routes.iter().map(|known| known.destination);
    let taken: Vec<Ipv4Net> = subnets
        .chain(routes.filter(|to| *to != Ipv4Net::default()))
        .collect();
    let free = |range: &Ipv4Net| {
        let mut taken = taken.iter();
        range.prefix_len() <= 30 && taken.all(|one| !one.contains(range) && !range.contains(one))
    };
    let ip_range = match requested.ip_range {
        Some(text) => Some(read_range("ip_range", &text)?)
            .filter(|range| network.ip_range.contains(range) && free(range)),
        None => {
            let size = network.ip_range.prefix_len().max(24);
            let mut parts = network.ip_range.subnets(size).into_iter().flatten();
            parts.find(free)
        }
    };
    let ip_range = ip_range
        .ok_or_else(|| Refusal::invalid("ip_range", "is outside the network or not free"))?;
    Ok(Subnet {
        ip_range,
        network_zone: requested.network_zone,
        vswitch,
    })
}
