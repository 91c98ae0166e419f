//! Creates and changes a load balancer as its Service wants it, and updates its nodes.

use std::collections::BTreeSet;

use ccm_guest::load_balancer::{EnsureReply, EnsureRequest, ProgressReply, Service, UpdateRequest};
use ccm_guest::{Error, Event, Failure, LoadBalancerStatus, Node, event};

use super::cached_state::{self, Remembered};
use super::elb::{self, LoadBalancer, Targets};
use super::listeners::{self, Listening};
use super::security_groups::{self, Group, Rules};
use super::wanted::{self, Groups, Wanted};
use super::{classic, subnets};
use crate::config::{Claim, Settings};
use crate::ec2::{self, Instance, Subnet};
use crate::provider_id::instance_of;

/// See [`ccm_guest::LoadBalancer::ensure`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::ensure`].
pub fn ensure(settings: &Settings, request: &EnsureRequest) -> Result<EnsureReply, Failure> {
    let mut events = Vec::new();
    match reach(settings, request, &mut events) {
        Ok(status) => Ok(EnsureReply::ready(status).with_events(events)),
        Err(error) => Err(error.with_events(events)),
    }
}

fn reach(
    settings: &Settings,
    request: &EnsureRequest,
    events: &mut Vec<Event>,
) -> Result<LoadBalancerStatus, Error> {
    let service = &request.service;
    wanted::is_ours(service)?;
    let wanted = Wanted::read(settings, service, events)?;
    let ids = instance_ids(service, &request.targets);
    if wanted.is_classic {
        return classic::ensure(settings, &wanted, ids, events);
    }
    let name = wanted.name.clone();
    let known = cached_state::get(&name).filter(|known: &Remembered| known.ids == ids);
    let digest = wanted.digest();
    let known = match known {
        Some(known) if known.digest != digest && known.groups.as_ref() == Some(&wanted.groups) => {
            cached_state::forget(&name);
            let found = &known.load_balancer;
            events.extend(unchangeable(&wanted, &found.scheme, &found.subnets));
            change(settings, &wanted, known, None, false)?
        }
        known => {
            let found = elb::by_name(&name)?;
            if let (Some(found), Some(known)) = (&found, known)
                && (&known.digest, &known.load_balancer.load_balancer_arn)
                    == (&digest, &found.load_balancer_arn)
                && cached_state::is_fresh(&name)
            {
                known.listening.delete_former(&name)?;
                return Ok(found.status());
            }
            cached_state::forget(&name);
            if found.is_none() && classic::elb::by_name(&name)?.is_some() {
                return Err(classic::unlike(&name));
            }
            let nodes = Nodes::look_up(settings, ids, events)?;
            let made = make(settings, &wanted, nodes, found, events)?;
            cached_state::set_fresh(&name);
            made
        }
    };
    cached_state::set(&name, &known);
    known.listening.delete_former(&name)?;
    Ok(known.load_balancer.status())
}

/// Reads all that belongs to the load balancer, or creates it, and makes it as wanted.
fn make(
    settings: &Settings,
    wanted: &Wanted,
    nodes: Nodes,
    found: Option<LoadBalancer>,
    events: &mut Vec<Event>,
) -> Result<Remembered, Error> {
    let vpc = subnets::vpc(settings, found.as_ref().map(|found| &found.vpc_id), &nodes)?;
    let managed = match &found {
        Some(found) => managed(wanted, found),
        None => &wanted.groups,
    };
    let mut all = Vec::new();
    if settings.opens_node_groups || matches!(managed, Groups::Own(_)) {
        all = security_groups::list("vpc-id", &vpc)?;
    }
    let ids = group_ids(managed, wanted, &vpc, &mut all)?;
    let (mut known, mut chosen) = (Remembered::default(), None);
    if let Some(found) = found {
        events.extend(unchangeable(wanted, &found.scheme, &found.subnets));
        let are: BTreeSet<&String> = found.security_groups.iter().collect();
        if !ids.is_empty() && are != ids.iter().collect() {
            elb::set_security_groups(&found.load_balancer_arn, &ids)?;
            if let Groups::Named(_) = wanted.groups {
                drop_own_group(settings, wanted, &all, &are)?;
            }
        }
        known.listening = Listening::read(&found.load_balancer_arn)?;
        known.attributes = elb::attributes((elb::LOAD_BALANCER, &found.load_balancer_arn))?;
        known.load_balancer = found;
    } else {
        let subnets = subnets::choose(settings, wanted, &vpc)?;
        known.load_balancer = elb::create(wanted, &subnets, &ids)?;
        chosen = Some(subnets);
    }
    known.tagged = tagged(&all, settings);
    let opens = settings.opens_node_groups;
    known.open = opens.then(|| nodes.groups(settings, wanted, &mut all, events));
    known.rules = Some(all);
    (known.ids, known.targets) = (nodes.ids, nodes.targets);
    let reads_targets = chosen.is_none();
    let known = change(settings, wanted, known, chosen, reads_targets)?;
    nodes.awaited.map_or(Ok(known), Err)
}

/// Changes everything that differs from the known state. Reads nothing but rules that have changed, and the registered
/// targets if `reads_targets`.
fn change(
    settings: &Settings,
    wanted: &Wanted,
    known: Remembered,
    chosen: Option<Vec<Subnet>>,
    reads_targets: bool,
) -> Result<Remembered, Error> {
    let load_balancer = &known.load_balancer;
    let own = match managed(wanted, load_balancer) {
        Groups::Own(name) => Some(name),
        Groups::Named(_) | Groups::Unmanaged => None,
    };
    // What `make` hands over has just been read.
    let is_cached = known.rules.is_some() && chosen.is_none() && !reads_targets;
    let mut groups = match known.rules {
        Some(groups) => groups,
        None if known.open.is_none() && own.is_none() => Vec::new(),
        None => security_groups::list("vpc-id", &load_balancer.vpc_id)?,
    };
    let mut were_so = true;
    if let Some(name) = own {
        were_so &= security_groups::set_own(&groups, name, &security_groups::for_own(wanted))?;
    }
    let listening = listeners::apply(wanted, load_balancer, known.listening, &known.targets)?;
    if reads_targets {
        // Also of those that were created above: AWS returns the group that an interrupted call left, with its nodes.
        listening.set_targets(&known.targets)?;
    }
    let object = (elb::LOAD_BALANCER, &*load_balancer.load_balancer_arn);
    let attributes = elb::set_attributes(object, known.attributes, &wanted.attributes)?;
    if let Some(open) = &known.open {
        let rules = for_nodes(wanted, load_balancer, chosen)?;
        let vpc = is_cached.then_some(load_balancer.vpc_id.as_str());
        were_so &= security_groups::open(settings, &groups, &wanted.name, open, &rules, vpc)?;
    }
    let is_open = |id: &String| known.open.as_ref().is_some_and(|open| open.contains(id));
    groups.retain(|group| is_open(&group.group_id) || Some(&group.group_name) == own);
    Ok(Remembered {
        digest: wanted.digest(),
        groups: Some(wanted.groups.clone()),
        attributes,
        listening,
        rules: were_so.then_some(groups),
        ..known
    })
}

/// The security groups that are managed: none of a load balancer that was created without any, because AWS adds none to
/// it.
fn managed<'a>(wanted: &'a Wanted, load_balancer: &LoadBalancer) -> &'a Groups {
    match load_balancer.security_groups.is_empty() {
        true => &Groups::Unmanaged,
        false => &wanted.groups,
    }
}

/// See [`ccm_guest::LoadBalancer::update_targets`].
///
/// # Errors
/// See [`ccm_guest::LoadBalancer::update_targets`].
pub fn update_targets(
    settings: &Settings,
    request: &UpdateRequest,
) -> Result<ProgressReply, Failure> {
    let mut events = Vec::new();
    match reach_nodes(settings, request, &mut events) {
        Ok(()) => Ok(ProgressReply::done().with_events(events)),
        Err(error) => Err(error.with_events(events)),
    }
}

fn reach_nodes(
    settings: &Settings,
    request: &UpdateRequest,
    events: &mut Vec<Event>,
) -> Result<(), Error> {
    let service = &request.service;
    wanted::is_ours(service)?;
    let ids = instance_ids(service, &request.targets);
    let is_classic = wanted::is_classic(service);
    // One of the other kind has the Service's traffic as long as it exists: `ensure` refuses to make the wanted one.
    for is_classic in [is_classic, !is_classic] {
        let is_there = match is_classic {
            true => classic::update_targets(settings, service, ids.clone(), events)?,
            false => update_network(settings, service, ids.clone(), events)?,
        };
        if is_there {
            return Ok(());
        }
    }
    let name = service.default_name();
    Err(Error::unavailable(format!(
        "there is no load balancer {name}"
    )))
}

/// Updates the nodes of a network load balancer. Returns whether it exists.
fn update_network(
    settings: &Settings,
    service: &Service,
    ids: BTreeSet<String>,
    events: &mut Vec<Event>,
) -> Result<bool, Error> {
    let name = service.default_name();
    let known: Option<Remembered> = cached_state::get(&name);
    // The cached state is invalid until all of it has been done.
    cached_state::forget(&name);
    let was_known = known.is_some();
    let mut known = match known {
        Some(known) => known,
        None => {
            let Some(load_balancer) = elb::by_name(&name)? else {
                return Ok(false);
            };
            let mut listening = Listening::default();
            listening.groups = elb::target_groups(Some(&load_balancer.load_balancer_arn))?;
            // Its digest equals no other, so that the next call about the Service compares everything.
            Remembered {
                load_balancer,
                listening,
                open: settings.opens_node_groups.then(BTreeSet::new),
                ..Remembered::default()
            }
        }
    };
    let nodes = Nodes::look_up(settings, ids, events)?;
    known.listening.set_targets(&nodes.targets)?;
    // Neither mistakes in annotations nor another kind may keep a node that leaves registered; the rules stay as they are
    // then, and the next `ensure` without a mistake compares them. It reports the mistake meanwhile.
    let wanted = Wanted::read(settings, service, &mut Vec::new()).ok();
    let wanted = wanted.filter(|wanted| !wanted.is_classic);
    if wanted.is_none() {
        (known.digest, known.groups) = (String::new(), None);
    }
    if let (Some(open), Some(wanted)) = (&known.open, wanted) {
        let (needed, _) = security_groups::of_nodes(&known.tagged, &nodes.instances, settings);
        if !needed.is_subset(open) || !was_known {
            let mut all = security_groups::list("vpc-id", &known.load_balancer.vpc_id)?;
            known.tagged = tagged(&all, settings);
            let needed = nodes.groups(settings, &wanted, &mut all, events);
            let rules = for_nodes(&wanted, &known.load_balancer, None)?;
            security_groups::open(settings, &all, &wanted.name, &needed, &rules, None)?;
            (known.open, known.rules) = (Some(needed), None);
        }
    }
    nodes.awaited.map_or(Ok(()), Err)?;
    (known.ids, known.targets) = (nodes.ids, nodes.targets);
    cached_state::set(&name, &known);
    Ok(true)
}

/// The instances of the nodes that are to receive traffic.
pub(super) struct Nodes {
    /// Those that AWS described with the cluster's tag: a later call looks the others up again.
    pub(super) ids: BTreeSet<String>,
    /// Whether AWS described all of them. One that is missing twice may still exist.
    pub(super) are_all: bool,
    /// Those that are a part of the cluster: existing ones with its tag.
    pub(super) instances: Vec<Instance>,
    pub(super) targets: Targets,
    /// The end of the call, after everything else, while an instance does not run yet: only a later one registers it.
    pub(super) awaited: Option<Error>,
}

impl Nodes {
    pub(super) fn look_up(
        settings: &Settings,
        ids: BTreeSet<String>,
        events: &mut Vec<Event>,
    ) -> Result<Nodes, Error> {
        let texts: Vec<&str> = ids.iter().map(String::as_str).collect();
        let instances = ec2::by_ids(&texts)?;
        let id = |one: &Instance| one.instance_id.clone();
        let found: BTreeSet<String> = instances.iter().map(id).collect();
        // As in the Go provider, which takes one without the cluster's tag for another cluster's.
        let is_ours = |one: &Instance| settings.cluster.claim(one.tags.pairs()) == Claim::Ours;
        let (mut instances, others): (Vec<_>, Vec<_>) = instances.into_iter().partition(is_ours);
        if !others.is_empty() {
            let ids: Vec<String> = others.iter().map(id).collect();
            let (key, ids) = (settings.cluster.key(), event::listed(&ids));
            let why = format!("instances without the tag {key} are no targets: {ids}");
            events.push(Event::warning("InstanceNotTagged", why));
        }
        instances.retain(|one| !["terminated", "shutting-down"].contains(&one.state.as_str()));
        let left_out = &found - &instances.iter().map(id).collect();
        let is = |state: &'static str| move |one: &&Instance| one.state == state;
        let targets = Targets {
            running: instances.iter().filter(is("running")).map(id).collect(),
            // Answers that lack an instance do not end its registration.
            existing: &ids - &left_out,
        };
        let not_yet = |id: String| Error::unavailable(format!("instance {id} does not run yet"));
        let awaited = instances.iter().find(is("pending")).map(id).map(not_yet);
        Ok(Nodes {
            are_all: ids.is_subset(&found),
            // The next call sees a tag that is added.
            ids: &found - &others.iter().map(id).collect(),
            instances,
            targets,
            awaited,
        })
    }

    /// The security groups that have to let traffic in. While an instance is missing, other groups of nodes leave `all`,
    /// so that their rules stay: the instance may be in one of them.
    fn groups(
        &self,
        settings: &Settings,
        wanted: &Wanted,
        all: &mut Vec<Group>,
        events: &mut Vec<Event>,
    ) -> BTreeSet<String> {
        let tagged = tagged(all, settings);
        let (needed, unclear) = security_groups::of_nodes(&tagged, &self.instances, settings);
        events.extend(unclear);
        let is_own = |group: &Group| group.group_name == wanted.own_group;
        all.retain(|one| self.are_all || is_own(one) || needed.contains(&one.group_id));
        needed
    }
}

/// A node without a readable provider ID is left out: one odd node must not block the others.
fn instance_ids(service: &Service, nodes: &[Node]) -> BTreeSet<String> {
    let targets = wanted::targets(service, nodes).into_iter();
    let ids = targets.filter_map(instance_of);
    ids.map(str::to_owned).collect()
}

pub(super) fn tagged(all: &[Group], settings: &Settings) -> BTreeSet<String> {
    let is_ours = |group: &&Group| settings.cluster.claim(group.tags.pairs()) == Claim::Ours;
    let tagged = all.iter().filter(is_ours);
    tagged.map(|group| group.group_id.clone()).collect()
}

/// The IDs of the load balancer's groups. Its own one is created if it is not among `all`.
pub(super) fn group_ids(
    groups: &Groups,
    wanted: &Wanted,
    vpc: &str,
    all: &mut Vec<Group>,
) -> Result<Vec<String>, Error> {
    let name = match groups {
        Groups::Named(ids) => return Ok(ids.clone()),
        Groups::Unmanaged => return Ok(Vec::new()),
        Groups::Own(name) => name,
    };
    if !all.iter().any(|group| group.group_name == *name) {
        all.push(security_groups::create(name, vpc, &wanted.tags)?);
    }
    let own = all.iter().find(|group| group.group_name == *name);
    Ok(own.map(|own| own.group_id.clone()).into_iter().collect())
}

/// Removes the load balancer's own security group, which others take the place of, and the rules that let it in. A group
/// that AWS still counts as used stays until the Service is deleted.
pub(super) fn drop_own_group(
    settings: &Settings,
    wanted: &Wanted,
    all: &[Group],
    were: &BTreeSet<&String>,
) -> Result<(), Error> {
    for group in all {
        let is_its = group.group_name == wanted.own_group && group.is_own(&settings.cluster);
        if is_its && were.contains(&group.group_id) {
            security_groups::admit(all, &group.group_id, &BTreeSet::new())?;
            let _ = security_groups::delete(group);
        }
    }
    Ok(())
}

/// The rules that a load balancer needs in the nodes' groups. `chosen` are its subnets, if they are known.
fn for_nodes(
    wanted: &Wanted,
    load_balancer: &LoadBalancer,
    chosen: Option<Vec<Subnet>>,
) -> Result<Rules, Error> {
    let subnets = match chosen {
        _ if wanted.clients_cover_health() => Vec::new(),
        Some(chosen) => chosen,
        None => ec2::subnets("subnet-id", &load_balancer.subnets)?,
    };
    let ranges: Vec<String> = subnets.into_iter().map(|one| one.cidr_block).collect();
    Ok(security_groups::for_nodes(wanted, &ranges))
}

/// An event about wanted changes that AWS cannot make to an existing load balancer.
pub(super) fn unchangeable(wanted: &Wanted, scheme: &str, has: &[String]) -> Option<Event> {
    let mut what = Vec::new();
    if (scheme == "internal") != wanted.internal {
        what.push("internal");
    }
    let named = wanted.subnets.iter();
    let (by_id, by_name): (Vec<_>, Vec<_>) = named.partition(|one| one.starts_with("subnet-"));
    let are_all = by_name.is_empty() && !by_id.is_empty();
    if by_id.iter().any(|one| !has.contains(one))
        || are_all && has.iter().any(|one| !by_id.contains(&one))
    {
        what.push("subnets");
    }
    (!what.is_empty()).then(|| {
        let why = "cannot be changed while the load balancer exists: make the Service anew";
        let why = format!("{}: {why}", what.join(", "));
        Event::warning("LoadBalancerNotChanged", why)
    })
}
