//! The load balancer endpoints: create, read, rename and delete.
//!
//! Codes and bounds are the documented ones (August 2026, and the change of October 2026 that a deletion returns an
//! action). Where the documentation is silent, this simulator decides: after a failed creation only name and labels
//! remain, an unknown service is `not_found`, an unknown target `load_balancer_target_not_found` (a code known to other
//! clients), and a load balancer that leaves a network loses the targets reached through it.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions::{Effect, Resource};
use super::api::{self, Call, Refusal, Reply};
use super::load_balancer_objects::{Algorithm, LoadBalancer, LoadBalancerSpec};
use super::load_balancer_service_body::RequestedService;
use super::load_balancer_services as services;
use super::load_balancer_state::{Change, Locking};
use super::load_balancer_targets::{self as targets, RequestedTarget};
use super::load_balancer_types::LoadBalancerType;
use super::load_balancer_view::show;
use super::locations::Location;
use super::objects::{Member, PrivateNet};
use super::query::{self, LabelSelector};
use super::servers::id_or_name;
use super::world::World;
use super::{labels, load_balancer_actions, networks};

/// Handles everything below `/load_balancers`.
pub(super) fn answer(
    world: &mut World,
    call: &Call,
    method: &str,
    rest: &[&str],
) -> Result<Reply, Refusal> {
    match (method, rest) {
        ("GET", []) => list(world, call),
        ("POST", []) => create(world, call),
        ("GET", ["actions"]) => api::list_some_actions(world, call, |action| {
            let is_ours = |one: &Resource| matches!(one, Resource::LoadBalancer(_));
            action.resources.iter().any(is_ours)
        }),
        ("GET", ["actions", id] | [_, "actions", id]) => api::get_action(world, id),
        ("GET", [id]) => {
            let balancer = find(world, id)?;
            Ok(Reply::ok(json!({"load_balancer": show(world, balancer)})))
        }
        ("PUT", [id]) => replace(world, call, id),
        ("DELETE", [id]) => delete(world, call, id),
        ("GET", [id, "actions"]) => {
            let id = find(world, id)?.id;
            api::list_actions(world, call, Some(Resource::LoadBalancer(id)))
        }
        ("POST", [id, "actions", command]) => load_balancer_actions::act(world, call, id, command),
        _ => Err(Refusal::no_endpoint(call)),
    }
}

fn list(world: &World, call: &Call) -> Result<Reply, Refusal> {
    let name = call.query.first("name");
    let selector = LabelSelector::of(call)?;
    let mut balancers: Vec<&LoadBalancer> = world
        .load_balancers
        .values()
        .filter(|balancer| world.lists(balancer.created))
        .filter(|balancer| name.is_none_or(|name| balancer.spec.name == name))
        .filter(|balancer| selector.matches(&balancer.spec.labels))
        .collect();
    query::sort(
        call,
        &mut balancers,
        &[
            ("id", |left, right| left.id.cmp(&right.id)),
            ("name", |left, right| left.spec.name.cmp(&right.spec.name)),
            ("created", |left, right| left.created.cmp(&right.created)),
        ],
    )?;
    query::list(call, "load_balancers", &balancers, |balancer| {
        show(world, balancer)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Creation {
    name: String,
    load_balancer_type: Value,
    algorithm: Option<RequestedAlgorithm>,
    #[serde(default)]
    services: Vec<RequestedService>,
    #[serde(default)]
    targets: Vec<RequestedTarget>,
    labels: Option<BTreeMap<String, String>>,
    public_interface: Option<bool>,
    public_net: Option<PublicNet>,
    network: Option<u64>,
    network_zone: Option<String>,
    location: Option<Value>,
}

/// Primary IPs by ID. The project has none, so every ID is unknown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicNet {
    ipv4: Option<u64>,
    ipv6: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestedAlgorithm {
    r#type: String,
}

impl RequestedAlgorithm {
    pub(super) fn read(&self) -> Result<Algorithm, Refusal> {
        let why = "must be round_robin or least_connections";
        Algorithm::named(&self.r#type).ok_or_else(|| Refusal::invalid("algorithm.type", why))
    }
}

fn create(world: &mut World, call: &Call) -> Result<Reply, Refusal> {
    let requested: Creation = api::body(call)?;
    let name = labels::allowed_name(requested.name)?;
    let labels = labels::allowed(requested.labels.unwrap_or_default())?;
    let location = place(
        requested.location.as_ref(),
        requested.network_zone.as_deref(),
    )?;
    let size = LoadBalancerType::ordered(world, &id_or_name(&requested.load_balancer_type))?;
    let algorithm = requested
        .algorithm
        .map_or(Ok(Algorithm::default()), |requested| requested.read())?;
    let addresses = requested.public_net.map(|net| (net.ipv4, net.ipv6));
    if !matches!(addresses, None | Some((None, None))) {
        return Err(Refusal::invalid("public_net", "unknown Primary IP"));
    }
    if is_named(world, &name) {
        return Err(Refusal::not_unique("load balancer"));
    }
    if world.load_balancers.len() >= world.load_balancer_rules.quota {
        return Err(Refusal::over_limit("load_balancer_limit"));
    }
    let net = match requested.network {
        None => None,
        Some(network) => {
            networks::idle(world, &network.to_string())?;
            let ip = networks::place_in(world, location, network, None, None)?;
            Some(PrivateNet { network, ip })
        }
    };
    // The whole request is checked on a private draft before anything is created.
    let mut draft = LoadBalancer {
        id: 0,
        spec: LoadBalancerSpec {
            load_balancer_type: size,
            location,
            labels,
            algorithm,
            public_interface: requested.public_interface.unwrap_or(true),
            ..LoadBalancerSpec::named(name)
        },
        created: world.timestamp(),
        number: 0,
        private_net: net,
    };
    for requested in requested.services {
        let service = services::allowed(world, &draft.spec, requested)?;
        draft.spec.services.push(service);
    }
    for requested in &requested.targets {
        let target = targets::allowed(world, &draft, requested)?;
        draft.spec.targets.push(target);
    }
    let id = world.add_load_balancer(draft.spec);
    if let Some(net) = net {
        world.attach(Member::LoadBalancer(id), net);
    }
    let resources = vec![Resource::LoadBalancer(id)];
    let command = "create_load_balancer";
    let action = api::start_with(world, call, command, resources, |failure| match failure {
        None => Effect::Nothing,
        Some(_) => Effect::LoadBalancer(id, Change::Strip),
    });
    let balancer = find(world, &id.to_string())?;
    let shown = show(world, balancer);
    Ok(Reply::created(
        json!({"load_balancer": shown, "action": action}),
    ))
}

/// The location of a new load balancer: the one named, or the first one of the network zone named.
fn place(location: Option<&Value>, zone: Option<&str>) -> Result<Location, Refusal> {
    match (location, zone) {
        (Some(place), None) => Location::find(&id_or_name(place))
            .ok_or_else(|| Refusal::invalid("location", "unknown location")),
        (None, Some(zone)) => Location::ALL
            .into_iter()
            .find(|place| place.network_zone() == zone)
            .ok_or_else(|| Refusal::invalid("network_zone", "unknown network zone")),
        _ => {
            let why = "either location or network_zone must be set";
            Err(Refusal::invalid("location", why))
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replacement {
    name: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

fn replace(world: &mut World, call: &Call, id: &str) -> Result<Reply, Refusal> {
    let requested: Replacement = api::body(call)?;
    let known = find(world, id)?;
    let (key, old) = (known.id, known.spec.name.clone());
    let name = requested.name.map(labels::allowed_name).transpose()?;
    let labels = requested.labels.map(labels::allowed).transpose()?;
    if name
        .as_ref()
        .is_some_and(|name| *name != old && is_named(world, name))
    {
        return Err(Refusal::not_unique("load balancer"));
    }
    if let Some(balancer) = world.load_balancers.get_mut(&key) {
        let spec = &mut balancer.spec;
        spec.name = name.unwrap_or(old);
        spec.labels = labels.unwrap_or_else(|| std::mem::take(&mut spec.labels));
    }
    let balancer = find(world, id)?;
    Ok(Reply::ok(json!({"load_balancer": show(world, balancer)})))
}

fn delete(world: &mut World, call: &Call, id: &str) -> Result<Reply, Refusal> {
    if find(world, id)?.spec.delete_protected {
        let message = "load balancer deletion is protected";
        return Err(Refusal::new(StatusCode::LOCKED, "protected", message));
    }
    let id = idle(world, id)?;
    let resources = vec![Resource::LoadBalancer(id)];
    let command = "delete_load_balancer";
    let action = api::start(world, call, command, resources, Effect::Nothing);
    // As with servers, it disappears at once; the action ends later.
    if call.failure.is_none() {
        world.remove_load_balancer(id);
    }
    if world.load_balancer_rules.old_deletion {
        return Ok(Reply::no_content());
    }
    Ok(Reply::created(json!({"action": action})))
}

fn is_named(world: &World, name: &str) -> bool {
    let mut all = world.load_balancers.values();
    all.any(|balancer| balancer.spec.name == name)
}

/// Starts an action that changes only the load balancer.
pub(super) fn start(
    world: &mut World,
    call: &Call,
    id: &str,
    command: &'static str,
    change: Change,
) -> Result<Value, Refusal> {
    let id = idle(world, id)?;
    let resources = vec![Resource::LoadBalancer(id)];
    let effect = Effect::LoadBalancer(id, change);
    Ok(api::start(world, call, command, resources, effect))
}

pub(super) fn find<'w>(world: &'w World, id: &str) -> Result<&'w LoadBalancer, Refusal> {
    let all = &world.load_balancers;
    let balancer = id.parse().ok().and_then(|id: u64| all.get(&id));
    balancer.ok_or_else(|| Refusal::not_found("load balancer", id))
}

/// The ID of a load balancer that exists and accepts a change now.
pub(super) fn idle(world: &World, id: &str) -> Result<u64, Refusal> {
    let id = find(world, id)?.id;
    if !world.actions.busy(Resource::LoadBalancer(id)) {
        return Ok(id);
    }
    match world.load_balancer_rules.locking {
        Locking::Off => Ok(id),
        Locking::Locked => {
            let message = "load balancer is locked by a running action";
            Err(Refusal::new(StatusCode::LOCKED, "locked", message))
        }
        Locking::Conflict => {
            let message = "load balancer has changed during request";
            Err(Refusal::new(StatusCode::CONFLICT, "conflict", message))
        }
    }
}
