//! The laws about the pod CIDRs of nodes, checked on the API server's record: no two nodes share an address, every
//! block has the configured size and network, none is taken from the Services, and no node is reported as connected
//! while a route is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_core::settings::IpamSettings;
use ccm_core::well_known::NETWORK_UNAVAILABLE;
use ccm_sim::cluster::Write;
use ipnet::IpNet;
use serde_json::Value;

use crate::laws::{describe, list};
use crate::route_laws::RouteRecord;

/// The reasons of the condition NetworkUnavailable when the controllers have set it.
const OURS: [&str; 2] = ["RouteCreated", "NoRouteCreated"];
/// The maximum age of the listing that a condition is based on.
const STALE: Duration = Duration::from_secs(90);

/// The nodes of a cluster, as they are after the writes so far.
#[derive(Default)]
pub(crate) struct Nodes<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Nodes<'a> {
    /// Applies one more write.
    pub(crate) fn take(&mut self, write: &'a Write) {
        let is_done = write.request.code.is_none_or(|code| code < 300);
        match (write.request.verb, &write.after) {
            _ if write.request.resource != "nodes" => {}
            ("create", _) => {
                if let Some(name) = write.body["metadata"]["name"].as_str()
                    && is_done
                {
                    self.0.insert(name, &write.body);
                }
            }
            (_, Some(after)) => drop(self.0.insert(&write.request.name, after)),
            (_, None) => drop(self.0.remove(write.request.name.as_str())),
        }
    }

    /// All nodes, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.iter().map(|(name, node)| (*name, *node))
    }
}

/// The pod CIDRs of a node that can be parsed.
pub(crate) fn pod_cidrs(node: &Value) -> Vec<IpNet> {
    let cidrs = list(&node["spec"]["podCIDRs"]).iter();
    let cidrs = cidrs.filter_map(|one| one.as_str()?.parse::<IpNet>().ok());
    cidrs.map(|one| one.trunc()).collect()
}

/// A node without the controllers' fields of its pods' network. `before` shows what other clients had set.
pub(crate) fn without_ours(node: &mut Value, before: &Value) {
    if list(&before["spec"]["podCIDRs"]).is_empty() {
        node["spec"]["podCIDRs"] = Value::Null;
        node["spec"]["podCIDR"] = Value::Null;
    }
    let is_theirs = |one: &&Value| {
        let reason = one["reason"].as_str().unwrap_or_default();
        one["type"] == NETWORK_UNAVAILABLE && !OURS.contains(&reason)
    };
    if !list(&before["status"]["conditions"])
        .iter()
        .any(|one| is_theirs(&one))
        && let Some(conditions) = node["status"]["conditions"].as_array_mut()
    {
        conditions.retain(|one| one["type"] != NETWORK_UNAVAILABLE);
        if conditions.is_empty() {
            node["status"]["conditions"] = Value::Null;
        }
    }
}

/// The messages of all broken laws.
pub(crate) fn broken(record: &RouteRecord) -> Vec<String> {
    let mut nodes = Nodes::default();
    let mut found = Vec::new();
    for write in &record.history {
        if write.request.identity == record.identity
            && write.request.resource == "nodes"
            && let (Some(before), Some(after)) = (&write.before, &write.after)
        {
            if pod_cidrs(before).is_empty() && !pod_cidrs(after).is_empty() {
                found.extend(given(write, after, &nodes, record.pod_networks.as_ref()));
            }
            found.extend(connected(write, before, after, record));
        }
        nodes.take(write);
    }
    found
}

/// The violations in a node's pod CIDRs.
fn given(
    write: &Write,
    after: &Value,
    nodes: &Nodes<'_>,
    settings: Option<&IpamSettings>,
) -> Vec<String> {
    let blocks = pod_cidrs(after);
    let mut found = Vec::new();
    for (name, node) in nodes.all().filter(|(name, _)| *name != write.request.name) {
        let overlaps = |block: &IpNet| pod_cidrs(node).iter().any(|one| overlap(one, block));
        if blocks.iter().any(overlaps) {
            found.push(describe(write, &format!("gives out what node/{name} has")));
        }
    }
    let Some(settings) = settings else {
        found.push(describe(write, "gives out what nobody wants it to"));
        return found;
    };
    let is_as_said = blocks.len() == settings.families.len()
        && settings
            .families
            .iter()
            .zip(&blocks)
            .all(|(family, block)| {
                family.cluster_cidr.contains(block) && block.prefix_len() == family.node_mask
            });
    if !is_as_said {
        found.push(describe(write, "is not one block of each family"));
    }
    let is_taken = |block: &IpNet| settings.service_cidrs.iter().any(|one| overlap(one, block));
    if blocks.iter().any(is_taken) {
        found.push(describe(write, "gives out addresses of Services"));
    }
    let written = list(&after["spec"]["podCIDRs"]);
    let is_canonical = |(text, block): (&Value, &IpNet)| *text == block.to_string();
    if !written.iter().zip(&blocks).all(is_canonical) {
        found.push(describe(write, "spells a block as nobody else does"));
    }
    found
}

/// Whether a node is reported as connected although it is not.
fn connected(write: &Write, before: &Value, after: &Value, record: &RouteRecord) -> Option<String> {
    let says = |node: &Value| {
        let conditions = list(&node["status"]["conditions"]).iter();
        let mut conditions = conditions.filter(|one| one["type"] == NETWORK_UNAVAILABLE);
        conditions.any(|one| one["status"] == "False" && one["reason"] == OURS[0])
    };
    if says(before) || !says(after) {
        return None;
    }
    let addresses: Vec<&str> = list(&after["status"]["addresses"])
        .iter()
        .filter_map(|one| one["address"].as_str())
        .collect();
    let is_there = |block: &IpNet| {
        let routes = record.clouds.iter().flat_map(|cloud| &cloud.recorded.all);
        let mut routes = routes.filter(|route| route.destination == *block);
        routes.any(|route| {
            route.made <= write.at
                && route.gone.is_none_or(|gone| gone + STALE > write.at)
                && addresses.contains(&route.gateway.as_str())
        })
    };
    let mut wanted = pod_cidrs(after);
    let is_made_elsewhere = |block: &IpNet| {
        let mut clouds = record.clouds.iter();
        clouds.any(|cloud| cloud.recorded.elsewhere.contains(block))
    };
    wanted.retain(|block| record.is_inside(block) && !is_made_elsewhere(block));
    let missing = wanted.iter().find(|block| !is_there(block))?;
    Some(describe(
        write,
        &format!("says that the network is there, and no route leads to {missing}"),
    ))
}

fn overlap(left: &IpNet, right: &IpNet) -> bool {
    left.contains(right) || right.contains(left)
}
