//! The server endpoints, and the JSON view of a server.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions::{Effect, Resource};
use super::api::{self, Call, Refusal, Reply};
use super::attachments;
use super::locations::Location;
use super::objects::{Member, PrivateNet, Server, ServerSpec, ServerStatus};
use super::query::{self, LabelSelector};
use super::server_types::{self, ServerType};
use super::world::{World, in_whole_seconds};

/// Maximum number of servers that requests may create; the handle may add more.
const MAX_SERVERS: usize = 10_000;

pub(super) fn list(world: &World, call: &Call) -> Result<Reply, Refusal> {
    let name = call.query.first("name");
    let statuses = call.query.all("status");
    let selector = LabelSelector::of(call)?;
    let mut servers: Vec<&Server> = world
        .servers
        .values()
        .filter(|server| world.lists(server.created))
        .filter(|server| name.is_none_or(|name| server.spec.name == name))
        .filter(|server| statuses.is_empty() || statuses.contains(&server.spec.status.name()))
        .filter(|server| selector.matches(&server.spec.labels))
        .collect();
    query::sort(
        call,
        &mut servers,
        &[
            ("id", |left, right| left.id.cmp(&right.id)),
            ("name", |left, right| left.spec.name.cmp(&right.spec.name)),
            ("created", |left, right| left.created.cmp(&right.created)),
        ],
    )?;
    query::list(call, "servers", &servers, |server| show(world, server))
}

pub(super) fn get(world: &World, id: &str) -> Result<Reply, Refusal> {
    let server = find(world, id)?;
    Ok(Reply::ok(json!({"server": show(world, server)})))
}

pub(super) fn delete(world: &mut World, call: &Call, id: &str) -> Result<Reply, Refusal> {
    let id = idle(world, id)?;
    let resources = vec![Resource::Server(id)];
    let action = api::start(world, call, "delete_server", resources, Effect::Nothing);
    // At the vendor a deleted server disappears at once; the action ends later.
    if call.failure.is_none() {
        world.remove_server(id);
    }
    Ok(Reply::ok(json!({"action": action})))
}

/// The fields of a creation request that are used here; others are accepted and ignored.
#[derive(Deserialize)]
struct Creation {
    name: String,
    server_type: Value,
    image: Value,
    location: Option<Value>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    networks: Vec<u64>,
    public_net: Option<PublicNet>,
    start_after_create: Option<bool>,
}

#[derive(Deserialize)]
struct PublicNet {
    enable_ipv4: Option<bool>,
    enable_ipv6: Option<bool>,
}

pub(super) fn create(world: &mut World, call: &Call) -> Result<Reply, Refusal> {
    let requested: Creation = api::body(call)?;
    if !is_host_name(&requested.name) {
        return Err(Refusal::invalid("name", "is not a valid host name"));
    }
    if world
        .servers
        .values()
        .any(|server| server.spec.name == requested.name)
    {
        return Err(Refusal::not_unique("server"));
    }
    if world.servers.len() >= MAX_SERVERS {
        return Err(Refusal::over_limit("server_limit"));
    }
    let server_type = ServerType::find(&id_or_name(&requested.server_type))
        .ok_or_else(|| Refusal::invalid("server_type", "unknown server type"))?;
    if id_or_name(&requested.image) != server_types::IMAGE {
        return Err(Refusal::invalid("image", "unknown image"));
    }
    let location = match &requested.location {
        None => Location::default(),
        Some(place) => Location::find(&id_or_name(place))
            .ok_or_else(|| Refusal::invalid("location", "unknown location"))?,
    };
    if requested
        .networks
        .iter()
        .any(|network| !world.networks.contains_key(network))
    {
        return Err(Refusal::invalid("networks", "unknown network"));
    }
    let public = requested.public_net.as_ref();
    let id = world.add_server(ServerSpec {
        name: requested.name,
        server_type,
        location,
        status: ServerStatus::Initializing,
        labels: requested.labels,
        public_ipv4: public.and_then(|net| net.enable_ipv4).unwrap_or(true),
        public_ipv6: public.and_then(|net| net.enable_ipv6).unwrap_or(true),
    });
    for network in requested.networks {
        if let Some(ip) = world.free_address(location.network_zone(), network, None) {
            world.attach(Member::Server(id), PrivateNet { network, ip });
        }
    }
    let starts = requested.start_after_create.unwrap_or(true);
    let created = if starts {
        ServerStatus::Running
    } else {
        ServerStatus::Off
    };
    let resources = vec![Resource::Server(id)];
    let effect = Effect::SetStatus(id, created);
    let action = api::start(world, call, "create_server", resources.clone(), effect);
    let next: Vec<Value> = starts
        .then(|| api::start(world, call, "start_server", resources, Effect::Nothing))
        .into_iter()
        .collect();
    let server = find(world, &id.to_string())?;
    Ok(Reply::created(json!({
        "server": show(world, server), "action": action, "next_actions": next,
        "root_password": "simulated-and-useless",
    })))
}

pub(super) fn act(
    world: &mut World,
    call: &Call,
    id: &str,
    command: &str,
) -> Result<Reply, Refusal> {
    let action = match command {
        "poweron" => power(world, call, id, "start_server", ServerStatus::Running)?,
        "poweroff" => power(world, call, id, "stop_server", ServerStatus::Off)?,
        "shutdown" => power(world, call, id, "shutdown_server", ServerStatus::Off)?,
        "attach_to_network" => attachments::attach(world, call, id)?,
        "detach_from_network" => attachments::detach(world, call, id)?,
        _ => {
            let message = format!("no server action '{command}'");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
        }
    };
    Ok(Reply::created(json!({"action": action})))
}

fn power(
    world: &mut World,
    call: &Call,
    id: &str,
    command: &'static str,
    status: ServerStatus,
) -> Result<Value, Refusal> {
    let id = idle(world, id)?;
    let resources = vec![Resource::Server(id)];
    let effect = Effect::SetStatus(id, status);
    Ok(api::start(world, call, command, resources, effect))
}

/// The ID of an existing server.
pub(super) fn known(world: &World, id: &str) -> Result<u64, Refusal> {
    find(world, id).map(|server| server.id)
}

pub(super) fn find<'w>(world: &'w World, id: &str) -> Result<&'w Server, Refusal> {
    let server = id.parse().ok().and_then(|id: u64| world.servers.get(&id));
    server.ok_or_else(|| Refusal::not_found("server", id))
}

/// The ID of an existing server without a running action.
pub(super) fn idle(world: &World, id: &str) -> Result<u64, Refusal> {
    let id = known(world, id)?;
    if world.actions.busy(Resource::Server(id)) {
        let message = "server is locked by a running action";
        return Err(Refusal::new(StatusCode::LOCKED, "locked", message));
    }
    Ok(id)
}

/// Whether the text is a host name by RFC 1123, as the vendor requires of server names.
fn is_host_name(text: &str) -> bool {
    let label = |part: &str| {
        let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        (1..=63).contains(&part.len()) && plain && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// A name or ID as text. In requests, names are strings, and IDs strings or numbers.
pub(super) fn id_or_name(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The server with all of the vendor's fields (without the removed `datacenter`), more than five kilobytes when sent.
pub(super) fn show(world: &World, server: &Server) -> Value {
    let Server {
        id,
        spec,
        created,
        number,
        private_nets,
    } = server;
    let address_id = u64::from(*number) * 2 + 1;
    let ipv4 = server.public_ipv4();
    let ipv4 = spec.public_ipv4.then(|| {
        let name = format!("static.{ipv4}.clients.simulated.example");
        json!({"id": address_id, "ip": ipv4.to_string(), "blocked": false, "dns_ptr": name})
    });
    let ipv6 = spec.public_ipv6.then(|| {
        let range = format!("{}/64", server.public_ipv6());
        json!({"id": address_id + 1, "ip": range, "blocked": false, "dns_ptr": []})
    });
    let nets: Vec<Value> = private_nets
        .iter()
        .map(|net| {
            let [a, b, c, d] = net.ip.octets();
            let mac = format!("86:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
            json!({
                "network": net.network, "ip": net.ip.to_string(), "alias_ips": [], "mac_address": mac,
            })
        })
        .collect();
    json!({
        "id": id, "name": spec.name, "status": spec.status.name(),
        "created": in_whole_seconds(*created).to_string(),
        "public_net": {"ipv4": ipv4, "ipv6": ipv6, "floating_ips": [], "firewalls": []},
        "private_net": nets,
        "server_type": spec.server_type.json(),
        "location": spec.location.json(),
        "image": server_types::image_json(spec.server_type.architecture()),
        "iso": null, "rescue_enabled": false,
        "locked": world.actions.busy(Resource::Server(*id)),
        "backup_window": null, "outgoing_traffic": 0, "ingoing_traffic": 0,
        "included_traffic": server_types::included_traffic(spec.location),
        "protection": {"delete": false, "rebuild": false},
        "labels": spec.labels, "volumes": [], "load_balancers": world.balancers_with(*id),
        "primary_disk_size": spec.server_type.disk_gb(), "placement_group": null,
    })
}
