//! Classic load balancers, which this provider and the Go provider create for Services without the annotation `type`.
//!
//! Names of load balancers and of their security groups are made of the Service's UID, as in the Go provider. Rules in
//! the nodes' groups let in a load balancer's own group, by which they are recognised.

use std::collections::BTreeSet;

use ccm_guest::load_balancer::{ProgressReply, Service};
use ccm_guest::{Error, Event, LoadBalancerStatus};

use super::deletion::progress;
use super::elb as network;
use super::ensure::{Nodes, drop_groups, own_group, tagged, unchangeable, unlike, vpc};
use super::security_groups::{self, Group};
use super::wanted::{Groups, Wanted, group_of_classic, is_classic, name, named_group};
use super::{cached_state, subnets};
use crate::config::Settings;

pub mod elb;

use elb::Classic;

/// See [`ccm_guest::LoadBalancer::ensure`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::ensure`].
pub fn ensure(
    settings: &Settings,
    wanted: &Wanted,
    ids: BTreeSet<String>,
    events: &mut Vec<Event>,
) -> Result<LoadBalancerStatus, Error> {
    let found = elb::by_name(&wanted.name)?;
    let digest = (wanted.digest(), ids.clone());
    if let Some(found) = &found
        && cached_state::is_same(&wanted.name, &digest)
    {
        return Ok(found.status());
    }
    cached_state::forget(&wanted.name);
    if found.is_none() && network::by_name(&wanted.name)?.is_some() {
        return Err(unlike(&wanted.name));
    }
    let nodes = Nodes::look_up(ids)?;
    let vpc = vpc(settings, found.as_ref().map(|found| &found.vpc_id), &nodes)?;
    let all = security_groups::list("vpc-id", &vpc)?;
    let own = own_group(wanted, &vpc, &all)?;
    let mut group_ids = match (&wanted.groups, &own) {
        (Groups::Named(ids), _) => ids.clone(),
        (_, own) => own.iter().map(|own| own.group_id.clone()).collect(),
    };
    group_ids.extend(wanted.extra_groups.iter().cloned());
    if let Some(own) = &own {
        security_groups::set_own(own, &security_groups::for_own(wanted))?;
    }
    let is_new = found.is_none();
    let classic = match found {
        Some(found) => {
            let has = &found.subnets.items;
            events.extend(unchangeable(wanted, &found.scheme, has));
            let are: BTreeSet<&String> = found.security_groups.items.iter().collect();
            if are != group_ids.iter().collect() {
                elb::set_security_groups(&found, &group_ids)?;
                drop_groups(settings, &all, &are, &group_ids)?;
            }
            elb::set_listeners(&found, wanted)?;
            found
        }
        None => {
            let chosen = subnets::choose(settings, wanted, &vpc)?.into_iter();
            let chosen: Vec<String> = chosen.map(|one| one.subnet_id).collect();
            elb::create(wanted, &chosen, &group_ids)?
        }
    };
    elb::set_policies(&classic, wanted)?;
    elb::set_attributes(&classic, is_new, wanted)?;
    if let Some(first) = wanted.ports.first() {
        elb::set_health(&classic, &first.health, first)?;
    }
    admit(settings, &nodes, &all, group_ids.first(), events)?;
    elb::set_instances(&classic, &nodes.targets)?;
    cached_state::set_same(&wanted.name, &digest);
    Ok(classic.status())
}

/// See [`ccm_guest::LoadBalancer::update_targets`]; returns whether the load balancer exists. If the Service wants the
/// other kind now, the rules in the nodes' groups stay as they are: its annotations are not about this load balancer.
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::update_targets`].
pub fn update_targets(
    settings: &Settings,
    service: &Service,
    ids: BTreeSet<String>,
    events: &mut Vec<Event>,
) -> Result<bool, Error> {
    let name = name(service);
    cached_state::forget(&name);
    let Some(classic) = elb::by_name(&name)? else {
        return Ok(false);
    };
    let nodes = Nodes::look_up(ids)?;
    if is_classic(service) {
        let all = security_groups::list("vpc-id", &classic.vpc_id)?;
        let source = source(settings, service, &all);
        admit(settings, &nodes, &all, source.as_ref(), events)?;
    }
    elb::set_instances(&classic, &nodes.targets)?;
    Ok(true)
}

/// The group that the rules in the nodes' groups let in: the first one that an annotation or the configuration names,
/// or the load balancer's own.
fn source(settings: &Settings, service: &Service, all: &[Group]) -> Option<String> {
    let own = group_of_classic(&name(service));
    named_group(settings, service).or_else(|| {
        let own = all.iter().find(|group| group.group_name == own);
        own.map(|group| group.group_id.clone())
    })
}

/// Lets the load balancer's group into the nodes' groups, and removes such rules from other groups with the cluster's
/// tag.
fn admit(
    settings: &Settings,
    nodes: &Nodes,
    all: &[Group],
    source: Option<&String>,
    events: &mut Vec<Event>,
) -> Result<(), Error> {
    let Some(source) = source.filter(|_| settings.opens_node_groups) else {
        return Ok(());
    };
    let tagged = tagged(all, settings);
    let (open, unclear) = security_groups::of_nodes(&tagged, &nodes.instances, &settings.cluster);
    events.extend(unclear);
    let of_nodes =
        |group: &&Group| open.contains(&group.group_id) || tagged.contains(&group.group_id);
    let looked_at = all.iter().filter(of_nodes);
    security_groups::admit(looked_at, source, &open)
}

/// See [`ccm_guest::LoadBalancer::delete`]; also returns whether the load balancer existed. Rules in the nodes' groups
/// go first, because they are found by the load balancer's group, also after a crash. Rules for a named group go unless
/// another load balancer has that group.
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::delete`].
pub fn delete(settings: &Settings, service: &Service) -> Result<ProgressReply, Error> {
    let name = name(service);
    let existing = elb::list()?;
    let classic = existing.iter().find(|one| one.load_balancer_name == name);
    let all = security_groups::list_of(settings, classic.map(|one| &one.vpc_id))?;
    let own = group_of_classic(&name);
    let owned = all
        .iter()
        .filter(|group| group.group_name == own && group.is_own(&settings.cluster));
    let mut sources: BTreeSet<&String> = owned.map(|group| &group.group_id).collect();
    let named = named_group(settings, service).filter(|_| settings.opens_node_groups);
    let has = |one: &Classic, id| one.security_groups.items.contains(id);
    if let (Some(classic), Some(id)) = (classic, &named) {
        let others = existing.iter().filter(|one| one.load_balancer_name != name);
        let is_shared = others.into_iter().any(|one| has(one, id));
        sources.extend((has(classic, id) && !is_shared).then_some(id));
    }
    for source in sources {
        security_groups::admit(&all, source, &BTreeSet::new())?;
    }
    if let Some(classic) = classic {
        elb::delete(classic)?;
    }
    security_groups::delete_own(&all, &own, &settings.cluster).map(progress)
}
