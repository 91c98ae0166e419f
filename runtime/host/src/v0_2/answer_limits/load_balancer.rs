//! Caps and lengths of answers about load balancers. Core decides whether an address may be stored and a key set.

use super::{at_most, check_event};
use crate::bindings::{common, load_balancer};

const EVENTS: usize = 16;
const ANNOTATIONS: usize = 16;
/// Length of an annotation key: a domain, a slash and a name, with 253, 1 and 63 bytes in the Kubernetes API.
const KEY_BYTES: usize = 317;
const VALUE_BYTES: usize = 4096;
const INGRESS: usize = 16;
const PLACE_BYTES: usize = 253;
/// Maximum number of ports: more than any Service has in practice; the same as core's.
const PORTS: usize = 256;
/// Length of a port's error: a qualified name, as the contract has it.
const ERROR_BYTES: usize = 316;
const HINT_BYTES: usize = 4096;

/// Checks the answer to `ensure`.
///
/// # Errors
/// A description of the mistake.
pub(in crate::v0_2) fn check_ensure(reply: &load_balancer::EnsureReply) -> Result<(), String> {
    let load_balancer::EnsureReply {
        ensured,
        events,
        annotations,
    } = reply;
    match ensured {
        load_balancer::Ensured::Ready(status) => check_status(status),
        load_balancer::Ensured::Pending(pending) => check_pending(pending),
    }
    .and_then(|()| check_wishes(events, annotations))
    .map_err(|what| format!("ensure: {what}"))
}

/// Checks the answer to `update-targets` or `delete`; `function` is its name.
///
/// # Errors
/// A description of the mistake.
pub(in crate::v0_2) fn check_progress(
    function: &str,
    reply: &load_balancer::ProgressReply,
) -> Result<(), String> {
    match &reply.progress {
        load_balancer::Progress::Done => Ok(()),
        load_balancer::Progress::Pending(pending) => check_pending(pending),
    }
    .and_then(|()| check_wishes(&reply.events, &reply.annotations))
    .map_err(|what| format!("{function}: {what}"))
}

/// Checks the answer to `get`.
///
/// # Errors
/// A description of the mistake.
pub(in crate::v0_2) fn check_found(found: &load_balancer::Found) -> Result<(), String> {
    match found {
        load_balancer::Found::Present(status) => check_status(status),
        load_balancer::Found::Absent => Ok(()),
    }
    .map_err(|what| format!("get: {what}"))
}

fn check_status(status: &common::LoadBalancerStatus) -> Result<(), String> {
    at_most("ways in", status.ingress.len(), INGRESS)?;
    for (index, ingress) in status.ingress.iter().enumerate() {
        check_ingress(ingress).map_err(|what| format!("way in {index}: {what}"))?;
    }
    Ok(())
}

fn check_ingress(ingress: &common::Ingress) -> Result<(), String> {
    let common::Ingress {
        ip,
        hostname,
        ip_mode,
        ports,
    } = ingress;
    for (what, place) in [("IP address", ip), ("hostname", hostname)] {
        if let Some(place) = place {
            at_most(&format!("bytes of its {what}"), place.len(), PLACE_BYTES)?;
            // An empty value must not stand for "unset".
            if place.is_empty() {
                return Err(format!("its {what} is empty"));
            }
        }
    }
    if ip.is_none() && hostname.is_none() {
        return Err("it has neither an IP address nor a hostname".to_owned());
    }
    if ip_mode.is_some() && ip.is_none() {
        return Err("it has an IP mode and no IP address".to_owned());
    }
    at_most("ports", ports.len(), PORTS)?;
    ports.iter().try_for_each(check_port)
}

fn check_port(status: &common::PortStatus) -> Result<(), String> {
    let common::PortStatus {
        port,
        protocol: _,
        error,
    } = status;
    if *port == 0 {
        return Err("port 0 is none".to_owned());
    }
    let Some(error) = error else {
        return Ok(());
    };
    at_most("bytes of a port's error", error.len(), ERROR_BYTES)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if error.is_empty() || !error.bytes().all(is_name) {
        return Err(format!(
            "the error of port {port} is neither a CamelCase word nor a qualified name"
        ));
    }
    Ok(())
}

pub(super) fn check_pending(pending: &common::Pending) -> Result<(), String> {
    let hint = pending.hint.as_ref().map_or(0, Vec::len);
    at_most("bytes of a hint", hint, HINT_BYTES)
}

/// Checks the events and annotation changes that the guest wants for the Service.
fn check_wishes(
    events: &[common::Event],
    annotations: &[common::AnnotationChange],
) -> Result<(), String> {
    check_events(events)?;
    at_most("annotations", annotations.len(), ANNOTATIONS)?;
    for (index, change) in annotations.iter().enumerate() {
        check_change(change).map_err(|what| format!("annotation {index}: {what}"))?;
    }
    Ok(())
}

pub(in crate::v0_2) fn check_events(events: &[common::Event]) -> Result<(), String> {
    at_most("events", events.len(), EVENTS)?;
    for (index, event) in events.iter().enumerate() {
        check_event(event).map_err(|what| format!("event {index}: {what}"))?;
    }
    Ok(())
}

fn check_change(change: &common::AnnotationChange) -> Result<(), String> {
    let common::AnnotationChange { key, value } = change;
    if key.is_empty() {
        return Err("its key is empty".to_owned());
    }
    at_most("bytes of a key", key.len(), KEY_BYTES)?;
    let value = value.as_deref().unwrap_or_default();
    at_most("bytes of a value", value.len(), VALUE_BYTES)?;
    // People read annotations in terminals. The value is refused, because an altered value would be worse.
    if key.contains(char::is_control) || value.contains(char::is_control) {
        return Err("it has control characters".to_owned());
    }
    Ok(())
}
