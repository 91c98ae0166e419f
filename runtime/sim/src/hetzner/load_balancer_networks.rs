//! Networks and public interface of load balancers.

use std::net::Ipv4Addr;

use serde::Deserialize;
use serde_json::Value;

use super::actions::{Effect, Resource};
use super::api::{self, Call, Refusal};
use super::load_balancer_objects::LoadBalancer;
use super::load_balancer_state::Change;
use super::load_balancers::{find, idle, start};
use super::network_rules::read_range;
use super::networks;
use super::objects::{Member, PrivateNet};
use super::world::World;

fn not_attached() -> Refusal {
    let message = "load balancer is not attached to a network";
    Refusal::unprocessable("load_balancer_not_attached_to_network", message)
}

/// The network that a load balancer is attached to.
pub(super) fn network_of(balancer: &LoadBalancer) -> Result<u64, Refusal> {
    let net = balancer.private_net.ok_or_else(not_attached)?;
    Ok(net.network)
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
        return Err(Refusal::unprocessable(
            "load_balancer_already_attached",
            message,
        ));
    }
    let location = balancer.spec.location;
    let id = idle(world, id)?;
    let network = requested.network;
    networks::idle(world, &network.to_string())?;
    let ip = networks::place_in(world, location, network, ip, range)?;
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
    networks::idle(world, &network.to_string())?;
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
            return Err(Refusal::unprocessable(
                "targets_without_use_private_ip",
                message,
            ));
        }
    }
    let command = if enabled {
        "enable_public_interface"
    } else {
        "disable_public_interface"
    };
    let change = Change::SetPublicInterface(enabled);
    start(world, call, id, command, change)
}
