//! The network endpoints with routes and subnets, and the JSON view of a network.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use http::StatusCode;
use ipnet::Ipv4Net;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions::{Effect, Resource};
use super::api::{self, Call, Refusal, Reply};
use super::locations::Location;
use super::network_rules::{
    RequestedRoute, RequestedSubnet, allowed_route, allowed_subnet, is_private, read_range,
    read_route,
};
use super::objects::{Member, Network};
use super::query::{self, LabelSelector};
use super::world::World;

/// Maximum number of networks that requests may create; the handle may add more.
const MAX_NETWORKS: usize = 50;

pub(super) fn list(world: &World, call: &Call) -> Result<Reply, Refusal> {
    let name = call.query.first("name");
    let selector = LabelSelector::of(call)?;
    let mut networks: Vec<&Network> = world
        .networks
        .values()
        .filter(|network| name.is_none_or(|name| network.name == name))
        .filter(|network| selector.matches(&network.labels))
        .collect();
    query::sort(
        call,
        &mut networks,
        &[
            ("id", |left, right| left.id.cmp(&right.id)),
            ("name", |left, right| left.name.cmp(&right.name)),
            ("created", |left, right| left.created.cmp(&right.created)),
        ],
    )?;
    query::list(call, "networks", &networks, |network| show(world, network))
}

pub(super) fn get(world: &World, id: &str) -> Result<Reply, Refusal> {
    let network = find(world, id)?;
    Ok(Reply::ok(json!({"network": show(world, network)})))
}

pub(super) fn delete(world: &mut World, id: &str) -> Result<Reply, Refusal> {
    let id = idle(world, id)?;
    world.remove_network(id);
    Ok(Reply::no_content())
}

#[derive(Deserialize)]
struct Creation {
    name: String,
    ip_range: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    subnets: Vec<RequestedSubnet>,
    #[serde(default)]
    routes: Vec<RequestedRoute>,
    #[serde(default)]
    expose_routes_to_vswitch: bool,
}

#[derive(Deserialize)]
struct Update {
    name: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    expose_routes_to_vswitch: Option<bool>,
}

pub(super) fn update(world: &mut World, call: &Call, id: &str) -> Result<Reply, Refusal> {
    let requested: Update = api::body(call)?;
    let id = idle(world, id)?;
    if let Some(name) = &requested.name {
        allowed_name(world, name, Some(id))?;
    }
    if let Some(network) = world.networks.get_mut(&id) {
        network.name = requested.name.unwrap_or_else(|| network.name.clone());
        network.labels = requested.labels.unwrap_or_else(|| network.labels.clone());
        let exposes = requested.expose_routes_to_vswitch;
        network.exposes_routes = exposes.unwrap_or(network.exposes_routes);
    }
    get(world, &id.to_string())
}

/// Checks the name of a new network, or of the existing one with this ID.
fn allowed_name(world: &World, name: &str, id: Option<u64>) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > 64 {
        return Err(Refusal::invalid("name", "must have 1 to 64 characters"));
    }
    let mut others = world.networks.values();
    match others.any(|network| network.name == name && Some(network.id) != id) {
        true => Err(Refusal::not_unique("network")),
        false => Ok(()),
    }
}

pub(super) fn create(world: &mut World, call: &Call) -> Result<Reply, Refusal> {
    let requested: Creation = api::body(call)?;
    allowed_name(world, &requested.name, None)?;
    if world.networks.len() >= MAX_NETWORKS {
        return Err(Refusal::over_limit("network_limit"));
    }
    let ip_range = read_range("ip_range", &requested.ip_range)?;
    if !is_private(ip_range) || ip_range.prefix_len() > 24 {
        let why = "is not a private IPv4 range of at least 256 addresses";
        return Err(Refusal::invalid("ip_range", why));
    }
    let mut draft = Network {
        id: 0,
        name: requested.name,
        created: world.timestamp(),
        ip_range,
        labels: requested.labels,
        subnets: Vec::new(),
        routes: Vec::new(),
        exposes_routes: requested.expose_routes_to_vswitch,
    };
    for subnet in requested.subnets {
        let subnet = allowed_subnet(&draft, subnet)?;
        draft.subnets.push(subnet);
    }
    for route in requested.routes {
        let route = allowed_route(&draft, &route)?;
        draft.routes.push(route);
    }
    let id = world.add_network(draft.name, draft.ip_range, draft.labels, draft.subnets);
    if let Some(network) = world.networks.get_mut(&id) {
        network.routes = draft.routes;
        network.exposes_routes = draft.exposes_routes;
    }
    let network = find(world, &id.to_string())?;
    Ok(Reply::created(json!({"network": show(world, network)})))
}

pub(super) fn act(
    world: &mut World,
    call: &Call,
    id: &str,
    command: &str,
) -> Result<Reply, Refusal> {
    let network = find(world, id)?;
    let (command, effect) = match command {
        "add_route" => {
            let route = allowed_route(network, &api::body(call)?)?;
            let network = network.id;
            ("add_route", Effect::AddRoute { network, route })
        }
        "delete_route" => {
            let route = read_route(&api::body(call)?)?;
            if !network.routes.contains(&route) {
                let message = "route not found";
                return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
            }
            let network = network.id;
            ("delete_route", Effect::DeleteRoute { network, route })
        }
        "add_subnet" => {
            let subnet = allowed_subnet(network, api::body(call)?)?;
            let network = network.id;
            ("add_subnet", Effect::AddSubnet { network, subnet })
        }
        _ => {
            let message = format!("no network action '{command}'");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
        }
    };
    let id = idle(world, id)?;
    let action = api::start(world, call, command, vec![Resource::Network(id)], effect);
    Ok(Reply::created(json!({"action": action})))
}

/// The ID of an existing network.
pub(super) fn known(world: &World, id: &str) -> Result<u64, Refusal> {
    find(world, id).map(|network| network.id)
}

fn find<'w>(world: &'w World, id: &str) -> Result<&'w Network, Refusal> {
    let network = id.parse().ok().and_then(|id: u64| world.networks.get(&id));
    network.ok_or_else(|| Refusal::not_found("network", id))
}

/// The ID of an existing network without a running action. The vendor answers `conflict` otherwise, unlike for servers,
/// which are `locked`.
pub(super) fn idle(world: &World, id: &str) -> Result<u64, Refusal> {
    let id = known(world, id)?;
    if world.actions.busy(Resource::Network(id)) {
        let message = "a change is currently being performed on this network";
        return Err(Refusal::new(StatusCode::CONFLICT, "conflict", message));
    }
    Ok(id)
}

/// The address that a member at this location would get in a network (in the given range, if any), or why it cannot be
/// attached.
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
        return free.ok_or_else(|| Refusal::unprocessable("no_subnet_available", message));
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
    let message = "the IP is not available";
    Err(Refusal::unprocessable("ip_not_available", message))
}

/// The network with all of the vendor's fields.
pub(super) fn show(world: &World, network: &Network) -> Value {
    let (mut servers, mut load_balancers) = (Vec::new(), Vec::new());
    for member in world.members_of(network.id) {
        match member {
            Member::Server(id) => servers.push(id),
            Member::LoadBalancer(id) => load_balancers.push(id),
        }
    }
    let subnets: Vec<Value> = network
        .subnets
        .iter()
        .map(|subnet| {
            json!({
                "type": if subnet.vswitch.is_some() { "vswitch" } else { "cloud" },
                "ip_range": subnet.ip_range.to_string(), "vswitch_id": subnet.vswitch,
                "network_zone": subnet.network_zone, "gateway": subnet.gateway().to_string(),
            })
        })
        .collect();
    let routes: Vec<Value> = network
        .routes
        .iter()
        .map(|route| {
            let to = route.destination.to_string();
            json!({"destination": to, "gateway": route.gateway.to_string()})
        })
        .collect();
    json!({
        "id": network.id, "name": network.name, "created": network.created.to_string(),
        "ip_range": network.ip_range.to_string(), "labels": network.labels,
        "subnets": subnets, "routes": routes, "servers": servers, "load_balancers": load_balancers,
        "protection": {"delete": false}, "expose_routes_to_vswitch": network.exposes_routes,
    })
}
