//! Chooses the VPC and the subnets of a load balancer: those of the annotation, or one in each zone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ccm_guest::Error;

use super::ensure::Nodes;
use super::wanted::Wanted;
use crate::config::{Claim, Settings};
use crate::ec2::{self, RouteTable, Subnet};

/// The type of zones that are neither local nor wavelength ones.
const ORDINARY: &str = "availability-zone";

/// The subnets, in the annotation's order or by zone.
///
/// # Errors
/// No subnet is found, or not as many as the annotations name addresses.
pub fn choose(settings: &Settings, wanted: &Wanted, vpc: &str) -> Result<Vec<Subnet>, Error> {
    let all = ec2::subnets("vpc-id", [vpc])?;
    let chosen = match wanted.subnets.is_empty() {
        false => named(&wanted.subnets, all)?,
        true => one_of_each_zone(settings, wanted, vpc, all)?,
    };
    if chosen.is_empty() {
        let what = match wanted.internal {
            true => "subnet",
            false => "subnet with a route to an internet gateway",
        };
        return Err(Error::invalid(format!(
            "{vpc} has no {what} for the load balancer"
        )));
    }
    for (what, named) in [
        ("eip-allocations", &wanted.allocations),
        ("private-ipv4-addresses", &wanted.private_addresses),
    ] {
        if !named.is_empty() && named.len() != chosen.len() {
            let (have, need) = (named.len(), chosen.len());
            return Err(Error::invalid(format!(
                "{what}: {have} for {need} subnets; each needs one"
            )));
        }
    }
    Ok(chosen)
}

fn named(names: &[String], all: Vec<Subnet>) -> Result<Vec<Subnet>, Error> {
    let mut chosen = Vec::new();
    let mut missing = Vec::new();
    for name in names {
        let mut fits = all
            .iter()
            .filter(|one| one.subnet_id == *name || one.tags.get("Name") == Some(name));
        match (fits.next(), fits.next()) {
            (Some(one), None) => chosen.push(one.clone()),
            (None, _) => missing.push(format!("there is no subnet {name}")),
            (Some(_), Some(_)) => missing.push(format!("several subnets are named {name}")),
        }
    }
    match missing.is_empty() {
        true => Ok(chosen),
        false => Err(Error::invalid(missing.join("; "))),
    }
}

/// From each ordinary zone, the subnet with the role's tag, then the one with the cluster's tag, then the one with the
/// smallest ID.
fn one_of_each_zone(
    settings: &Settings,
    wanted: &Wanted,
    vpc: &str,
    mut all: Vec<Subnet>,
) -> Result<Vec<Subnet>, Error> {
    let (role, tables) = match wanted.internal {
        true => ("kubernetes.io/role/internal-elb", Vec::new()),
        false => ("kubernetes.io/role/elb", ec2::route_tables("vpc-id", vpc)?),
    };
    let mut special = ec2::zones()?;
    special.retain(|zone| zone.zone_type.as_ref().is_some_and(|kind| kind != ORDINARY));
    let is_ordinary = |name: &String| special.iter().all(|zone| zone.zone_name != *name);
    let claim = |subnet: &Subnet| settings.cluster.claim(subnet.tags.pairs());
    let has_usable = all.iter().any(|one| claim(one) != Claim::Others);
    all.retain(|one| match has_usable {
        true => claim(one) != Claim::Others,
        false => Some(&one.subnet_id) == settings.subnet.as_ref(),
    });
    all.retain(|one| is_ordinary(&one.availability_zone));
    all.retain(|one| wanted.internal || is_public(&tables, one));
    let rank = |subnet: &Subnet| {
        (
            subnet.tags.get(role).is_none(),
            claim(subnet) != Claim::Ours,
            subnet.subnet_id.clone(),
        )
    };
    // The best one comes last and so is the one of its zone.
    all.sort_by_key(|one| Reverse(rank(one)));
    let of_zones = all
        .into_iter()
        .map(|one| (one.availability_zone.clone(), one));
    let best: BTreeMap<String, Subnet> = of_zones.collect();
    Ok(best.into_values().collect())
}

/// Whether the subnet's route table, or the VPC's main one, has a route to an internet gateway.
fn is_public(tables: &[RouteTable], subnet: &Subnet) -> bool {
    let with = |fits: &dyn Fn(&ec2::Association) -> bool| {
        let mut tables = tables.iter();
        tables.find(|table| table.associations.iter().any(fits))
    };
    let own = with(&|one| one.subnet_id.as_ref() == Some(&subnet.subnet_id));
    let table = own.or_else(|| with(&|one| one.main));
    let gateways = table.into_iter().flat_map(|table| &table.routes);
    gateways
        .filter_map(|route| route.gateway_id.as_deref())
        .any(|gateway| gateway.starts_with("igw"))
}

/// The VPC of the existing load balancer, or the cluster's: that of its nodes, or without any that of the subnets with its
/// tag.
///
/// # Errors
/// Nothing names one VPC.
pub(super) fn vpc(
    settings: &Settings,
    existing: Option<&String>,
    nodes: &Nodes,
) -> Result<String, Error> {
    let existing = existing.filter(|vpc| !vpc.is_empty()).cloned();
    let vpc = existing.or_else(|| settings.vpc.clone());
    let vpc = vpc.or_else(|| nodes.instances.iter().find_map(|one| one.vpc_id.clone()));
    if let Some(vpc) = vpc {
        return Ok(vpc);
    }
    let tagged = ec2::tagged(&settings.cluster, |tag, value| ec2::subnets(tag, [value]))?;
    let vpcs: BTreeSet<String> = tagged.into_iter().map(|one| one.vpc_id).collect();
    let mut vpcs = vpcs.into_iter();
    match (vpcs.next(), vpcs.next()) {
        (Some(vpc), None) => Ok(vpc),
        _ => Err(Error::unavailable(
            "neither a node nor the cluster's tag on subnets of one VPC says in which VPC the cluster is; set VPC",
        )),
    }
}
