//! Judges a provider's listing of routes against the nodes: which routes are right, which may be removed, and which are
//! not ours (F24). A listing is hostile input: in doubt a route stays.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;

use super::network::{has, is_inside, read};
use super::owned_routes::{Known, has_vanished};
use crate::cloud::route::{CloudRoute, RouteTarget};
use crate::moment::Moment;
use crate::node::answer_check::quoted;
use crate::node::object::{NodeRef, PrunedNode};

/// The request for a listing: when it was sent, to which generation of the provider, and with which nodes.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) at: Moment,
    pub(super) generation: u64,
    /// UIDs of the nodes sent to the provider, by name.
    pub(super) nodes: BTreeMap<String, String>,
}

impl Asked {
    pub(super) fn has(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// The node of this name as it was sent to the provider.
    pub(super) fn node(&self, name: &str) -> Option<NodeRef> {
        self.nodes.get(name).map(|uid| NodeRef {
            name: name.to_owned(),
            uid: uid.clone(),
        })
    }

    fn is_still(&self, name: &str, node: &PrunedNode) -> bool {
        self.nodes
            .get(name)
            .is_some_and(|asked| asked == node.uid())
    }
}

/// Verdict on a listed route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Leads to this node, as desired.
    Right(String),
    /// Ours, and not wanted.
    Removable,
    /// Stays: the node has changed since the request, or is not initialised yet.
    Left,
    /// Not ours; describes its target.
    Foreign(String),
}

/// One route in the cluster's networks.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) route: Arc<CloudRoute>,
    pub(super) verdict: Verdict,
}

impl Entry {
    /// Whether the route leads to this node, as desired.
    pub(super) fn is_right(&self, node: &str) -> bool {
        matches!(&self.verdict, Verdict::Right(to) if to == node)
    }
}

/// A listing with the verdicts on its routes.
#[derive(Debug, Clone, Default)]
pub(super) struct Listing {
    /// Routes in the cluster's networks, by destination.
    pub(super) inside: BTreeMap<IpNet, Vec<Entry>>,
    /// Number of routes with a destination outside of them, or one that is not a network (ROUTE-024).
    pub(super) outside: usize,
}

/// Inputs of a verdict.
pub(super) struct Judge<'a> {
    pub(super) asked: &'a Asked,
    pub(super) known: &'a Known,
    /// Returns the current node of this name.
    pub(super) node: &'a dyn Fn(&str) -> Option<Arc<PrunedNode>>,
}

/// Returns the routes inside the cluster's networks with their destinations, and the number of all others.
pub(super) fn inside<'a>(
    routes: &'a [CloudRoute],
    cluster: &[IpNet],
) -> (Vec<(IpNet, &'a CloudRoute)>, usize) {
    let read = routes.iter().filter_map(|route| {
        let destination = read(&route.destination_cidr)?;
        is_inside(&destination, cluster).then_some((destination, route))
    });
    let inside: Vec<_> = read.collect();
    let outside = routes.len() - inside.len();
    (inside, outside)
}

impl Listing {
    pub(super) fn judged(
        routes: &[(IpNet, &CloudRoute)],
        outside: usize,
        judge: &Judge<'_>,
    ) -> Listing {
        let mut inside: BTreeMap<IpNet, Vec<Entry>> = BTreeMap::new();
        let mut seen = HashSet::new();
        for (destination, route) in routes {
            // Ignore duplicates.
            if !seen.insert(*route) {
                continue;
            }
            inside.entry(*destination).or_default().push(Entry {
                verdict: judge.verdict(destination, route),
                route: Arc::new((*route).clone()),
            });
        }
        Listing { inside, outside }
    }

    /// The routes to this destination.
    pub(super) fn at(&self, destination: &IpNet) -> &[Entry] {
        let entries = self.inside.get(destination);
        entries.map(Vec::as_slice).unwrap_or_default()
    }

    /// Routes that are not ours: destination, target and the cloud's route ID.
    pub(super) fn foreign(&self) -> impl Iterator<Item = (&IpNet, &str, &str)> {
        self.inside.iter().flat_map(|(destination, entries)| {
            entries
                .iter()
                .filter_map(move |entry| match &entry.verdict {
                    Verdict::Foreign(what) => Some((destination, what.as_str(), &*entry.route.id)),
                    _ => None,
                })
        })
    }
}

/// The node that the route leads to, or was made for.
pub(super) fn leads_to(route: &CloudRoute) -> Option<&str> {
    match &route.target {
        RouteTarget::Node(name) | RouteTarget::Outdated(name) => Some(name),
        RouteTarget::Blackhole | RouteTarget::Other(_) => None,
    }
}

impl Judge<'_> {
    /// Verdict on a route whose destination lies in the cluster's networks.
    pub(super) fn verdict(&self, destination: &IpNet, route: &CloudRoute) -> Verdict {
        match &route.target {
            RouteTarget::Blackhole => Verdict::Removable,
            RouteTarget::Other(what) => match self.known.node(destination, &route.id) {
                Some(led) if has_vanished(led, destination, (self.node)(&led.name).as_deref()) => {
                    Verdict::Removable
                }
                _ => Verdict::Foreign(quoted(what)),
            },
            RouteTarget::Node(name) | RouteTarget::Outdated(name) if !self.asked.has(name) => {
                let what = format!("a node {}, which the request did not name", quoted(name));
                Verdict::Foreign(what)
            }
            RouteTarget::Node(name) => match (self.node)(name) {
                Some(node) if !self.asked.is_still(name, &node) => Verdict::Left,
                Some(node) if has(&node, destination) => Verdict::Right(name.clone()),
                Some(_) => Verdict::Removable,
                // The next listing says where it leads now.
                None => Verdict::Left,
            },
            RouteTarget::Outdated(name) => match (self.node)(name) {
                Some(node) if !self.asked.is_still(name, &node) => Verdict::Left,
                // It is replaced once its node has addresses again.
                Some(node) if node.is_uninitialized() && has(&node, destination) => Verdict::Left,
                Some(_) => Verdict::Removable,
                None => Verdict::Left,
            },
        }
    }
}
