//! Limits of counts and lengths in answers, as the contract documents them and the host checks them. An answer beyond
//! one is an error of the provider.

use std::collections::BTreeSet;

use super::manifest::Manifest;
use crate::instances::{REASON_BYTES, at_most, check_limits};
use crate::load_balancer::{EnsureReply, Ensured, Found, Progress, ProgressReply};
use crate::owner::check_owner;
use crate::routes::{self, Route, Target};
use crate::{
    AnnotationChange, Conflict, Error, Event, Failure, FindReply, Ingress, Instance,
    LoadBalancerStatus, Lookup, Pending, PortStatus,
};

const MESSAGE_BYTES: usize = 1024;
const EVENT_REASON_BYTES: usize = 64;
const PLACE_BYTES: usize = 253;
const NODE_EVENTS: usize = 256;
const EVENTS_PER_NODE: usize = 8;
const EVENTS: usize = 16;
const ANNOTATIONS: usize = 16;
const KEY_BYTES: usize = 317;
const VALUE_BYTES: usize = 4096;
const INGRESS: usize = 16;
const PORTS: usize = 256;
const PORT_ERROR_BYTES: usize = 316;
const HINT_BYTES: usize = 4096;
const ROUTES: usize = 40_000;
const ROUTE_ID_BYTES: usize = 512;
const DESTINATION_BYTES: usize = 64;
const OTHER_BYTES: usize = 256;
const EXTRA: usize = 16;
const EXTRA_BYTES: usize = 1024;

type Checked = Result<(), String>;

pub(super) fn check_find(reply: &FindReply, asked: usize, manifest: Option<&Manifest>) -> Checked {
    if reply.lookups.len() != asked {
        return Err(format!(
            "find answered {} lookups for {asked} nodes",
            reply.lookups.len()
        ));
    }
    for (index, lookup) in reply.lookups.iter().enumerate() {
        check_lookup(lookup, manifest).map_err(|what| format!("find, lookup {index}: {what}"))?;
    }
    at_most("events", reply.events.len(), NODE_EVENTS).map_err(|what| format!("find: {what}"))?;
    let mut per_node = vec![0_usize; asked];
    for event in &reply.events {
        let node = usize::try_from(event.node).unwrap_or(usize::MAX);
        let Some(count) = per_node.get_mut(node) else {
            return Err(format!("find: an event about node {node} of {asked}"));
        };
        *count += 1;
        at_most("events of one node", *count, EVENTS_PER_NODE)
            .and_then(|()| check_event(&event.event))
            .map_err(|what| format!("find, event about node {node}: {what}"))?;
    }
    Ok(())
}

/// The error of a call.
pub(super) trait Failing {
    /// Checks the error's own fields.
    fn check(&self) -> Checked;
}

impl Failing for Error {
    fn check(&self) -> Checked {
        match self {
            Error::Conflict(Conflict {
                owner: Some(owner), ..
            }) => check_owner(owner).map_err(|what| format!("a conflict: {what}")),
            _ => Ok(()),
        }
    }
}

impl Failing for Failure {
    fn check(&self) -> Checked {
        check_events(&self.events).map_err(|what| format!("a failure: {what}"))?;
        self.error.check()
    }
}

pub(super) fn check_ensure(reply: &EnsureReply) -> Checked {
    match &reply.ensured {
        Ensured::Ready(status) => check_status(status),
        Ensured::Pending(pending) => check_pending(pending),
    }
    .and_then(|()| check_wishes(&reply.events, &reply.annotations))
    .map_err(|what| format!("ensure: {what}"))
}

pub(super) fn check_progress(function: &str, reply: &ProgressReply) -> Checked {
    match &reply.progress {
        Progress::Done => Ok(()),
        Progress::Pending(pending) => check_pending(pending),
    }
    .and_then(|()| check_wishes(&reply.events, &reply.annotations))
    .map_err(|what| format!("{function}: {what}"))
}

pub(super) fn check_found(found: &Found) -> Checked {
    match found {
        Found::Present(status) => check_status(status),
        Found::Absent => Ok(()),
    }
    .map_err(|what| format!("get: {what}"))
}

pub(super) fn check_routes(listed: &[Route], nodes: &BTreeSet<String>) -> Checked {
    at_most("routes", listed.len(), ROUTES).map_err(|what| format!("list: {what}"))?;
    for (index, route) in listed.iter().enumerate() {
        check_route(route, nodes).map_err(|what| format!("list, route {index}: {what}"))?;
    }
    Ok(())
}

pub(super) fn check_route_progress(function: &str, reply: &routes::ProgressReply) -> Checked {
    match &reply.progress {
        routes::Progress::Done => Ok(()),
        routes::Progress::Pending(pending) => check_pending(pending),
    }
    .and_then(|()| check_events(&reply.events))
    .map_err(|what| format!("{function}: {what}"))
}

fn check_lookup(lookup: &Lookup, manifest: Option<&Manifest>) -> Checked {
    match lookup {
        Lookup::Found(instance) => check_instance(instance, manifest),
        Lookup::Unknown(reason) => at_most("bytes of a reason", reason.len(), REASON_BYTES),
        Lookup::Gone | Lookup::NotMine => Ok(()),
    }
}

fn check_instance(instance: &Instance, manifest: Option<&Manifest>) -> Checked {
    check_limits(instance)?;
    let provider_id = &instance.provider_id;
    // The controllers would hold such an answer back, with an Event.
    let schemes = manifest.map_or(&[][..], Manifest::owned_schemes);
    let id = provider_id
        .split_once("://")
        .filter(|(_, id)| !id.is_empty());
    match id {
        Some((scheme, _)) if manifest.is_none() || schemes.iter().any(|one| one == scheme) => {
            Ok(())
        }
        _ => Err(format!(
            "the provider ID {provider_id:?} has none of this provider's schemes: {}",
            schemes.join(", ")
        )),
    }
}

fn check_event(event: &Event) -> Checked {
    let reason = &event.reason;
    let is_word = reason.starts_with(|first: char| first.is_ascii_uppercase())
        && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_word || reason.len() > EVENT_REASON_BYTES {
        return Err(format!(
            "its reason is not a CamelCase word of 1 to {EVENT_REASON_BYTES} letters and digits"
        ));
    }
    at_most("bytes of a message", event.message.len(), MESSAGE_BYTES)
}

fn check_status(status: &LoadBalancerStatus) -> Checked {
    at_most("ways in", status.ingress.len(), INGRESS)?;
    for (index, ingress) in status.ingress.iter().enumerate() {
        check_ingress(ingress).map_err(|what| format!("way in {index}: {what}"))?;
    }
    Ok(())
}

fn check_ingress(ingress: &Ingress) -> Checked {
    for (what, place) in [("IP address", &ingress.ip), ("hostname", &ingress.hostname)] {
        if let Some(place) = place {
            at_most(&format!("bytes of its {what}"), place.len(), PLACE_BYTES)?;
            if place.is_empty() {
                return Err(format!("its {what} is empty"));
            }
        }
    }
    if ingress.ip.is_none() && ingress.hostname.is_none() {
        return Err("it has neither an IP address nor a hostname".to_owned());
    }
    if ingress.ip_mode.is_some() && ingress.ip.is_none() {
        return Err("it has an IP mode and no IP address".to_owned());
    }
    at_most("ports", ingress.ports.len(), PORTS)?;
    ingress.ports.iter().try_for_each(check_port)
}

fn check_port(port: &PortStatus) -> Checked {
    if port.port == 0 {
        return Err("port 0 is none".to_owned());
    }
    let Some(error) = &port.error else {
        return Ok(());
    };
    at_most("bytes of a port's error", error.len(), PORT_ERROR_BYTES)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    match error.is_empty() || !error.bytes().all(is_name) {
        true => Err(format!(
            "the error of port {} is neither a CamelCase word nor a qualified name",
            port.port
        )),
        false => Ok(()),
    }
}

fn check_pending(pending: &Pending) -> Checked {
    let hint = pending.hint.as_ref().map_or(0, Vec::len);
    at_most("bytes of a hint", hint, HINT_BYTES)
}

fn check_wishes(events: &[Event], annotations: &[AnnotationChange]) -> Checked {
    check_events(events)?;
    at_most("annotations", annotations.len(), ANNOTATIONS)?;
    for (index, change) in annotations.iter().enumerate() {
        check_change(change).map_err(|what| format!("annotation {index}: {what}"))?;
    }
    Ok(())
}

fn check_events(events: &[Event]) -> Checked {
    at_most("events", events.len(), EVENTS)?;
    for (index, event) in events.iter().enumerate() {
        check_event(event).map_err(|what| format!("event {index}: {what}"))?;
    }
    Ok(())
}

fn check_change(change: &AnnotationChange) -> Checked {
    if change.key.is_empty() {
        return Err("its key is empty".to_owned());
    }
    at_most("bytes of a key", change.key.len(), KEY_BYTES)?;
    let value = change.value.as_deref().unwrap_or_default();
    at_most("bytes of a value", value.len(), VALUE_BYTES)?;
    match change.key.contains(char::is_control) || value.contains(char::is_control) {
        true => Err("it has control characters".to_owned()),
        false => Ok(()),
    }
}

fn check_route(route: &Route, nodes: &BTreeSet<String>) -> Checked {
    at_most("bytes of an id", route.id.len(), ROUTE_ID_BYTES)?;
    if route.id.is_empty() || route.id.contains(char::is_control) {
        return Err("its id is empty or has control characters".to_owned());
    }
    let destination = &route.destination_cidr;
    at_most(
        "bytes of a destination",
        destination.len(),
        DESTINATION_BYTES,
    )?;
    if destination.is_empty() || !destination.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("its destination is empty or has characters that no CIDR has".to_owned());
    }
    match &route.target {
        Target::Node(name) | Target::Outdated(name) if !nodes.contains(name) => {
            return Err("it leads to a node that the call was not about".to_owned());
        }
        Target::Other(what) => at_most("bytes of what it leads to", what.len(), OTHER_BYTES)?,
        Target::Node(_) | Target::Outdated(_) | Target::Blackhole => {}
    }
    at_most("entries of extra", route.extra.len(), EXTRA)?;
    let extra = route.extra.iter();
    let extra = extra.map(|(key, value)| key.len() + value.len());
    at_most("bytes of extra", extra.sum(), EXTRA_BYTES)
}
