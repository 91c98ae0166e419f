//! Which subnets and routes a network may have, as the vendor documents it.

use std::net::Ipv4Addr;

use http::StatusCode;
use ipnet::Ipv4Net;
use serde::Deserialize;

use super::api::Refusal;
use super::locations::Location;
use super::objects::{Network, Route, Subnet, first_address};

/// The vendor's limits for one network.
const MAX_ROUTES: usize = 100;
const MAX_SUBNETS: usize = 50;

/// The gateway of every server's public interface, which no route may touch.
const PUBLIC_GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 31, 1, 1);

/// Ranges and addresses stay text here: the vendor answers a wrong one with `invalid_input`, not as
/// broken JSON.
#[derive(Deserialize)]
pub(super) struct SubnetWish {
    pub(super) ip_range: Option<String>,
    pub(super) network_zone: String,
    pub(super) r#type: String,
}

#[derive(Deserialize)]
pub(super) struct RouteWish {
    pub(super) destination: String,
    pub(super) gateway: String,
}

pub(super) fn read_range(field: &str, text: &str) -> Result<Ipv4Net, Refusal> {
    let range: Ipv4Net = text
        .parse()
        .map_err(|_| Refusal::invalid(field, "is not an IPv4 network"))?;
    Ok(range.trunc())
}

pub(super) fn read_route(wish: &RouteWish) -> Result<Route, Refusal> {
    let destination = read_range("destination", &wish.destination)?;
    let gateway = wish
        .gateway
        .parse()
        .map_err(|_| Refusal::invalid("gateway", "is not an IPv4 address"))?;
    Ok(Route {
        destination,
        gateway,
    })
}

pub(super) fn allowed_route(network: &Network, wish: &RouteWish) -> Result<Route, Refusal> {
    let route = read_route(wish)?;
    let to = route.destination;
    let everything = Ipv4Net::default();
    let private = to.network().is_private() && to.broadcast().is_private();
    let overlaps = |range: Ipv4Net| range.contains(&to) || to.contains(&range);
    let refuse = |field, why| Err(Refusal::invalid(field, why));
    if to != everything && !private {
        return refuse("destination", "is not a private IPv4 range");
    }
    // The default route overlaps with everything and is allowed all the same.
    let subnet = network
        .subnets
        .iter()
        .any(|subnet| overlaps(subnet.ip_range));
    if to != everything && (subnet || to.contains(&PUBLIC_GATEWAY)) {
        return refuse(
            "destination",
            "overlaps with a subnet or a reserved address",
        );
    }
    let known = network.routes.iter().map(|known| known.destination);
    let clashes = |known: Ipv4Net| {
        known == to || (known != everything && to != everything && overlaps(known))
    };
    if known.into_iter().any(clashes) {
        return refuse("destination", "overlaps with another route");
    }
    let reserved = [first_address(network.ip_range), PUBLIC_GATEWAY];
    if reserved.contains(&route.gateway) || !network.ip_range.contains(&route.gateway) {
        return refuse("gateway", "is reserved or outside the network");
    }
    if network.routes.len() >= MAX_ROUTES {
        let message = "route limit exceeded";
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "resource_limit_exceeded",
            message,
        ));
    }
    Ok(route)
}

pub(super) fn allowed_subnet(network: &Network, wish: SubnetWish) -> Result<Subnet, Refusal> {
    if !matches!(wish.r#type.as_str(), "cloud" | "server") {
        return Err(Refusal::invalid("type", "must be cloud or server"));
    }
    let known_zone = |place: &Location| place.network_zone() == wish.network_zone;
    if !Location::ALL.iter().any(known_zone) {
        return Err(Refusal::invalid("network_zone", "unknown network zone"));
    }
    if network.subnets.len() >= MAX_SUBNETS {
        let message = "subnet limit exceeded";
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "resource_limit_exceeded",
            message,
        ));
    }
    let free = |range: &Ipv4Net| {
        network
            .subnets
            .iter()
            .all(|known| !known.ip_range.contains(range) && !range.contains(&known.ip_range))
    };
    let ip_range = match wish.ip_range {
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
        network_zone: wish.network_zone,
    })
}
