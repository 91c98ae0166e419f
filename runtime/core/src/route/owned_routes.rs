//! Tracks which routes are known to be ours: those listed as leading to a node of ours, and those created for one. Only
//! these may be removed although they lead to something alive, once their node has vanished. Lost at a restart: such
//! routes are then reported and left alone.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::listing::Asked;
use super::network::has;
use crate::cloud::route::{CloudRoute, RouteTarget};
use crate::moment::Moment;
use crate::node::object::{NodeRef, PrunedNode};

/// Number of routes at which an incomplete answer no longer carries earlier ones over: as many as one answer has.
/// Answers that are never complete and always name other routes must not fill the memory.
const MOST_CARRIED_OVER: usize = 40_000;

/// Routes known to be ours, with their node.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// By destination and the cloud's route ID.
    listed: BTreeMap<(IpNet, String), NodeRef>,
    /// By destination: the node, and when the route was created. No listing has reported its route ID yet.
    made: BTreeMap<IpNet, (NodeRef, Moment)>,
}

/// Whether `led`, the node that a route to `destination` led to, has vanished: no node has its name `now`, or another one
/// that does not want the route. One that wants it may be on the same machine, which the provider cannot know before the
/// node is initialised.
pub(super) fn has_vanished(led: &NodeRef, destination: &IpNet, now: Option<&PrunedNode>) -> bool {
    now.is_none_or(|node| node.uid() != led.uid && !has(node, destination))
}

impl Known {
    /// Records that a route to `destination` was created for `node`.
    pub(super) fn make(&mut self, destination: IpNet, node: &PrunedNode, now: Moment) {
        self.made.insert(destination, (node.node_ref(), now));
    }

    /// The node that this route is known to have led to.
    pub(super) fn node(&self, destination: &IpNet, id: &str) -> Option<&NodeRef> {
        let listed = self.listed.get(&(*destination, id.to_owned()));
        let made = self.made.get(destination).map(|(node, _)| node);
        listed.or(made)
    }

    /// Absorbs a listing of the routes in the cluster's networks. `has_vanished` says whether the node of a route to
    /// this destination has: see [`has_vanished`]. An incomplete answer removes only the entries that it contradicts,
    /// and those for which there is no room: their routes then stay.
    pub(super) fn absorb_listing<'a>(
        &mut self,
        routes: impl Iterator<Item = (IpNet, &'a CloudRoute)> + Clone,
        asked: &Asked,
        is_complete: bool,
        has_vanished: impl Fn(&NodeRef, &IpNet) -> bool,
    ) {
        let mut count: BTreeMap<IpNet, usize> = BTreeMap::new();
        for (destination, _) in routes.clone() {
            *count.entry(destination).or_default() += 1;
        }
        let mut listed = BTreeMap::new();
        let mut contradicted = BTreeSet::new();
        for (destination, route) in routes {
            let key = (destination, route.id.clone());
            match &route.target {
                RouteTarget::Node(name) | RouteTarget::Outdated(name) => {
                    if let Some(node) = asked.node(name) {
                        // From now on the route ID identifies it, not just its destination.
                        self.made.remove(&destination);
                        listed.insert(key, node);
                    }
                }
                RouteTarget::Other(_) => match self.node(&destination, &route.id) {
                    // Of several routes it is unknown which one was created here.
                    Some(node)
                        if has_vanished(node, &destination)
                            && (count.get(&destination) == Some(&1)
                                || self.listed.contains_key(&key)) =>
                    {
                        listed.insert(key, node.clone());
                    }
                    // It leads elsewhere although its node exists: another owner has taken it over.
                    _ => {
                        self.made.remove(&destination);
                        contradicted.insert(key);
                    }
                },
                RouteTarget::Blackhole => {}
            }
        }
        if !is_complete {
            for (key, node) in std::mem::take(&mut self.listed) {
                if listed.len() >= MOST_CARRIED_OVER {
                    break;
                }
                if !contradicted.contains(&key) {
                    listed.entry(key).or_insert(node);
                }
            }
        }
        self.listed = listed;
        self.made
            .retain(|_, (_, at)| !is_complete || *at >= asked.at);
    }
}
