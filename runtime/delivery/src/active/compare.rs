//! Describes how two generations' answers to the same question differ. Only values that the controllers write count:
//! events, reasons and proofs may differ.

use std::collections::BTreeMap;

use ccm_core::cloud::load_balancer::Found;
use ccm_core::cloud::provider_id::ProviderId;
use ccm_core::cloud::route::{CloudRoute, RouteTarget};
use ccm_core::cloud::{Address, CloudNode, Instance, Lookup};
use ipnet::IpNet;

/// Maximum number of reported differences of one answer.
const TOLD: usize = 8;
/// Maximum length of a shown value, in characters.
const SHOWN: usize = 64;

/// Differences of the candidate's look-ups. Look-ups that the serving generation could not answer are skipped.
pub(super) fn lookups(
    nodes: &[CloudNode],
    serving: &[Lookup],
    candidate: &[Lookup],
) -> Vec<String> {
    let pairs = nodes.iter().zip(serving.iter().zip(candidate));
    pairs
        .filter_map(|(node, (ours, theirs))| {
            lookup(ours, theirs).map(|what| format!("node {}: {what}", shown(&node.name)))
        })
        .take(TOLD)
        .collect()
}

/// Difference of two answers about a load balancer.
pub(super) fn balancers(service: &str, serving: &Found, candidate: &Found) -> Option<String> {
    if serving == candidate {
        return None;
    }
    let word = |found: &Found| match found {
        Found::Present(status) => shown(&format!("present with {status}")),
        Found::Absent => "absent".to_owned(),
    };
    let (ours, theirs) = (word(serving), word(candidate));
    Some(format!(
        "load balancer of {}: {ours}, and {theirs} by the candidate",
        shown(service)
    ))
}

/// Differences of two lists of routes. Ignores route IDs, data for removals, order, and the text of targets that are no
/// node.
pub(super) fn routes(serving: &[CloudRoute], candidate: &[CloudRoute]) -> Vec<String> {
    let (ours, theirs) = (destinations(serving), destinations(candidate));
    let all = ours
        .keys()
        .chain(theirs.keys().filter(|it| !ours.contains_key(*it)));
    all.filter_map(|destination| {
        let (ours, theirs) = (ours.get(destination), theirs.get(destination));
        let word = |targets: Option<&Vec<String>>| match targets {
            Some(targets) => targets.join(", "),
            None => "none".to_owned(),
        };
        (ours != theirs).then(|| {
            let what = difference("leads to", &word(ours), &word(theirs));
            format!("route {}: {what}", shown(destination))
        })
    })
    .take(TOLD)
    .collect()
}

/// Targets by destination. A destination listed twice has both targets, sorted.
fn destinations(routes: &[CloudRoute]) -> BTreeMap<String, Vec<String>> {
    let mut destinations: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for route in routes {
        let CloudRoute {
            id: _,
            destination_cidr: spelled,
            target,
            extra: _,
        } = route;
        let network = spelled.parse::<IpNet>();
        let destination = network.map_or_else(|_| spelled.clone(), |it| it.trunc().to_string());
        let target = match target {
            RouteTarget::Other(_) => "other".to_owned(),
            target => target.to_string(),
        };
        destinations.entry(destination).or_default().push(target);
    }
    destinations.values_mut().for_each(|targets| targets.sort());
    destinations
}

/// Describes an impossible provider ID in the answer: one that no controller could write down.
pub(super) fn impossible(
    nodes: &[CloudNode],
    schemes: &[String],
    answer: &[Lookup],
) -> Option<String> {
    nodes.iter().zip(answer).find_map(|(node, lookup)| {
        let Lookup::Found(instance) = lookup else {
            return None;
        };
        let (stored, answered) = (node.provider_id.as_deref(), instance.provider_id.as_str());
        let is_ours = ProviderId::parse(answered)
            .is_ok_and(|id| schemes.iter().any(|scheme| scheme == id.scheme));
        let is_same = stored.is_none_or(|stored| stored == answered);
        // An empty ID stands for the stored one.
        let is_possible = is_ours && is_same || answered.is_empty() && stored.is_some();
        (!is_possible).then(|| {
            format!(
                "node {}: the provider ID {}",
                shown(&node.name),
                shown(answered)
            )
        })
    })
}

fn lookup(serving: &Lookup, candidate: &Lookup) -> Option<String> {
    match (serving, candidate) {
        (Lookup::Unknown(_), _)
        | (Lookup::Gone, Lookup::Gone)
        | (Lookup::NotMine, Lookup::NotMine) => None,
        (Lookup::Found(ours), Lookup::Found(theirs)) => instance(ours, theirs),
        (ours, theirs) => Some(difference("lookup", kind(ours), kind(theirs))),
    }
}

fn kind(lookup: &Lookup) -> &'static str {
    match lookup {
        Lookup::Found(_) => "found",
        Lookup::Gone => "gone",
        Lookup::NotMine => "not mine",
        Lookup::Unknown(_) => "unknown",
    }
}

/// The first difference only: an answer about another machine differs in everything. Each field is named, so that a new
/// one is not forgotten.
fn instance(ours: &Instance, theirs: &Instance) -> Option<String> {
    let Instance {
        provider_id,
        instance_type,
        zone,
        region,
        addresses,
        labels,
        shutdown,
    } = ours;
    if *provider_id != theirs.provider_id {
        return Some(difference("provider ID", provider_id, &theirs.provider_id));
    }
    for (what, ours, theirs) in [
        ("instance type", instance_type, &theirs.instance_type),
        ("zone", zone, &theirs.zone),
        ("region", region, &theirs.region),
    ] {
        if ours != theirs {
            let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
            return Some(difference(what, &word(ours), &word(theirs)));
        }
    }
    let is_same = |(ours, theirs): (&Address, &Address)| ours.is_same(theirs);
    let are_same = addresses.len() == theirs.addresses.len()
        && addresses.iter().zip(&theirs.addresses).all(is_same);
    if !are_same {
        let (ours, theirs) = (list(addresses), list(&theirs.addresses));
        return Some(difference("addresses", &ours, &theirs));
    }
    lost_label(labels, &theirs.labels).or_else(|| {
        // A side that cannot tell says nothing else. A machine that was switched off meanwhile is asked about again.
        let (ours, theirs) = ((*shutdown)?, theirs.shutdown?);
        (ours != theirs).then(|| difference("state", power(ours), power(theirs)))
    })
}

/// The first label that the candidate lacks or changes. It may add some: labels only fill gaps.
fn lost_label(ours: &[(String, String)], theirs: &[(String, String)]) -> Option<String> {
    ours.iter().find_map(|(key, _)| {
        let (ours, theirs) = (label(ours, key)?, label(theirs, key));
        let what = format!("label {}", shown(key));
        (theirs != Some(ours)).then(|| difference(&what, ours, theirs.unwrap_or("none")))
    })
}

/// The first value of this key, which is the one that is written.
fn label<'a>(labels: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let mut labels = labels.iter();
    labels.find_map(|(other, value)| (other == key).then_some(value.as_str()))
}

fn power(is_shut_down: bool) -> &'static str {
    match is_shut_down {
        true => "switched off",
        false => "running",
    }
}

fn list(addresses: &[Address]) -> String {
    let words: Vec<_> = addresses
        .iter()
        .map(|one| format!("{} {}", one.address_type.as_str(), one.address))
        .collect();
    words.join(", ")
}

fn difference(what: &str, ours: &str, theirs: &str) -> String {
    format!(
        "{what} {}, and {} by the candidate",
        shown(ours),
        shown(theirs)
    )
}

/// Escapes and truncates a guest's text for display.
pub(super) fn shown(text: &str) -> String {
    let plain = text.chars().flat_map(char::escape_debug);
    plain.take(SHOWN).collect()
}
