//! The load balancer endpoints, and the JSON view of a load balancer.
//!
//! A load balancer is `new` for a while, without an address. While it is new or has just been changed, it refuses
//! changes with the vendor's 403.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::account::Account;
use super::api::{self, Call, Refusal};
use super::load_balancer_body::{self, Requested};
use super::places;
use crate::loopback::Reply;

/// Maximum number of load balancers that requests may create; the handle may add more.
const MAX_LOAD_BALANCERS: usize = 1_000;

/// A load balancer of the account.
pub(super) struct LoadBalancer {
    pub(super) id: String,
    /// Number of the load balancer in the account; determines its addresses.
    number: u32,
    created: String,
    status: &'static str,
    /// End of its creation, and the status that it then gets.
    made: Option<(Instant, &'static str)>,
    /// Time until which it refuses changes.
    busy: Option<Instant>,
    pub(super) tags: BTreeSet<String>,
    pub(super) droplets: BTreeSet<u64>,
    /// Every other field that a request may set, with the vendor's defaults.
    fields: Map<String, Value>,
}

const NEW: &str = "new";
const ACTIVE: &str = "active";
const ERRORED: &str = "errored";

impl LoadBalancer {
    pub(super) fn settle(&mut self, now: Instant) {
        if let Some((at, status)) = self.made
            && at <= now
        {
            self.status = status;
            self.made = None;
        }
        self.busy = self.busy.filter(|until| *until > now);
    }

    fn text(&self, key: &str) -> &str {
        self.fields
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Refuses a change that comes too early, as the vendor does.
    fn accepts_changes(&self) -> Result<(), Refusal> {
        if self.status != NEW && self.busy.is_none() {
            return Ok(());
        }
        let message = "Load Balancer can't be updated while it processes previous actions";
        Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", message))
    }
}

pub(super) fn answer(
    account: &mut Account,
    call: &Call,
    method: &str,
    rest: &[&str],
) -> Result<Reply, Refusal> {
    match (method, rest) {
        ("GET", []) => {
            let all = account.load_balancers.iter();
            api::list(
                call,
                "load_balancers",
                all.map(|one| show(account, one)).collect(),
            )
        }
        ("POST", []) => create(account, call),
        ("GET", [id]) => {
            let place = find(account, id)?;
            Ok(Reply::ok(one(account, place)))
        }
        ("PUT", [id]) => update(account, call, id),
        ("DELETE", [id]) => {
            let place = find(account, id)?;
            account.load_balancers.remove(place);
            Ok(Reply::no_content())
        }
        ("POST", [id, "droplets"]) => assign(account, call, id, true),
        ("DELETE", [id, "droplets"]) => assign(account, call, id, false),
        _ => Err(Refusal::not_found()),
    }
}

fn create(account: &mut Account, call: &Call) -> Result<Reply, Refusal> {
    if account.load_balancers.len() >= MAX_LOAD_BALANCERS {
        let message = "You have reached the load balancer limit of this account.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    let requested = Requested::read(account, call.json()?)?;
    let end = if call.action_fails { ERRORED } else { ACTIVE };
    let place = make(account, requested, call.now, end);
    if account.is_prompt {
        account.settle(call.now);
    }
    Ok(Reply {
        status: StatusCode::ACCEPTED,
        body: Some(one(account, place)),
    })
}

fn make(account: &mut Account, requested: Requested, now: Instant, end: &'static str) -> usize {
    let (id, number, created) = (account.uuid(), account.number(), account.timestamp());
    account.tags.extend(requested.tags.iter().cloned());
    account.load_balancers.push(LoadBalancer {
        id,
        number,
        created,
        status: NEW,
        made: now.checked_add(account.creation).map(|at| (at, end)),
        busy: None,
        tags: requested.tags,
        droplets: requested.droplets,
        fields: requested.fields,
    });
    account.load_balancers.len() - 1
}

pub(super) fn add(account: &mut Account, body: Value) -> Result<String, String> {
    let requested = Requested::read(account, body).map_err(|refusal| format!("{refusal:?}"))?;
    let place = make(account, requested, Instant::now(), ACTIVE);
    let balancer = account.load_balancers.get_mut(place);
    Ok(balancer.map_or_else(String::new, |balancer| {
        (balancer.status, balancer.made) = (ACTIVE, None);
        balancer.id.clone()
    }))
}

/// Replaces all fields except those that are fixed at creation. Tags are read at creation only; later they have
/// endpoints of their own.
fn update(account: &mut Account, call: &Call, id: &str) -> Result<Reply, Refusal> {
    let place = find(account, id)?;
    let requested = Requested::read(account, call.json()?)?;
    let busy = call
        .now
        .checked_add(account.change)
        .filter(|until| *until > call.now);
    if let Some(balancer) = account.load_balancers.get_mut(place) {
        balancer.accepts_changes()?;
        for fixed in load_balancer_body::FIXED {
            if requested.fields.get(*fixed) != balancer.fields.get(*fixed) {
                return Err(Refusal::unprocessable(format!("{fixed} cannot be updated")));
            }
        }
        balancer.droplets = requested.droplets;
        balancer.fields = requested.fields;
        balancer.busy = busy;
    }
    Ok(Reply::ok(one(account, place)))
}

#[derive(Deserialize)]
struct Droplets {
    droplet_ids: Vec<u64>,
}

fn assign(account: &mut Account, call: &Call, id: &str, adds: bool) -> Result<Reply, Refusal> {
    let place = find(account, id)?;
    let Droplets { droplet_ids } = call.json()?;
    let busy = call
        .now
        .checked_add(account.change)
        .filter(|until| *until > call.now);
    let region = account
        .load_balancers
        .get(place)
        .map(|one| one.text("region").to_owned());
    if adds {
        load_balancer_body::droplets(account, &droplet_ids, &region.unwrap_or_default())?;
    }
    if let Some(balancer) = account.load_balancers.get_mut(place) {
        if !balancer.text("tag").is_empty() {
            let message = "droplets cannot be added to a load balancer with a tag";
            return Err(Refusal::unprocessable(message));
        }
        balancer.accepts_changes()?;
        for id in droplet_ids {
            match adds {
                true => balancer.droplets.insert(id),
                false => balancer.droplets.remove(&id),
            };
        }
        balancer.busy = busy;
    }
    Ok(Reply::no_content())
}

fn find(account: &Account, id: &str) -> Result<usize, Refusal> {
    let place = account.load_balancers.iter().position(|one| one.id == id);
    place.ok_or_else(Refusal::not_found)
}

fn one(account: &Account, place: usize) -> Value {
    let shown = account
        .load_balancers
        .get(place)
        .map(|one| show(account, one));
    json!({"load_balancer": shown})
}

/// The load balancer with the vendor's fields. A new one has no address, and an internal one has a private address.
pub(super) fn show(account: &Account, one: &LoadBalancer) -> Value {
    let is_internal = one.text("network") == "INTERNAL";
    let base = match is_internal {
        true => Ipv4Addr::new(10, 110, 8, 0),
        false => Ipv4Addr::new(198, 19, 0, 0),
    };
    let has_address = one.status == ACTIVE;
    let ip = Ipv4Addr::from_bits(base.to_bits() + one.number).to_string();
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 0).to_bits() + u128::from(one.number);
    let is_dual = one.text("network_stack") == "DUALSTACK";
    let mut shown = one.fields.clone();
    let chosen = shown.remove("chosen_ip");
    let ip = chosen
        .and_then(|ip| ip.as_str().map(str::to_owned))
        .unwrap_or(ip);
    let tag = one.text("tag");
    let tagged = account
        .droplets
        .values()
        .filter(|droplet| droplet.spec.tags.iter().any(|one| one == tag));
    let droplets: BTreeSet<u64> = match tag {
        "" => one.droplets.clone(),
        _ => tagged.map(|droplet| droplet.id).collect(),
    };
    let more: BTreeMap<&str, Value> = [
        ("id", json!(one.id)),
        ("ip", json!(if has_address { ip } else { String::new() })),
        ("status", json!(one.status)),
        ("created_at", json!(one.created)),
        ("region", places::show_region(one.text("region"))),
        ("droplet_ids", json!(droplets)),
        // The vendor's documentation does not promise the tags.
        ("tags", json!(one.tags)),
    ]
    .into();
    shown.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
    if is_dual && has_address {
        shown.insert("ipv6".to_owned(), json!(Ipv6Addr::from_bits(v6)));
    }
    Value::Object(shown)
}
