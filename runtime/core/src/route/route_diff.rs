//! Plans the work after a listing: compares the routes each node wants with the listed ones. Keeps no state. `listing`
//! decides the kind of a listed route, such as a blackhole; `facts` decides what is replaced at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::jiff::Timestamp;

use super::change::PlannedChange;
use super::condition::{self, Network};
use super::desired_routes::{Fault, NodeRoutes};
use super::destination_state::{Attempt, DestinationState};
use super::facts::{Key, worse};
use super::listing::{Entry, Listing, Verdict};
use super::memory::Reconciliation;
use super::node_state::{NodeRecord, NodeState, fingerprint};
use crate::cloud::instance::CloudEvent;
use crate::cloud::route::CloudRoute;
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::reconciliation::event::reasons;

/// One planned reconciliation, with its changes.
#[derive(Debug, Clone)]
pub(super) struct Work {
    /// Earliest start, as requested by the cloud.
    pub(super) at: Moment,
    pub(super) changes: Vec<PlannedChange>,
    /// State of the node's other routes.
    pub(super) rest: Option<Network>,
    /// Number of the node's other routes that exist.
    pub(super) right: usize,
    pub(super) node_events: Vec<CloudEvent>,
    /// Fingerprint of the node; zero for a destination without one.
    pub(super) fingerprint: u64,
}

/// Counts of routes by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Routes to the node that wants them.
    pub right: usize,
    /// Wanted routes that do not exist.
    pub missing: usize,
    /// Routes that are ours and that no node wants.
    pub stray: usize,
    /// Routes in the cluster's networks that are not ours.
    pub foreign: usize,
    /// Routes outside of the cluster's networks, or with an unreadable destination; they are ignored.
    pub outside: usize,
    /// Pod networks for which no route can be made.
    pub refused: usize,
    /// Destinations whose last change failed.
    pub failing: usize,
    /// Destinations with a removal held by the brake.
    pub held: usize,
}

/// Inputs of a plan.
pub(super) struct Planning<'a> {
    pub(super) now: Moment,
    pub(super) asked_at: Moment,
    /// The generation of the provider that was asked.
    pub(super) generation: u64,
    /// Whether the listing is complete, so that it permits removals.
    pub(super) is_complete: bool,
    pub(super) listing: &'a Listing,
    pub(super) destinations: &'a BTreeMap<IpNet, DestinationState>,
    pub(super) nodes: &'a BTreeMap<String, NodeState>,
    pub(super) reconciliations: &'a BTreeMap<Key, Reconciliation>,
    /// Nodes that routes lead to, or were made for.
    pub(super) led: BTreeSet<&'a str>,
}

/// The reconciliations to start after a listing, and the counts.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) work: BTreeMap<Key, Work>,
    /// Subjects and destinations whose unfinished changes are still wanted.
    pub(super) kept: BTreeSet<(Key, IpNet)>,
    pub(super) tally: Tally,
    /// Some route stays only because the answer was not complete.
    pub(super) is_unproven: bool,
    /// Nodes whose condition cannot be written before the cache has our last write, and until when that is waited for.
    pub(super) late: Vec<(String, Moment)>,
    /// What reconciliations in flight kept from being planned: nodes, and destinations that another subject changes.
    /// The next listing shows what they leave.
    pub(super) passed_over: BTreeSet<Key>,
    /// Destinations whose removals belong to a node's reconciliation or to another component.
    claimed: BTreeSet<IpNet>,
}

/// State of one destination of a node.
enum Destination {
    Right,
    /// Remove these, then create one.
    Lacking(Vec<Arc<CloudRoute>>),
    /// A route that is not ours occupies the destination.
    Taken(String),
    /// The route leads to this other node, which has the same pod network and is entitled to it.
    Led(String),
    /// Unknown now: the destination is being changed, the node has changed, or the answer is incomplete.
    Undecided,
}

impl Planning<'_> {
    pub(super) fn plan(&self, desired_routes: &[NodeRoutes]) -> Plan {
        let mut plan = Plan::default();
        for desired in desired_routes {
            self.plan_node(desired, &mut plan);
        }
        for (destination, entries) in &self.listing.inside {
            self.plan_destination(destination, entries, &mut plan);
        }
        plan.tally.foreign = self.listing.foreign().count();
        plan.tally.outside = self.listing.outside;
        plan
    }

    fn plan_node(&self, desired: &NodeRoutes, plan: &mut Plan) {
        let node = &*desired.node;
        let key = Key::Node(node.name().to_owned());
        let fingerprint = fingerprint(node);
        let note = self.nodes.get(node.name()).map(|state| &state.record);
        let note = note.filter(|note| note.is_about(node));
        plan.tally.refused += desired.faults.len();
        let mut work = Work {
            at: self.now,
            changes: Vec::new(),
            rest: self.beforehand(desired),
            right: 0,
            node_events: Vec::new(),
            fingerprint,
        };
        let mut faults = desired.faults.clone();
        for destination in &desired.destinations {
            let state = (fingerprint, self.generation);
            if note.is_some_and(|note| note.is_elsewhere(destination, state)) {
                // Routes to this destination belong to the other component.
                plan.claimed.insert(*destination);
                continue;
            }
            let place = self.place(destination, node.name(), plan);
            faults.extend(self.plan_route(&key, destination, place, &mut work, plan));
        }
        if work.right == 0 && work.changes.is_empty() && work.rest == Some(Network::Available) {
            // Another component makes all of its routes.
            work.rest = None;
        }
        let faults = faults.iter();
        let faults = faults.map(|fault| fault.reason().event(&fault.to_string()));
        work.node_events.extend(faults);
        let is_reported =
            |event: &CloudEvent| note.is_some_and(|note| note.reported.contains(&event.message));
        work.node_events.retain(|event| !is_reported(event));
        let mut has_condition_to_write = self.has_condition_to_write(node, work.rest, note);
        let reconciliation = self.reconciliations.get(&key);
        let is_in_flight = matches!(reconciliation, Some(Reconciliation::InFlight));
        let waits_until = note.and_then(|note| note.waits_for_cache(node, self.now));
        if let Some(until) = waits_until.filter(|_| has_condition_to_write && !is_in_flight) {
            plan.late.push((node.name().to_owned(), until));
            has_condition_to_write = false;
        }
        if work.changes.is_empty() && work.node_events.is_empty() && !has_condition_to_write {
            return;
        }
        if is_in_flight {
            plan.passed_over.insert(key);
        } else {
            plan.work.insert(key, work);
        }
    }

    /// Adds to the node's work what the state of one of its destinations requires. Returns the fault of that pod network,
    /// if it has one.
    fn plan_route(
        &self,
        key: &Key,
        destination: &IpNet,
        place: Destination,
        work: &mut Work,
        plan: &mut Plan,
    ) -> Option<Fault> {
        let mut fault = None;
        match place {
            Destination::Right => {
                plan.tally.right += 1;
                work.right += 1;
                return None;
            }
            Destination::Undecided => {
                work.rest = None;
                // One subject at a time: its unfinished change comes before the removal of unwanted routes.
                let state = self.destinations.get(destination);
                if state.is_some_and(|state| state.is_unfinished_for(key)) {
                    plan.claimed.insert(*destination);
                }
                plan.kept.insert((key.clone(), *destination));
            }
            Destination::Taken(what) => {
                work.rest = work.rest.map(worse);
                let message = format!(
                    "no route to {destination} is created: the existing route leads to {what}, which is not a node of this cluster. If it is unused, delete it at the cloud"
                );
                work.node_events
                    .push(reasons::FOREIGN_ROUTE.event(&message));
            }
            // Not `Doubtful`: packets for its pods arrive at the other node.
            Destination::Led(other) => {
                work.rest = work.rest.map(|_| Network::Unavailable);
                fault = Some(Fault::Overlaps(*destination, other));
            }
            Destination::Lacking(remove) => {
                match self.attempt(key, destination, work.fingerprint) {
                    Attempt::Due(at) => {
                        work.at = match work.changes.is_empty() {
                            true => at,
                            false => work.at.min(at),
                        };
                        work.changes.push(PlannedChange::new(*destination, remove));
                    }
                    Attempt::Later(true) => work.rest = work.rest.map(|_| Network::Unavailable),
                    Attempt::Later(false) => work.rest = work.rest.map(worse),
                }
                plan.claimed.insert(*destination);
                plan.kept.insert((key.clone(), *destination));
            }
        }
        plan.tally.missing += 1;
        fault
    }

    /// State of the node's pod networks before any route is considered.
    fn beforehand(&self, desired: &NodeRoutes) -> Option<Network> {
        let is_overlap = |fault: &Fault| matches!(fault, Fault::Overlaps(..));
        let node = &*desired.node;
        if !desired.faults.iter().all(is_overlap) {
            // A misconfigured cluster network must not take every node out of service.
            return None;
        }
        match (desired.faults.is_empty(), desired.destinations.is_empty()) {
            // Another node owns the addresses, so this node has no route to its own.
            (false, _) if self.is_complete => Some(Network::Unavailable),
            (false, _) => Some(Network::Doubtful),
            (true, false) => Some(Network::Available),
            // ROUTE-040: a node without pod networks gets no condition, unless there are routes to it.
            (true, true) if node.pod_cidrs().is_empty() && self.led.contains(node.name()) => {
                Some(Network::Unavailable)
            }
            (true, true) => None,
        }
    }

    /// Whether the condition has to be written, now that a write that failed is due again.
    fn has_condition_to_write(
        &self,
        node: &PrunedNode,
        rest: Option<Network>,
        note: Option<&NodeRecord>,
    ) -> bool {
        let Some(network) = rest else {
            return false;
        };
        let is_early = note.is_some_and(|note| note.due.is_some_and(|due| due > self.now));
        // The time does not affect whether a patch is needed.
        let now = Timestamp::UNIX_EPOCH;
        !is_early && condition::patch(node, network, now).is_some()
    }

    fn place(&self, destination: &IpNet, node: &str, plan: &mut Plan) -> Destination {
        if let Some(by) = self.changed_by(destination) {
            plan.claimed.insert(*destination);
            if !matches!(by, Key::Node(name) if name == node) {
                plan.passed_over.insert(Key::Destination(*destination));
            }
            return Destination::Undecided;
        }
        let entries = self.listing.at(destination);
        if entries.iter().any(|entry| entry.is_right(node)) {
            return Destination::Right;
        }
        let mut remove = Vec::new();
        for entry in entries {
            match &entry.verdict {
                Verdict::Foreign(what) => return Destination::Taken(what.clone()),
                Verdict::Removable if self.is_complete => remove.push(entry.route.clone()),
                Verdict::Removable => {
                    plan.is_unproven = true;
                    return Destination::Undecided;
                }
                Verdict::Right(other) => return Destination::Led(other.clone()),
                Verdict::Left => return Destination::Undecided,
            }
        }
        Destination::Lacking(remove)
    }

    /// ROUTE-025: removes our routes that no node wants.
    fn plan_destination(&self, destination: &IpNet, entries: &[Entry], plan: &mut Plan) {
        let removable = entries
            .iter()
            .filter(|entry| entry.verdict == Verdict::Removable);
        let remove: Vec<_> = removable.map(|entry| entry.route.clone()).collect();
        if remove.is_empty() || plan.claimed.contains(destination) {
            return;
        }
        plan.tally.stray += remove.len();
        let key = Key::Destination(*destination);
        plan.kept.insert((key.clone(), *destination));
        if !self.is_complete {
            plan.is_unproven = true;
            return;
        }
        if self.changed_by(destination).is_some() {
            return;
        }
        if let Attempt::Due(at) = self.attempt(&key, destination, 0) {
            let work = Work {
                at,
                changes: vec![PlannedChange::new(*destination, remove)],
                rest: None,
                right: 0,
                node_events: Vec::new(),
                fingerprint: 0,
            };
            plan.work.insert(key, work);
        }
    }

    fn changed_by(&self, destination: &IpNet) -> Option<&Key> {
        self.destinations
            .get(destination)?
            .changed_by(self.asked_at)
    }

    fn attempt(&self, key: &Key, destination: &IpNet, fingerprint: u64) -> Attempt {
        match self.destinations.get(destination) {
            Some(state) => state.attempt(key, fingerprint, self.now),
            None => Attempt::Due(self.now),
        }
    }
}
