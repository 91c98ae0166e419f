//! Deletes everything that belongs to a Service, and says whether there is a load balancer.
//!
//! In this order, each step again after a crash: rules in node groups, the load balancer with its listeners, target groups, its
//! own security group. Until the first two are done the load balancer's name leads to the rest; after it, names do that are
//! made of the Service's UID.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::load_balancer::{DeleteRequest, Found, ProgressReply, Service};
use ccm_guest::{Error, Pending};

use super::annotations::{self, get as annotation};
use super::groups::{self, Rules};
use super::wanted::{self, group_prefix};
use super::{elb, ensure, remembered};
use crate::config::Settings;

/// Until AWS counts something as unused.
const IN_USE: Duration = Duration::from_secs(5);

/// See [`ccm_guest::LoadBalancer::delete`].
///
/// # Errors
/// See there.
pub fn delete(settings: &Settings, request: &DeleteRequest) -> Result<ProgressReply, Error> {
    let service = &request.service;
    let name = wanted::name(service);
    remembered::forget(&name);
    refuse_classic(service, &name)?;
    let found = elb::by_name(&name)?;
    let arn = found.as_ref().map(|found| found.load_balancer_arn.clone());
    let vpc = found
        .map(|found| found.vpc_id)
        .filter(|vpc| !vpc.is_empty());
    let groups = match vpc.as_ref().or(settings.vpc.as_ref()) {
        Some(vpc) => groups::list("vpc-id", vpc)?,
        None => groups::list("tag-key", &settings.cluster.key())?,
    };
    groups::open(&groups, &name, &BTreeSet::new(), &Rules::new())?;
    if let Some(arn) = &arn {
        elb::delete(arn)?;
    }
    let prefix = group_prefix(&name);
    for group in elb::target_groups(None)? {
        let is_attached = arn
            .as_ref()
            .is_some_and(|arn| group.load_balancer_arns.items == [arn.as_str()]);
        if is_attached || group.target_group_name.starts_with(&prefix) {
            match elb::delete_target_group(&group.target_group_arn) {
                Err(refusal) if refusal.is("ResourceInUse") => return Ok(come_back()),
                answer => answer?,
            }
        }
    }
    let own = wanted::own_group(settings, service);
    for group in groups
        .iter()
        .filter(|group| group.group_name == own && ensure::is_own(settings, group))
    {
        match groups::delete(group) {
            // The load balancer's interfaces go some time after it.
            Err(refusal) if refusal.is("DependencyViolation") => return Ok(come_back()),
            answer => answer?,
        }
    }
    Ok(ProgressReply::done())
}

fn come_back() -> ProgressReply {
    ProgressReply::pending(Pending::after(IN_USE))
}

/// See [`ccm_guest::LoadBalancer::get`].
///
/// # Errors
/// See there.
pub fn get(service: &Service) -> Result<Found, Error> {
    let name = wanted::name(service);
    if let Some(found) = elb::by_list(&name)? {
        return Ok(Found::Present(found.status()));
    }
    match may_be_classic(service) && elb::has_classic(&name)? {
        true => Ok(Found::Present(service.status.clone())),
        false => Ok(Found::Absent),
    }
}

fn may_be_classic(service: &Service) -> bool {
    annotation(service, annotations::TYPE) != Some("nlb")
}

/// A classic load balancer of the Go provider is not deleted here, nor forgotten.
fn refuse_classic(service: &Service, name: &str) -> Result<(), Error> {
    if may_be_classic(service) && elb::has_classic(name)? {
        let why =
            "is not deleted here: delete it and its security group, or let the Go provider do it";
        return Err(Error::unsupported(format!(
            "the classic load balancer {name} {why}"
        )));
    }
    Ok(())
}
