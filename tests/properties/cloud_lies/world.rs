//! A small cluster, its cloud, and the manager's decisions about both, second by second. The API server is a map; the
//! decisions are the real ones. Every deletion that is wrong, too early or repeated is recorded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ccm_core::moment::{Moment, Now};
use ccm_core::node::object::{NodeRef, PrunedNode};
use ccm_core::node::ownership::OwnershipContext;
use ccm_core::node_lifecycle::{
    DeletionResult, Facts, Finding, LifecycleEffect, LifecycleOutcome, Memory, NodeDeletion, Pass,
    Survey, decide,
};
use ccm_core::reconciliation::effect::{
    BudgetOutcome, ClusterError, Decision, EventOutcome, Outcome as _, Performed, When,
};
use ccm_core::safety::brake::{Allowances, Brake, ClusterBudgets, Objects, Rise};
use ccm_core::settings::LifecycleRules;
use ccm_core::well_known;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::cloud_lies::cloud::{Answer, Cloud, Machine};
use crate::cloud_lies::mutant::Mutant;
use ccm_tests::random::Random;

const PROVIDER: &str = "sim";

/// A node, as the API server has it.
pub(crate) struct Stored {
    object: Value,
    /// The same, as the manager reads it.
    node: Arc<PrunedNode>,
    pub(crate) created: u64,
    /// Since when it is NotReady.
    pub(crate) not_ready: Option<u64>,
    pub(crate) is_marked: bool,
}

/// A correct deletion.
pub(crate) struct Deleted {
    pub(crate) name: String,
    pub(crate) at: u64,
    pub(crate) created: u64,
    pub(crate) not_ready: u64,
    pub(crate) is_marked: bool,
}

/// The cluster, the cloud and the manager's memory.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) nodes: BTreeMap<String, Stored>,
    pub(crate) cloud: Cloud,
    /// The slowest answer, in seconds.
    pub(crate) slowest: u64,
    /// Whether the API server fails now and then, and other clients write.
    pub(crate) is_rough: bool,
    /// Until when the manager's cache gets no events.
    pub(crate) deaf_until: u64,
    pub(crate) deleted: Vec<Deleted>,
    pub(crate) wrong: Vec<String>,
    pub(crate) log: Vec<String>,
    /// Whether every answer is logged, too.
    pub(crate) is_told: bool,
    /// The witnesses of the last call.
    pub(crate) witnesses: Vec<String>,
    mutant: Option<Mutant>,
    most_nodes: usize,
    cache: Vec<Arc<PrunedNode>>,
    /// The version of the cache.
    cached: u64,
    memory: Memory,
    budgets: ClusterBudgets,
    on_the_wire: VecDeque<(u64, Survey, Answer)>,
    ownership: Arc<OwnershipContext>,
    rules: Arc<LifecycleRules>,
    versions: u64,
    spent: Vec<(Brake, u64)>,
}

impl World {
    pub(crate) fn new(seed: u64, mutant: Option<Mutant>) -> World {
        World {
            now: 100_000,
            random: Random::new(seed),
            nodes: BTreeMap::new(),
            cloud: Cloud::default(),
            slowest: 3,
            is_rough: false,
            deaf_until: 0,
            deleted: Vec::new(),
            wrong: Vec::new(),
            log: Vec::new(),
            is_told: false,
            witnesses: Vec::new(),
            mutant,
            most_nodes: 0,
            cache: Vec::new(),
            cached: 0,
            memory: Memory::default(),
            budgets: ClusterBudgets::new(&Allowances::default()),
            on_the_wire: VecDeque::new(),
            ownership: Arc::new(OwnershipContext::alone(PROVIDER, vec!["sim".to_owned()])),
            rules: Arc::new(Mutant::rules(mutant)),
            versions: 0,
            spent: Vec::new(),
        }
    }

    /// A node with its machine.
    pub(crate) fn add(&mut self, name: &str, created: u64, listed: u64, is_ready: bool) {
        self.versions += 1;
        let provider_id = format!("sim://{name}-{}", self.versions);
        let object = json!({
            "metadata": { "name": name, "uid": format!("uid-{}", self.versions),
                "resourceVersion": self.versions.to_string(),
                "creationTimestamp": timestamp(created).to_string(),
                "labels": { well_known::OWNER_LABEL: PROVIDER } },
            "spec": { "providerID": provider_id },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let stored = Stored {
            node: read(&object),
            object,
            created,
            not_ready: None,
            is_marked: false,
        };
        self.nodes.insert(name.to_owned(), stored);
        self.most_nodes = self.most_nodes.max(self.nodes.len());
        let machine = Machine {
            provider_id,
            listed,
            gone: None,
            is_off: false,
        };
        self.cloud.machines.insert(name.to_owned(), machine);
        self.ready(name, is_ready);
    }

    fn write(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.versions += 1;
        if let Some(stored) = self.nodes.get_mut(name) {
            change(&mut stored.object);
            stored.object["metadata"]["resourceVersion"] = json!(self.versions.to_string());
            stored.node = read(&stored.object);
        }
    }

    pub(crate) fn ready(&mut self, name: &str, is_ready: bool) {
        let now = self.now;
        let status = if is_ready { "True" } else { "Unknown" };
        let since = timestamp(now).to_string();
        let condition = json!({ "type": "Ready", "status": status, "lastTransitionTime": since });
        if let Some(stored) = self.nodes.get_mut(name) {
            stored.not_ready = (!is_ready).then_some(now);
        }
        self.write(name, |node| {
            node["status"]["conditions"] = json!([condition]);
        });
    }

    /// An autoscaler marks the node for removal.
    pub(crate) fn mark(&mut self, name: &str) {
        if let Some(stored) = self.nodes.get_mut(name) {
            stored.is_marked = true;
        }
        let taint = json!({ "key": well_known::TO_BE_DELETED_TAINT, "effect": "NoSchedule" });
        self.write(name, |node| node["spec"]["taints"] = json!([taint]));
    }

    /// Another process of the manager starts. The recorded use of the brakes stays.
    pub(crate) fn restart(&mut self) {
        self.memory = Memory::default();
        self.on_the_wire.clear();
        self.witnesses.clear();
    }

    /// Whether a pass would find nothing.
    fn is_calm(&self) -> bool {
        self.on_the_wire.is_empty() && self.nodes.values().all(|one| one.not_ready.is_none())
    }

    /// Plays one second.
    pub(crate) fn second(&mut self) {
        self.now += 1;
        if self.deaf_until <= self.now && self.cached != self.versions {
            self.look_at_the_cache();
        }
        while let Some(index) = self.on_the_wire.iter().position(|(at, ..)| *at <= self.now) {
            let (_, survey, answer) = self.on_the_wire.remove(index).unwrap();
            self.memory.absorb(&survey, &answer, self.both().moment);
            self.reconcile_all();
        }
        // With all nodes Ready a pass finds nothing; a pass now and then is enough to see new nodes.
        let period = if self.is_calm() { 60 } else { 5 };
        if self.now.is_multiple_of(period) {
            for survey in self.with_pass(Memory::begin) {
                self.ask(survey);
            }
            self.reconcile_all();
        }
    }

    fn look_at_the_cache(&mut self) {
        self.cached = self.versions;
        self.cache.clear();
        self.cache
            .extend(self.nodes.values().map(|one| one.node.clone()));
    }

    fn both(&self) -> Now {
        Now {
            moment: Moment(Duration::from_secs(self.now)),
            wall: timestamp(self.now),
        }
    }

    fn with_pass<T>(&mut self, what: impl FnOnce(&mut Memory, &Pass<'_>) -> T) -> T {
        let pass = Pass {
            nodes: &self.cache,
            ownership: &self.ownership,
            rules: &self.rules,
            now: self.both(),
        };
        what(&mut self.memory, &pass)
    }

    fn ask(&mut self, survey: Survey) {
        let names: Vec<&str> = survey.nodes().map(|node| node.name()).collect();
        let is_fresh = survey.is_fresh && self.mutant != Some(Mutant::NeverFresh);
        let about = survey.about.len();
        let (now, random) = (self.now, &mut self.random);
        let answer = self.cloud.answer(&names, about, is_fresh, now, random);
        self.witnesses = survey
            .witnesses
            .iter()
            .map(|node| node.name().to_owned())
            .collect();
        let at = self.now + self.random.within(0, self.slowest);
        if self.is_told {
            self.log.push(format!("{now} {survey} -> {answer:?}"));
        }
        self.on_the_wire.push_back((at, survey, answer));
    }

    fn reconcile_all(&mut self) {
        for mut facts in self.with_pass(Memory::facts) {
            if let (Some(mutant), Finding::Gone(evidence)) = (self.mutant, &mut facts.finding) {
                mutant.tamper(evidence);
            }
            let when = self.reconcile(&mut facts);
            let now = self.both().moment;
            self.memory.conclude(&facts, &when, now);
        }
    }

    fn reconcile(&mut self, facts: &mut Facts) -> When {
        for _ in 0..50 {
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
        self.wrong.push("a reconciliation does not end".to_owned());
        When::AwaitChange
    }

    fn perform(&mut self, effect: &LifecycleEffect) -> LifecycleOutcome {
        let away = || ClusterError::Unavailable("503".to_owned());
        match effect {
            LifecycleEffect::Read(_) if self.is_rough && self.random.per_cent(3) => {
                LifecycleOutcome::Node(Err(away()))
            }
            LifecycleEffect::Read(node) => LifecycleOutcome::Node(Ok(self.stored(&node.name))),
            LifecycleEffect::TakeBudget(_, brake, rise) => {
                let (now, count) = (self.both().moment, self.nodes.len());
                let objects = Objects {
                    own: count,
                    all: count,
                };
                let taken = match self.budgets.take(PROVIDER, *brake, now, objects, *rise) {
                    Err(_) if self.mutant == Some(Mutant::NoBrake) => Ok(()),
                    taken => taken.map(drop),
                };
                LifecycleOutcome::Budget(*brake, BudgetOutcome::Answered(taken))
            }
            LifecycleEffect::ReturnBudget(_, brake) => {
                self.budgets.refused(PROVIDER, *brake);
                LifecycleOutcome::Returned(*brake)
            }
            LifecycleEffect::Patch(node, patch) => {
                let taints = patch.taints.as_ref().map(|taints| taints.taints.clone());
                self.write(&node.name, |node| node["spec"]["taints"] = json!(taints));
                LifecycleOutcome::Node(Ok(self.stored(&node.name)))
            }
            LifecycleEffect::Delete(..) if self.is_rough && self.random.per_cent(5) => {
                LifecycleOutcome::Deleted(Err(away()))
            }
            LifecycleEffect::Delete(node, deletion) => {
                LifecycleOutcome::Deleted(self.delete(node, deletion))
            }
            LifecycleEffect::ReadPods(_) => LifecycleOutcome::Drained(false),
            LifecycleEffect::Hold(_, condition) => LifecycleOutcome::Held(condition),
            LifecycleEffect::RecordEvent(..) => LifecycleOutcome::Event(EventOutcome::Recorded),
        }
    }

    fn stored(&self, name: &str) -> Option<Box<PrunedNode>> {
        let stored = self.nodes.get(name)?;
        Some(Box::new(PrunedNode::clone(&stored.node)))
    }

    fn delete(&mut self, node: &NodeRef, deletion: &NodeDeletion) -> DeletionResult {
        if self.is_rough && self.random.per_cent(5) {
            // Another client was quicker: the name belongs to another machine now.
            self.add(&node.name, self.now, self.now, true);
        } else if self.is_rough && self.random.per_cent(10) {
            self.write(&node.name, |_| {});
        }
        let Some(stored) = self.nodes.get(&node.name) else {
            return Ok(None);
        };
        let is_it = stored.node.node_ref() == *node
            && stored.node.resource_version() == deletion.resource_version;
        if !is_it && self.mutant != Some(Mutant::NoPreconditions) {
            return Err(ClusterError::Conflict("changed".to_owned()));
        }
        self.judge(&node.name, deletion.brake);
        let stored = self.nodes.remove(&node.name).unwrap();
        self.versions += 1;
        self.log.push(format!("{} delete {}", self.now, node.name));
        self.deleted.push(Deleted {
            name: node.name.clone(),
            at: self.now,
            created: stored.created,
            not_ready: stored.not_ready.unwrap_or(self.now),
            is_marked: stored.is_marked,
        });
        if self.is_rough && self.random.per_cent(5) {
            let why = "the answer was lost".to_owned();
            return Err(ClusterError::Unavailable(why));
        }
        Ok(Some(()))
    }

    /// Checks all conditions of a node's deletion.
    fn judge(&mut self, name: &str, brake: Option<Brake>) {
        let (stored, now) = (&self.nodes[name], self.now);
        let mut say = |what: &str| self.wrong.push(format!("{now} {name}: {what}"));
        if self.cloud.machines[name].gone.is_none_or(|gone| gone > now) {
            say("its machine exists");
        }
        if stored.not_ready.is_none_or(|since| since + 30 > now) {
            say("it was Ready less than 30 s ago");
        }
        if stored.created + 300 > now {
            say("it is younger than five minutes");
        }
        let Some(brake) = brake else {
            // The node is marked as one that is to leave.
            return;
        };
        self.spent.push((brake, now));
        // The budget for a failed deletion stays reserved for a minute.
        let is_in_window = |(one, at): &&(Brake, u64)| *one == brake && *at + 540 > now;
        let count = self.spent.iter().filter(is_in_window).count();
        // The deletion was held after the machine had gone, at the earliest.
        let since = |seconds| Moment(Duration::from_secs(seconds));
        let rise = Rise::since(self.cloud.machines[name].gone.map(since), since(now));
        let allowance = Allowances::default().of(brake);
        if count > allowance.risen(self.most_nodes, rise) {
            say("the brake has no budget");
        }
    }
}

fn timestamp(seconds: u64) -> Timestamp {
    Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap()
}

fn read(object: &Value) -> Arc<PrunedNode> {
    Arc::new(PrunedNode::deserialize(object).unwrap())
}
