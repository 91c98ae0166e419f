//! Deletes everything that belongs to a Service, and says whether a load balancer exists.
//!
//! The order is: rules in the nodes' groups, the load balancer with its listeners, target groups, its own security
//! group. After a crash every step is repeated. Until the first two are done, the load balancer's name leads to the
//! rest; after that, the names that are made of the Service's UID do.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::load_balancer::{DeleteRequest, Found, Progress, ProgressReply, Service};
use ccm_guest::{Error, Pending};

use super::security_groups::{self, Rules};
use super::wanted::{self, group_prefix};
use super::{cached_state, classic, elb, ensure};
use crate::config::Settings;

/// Delay until AWS no longer counts an object as used.
const IN_USE: Duration = Duration::from_secs(5);

/// See [`ccm_guest::LoadBalancer::delete`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::delete`].
pub fn delete(settings: &Settings, request: &DeleteRequest) -> Result<ProgressReply, Error> {
    let service = &request.service;
    let name = wanted::name(service);
    cached_state::forget(&name);
    let is_classic = wanted::is_classic(service);
    let reply = delete_kind(settings, service, &name, is_classic)?;
    // The annotation may have changed since, so a Service with an address may have the other kind.
    match reply {
        (was_there, reply) if was_there || !ensure::was_made_before(service) => Ok(reply),
        (_, reply) if !matches!(reply.progress, Progress::Done) => Ok(reply),
        _ => Ok(delete_kind(settings, service, &name, !is_classic)?.1),
    }
}

/// Also returns whether a load balancer of this kind existed.
fn delete_kind(
    settings: &Settings,
    service: &Service,
    name: &str,
    is_classic: bool,
) -> Result<(bool, ProgressReply), Error> {
    match is_classic {
        true => classic::delete(settings, service),
        false => delete_network(settings, service, name),
    }
}

fn delete_network(
    settings: &Settings,
    service: &Service,
    name: &str,
) -> Result<(bool, ProgressReply), Error> {
    let found = elb::by_name(name)?;
    let was_there = found.is_some();
    let groups = security_groups::list_of(settings, found.as_ref().map(|found| &found.vpc_id))?;
    security_groups::open(&groups, name, &BTreeSet::new(), &Rules::new())?;
    let arn = found.map(|found| found.load_balancer_arn);
    if let Some(arn) = &arn {
        elb::delete(arn)?;
    }
    let prefix = group_prefix(name);
    for group in elb::target_groups(None)? {
        let is_attached = arn
            .as_ref()
            .is_some_and(|arn| group.load_balancer_arns.items == [arn.as_str()]);
        if is_attached || group.target_group_name.starts_with(&prefix) {
            match elb::delete_target_group(&group.target_group_arn) {
                Err(refusal) if refusal.is("ResourceInUse") => return Ok((was_there, come_back())),
                answer => answer?,
            }
        }
    }
    let own = wanted::own_group(settings, service);
    let reply = match security_groups::delete_own(&groups, &own, &settings.cluster)? {
        true => ProgressReply::done(),
        false => come_back(),
    };
    Ok((was_there, reply))
}

/// The reply while AWS still counts an object as used.
pub(super) fn come_back() -> ProgressReply {
    ProgressReply::pending(Pending::after(IN_USE))
}

/// See [`ccm_guest::LoadBalancer::get`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::get`].
pub fn get(service: &Service) -> Result<Found, Error> {
    let name = wanted::name(service);
    let status = match wanted::is_classic(service) {
        true => {
            let mut all = classic::elb::list()?.into_iter();
            let found = all.find(|one| one.load_balancer_name == name);
            found.map(|found| found.status())
        }
        false => elb::by_list(&name)?.map(|found| found.status()),
    };
    Ok(status.map_or(Found::Absent, Found::Present))
}
