//! Classic load balancers, which this provider and the Go provider create for Services without the annotation `type`.
//!
//! Names of load balancers and of their security groups are made of the Service's UID, as in the Go provider. Rules in
//! the nodes' groups let in a load balancer's own group, by which they are recognised.

use std::collections::BTreeSet;

use ccm_guest::load_balancer::{DeleteRequest, ProgressReply, Service};
use ccm_guest::{Error, Event, LoadBalancerStatus};
use serde::{Deserialize, Serialize};

use super::deletion::delete_own_group;
use super::elb as network;
use super::ensure::{Nodes, drop_own_group, group_ids, tagged, unchangeable};
use super::security_groups::{self, Group};
use super::wanted::{Attributes, Groups, Wanted, group_of_classic, is_classic, named_group};
use super::{annotations, cached_state, subnets};
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
    let name = &wanted.name;
    let found = elb::by_name(name)?;
    let known = cached_state::get(name).filter(|known: &Remembered| known.ids == ids);
    let digest = wanted.digest();
    if let (Some(found), Some(known)) = (&found, &known)
        && known.digest == digest
        && cached_state::is_fresh(name)
    {
        return Ok(found.status());
    }
    cached_state::forget(name);
    let (classic, known) = match (found, known) {
        (Some(found), Some(known))
            if known.digest != digest
                && known.wanted_parts == wanted_parts(wanted)
                && known.group_ids == found.security_groups =>
        {
            events.extend(unchangeable(wanted, &found.scheme, &found.subnets));
            let known = change(&found, wanted, Remembered { digest, ..known })?;
            (found, known)
        }
        (None, _) if network::by_name(name)?.is_some() => return Err(unlike(name)),
        (found, _) => {
            let nodes = Nodes::look_up(settings, ids, events)?;
            let made = make(settings, wanted, nodes, found, events)?;
            cached_state::set_fresh(name);
            made
        }
    };
    cached_state::set(name, &known);
    Ok(classic.status())
}

/// The error about a Service that has a load balancer of the other kind.
pub(super) fn unlike(name: &str) -> Error {
    Error::invalid(format!(
        "{}{} cannot be changed while the load balancer {name} exists: make the Service anew",
        annotations::PREFIX,
        annotations::TYPE
    ))
}

/// The last known state of a classic load balancer that one request does not show, and the digest of what was wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    digest: String,
    /// IDs of the instances of the nodes that were to receive traffic.
    ids: BTreeSet<String>,
    /// The security groups that were wanted, the additional ones, and the subnets: [`make`] alone changes them.
    wanted_parts: (Groups, Vec<String>, Vec<String>),
    /// The security groups that it then had.
    group_ids: BTreeSet<String>,
    /// Its own group with its rules; empty after a change of the rules.
    own: Vec<Group>,
    attributes: Attributes,
    /// Security groups that carry the cluster's tag.
    tagged: BTreeSet<String>,
    /// Security groups of nodes whose rules let the load balancer in.
    open: BTreeSet<String>,
}

fn wanted_parts(wanted: &Wanted) -> (Groups, Vec<String>, Vec<String>) {
    let (extra, subnets) = (&wanted.extra_groups, &wanted.subnets);
    (wanted.groups.clone(), extra.clone(), subnets.clone())
}

/// Reads all that belongs to the load balancer, or creates it, and makes it as wanted.
fn make(
    settings: &Settings,
    wanted: &Wanted,
    nodes: Nodes,
    found: Option<Classic>,
    events: &mut Vec<Event>,
) -> Result<(Classic, Remembered), Error> {
    let vpc = subnets::vpc(settings, found.as_ref().map(|found| &found.vpc_id), &nodes)?;
    let mut all = security_groups::list("vpc-id", &vpc)?;
    let mut group_ids = group_ids(&wanted.groups, wanted, &vpc, &mut all)?;
    group_ids.extend(wanted.extra_groups.iter().cloned());
    // The end of the call, after everything else.
    let mut attached = Ok(());
    let (classic, attributes) = match found {
        Some(mut found) => {
            attached = attach_subnets(settings, wanted, &nodes, &mut found, &vpc);
            events.extend(unchangeable(wanted, &found.scheme, &found.subnets));
            let are = &found.security_groups;
            if !are.iter().eq(group_ids.iter().collect::<BTreeSet<_>>()) {
                elb::set_security_groups(&found, &group_ids)?;
                let left: BTreeSet<&String> =
                    are.iter().filter(|id| !group_ids.contains(id)).collect();
                drop_own_group(settings, wanted, &all, &left)?;
                let own = all.iter().find(|one| one.group_name == wanted.own_group);
                let is_own = |id: &String| own.is_some_and(|own| own.group_id == *id);
                let named: Vec<&String> = left.into_iter().filter(|id| !is_own(id)).collect();
                if !named.is_empty() {
                    shut_out(settings, &all, &elb::list()?, &wanted.name, &named)?;
                }
            }
            let attributes = elb::attributes(&found)?;
            (found, attributes)
        }
        None => {
            let chosen = subnets::choose(settings, wanted, &vpc)?.into_iter();
            let chosen: Vec<String> = chosen.map(|one| one.subnet_id).collect();
            let classic = elb::create(wanted, &chosen, &group_ids)?;
            (classic, elb::new_attributes())
        }
    };
    let own = all
        .iter()
        .filter(|group| Groups::Own(group.group_name.clone()) == wanted.groups);
    let known = Remembered {
        digest: wanted.digest(),
        ids: nodes.ids.clone(),
        wanted_parts: wanted_parts(wanted),
        group_ids: group_ids.iter().cloned().collect(),
        own: own.cloned().collect(),
        attributes,
        tagged: tagged(&all, settings),
        open: BTreeSet::new(),
    };
    let mut known = change(&classic, wanted, known)?;
    known.open = admit(
        settings,
        &wanted.name,
        &nodes,
        &all,
        group_ids.first(),
        events,
    )?;
    elb::set_instances(&classic, &nodes.targets)?;
    attached?;
    nodes.awaited.map_or(Ok((classic, known)), Err)
}

/// Attaches the wanted subnets in zones that the load balancer lacks, because it reaches no node there without one. Where
/// no annotation names them, those in zones of nodes.
fn attach_subnets(
    settings: &Settings,
    wanted: &Wanted,
    nodes: &Nodes,
    found: &mut Classic,
    vpc: &str,
) -> Result<(), Error> {
    let zones = &found.zones;
    let is_lacking = |zone: &String| !zones.contains(zone);
    let instances = nodes.instances.iter();
    let of_nodes: BTreeSet<&String> = instances.map(|one| &one.zone).collect();
    let is_named = !wanted.subnets.is_empty();
    let is_needed = is_named || of_nodes.iter().any(|zone| is_lacking(zone));
    if !is_needed || (found.scheme == "internal") != wanted.internal {
        return Ok(());
    }
    let mut chosen = subnets::choose(settings, wanted, vpc)?;
    chosen.retain(|one| {
        is_lacking(&one.availability_zone)
            && (is_named || of_nodes.contains(&one.availability_zone))
            && !found.subnets.contains(&one.subnet_id)
    });
    let missing: Vec<String> = chosen.into_iter().map(|one| one.subnet_id).collect();
    if !missing.is_empty() {
        elb::attach_subnets(found, &missing)?;
        found.subnets.extend(missing);
    }
    Ok(())
}

/// Changes everything that differs but the security groups, the subnets and the instances.
fn change(classic: &Classic, wanted: &Wanted, known: Remembered) -> Result<Remembered, Error> {
    let mut own = known.own;
    if let Groups::Own(name) = &wanted.groups {
        if own.is_empty() {
            own = security_groups::list("vpc-id", &classic.vpc_id)?;
            own.retain(|group| group.group_name == *name);
        }
        if !security_groups::set_own(&own, name, &security_groups::for_own(wanted))? {
            own.clear();
        }
    }
    elb::set_listeners(classic, wanted)?;
    elb::set_policies(classic, wanted)?;
    let attributes = elb::set_attributes(classic, known.attributes, wanted)?;
    if let Some(first) = wanted.ports.first() {
        elb::set_health(classic, &first.health, first)?;
    }
    Ok(Remembered {
        own,
        attributes,
        ..known
    })
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
    let name = service.default_name();
    let known: Option<Remembered> = cached_state::get(&name);
    // The cached state is invalid until all of it has been done.
    cached_state::forget(&name);
    let Some(classic) = elb::by_name(&name)? else {
        return Ok(false);
    };
    let nodes = Nodes::look_up(settings, ids, events)?;
    let is_open = |known: &Remembered| {
        let (needed, unclear) =
            security_groups::of_nodes(&known.tagged, &nodes.instances, settings);
        !settings.opens_node_groups || unclear.is_none() && needed.is_subset(&known.open)
    };
    let known = known.filter(is_open);
    if is_classic(service) && known.is_none() {
        let all = security_groups::list("vpc-id", &classic.vpc_id)?;
        let source = source(settings, service, &all);
        admit(settings, &name, &nodes, &all, source.as_ref(), events)?;
    }
    elb::set_instances(&classic, &nodes.targets)?;
    nodes.awaited.map_or(Ok(()), Err)?;
    if let Some(known) = known {
        let ids = nodes.ids;
        let known = Remembered { ids, ..known };
        cached_state::set(&name, &known);
    }
    Ok(true)
}

/// The group that the rules in the nodes' groups let in: the first one that an annotation or the configuration names,
/// or the load balancer's own.
fn source(settings: &Settings, service: &Service, all: &[Group]) -> Option<String> {
    let own = group_of_classic(&service.default_name());
    named_group(settings, service).or_else(|| {
        let own = all.iter().find(|group| group.group_name == own);
        own.map(|group| group.group_id.clone())
    })
}

/// Lets the load balancer's group into the nodes' groups, which are returned. Where it is the group of its own, also
/// removes such rules from other groups with the cluster's tag, unless an instance is missing, which may be in one of
/// them. A group that an annotation or the configuration names may be a part of the cluster, whose rules about it then
/// are not the load balancer's.
fn admit(
    settings: &Settings,
    name: &str,
    nodes: &Nodes,
    all: &[Group],
    source: Option<&String>,
    events: &mut Vec<Event>,
) -> Result<BTreeSet<String>, Error> {
    let Some(source) = source.filter(|_| settings.opens_node_groups) else {
        return Ok(BTreeSet::new());
    };
    let tagged = tagged(all, settings);
    let (open, unclear) = security_groups::of_nodes(&tagged, &nodes.instances, settings);
    events.extend(unclear);
    let own = group_of_classic(name);
    let mut named = all.iter().filter(|group| group.group_name == own);
    let is_own = named.any(|group| group.group_id == *source);
    let looked_at = all.iter().filter(|group| {
        let is_looked_at = is_own && nodes.are_all && tagged.contains(&group.group_id);
        (open.contains(&group.group_id) || is_looked_at) && may_change(settings, group, source)
    });
    security_groups::admit(looked_at, source, &open)?;
    Ok(open)
}

/// Whether the rules of a group about the group `source` may change: not those of that group itself, and none of
/// `ElbSecurityGroup`, as with the Go provider.
fn may_change(settings: &Settings, group: &Group, source: &str) -> bool {
    let is_configured = settings.elb_security_group.as_ref() == Some(&group.group_id);
    group.group_id != source && !is_configured
}

/// See [`ccm_guest::LoadBalancer::delete`]; also returns whether the load balancer existed. Rules in the nodes' groups
/// go first, because they are found by the load balancer's group, also after a crash.
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::delete`].
pub fn delete(settings: &Settings, request: &DeleteRequest) -> Result<ProgressReply, Error> {
    let service = &request.service;
    let name = service.default_name();
    let existing = elb::list()?;
    let classic = existing.iter().find(|one| one.load_balancer_name == name);
    let mut all = security_groups::list_of(settings, classic.map(|one| &one.vpc_id))?;
    let own = group_of_classic(&name);
    // Without a VPC the list has only groups with the cluster's tag, and the own one may have only the older tag.
    let is_vpc_known = classic.is_some() || settings.vpc.is_some();
    if !is_vpc_known && !all.iter().any(|group| group.group_name == own) {
        all.extend(security_groups::list("group-name", &own)?);
    }
    let mut kept = Vec::new();
    for group in all.iter().filter(|group| group.group_name == own) {
        let (id, key) = (&group.group_id, settings.cluster.key());
        security_groups::admit(&all, id, &BTreeSet::new())?;
        if !group.is_own(&settings.cluster) {
            let why = format!(
                "the security group {own} ({id}) stays, because it lacks the tag {key}=owned, and the older one: delete it if nothing uses it"
            );
            kept.push(Event::warning("SecurityGroupKept", why));
        }
    }
    if let Some(classic) = classic {
        let named = named_group(settings, service).filter(|id| has(classic, id));
        let named: Vec<&String> = named.iter().collect();
        shut_out(settings, &all, &existing, &name, &named)?;
        elb::delete(classic)?;
    }
    Ok(delete_own_group(settings, request, &all, &own)?.with_events(kept))
}

/// Removes the rules that let in the groups `named`, which others made, except from groups without the cluster's tag and
/// from those groups themselves, as the Go provider does. A group that another classic load balancer has stays admitted.
fn shut_out(
    settings: &Settings,
    all: &[Group],
    existing: &[Classic],
    name: &str,
    named: &[&String],
) -> Result<(), Error> {
    let tagged = tagged(all, settings);
    let is_shared = |id: &String| {
        let mut others = existing.iter().filter(|one| one.load_balancer_name != name);
        others.any(|one| has(one, id))
    };
    for id in named {
        if settings.opens_node_groups && !is_shared(id) {
            let admitting = all.iter().filter(|group| {
                tagged.contains(&group.group_id) && may_change(settings, group, id)
            });
            security_groups::admit(admitting, id, &BTreeSet::new())?;
        }
    }
    Ok(())
}

fn has(classic: &Classic, group: &String) -> bool {
    classic.security_groups.contains(group)
}
