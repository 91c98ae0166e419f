//! State kept between passes, and the course of a pass: when routes are listed, which work is planned, and which is in
//! progress. Performs no I/O.

mod conclude;
mod pending_work;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use ipnet::IpNet;

use super::BEGUN;
use super::change::{Change, PlannedChange};
use super::desired_routes::{
    DesiredRoutes, NetworkEvidence, desired_routes, is_sent_to_provider, is_served,
};
use super::destination_state::{DestinationState, Unfinished, Wait};
use super::facts::{About, Facts, Key, ReconcileState};
use super::list_schedule::ListSchedule;
use super::listing::{Asked, Entry, Judge, Listing, Verdict, inside, leads_to};
use super::node_state::{NodeRecord, NodeState, fingerprint};
use super::owned_routes::{Known, has_vanished};
use super::route_diff::{Planning, Tally, Work};
use crate::cloud::error::ProviderError;
use crate::cloud::route::{CloudRoute, ListRoutesReply};
use crate::moment::Moment;
use crate::node::answer_check::quoted;
use crate::node::object::{NodeRef, PrunedNode};
use crate::node::ownership::OwnershipContext;
use crate::reconciliation::effect::When;
use crate::reconciliation::retry;
use crate::settings::RouteSettings;

/// Maximum number of foreign routes that are named.
const NAMED: usize = 5;

/// Inputs of one pass: the current state of the cluster.
pub struct Pass<'a> {
    /// All nodes, sorted by name.
    pub nodes: &'a [Arc<PrunedNode>],
    /// The provider's ownership rules.
    pub ownership: &'a OwnershipContext,
    /// The provider's [generation](crate::cloud_provider::CloudProvider::generation).
    pub generation: u64,
    /// When the pass runs.
    pub now: Moment,
}

/// State kept between passes of one provider, for as long as the process leads.
#[derive(Debug)]
pub struct Memory {
    settings: Arc<RouteSettings>,
    list_schedule: ListSchedule,
    /// The listing in progress, and the last one.
    asking: Option<Asked>,
    asked: Option<Asked>,
    known: Known,
    destinations: BTreeMap<IpNet, DestinationState>,
    nodes: BTreeMap<String, NodeState>,
    /// Reconciliations that are planned or in progress, by subject.
    reconciliations: BTreeMap<Key, Reconciliation>,
    /// What the last plan passed over because of reconciliations in flight.
    passed_over: BTreeSet<Key>,
    /// When any change last completed.
    progress: Option<Moment>,
    /// Number of consecutive answers whose incompleteness prevented a change.
    unproven: u32,
    tally: Tally,
    foreign: Foreign,
    /// Destinations with a withheld change that the plan still lists.
    withheld: BTreeSet<IpNet>,
}

/// The reconciliation of one subject.
#[derive(Debug)]
pub(super) enum Reconciliation {
    Planned(Work),
    /// It may change no destination, but only the node's condition.
    InFlight,
}

/// Routes in the cluster's networks that are not ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foreign {
    /// Number of such routes.
    pub count: usize,
    /// The first five of them, for logs.
    pub named: Vec<String>,
    fingerprint: u64,
}

impl Memory {
    /// Creates an empty state.
    pub fn new(settings: Arc<RouteSettings>) -> Memory {
        Memory {
            settings,
            list_schedule: ListSchedule::default(),
            asking: None,
            asked: None,
            known: Known::default(),
            destinations: BTreeMap::new(),
            nodes: BTreeMap::new(),
            reconciliations: BTreeMap::new(),
            passed_over: BTreeSet::new(),
            progress: None,
            unproven: 0,
            tally: Tally::default(),
            foreign: Foreign::default(),
            withheld: BTreeSet::new(),
        }
    }

    /// Notes the current state of a node.
    pub fn see(&mut self, node: &PrunedNode, ownership: &OwnershipContext, now: Moment) {
        let wants = wants(node, ownership).then(|| fingerprint(node));
        let state = self.nodes.entry(node.name().to_owned()).or_default();
        if state.wants != wants {
            state.wants = wants;
            self.list_schedule.unsettle(now);
        }
    }

    /// Notes that no node of this name exists any more.
    pub fn forget(&mut self, name: &str, now: Moment) {
        let state = self.nodes.remove(name);
        if state.is_some_and(|state| state.wants.is_some()) {
            self.list_schedule.unsettle(now);
        }
    }

    /// Takes the complete list of nodes; also called when the set of providers changes.
    pub fn look_around(&mut self, pass: &Pass<'_>) {
        let names: BTreeSet<&str> = pass.nodes.iter().map(|node| node.name()).collect();
        let gone = self.nodes.keys().filter(|name| !names.contains(&***name));
        let gone: Vec<String> = gone.cloned().collect();
        gone.iter().for_each(|name| self.forget(name, pass.now));
        for node in pass.nodes {
            self.see(node, pass.ownership, pass.now);
        }
        self.list_schedule.open(pass.now);
    }

    /// Number of listings that have failed since the last successful one.
    pub fn failed_listings(&self) -> u32 {
        self.list_schedule.failures()
    }

    /// When to list routes next; `None`: not scheduled.
    pub fn next_listing(&self) -> Option<Moment> {
        match self.asking {
            Some(_) => None,
            None => self.list_schedule.next(&self.settings),
        }
    }

    /// When to list routes or poll a pending operation next; `None`: not scheduled.
    pub fn next_moment(&self) -> Option<Moment> {
        let planned = self.planned().map(|(_, work)| work.at);
        self.next_listing().into_iter().chain(planned).min()
    }

    /// Begins a pass and returns the nodes to send to the provider, sorted by name.
    pub fn begin(&mut self, pass: &Pass<'_>) -> Arc<[Arc<PrunedNode>]> {
        let sent = pass.nodes.iter();
        let sent = sent.filter(|node| is_sent_to_provider(node, pass.ownership));
        let sent: Arc<[Arc<PrunedNode>]> = sent.cloned().collect();
        let named = sent.iter().map(|node| (node.name(), node.uid()));
        self.asking = Some(Asked {
            at: pass.now,
            generation: pass.generation,
            nodes: named
                .map(|(name, uid)| (name.to_owned(), uid.to_owned()))
                .collect(),
        });
        self.list_schedule.begin(pass.now);
        sent
    }

    /// Absorbs the answer; [`Memory::next`] then returns the planned work. If the listing failed, returns when to list
    /// again and why.
    pub fn absorb(
        &mut self,
        pass: &Pass<'_>,
        answer: &Result<ListRoutesReply, ProviderError>,
    ) -> When {
        let asked = self.asking.take();
        let error = match (answer, asked) {
            (Ok(reply), Some(asked)) => {
                self.list_schedule.succeed();
                self.take(pass, reply, asked);
                return When::AwaitChange;
            }
            (Ok(_), None) => &ProviderError::Internal("nobody has asked".to_owned()),
            (Err(error), _) => error,
        };
        let after = self.list_schedule.fail(error, &self.settings, pass.now);
        let why = format!("the routes could not be listed: {error}");
        When::NotBefore { after, why }
    }

    fn take(&mut self, pass: &Pass<'_>, reply: &ListRoutesReply, asked: Asked) {
        let nodes = pass.nodes;
        let find = |wanted: &str| {
            let place = nodes.binary_search_by(|node| node.name().cmp(wanted));
            nodes.get(place.ok()?).cloned()
        };
        let cluster = &self.settings.cluster_cidrs;
        let (routes, outside) = inside(&reply.routes, cluster);
        let has_vanished = |led: &NodeRef, destination: &IpNet| {
            has_vanished(led, destination, find(&led.name).as_deref())
        };
        let all = routes.iter().copied();
        self.known
            .absorb_listing(all, &asked, reply.complete, has_vanished);
        let judge = Judge {
            asked: &asked,
            known: &self.known,
            node: &find,
        };
        let listing = Listing::judged(&routes, outside, &judge);
        let destinations = &self.destinations;
        let evidence = |node: &PrunedNode, destination: &IpNet| {
            let entries = listing.at(destination);
            let leads = |entry: &Entry| leads_to(&entry.route) == Some(node.name());
            let state = destinations.get(destination);
            NetworkEvidence {
                has_held: state.is_some_and(|state| state.holder.as_deref() == Some(node.uid())),
                is_led_to: entries.iter().any(leads),
                is_right: entries.iter().any(|entry| entry.is_right(node.name())),
            }
        };
        let DesiredRoutes {
            desired_routes,
            holders,
        } = desired_routes(nodes, pass.ownership, cluster, evidence);
        let led = routes.iter().filter_map(|(_, route)| leads_to(route));
        let planning = Planning {
            now: pass.now,
            asked_at: asked.at,
            generation: asked.generation,
            is_complete: reply.complete,
            listing: &listing,
            destinations: &self.destinations,
            nodes: &self.nodes,
            reconciliations: &self.reconciliations,
            led: led.collect(),
        };
        let plan = planning.plan(&desired_routes);
        self.keep_destinations(&plan.kept, holders, asked.at);
        for (name, state) in &mut self.nodes {
            if !find(name).is_some_and(|node| state.record.is_about(&node)) {
                state.record = NodeRecord::default();
            }
        }
        for (name, until) in plan.late {
            if let Some(state) = self.nodes.get_mut(&name) {
                // Nothing else has the condition looked at again before the slow resync.
                state.record.due = Some(until);
            }
        }
        self.replan(plan.work, asked.at);
        self.pass_over(plan.passed_over, pass.now);
        self.tally = plan.tally;
        self.foreign = foreign(&listing);
        self.asked = Some(asked);
        self.unproven = match plan.is_unproven {
            true => self.unproven.saturating_add(1),
            false => 0,
        };
        self.schedule_retries(pass.now);
    }

    /// Notes who holds each destination after a listing requested at `asked_at`, and retains the unfinished changes that
    /// are still wanted.
    fn keep_destinations(
        &mut self,
        wanted: &BTreeSet<(Key, IpNet)>,
        mut holders: BTreeMap<IpNet, String>,
        asked_at: Moment,
    ) {
        self.destinations.retain(|destination, state| {
            let is_wanted = |key: &Key| wanted.contains(&(key.clone(), *destination));
            state.retain(asked_at, holders.remove(destination), is_wanted)
        });
        for (destination, holder) in holders {
            let state = self.destinations.entry(destination).or_default();
            state.holder = Some(holder);
        }
    }

    /// Schedules a listing for each unfinished change that is not polled, and for each failed write of a condition.
    fn schedule_retries(&mut self, now: Moment) {
        let retried = || {
            let states = self.destinations.values();
            let unfinished = states.filter_map(|state| Some((state.unfinished()?, state)));
            unfinished.filter(|(unfinished, _)| !unfinished.is_polled())
        };
        // A failure since the provider was asked, already due again: the plan does not cover it.
        let is_overdue = retried().any(|(one, state)| one.due <= now && state.ended.is_some());
        let changes = retried().map(|(unfinished, _)| unfinished.due);
        let conditions = self.nodes.values().filter_map(|state| state.record.due);
        let due = changes.chain(conditions).filter(|due| *due > now);
        self.list_schedule.keep(due);
        if is_overdue {
            self.list_schedule.retry(now, BEGUN.first);
        }
        if self.unproven > 0 {
            // Backs off up to the cloud retry maximum: a provider that never returns a complete answer must not cost
            // more.
            let after = retry::CLOUD.after(self.unproven);
            self.list_schedule.retry(now, after);
        }
    }

    /// Returns the next planned reconciliation. `node` finds the current node of a name; if it differs from the planned
    /// one it is skipped, as another plan follows soon.
    pub fn next(
        &mut self,
        node: impl Fn(&str) -> Option<Arc<PrunedNode>>,
        now: Moment,
    ) -> Option<Facts> {
        loop {
            let (key, _) = self.planned().find(|(_, work)| work.at <= now)?;
            let key = key.clone();
            if let Some(Reconciliation::Planned(work)) = self.reconciliations.remove(&key)
                && let Some(facts) = self.start(key, work, &node, now)
            {
                return Some(facts);
            }
        }
    }

    fn start(
        &mut self,
        key: Key,
        mut work: Work,
        node: &dyn Fn(&str) -> Option<Arc<PrunedNode>>,
        now: Moment,
    ) -> Option<Facts> {
        let about = match &key {
            Key::Destination(destination) => About::Destination(*destination),
            Key::Node(name) => {
                let node = node(name).filter(|node| fingerprint(node) == work.fingerprint)?;
                let state = self.nodes.get(name);
                let wants = state.is_some_and(|state| state.wants.is_some());
                if !wants && !node.pod_cidrs().is_empty() {
                    // It is no longer ours: the set of providers has changed since planning.
                    return None;
                }
                About::Node(node)
            }
        };
        let planned = work.changes.len();
        work.changes
            .retain(|change| self.is_still_due(change, node));
        if work.changes.len() < planned {
            // The state of the destinations dropped here is unknown.
            work.rest = None;
        }
        if work.changes.is_empty() && matches!(about, About::Destination(_)) {
            return None;
        }
        let changes = work.changes.into_iter().map(|change| {
            let state = self.destinations.entry(change.destination).or_default();
            let attempts = state.attempts(&key, work.fingerprint);
            state.begin(key.clone());
            Change::begin(change, attempts)
        });
        let changes: Vec<Change> = changes.collect();
        let failures = match &key {
            Key::Node(name) => self.nodes.get(name).map(|state| state.record.failures),
            Key::Destination(_) => changes.iter().map(|change| change.attempts.failures).max(),
        };
        self.reconciliations.insert(key, Reconciliation::InFlight);
        Some(Facts {
            about,
            failures: failures.unwrap_or_default(),
            changes,
            rest: work.rest,
            right: work.right,
            node_events: work.node_events,
            ours: self.tally.right + self.tally.missing + self.tally.stray,
            began: now,
            generation: self.asked.as_ref().map_or(0, |asked| asked.generation),
            fingerprint: work.fingerprint,
            state: ReconcileState::default(),
        })
    }

    fn planned(&self) -> impl Iterator<Item = (&Key, &Work)> {
        let all = self.reconciliations.iter();
        all.filter_map(|(key, reconciliation)| match reconciliation {
            Reconciliation::Planned(work) => Some((key, work)),
            Reconciliation::InFlight => None,
        })
    }

    /// Whether the routes to remove are still unwanted: nodes may have changed since the listing.
    fn is_still_due(
        &self,
        change: &PlannedChange,
        node: &dyn Fn(&str) -> Option<Arc<PrunedNode>>,
    ) -> bool {
        let Some(asked) = &self.asked else {
            return false;
        };
        let judge = Judge {
            asked,
            known: &self.known,
            node,
        };
        let mut remove = change.remove.iter();
        remove.all(|route: &Arc<CloudRoute>| {
            judge.verdict(&change.destination, route) == Verdict::Removable
        })
    }

    /// Whether nothing is in progress, queued or pending.
    pub fn is_idle(&self) -> bool {
        self.asking.is_none() && self.reconciliations.is_empty()
    }

    /// Whether a reconciliation can start now.
    pub fn has_work(&self, now: Moment) -> bool {
        self.planned().any(|(_, work)| work.at <= now)
    }

    /// The subjects that are not done: with a reconciliation planned or in progress, or one to repeat.
    pub fn open_subjects(&self, now: Moment) -> BTreeSet<Key> {
        let states = self.destinations.values();
        let changes = states.filter_map(DestinationState::unfinished);
        let changes = changes.map(|one| one.subject.clone());
        let is_failed = |state: &NodeState| state.record.due.is_some_and(|due| due > now);
        let nodes = self.nodes.iter().filter(|(_, state)| is_failed(state));
        let nodes = nodes.map(|(name, _)| Key::Node(name.clone()));
        let begun = self.reconciliations.keys().cloned();
        begun.chain(changes).chain(nodes).collect()
    }

    /// Counts of routes by state.
    pub fn tally(&self) -> Tally {
        let unfinished = || {
            self.destinations
                .values()
                .filter_map(DestinationState::unfinished)
        };
        let is_held = |one: &&Unfinished| matches!(one.wait, Wait::Held { .. });
        Tally {
            failing: unfinished().filter(|one| one.attempts.failures > 0).count(),
            held: unfinished().filter(is_held).count(),
            ..self.tally
        }
    }

    /// Routes in the cluster's networks that are not ours.
    pub fn foreign(&self) -> &Foreign {
        &self.foreign
    }

    /// Takes the destinations whose planned changes were withheld and are no longer needed.
    pub fn settled(&mut self) -> Vec<IpNet> {
        let works = self.planned().flat_map(|(_, work)| &work.changes);
        let planned: BTreeSet<IpNet> = works.map(|change| change.destination).collect();
        let is_open = |destination: &IpNet| {
            let state = self.destinations.get(destination);
            planned.contains(destination) || state.is_some_and(DestinationState::is_in_flight)
        };
        let settled = self.withheld.iter().copied();
        let settled: Vec<IpNet> = settled.filter(|one| !is_open(one)).collect();
        settled.iter().for_each(|one| {
            self.withheld.remove(one);
        });
        settled
    }
}

fn foreign(listing: &Listing) -> Foreign {
    // Sorted, so that the same routes in another order have the same fingerprint.
    let all: BTreeSet<_> = listing.foreign().collect();
    let mut hasher = DefaultHasher::new();
    all.hash(&mut hasher);
    let first = all.iter().take(NAMED);
    let named =
        first.map(|(destination, what, id)| format!("{destination} to {what}, as {}", quoted(id)));
    Foreign {
        count: all.len(),
        named: named.collect(),
        fingerprint: match all.is_empty() {
            true => 0,
            false => hasher.finish(),
        },
    }
}

/// Whether the node's state affects routes.
fn wants(node: &PrunedNode, ownership: &OwnershipContext) -> bool {
    is_served(node, ownership) && !node.pod_cidrs().is_empty()
}
