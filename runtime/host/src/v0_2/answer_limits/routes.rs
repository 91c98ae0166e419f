//! Caps and lengths of answers about routes. Core decides whether a destination is a pod network and handles
//! duplicates.

use std::collections::HashSet;

use super::at_most;
use super::load_balancer::{check_events, check_pending};
use crate::bindings::routes;
use crate::limits;

/// Length of a next hop that is not a node; it appears in Events and logs.
pub(in crate::v0_2) const OTHER_BYTES: usize = 256;

const ID_BYTES: usize = 512;
/// Length of a destination: the longest form of an IPv6 address has 45 bytes, a slash and a prefix length 4 more.
const DESTINATION_BYTES: usize = 64;
const EXTRA: usize = 16;
/// Length of the keys and values of one route together: enough to find it again, not a copy of it.
const EXTRA_BYTES: usize = 1024;

/// Checks the answer to `list` about the nodes with these names.
///
/// # Errors
/// A description of the mistake.
pub(in crate::v0_2) fn check_routes(
    listed: &[routes::Route],
    nodes: &HashSet<&str>,
) -> Result<(), String> {
    at_most("routes", listed.len(), limits::ROUTES).map_err(|what| format!("list: {what}"))?;
    for (index, route) in listed.iter().enumerate() {
        check_route(route, nodes).map_err(|what| format!("list, route {index}: {what}"))?;
    }
    Ok(())
}

/// Checks the answer to `create` or `delete`; `function` is its name.
///
/// # Errors
/// A description of the mistake.
pub(in crate::v0_2) fn check_route_progress(
    function: &str,
    reply: &routes::ProgressReply,
) -> Result<(), String> {
    match &reply.progress {
        routes::Progress::Done => Ok(()),
        routes::Progress::Pending(pending) => check_pending(pending),
    }
    .and_then(|()| check_events(&reply.events))
    .map_err(|what| format!("{function}: {what}"))
}

fn check_route(route: &routes::Route, nodes: &HashSet<&str>) -> Result<(), String> {
    let routes::Route {
        id,
        destination_cidr: destination,
        target,
        extra,
    } = route;
    at_most("bytes of an id", id.len(), ID_BYTES)?;
    // Refused instead of cleaned: the ID passed back has to be the one that the cloud knows.
    if id.is_empty() || id.contains(char::is_control) {
        return Err("its id is empty or has control characters".to_owned());
    }
    at_most(
        "bytes of a destination",
        destination.len(),
        DESTINATION_BYTES,
    )?;
    if destination.is_empty() || !destination.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("its destination is empty or has characters that no CIDR has".to_owned());
    }
    match target {
        routes::Target::Node(name) | routes::Target::Outdated(name) => {
            // An unknown node would be mistaken for one that has vanished.
            if !nodes.contains(name.as_str()) {
                return Err("it leads to a node that the call was not about".to_owned());
            }
        }
        routes::Target::Blackhole => {}
        routes::Target::Other(what) => {
            at_most("bytes of what it leads to", what.len(), OTHER_BYTES)?;
        }
    }
    at_most("entries of extra", extra.len(), EXTRA)?;
    let extra = extra.iter().map(|(key, value)| key.len() + value.len());
    at_most("bytes of extra", extra.sum(), EXTRA_BYTES)
}
