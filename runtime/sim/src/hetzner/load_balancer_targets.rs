//! The vendor's documented rules for targets of a load balancer: parsing requests, and the two actions that change
//! targets.

use std::net::IpAddr;

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::api::{self, Call, Refusal};
use super::load_balancer_networks::network_of;
use super::load_balancer_objects::{LoadBalancer, Target};
use super::load_balancer_state::Change;
use super::load_balancers::{find, start};
use super::query::LabelSelector;
use super::world::World;

/// A target in a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestedTarget {
    r#type: String,
    server: Option<RequestedServer>,
    label_selector: Option<RequestedSelector>,
    ip: Option<RequestedIp>,
    use_private_ip: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedServer {
    id: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedSelector {
    selector: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedIp {
    ip: String,
}

fn read(requested: &RequestedTarget) -> Result<Target, Refusal> {
    let use_private_ip = requested.use_private_ip.unwrap_or(false);
    match (
        requested.r#type.as_str(),
        &requested.server,
        &requested.label_selector,
        &requested.ip,
    ) {
        ("server", Some(server), None, None) => Ok(Target::Server {
            id: server.id,
            use_private_ip,
        }),
        ("label_selector", None, Some(requested), None) => {
            let selector = requested.selector.clone();
            LabelSelector::read(&selector)?;
            if selector.is_empty() || selector.chars().count() > 1_000 {
                let why = "must have 1 to 1000 characters";
                return Err(Refusal::invalid("label_selector.selector", why));
            }
            Ok(Target::LabelSelector {
                selector,
                use_private_ip,
            })
        }
        ("ip", None, None, Some(_)) if use_private_ip => {
            let why = "is only for the types server and label_selector";
            Err(Refusal::invalid("use_private_ip", why))
        }
        ("ip", None, None, Some(requested)) => {
            let ip = requested.ip.parse();
            let ip = ip.map_err(|_| Refusal::invalid("ip.ip", "is not an IP address"))?;
            Ok(Target::Ip(ip))
        }
        ("server" | "label_selector" | "ip", ..) => {
            let why = "needs the one field of that name beside it, and no other";
            Err(Refusal::invalid("type", why))
        }
        _ => {
            let why = "must be server, label_selector or ip";
            Err(Refusal::invalid("type", why))
        }
    }
}

/// Validates a target to be added to a load balancer.
pub(super) fn allowed(
    world: &World,
    balancer: &LoadBalancer,
    requested: &RequestedTarget,
) -> Result<Target, Refusal> {
    let target = read(requested)?;
    let known = &balancer.spec.targets;
    if known.iter().any(|known| known.is_same(&target)) {
        let message = "the target is already defined";
        return Err(Refusal::unprocessable("target_already_defined", message));
    }
    match &target {
        Target::Server { id, use_private_ip } => {
            let Some(server) = world.servers.get(id) else {
                return Err(Refusal::not_found("server", &id.to_string()));
            };
            if !use_private_ip {
                reached_publicly(balancer)?;
                if !server.spec.public_ipv4 {
                    let message = "the server does not have a public IPv4 address";
                    let code = "resolve_cloud_public_targets_error";
                    return Err(Refusal::unprocessable(code, message));
                }
            } else {
                let network = network_of(balancer)?;
                if !server.private_nets.iter().any(|net| net.network == network) {
                    let message = "the server is not attached to the network of the load balancer";
                    let code = "resolve_cloud_private_targets_error";
                    return Err(Refusal::unprocessable(code, message));
                }
            }
        }
        Target::LabelSelector { use_private_ip, .. } => {
            if *use_private_ip {
                network_of(balancer)?;
            } else {
                reached_publicly(balancer)?;
            }
        }
        Target::Ip(ip) => allowed_address(world, balancer, *ip)?,
    }
    if known.len() >= world.max_targets(balancer.spec.load_balancer_type) {
        return Err(Refusal::over_limit("load_balancer_target_limit"));
    }
    Ok(target)
}

fn reached_publicly(balancer: &LoadBalancer) -> Result<(), Refusal> {
    if balancer.spec.public_interface {
        return Ok(());
    }
    let message = "the public interface of the load balancer is disabled";
    Err(Refusal::unprocessable(
        "load_balancer_public_interface_disabled",
        message,
    ))
}

fn allowed_address(world: &World, balancer: &LoadBalancer, ip: IpAddr) -> Result<(), Refusal> {
    if let IpAddr::V4(ip) = ip
        && ip.is_private()
    {
        let network = world.networks.get(&network_of(balancer)?);
        let mut subnets = network.into_iter().flat_map(|network| &network.subnets);
        if subnets.clone().all(|subnet| subnet.vswitch.is_none()) {
            let message = "the network does not have a vswitch subnet";
            return Err(Refusal::unprocessable(
                "network_has_no_vswitch_subnet",
                message,
            ));
        }
        return match subnets.any(|subnet| subnet.holds_behind_vswitch(ip)) {
            true => Ok(()),
            false => Err(Refusal::unprocessable(
                "ip_not_owned",
                "the IP is not behind the vSwitch",
            )),
        };
    }
    if is_of_project(world, ip) {
        let message = "the IP belongs to a cloud resource";
        return Err(Refusal::unprocessable(
            "cloud_resource_ip_not_allowed",
            message,
        ));
    }
    if !world.load_balancer_rules.owned_addresses.contains(&ip) {
        let message = "the IP is not owned by the owner of the project";
        return Err(Refusal::unprocessable("ip_not_owned", message));
    }
    reached_publicly(balancer)
}

/// Whether an address belongs to a load balancer or server of the project.
fn is_of_project(world: &World, ip: IpAddr) -> bool {
    let mut servers = world.servers.values();
    let mut balancers = world.load_balancers.values();
    match ip {
        IpAddr::V4(ip) => {
            servers.any(|server| server.spec.public_ipv4 && server.public_ipv4() == ip)
                || balancers.any(|balancer| balancer.public_ipv4() == ip)
        }
        IpAddr::V6(ip) => {
            // A server owns the whole /64.
            let half = u128::from(ip) >> 64;
            servers.any(|server| {
                server.spec.public_ipv6 && u128::from(server.public_ipv6()) >> 64 == half
            }) || balancers.any(|balancer| balancer.public_ipv6() == ip)
        }
    }
}

pub(super) fn add(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: RequestedTarget = api::body(call)?;
    let target = allowed(world, find(world, id)?, &requested)?;
    start(world, call, id, "add_target", Change::AddTarget(target))
}

pub(super) fn remove(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let target = read(&api::body(call)?)?;
    let mut known = find(world, id)?.spec.targets.iter();
    if !known.any(|known| known.is_same(&target)) {
        let message = "load balancer target not found";
        let code = "load_balancer_target_not_found";
        return Err(Refusal::new(StatusCode::NOT_FOUND, code, message));
    }
    let change = Change::RemoveTarget(target);
    start(world, call, id, "remove_target", change)
}
