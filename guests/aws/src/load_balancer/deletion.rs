//! Deletes everything that belongs to a Service, and says whether a load balancer exists.
//!
//! The order is: rules in the nodes' groups, the load balancer with its listeners, target groups, its own security
//! group. After a crash every step is repeated. Until the first two are done, the load balancer's name leads to the
//! rest; after that, the names that are made of the Service's UID do. The Go provider's target groups have other names:
//! they are listed while their load balancer exists, and the hint names those that are left.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::load_balancer::{DeleteRequest, Found, Progress, ProgressReply, Service};
use ccm_guest::{Error, Pending};

use super::security_groups::{self, Group, Rules};
use super::wanted::{self, group_prefix};
use super::{cached_state, classic, elb, listeners};
use crate::config::Settings;

/// Delay until AWS no longer counts an object as used.
const IN_USE: Duration = Duration::from_secs(5);
/// Attempts to delete a security group, about five minutes, before a person is told: others may use it, too.
const PATIENCE: u32 = 60;

/// See [`ccm_guest::LoadBalancer::delete`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::delete`].
pub fn delete(settings: &Settings, request: &DeleteRequest) -> Result<ProgressReply, Error> {
    let service = &request.service;
    let name = service.default_name();
    cached_state::forget(&name);
    let is_classic = wanted::is_classic(service);
    let mut events = Vec::new();
    // The annotation may have changed since one of the other kind was created or begun. One that was only begun left no
    // address in the Service.
    for is_classic in [is_classic, !is_classic] {
        let mut reply = match is_classic {
            true => classic::delete(settings, request)?,
            false => delete_network(settings, request, &name)?,
        };
        events.append(&mut reply.events);
        if reply.progress != Progress::Done {
            return Ok(reply.with_events(events));
        }
    }
    Ok(ProgressReply::done().with_events(events))
}

fn delete_network(
    settings: &Settings,
    request: &DeleteRequest,
    name: &str,
) -> Result<ProgressReply, Error> {
    let found = elb::by_name(name)?;
    let all = security_groups::list_of(settings, found.as_ref().map(|found| &found.vpc_id))?;
    security_groups::open(settings, &all, name, &BTreeSet::new(), &Rules::new(), None)?;
    let arn = found.map(|found| found.load_balancer_arn);
    // Listed while the load balancer exists: afterwards they do not name it any more.
    let mut left = elb::target_groups(None)?;
    let named: Vec<String> = request.hint().unwrap_or_default();
    let former = listeners::former(name);
    let prefix = group_prefix(name);
    left.retain(|group| {
        let (name, of) = (&group.target_group_name, &group.load_balancers);
        let is_attached = arn.is_some() && of.iter().eq(&arn);
        let is_former = is_attached || former.contains(&group.target_group_arn);
        is_former || named.contains(name) || name.starts_with(&prefix)
    });
    if let Some(arn) = &arn {
        elb::delete((elb::LOAD_BALANCER, arn))?;
    }
    for group in &left {
        match elb::delete((elb::TARGET_GROUP, &group.target_group_arn)) {
            Err(refusal) if refusal.is("ResourceInUse") => {
                let names = left.iter().map(|group| &group.target_group_name);
                let pending = Pending::after(IN_USE).with_hint(&names.collect::<Vec<_>>());
                return Ok(ProgressReply::pending(pending));
            }
            answer => answer?,
        }
    }
    let own = wanted::own_group(settings, &request.service);
    delete_own_group(settings, request, &all, &own)
}

/// Deletes the security group of this name that was made for a load balancer, by this provider or the Go provider: the end
/// of a deletion. AWS counts it as used until the load balancer's network interfaces are removed.
///
/// # Errors
/// A refusal by AWS, or no answer; also if the group has been used for long.
pub(super) fn delete_own_group(
    settings: &Settings,
    request: &DeleteRequest,
    all: &[Group],
    name: &str,
) -> Result<ProgressReply, Error> {
    let tries: u32 = request.hint().unwrap_or_default();
    let is_own = |group: &&Group| group.group_name == name && group.is_own(&settings.cluster);
    for group in all.iter().filter(is_own) {
        match security_groups::delete(group) {
            Err(refusal) if refusal.is("DependencyViolation") && tries >= PATIENCE => {
                let (id, why) = (&group.group_id, refusal.error.message());
                let why = format!("the security group {id} is in use: {why}");
                return Err(Error::unavailable(why));
            }
            Err(refusal) if refusal.is("DependencyViolation") => {
                let pending = Pending::after(IN_USE).with_hint(&tries.saturating_add(1));
                return Ok(ProgressReply::pending(pending));
            }
            answer => answer?,
        }
    }
    Ok(ProgressReply::done())
}

/// See [`ccm_guest::LoadBalancer::get`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::get`].
pub fn get(service: &Service) -> Result<Found, Error> {
    let name = service.default_name();
    let status = match wanted::is_classic(service) {
        true => classic::elb::by_list(&name)?.map(|found| found.status()),
        false => elb::by_list(&name)?.map(|found| found.status()),
    };
    Ok(status.map_or(Found::Absent, Found::Present))
}
