//! What there is to do when routes were listed: what each node wants, held against what there is. Decides who does
//! what; keeps nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;

use super::change::{Change, RetainedState};
use super::condition::{self, Network};
use super::desired_routes::{Fault, NodeRoutes};
use super::facts::{Key, worse};
use super::listing::{Entry, Listing, Verdict};
use super::memory::{Note, fingerprint};
use super::network::pod_cidrs;
use super::{name, warning};
use crate::cloud::instance::CloudEvent;
use crate::cloud_route::CloudRoute;
use crate::moment::Moment;

/// One reconciliation that is to be held.
#[derive(Debug, Clone)]
pub(super) struct Work {
    /// Not before: the cloud asked for it.
    pub(super) at: Moment,
    pub(super) changes: Vec<Change>,
    /// How the node's other routes stand.
    pub(super) rest: Option<Network>,
    /// How many of them are there.
    pub(super) right: usize,
    pub(super) complaints: Vec<CloudEvent>,
    /// Of the node; zero without one.
    pub(super) fingerprint: u64,
}

/// How the routes stand, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Those that lead to the node that wants them.
    pub right: usize,
    /// Those that nodes want and have not.
    pub missing: usize,
    /// Those that are ours and that nobody wants.
    pub stray: usize,
    /// Those in the cluster's networks that are not ours.
    pub foreign: usize,
    /// Those outside of the cluster's networks, or to what is no network: nobody looks at them.
    pub outside: usize,
    /// Pod networks for which nothing can be made.
    pub refused: usize,
    /// Destinations at which the last try to change something failed.
    pub failing: usize,
    /// Destinations at which a removal was held by the brake.
    pub held: usize,
}

/// What a pass is planned with.
pub(super) struct Planning<'a> {
    pub(super) now: Moment,
    pub(super) asked_at: Moment,
    /// Whether the listing may prove that something leads nowhere.
    pub(super) is_complete: bool,
    pub(super) listing: &'a Listing,
    pub(super) pasts: &'a BTreeMap<(Key, IpNet), RetainedState>,
    pub(super) notes: &'a BTreeMap<String, Note>,
    pub(super) busy: &'a BTreeMap<Key, Vec<IpNet>>,
    /// The nodes that routes lead to, or were made for.
    pub(super) led: BTreeSet<&'a str>,
    /// When reconciliations about these ended.
    pub(super) touched: &'a BTreeMap<IpNet, Moment>,
}

/// What comes of it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) work: BTreeMap<Key, Work>,
    /// Whose pasts still matter.
    pub(super) kept: BTreeSet<(Key, IpNet)>,
    pub(super) tally: Tally,
    /// Something stays only because the answer was not complete.
    pub(super) is_unproven: bool,
    /// Which destinations' removals are somebody's.
    claimed: BTreeSet<IpNet>,
}

/// How one destination of a node stands.
enum Destination {
    Right,
    /// These go, and then one is made.
    Lacking(Vec<Arc<CloudRoute>>),
    /// Something that is not ours is in its place.
    Taken(String),
    /// The route leads to this other node, which has the same pod network, and is right there.
    Led(String),
    /// Nobody knows now.
    Unsaid,
}

/// Whether something may be tried.
enum Attempt {
    /// From then on.
    Due(Moment, RetainedState),
    /// Not yet; whether it has failed more than once.
    Later(bool),
}

impl Planning<'_> {
    pub(super) fn plan(&self, desired_routes: &[NodeRoutes]) -> Plan {
        let mut plan = Plan::default();
        let busy: BTreeSet<&IpNet> = self.busy.values().flatten().collect();
        for wish in desired_routes {
            self.plan_node(wish, &busy, &mut plan);
        }
        for (destination, entries) in &self.listing.inside {
            self.plan_destination(destination, entries, &busy, &mut plan);
        }
        plan.tally.foreign = self.listing.foreign().count();
        plan.tally.outside = self.listing.outside;
        plan
    }

    fn plan_node(&self, wish: &NodeRoutes, busy: &BTreeSet<&IpNet>, plan: &mut Plan) {
        let node = &*wish.node;
        let key = Key::Node(name(node).to_owned());
        let fingerprint = fingerprint(node);
        let note = self.notes.get(name(node));
        let note = note.filter(|note| note.is_about(node));
        plan.tally.refused += wish.faults.len();
        let mut work = Work {
            at: self.now,
            changes: Vec::new(),
            rest: self.beforehand(wish),
            right: 0,
            complaints: Vec::new(),
            fingerprint,
        };
        let mut faults = wish.faults.clone();
        for destination in &wish.destinations {
            if note.is_some_and(|note| note.is_elsewhere(destination, fingerprint)) {
                // Whatever leads there is theirs.
                plan.claimed.insert(*destination);
                continue;
            }
            let place = self.place(destination, name(node), busy, plan);
            match &place {
                Destination::Right => {
                    plan.tally.right += 1;
                    work.right += 1;
                }
                _ => plan.tally.missing += 1,
            }
            let place_key = (key.clone(), *destination);
            match place {
                Destination::Right => {}
                Destination::Unsaid => {
                    work.rest = None;
                    plan.kept.insert(place_key);
                }
                Destination::Taken(what) => {
                    work.rest = work.rest.map(worse);
                    let message = format!(
                        "no route to {destination} is made: the one that there is leads to {what}, which is no node of this cluster, and is left alone; whoever knows that nobody needs it deletes it at the cloud"
                    );
                    work.complaints.push(warning("ForeignRoute", &message));
                }
                // Not doubtful: what is sent to its pods arrives at the other node.
                Destination::Led(other) => {
                    work.rest = work.rest.map(|_| Network::Unavailable);
                    faults.push(Fault::Overlaps(*destination, other));
                }
                Destination::Lacking(remove) => {
                    match self.turn(&place_key, fingerprint) {
                        Attempt::Due(at, past) => {
                            work.at = match work.changes.is_empty() {
                                true => at,
                                false => work.at.min(at),
                            };
                            work.changes.push(Change::new(*destination, remove, past));
                        }
                        Attempt::Later(true) => work.rest = work.rest.map(|_| Network::Unavailable),
                        Attempt::Later(false) => work.rest = work.rest.map(worse),
                    }
                    plan.claimed.insert(*destination);
                    plan.kept.insert(place_key);
                }
            }
        }
        if self.busy.contains_key(&key) {
            return;
        }
        if work.right == 0 && work.changes.is_empty() && work.rest == Some(Network::Available) {
            // All of them are somebody else's to make.
            work.rest = None;
        }
        let faults = faults.iter();
        let faults = faults.map(|fault| warning(fault.reason(), &fault.to_string()));
        work.complaints.extend(faults);
        let is_told =
            |event: &CloudEvent| note.is_some_and(|note| note.told.contains(&event.message));
        work.complaints.retain(|event| !is_told(event));
        let has_to_say = self.has_to_say(node, work.rest, note);
        if !work.changes.is_empty() || !work.complaints.is_empty() || has_to_say {
            plan.work.insert(key, work);
        }
    }

    /// What is known of the node's pod networks before any route is looked at.
    fn beforehand(&self, wish: &NodeRoutes) -> Option<Network> {
        let is_overlap = |fault: &Fault| matches!(fault, Fault::Overlaps(..));
        let node = &*wish.node;
        if !wish.faults.iter().all(is_overlap) {
            // A cluster's network that is written down wrongly must not take every node out of service.
            return None;
        }
        match (wish.faults.is_empty(), wish.destinations.is_empty()) {
            // Whose the addresses are is decided, and this node has no route to its own.
            (false, _) if self.is_complete => Some(Network::Unavailable),
            (false, _) => Some(Network::Doubtful),
            (true, false) => Some(Network::Available),
            // ROUTE-040: a node without pod networks says nothing, unless there are routes to it.
            (true, true) if pod_cidrs(node).is_empty() && self.led.contains(name(node)) => {
                Some(Network::Unavailable)
            }
            (true, true) => None,
        }
    }

    /// Whether the node's condition has to be written, with nothing else to do.
    fn has_to_say(&self, node: &Node, rest: Option<Network>, note: Option<&Note>) -> bool {
        let Some(network) = rest else {
            return false;
        };
        let is_late = note.is_some_and(|note| note.waits_for_cache(node, self.now));
        let is_early = note.is_some_and(|note| note.due.is_some_and(|due| due > self.now));
        // What it would say has no time of its own.
        let now = Timestamp::UNIX_EPOCH;
        !is_late && !is_early && condition::patch(node, network, now).is_some()
    }

    fn place(
        &self,
        destination: &IpNet,
        node: &str,
        busy: &BTreeSet<&IpNet>,
        plan: &mut Plan,
    ) -> Destination {
        if self.is_in_hand(destination, busy) {
            plan.claimed.insert(*destination);
            return Destination::Unsaid;
        }
        let entries = self.listing.inside.get(destination);
        let entries = entries.map(Vec::as_slice).unwrap_or_default();
        let is_right = |entry: &Entry| matches!(&entry.verdict, Verdict::Right(to) if to == node);
        if entries.iter().any(is_right) {
            return Destination::Right;
        }
        let mut remove = Vec::new();
        for entry in entries {
            match &entry.verdict {
                Verdict::Foreign(what) => return Destination::Taken(what.clone()),
                Verdict::Removable if self.is_complete => remove.push(entry.route.clone()),
                Verdict::Removable => {
                    plan.is_unproven = true;
                    return Destination::Unsaid;
                }
                Verdict::Right(other) => return Destination::Led(other.clone()),
                Verdict::Left => return Destination::Unsaid,
            }
        }
        Destination::Lacking(remove)
    }

    /// ROUTE-025: what is ours and wanted by nobody goes.
    fn plan_destination(
        &self,
        destination: &IpNet,
        entries: &[Entry],
        busy: &BTreeSet<&IpNet>,
        plan: &mut Plan,
    ) {
        let removable = entries
            .iter()
            .filter(|entry| entry.verdict == Verdict::Removable);
        let remove: Vec<_> = removable.map(|entry| entry.route.clone()).collect();
        if remove.is_empty() || plan.claimed.contains(destination) {
            return;
        }
        plan.tally.stray += remove.len();
        let key = Key::Destination(*destination);
        let place = (key.clone(), *destination);
        plan.kept.insert(place.clone());
        if !self.is_complete {
            plan.is_unproven = true;
            return;
        }
        if self.is_in_hand(destination, busy) {
            return;
        }
        if let Attempt::Due(at, past) = self.turn(&place, 0) {
            let work = Work {
                at,
                changes: vec![Change::new(*destination, remove, past)],
                rest: None,
                right: 0,
                complaints: Vec::new(),
                fingerprint: 0,
            };
            plan.work.insert(key, work);
        }
    }

    /// Whether something is being done about it, or was since the provider was asked: then the listing is old.
    fn is_in_hand(&self, destination: &IpNet, busy: &BTreeSet<&IpNet>) -> bool {
        let touched = self.touched.get(destination);
        busy.contains(destination) || touched.is_some_and(|at| *at >= self.asked_at)
    }

    /// Each route is retried by itself; all at once when its node changes.
    fn turn(&self, place: &(Key, IpNet), fingerprint: u64) -> Attempt {
        let Some(past) = self.pasts.get(place) else {
            let past = RetainedState {
                fingerprint,
                ..RetainedState::default()
            };
            return Attempt::Due(self.now, past);
        };
        let is_other = past.fingerprint != fingerprint;
        let due = past.due.filter(|due| *due > self.now);
        match due {
            Some(due) if past.is_begun() && !is_other => return Attempt::Due(due, past.clone()),
            Some(_) if past.is_firm || !is_other => return Attempt::Later(past.failures > 1),
            Some(_) | None => {}
        }
        let past = match is_other {
            true => RetainedState {
                reservation: past.reservation.clone(),
                fingerprint,
                ..RetainedState::default()
            },
            false => past.clone(),
        };
        Attempt::Due(self.now, past)
    }
}
