//! Servers in networks: attaching, detaching and their private addresses.

use std::net::Ipv4Addr;

use serde::Deserialize;
use serde_json::Value;

use super::actions::{Effect, Resource};
use super::api::{self, Call, Refusal};
use super::networks;
use super::objects::{Member, PrivateNet};
use super::servers::{find, idle};
use super::world::World;

#[derive(Deserialize)]
struct Attachment {
    network: u64,
    ip: Option<Ipv4Addr>,
}

pub(super) fn attach(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: Attachment = api::body(call)?;
    let id = idle(world, id)?;
    let resources = vec![Resource::Server(id), Resource::Network(requested.network)];
    networks::idle(world, &requested.network.to_string())?;
    let ip = place_in(world, id, requested.network, requested.ip)?;
    let net = PrivateNet {
        network: requested.network,
        ip,
    };
    let member = Member::Server(id);
    let effect = Effect::Attach { member, net };
    Ok(api::start(
        world,
        call,
        "attach_to_network",
        resources,
        effect,
    ))
}

/// The address that a server would get in a network, or why it cannot be attached.
pub(super) fn place_in(
    world: &World,
    id: u64,
    network: u64,
    wanted: Option<Ipv4Addr>,
) -> Result<Ipv4Addr, Refusal> {
    let server = find(world, &id.to_string())?;
    networks::known(world, &network.to_string())?;
    if server.private_nets.iter().any(|net| net.network == network) {
        let message = "server is already attached to the network";
        return Err(Refusal::unprocessable("server_already_attached", message));
    }
    networks::place_in(world, server.spec.location, network, wanted, None)
}

#[derive(Deserialize)]
struct Detachment {
    network: u64,
}

pub(super) fn detach(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: Detachment = api::body(call)?;
    let server = find(world, id)?;
    if !server
        .private_nets
        .iter()
        .any(|net| net.network == requested.network)
    {
        return Err(Refusal::invalid("network", "server is not attached to it"));
    }
    let id = idle(world, id)?;
    let resources = vec![Resource::Server(id), Resource::Network(requested.network)];
    let effect = Effect::Detach {
        member: Member::Server(id),
        network: requested.network,
    };
    Ok(api::start(
        world,
        call,
        "detach_from_network",
        resources,
        effect,
    ))
}
