//! Makes the load balancer match a Service: reads, compares, and writes differences.
//!
//! # Guarantees
//! - Every call without a hint starts by reading the objects with the Service's label, so that a lost response or a
//!   crash between two requests creates nothing twice.
//! - The create request contains the label: the load balancer has an owner from the start.
//! - The host gets `Ready` only after a comparison, or after the changes of a comparison have succeeded.
//! - While Robot does not tell the addresses of dedicated servers, targets with addresses stay as they are. Everything else
//!   is changed first; then the call fails, so that it is repeated.

use std::collections::BTreeMap;

use ccm_guest::event::listed;
use ccm_guest::load_balancer::{
    Adoption, EnsureReply, EnsureRequest, ProgressReply, Service, UpdateRequest,
};
use ccm_guest::{Error, Event, log};

use super::annotations;
use super::api::{self, LoadBalancer};
use super::certificates::{self, Found};
use super::changes;
use super::hint::{Addresses, Hint};
use super::owner::{self, Named};
use super::request_bodies::{self, Known};
use super::send_changes::Done;
use super::status::status;
use super::targets::max_targets_reached;
use super::wanted::{Certificates, TypeSource, Wanted, WantedTargets};
use crate::config::Settings;
use crate::pending_actions::{self, Wait};
use crate::robot;

#[cfg(test)]
mod tests;

/// See [`ccm_guest::LoadBalancer::ensure`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::ensure`].
pub fn ensure(settings: &Settings, request: &EnsureRequest) -> Result<EnsureReply, Error> {
    let service = &request.service;
    let mut wanted = Wanted::read(settings, service, &request.targets)?;
    if let Certificates::Managed(_) = &wanted.certificates {
        let ordered = certificates::ORDERED.to_owned();
        wanted.labels.insert(ordered, "true".to_owned());
    }
    let unresolved = resolve(settings, &mut wanted.targets);
    let digest = request_bodies::digest(&wanted)?;
    let waits = match go_on(Hint::of(request.hint(), digest))? {
        Next::Again(hint) => return Ok(EnsureReply::pending(hint.pending())),
        Next::Settled(addresses) => {
            return Ok(EnsureReply::ready(status(&wanted.shown, &addresses)));
        }
        Next::Sent(done, hint) => {
            let events = left_out(service, &done);
            let left = hint_of(done, digest, 0, hint.id, hint.addresses);
            return Ok(EnsureReply::pending(left.pending()).with_events(events));
        }
        Next::Look { waits } => waits,
    };
    let mut ensuring = Ensuring {
        settings,
        service,
        adopt: request.adopt.as_ref(),
        known: Known::default(),
        events: wanted.all_events(),
        wanted,
        unresolved,
    };
    let (done, found) = ensuring.look_and_write()?;
    let Ensuring {
        wanted, mut events, ..
    } = ensuring;
    events.extend(left_out(service, &done));
    let addresses = found.as_ref().map(Addresses::of);
    if let (true, Some(addresses)) = (done.is_settled(), &addresses) {
        let status = status(&wanted.shown, addresses);
        return Ok(EnsureReply::ready(status).with_events(events));
    }
    let id = found.map_or(0, |found| found.id);
    let hint = hint_of(done, digest, waits, id, addresses);
    Ok(EnsureReply::pending(hint.pending()).with_events(events))
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
    let mut wanted = WantedTargets::read(settings, service, &request.targets)?;
    let unresolved = resolve(settings, &mut wanted);
    let digest = request_bodies::digest_of_targets(&wanted)?;
    let waits = match go_on(Hint::of(request.hint(), digest))? {
        Next::Again(hint) => return Ok(ProgressReply::pending(hint.pending())),
        Next::Settled(_) => return Ok(ProgressReply::done()),
        Next::Sent(done, hint) => {
            let events = left_out(service, &done);
            let left = hint_of(done, digest, 0, hint.id, hint.addresses);
            return Ok(ProgressReply::pending(left.pending()).with_events(events));
        }
        Next::Look { waits } => waits,
    };
    let Some(found) = owner::of_service(&service.uid)? else {
        return Err(Error::unavailable("the Service has no load balancer"));
    };
    let changes = changes::of_targets(&wanted, keeps_addresses(settings, &wanted), &found);
    let mut done = Done::default();
    done.carry_out(found.id, changes.changes)?;
    done.fail_at_last(unresolved)?;
    done.without_capacity.extend(changes.without_capacity);
    let mut events = std::mem::take(&mut wanted.events);
    events.extend(left_out(service, &done));
    if done.is_settled() {
        return Ok(ProgressReply::done().with_events(events));
    }
    let hint = hint_of(done, digest, waits, found.id, Some(Addresses::default()));
    Ok(ProgressReply::pending(hint.pending()).with_events(events))
}

/// The state after evaluating the hint.
enum Next {
    /// The started actions are still running.
    Again(Hint),
    /// The actions have ended, and no work is left.
    Settled(Addresses),
    /// The actions have ended, and the remaining changes were sent.
    Sent(Done, Hint),
    /// The load balancer must be read and compared.
    Look {
        /// Number of consecutive calls in which the cloud was busy.
        waits: u64,
    },
}

fn go_on(hint: Option<Hint>) -> Result<Next, Error> {
    let Some(mut hint) = hint else {
        return Ok(Next::Look { waits: 0 });
    };
    let mut trouble = None;
    match pending_actions::ask(&hint.actions)? {
        Wait::Running => {
            hint.waits = hint.waits.saturating_add(1);
            return Ok(Next::Again(hint));
        }
        Wait::Unknown => return Ok(Next::Look { waits: 0 }),
        Wait::Failed(error) if hint.left.is_empty() => return Err(error),
        // It may be about one node, and what is left about others.
        Wait::Failed(error) => trouble = Some(error),
        Wait::Over => {}
    }
    let left = std::mem::take(&mut hint.left);
    if !left.is_empty() {
        let mut done = Done {
            more: hint.more,
            trouble,
            ..Done::default()
        };
        done.carry_out(hint.id, left)?;
        // The missing object may be the load balancer itself.
        done.more |= !done.absent.is_empty();
        return Ok(match (done.is_settled(), hint.addresses.take()) {
            (true, Some(addresses)) if done.without_capacity.is_empty() => Next::Settled(addresses),
            (_, addresses) => Next::Sent(done, Hint { addresses, ..hint }),
        });
    }
    Ok(match (hint.more, hint.addresses) {
        (false, Some(addresses)) => Next::Settled(addresses),
        _ if hint.actions.is_empty() => Next::Look { waits: hint.waits },
        _ => Next::Look { waits: 0 },
    })
}

fn hint_of(done: Done, digest: u64, waits: u64, id: u64, addresses: Option<Addresses>) -> Hint {
    Hint {
        digest,
        id,
        waits: match done.busy && done.actions.is_empty() {
            true => waits.saturating_add(1),
            false => 0,
        },
        addresses: addresses.filter(|_| !done.more),
        actions: done.actions,
        left: done.left,
        more: done.more,
    }
}

/// Reads the addresses of dedicated servers among the targets from Robot. Returns the reason if they stay unknown.
fn resolve(settings: &Settings, targets: &mut WantedTargets) -> Option<Error> {
    let robot = settings.robot.granted()?;
    if targets.dedicated.is_empty() {
        return None;
    }
    let servers = match robot::list(robot, robot.list_age) {
        // More likely another account's than the account of targets that have gone.
        Ok(servers) if servers.is_empty() => {
            return Some(Error::unavailable(
                "the addresses of dedicated servers are not known: Robot names no server at all",
            ));
        }
        Ok(servers) => servers,
        Err(error) => {
            let why = format!(
                "the addresses of dedicated servers are not known: {}",
                error.message()
            );
            return Some(match error {
                // Not the cloud limits the requests: the host is not to leave the other targets alone for as long.
                Error::Throttled(_) => Error::unavailable(why),
                error => error.with_message(why),
            });
        }
    };
    let addresses: BTreeMap<_, _> = servers
        .iter()
        .filter_map(|server| Some((server.number, server.ipv4.as_deref()?.parse().ok()?)))
        .collect();
    targets.resolve(&addresses);
    None
}

/// With Robot, an unknown IP target may belong to a former node; but not while addresses of nodes are unknown.
fn keeps_addresses(settings: &Settings, wanted: &WantedTargets) -> bool {
    let keeps_foreign = settings.load_balancers.keep_foreign_ports && !settings.robot.is_enabled();
    keeps_foreign || !wanted.dedicated.is_empty()
}

/// An `ensure` call that must read the load balancer.
struct Ensuring<'a> {
    settings: &'a Settings,
    service: &'a Service,
    adopt: Option<&'a Adoption>,
    wanted: Wanted,
    known: Known,
    events: Vec<Event>,
    /// Why the addresses of dedicated servers are not known.
    unresolved: Option<Error>,
}

impl Ensuring<'_> {
    /// The result, and the last known state of the load balancer.
    fn look_and_write(&mut self) -> Result<(Done, Option<LoadBalancer>), Error> {
        let uid = &self.service.uid;
        let found = owner::of_service(uid)?;
        if found.is_none() && !self.is_looked_up_by_name() {
            self.wanted.place()?;
        }
        if let Some(network) = &self.wanted.network {
            self.known.network = Some(crate::api::network_id(&network.network)?);
        }
        match certificates::find(&self.wanted.certificates, uid, &mut self.events)? {
            Found::Ids(ids) => self.known.certificates = ids,
            Found::Making(action) => {
                let done = Done {
                    busy: action.is_none(),
                    actions: action.into_iter().collect(),
                    more: true,
                    ..Done::default()
                };
                return Ok((done, None));
            }
        }
        match found {
            Some(found) => self.agree(found),
            None => self.obtain(),
        }
    }

    /// Whether the load balancer may exist already, with another owner or none: an annotation names it, or the host
    /// allows an adoption. An existing load balancer needs no place.
    fn is_looked_up_by_name(&self) -> bool {
        self.adopt.is_some() || self.wanted.is_named
    }

    /// Adopts the load balancer with the wanted name, or creates one.
    fn obtain(&mut self) -> Result<(Done, Option<LoadBalancer>), Error> {
        if self.is_looked_up_by_name() {
            match owner::by_name(&self.wanted, self.service, self.adopt)? {
                Named::Ours(found) => return self.agree(*found),
                Named::Adopted => return Ok((Done::again(), None)),
                Named::Busy => return Ok((Done::nothing(), None)),
                Named::NotFound => {}
            }
        }
        match self.order()? {
            Order::Made(done, made) => Ok((done, Some(*made))),
            Order::Busy => Ok((Done::nothing(), None)),
            Order::NameTaken => match owner::by_name(&self.wanted, self.service, self.adopt)? {
                Named::Ours(found) => self.agree(*found),
                Named::Adopted => Ok((Done::again(), None)),
                Named::Busy | Named::NotFound => Ok((Done::nothing(), None)),
            },
        }
    }

    fn order(&mut self) -> Result<Order, Error> {
        let place = self.wanted.place()?;
        let body =
            |with_targets| request_bodies::create(&self.wanted, place, &self.known, with_targets);
        let Wanted {
            name, type_name, ..
        } = &self.wanted;
        log::info!(name, type = type_name, why = "the Service has none"; "ordering a load balancer");
        let mut answer = api::create(&body(true));
        let has_targets = !self.wanted.targets.targets.is_empty();
        if let Err(refusal) = &answer
            && has_targets
            && refusal.is_about_targets()
        {
            // One refused node must not keep the Service from getting an address.
            let why = refusal.error.message();
            log::info!(name, why; "ordering a load balancer without targets");
            answer = api::create(&body(false));
        }
        // Only a new load balancer gets the default type: an existing one keeps its own.
        if self.wanted.type_source == TypeSource::Default && answer.is_ok() {
            let message = format!(
                "nobody chose the type of the load balancer, and it is made as {}: set the annotation {} or, for all Services, HCLOUD_LOAD_BALANCERS_TYPE; Hetzner will require it",
                self.wanted.type_name,
                annotations::TYPE
            );
            let event = Event::warning("LoadBalancerTypeUnconfigured", &message);
            self.events.push(event);
        }
        let (made, action) = match answer {
            Ok(answer) => answer,
            Err(refusal) if refusal.is_busy() => return Ok(Order::Busy),
            Err(refusal) if refusal.is("uniqueness_error") => return Ok(Order::NameTaken),
            Err(refusal) => return Err(refusal.error),
        };
        let mut done = Done::default();
        done.began(&action)?;
        // A new read shows the fields that the create request could not contain, or that its response lacks.
        done.more = self.differs(&made) || !has_every_address(&made) || self.unresolved.is_some();
        self.deprecated(&made);
        Ok(Order::Made(done, Box::new(made)))
    }

    fn differs(&self, found: &LoadBalancer) -> bool {
        let targets = changes::of_targets(&self.wanted.targets, false, found);
        !changes::of_itself(&self.wanted, &self.known, found).is_empty()
            || !changes::of_services(&self.wanted, &self.known, found).is_empty()
            || !targets.changes.is_empty()
            || !targets.without_capacity.is_empty()
    }

    /// Sends the writes for the differences.
    fn agree(&mut self, found: LoadBalancer) -> Result<(Done, Option<LoadBalancer>), Error> {
        let (wanted, known) = (&self.wanted, &self.known);
        let mut done = Done::default();
        let mut changes = changes::of_itself(wanted, known, &found);
        let keep_addresses = keeps_addresses(self.settings, &wanted.targets);
        let targets = changes::of_targets(&wanted.targets, keep_addresses, &found);
        done.more = targets.hold_back(&mut changes);
        // A new read shows the effect of such a change on services and targets.
        if !changes.iter().any(|change| change.unsettles) {
            changes.extend(changes::of_services(wanted, known, &found));
            changes.extend(targets.changes);
            done.without_capacity = targets.without_capacity;
        }
        self.deprecated(&found);
        done.carry_out(found.id, changes)?;
        if done.is_settled() && !has_addresses(&found) {
            // It is still being created, by a request whose action is no longer known.
            done.more = true;
            done.busy = true;
        }
        done.fail_at_last(self.unresolved.take())?;
        Ok((done, Some(found)))
    }

    fn deprecated(&mut self, found: &LoadBalancer) {
        let kind = &found.load_balancer_type;
        let name = &kind.name;
        let announced = kind.deprecation.as_ref();
        let end = announced.and_then(|one| one.unavailable_after.as_deref());
        let message = match (end, &kind.deprecated) {
            (Some(end), _) => format!(
                "load balancer type {name} is deprecated, and is not available for new load balancers after {end}"
            ),
            (None, Some(since)) => format!(
                "load balancer type {name} is deprecated since {since}, and will not be available for new load balancers"
            ),
            (None, None) => return,
        };
        self.events
            .push(Event::warning("LoadBalancerTypeDeprecated", &message));
    }
}

/// The result of a create request.
enum Order {
    /// The load balancer was created.
    Made(Done, Box<LoadBalancer>),
    /// The name is in use.
    NameTaken,
    /// The cloud is busy.
    Busy,
}

/// Whether all expected addresses are known.
fn has_every_address(made: &LoadBalancer) -> bool {
    let public = &made.public_net;
    let both = public.ipv4.ip.is_some() && public.ipv6.ip.is_some();
    (both || !public.enabled) && made.private_net.iter().all(|net| net.ip.is_some())
}

/// Whether its creation has finished, judging by its addresses.
fn has_addresses(found: &LoadBalancer) -> bool {
    let public = &found.public_net;
    let one = public.ipv4.ip.is_some() || public.ipv6.ip.is_some();
    (one || !public.enabled) && found.private_net.iter().all(|net| net.ip.is_some())
}

/// Events for nodes that are not targets.
fn left_out(service: &Service, done: &Done) -> Vec<Event> {
    let mut events = Vec::new();
    let nodes: Vec<&str> = done.without_capacity.iter().map(String::as_str).collect();
    if !nodes.is_empty() {
        events.push(max_targets_reached(service, &nodes));
    }
    if !done.absent.is_empty() {
        let message = format!(
            "not behind the load balancer of service {}, because their servers are not there: {}",
            service.name,
            listed(&done.absent)
        );
        events.push(Event::warning("ServerNotFound", &message));
    }
    events
}
