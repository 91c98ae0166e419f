//! The laws about routes, checked on the records of the cloud and the API server: routes outside the cluster's CIDRs
//! are not touched, only a route that a complete answer listed as ours and unwanted is deleted (F24), routes are made
//! for existing nodes alone (F25), a route to a machine that never was a node stays, no more are deleted than the brake
//! allows (S11), every change has its record (S12), and there are pauses between listings.

use std::time::Duration;

use ccm_core::cloud::Lookup;
use ccm_core::cloud::route::RouteTarget;
use ccm_core::safety::brake::{Allowances, Brake};
use ccm_core::safety::permit::Mode;
use ccm_core::settings::IpamSettings;
use ccm_sim::cluster::Write;
use ipnet::IpNet;
use serde_json::Value;
use tokio::time::Instant;

use crate::audited::AuditedChange;
use crate::cloud::Truth;
use crate::deletions::risen;
use crate::laws::list;
use crate::pod_network_laws::{Nodes, pod_cidrs};
use crate::routes::{Changed, Operation, Recorded};

/// Minimum time between two listings of one process: the nodes must be quiet for this long.
const PAUSE: Duration = Duration::from_millis(900);
/// A change may be carried out this long after its budget was used.
const PAID: Duration = Duration::from_secs(60);

/// The record of routes and pod networks.
#[derive(Default)]
pub(crate) struct RouteRecord {
    /// The writes of nodes by all clients, in order.
    pub(crate) history: Vec<Write>,
    /// The user of the controllers at the API server.
    pub(crate) identity: &'static str,
    pub(crate) clouds: Vec<RouteCloud>,
    /// The true states of the machines, with their times.
    pub(crate) truth: Vec<Truth>,
    pub(crate) cluster_cidrs: Vec<IpNet>,
    /// The settings of node IPAM, if it runs.
    pub(crate) pod_networks: Option<IpamSettings>,
    /// Maximum number of simultaneous changes of routes.
    pub(crate) workers: usize,
    pub(crate) mode: Mode,
    pub(crate) allowances: Allowances,
}

/// The record of one cloud.
#[derive(Default)]
pub(crate) struct RouteCloud {
    pub(crate) recorded: Recorded,
    /// The audit records of its changes.
    pub(crate) audited: Vec<AuditedChange>,
}

impl RouteRecord {
    /// Whether a destination lies entirely in the cluster's CIDRs.
    pub(crate) fn is_inside(&self, destination: &IpNet) -> bool {
        let mut cidrs = self.cluster_cidrs.iter();
        cidrs.any(|one| one.contains(destination))
    }

    /// All nodes up to this request, as they were after each write.
    fn nodes(&self, until: u64) -> Vec<(&str, &Value)> {
        let mut found = Vec::new();
        for write in self
            .history
            .iter()
            .filter(|one| one.request.sequence <= until)
        {
            let mut nodes = Nodes::default();
            nodes.take(write);
            found.extend(nodes.all());
        }
        found
    }

    /// The nodes that exist after this request.
    fn present(&self, at: u64) -> Nodes<'_> {
        let mut nodes = Nodes::default();
        for write in self.history.iter().filter(|one| one.request.sequence <= at) {
            nodes.take(write);
        }
        nodes
    }

    /// Whether a node has ever had this address.
    fn was_a_node(&self, address: &str, until: u64) -> bool {
        let has_it = |node: &Value| {
            let mut addresses = list(&node["status"]["addresses"]).iter();
            addresses.any(|one| one["address"] == address)
        };
        self.nodes(until).into_iter().any(|(_, node)| has_it(node))
    }

    /// Whether a machine with this address runs at this time.
    fn is_alive(&self, address: &str, at: Instant) -> bool {
        let mut seen = Vec::new();
        for one in self.truth.iter().rev().filter(|one| one.at <= at) {
            if seen.contains(&&one.node) {
                continue;
            }
            seen.push(&one.node);
            if let Lookup::Found(instance) = &one.lookup
                && instance.addresses.iter().any(|one| one.address == address)
            {
                return true;
            }
        }
        false
    }
}

/// The messages of all broken laws.
pub(crate) fn broken(record: &RouteRecord) -> Vec<String> {
    let mut found = Vec::new();
    for cloud in &record.clouds {
        for change in &cloud.recorded.changes {
            found.extend(mode(change, record));
            found.extend(match change.what {
                Operation::Delete => deletion(change, &cloud.recorded, record),
                _ => creation(change, record).into_iter().collect(),
            });
        }
        found.extend(unrecorded(cloud));
        found.extend(brake(&cloud.recorded, record));
        found.extend(too_soon(&cloud.recorded));
        if cloud.recorded.most_open > record.workers {
            let (most, workers) = (cloud.recorded.most_open, record.workers);
            found.push(format!(
                "{most} routes are changed at a time, and not {workers}"
            ));
        }
    }
    found
}

fn describe(change: &Changed, what: &str) -> String {
    format!("{}, {what}: {:?}", change.path(), change.route)
}

fn mode(change: &Changed, record: &RouteRecord) -> Option<String> {
    let may_change = record.mode == Mode::Enforce;
    (!may_change).then(|| describe(change, "although nothing may be changed"))
}

/// F25: a route is made for a pod CIDR that a node has.
fn creation(change: &Changed, record: &RouteRecord) -> Option<String> {
    let destination = change.route.destination;
    if !record.is_inside(&destination) {
        return Some(describe(change, "outside of the cluster's CIDRs"));
    }
    let made_for = change.route.made_for.as_deref().unwrap_or_default();
    let mut nodes = record.nodes(change.after).into_iter();
    let is_wanted =
        nodes.any(|(name, node)| name == made_for && pod_cidrs(node).contains(&destination));
    (!is_wanted).then(|| describe(change, "for a node that does not have it (F25)"))
}

/// F24: a route is deleted only if a complete answer listed it as ours and no node needs it.
fn deletion(change: &Changed, cloud: &Recorded, record: &RouteRecord) -> Vec<String> {
    let (route, mut found) = (&change.route, Vec::new());
    if !record.is_inside(&route.destination) {
        found.push(describe(change, "outside of the cluster's CIDRs (F24)"));
    }
    let was_a_node = record.was_a_node(&route.gateway, change.after);
    if record.is_alive(&route.gateway, change.at) && !was_a_node {
        found.push(describe(
            change,
            "which leads to a machine that never was a node (F24)",
        ));
    }
    let mut listings = cloud.listings.iter().rev();
    let last = listings.find(|one| one.process == change.process && one.at <= change.at);
    let Some(last) = last else {
        found.push(describe(change, "which was never listed (F24)"));
        return found;
    };
    if !last.complete {
        found.push(describe(
            change,
            "after a listing that was not complete (F24)",
        ));
    }
    let listed = last.routes.iter().find(|one| one.id == route.id);
    match listed.map(|listed| &listed.target) {
        None => found.push(describe(change, "which was not listed (F24)")),
        Some(RouteTarget::Blackhole | RouteTarget::Outdated(_)) => {}
        Some(RouteTarget::Node(name)) => {
            let present = record.present(change.after);
            let has_it = |(one, node): (&str, &Value)| {
                one == name && pod_cidrs(node).contains(&route.destination)
            };
            if present.all().any(has_it) {
                found.push(describe(change, "which its node wants"));
            }
        }
        Some(RouteTarget::Other(_)) if was_a_node => {}
        Some(RouteTarget::Other(_)) => {
            found.push(describe(change, "which leads to somebody else (F24)"));
        }
    }
    found
}

/// S12: every change has one record, and every record a change.
fn unrecorded(cloud: &RouteCloud) -> Vec<String> {
    let mut left: Vec<&str> = cloud
        .audited
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    let mut found = Vec::new();
    for change in &cloud.recorded.changes {
        match left.iter().position(|path| *path == change.path()) {
            Some(index) => drop(left.remove(index)),
            None => found.push(describe(change, "has no record (S12)")),
        }
    }
    let rest = left.iter();
    found.extend(rest.map(|one| format!("a record says {one}, which was not done (S12)")));
    found
}

/// S11: no more deletions in any window than the brake allows, across restarts.
fn brake(cloud: &Recorded, record: &RouteRecord) -> Vec<String> {
    let deletions = cloud.changes.iter();
    let deletions = deletions.filter(|one| one.what == Operation::Delete);
    // A route that leads nowhere and is replaced at once disconnects no node.
    let is_replaced = |gone: &&Changed| {
        let mut later = cloud.changes.iter();
        let next = later.find(|one| {
            one.after >= gone.after
                && one.at >= gone.at
                && one.route.destination == gone.route.destination
                && !std::ptr::eq(*one, *gone)
        });
        next.is_some_and(|next| next.what == Operation::Create && next.at < gone.at + PAID)
    };
    let deletions = deletions.filter(|gone| !is_replaced(gone));
    let times: Vec<Instant> = deletions.map(|one| one.at).collect();
    let allowance = record.allowances.of(Brake::RouteDeletion);
    let window = allowance.window.saturating_sub(PAID);
    let mut found = Vec::new();
    for last in &times {
        let within = |at: &&Instant| **at <= *last && **at + window > *last;
        let most = allowance.risen(cloud.all.len(), risen(&times, *last));
        if times.iter().filter(within).count() > most {
            found.push("more routes go than the brake lets through (S11)".to_owned());
        }
    }
    found
}

/// The violations of the pause between listings.
fn too_soon(cloud: &Recorded) -> Vec<String> {
    let pairs = cloud.listings.windows(2);
    let pairs =
        pairs.filter(|pair| pair[0].process == pair[1].process && pair[0].at + PAUSE > pair[1].at);
    let reported = pairs.map(|pair| {
        let apart = pair[1].at - pair[0].at;
        format!("routes are listed again too soon: after {apart:?}")
    });
    reported.collect()
}
