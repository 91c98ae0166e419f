//! Makes a load balancer as its Service wants it, and keeps its nodes.

use std::collections::BTreeSet;

use ccm_guest::load_balancer::{EnsureReply, EnsureRequest, ProgressReply, Service, UpdateRequest};
use ccm_guest::{Error, Event, Node};

use super::elb::{self, LoadBalancer, Of, Targets};
use super::groups::{self, Group};
use super::remembered::{self, Remembered};
use super::wanted::{self, Groups, Wanted};
use super::{listeners, subnets};
use crate::config::{Claim, Settings};
use crate::ec2::{self, Instance, Subnet};
use crate::provider_id::{self, Id};

/// See [`ccm_guest::LoadBalancer::ensure`].
///
/// # Errors
/// See there.
pub fn ensure(settings: &Settings, request: &EnsureRequest) -> Result<EnsureReply, Error> {
    let service = &request.service;
    wanted::is_ours(service)?;
    let (wanted, events) = Wanted::read(settings, service)?;
    let ids = instance_ids(service, &request.targets);
    let found = elb::by_name(&wanted.name)?;
    let known = remembered::get(&wanted.name);
    if let (Some(found), Some(known)) = (&found, known)
        && (&known.wish, &known.arn, &known.targets)
            == (&wanted.digest(), &found.load_balancer_arn, &ids)
    {
        return Ok(EnsureReply::ready(found.status()).with_events(events));
    }
    remembered::forget(&wanted.name);
    let nodes = Nodes::look_up(ids)?;
    let made = make(settings, wanted, &nodes, found, events)?;
    remembered::set(&made.name, &made.remembered);
    Ok(EnsureReply::ready(made.load_balancer.status()).with_events(made.events))
}

struct Made {
    name: String,
    load_balancer: LoadBalancer,
    remembered: Remembered,
    events: Vec<Event>,
}

fn make(
    settings: &Settings,
    mut wanted: Wanted,
    nodes: &Nodes,
    found: Option<LoadBalancer>,
    mut events: Vec<Event>,
) -> Result<Made, Error> {
    let wish = wanted.digest();
    let vpc = found
        .as_ref()
        .map(|found| found.vpc_id.clone())
        .filter(|vpc| !vpc.is_empty());
    let vpc = vpc.or_else(|| settings.vpc.clone()).or_else(|| nodes.vpc());
    let vpc =
        vpc.ok_or_else(|| Error::unavailable("no node says in which VPC the cluster is; set VPC"))?;
    if found
        .as_ref()
        .is_some_and(|found| found.security_groups.items.is_empty())
    {
        // AWS gives no groups to a load balancer that was made without.
        wanted.groups = Groups::Unmanaged;
    }
    let mut all = Vec::new();
    if settings.opens_node_groups || matches!(wanted.groups, Groups::Own(_)) {
        all = groups::list("vpc-id", &vpc)?;
    }
    let own = own_group(&wanted, &vpc, &all)?;
    let ids = match (&wanted.groups, &own) {
        (Groups::Named(ids), _) => ids.clone(),
        (_, Some(own)) => vec![own.group_id.clone()],
        _ => Vec::new(),
    };
    let (load_balancer, chosen) = match &found {
        Some(found) => {
            events.extend(unchangeable(&wanted, found));
            set_security_groups(settings, &wanted, found, &ids, &all)?;
            (found.clone(), None)
        }
        None => {
            let chosen = subnets::choose(settings, &wanted, &vpc)?;
            let subnets: Vec<String> = chosen.iter().map(|one| one.subnet_id.clone()).collect();
            (elb::create(&wanted, &subnets, &ids)?, Some(chosen))
        }
    };
    if let Some(own) = &own {
        groups::set_own(own, &groups::for_own(&wanted))?;
    }
    let registered = listeners::apply(&wanted, &load_balancer, found.is_none(), &nodes.targets)?;
    elb::set_attributes(
        Of::LoadBalancer(&load_balancer.load_balancer_arn),
        found.is_none(),
        &wanted.attributes,
    )?;
    let open = match settings.opens_node_groups {
        true => {
            let (open, unclear) =
                groups::of_nodes(&tagged(&all, settings), &nodes.instances, &settings.cluster);
            events.extend(unclear);
            open_nodes(&wanted, &load_balancer, &all, &open, chosen)?;
            Some(open)
        }
        false => None,
    };
    let remembered = Remembered {
        wish,
        arn: load_balancer.load_balancer_arn.clone(),
        groups: registered,
        targets: nodes.ids.clone(),
        tagged: tagged(&all, settings),
        open,
    };
    Ok(Made {
        name: wanted.name,
        load_balancer,
        remembered,
        events,
    })
}

/// See [`ccm_guest::LoadBalancer::update_targets`].
///
/// # Errors
/// See there.
pub fn update_targets(
    settings: &Settings,
    request: &UpdateRequest,
) -> Result<ProgressReply, Error> {
    let service = &request.service;
    wanted::is_ours(service)?;
    let name = wanted::name(service);
    let known = remembered::get(&name);
    // Until all of it has been done, nothing is known.
    remembered::forget(&name);
    let nodes = Nodes::look_up(instance_ids(service, &request.targets))?;
    let (known, found) = match known {
        Some(known) => (known, None),
        None => {
            let found = elb::by_name(&name)?;
            let found = found
                .ok_or_else(|| Error::unavailable(format!("there is no load balancer {name}")))?;
            let groups = elb::target_groups(Some(&found.load_balancer_arn))?;
            let known = Remembered {
                // Fits no wish: the next call about the Service looks at everything.
                wish: String::new(),
                arn: found.load_balancer_arn.clone(),
                groups: groups.iter().map(listeners::registered).collect(),
                targets: BTreeSet::new(),
                tagged: BTreeSet::new(),
                open: settings.opens_node_groups.then(BTreeSet::new),
            };
            (known, Some(found))
        }
    };
    listeners::set_targets(&known.groups, &nodes.targets)?;
    let mut known = Remembered {
        targets: nodes.ids.clone(),
        ..known
    };
    let mut events = Vec::new();
    // Mistakes in annotations must not keep a node that leaves; then its group is not closed.
    if let (Some(open), Ok((wanted, _))) = (&known.open, Wanted::read(settings, service)) {
        let (needed, _) = groups::of_nodes(&known.tagged, &nodes.instances, &settings.cluster);
        if !needed.is_subset(open) || found.is_some() {
            let found = match found {
                Some(found) => Some(found),
                None => elb::by_name(&name)?,
            };
            let found = found
                .ok_or_else(|| Error::unavailable(format!("there is no load balancer {name}")))?;
            let all = groups::list("vpc-id", &found.vpc_id)?;
            known.tagged = tagged(&all, settings);
            let (needed, unclear) =
                groups::of_nodes(&known.tagged, &nodes.instances, &settings.cluster);
            events = unclear;
            open_nodes(&wanted, &found, &all, &needed, None)?;
            known.open = Some(needed);
        }
    }
    remembered::set(&name, &known);
    Ok(ProgressReply::done().with_events(events))
}

/// The instances of the nodes that are to receive traffic.
struct Nodes {
    ids: BTreeSet<String>,
    instances: Vec<Instance>,
    targets: Targets,
}

impl Nodes {
    fn look_up(ids: BTreeSet<String>) -> Result<Nodes, Error> {
        let texts: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut instances = ec2::by_ids(&texts)?;
        instances.retain(|one| {
            !matches!(
                one.instance_state.name.as_str(),
                "terminated" | "shutting-down"
            )
        });
        let with = |running: bool| {
            let fits = instances
                .iter()
                .filter(move |one| !running || one.instance_state.name == "running");
            fits.map(|one| one.instance_id.clone()).collect()
        };
        let targets = Targets {
            running: with(true),
            existing: with(false),
        };
        Ok(Nodes {
            ids,
            instances,
            targets,
        })
    }

    fn vpc(&self) -> Option<String> {
        self.instances.iter().find_map(|one| one.vpc_id.clone())
    }
}

/// A node without a readable provider ID is left out: one odd node must not block the others.
fn instance_ids(service: &Service, nodes: &[Node]) -> BTreeSet<String> {
    let ids =
        wanted::targets(service, nodes)
            .into_iter()
            .filter_map(
                |node| match provider_id::read(node.provider_id.as_deref()?) {
                    Id::Instance { id, .. } => Some(id.to_owned()),
                    _ => None,
                },
            );
    ids.collect()
}

fn tagged(all: &[Group], settings: &Settings) -> BTreeSet<String> {
    let tagged = all
        .iter()
        .filter(|group| group.tag_set.claim(&settings.cluster) == Claim::Ours);
    tagged.map(|group| group.group_id.clone()).collect()
}

fn own_group(wanted: &Wanted, vpc: &str, all: &[Group]) -> Result<Option<Group>, Error> {
    let Groups::Own(name) = &wanted.groups else {
        return Ok(None);
    };
    match all.iter().find(|group| group.group_name == *name) {
        Some(group) => Ok(Some(group.clone())),
        None => groups::create(name, vpc, &wanted.tags).map(Some),
    }
}

fn set_security_groups(
    settings: &Settings,
    wanted: &Wanted,
    found: &LoadBalancer,
    ids: &[String],
    all: &[Group],
) -> Result<(), Error> {
    let are: BTreeSet<&String> = found.security_groups.items.iter().collect();
    if ids.is_empty() || are == ids.iter().collect() {
        return Ok(());
    }
    elb::set_security_groups(&found.load_balancer_arn, ids)?;
    if let Groups::Named(_) = wanted.groups {
        let left = all
            .iter()
            .filter(|group| are.contains(&group.group_id) && !ids.contains(&group.group_id));
        for group in left.filter(|group| is_own(settings, group)) {
            // While AWS still counts it as used, it stays until the Service goes.
            let _ = groups::delete(group);
        }
    }
    Ok(())
}

/// Whether a load balancer's group was made for it, by this provider or the Go provider.
pub fn is_own(settings: &Settings, group: &Group) -> bool {
    let value = group.tag_set.get(&settings.cluster.key());
    value == Some("owned") && group.group_name.starts_with("k8s-")
}

fn open_nodes(
    wanted: &Wanted,
    load_balancer: &LoadBalancer,
    all: &[Group],
    open: &BTreeSet<String>,
    chosen: Option<Vec<Subnet>>,
) -> Result<(), Error> {
    let subnets = match chosen {
        _ if wanted.clients_cover_health() => Vec::new(),
        Some(chosen) => chosen,
        None => ec2::subnets("subnet-id", load_balancer.subnets())?,
    };
    let ranges: Vec<String> = subnets.into_iter().map(|one| one.cidr_block).collect();
    groups::open(all, &wanted.name, open, &groups::for_nodes(wanted, &ranges))
}

/// What AWS does not change in a load balancer that exists.
fn unchangeable(wanted: &Wanted, found: &LoadBalancer) -> Option<Event> {
    let mut what = Vec::new();
    if (found.scheme == "internal") != wanted.internal {
        what.push("internal");
    }
    let has = found.subnets();
    let by_id = wanted
        .subnets
        .iter()
        .filter(|one| one.starts_with("subnet-"));
    if by_id.into_iter().any(|one| !has.contains(one)) {
        what.push("subnets");
    }
    (!what.is_empty()).then(|| {
        let why = "cannot be changed while the load balancer exists: make the Service anew";
        Event::warning(
            "LoadBalancerNotChanged",
            format!("{}: {why}", what.join(", ")),
        )
    })
}
