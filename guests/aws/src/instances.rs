//! Looks nodes up: chooses the requests for them, and describes instances to the contract.
//!
//! | Node | Answer |
//! |---|---|
//! | a provider ID, the instance exists | found |
//! | the same, terminated, or lacking in two answers of the call | gone |
//! | the same, of a zone in another region | unknown: its absence here proves nothing |
//! | a Fargate node, or a provider ID that names no instance | unknown |
//! | no provider ID, one instance by its name | found, unless it is another cluster's |
//! | the same, without a cluster's tag where `VPC` is not set, or several instances | unknown, with an event |

use std::collections::BTreeMap;
use std::net::IpAddr;

use ccm_guest::{
    Address, AddressType, Error, Event, FindReply, Instance, IpFamily, Lookup, Node, Question,
    event, log,
};

use crate::config::{Claim, Settings};
use crate::ec2;
use crate::provider_id::{self, Id};

#[cfg(test)]
mod tests;

/// Label with the zone's ID.
const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Labels with the network nodes above the instance, numbered from 1 for the outermost.
const NETWORK_NODE: &str = "topology.k8s.aws/network-node-layer-";
/// Maximum number of instances in one request about topologies.
const TOPOLOGIES: usize = 100;
/// The contract's limit for the addresses of an instance.
const ADDRESSES: usize = 64;

/// The way to a node's instance.
type Key<'a> = Question<&'a str, &'a str>;

/// See [`ccm_guest::Instances::find`].
///
/// # Errors
/// A failed request whose answer every look-up depends on; where all nodes of the call wait for labels, also a refused or
/// throttled request for these.
pub fn find(settings: &Settings, nodes: &[Node]) -> Result<FindReply, Error> {
    let keys: Vec<Key<'_>> = nodes.iter().map(|node| key(settings, node)).collect();
    let (ids, names) = Question::subjects(&keys);
    let (ids, names): (Vec<_>, Vec<_>) = (ids.into_iter().collect(), names.into_iter().collect());

    // If more instances are missing than `by_ids` asks for again, the host's own second call has to confirm their absence.
    let found = ec2::by_ids(&ids)?.into_iter();
    let by_id: BTreeMap<String, ec2::Instance> =
        found.map(|one| (one.instance_id.clone(), one)).collect();
    let mut by_name: BTreeMap<String, Vec<ec2::Instance>> = BTreeMap::new();
    for found in ec2::by_names(&names, settings.vpc.as_deref())? {
        let name = found.private_dns_name.to_lowercase();
        by_name.entry(name).or_default().push(found);
    }

    let answer = |(node, key): (&Node, Key<'_>)| match key {
        Key::Answered(lookup) => (lookup, None),
        Key::Id(id) => match by_id.get(id) {
            Some(found) if found.state != "terminated" => (instance(settings, node, found), None),
            // A new node's name may be anything: without a provider ID, the node was never this provider's.
            _ if node.provider_id.is_none() => (Lookup::NotMine, None),
            _ => (Lookup::Gone, None),
        },
        Key::Name(name) => {
            let found = by_name.get(&name.to_lowercase()).map(Vec::as_slice);
            by_its_name(settings, node, found.unwrap_or_default())
        }
    };
    let mut answers: Vec<_> = nodes.iter().zip(keys).map(answer).collect();
    label(nodes, answers.iter_mut().map(|(lookup, _)| lookup))?;
    Ok(answers.into_iter().collect())
}

fn key<'a>(settings: &Settings, node: &'a Node) -> Key<'a> {
    let unknown = |why: String| Key::Answered(Lookup::Unknown(why));
    let Some(text) = &node.provider_id else {
        return match provider_id::in_name(&node.name) {
            Some(id) => Key::Id(id),
            None => Key::Name(&node.name),
        };
    };
    let region = &settings.region;
    match provider_id::read(text) {
        Id::Instance { zone, .. } if zone.is_some_and(|zone| !zone.starts_with(region)) => {
            unknown(format!("{text} is in another region than {region}"))
        }
        Id::Instance { id, .. } => Key::Id(id),
        Id::Fargate => unknown("nodes on Fargate have no instance and are left to EKS".to_owned()),
        Id::Unreadable => unknown(format!("{text} names no instance")),
        Id::Foreign => Key::Answered(Lookup::NotMine),
    }
}

/// Two VPCs may have machines of the same private name; a cluster's tag decides between them. An instance without one
/// counts only where all that were found are in the cluster's VPC.
fn by_its_name(
    settings: &Settings,
    node: &Node,
    found: &[ec2::Instance],
) -> (Lookup, Option<Event>) {
    let is = |claim| move |one: &&ec2::Instance| settings.cluster.claim(one.tags.pairs()) == claim;
    let mut ours = found.iter().filter(is(Claim::Ours));
    let mut untagged = found.iter().filter(is(Claim::Untagged));
    let are_near = settings.vpc.is_some();
    match (ours.next(), ours.next(), untagged.next(), untagged.next()) {
        (Some(one), None, _, _) => (instance(settings, node, one), None),
        (None, _, Some(one), None) if are_near => (instance(settings, node, one), None),
        (None, _, None, _) => (Lookup::NotMine, None),
        _ => {
            let ids: Vec<&str> = found.iter().map(|one| one.instance_id.as_str()).collect();
            let (name, ids, key) = (&node.name, event::listed(&ids), settings.cluster.key());
            let why = format!(
                "not exactly one instance of the private name {name} has the tag {key}: {ids}"
            );
            Lookup::unclear(why)
        }
    }
}

fn instance(settings: &Settings, node: &Node, found: &ec2::Instance) -> Lookup {
    let (zone, id) = (&found.zone, &found.instance_id);
    let addresses = match addresses(settings, found) {
        Ok(addresses) => addresses,
        Err(text) => return Lookup::Unknown(format!("{id} has the invalid address {text:?}")),
    };
    let stored = node.provider_id.clone();
    let stored = stored.filter(|text| text.starts_with("aws://"));
    Lookup::Found(Instance {
        instance_type: found.instance_type.clone().filter(|text| !text.is_empty()),
        zone: Some(zone.clone()).filter(|zone| !zone.is_empty()),
        region: Some(settings.region.clone()),
        addresses,
        shutdown: Some(found.state == "stopped"),
        ..Instance::new(stored.unwrap_or_else(|| provider_id::write(zone, id)))
    })
}

/// The addresses in the Go provider's order; `Err` with a text that is no address.
fn addresses<'a>(settings: &Settings, found: &'a ec2::Instance) -> Result<Vec<Address>, &'a str> {
    // The attached interfaces, the primary one first.
    let mut used: Vec<_> = found.interfaces.iter().collect();
    used.retain(|one| one.status == "in-use");
    used.sort_by_key(|one| one.device_index.unwrap_or(u32::MAX));
    let mut all = Vec::new();
    for family in &settings.families {
        match family {
            IpFamily::Ipv4 => all.extend(ipv4(found, &used)),
            IpFamily::Ipv6 => {
                let first = used.iter().filter_map(|one| one.ipv6.first());
                let first = first.take(ADDRESSES / 4);
                all.extend(first.map(|one| (AddressType::InternalIp, one)));
            }
        }
    }
    let read = |(address_type, text): (AddressType, &'a String)| match address_type {
        AddressType::InternalIp | AddressType::ExternalIp => match text.parse::<IpAddr>() {
            Ok(ip) => Ok(Address::new(address_type, ip)),
            Err(_) => Err(text.as_str()),
        },
        _ => Ok(Address::new(address_type, text)),
    };
    all.into_iter().map(read).collect()
}

/// The IPv4 addresses and the names, as texts.
fn ipv4<'a>(
    found: &'a ec2::Instance,
    used: &[&'a ec2::Interface],
) -> impl Iterator<Item = (AddressType, &'a String)> {
    let total: usize = used.iter().map(|one| one.ipv4.len()).sum();
    // Where pods have addresses of the VPC, an interface has dozens. The first one is the interface's own.
    let of_each = if total <= ADDRESSES / 2 { total } else { 1 };
    let internal = used.iter();
    let internal = internal.flat_map(move |one| one.ipv4.iter().take(of_each));
    let internal = internal.filter(|one| !one.is_empty()).take(ADDRESSES / 2);
    let internal = internal.map(|one| (AddressType::InternalIp, one));
    let others = [
        (AddressType::ExternalIp, &found.ip_address),
        (AddressType::InternalDns, &found.private_dns_name),
        (AddressType::Hostname, &found.private_dns_name),
        (AddressType::ExternalDns, &found.dns_name),
    ];
    internal.chain(others.into_iter().filter(|(_, text)| !text.is_empty()))
}

/// Adds labels that need further requests to new nodes. The manager writes them only while it initialises a node, so that a
/// node waits for them, as with the Go provider. It does without those of a topology that AWS refuses, as in a region
/// without this API. The requests are supplementary, so that the host still believes that an instance is gone in the same
/// answer.
fn label<'a>(nodes: &[Node], lookups: impl Iterator<Item = &'a mut Lookup>) -> Result<(), Error> {
    let new = nodes.iter().zip(lookups);
    let new = new.filter(|(node, lookup)| !node.initialized && found(lookup).is_some());
    let mut new: Vec<&mut Lookup> = new.map(|(_, lookup)| lookup).collect();
    if new.is_empty() {
        return Ok(());
    }
    let are_all = new.len() == nodes.len();
    add(&mut new, are_all, ec2::zones(), |zones, instance| {
        let mut zones = zones.iter().filter(|zone| !zone.zone_id.is_empty());
        let zone = zones.find(|zone| Some(&zone.zone_name) == instance.zone.as_ref());
        zone.map(|zone| (ZONE_ID.to_owned(), zone.zone_id.clone()))
    })?;
    new.retain(|lookup| found(lookup).is_some_and(has_topology));
    for some in new.chunks_mut(TOPOLOGIES) {
        let ids = some.iter().filter_map(|lookup| found(lookup)).map(ec2_id);
        let ids: Vec<&str> = ids.collect();
        let topologies = match ec2::topology(&ids) {
            Err(Error::Denied(why) | Error::Invalid(why)) => {
                let what = "nodes stay without labels of their topology";
                log::warn(what, &[("reason", &why)]);
                return Ok(());
            }
            answer => answer,
        };
        add(some, are_all, topologies, |topologies, instance| {
            let layers = topologies.get(ec2_id(instance)).into_iter().flatten();
            let layers = (1..=8).zip(layers.cloned());
            let labels = layers.map(|(number, node)| (format!("{NETWORK_NODE}{number}"), node));
            labels.collect::<Vec<_>>()
        })?;
    }
    Ok(())
}

/// Adds the labels that an answer has for each node. Without an answer, the nodes wait.
///
/// # Errors
/// See [`Error::of_one`], if they are all nodes of the call: an error here would hide the answers about other ones.
fn add<T, Labels: IntoIterator<Item = (String, String)>>(
    new: &mut [&mut Lookup],
    are_all: bool,
    answer: Result<T, Error>,
    labels: impl Fn(&T, &Instance) -> Labels,
) -> Result<(), Error> {
    let answer = match answer {
        Err(error) if are_all => Err(error.of_one()?),
        answer => answer.map_err(|error| error.message().to_owned()),
    };
    for lookup in new {
        match (&mut **lookup, &answer) {
            (Lookup::Found(instance), Ok(answer)) => {
                instance.labels.extend(labels(answer, instance));
            }
            (lookup, Err(why)) => *lookup = Lookup::Unknown(why.clone()),
            _ => {}
        }
    }
    Ok(())
}

fn found(lookup: &Lookup) -> Option<&Instance> {
    match lookup {
        Lookup::Found(instance) => Some(instance),
        _ => None,
    }
}

/// The ID at the end of the provider ID.
fn ec2_id(instance: &Instance) -> &str {
    let mut parts = instance.provider_id.rsplit('/');
    parts.next().unwrap_or_default()
}

/// Whether a node of this instance type waits for its topology, as with the Go provider by default, which asks for that of
/// all other types as well.
fn has_topology(instance: &Instance) -> bool {
    let kind = instance.instance_type.as_deref().unwrap_or_default();
    ["hpc", "trn", "p"].iter().any(|family| {
        let rest = kind.strip_prefix(family).unwrap_or_default();
        rest.starts_with(|digit: char| digit.is_ascii_digit())
    })
}
