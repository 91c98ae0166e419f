//! Looks nodes up: chooses the requests for them, and describes instances to the contract.
//!
//! | Node | Answer |
//! |---|---|
//! | a provider ID, the instance exists | found |
//! | the same, terminated, or lacking in two answers of the call | gone |
//! | the same, of a zone in another region | unknown: its absence here proves nothing |
//! | a Fargate node, or a provider ID that names no instance | unknown |
//! | no provider ID, one instance by its name | found, unless it is another cluster's |
//! | the same, several instances | unknown, with an event |

use std::collections::{BTreeMap, BTreeSet};

use ccm_guest::events::Events;
use ccm_guest::{
    Address, AddressType, Error, Event, FindReply, Instance, IpFamily, Lookup, Node, event, log,
};

use crate::config::{Claim, Settings, address};
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
enum Key<'a> {
    Id(&'a str),
    Name(&'a str),
    Answered(Lookup),
}

/// See [`ccm_guest::Instances::find`].
///
/// # Errors
/// A failed request whose answer every look-up depends on.
pub fn find(settings: &Settings, nodes: &[Node]) -> Result<FindReply, Error> {
    let keys: Vec<Key<'_>> = nodes.iter().map(|node| key(settings, node)).collect();
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    for key in &keys {
        match key {
            Key::Id(id) => drop(ids.insert(*id)),
            Key::Name(name) => drop(names.insert(*name)),
            Key::Answered(_) => {}
        }
    }
    let (ids, names): (Vec<_>, Vec<_>) = (ids.into_iter().collect(), names.into_iter().collect());

    // If more instances are missing than `by_ids` asks for again, the host's own second call has to confirm their absence.
    let found = ec2::by_ids(&ids)?.into_iter();
    let by_id: BTreeMap<String, ec2::Instance> =
        found.map(|one| (one.instance_id.clone(), one)).collect();
    let mut by_name: BTreeMap<String, Vec<ec2::Instance>> = BTreeMap::new();
    for found in ec2::by_names(&names, settings.vpc.as_deref())? {
        by_name
            .entry(found.private_dns_name.to_lowercase())
            .or_default()
            .push(found);
    }

    let (mut lookups, mut events) = (Vec::with_capacity(nodes.len()), Events::default());
    for (index, (node, key)) in nodes.iter().zip(keys).enumerate() {
        let lookup = match key {
            Key::Answered(lookup) => lookup,
            Key::Id(id) => match by_id.get(id) {
                Some(found) if found.state != "terminated" => instance(settings, node, found),
                // A new node's name may be anything: without a provider ID, the node was never this provider's.
                _ if node.provider_id.is_none() => Lookup::NotMine,
                _ => Lookup::Gone,
            },
            Key::Name(name) => {
                let found = by_name.get(&name.to_lowercase()).map(Vec::as_slice);
                by_its_name(settings, node, found.unwrap_or_default()).unwrap_or_else(|event| {
                    let why = event.message.clone();
                    events.add(index, event);
                    Lookup::Unknown(why)
                })
            }
        };
        lookups.push(lookup);
    }
    label(nodes, &mut lookups);
    Ok(FindReply::new(lookups).with_events(events.into_vec()))
}

fn key<'a>(settings: &Settings, node: &'a Node) -> Key<'a> {
    let unknown = |why: String| Key::Answered(Lookup::Unknown(why));
    let Some(text) = &node.provider_id else {
        return match provider_id::in_name(&node.name) {
            Some(id) => Key::Id(id),
            None => Key::Name(&node.name),
        };
    };
    match provider_id::read(text) {
        Id::Instance {
            zone: Some(zone), ..
        } if !zone.starts_with(&settings.region) => unknown(format!(
            "{text} is in another region than {}",
            settings.region
        )),
        Id::Instance { id, .. } => Key::Id(id),
        Id::Fargate => unknown("nodes on Fargate have no instance and are left to EKS".to_owned()),
        Id::Unreadable => unknown(format!("{text} names no instance")),
        Id::Foreign => Key::Answered(Lookup::NotMine),
    }
}

/// Two VPCs may have machines of the same private name; a cluster's tag decides between them.
fn by_its_name(settings: &Settings, node: &Node, found: &[ec2::Instance]) -> Result<Lookup, Event> {
    let of = |claim| {
        found
            .iter()
            .filter(move |one| one.tags.claim(&settings.cluster) == claim)
    };
    let (mut ours, mut untagged) = (of(Claim::Ours), of(Claim::Untagged));
    let candidates = match (ours.next(), ours.next(), untagged.next(), untagged.next()) {
        (Some(one), None, _, _) | (None, _, Some(one), None) => {
            return Ok(instance(settings, node, one));
        }
        (None, _, None, _) => return Ok(Lookup::NotMine),
        _ => found
            .iter()
            .map(|one| one.instance_id.as_str())
            .collect::<Vec<_>>(),
    };
    let (name, candidates) = (&node.name, event::listed(&candidates));
    Err(Event::warning(
        "InstanceLookupFailed",
        format!("several instances have the private name {name}: {candidates}"),
    ))
}

fn instance(settings: &Settings, node: &Node, found: &ec2::Instance) -> Lookup {
    let zone = &found.zone;
    let addresses = match addresses(settings, found) {
        Ok(addresses) => addresses,
        Err(text) => {
            return Lookup::Unknown(format!(
                "{} has the invalid address {text:?}",
                found.instance_id
            ));
        }
    };
    let stored = node.provider_id.clone();
    let stored = stored.filter(|text| text.starts_with("aws://"));
    Lookup::Found(Instance {
        instance_type: found.instance_type.clone().filter(|text| !text.is_empty()),
        zone: Some(zone.clone()).filter(|zone| !zone.is_empty()),
        region: Some(settings.region.clone()),
        addresses,
        shutdown: Some(found.state == "stopped"),
        ..Instance::new(stored.unwrap_or_else(|| provider_id::write(zone, &found.instance_id)))
    })
}

/// The addresses in the Go provider's order; `Err` with a text that is no address.
fn addresses(settings: &Settings, found: &ec2::Instance) -> Result<Vec<Address>, String> {
    let mut addresses = Vec::new();
    for family in &settings.families {
        match family {
            IpFamily::Ipv4 => addresses.extend(ipv4(found)?),
            IpFamily::Ipv6 => {
                let used = used(found).into_iter();
                let first = used.filter_map(|one| one.ipv6.first());
                for one in first.take(ADDRESSES / 4) {
                    addresses.push(ip(AddressType::InternalIp, one)?);
                }
            }
        }
    }
    Ok(addresses)
}

fn ipv4(found: &ec2::Instance) -> Result<Vec<Address>, String> {
    let interfaces = used(found);
    let total: usize = interfaces.iter().map(|one| one.ipv4.len()).sum();
    // Where pods have addresses of the VPC, an interface has dozens. The first one is the interface's own.
    let of_each = if total <= ADDRESSES / 2 {
        usize::MAX
    } else {
        1
    };
    let mut addresses = Vec::new();
    let internal = interfaces
        .iter()
        .flat_map(|one| one.ipv4.iter().take(of_each));
    for one in internal.filter(|one| !one.is_empty()) {
        addresses.push(ip(AddressType::InternalIp, one)?);
    }
    addresses.truncate(ADDRESSES / 2);
    if !found.ip_address.is_empty() {
        addresses.push(ip(AddressType::ExternalIp, &found.ip_address)?);
    }
    let names = [
        (AddressType::InternalDns, &found.private_dns_name),
        (AddressType::Hostname, &found.private_dns_name),
        (AddressType::ExternalDns, &found.dns_name),
    ];
    let names = names.into_iter().filter(|(_, name)| !name.is_empty());
    addresses.extend(names.map(|(address_type, name)| Address::new(address_type, name)));
    Ok(addresses)
}

/// The attached interfaces, the primary one first.
fn used(found: &ec2::Instance) -> Vec<&ec2::Interface> {
    let all = found.interfaces.iter();
    let mut used: Vec<_> = all.filter(|one| one.status == "in-use").collect();
    used.sort_by_key(|one| one.device_index.unwrap_or(u32::MAX));
    used
}

fn ip(address_type: AddressType, text: &str) -> Result<Address, String> {
    let address = address(text).ok_or_else(|| text.to_owned())?;
    Ok(Address::new(address_type, address))
}

/// Adds labels that need further requests to nodes that lack them. They are optional: a failure is logged, and the
/// requests are supplementary, so that the host still believes that an instance is gone in the same answer.
fn label(nodes: &[Node], lookups: &mut [Lookup]) {
    let has = |node: &Node, key: &str| node.labels.iter().any(|(name, _)| name == key);
    let mut new: Vec<(&Node, &mut Instance)> = Vec::new();
    for (node, lookup) in nodes.iter().zip(lookups) {
        // A node with the label of the zone was initialised before and gets no more labels.
        if let Lookup::Found(instance) = lookup
            && !has(node, ZONE_ID)
        {
            new.push((node, instance));
        }
    }
    if !new.is_empty() {
        let zones = ec2::zones().unwrap_or_else(|error| not_labelled(&error));
        for (_, instance) in &mut new {
            let mut zones = zones.iter().filter(|zone| !zone.zone_id.is_empty());
            let zone = zones.find(|zone| Some(&zone.zone_name) == instance.zone.as_ref());
            let id = zone.map(|zone| (ZONE_ID.to_owned(), zone.zone_id.clone()));
            instance.labels.extend(id);
        }
    }
    let first = format!("{NETWORK_NODE}1");
    new.retain(|(node, instance)| !has(node, &first) && has_topology(instance));
    for some in new.chunks_mut(TOPOLOGIES) {
        let ids: Vec<&str> = some.iter().map(|(_, instance)| ec2_id(instance)).collect();
        let mut topologies = ec2::topology(&ids).unwrap_or_else(|error| not_labelled(&error));
        for (_, instance) in some {
            let layers = topologies.remove(ec2_id(instance)).unwrap_or_default();
            let layers = (1..=8).zip(layers);
            let labels = layers.map(|(number, node)| (format!("{NETWORK_NODE}{number}"), node));
            instance.labels.extend(labels);
        }
    }
}

/// The ID at the end of the provider ID.
fn ec2_id(instance: &Instance) -> &str {
    let mut parts = instance.provider_id.rsplit('/');
    parts.next().unwrap_or_default()
}

/// Whether EC2 describes the topology of this instance type. The Go provider requests it for the same types by default.
fn has_topology(instance: &Instance) -> bool {
    let kind = instance.instance_type.as_deref().unwrap_or_default();
    ["hpc", "trn", "p"].iter().any(|family| {
        let rest = kind.strip_prefix(family).unwrap_or_default();
        rest.starts_with(|digit: char| digit.is_ascii_digit())
    })
}

fn not_labelled<T: Default>(error: &Error) -> T {
    log::warn(
        "nodes stay without labels of their topology",
        &[("reason", error.message())],
    );
    T::default()
}
