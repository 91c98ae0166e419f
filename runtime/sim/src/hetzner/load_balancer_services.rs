//! The vendor's documented rules for services of a load balancer, and the three actions that change them.

use std::collections::BTreeSet;

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::api::{self, Call, Refusal};
use super::load_balancer_objects::{LoadBalancerSpec, Protocol, Service};
use super::load_balancer_service_body::{HTTP_PORT, RequestedService, read};
use super::load_balancer_state::Change;
use super::load_balancers::{find, start};
use super::world::World;

/// Checks that the protocol allows the options, that certificates exist, and that ports are free.
fn check(world: &World, spec: &LoadBalancerSpec, service: &Service) -> Result<(), Refusal> {
    let http = &service.http;
    if http.redirect_http && service.protocol != Protocol::Https {
        return Err(Refusal::invalid("http.redirect_http", "is only for https"));
    }
    if !http.certificates.is_empty() && service.protocol != Protocol::Https {
        return Err(Refusal::invalid("http.certificates", "are only for https"));
    }
    if http.sticky_sessions && service.protocol == Protocol::Tcp {
        let why = "are only for http and https";
        return Err(Refusal::invalid("http.sticky_sessions", why));
    }
    let known = |id: &u64| world.certificates.contains_key(id);
    if !http.certificates.iter().all(known) {
        return Err(Refusal::invalid("http.certificates", "unknown certificate"));
    }
    let port = service.listen_port;
    let others = || {
        spec.services
            .iter()
            .filter(move |other| other.listen_port != port)
    };
    let certificates: BTreeSet<u64> = others()
        .chain([service])
        .flat_map(|service| service.http.certificates.iter().copied())
        .collect();
    if certificates.len() > spec.load_balancer_type.max_certificates() {
        return Err(Refusal::over_limit("load_balancer_certificate_limit"));
    }
    Ok(())
}

/// All ports that a service uses: a redirect takes one more.
fn ports(service: &Service) -> impl Iterator<Item = u16> {
    let redirect = service.http.redirect_http.then_some(HTTP_PORT);
    std::iter::once(service.listen_port).chain(redirect)
}

/// Whether another service uses one of its ports.
fn clashes(spec: &LoadBalancerSpec, service: &Service, but: Option<u16>) -> bool {
    let others = spec
        .services
        .iter()
        .filter(|other| Some(other.listen_port) != but);
    let taken: BTreeSet<u16> = others.flat_map(ports).collect();
    // A service on the port of its own redirect clashes, too: it could serve nothing.
    let own: Vec<u16> = ports(service).collect();
    own.iter().any(|port| taken.contains(port)) || (own.len() == 2 && own[0] == own[1])
}

fn port_used(status: StatusCode) -> Refusal {
    let message = "the source port is already in use";
    Refusal::new(status, "source_port_already_used", message)
}

/// Validates a service to be added to a load balancer.
pub(super) fn allowed(
    world: &World,
    spec: &LoadBalancerSpec,
    requested: RequestedService,
) -> Result<Service, Refusal> {
    let service = read(requested, None)?;
    check(world, spec, &service)?;
    if clashes(spec, &service, None) {
        return Err(port_used(StatusCode::PRECONDITION_FAILED));
    }
    if spec.services.len() >= spec.load_balancer_type.max_services() {
        return Err(Refusal::over_limit("load_balancer_service_limit"));
    }
    Ok(service)
}

pub(super) fn add(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: RequestedService = api::body(call)?;
    let service = allowed(world, &find(world, id)?.spec, requested)?;
    start(world, call, id, "add_service", Change::PutService(service))
}

/// Updates the service with this listening port; the port itself cannot change.
pub(super) fn update(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: RequestedService = api::body(call)?;
    let spec = &find(world, id)?.spec;
    let known = known(spec, requested.listen_port)?;
    let service = read(requested, Some(known))?;
    check(world, spec, &service)?;
    if clashes(spec, &service, Some(service.listen_port)) {
        return Err(port_used(StatusCode::UNPROCESSABLE_ENTITY));
    }
    let change = Change::PutService(service);
    start(world, call, id, "update_service", change)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deletion {
    listen_port: i64,
}

pub(super) fn delete(world: &mut World, call: &Call, id: &str) -> Result<Value, Refusal> {
    let requested: Deletion = api::body(call)?;
    let port = known(&find(world, id)?.spec, Some(requested.listen_port))?.listen_port;
    start(
        world,
        call,
        id,
        "delete_service",
        Change::DeleteService(port),
    )
}

fn known(spec: &LoadBalancerSpec, port: Option<i64>) -> Result<&Service, Refusal> {
    let port = port.ok_or_else(|| Refusal::invalid("listen_port", "is missing"))?;
    let mut services = spec.services.iter();
    let service = services.find(|service| i64::from(service.listen_port) == port);
    service.ok_or_else(|| Refusal::not_found("service with listen port", &port.to_string()))
}
