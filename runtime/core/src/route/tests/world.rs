//! A cluster of nodes, a cloud with routes, and a manager that runs passes. Time goes on in steps.

mod deeds;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::*;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::CloudEvent;
use crate::cloud::load_balancer::{Pending, Progress};
use crate::cloud::route::{CloudRoute, ListRoutesReply, RouteReply, RouteTarget};
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::node::ownership::OwnershipContext;
use crate::reconciliation::effect::{
    Answered, BudgetOutcome, ClusterError, EventOutcome, ObjectResult, Performed,
};
use crate::reconciliation::patch::NetworkConditionPatch;
use crate::safety::brake::{Allowances, ClusterBudgets};
use crate::safety::permit::Mode;
use crate::settings::RouteSettings;
use crate::well_known::UNINITIALIZED_TAINT;

/// Where a route at the cloud leads, independent of the provider's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hop {
    /// To this address of the machine that the node of this name runs on.
    Machine(String, String),
    /// To this target, as the provider will answer it.
    Fixed(RouteTarget),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) id: String,
    pub(super) destination: String,
    pub(super) hop: Hop,
}

const PROVIDER: &str = "sim";

pub(super) type Answer = Result<ListRoutesReply, ProviderError>;
pub(super) type Change = Result<Progress, ProviderError>;

pub(super) struct World {
    pub(super) nodes: BTreeMap<String, Value>,
    pub(super) routes: Vec<Route>,
    /// Machines that exist, by the names of their nodes.
    pub(super) machines: BTreeSet<String>,
    pub(super) is_complete: bool,
    /// Errors of the next listings.
    pub(super) listings: VecDeque<ProviderError>,
    /// The answer to every change of the route to this destination.
    pub(super) changes: BTreeMap<String, Change>,
    /// The cloud creates one route at a time, which takes this long; `at_it` is the present one and its end.
    pub(super) pace: Option<u64>,
    at_it: Option<(String, u64)>,
    /// Whether the last listing was complete.
    pub(super) was_complete: bool,
    /// What the API server answers to the next patches.
    pub(super) refusals: VecDeque<ClusterError>,
    /// Events of the provider in each answer.
    pub(super) events: Vec<CloudEvent>,
    pub(super) budgets: Option<ClusterBudgets>,
    /// Whether taken budget cannot be saved.
    pub(super) is_ledger_away: bool,
    pub(super) ownership: OwnershipContext,
    pub(super) mode: Mode,
    pub(super) now: u64,
    /// The effects, each with the millisecond in which it was performed.
    pub(super) log: Vec<(u64, String)>,
    pub(super) deleted: Vec<CloudRoute>,
    /// IDs of routes whose removal the cloud has begun.
    begun: BTreeSet<String>,
    /// Routes whose removal was begun after an incomplete answer.
    pub(super) unproven: Vec<CloudRoute>,
    pub(super) memory: Memory,
    pub(super) settings: RouteSettings,
    next_id: u64,
    version: u64,
}

pub(super) fn world(cluster: &[&str]) -> World {
    let cluster_cidrs = cluster.iter().map(|text| text.parse().unwrap()).collect();
    let settings = RouteSettings {
        cluster_cidrs,
        ..RouteSettings::default()
    };
    World {
        nodes: BTreeMap::new(),
        routes: Vec::new(),
        machines: BTreeSet::new(),
        is_complete: true,
        listings: VecDeque::new(),
        changes: BTreeMap::new(),
        pace: None,
        at_it: None,
        was_complete: true,
        refusals: VecDeque::new(),
        events: Vec::new(),
        budgets: None,
        is_ledger_away: false,
        ownership: OwnershipContext::alone(PROVIDER, vec!["sim".to_owned()]),
        mode: Mode::Enforce,
        now: 1_000_000,
        log: Vec::new(),
        deleted: Vec::new(),
        begun: BTreeSet::new(),
        unproven: Vec::new(),
        memory: Memory::new(Arc::new(settings.clone())),
        settings,
        next_id: 0,
        version: 0,
    }
}

/// The pod network of the node of [`one`].
pub(super) const TO_A: &str = "10.1.0.0/24";
/// A pod network of the other family.
pub(super) const SIX: &str = "fd00:0:0:1::/64";

/// A cluster of one node, which has no route yet.
pub(super) fn one() -> World {
    let mut world = world(&["10.1.0.0/16"]);
    world.add("a", &[TO_A], "10.0.0.1");
    world
}

pub(super) fn at(milliseconds: u64) -> Moment {
    Moment(Duration::from_millis(milliseconds))
}

pub(super) fn unavailable() -> ProviderError {
    ProviderError::Unavailable("away".to_owned())
}

pub(super) fn pending(milliseconds: u64) -> Progress {
    Progress::Pending(Pending {
        retry_after: Duration::from_millis(milliseconds),
        hint: Some(Arc::from(*b"h")),
    })
}

impl World {
    /// Adds an initialised node on a machine of its own, with these pod networks and this address.
    pub(super) fn add(&mut self, name: &str, pod_cidrs: &[&str], address: &str) {
        self.version += 1;
        let node = json!({
            "metadata": {
                "name": name, "uid": format!("uid-{name}-{}", self.version), "resourceVersion": self.version.to_string(),
                "creationTimestamp": "2026-01-01T00:00:00Z"
            },
            "spec": { "providerID": format!("sim://{name}"), "podCIDRs": pod_cidrs },
            "status": { "addresses": [{ "type": "InternalIP", "address": address }], "conditions": [] }
        });
        self.nodes.insert(name.to_owned(), node);
        self.machines.insert(name.to_owned());
        self.see(name);
    }

    /// Adds the taint of a node that waits for its initialisation.
    pub(super) fn taint(&mut self, name: &str) {
        let taint = json!([{ "key": UNINITIALIZED_TAINT, "effect": "NoSchedule" }]);
        self.change(name, |node| node["spec"]["taints"] = taint);
    }

    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        let node = self.nodes.get_mut(name).unwrap();
        node["metadata"]["resourceVersion"] = json!(self.version.to_string());
        change(node);
        self.see(name);
    }

    pub(super) fn move_to(&mut self, name: &str, address: &str) {
        self.change(name, |node| {
            node["status"]["addresses"][0]["address"] = json!(address);
        });
    }

    fn see(&mut self, name: &str) {
        let node = self.node(name).unwrap();
        self.memory.see(&node, &self.ownership, at(self.now));
    }

    /// Deletes the Node; its machine stays.
    pub(super) fn forget(&mut self, name: &str) {
        self.nodes.remove(name);
        self.memory.forget(name, at(self.now));
    }

    /// Deletes the Node and its machine.
    pub(super) fn remove(&mut self, name: &str) {
        self.machines.remove(name);
        self.forget(name);
    }

    pub(super) fn node(&self, name: &str) -> Option<Arc<PrunedNode>> {
        let node = self.nodes.get(name)?;
        Some(Arc::new(serde_json::from_value(node.clone()).unwrap()))
    }

    pub(super) fn route(&mut self, destination: &str, hop: Hop) {
        self.next_id += 1;
        self.routes.push(Route {
            id: format!("r{}", self.next_id),
            destination: destination.to_owned(),
            hop,
        });
    }

    /// Adds a route like one that is created for the node now.
    pub(super) fn route_to(&mut self, destination: &str, node: &str) {
        let hop = Hop::Machine(node.to_owned(), self.address(node));
        self.route(destination, hop);
    }

    pub(super) fn set_target(&mut self, destination: &str, target: RouteTarget) {
        self.route(destination, Hop::Fixed(target));
    }

    fn address(&self, node: &str) -> String {
        let address = &self.nodes[node]["status"]["addresses"][0]["address"];
        address.as_str().unwrap().to_owned()
    }

    /// The process restarts, perhaps with another mode: its state is lost.
    pub(super) fn restart(&mut self) {
        self.memory = Memory::new(Arc::new(self.settings.clone()));
        let nodes: Vec<String> = self.nodes.keys().cloned().collect();
        nodes.iter().for_each(|name| self.see(name));
    }

    fn nodes(&self) -> Vec<Arc<PrunedNode>> {
        self.nodes
            .keys()
            .map(|name| self.node(name).unwrap())
            .collect()
    }

    pub(super) fn with_pass<T>(&mut self, what: impl FnOnce(&mut Memory, &Pass<'_>) -> T) -> T {
        let nodes = self.nodes();
        let pass = Pass {
            nodes: &nodes,
            ownership: &self.ownership,
            generation: 0,
            now: at(self.now),
        };
        what(&mut self.memory, &pass)
    }

    /// All nodes were listed: performs what is due within this many milliseconds.
    pub(super) fn run(&mut self, milliseconds: u64) {
        self.with_pass(|memory, pass| memory.look_around(pass));
        let end = self.now + milliseconds;
        for _ in 0..10_000 {
            let Some(next) = self.memory.next_moment() else {
                self.now = end;
                return;
            };
            let next = u64::try_from(next.0.as_millis()).unwrap()
                + u64::from(next.0.subsec_nanos() % 1_000_000 > 0);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if self
                .memory
                .next_listing()
                .is_some_and(|listing| listing <= at(self.now))
            {
                self.with_listing();
            }
            self.work();
        }
        panic!(
            "it never comes to rest: {:?}",
            &self.log[self.log.len() - 10..]
        );
    }

    /// Runs until the nodes count as quiet. Returns the effects, without listings.
    pub(super) fn settle(&mut self) -> Vec<String> {
        self.log.clear();
        self.run(1_000);
        self.acts()
    }

    /// The effects, without listings.
    pub(super) fn acts(&self) -> Vec<String> {
        let acts = self.log.iter().map(|(_, act)| act.clone());
        acts.filter(|act| act != "list").collect()
    }

    pub(super) fn listings_at(&self) -> Vec<u64> {
        let listings = self.log.iter().filter(|(_, act)| act == "list");
        listings.map(|(at, _)| *at - 1_000_000).collect()
    }

    pub(super) fn pass(&mut self) {
        self.with_listing();
        self.work();
    }

    fn work(&mut self) {
        while let Some(facts) = self.next() {
            self.reconcile(facts);
        }
    }

    /// Lists routes, and starts no reconciliation.
    /// Takes the world to its first reconciliations: routes have been listed a second after the nodes were seen.
    pub(super) fn first_listing(&mut self) {
        self.run(0);
        self.now += 1_000;
        self.with_listing();
    }

    pub(super) fn with_listing(&mut self) {
        let listed = self.begin_listing();
        self.end_listing(listed);
    }

    pub(super) fn begin_listing(&mut self) -> Answer {
        let reported = self.with_pass(|memory, pass| memory.begin(pass));
        self.was_complete = self.is_complete;
        self.log.push((self.now, "list".to_owned()));
        match self.listings.pop_front() {
            Some(error) => Err(error),
            None => Ok(self.list(&reported)),
        }
    }

    pub(super) fn end_listing(&mut self, answer: Answer) {
        self.with_pass(|memory, pass| memory.absorb(pass, &answer));
    }

    /// Lists routes, with this answer.
    pub(super) fn answer(&mut self, answer: Answer) {
        drop(self.begin_listing());
        self.end_listing(answer);
    }

    pub(super) fn next(&mut self) -> Option<Facts> {
        let nodes = self.nodes.clone();
        let find = |name: &str| {
            let node = nodes.get(name)?;
            Some(Arc::new(serde_json::from_value(node.clone()).unwrap()))
        };
        self.memory.next(find, at(self.now))
    }

    pub(super) fn list(&self, reported: &[Arc<PrunedNode>]) -> ListRoutesReply {
        let target = |hop: &Hop| match hop {
            Hop::Fixed(target) => target.clone(),
            Hop::Machine(node, address) => {
                let is_told = reported.iter().any(|one| one.name() == node);
                match (is_told, self.machines.contains(node)) {
                    (true, _) if self.address(node) == *address => RouteTarget::Node(node.clone()),
                    (true, _) => RouteTarget::Outdated(node.clone()),
                    (false, true) => RouteTarget::Other(format!("server {node}")),
                    (false, false) => RouteTarget::Blackhole,
                }
            }
        };
        let routes = self.routes.iter().map(|route| CloudRoute {
            id: route.id.clone(),
            destination_cidr: route.destination.clone(),
            target: target(&route.hop),
            extra: Vec::new(),
        });
        ListRoutesReply {
            routes: routes.collect(),
            complete: self.is_complete,
        }
    }

    pub(super) fn now(&self) -> Now {
        let since = SignedDuration::from_millis(i64::try_from(self.now).unwrap());
        Now {
            moment: at(self.now),
            wall: Timestamp::UNIX_EPOCH + since,
        }
    }

    pub(super) fn reconcile(&mut self, mut facts: Facts) {
        for _ in 0..128 {
            let effects = match decide(&facts, self.now()) {
                Decision::Done((_, carry_over)) => {
                    self.memory.conclude(&facts, carry_over, at(self.now));
                    return;
                }
                Decision::Do(effects) => effects,
            };
            for effect in effects {
                let outcome = self.perform(&effect);
                let goes_on = outcome.is_success();
                facts.absorb(&effect, outcome);
                if !goes_on {
                    break;
                }
            }
        }
        panic!("a reconciliation without an end: {facts:?}");
    }

    /// The condition as `False/RouteCreated`, or empty.
    pub(super) fn condition(&self, name: &str) -> String {
        let conditions = self.nodes[name]["status"]["conditions"].as_array().unwrap();
        let ours = conditions
            .iter()
            .find(|one| one["type"] == "NetworkUnavailable");
        let text = |part: &Value| part.as_str().unwrap_or_default().to_owned();
        ours.map_or(String::new(), |one| {
            format!("{}/{}", text(&one["status"]), text(&one["reason"]))
        })
    }

    /// The routes, as `destination node address`.
    pub(super) fn final_routes(&self) -> BTreeSet<String> {
        let routes = self.routes.iter().map(|route| match &route.hop {
            Hop::Machine(node, address) => format!("{} {node} {address}", route.destination),
            Hop::Fixed(target) => format!("{} {target}", route.destination),
        });
        routes.collect()
    }

    pub(super) fn brake(&mut self) {
        self.budgets = Some(ClusterBudgets::new(&Allowances::default()));
    }
}

pub(super) fn network(text: &str) -> IpNet {
    read_network(text).unwrap()
}
