//! Caps and lengths that the contract documents for answers. An answer beyond one is an error of the guest and never
//! truncated: a guest that miscounts may also have misread. The fields of records that have texts are named, so that a
//! new one is not forgotten.

mod load_balancer;
mod routes;

use ccm_core::cloud::ProviderError;
use ccm_core::name_syntax::{is_dns_label, is_dns_subdomain};

use crate::bindings::{common, instances};

pub(super) use load_balancer::{check_ensure, check_events, check_found, check_progress};
pub(super) use routes::{OTHER_BYTES, check_route_progress, check_routes};

/// Length of event messages, reasons of `unknown`, and conflict messages.
pub(super) const MESSAGE_BYTES: usize = 1024;
/// Length of an owner UID; UIDs of the API server have 36 bytes.
const OWNER_BYTES: usize = 128;

const EVENTS: usize = 256;
const EVENTS_PER_NODE: usize = 8;
const REASON_BYTES: usize = 64;
const PROVIDER_ID_BYTES: usize = 512;
const LABEL_VALUE_BYTES: usize = 63;
const LABELS: usize = 64;
const ADDRESSES: usize = 64;
const ADDRESS_BYTES: usize = 253;

/// Returns the reply if `check` accepts its shape.
pub(super) fn checked<R>(
    reply: R,
    check: impl FnOnce(&R) -> Result<(), String>,
) -> Result<R, ProviderError> {
    check(&reply).map_err(ProviderError::Internal)?;
    Ok(reply)
}

/// Checks the answer to `find` about `asked` nodes.
///
/// # Errors
/// A description of the mistake.
pub(super) fn check_find(reply: &instances::FindReply, asked: usize) -> Result<(), String> {
    if reply.lookups.len() != asked {
        return Err(format!(
            "find answered {} lookups for {asked} nodes",
            reply.lookups.len()
        ));
    }
    for (index, lookup) in reply.lookups.iter().enumerate() {
        check_lookup(lookup).map_err(|what| format!("find, lookup {index}: {what}"))?;
    }
    at_most("events", reply.events.len(), EVENTS).map_err(|what| format!("find: {what}"))?;
    let mut per_node = vec![0_usize; asked];
    for event in &reply.events {
        let Some(count) = per_node.get_mut(event.node as usize) else {
            return Err(format!(
                "find: an event about node {} of {asked}",
                event.node
            ));
        };
        *count += 1;
        at_most("events of one node", *count, EVENTS_PER_NODE)
            .and_then(|()| check_event(&event.event))
            .map_err(|what| format!("find, event about node {}: {what}", event.node))?;
    }
    Ok(())
}

/// Checks a conflict.
///
/// # Errors
/// A description of the mistake.
pub(super) fn check_conflict(conflict: &common::Conflict) -> Result<(), String> {
    let Some(owner) = &conflict.owner else {
        return Ok(());
    };
    check_owner(owner).map_err(|what| format!("a conflict: {what}"))
}

fn check_owner(owner: &common::Owner) -> Result<(), String> {
    match owner {
        common::Owner::Uid(uid) => {
            at_most("bytes of an owner", uid.len(), OWNER_BYTES)?;
            match !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_graphic()) {
                true => Ok(()),
                false => Err("an owner that is no UID".to_owned()),
            }
        }
        common::Owner::Name(common::NamespacedName { namespace, name }) => {
            match is_dns_label(namespace) && is_dns_subdomain(name) {
                true => Ok(()),
                false => Err("an owner that no object can be called".to_owned()),
            }
        }
    }
}

fn check_lookup(lookup: &instances::Lookup) -> Result<(), String> {
    match lookup {
        instances::Lookup::Found(instance) => check_instance(instance),
        instances::Lookup::Unknown(reason) => {
            at_most("bytes of a reason", reason.len(), MESSAGE_BYTES)
        }
        instances::Lookup::Gone | instances::Lookup::NotMine => Ok(()),
    }
}

fn check_instance(instance: &common::Instance) -> Result<(), String> {
    // Core drops a label that is too long, and `extra` is not read.
    let common::Instance {
        provider_id,
        instance_type,
        zone,
        region,
        addresses,
        labels,
        shutdown: _,
        extra: _,
    } = instance;
    at_most(
        "bytes of a provider ID",
        provider_id.len(),
        PROVIDER_ID_BYTES,
    )?;
    for (what, value) in [
        ("bytes of an instance type", instance_type),
        ("bytes of a zone", zone),
        ("bytes of a region", region),
    ] {
        at_most(
            what,
            value.as_ref().map_or(0, String::len),
            LABEL_VALUE_BYTES,
        )?;
    }
    at_most("addresses", addresses.len(), ADDRESSES)?;
    for address in addresses {
        at_most("bytes of an address", address.address.len(), ADDRESS_BYTES)?;
    }
    at_most("labels", labels.len(), LABELS)
}

fn check_event(event: &common::Event) -> Result<(), String> {
    let common::Event {
        event_type: _,
        reason,
        message,
    } = event;
    let is_word = reason.starts_with(|first: char| first.is_ascii_uppercase())
        && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_word || reason.len() > REASON_BYTES {
        return Err(format!(
            "its reason is not a CamelCase word of 1 to {REASON_BYTES} letters and digits"
        ));
    }
    at_most("bytes of a message", message.len(), MESSAGE_BYTES)
}

fn at_most(what: &str, found: usize, limit: usize) -> Result<(), String> {
    if found <= limit {
        Ok(())
    } else {
        Err(format!("{found} {what}, at most {limit} allowed"))
    }
}
