//! State kept between passes, and the course of a pass: when routes are listed, which work is planned, and which is in
//! progress. Performs no I/O.

mod conclusion;
mod in_flight;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

use super::change::{Change, RetainedState};
use super::desired_routes::{DesiredRoutes, NetworkEvidence, desired_routes, is_served, is_told};
use super::facts::{About, Facts, Key, ReconcileState};
use super::list_schedule::ListSchedule;
use super::listing::{Asked, Entry, Judge, Listing, Verdict, inside, leads_to};
use super::network::pod_cidrs;
use super::owned_routes::Known;
use super::route_diff::{Planning, Tally, Work};
use super::{BEGUN, not_listed};
use crate::answer_check::quoted;
use crate::cloud::error::ProviderError;
use crate::cloud_route::{CloudRoute, ListRoutesReply};
use crate::effect::When;
use crate::moment::Moment;
use crate::node::object::{name, uid};
use crate::node_ownership::{OwnershipContext, recorded_owner, stored_provider_id};
use crate::own_write::OwnWrite;
use crate::retry;
use crate::settings::RouteSettings;

/// Maximum number of foreign routes that are named.
const NAMED: usize = 5;

/// Inputs of one pass: the current state of the cluster.
pub struct Pass<'a> {
    /// All nodes, sorted by name.
    pub nodes: &'a [Arc<Node>],
    /// The provider's ownership rules.
    pub ownership: &'a OwnershipContext,
    /// When the pass runs.
    pub now: Moment,
}

/// State kept between passes of one provider, for as long as the process leads.
#[derive(Debug)]
pub struct Memory {
    settings: Arc<RouteSettings>,
    list_schedule: ListSchedule,
    /// Fingerprints of the nodes that want routes, by name.
    seen: HashMap<String, u64>,
    /// The listing in progress, and the last one.
    asking: Option<Asked>,
    asked: Option<Asked>,
    known: Known,
    work: BTreeMap<Key, Work>,
    /// Pending operations to poll without a listing, by due time.
    begun: BTreeMap<(Moment, Key), Work>,
    /// UID of the node that owned each pod network at the last pass: a node that claims it later does not get it.
    holders: BTreeMap<IpNet, String>,
    /// When any change last completed.
    progress: Option<Moment>,
    busy: BTreeMap<Key, Vec<IpNet>>,
    touched: BTreeMap<IpNet, Moment>,
    pasts: BTreeMap<(Key, IpNet), RetainedState>,
    notes: BTreeMap<String, Note>,
    /// Number of consecutive answers whose incompleteness prevented a change.
    unproven: u32,
    tally: Tally,
    foreign: Foreign,
    /// Destinations with planned changes that the mode withheld.
    planned: BTreeSet<IpNet>,
}

/// Routes in the cluster's networks that are not ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Foreign {
    /// Number of routes.
    pub count: usize,
    /// The first five of them, for logs.
    pub named: Vec<String>,
    fingerprint: u64,
}

/// State kept for a node, besides that of its destinations.
#[derive(Debug, Clone, Default)]
pub(super) struct Note {
    uid: String,
    /// Destinations whose routes another component creates, as the provider says; the value is the node's fingerprint
    /// then.
    elsewhere: BTreeMap<IpNet, u64>,
    /// Messages already recorded as Events.
    pub(super) told: BTreeSet<String>,
    /// Our last write.
    written: Option<OwnWrite>,
    failures: u32,
    /// When to retry a failed write of the condition.
    pub(super) due: Option<Moment>,
}

impl Note {
    pub(super) fn is_about(&self, node: &Node) -> bool {
        node.metadata.uid.as_deref() == Some(&*self.uid)
    }

    /// Whether another component creates this route for a node with this fingerprint.
    pub(super) fn is_elsewhere(&self, destination: &IpNet, fingerprint: u64) -> bool {
        self.elsewhere.get(destination) == Some(&fingerprint)
    }

    /// Whether the cache is older than our own last write.
    pub(super) fn waits_for_cache(&self, cached: &Node, now: Moment) -> bool {
        self.written.is_some_and(|written| {
            written.believed_at() > now && written.is_newer_than(&cached.metadata)
        })
    }
}

impl Memory {
    /// Creates an empty state.
    pub fn new(settings: Arc<RouteSettings>) -> Memory {
        Memory {
            settings,
            list_schedule: ListSchedule::default(),
            seen: HashMap::new(),
            asking: None,
            asked: None,
            known: Known::default(),
            work: BTreeMap::new(),
            begun: BTreeMap::new(),
            holders: BTreeMap::new(),
            progress: None,
            busy: BTreeMap::new(),
            touched: BTreeMap::new(),
            pasts: BTreeMap::new(),
            notes: BTreeMap::new(),
            unproven: 0,
            tally: Tally::default(),
            foreign: Foreign::default(),
            planned: BTreeSet::new(),
        }
    }

    /// Notes the current state of a node.
    pub fn see(&mut self, node: &Node, ownership: &OwnershipContext, now: Moment) {
        let after = wants(node, ownership).then(|| fingerprint(node));
        let before = match after {
            Some(after) => self.seen.insert(name(node).to_owned(), after),
            None => self.seen.remove(name(node)),
        };
        if before != after {
            self.list_schedule.unsettle(now);
        }
    }

    /// Notes that no node of this name exists any more.
    pub fn forget(&mut self, name: &str, now: Moment) {
        self.notes.remove(name);
        if self.seen.remove(name).is_some() {
            self.list_schedule.unsettle(now);
        }
    }

    /// Takes the complete list of nodes; also called when the set of providers changes.
    pub fn look_around(&mut self, pass: &Pass<'_>) {
        let names: BTreeSet<&str> = pass.nodes.iter().map(|node| name(node)).collect();
        let gone = self.seen.keys().filter(|name| !names.contains(&***name));
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
        self.list_schedule.next(&self.settings)
    }

    /// When to list routes or poll a pending operation next; `None`: not scheduled.
    pub fn next_moment(&self) -> Option<Moment> {
        let begun = self.begun.keys().next().map(|(at, _)| *at);
        self.next_listing().into_iter().chain(begun).min()
    }

    /// Begins a pass and returns the nodes to send to the provider, sorted by name.
    pub fn begin(&mut self, pass: &Pass<'_>) -> Arc<[Arc<Node>]> {
        let told = pass.nodes.iter();
        let told = told.filter(|node| is_told(node, pass.ownership));
        let told: Arc<[Arc<Node>]> = told.cloned().collect();
        let named = told.iter().map(|node| (name(node), uid(node)));
        self.asking = Some(Asked {
            at: pass.now,
            nodes: named
                .map(|(name, uid)| (name.to_owned(), uid.to_owned()))
                .collect(),
        });
        self.list_schedule.begin(pass.now);
        told
    }

    /// Absorbs the answer; [`Memory::next`] then returns the planned work. If the listing failed, returns when to list
    /// again and why.
    pub fn absorb(
        &mut self,
        pass: &Pass<'_>,
        answer: &Result<ListRoutesReply, ProviderError>,
    ) -> When {
        let asked = self.asking.take();
        let reply = match (answer, asked) {
            (Ok(reply), Some(asked)) => {
                self.list_schedule.succeed();
                self.take(pass, reply, asked);
                return When::AwaitChange;
            }
            (Ok(_), None) => &ProviderError::Internal("nobody has asked".to_owned()),
            (Err(error), _) => error,
        };
        let after = self.list_schedule.fail(reply, &self.settings, pass.now);
        not_listed(reply, after)
    }

    fn take(&mut self, pass: &Pass<'_>, reply: &ListRoutesReply, asked: Asked) {
        let nodes = pass.nodes;
        let find = |wanted: &str| {
            let place = nodes.binary_search_by(|node| name(node).cmp(wanted));
            nodes.get(place.ok()?).cloned()
        };
        let cluster = &self.settings.cluster_cidrs;
        let (routes, outside) = inside(&reply.routes, cluster);
        let is_there = |name: &str| find(name).is_some();
        let all = routes.iter().copied();
        self.known.hear(all, &asked, reply.complete, is_there);
        let judge = Judge {
            asked: &asked,
            known: &self.known,
            node: &find,
        };
        let listing = Listing::judged(&routes, outside, &judge);
        let holders = &self.holders;
        let standing = |node: &Node, destination: &IpNet| {
            let entries = listing.inside.get(destination).into_iter().flatten();
            let leads = |entry: &Entry| leads_to(&entry.route) == Some(name(node));
            let is_right = |entry: &Entry| entry.verdict == Verdict::Right(name(node).to_owned());
            NetworkEvidence {
                has_held: holders.get(destination).is_some_and(|one| one == uid(node)),
                is_led_to: entries.clone().any(leads),
                is_right: entries.clone().any(is_right),
            }
        };
        let DesiredRoutes {
            desired_routes,
            holders,
        } = desired_routes(nodes, pass.ownership, cluster, standing);
        let led = routes.iter().filter_map(|(_, route)| leads_to(route));
        let planning = Planning {
            now: pass.now,
            asked_at: asked.at,
            is_complete: reply.complete,
            listing: &listing,
            pasts: &self.pasts,
            notes: &self.notes,
            busy: &self.busy,
            led: led.collect(),
            touched: &self.touched,
        };
        let plan = planning.plan(&desired_routes);
        let in_hand: BTreeSet<&IpNet> = self.busy.values().flatten().collect();
        self.touched.retain(|_, at| *at >= asked.at);
        let touched = &self.touched;
        self.pasts.retain(|place, _| {
            plan.kept.contains(place)
                || in_hand.contains(&place.1)
                || touched.contains_key(&place.1)
        });
        self.notes.retain(|name, note| {
            let node = find(name);
            node.is_some_and(|node| note.is_about(&node))
        });
        let carried = self.take_carried(asked.at);
        let (due, begun) = plan
            .work
            .into_iter()
            .partition(|(_, work)| work.at <= pass.now);
        self.work = due;
        self.holders = holders;
        let begun: BTreeMap<Key, Work> = begun;
        let begun = begun.into_iter();
        self.begun = begun.map(|(key, work)| ((work.at, key), work)).collect();
        self.carry(carried);
        self.tally = plan.tally;
        self.foreign = foreign(&listing);
        self.asked = Some(asked);
        let pasts = self.pasts.values().filter(|past| !past.is_begun());
        let pasts = pasts.filter_map(|past| past.due);
        let notes = self.notes.values().filter_map(|note| note.due);
        let dues = pasts.chain(notes).filter(|due| *due > pass.now);
        self.list_schedule.keep(dues);
        self.unproven = match plan.is_unproven {
            true => self.unproven.saturating_add(1),
            false => 0,
        };
        if self.is_overdue(pass.now) {
            self.list_schedule.retry(pass.now, BEGUN.first);
        }
        if plan.is_unproven {
            // Backs off up to the cloud retry maximum: a provider that never returns a complete answer must not cost
            // more.
            let after = retry::CLOUD.after(self.unproven);
            self.list_schedule.retry(pass.now, after);
        }
    }

    /// Returns the next planned reconciliation. `node` finds the current node of a name; if it differs from the planned
    /// one it is skipped, as another plan follows soon.
    pub fn next(&mut self, node: impl Fn(&str) -> Option<Arc<Node>>, now: Moment) -> Option<Facts> {
        self.take_begun(now);
        while let Some((key, mut work)) = self.work.pop_first() {
            let about = match &key {
                Key::Destination(destination) => About::Destination(*destination),
                Key::Node(name) => match node(name) {
                    Some(node)
                        if fingerprint(&node) == work.fingerprint
                            && (self.seen.contains_key(name) || pod_cidrs(&node).is_empty()) =>
                    {
                        About::Node(node)
                    }
                    // Or it is no longer ours: the set of providers has changed since planning.
                    _ => continue,
                },
            };
            let planned = work.changes.len();
            work.changes
                .retain(|change| self.is_still_due(change, &node));
            if work.changes.len() < planned {
                // The state of the destinations dropped here is unknown.
                work.rest = None;
            }
            let is_node = matches!(about, About::Node(_));
            if work.changes.is_empty() && !is_node {
                continue;
            }
            let places = work.changes.iter().map(|change| change.destination);
            self.busy.insert(key.clone(), places.collect());
            let note = match &key {
                Key::Node(name) => self.notes.get(name),
                Key::Destination(_) => None,
            };
            let failures = || work.changes.iter().map(|change| change.past.failures).max();
            return Some(Facts {
                about,
                failures: match is_node {
                    true => note.map_or(0, |note| note.failures),
                    false => failures().unwrap_or_default(),
                },
                changes: work.changes,
                rest: work.rest,
                right: work.right,
                complaints: work.complaints,
                ours: self.tally.right + self.tally.missing + self.tally.stray,
                began: now,
                fingerprint: work.fingerprint,
                state: ReconcileState::default(),
            });
        }
        None
    }

    /// Moves pending operations that are due to the work queue.
    fn take_begun(&mut self, now: Moment) {
        while let Some(entry) = self.begun.first_entry()
            && entry.key().0 <= now
        {
            let ((_, key), work) = entry.remove_entry();
            self.work.insert(key, work);
        }
    }

    /// Whether the routes to remove are still unwanted: nodes may have changed since the listing.
    fn is_still_due(&self, change: &Change, node: &dyn Fn(&str) -> Option<Arc<Node>>) -> bool {
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
        self.asking.is_none()
            && self.work.is_empty()
            && self.busy.is_empty()
            && self.begun.is_empty()
    }

    /// Whether a reconciliation can start now.
    pub fn has_work(&self, now: Moment) -> bool {
        let is_due = |(at, _): &(Moment, Key)| *at <= now;
        !self.work.is_empty() || self.begun.keys().next().is_some_and(is_due)
    }

    /// Counts of routes by state.
    pub fn tally(&self) -> Tally {
        let pasts = || self.pasts.values();
        Tally {
            failing: pasts().filter(|past| past.failures > 0).count(),
            held: pasts().filter(|past| past.held.is_some()).count(),
            ..self.tally
        }
    }

    /// Routes in the cluster's networks that are not ours.
    pub fn foreign(&self) -> &Foreign {
        &self.foreign
    }

    /// Takes the destinations whose planned changes were withheld and are no longer needed.
    pub fn settled(&mut self) -> Vec<IpNet> {
        let works = self.work.values().chain(self.begun.values());
        let works = works.flat_map(|work| &work.changes);
        let wanted: BTreeSet<IpNet> = works.map(|change| change.destination).collect();
        let busy: BTreeSet<IpNet> = self.busy.values().flatten().copied().collect();
        let is_open = |one: &IpNet| wanted.contains(one) || busy.contains(one);
        let (kept, settled) = std::mem::take(&mut self.planned)
            .into_iter()
            .partition(is_open);
        self.planned = kept;
        let settled: BTreeSet<IpNet> = settled;
        settled.into_iter().collect()
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
fn wants(node: &Node, ownership: &OwnershipContext) -> bool {
    is_served(node, ownership) && !pod_cidrs(node).is_empty()
}

/// Hash of the node fields that affect its routes. Heartbeats, conditions, labels and images do not.
pub(super) fn fingerprint(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid(node).hash(&mut hasher);
    recorded_owner(node).hash(&mut hasher);
    stored_provider_id(node).hash(&mut hasher);
    pod_cidrs(node).hash(&mut hasher);
    let status = node.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.as_ref());
    for one in addresses.into_iter().flatten() {
        (&one.type_, &one.address).hash(&mut hasher);
    }
    hasher.finish()
}
