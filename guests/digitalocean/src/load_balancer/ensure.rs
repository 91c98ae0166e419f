//! Makes the load balancer match a Service: reads, compares, and writes if something differs.
//!
//! # Guarantees
//! - Every call begins by reading the load balancer, so that a lost response or a crash between two requests creates
//!   nothing twice.
//! - The request that creates it contains its owner. One that exists already gets its owner's tag, and is read again
//!   before anything else is changed.
//! - While the vendor works on it, which takes about a minute after its creation, it is only read.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::event::listed;
use ccm_guest::load_balancer::{EnsureReply, EnsureRequest, ProgressReply, Service, UpdateRequest};
use ccm_guest::{AnnotationChange, Error, Event, Failure, Node, Pending, log};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::annotations::{ID, is_disowned};
use super::api::{self, LoadBalancer, Status};
use super::status::status;
use super::targets::Targets;
use super::wanted::{Network, Wanted, meant};
use super::{certificates, changes, owner};
use crate::config::{Settings, Type};
use crate::find::missing;

#[cfg(test)]
mod tests;

/// Delays before the first reads of a new load balancer. DigitalOcean needs about a minute to create one; the Go
/// manager reads, and writes, every 15 s.
const LOOKS: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(30)];
/// Delay before each later read.
const LATER: Duration = Duration::from_secs(15);
/// Delay before the read after a load balancer was tagged.
const TAGGED: Duration = Duration::from_secs(1);

/// The hint for the next call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Hint {
    /// The load balancer's id.
    id: String,
    /// Number of reads since its creation.
    looks: usize,
    /// Whether it has been tagged.
    #[serde(default)]
    is_tagged: bool,
}

/// See [`ccm_guest::LoadBalancer::ensure`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::ensure`].
pub fn ensure(settings: &Settings, request: &EnsureRequest) -> Result<EnsureReply, Failure> {
    let service = &request.service;
    if is_disowned(service)? {
        owner::release(&service.uid)?;
        return Err(Error::Elsewhere.into());
    }
    let hint: Option<Hint> = request.hint();
    let found = owner::find(service, hint.as_ref().map(|hint| hint.id.as_str()))?;
    if let Some(found) = &found {
        owner::claim(settings, found, service, request.adopt.as_ref())?;
        is_the_only_one(found, service)?;
    }
    let wanted = Wanted::read(settings, service, &request.targets, found.as_ref())?;
    let mut events = wanted.events.clone();
    let reply = reach(
        settings,
        &wanted,
        request,
        found,
        hint.as_ref(),
        &mut events,
    );
    match reply {
        Ok(reply) => Ok(reply.with_events(events)),
        // A person who corrects the mistake also learns of the fields that have no effect.
        Err(error) => Err(error.with_events(events)),
    }
}

/// A Service that takes one over must not have another one: nothing would remove that.
fn is_the_only_one(found: &LoadBalancer, service: &Service) -> Result<(), Error> {
    if owner::is_own(found, service) {
        return Ok(());
    }
    let other = owner::by_list(service)?;
    match other.filter(|other| owner::is_own(other, service)) {
        None => Ok(()),
        Some(own) => Err(Error::invalid(format!(
            "the Service has load balancer {} already: delete that one before an annotation names {}",
            own.id, found.id
        ))),
    }
}

/// Creates the load balancer, or changes it, as far as that is possible now.
fn reach(
    settings: &Settings,
    wanted: &Wanted,
    request: &EnsureRequest,
    found: Option<LoadBalancer>,
    hint: Option<&Hint>,
    events: &mut Vec<Event>,
) -> Result<EnsureReply, Error> {
    let was_tagged = hint.is_some_and(|hint| hint.is_tagged);
    if let Some(found) = &found
        && found.status() != Status::New
        && needs_tags(wanted, found, &request.service, was_tagged)
        && owner::mark(&wanted.tags, found, || announced(wanted, found))?
    {
        return Ok(pending_for(TAGGED, found, 0, true));
    }
    let looks = hint.map_or(0, |hint| hint.looks);
    let (found, looks) = match found {
        None => (create(settings, wanted, request, events)?, 0),
        Some(found) if found.status() == Status::New => (found, looks + 1),
        Some(found) => (agree(wanted, found, events)?, 0),
    };
    let reply = match found.status() {
        Status::Active => match status(wanted.hostname.as_deref(), &found) {
            status if status.ingress.is_empty() => pending(&found, LOOKS.len(), was_tagged),
            status => EnsureReply::ready(status),
        },
        Status::New => pending(&found, looks, was_tagged),
        Status::Other(other) => {
            return Err(Error::unavailable(format!(
                "load balancer {} has the status {other:?}",
                found.id
            )));
        }
    };
    let id = AnnotationChange::set(ID, found.id);
    Ok(reply.with_annotations(vec![id]))
}

/// Whether the load balancer's tags are to be compared with the wanted ones. The vendor's document shows no tags in its
/// answers: without them a load balancer may have none, or they are not shown. Then its name is enough, as long as it
/// names the owner; any other is tagged: once in a row of pending calls, and
/// again at a later look, because nothing shows whether it has the tag.
fn needs_tags(wanted: &Wanted, found: &LoadBalancer, service: &Service, was_tagged: bool) -> bool {
    let default = service.default_name();
    let is_named = found.name() == default && wanted.name() == default;
    found.tags().is_some() || !was_tagged && !is_named
}

fn pending(found: &LoadBalancer, looks: usize, is_tagged: bool) -> EnsureReply {
    let wait = LOOKS.get(looks).copied().unwrap_or(LATER);
    pending_for(wait, found, looks, is_tagged)
}

fn pending_for(wait: Duration, found: &LoadBalancer, looks: usize, is_tagged: bool) -> EnsureReply {
    let hint = Hint {
        id: found.id.clone(),
        looks,
        is_tagged,
    };
    EnsureReply::pending(Pending::after(wait).with_hint(&hint))
}

fn create(
    settings: &Settings,
    wanted: &Wanted,
    request: &EnsureRequest,
    events: &mut Vec<Event>,
) -> Result<LoadBalancer, Error> {
    if wanted.targets.droplets.is_empty() {
        return Err(without_targets(&wanted.targets));
    }
    let certificate = certificates::id(wanted, None, events)?;
    let region = region(settings, &request.targets)?;
    let body = wanted.creation(&certificate, &region, settings.project.as_deref());
    let fields = [
        ("name", wanted.name()),
        ("type", body["type"].as_str().unwrap_or_default()),
        ("why", "the Service has none"),
    ];
    log::info("ordering a load balancer", &fields);
    let made = with_existing(&wanted.targets.droplets, &BTreeSet::new(), |droplets| {
        api::create(&of_droplets(&body, droplets))
    });
    made?.ok_or_else(without_existing)
}

/// The same body with these droplets.
fn of_droplets(body: &Value, droplets: &BTreeSet<u64>) -> Value {
    let mut body = body.clone();
    if let Some(named) = body.get_mut("droplet_ids") {
        *named = json!(droplets);
    }
    body
}

/// Sends a request that names droplets. The vendor refuses all of it if one of them does not exist, and the Node of a
/// droplet that is gone stays for a while: then the request is sent once more without those. `None`: none is left.
fn with_existing<T>(
    droplets: &BTreeSet<u64>,
    known: &BTreeSet<u64>,
    mut send: impl FnMut(&BTreeSet<u64>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let refusal = match send(droplets) {
        Err(refusal @ Error::Invalid(_)) => refusal,
        answer => return answer.map(Some),
    };
    let mut left = droplets.clone();
    for id in missing(droplets - known)? {
        log::warn(
            "a droplet that does not exist is left out",
            &[("id", &id.to_string())],
        );
        left.remove(&id);
    }
    match left.len() {
        0 => Ok(None),
        same if same == droplets.len() => Err(refusal),
        _ => send(&left).map(Some),
    }
}

/// The vendor creates no load balancer without targets; nor does the Go manager.
fn without_targets(targets: &Targets) -> Error {
    if targets.unreachable.is_empty() {
        return Error::unavailable("there is no node yet that could be behind the load balancer");
    }
    Error::invalid(format!(
        "a load balancer that passes packets on needs a node with a public IPv4 address, which these lack: {}; for nodes without one, annotate the Service with the type REGIONAL or the network INTERNAL",
        listed(&targets.unreachable)
    ))
}

fn without_existing() -> Error {
    Error::unavailable("no node has a droplet that exists")
}

/// Nodes that all lack an address, or no nodes at all, must not leave an existing load balancer without droplets: as when
/// all Node objects have just been registered anew. The Go manager refuses both, too.
fn are_reachable(targets: &Targets, found: &LoadBalancer) -> Result<(), Error> {
    let is_emptied = !targets.unreachable.is_empty() || !found.droplets().is_empty();
    match targets.droplets.is_empty() && is_emptied {
        true => Err(without_targets(targets)),
        false => Ok(()),
    }
}

/// The configured region; otherwise that of the nodes, from their label, or of the VPC.
fn region(settings: &Settings, nodes: &[Node]) -> Result<String, Error> {
    if let Some(region) = &settings.region {
        return Ok(region.clone());
    }
    if let Some(vpc) = &settings.vpc {
        return crate::api::vpc_region(vpc);
    }
    let labels = nodes.iter().flat_map(|node| &node.labels);
    let mut regions: Vec<&str> = labels
        .filter(|(key, _)| key == "topology.kubernetes.io/region")
        .map(|(_, value)| value.as_str())
        .collect();
    regions.sort_unstable();
    regions.dedup();
    match regions.as_slice() {
        [region] => Ok((*region).to_owned()),
        _ => Err(Error::invalid(
            "REGION is not set, and the nodes do not agree on one region",
        )),
    }
}

/// What will be changed once the load balancer is tagged, for the log.
fn announced(wanted: &Wanted, found: &LoadBalancer) -> String {
    match differing(wanted, found, &mut Vec::new()) {
        Ok((_, differing)) if differing.is_empty() => "nothing differs".to_owned(),
        Ok((_, differing)) => differing.join(" "),
        Err(error) => error.message().to_owned(),
    }
}

/// The certificate that the rules need, and the names of the fields that differ.
fn differing(
    wanted: &Wanted,
    found: &LoadBalancer,
    events: &mut Vec<Event>,
) -> Result<(String, Vec<&'static str>), Error> {
    are_reachable(&wanted.targets, found)?;
    let certificate = certificates::id(wanted, Some(found), events)?;
    let differing = changes::differing(wanted, &certificate, found);
    Ok((certificate, differing))
}

/// Updates the load balancer if something differs.
fn agree(
    wanted: &Wanted,
    found: LoadBalancer,
    events: &mut Vec<Event>,
) -> Result<LoadBalancer, Error> {
    let (certificate, differing) = differing(wanted, &found, events)?;
    if differing.is_empty() {
        return Ok(found);
    }
    let differing = differing.join(" ");
    let fields = [("id", found.id.as_str()), ("differs", differing.as_str())];
    log::info("changing the load balancer", &fields);
    let body = changes::update(wanted, &certificate, &found);
    let changed = with_existing(&wanted.targets.droplets, &found.droplets(), |droplets| {
        api::update(&found.id, &of_droplets(&body, droplets))
    });
    changed?.ok_or_else(without_existing)
}

/// See [`ccm_guest::LoadBalancer::update_targets`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::update_targets`].
pub fn update_targets(
    settings: &Settings,
    request: &UpdateRequest,
) -> Result<ProgressReply, Error> {
    let service = &request.service;
    if is_disowned(service)? {
        return Err(Error::Elsewhere);
    }
    let Some(found) = owner::find_own(service)? else {
        return Err(Error::unavailable("the Service has no load balancer"));
    };
    owner::claim(settings, &found, service, None)?;
    if found.is_by_tag() {
        return Err(Error::unavailable(
            "the load balancer's droplets are chosen by a tag",
        ));
    }
    let wanted = droplets(service, &request.targets, &found)?;
    let has = found.droplets();
    let new = &wanted - &has;
    let old = &has - &wanted;
    let id = found.id.as_str();
    let count = [
        ("id", id),
        ("added", &new.len().to_string()),
        ("removed", &old.len().to_string()),
    ];
    if !new.is_empty() || !old.is_empty() {
        log::info("changing the droplets of the load balancer", &count);
    }
    // Adds before it removes, so that a set that is replaced as a whole is never empty in between.
    if !new.is_empty() {
        let added = with_existing(&new, &BTreeSet::new(), |new| api::add_droplets(id, new))?;
        if added.is_none() && wanted.is_disjoint(&has) {
            return Err(without_existing());
        }
    }
    if !old.is_empty() {
        api::remove_droplets(id, &old)?;
    }
    Ok(ProgressReply::done())
}

/// The droplets of the nodes that this load balancer can reach.
fn droplets(
    service: &Service,
    nodes: &[Node],
    found: &LoadBalancer,
) -> Result<BTreeSet<u64>, Error> {
    let kind = meant(&Type::NAMES, found.kind()).unwrap_or(Type::Regional);
    let network = meant(&Network::NAMES, found.network()).unwrap_or(Network::External);
    let targets = Targets::read(kind, network, nodes);
    if !targets.unknown.is_empty() {
        let names = listed(&targets.unknown);
        let fields = [
            ("service", service.name.as_str()),
            ("nodes", names.as_str()),
        ];
        log::warn(
            "nodes without a provider ID of a droplet are left out",
            &fields,
        );
    }
    are_reachable(&targets, found)?;
    Ok(targets.droplets)
}
