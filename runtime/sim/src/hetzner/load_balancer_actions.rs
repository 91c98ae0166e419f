//! The actions of load balancers: their dispatch, and those that need few lines.

use std::net::IpAddr;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{self, Call, Refusal, Reply};
use super::load_balancer_state::Change;
use super::load_balancer_types::LoadBalancerType;
use super::load_balancers::{RequestedAlgorithm, find, start};
use super::servers::id_or_name;
use super::world::World;
use super::{
    load_balancer_networks as networks, load_balancer_services as services,
    load_balancer_targets as targets,
};

pub(super) fn act(
    world: &mut World,
    call: &Call,
    id: &str,
    command: &str,
) -> Result<Reply, Refusal> {
    find(world, id)?;
    let action = match command {
        "add_service" => services::add(world, call, id)?,
        "update_service" => services::update(world, call, id)?,
        "delete_service" => services::delete(world, call, id)?,
        "add_target" => targets::add(world, call, id)?,
        "remove_target" => targets::remove(world, call, id)?,
        "attach_to_network" => networks::attach(world, call, id)?,
        "detach_from_network" => networks::detach(world, call, id)?,
        "enable_public_interface" => networks::set_public_interface(world, call, id, true)?,
        "disable_public_interface" => networks::set_public_interface(world, call, id, false)?,
        "change_algorithm" => change_algorithm(world, call, id)?,
        "change_type" => change_type(world, call, id)?,
        "change_dns_ptr" => change_dns_ptr(world, call, id)?,
        "change_protection" => change_protection(world, call, id)?,
        _ => {
            let message = format!("no load balancer action '{command}'");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
        }
    };
    Ok(Reply::created(json!({"action": action})))
}

fn change_algorithm(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: RequestedAlgorithm = api::body(call)?;
    let change = Change::SetAlgorithm(requested.read()?);
    start(world, call, id, "change_algorithm", change)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedType {
    load_balancer_type: Value,
}

/// Changes the type; services, targets and certificates must fit into the new one.
fn change_type(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: RequestedType = api::body(call)?;
    let size = LoadBalancerType::ordered(world, &id_or_name(&requested.load_balancer_type))?;
    let spec = &find(world, id)?.spec;
    let certificates = spec.services.iter().map(|one| one.http.certificates.len());
    let fits = spec.services.len() <= size.max_services()
        && spec.targets.len() <= world.max_targets(size)
        && certificates.sum::<usize>() <= size.max_certificates();
    if !fits {
        let message = "the load balancer type does not fit for the load balancer";
        return Err(Refusal::unprocessable(
            "invalid_load_balancer_type",
            message,
        ));
    }
    let change = Change::SetType(size);
    start(world, call, id, "change_load_balancer_type", change)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedPointer {
    ip: String,
    dns_ptr: Option<String>,
}

fn change_dns_ptr(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: RequestedPointer = api::body(call)?;
    let ip: IpAddr = requested
        .ip
        .parse()
        .map_err(|_| Refusal::invalid("ip", "is not an IP address"))?;
    if requested
        .dns_ptr
        .as_ref()
        .is_some_and(|name| !is_domain(name))
    {
        return Err(Refusal::invalid("dns_ptr", "is not a domain name"));
    }
    let balancer = find(world, id)?;
    let change = match ip {
        IpAddr::V4(ip) if ip == balancer.public_ipv4() => Change::SetIpv4Pointer(requested.dns_ptr),
        IpAddr::V6(ip) if ip == balancer.public_ipv6() => Change::SetIpv6Pointer(requested.dns_ptr),
        _ => return Err(Refusal::invalid("ip", "is not of this load balancer")),
    };
    start(world, call, id, "change_dns_ptr", change)
}

fn is_domain(name: &str) -> bool {
    let part = |part: &str| {
        let plain = part
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        (1..=63).contains(&part.len()) && plain
    };
    name.len() <= 253 && name.split('.').all(part)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedProtection {
    delete: Option<bool>,
}

fn change_protection(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: RequestedProtection = api::body(call)?;
    let current = find(world, id)?.spec.delete_protected;
    let change = Change::SetProtection(requested.delete.unwrap_or(current));
    start(world, call, id, "change_protection", change)
}
