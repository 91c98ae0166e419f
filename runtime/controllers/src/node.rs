//! The node controller's scheduling: which nodes wake, the facts of each reconciliation, and when it runs again. Makes
//! no decision about a node and executes nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ccm_core::moment::{Moment, rounded};
use ccm_core::node::object::PrunedNode;
use ccm_core::node::{AwaitedTurn, Facts, Initialised, NodeMemory};
use ccm_core::reconciliation::conclusion::{Conclusion, Next};
use ccm_core::settings::{NodeRules, NodeSettings};
use ccm_core::well_known::NODE_CONTROLLER;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::controller::{Controller, Input, InputOf};
use crate::executor::EffectExecutor;
use crate::lookup_batch;
use crate::metrics::QueueName;
use crate::queue::{Capacity, Queue};
use crate::reconcile::{ConclusionOf, reconcile};
use crate::workers::Workers;

/// Maximum concurrent reconciliations: all new nodes of the largest clusters (15 000). Each costs less than two kilobytes
/// while it waits for its look-up or its turn to write; all others wait in the queue, at the cost of a name. Beyond this
/// limit a node begins only when another one has been written, and is asked about almost alone.
const MOST_RECONCILIATIONS: usize = 16_000;
/// Maximum concurrent reconciliations of known nodes: a full batch.
const MOST_OF_KNOWN_NODES: usize = lookup_batch::MOST;

/// Schedules the reconciliations of one provider's nodes.
pub(crate) struct NodeController {
    executor: Arc<EffectExecutor>,
    settings: NodeSettings,
    rules: Arc<NodeRules>,
    changes: mpsc::UnboundedReceiver<NodeChange>,
    clock: Clock,
    queue: Queue,
    /// Boxed, because a table has room for more than it holds.
    memories: HashMap<String, Box<NodeMemory>>,
    /// The nodes that arrived before the list of all nodes was complete: the cluster's store does not have them yet.
    early: HashMap<String, Arc<PrunedNode>>,
    /// The running reconciliations, by the name of the node and whether it is urgent.
    reconciliations: Workers<(String, bool), ConclusionOf<Facts>>,
    /// Number of running reconciliations that are not urgent.
    low_priority: usize,
    pass: Pass,
    has_passed: bool,
}

/// A change of nodes, sent to the provider controllers after the store has applied it. One watch serves all providers.
#[derive(Debug, Clone)]
pub(crate) enum NodeChange {
    /// The node was created or changed. Before the first [`NodeChange::Listed`], and only for the node controller: it
    /// is one of the first uninitialised nodes of the list.
    Applied(Arc<PrunedNode>),
    /// The node of this name was deleted.
    Deleted(String),
    /// The list of all nodes is complete.
    Listed,
    /// Another provider has cast an awaited vote on the node of this name.
    Requeued(String),
    /// The set of providers has changed.
    Reassigned,
}

/// The periodic pass over all initialised nodes (NODE-050).
enum Pass {
    /// Before the first complete list.
    NotYet,
    /// The next pass begins at this moment.
    Next(Moment),
    /// A pass is running; these nodes are still to be reconciled.
    UnderWay(HashSet<String>),
}

impl NodeController {
    /// Creates a controller that acts through `executor` on the cluster's nodes; `changes` reports their changes.
    pub(crate) fn new(
        executor: Arc<EffectExecutor>,
        settings: NodeSettings,
        changes: mpsc::UnboundedReceiver<NodeChange>,
    ) -> Self {
        let clock = executor.clock();
        let meter = executor.metrics().queues.meter(QueueName::Nodes, clock);
        NodeController {
            executor,
            rules: Arc::new(settings.rules.clone()),
            settings,
            changes,
            clock,
            queue: Queue::new(meter),
            memories: HashMap::new(),
            early: HashMap::new(),
            reconciliations: Workers::new(),
            low_priority: 0,
            pass: Pass::NotYet,
            has_passed: false,
        }
    }

    /// Removes a deleted node (NODE-010). The new nodes that it has held back have their turn.
    fn forget(&mut self, name: &str) {
        self.memories.remove(name);
        self.executor.planner().gone(&format!("node/{name}"));
        self.leave(name);
        let waiting = self.memories.iter();
        let waiting = waiting.filter(|(_, memory)| memory.is_held_back_by(name));
        let mut waiting: Vec<String> = waiting.map(|(waiting, _)| waiting.clone()).collect();
        waiting.sort_unstable();
        waiting.iter().for_each(|waiting| self.requeue(waiting));
    }

    /// Requests a turn of a new node, because something that it waits for has changed.
    fn requeue(&mut self, name: &str) {
        if let Some(memory) = self.memories.get_mut(name) {
            memory.has_more_to_do();
            self.queue.ask(name, self.clock.now(), true);
        }
    }

    /// Removes a node from the queue and the pass.
    fn leave(&mut self, name: &str) {
        self.report_departure(name);
        self.queue.forget(name);
        self.passed(name);
    }

    fn report_departure(&self, name: &str) {
        let activity = &self.executor.cluster.activity;
        activity.left(self.executor.name(), &format!("node/{name}"));
    }

    /// Counts an initialised node, and logs one line for it, to explain a slow scale-up.
    fn report_initialised(&self, name: &str, initialised: &Initialised) {
        let Initialised {
            node,
            waited,
            obstacle,
            attempts,
        } = initialised;
        let why = obstacle.as_deref();
        let why = why.unwrap_or("nothing stood in the way: one look-up and the writes");
        let (provider, waited) = (self.executor.name(), rounded(*waited));
        tracing::info!(target: "initialised", controller = NODE_CONTROLLER, provider, object = %format_args!("node/{name}"), ?waited, attempts, why);
        self.executor.count_initialised(node);
    }

    fn wake(&mut self, node: &PrunedNode) {
        if !self.executor.ownership().is_concerned(node) {
            if self.memories.remove(node.name()).is_some() {
                self.leave(node.name());
            }
            return;
        }
        let memory = self.memories.entry(node.name().to_owned()).or_default();
        let turn = match memory.is_relevant_change(node) {
            true => Some(AwaitedTurn::Due),
            false => memory.caught_up(node),
        };
        match turn {
            Some(AwaitedTurn::Due) => {
                self.queue
                    .ask(node.name(), self.clock.now(), node.is_uninitialized());
            }
            // The node is in no pass: a requested pass does not wait for our own write alone.
            Some(AwaitedTurn::Needless) => self.queue.forget(node.name()),
            None => {}
        }
    }

    fn next_moment(&self) -> Option<Moment> {
        // At the limit, only the end of a reconciliation frees a slot.
        let is_full = self.reconciliations.len() >= MOST_RECONCILIATIONS;
        let turn = self.queue.next(self.capacity());
        let turn = turn.filter(|_| !is_full);
        let pass = match self.pass {
            Pass::Next(moment) => Some(moment),
            Pass::NotYet | Pass::UnderWay(_) => None,
        };
        turn.into_iter().chain(pass).min()
    }

    /// Begins a due pass (NODE-050, NODE-051).
    fn begin_pass(&mut self) {
        let now = self.clock.now();
        match self.pass {
            Pass::Next(moment) if moment <= now => {}
            _ => return,
        }
        let mut known = HashSet::new();
        let ownership = self.executor.ownership();
        let is_due =
            |node: &&Arc<PrunedNode>| !node.is_uninitialized() && ownership.is_concerned(node);
        for node in self.executor.cluster.nodes.all().iter().filter(is_due) {
            let name = node.name().to_owned();
            let memory = self.memories.entry(name.clone()).or_default();
            memory.wants_refresh();
            self.queue.ask(&name, now, false);
            known.insert(name);
        }
        self.pass = Pass::UnderWay(known);
        self.end_pass();
    }

    /// Removes `name` from the current pass, once reconciled or no longer concerned.
    fn passed(&mut self, name: &str) {
        if let Pass::UnderWay(left) = &mut self.pass {
            left.remove(name);
            self.end_pass();
        }
    }

    /// Schedules the next pass, counted from the end of this one.
    fn end_pass(&mut self) {
        if matches!(&self.pass, Pass::UnderWay(left) if left.is_empty()) {
            if !self.has_passed {
                self.has_passed = true;
                self.executor.passed();
            }
            self.pass = Pass::Next(
                self.clock
                    .now()
                    .after(self.settings.status_update_frequency),
            );
        }
    }

    fn start_reconciliations(&mut self) {
        let now = self.clock.now();
        while self.reconciliations.len() < MOST_RECONCILIATIONS
            && let Some((name, is_urgent)) = self.queue.take(now, self.capacity())
        {
            self.start(name, is_urgent, now);
        }
    }

    /// Known nodes take at most part of the reconciliations, so that a pass over many of them never delays a new node.
    fn capacity(&self) -> Capacity {
        match self.low_priority < MOST_OF_KNOWN_NODES {
            true => Capacity::Any,
            false => Capacity::Urgent,
        }
    }

    fn start(&mut self, name: String, is_urgent: bool, now: Moment) {
        let stored = self.executor.cluster.nodes.get(&name);
        let Some(node) = stored.or_else(|| self.early.get(&name).cloned()) else {
            self.queue.finish(&name, now);
            self.forget(&name);
            return;
        };
        let memory = self.memories.entry(name.clone()).or_default();
        if let Some(caught_up) = memory.waits_for_cache(&node, now) {
            self.queue.ask(&name, caught_up, node.is_uninitialized());
            self.queue.finish(&name, now);
            return;
        }
        let facts = memory.facts(node, self.executor.ownership(), self.rules.clone(), now);
        let facts = Box::new(facts);
        let (executor, clock) = (self.executor.clone(), self.clock);
        let task = async move { reconcile(facts, &*executor, clock).await };
        self.reconciliations.spawn((name, is_urgent), task);
        self.low_priority += usize::from(!is_urgent);
    }
}

impl Controller for NodeController {
    type Key = (String, bool);
    type Ended = ConclusionOf<Facts>;
    type Change = NodeChange;

    fn clock(&self) -> Clock {
        self.clock
    }

    fn start_due(&mut self) -> Option<Moment> {
        self.begin_pass();
        self.start_reconciliations();
        self.next_moment()
    }

    async fn input(&mut self) -> Option<InputOf<Self>> {
        tokio::select! {
            biased;
            (key, ended) = self.reconciliations.next() => Some(Input::Ended(key, ended)),
            change = self.changes.recv() => change.map(Input::Change),
        }
    }

    fn conclude(&mut self, (name, is_urgent): (String, bool), ended: Option<ConclusionOf<Facts>>) {
        let name = name.as_str();
        self.low_priority -= usize::from(!is_urgent);
        // One that began before the pass has not checked the addresses; the turn that the pass requested follows.
        let has_refreshed = ended.as_ref().is_none_or(|one| one.facts.past.refresh);
        let now = self.clock.now();
        // A node deleted meanwhile has no memory any more.
        if let Some(memory) = self.memories.get_mut(name) {
            let is_retried = ended.as_ref().is_none_or(Conclusion::is_retried);
            if is_retried {
                self.queue.retries();
            }
            let node = ended.as_ref().map(|conclusion| &conclusion.facts.node);
            let is_urgent = node.is_some_and(|node| node.is_uninitialized());
            let (next, initialised) = match ended {
                Some(conclusion) => memory.conclude(conclusion, now),
                None => {
                    tracing::error!(
                        node = name,
                        "a reconciliation ended with a panic; this is a defect"
                    );
                    (memory.abandon(now), None)
                }
            };
            match next {
                Next::OnChange => {}
                Next::At(at) => self.queue.ask(name, at, is_urgent),
                Next::NotBefore(at) => {
                    self.queue.hold(name, at);
                    self.queue.ask(name, at, is_urgent);
                }
            }
            if let Some(initialised) = initialised {
                self.report_initialised(name, &initialised);
            }
        }
        if !self.memories.contains_key(name) {
            self.report_departure(name);
            // Deleted during its look-up: the reconciliation has planned for a node that is gone. One of another provider
            // keeps what that provider plans.
            if self.executor.cluster.nodes.get(name).is_none() {
                self.executor.planner().gone(&format!("node/{name}"));
            }
        }
        self.queue.finish(name, now);
        if has_refreshed || !self.memories.contains_key(name) {
            self.passed(name);
        }
    }

    /// Handles a change (NODE-002); only changes that can matter wake a node (EDGE-051).
    fn see(&mut self, change: NodeChange) {
        match &change {
            NodeChange::Applied(node) => {
                if let Pass::NotYet = self.pass {
                    self.early.insert(node.name().to_owned(), node.clone());
                }
                self.wake(node);
            }
            NodeChange::Deleted(name) => self.forget(name),
            NodeChange::Listed => {
                self.early.clear();
                let nodes = self.executor.cluster.nodes.all();
                let names: HashSet<&str> = nodes.iter().map(|node| node.name()).collect();
                let gone: Vec<String> = self
                    .memories
                    .keys()
                    .filter(|name| !names.contains(name.as_str()))
                    .cloned()
                    .collect();
                gone.iter().for_each(|name| self.forget(name));
                nodes.iter().for_each(|node| self.wake(node));
                if let Pass::NotYet = self.pass {
                    self.pass = Pass::Next(self.clock.now());
                }
            }
            NodeChange::Requeued(name) => self.requeue(name),
            NodeChange::Reassigned => {
                for node in self
                    .executor
                    .cluster
                    .nodes
                    .all()
                    .iter()
                    .filter(|node| node.is_uninitialized())
                {
                    if let Some(memory) = self.memories.get_mut(node.name()) {
                        memory.reconsider();
                    }
                    self.wake(node);
                }
            }
        }
    }

    async fn drain(&mut self) {
        self.reconciliations.drain().await;
    }
}

#[cfg(test)]
mod tests;
