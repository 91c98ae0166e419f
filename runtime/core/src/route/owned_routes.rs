//! Tracks which routes are known to be ours: those listed as leading to a node of ours, and those created for one. Only
//! these may be removed although they lead to something alive, once their node has vanished. Lost at a restart: such
//! routes are then reported and left alone.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::listing::Asked;
use crate::cloud::route::{CloudRoute, RouteTarget};
use crate::moment::Moment;

/// Number of routes at which an incomplete answer no longer carries earlier ones over: as many as one answer has.
/// Answers that are never complete and always name other routes must not fill the memory.
const MOST_CARRIED_OVER: usize = 40_000;

/// Routes known to be ours, with the name of their node.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// By destination and the cloud's route ID.
    listed: BTreeMap<(IpNet, String), String>,
    /// By destination: the node, and when the route was created. No listing has reported its route ID yet.
    made: BTreeMap<IpNet, (String, Moment)>,
}

impl Known {
    /// Records that a route to `destination` was created for `node`.
    pub(super) fn make(&mut self, destination: IpNet, node: &str, now: Moment) {
        self.made.insert(destination, (node.to_owned(), now));
    }

    /// The node that this route is known to have led to.
    pub(super) fn node(&self, destination: &IpNet, id: &str) -> Option<&str> {
        let listed = self.listed.get(&(*destination, id.to_owned()));
        let made = self.made.get(destination).map(|(node, _)| node);
        listed.or(made).map(String::as_str)
    }

    /// Absorbs a listing of the routes in the cluster's networks. `is_there` says whether a node of this name exists
    /// now. An incomplete answer removes only the entries that it contradicts, and those for which there is no room:
    /// their routes then stay.
    pub(super) fn absorb_listing<'a>(
        &mut self,
        routes: impl Iterator<Item = (IpNet, &'a CloudRoute)> + Clone,
        asked: &Asked,
        is_complete: bool,
        is_there: impl Fn(&str) -> bool,
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
                RouteTarget::Node(name) | RouteTarget::Outdated(name) if asked.has(name) => {
                    // From now on the route ID identifies it, not just its destination.
                    self.made.remove(&destination);
                    listed.insert(key, name.clone());
                }
                RouteTarget::Other(_) => match self.node(&destination, &route.id) {
                    // Of several routes it is unknown which one was created here.
                    Some(node)
                        if !is_there(node)
                            && (count.get(&destination) == Some(&1)
                                || self.listed.contains_key(&key)) =>
                    {
                        listed.insert(key, node.to_owned());
                    }
                    // It leads elsewhere although its node exists: another owner has taken it over.
                    _ => {
                        self.made.remove(&destination);
                        contradicted.insert(key);
                    }
                },
                _ => {}
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
