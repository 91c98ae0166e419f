//! A cluster of nodes, a cloud, and a manager that runs passes. Time goes on in steps.

use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::*;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{FindReply, Instance, Lookup};
use crate::moment::Moment;
use crate::node::index::NodeIndex;
use crate::node::object::PrunedNode;
use crate::node::ownership::OwnershipContext;
use crate::reconciliation::effect::{BudgetOutcome, EventOutcome, Outcome as _, Performed};
use crate::safety::brake::{Allowances, ClusterBudgets, Objects};
use crate::settings::LifecycleRules;

const PROVIDER: &str = "sim";

pub(super) type Answer = Result<FindReply, ProviderError>;

pub(super) struct World {
    pub(super) nodes: BTreeMap<String, Value>,
    /// The cloud's answer, by node.
    pub(super) cloud: BTreeMap<String, Lookup>,
    /// Changes the cloud's answer on its way: the answer, whether it is fresh, and the number of earlier answers.
    pub(super) lie: fn(Answer, bool, usize) -> Answer,
    /// Happens just before the API server is asked for a node again, by the node's name.
    pub(super) at_read: fn(&mut World, &str),
    pub(super) rules: LifecycleRules,
    pub(super) now: u64,
    /// The effects, each with the second in which it was performed.
    pub(super) log: Vec<String>,
    /// The messages of all Events.
    pub(super) messages: Vec<String>,
    pub(super) asked: usize,
    /// Whether taken budget cannot be saved.
    pub(super) is_ledger_away: bool,
    /// The answers of the API server to the next deletions.
    pub(super) refusals: Vec<ClusterError>,
    /// Nodes that an admission webhook protects from changes.
    pub(super) locked: BTreeSet<String>,
    drained: BTreeSet<String>,
    /// Passes that could have been left out.
    pub(super) settled: usize,
    /// The nodes as they were last read, each with what it was read from: thousands are the same at every pass.
    read: BTreeMap<String, (Value, Arc<PrunedNode>)>,
    node_index: NodeIndex,
    memory: Memory,
    pub(super) budgets: ClusterBudgets,
    versions: u64,
}

impl World {
    /// A world with these nodes, Ready and an hour old, each with its machine.
    pub(super) fn new(names: &[&str]) -> World {
        let mut world = World {
            nodes: BTreeMap::new(),
            cloud: BTreeMap::new(),
            lie: |answer, _, _| answer,
            at_read: |_, _| {},
            rules: LifecycleRules::default(),
            now: 3600,
            log: Vec::new(),
            messages: Vec::new(),
            asked: 0,
            is_ledger_away: false,
            refusals: Vec::new(),
            locked: BTreeSet::new(),
            drained: BTreeSet::new(),
            settled: 0,
            read: BTreeMap::new(),
            node_index: NodeIndex::default(),
            memory: Memory::default(),
            budgets: ClusterBudgets::new(&Allowances::default()),
            versions: 1,
        };
        for name in names {
            world.add(name, 0);
        }
        world
    }

    pub(super) fn add(&mut self, name: &str, created: i64) {
        let created = Timestamp::from_second(created).unwrap().to_string();
        let node = json!({
            "metadata": { "name": name, "uid": format!("uid-{name}-{}", self.versions), "resourceVersion": "1",
                "creationTimestamp": created, "labels": { "wasm-ccm.dev/provider": "sim" },
                "annotations": {} },
            "spec": { "providerID": format!("sim://{name}"), "taints": [] },
            "status": { "conditions": [{ "type": "Ready", "status": "True",
                "lastTransitionTime": created }] },
        });
        self.versions += 1;
        self.nodes.insert(name.to_owned(), node);
        self.set_found(name, None);
    }

    pub(super) fn set_found(&mut self, name: &str, shutdown: Option<bool>) {
        let instance = Instance {
            provider_id: format!("sim://{name}"),
            shutdown,
            ..Instance::default()
        };
        self.cloud
            .insert(name.to_owned(), Lookup::Found(Box::new(instance)));
    }

    pub(super) fn ready(&mut self, name: &str, status: &str) {
        let at = Timestamp::from_second(i64::try_from(self.now).unwrap()).unwrap();
        let node = self.nodes.get_mut(name).unwrap();
        node["status"]["conditions"][0]["status"] = json!(status);
        node["status"]["conditions"][0]["lastTransitionTime"] = json!(at.to_string());
    }

    /// Another client changes the owner.
    pub(super) fn give(&mut self, name: &str, provider: &str) {
        let node = self.nodes.get_mut(name).unwrap();
        node["metadata"]["labels"]["wasm-ccm.dev/provider"] = json!(provider);
    }

    /// The machine vanishes, and the kubelet with it.
    pub(super) fn machine_vanishes(&mut self, name: &str) {
        self.ready(name, "Unknown");
        self.cloud.insert(name.to_owned(), Lookup::Gone);
    }

    /// An autoscaler or a person marks the node with this taint.
    pub(super) fn mark(&mut self, name: &str, taint: &str) {
        let taints = self.nodes.get_mut(name).unwrap()["spec"]["taints"].as_array_mut();
        taints
            .unwrap()
            .push(json!({ "key": taint, "effect": "NoSchedule" }));
    }

    /// A person drains the node, completely or not.
    pub(super) fn drain(&mut self, name: &str, is_drained: bool) {
        self.nodes.get_mut(name).unwrap()["spec"]["unschedulable"] = json!(true);
        if is_drained {
            self.drained.insert(name.to_owned());
        }
    }

    /// Another process takes over; the spent entries are restored.
    pub(super) fn restart(&mut self) {
        self.memory = Memory::default();
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Runs a pass every five seconds for this many seconds.
    pub(super) fn run(&mut self, seconds: u64) -> &mut World {
        for _ in 0..seconds / 5 {
            self.pass();
            self.now += 5;
        }
        self
    }

    fn both(&self) -> Now {
        Now {
            moment: Moment(Duration::from_secs(self.now)),
            wall: Timestamp::from_second(i64::try_from(self.now).unwrap()).unwrap(),
        }
    }

    fn pass(&mut self) {
        let read = &mut self.read;
        let nodes = self
            .nodes
            .iter()
            .map(|(name, stored)| match read.get(name) {
                Some((before, node)) if before == stored => node.clone(),
                _ => {
                    let node: PrunedNode = serde_json::from_value(stored.clone()).unwrap();
                    let node = Arc::new(node);
                    read.insert(name.clone(), (stored.clone(), node.clone()));
                    node
                }
            });
        let nodes: Vec<Arc<PrunedNode>> = nodes.collect();
        nodes.iter().for_each(|node| self.node_index.apply(node));
        self.node_index.keep(|name| self.nodes.contains_key(name));
        let ownership = Arc::new(OwnershipContext::alone(PROVIDER, vec!["sim".to_owned()]));
        let rules = Arc::new(self.rules.clone());
        let pass = Pass {
            nodes: &nodes,
            ownership: &ownership,
            rules: &rules,
            now: self.both(),
        };
        let mut memory = std::mem::take(&mut self.memory);
        // The pass runs all the same: a pass that may be skipped must not make a difference.
        let (version, unready) = (self.node_index.version(), self.node_index.unready());
        let unready = nodes
            .iter()
            .filter(|node| unready.iter().any(|name| **name == *node.name()));
        let is_settled = memory.is_settled(version, unready.cloned(), &ownership);
        self.settled += usize::from(is_settled);
        for survey in memory.begin(&pass) {
            assert!(!is_settled, "{survey}");
            self.note(&survey);
            let answer = self.answer(&survey);
            memory.absorb(&survey, &answer, pass.now.moment);
        }
        for mut facts in memory.facts(&pass) {
            assert!(!is_settled, "{:?}", facts.node.name());
            let when = self.reconcile(&mut facts);
            memory.conclude(&facts, &when, self.both().moment);
        }
        self.memory = memory;
    }

    fn answer(&mut self, survey: &Survey) -> Answer {
        let of = |node: &Arc<PrunedNode>| {
            self.cloud
                .get(node.name())
                .cloned()
                .unwrap_or(Lookup::NotMine)
        };
        let reply = FindReply {
            lookups: survey.nodes().map(of).collect(),
            events: Vec::new(),
            complete: true,
        };
        self.asked += 1;
        (self.lie)(Ok(reply), survey.is_fresh, self.asked)
    }

    fn reconcile(&mut self, facts: &mut Facts) -> When {
        for _ in 0..20 {
            let effects = match decide(facts, self.both()) {
                Decision::Done(when) => return when,
                Decision::Do(effects) => effects,
            };
            for effect in effects {
                let outcome = self.perform(&effect);
                let goes_on = outcome.is_success();
                facts.absorb(&effect, Performed::Ended(outcome));
                if !goes_on {
                    break;
                }
            }
        }
        panic!("the reconciliation does not end: {:#?}", self.log);
    }

    fn perform(&mut self, effect: &LifecycleEffect) -> LifecycleOutcome {
        if !matches!(
            effect,
            LifecycleEffect::Read(_) | LifecycleEffect::TakeBudget(..)
        ) {
            self.note(effect);
        }
        match effect {
            LifecycleEffect::Read(node) => {
                let happens = self.at_read;
                happens(self, &node.name);
                let stored = self.nodes.get(&node.name);
                LifecycleOutcome::Node(Ok(
                    stored.map(|stored| Box::new(serde_json::from_value(stored.clone()).unwrap()))
                ))
            }
            LifecycleEffect::ReadPods(node) => {
                LifecycleOutcome::Drained(self.drained.contains(&node.name))
            }
            LifecycleEffect::TakeBudget(_, brake, _) if self.is_ledger_away => {
                let conflict = ClusterError::Conflict("409".to_owned());
                LifecycleOutcome::Budget(*brake, BudgetOutcome::Failed(conflict))
            }
            LifecycleEffect::TakeBudget(_, brake, rise) => {
                let (now, count) = (self.both().moment, self.nodes.len());
                let objects = Objects {
                    own: count,
                    all: count,
                };
                let taken = self.budgets.take(PROVIDER, *brake, now, objects, *rise);
                LifecycleOutcome::Budget(*brake, BudgetOutcome::Answered(taken.map(drop)))
            }
            LifecycleEffect::ReturnBudget(_, brake) => {
                self.budgets.refused(PROVIDER, *brake);
                LifecycleOutcome::Returned(*brake)
            }
            LifecycleEffect::Delete(node, deletion) if self.locked.contains(&node.name) => {
                if let Some(brake) = deletion.brake {
                    self.budgets.refused(PROVIDER, brake);
                }
                let why = "an admission webhook says no".to_owned();
                LifecycleOutcome::Deleted(Err(ClusterError::Rejected(why)))
            }
            LifecycleEffect::Patch(node, _) if self.locked.contains(&node.name) => {
                let why = "an admission webhook says no".to_owned();
                LifecycleOutcome::Node(Err(ClusterError::Rejected(why)))
            }
            LifecycleEffect::Patch(node, patch) => {
                let stored = self.nodes.get_mut(&node.name).unwrap();
                stored["spec"]["taints"] = json!(patch.taints.as_ref().unwrap().taints);
                LifecycleOutcome::Node(Ok(Some(Box::new(
                    serde_json::from_value(stored.clone()).unwrap(),
                ))))
            }
            LifecycleEffect::Delete(node, deletion) => {
                if !self.refusals.is_empty() {
                    let error = self.refusals.remove(0);
                    if let (Some(brake), true) = (deletion.brake, error.is_final()) {
                        self.budgets.refused(PROVIDER, brake);
                    }
                    return LifecycleOutcome::Deleted(Err(error));
                }
                let stored = self.nodes.get(&node.name).unwrap();
                assert_eq!(stored["metadata"]["uid"], json!(node.uid));
                let version = &stored["metadata"]["resourceVersion"];
                assert_eq!(*version, json!(deletion.resource_version));
                self.nodes.remove(&node.name);
                LifecycleOutcome::Deleted(Ok(Some(())))
            }
            LifecycleEffect::RecordEvent(_, event) => {
                self.messages.push(event.message.clone());
                LifecycleOutcome::Event(EventOutcome::Recorded)
            }
            LifecycleEffect::Hold(_, condition) => LifecycleOutcome::Held(condition),
        }
    }

    fn note(&mut self, what: &dyn std::fmt::Display) {
        self.log.push(format!("{} {what}", self.now - 3600));
    }

    /// Takes the effects since the last call, without the look-ups.
    pub(super) fn done(&mut self) -> Vec<String> {
        let mut log = std::mem::take(&mut self.log);
        log.retain(|line| !line.contains(" find "));
        log
    }
}
