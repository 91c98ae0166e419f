//! Networks and public interface of load balancers.

use std::net::Ipv4Addr;

use http::StatusCode;
use ipnet::Ipv4Net;
use serde::Deserialize;
use serde_json::Value;

use super::actions::{Effect, Resource};
use super::api::{self, Call, Refusal};
use super::load_balancer_objects::LoadBalancer;
use super::load_balancer_state::Change;
use super::load_balancers::{find, idle};
use super::locations::Location;
use super::network_rules::read_range;
use super::objects::{Member, PrivateNet};
use super::world::World;

fn unprocessable(code: &str, message: &str) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
}

fn not_attached() -> Refusal {
    let message = "load balancer is not attached to a network";
    unprocessable("load_balancer_not_attached_to_network", message)
}

/// The network that a load balancer is attached to.
pub(super) fn network_of(balancer: &LoadBalancer) -> Result<u64, Refusal> {
    let net = balancer.private_net.ok_or_else(not_attached)?;
    Ok(net.network)
}

/// Requires that the network exists and that no action runs on it.
pub(super) fn quiet(world: &World, network: u64) -> Result<(), Refusal> {
    if !world.networks.contains_key(&network) {
        return Err(Refusal::not_found("network", &network.to_string()));
    }
    if world.actions.busy(Resource::Network(network)) {
        let message = "a change is currently being performed on this network";
        return Err(Refusal::new(StatusCode::CONFLICT, "conflict", message));
    }
    Ok(())
}

/// The address that a load balancer at this location would get in a network, or why it cannot be attached.
pub(super) fn place_in(
    world: &World,
    location: Location,
    network: u64,
    wanted: Option<Ipv4Addr>,
    range: Option<Ipv4Net>,
) -> Result<Ipv4Addr, Refusal> {
    let zone = location.network_zone();
    let Some(ip) = wanted else {
        let free = world.free_address(zone, network, range);
        let message = "no subnet or IP is available";
        return free.ok_or_else(|| unprocessable("no_subnet_available", message));
    };
    if range.is_some_and(|range| !range.contains(&ip)) {
        return Err(Refusal::invalid("ip", "is not part of ip_range"));
    }
    let subnets = world.networks.get(&network).map(|network| &network.subnets);
    let holds = subnets.into_iter().flatten().any(|subnet| {
        subnet.network_zone == zone
            && subnet.holds_for_members(ip)
            && range.is_none_or(|range| range == subnet.ip_range)
    });
    if holds && !world.is_taken(network, ip) {
        return Ok(ip);
    }
    Err(unprocessable("ip_not_available", "the IP is not available"))
}

/// A request to attach a load balancer. The address is a string here: the vendor answers an invalid one with
/// `invalid_input`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attachment {
    network: u64,
    ip: Option<String>,
    ip_range: Option<String>,
}

pub(super) fn attach(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: Attachment = api::body(call)?;
    let ip = requested.ip.map(|text| {
        let ip = text.parse::<Ipv4Addr>();
        ip.map_err(|_| Refusal::invalid("ip", "is not an IPv4 address"))
    });
    let range = requested.ip_range.map(|text| read_range("ip_range", &text));
    let (ip, range) = (ip.transpose()?, range.transpose()?);
    let balancer = find(world, id)?;
    if balancer.private_net.is_some() {
        let message = "load balancer is already attached to a network";
        return Err(unprocessable("load_balancer_already_attached", message));
    }
    let location = balancer.spec.location;
    let id = idle(world, id)?;
    let network = requested.network;
    quiet(world, network)?;
    let ip = place_in(world, location, network, ip, range)?;
    let effect = Effect::Attach {
        member: Member::LoadBalancer(id),
        net: PrivateNet { network, ip },
    };
    let resources = vec![Resource::LoadBalancer(id), Resource::Network(network)];
    let command = "attach_to_network";
    Ok(api::start(world, call, command, resources, effect))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Detachment {
    network: u64,
}

pub(super) fn detach(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let Detachment { network } = api::body(call)?;
    if network_of(find(world, id)?)? != network {
        return Err(not_attached());
    }
    let id = idle(world, id)?;
    quiet(world, network)?;
    let member = Member::LoadBalancer(id);
    let effect = Effect::Detach { member, network };
    let resources = vec![Resource::LoadBalancer(id), Resource::Network(network)];
    let command = "detach_from_network";
    Ok(api::start(world, call, command, resources, effect))
}

/// Turns the public interface on or off. Off requires a network through which all targets are reached.
pub(super) fn set_public_interface(
    world: &mut World,
    call: &Call,
    id: &str,
    enabled: bool,
) -> Result<Value, Refusal> {
    let balancer = find(world, id)?;
    if !enabled {
        network_of(balancer)?;
        let mut targets = balancer.spec.targets.iter();
        if targets.any(|target| !target.uses_private_ip()) {
            let message = "load balancer has targets that use the public IP";
            return Err(unprocessable("targets_without_use_private_ip", message));
        }
    }
    let id = idle(world, id)?;
    let effect = Effect::LoadBalancer(id, Change::SetPublicInterface(enabled));
    let command = if enabled {
        "enable_public_interface"
    } else {
        "disable_public_interface"
    };
    let resources = vec![Resource::LoadBalancer(id)];
    Ok(api::start(world, call, command, resources, effect))
}
