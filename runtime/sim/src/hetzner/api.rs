//! The API as a function of one call and the project's state.
//!
//! Knows the vendor's paths and envelopes, but no sockets, faults, tokens or budgets.

use std::time::Duration;

use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actions::{Action, Effect, End, Failure, Resource};
use super::locations::Location;
use super::query::Query;
use super::server_types::ServerType;
use super::world::World;
use super::{certificates, load_balancer_types, load_balancers, networks, query, servers};

pub(super) use crate::loopback::Reply;

/// A parsed and authorised request.
pub(super) struct Call {
    pub(super) method: Method,
    /// The path after `/v1/`, without the query; empty if the path has another prefix.
    pub(super) path: String,
    pub(super) query: Query,
    pub(super) body: bytes::Bytes,
    pub(super) now: Instant,
    /// Set if a fault makes the action of this call fail.
    pub(super) failure: Option<Failure>,
}

/// A refusal in the vendor's error envelope.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub(super) struct Refusal {
    status: StatusCode,
    code: String,
    message: String,
    details: Value,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
            details: Value::Null,
        }
    }

    pub(super) fn not_found(what: &str, id: &str) -> Self {
        let message = format!("{what} with ID '{id}' not found");
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// An invalid field of the request, and why.
    pub(super) fn invalid(field: &str, why: &str) -> Self {
        Self {
            details: json!({"fields": [{"name": field, "messages": [why]}]}),
            ..Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid_input",
                format!("invalid input in field '{field}'"),
            )
        }
    }

    /// A well-formed request that the state of the project does not allow.
    pub(super) fn unprocessable(code: &str, message: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    /// The name is already used in the project.
    pub(super) fn not_unique(what: &str) -> Self {
        Self {
            details: json!({"fields": [{"name": "name"}]}),
            ..Self::new(
                StatusCode::CONFLICT,
                "uniqueness_error",
                format!("{what} name is already used"),
            )
        }
    }

    /// A limit of the account or object is exceeded.
    pub(super) fn over_limit(limit: &str) -> Self {
        Self {
            details: json!({"limits": [{"name": limit}]}),
            ..Self::new(
                StatusCode::FORBIDDEN,
                "resource_limit_exceeded",
                format!("{limit} exceeded"),
            )
        }
    }

    pub(super) fn no_endpoint(call: &Call) -> Self {
        let message = format!("no endpoint {} {}", call.method, call.path);
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(super) fn into_reply(self) -> Reply {
        let Self {
            status,
            code,
            message,
            details,
        } = self;
        let error = json!({"error": {"code": code, "message": message, "details": details}});
        Reply {
            status,
            body: Some(error),
        }
    }
}

/// Answers one call. Ends due actions first, so that a reply never shows stale state.
pub(super) fn answer(world: &mut World, call: &Call) -> Reply {
    world.settle(call.now);
    dispatch(world, call).unwrap_or_else(Refusal::into_reply)
}

fn dispatch(world: &mut World, call: &Call) -> Result<Reply, Refusal> {
    let segments: Vec<&str> = call.path.split('/').collect();
    // HEAD is handled as GET; the server drops the body.
    let method = if call.method == Method::HEAD {
        "GET"
    } else {
        call.method.as_str()
    };
    match (method, segments.as_slice()) {
        ("GET", ["locations"]) => {
            let named = named(&Location::ALL, call, |place| place.name());
            query::list(call, "locations", &named, |place| place.json())
        }
        ("GET", ["locations", id]) => Location::ALL
            .into_iter()
            .find(|place| place.id().to_string() == *id)
            .map(|place| Reply::ok(json!({"location": place.json()})))
            .ok_or_else(|| Refusal::not_found("location", id)),
        ("GET", ["server_types"]) => {
            let named = named(&ServerType::ALL, call, |size| size.name());
            query::list(call, "server_types", &named, |size| size.json())
        }
        ("GET", ["server_types", id]) => ServerType::ALL
            .into_iter()
            .find(|size| size.id().to_string() == *id)
            .map(|size| Reply::ok(json!({"server_type": size.json()})))
            .ok_or_else(|| Refusal::not_found("server type", id)),
        ("GET", ["servers"]) => servers::list(world, call),
        ("POST", ["servers"]) => servers::create(world, call),
        ("GET", ["servers", id]) => servers::get(world, id),
        ("DELETE", ["servers", id]) => servers::delete(world, call, id),
        ("POST", ["servers", id, "actions", command]) => servers::act(world, call, id, command),
        ("GET", ["servers", id, "actions"]) => {
            let id = servers::known(world, id)?;
            list_actions(world, call, Some(Resource::Server(id)))
        }
        ("GET", ["networks"]) => networks::list(world, call),
        ("POST", ["networks"]) => networks::create(world, call),
        ("GET", ["networks", id]) => networks::get(world, id),
        ("PUT", ["networks", id]) => networks::update(world, call, id),
        ("DELETE", ["networks", id]) => networks::delete(world, id),
        ("POST", ["networks", id, "actions", command]) => networks::act(world, call, id, command),
        ("GET", ["networks", id, "actions"]) => {
            let id = networks::known(world, id)?;
            list_actions(world, call, Some(Resource::Network(id)))
        }
        ("GET", ["load_balancer_types", rest @ ..]) => load_balancer_types::read(world, call, rest),
        (method, ["load_balancers", rest @ ..]) => {
            load_balancers::answer(world, call, method, rest)
        }
        (method, ["certificates", rest @ ..]) => certificates::answer(world, call, method, rest),
        ("GET", ["actions"]) => list_actions(world, call, None),
        ("GET", ["actions", id] | ["servers" | "networks", _, "actions", id]) => {
            get_action(world, id)
        }
        _ => Err(Refusal::no_endpoint(call)),
    }
}

pub(super) fn get_action(world: &World, id: &str) -> Result<Reply, Refusal> {
    let action = id.parse().ok().and_then(|id| world.actions.get(id));
    let action = action.ok_or_else(|| Refusal::not_found("action", id))?;
    Ok(Reply::ok(json!({"action": action.json()})))
}

/// Starts an action for this call and returns its view.
pub(super) fn start(
    world: &mut World,
    call: &Call,
    command: &'static str,
    resources: Vec<Resource>,
    effect: Effect,
) -> Value {
    start_with(world, call, command, resources, |failure| match failure {
        None => effect,
        Some(_) => Effect::Nothing,
    })
}

/// As [`start`], for an action that changes something even if it fails.
pub(super) fn start_with(
    world: &mut World,
    call: &Call,
    command: &'static str,
    resources: Vec<Resource>,
    effect: impl FnOnce(Option<&Failure>) -> Effect,
) -> Value {
    let at = ends_at(call.now, world.action_duration);
    let end = End {
        failure: call.failure.clone(),
        effect: effect(call.failure.as_ref()),
    };
    let started = world.timestamp();
    let id = world.actions.start(command, resources, started, at, end);
    if world.prompt_actions {
        world.settle(call.now);
    }
    world
        .actions
        .get(id)
        .map_or(Value::Null, |action| action.json())
}

/// Parses a JSON body: malformed JSON is a `json_error`, a missing or unknown field or one of the wrong type is
/// `invalid_input`.
pub(super) fn body<T: DeserializeOwned>(call: &Call) -> Result<T, Refusal> {
    serde_json::from_slice(&call.body).map_err(|error| {
        let message = error.to_string();
        if error.is_data() {
            let named = ["missing field `", "unknown field `"];
            let mut named = named.iter().filter_map(|words| message.strip_prefix(words));
            let field = named.next().and_then(|rest| rest.split('`').next());
            let field = field.unwrap_or("body");
            return Refusal::invalid(field, &message);
        }
        let message = format!("cannot read the request body: {message}");
        Refusal::new(StatusCode::BAD_REQUEST, "json_error", message)
    })
}

/// The end of an action that starts now; `None` (never) if the sum overflows.
fn ends_at(now: Instant, duration: Duration) -> Option<Instant> {
    now.checked_add(duration)
}

fn named<T: Copy>(all: &[T], call: &Call, name: impl Fn(T) -> &'static str) -> Vec<T> {
    let wanted = call.query.first("name");
    all.iter()
        .copied()
        .filter(|one| wanted.is_none_or(|wanted| name(*one) == wanted))
        .collect()
}

/// Lists actions. Without a resource the vendor lists only actions requested by ID.
pub(super) fn list_actions(
    world: &World,
    call: &Call,
    of: Option<Resource>,
) -> Result<Reply, Refusal> {
    if of.is_none() && call.query.numbers("id")?.is_empty() {
        let message = "listing actions needs at least one id";
        return Err(Refusal::new(
            StatusCode::GONE,
            "deprecated_api_endpoint",
            message,
        ));
    }
    list_some_actions(world, call, |action| {
        of.is_none_or(|of| action.resources.contains(&of))
    })
}

/// Lists the actions that match `about` and the request's filters.
pub(super) fn list_some_actions(
    world: &World,
    call: &Call,
    about: impl Fn(&Action) -> bool,
) -> Result<Reply, Refusal> {
    let ids = call.query.numbers("id")?;
    let statuses = call.query.all("status");
    let mut actions: Vec<_> = world
        .actions
        .iter()
        .filter(|action| about(action))
        .filter(|action| ids.is_empty() || ids.contains(&action.id))
        .filter(|action| statuses.is_empty() || statuses.contains(&action.status()))
        .collect();
    query::sort(
        call,
        &mut actions,
        &[
            ("id", |left, right| left.id.cmp(&right.id)),
            ("command", |left, right| left.command.cmp(right.command)),
            ("status", |left, right| left.status().cmp(right.status())),
            ("started", |left, right| left.started.cmp(&right.started)),
        ],
    )?;
    query::list(call, "actions", &actions, |action| action.json())
}
