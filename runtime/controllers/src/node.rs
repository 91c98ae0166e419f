//! The node controller's trigger: which nodes wake, what a reconciliation knows at its beginning, and when
//! it is held again. Makes no decision about a node and performs nothing.

mod memory;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ccm_core::moment::Moment;
use ccm_core::node::Facts;
use ccm_core::node::object::is_uninitialized;
use ccm_core::settings::{NodeRules, NodeSettings};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};

use crate::clock::Clock;
use crate::executor::EffectExecutor;
use crate::lookup_batch;
use crate::queue::{Capacity, Queue};
use crate::reconcile::{Conclusion, converse};
use memory::Memory;

/// How many reconciliations are held at once: two full batches of new nodes and two of known ones, of which one is
/// being asked about and one gathers. Each costs less than two kilobytes while it waits; all others wait in the
/// queue, which costs a name.
const MOST_CONVERSATIONS: usize = 4 * lookup_batch::MOST;

/// See the module's documentation.
pub(crate) struct NodeController {
    executor: Arc<EffectExecutor>,
    settings: NodeSettings,
    rules: Arc<NodeRules>,
    nodes: Store<Node>,
    changes: mpsc::UnboundedReceiver<NodeChange>,
    clock: Clock,
    queue: Queue,
    memories: HashMap<String, Memory>,
    reconciliations: JoinSet<Conclusion<Facts>>,
    /// Whom each reconciliation is about, and whether that was urgent.
    names: HashMap<Id, (String, bool)>,
    /// How many of them were not urgent.
    low_priority: usize,
    pass: Pass,
    has_passed: bool,
}

/// What a provider's controller hears of nodes, once the store has it. One watch serves all of them.
#[derive(Debug, Clone)]
pub(crate) enum NodeChange {
    /// This one is like this now.
    Applied(Arc<Node>),
    /// There is no node of this name any more.
    Deleted(String),
    /// All nodes were listed.
    Listed,
    /// Another provider has said something about the node of this name that was waited for.
    Requeued(String),
    /// There are other providers than before.
    Reassigned,
}

/// The periodic pass over all initialised nodes (NODE-050).
enum Pass {
    /// Before the first complete list.
    NotYet,
    /// The next one begins then.
    Next(Moment),
    /// These nodes have not had their turn.
    UnderWay(HashSet<String>),
}

impl NodeController {
    /// A controller that acts through `executor` on the cluster's nodes, of which `changes` tells.
    pub(crate) fn new(
        executor: Arc<EffectExecutor>,
        settings: NodeSettings,
        changes: mpsc::UnboundedReceiver<NodeChange>,
    ) -> Self {
        let clock = executor.clock();
        NodeController {
            nodes: executor.cluster.nodes.clone(),
            executor,
            rules: Arc::new(settings.rules.clone()),
            settings,
            changes,
            clock,
            queue: Queue::default(),
            memories: HashMap::new(),
            reconciliations: JoinSet::new(),
            names: HashMap::new(),
            low_priority: 0,
            pass: Pass::NotYet,
            has_passed: false,
        }
    }

    /// Runs until nobody tells it of nodes any more.
    pub(crate) async fn run(&mut self) {
        loop {
            self.begin_pass();
            self.start_reconciliations();
            let timer = self.next_moment().map(|moment| self.clock.instant(moment));
            // In this order, so that the same world gives the same sequence of reconciliations.
            tokio::select! {
                biased;
                ended = self.reconciliations.join_next_with_id(), if !self.reconciliations.is_empty() => {
                    if let Some(ended) = ended {
                        self.conclude(ended);
                    }
                }
                change = self.changes.recv() => match change {
                    Some(change) => self.see(&change),
                    None => return,
                },
                () = wait_until(timer) => {}
            }
        }
    }

    /// Waits for the reconciliations that are being held, and starts no other.
    pub(crate) async fn drain(&mut self) {
        while self.reconciliations.join_next().await.is_some() {}
    }

    /// NODE-002, but only changes that can matter wake a node (EDGE-051).
    fn see(&mut self, change: &NodeChange) {
        match change {
            NodeChange::Applied(node) => self.wake(node),
            NodeChange::Deleted(name) => self.forget(name),
            NodeChange::Listed => {
                let nodes = self.sorted();
                let names: HashSet<&str> = nodes.iter().map(|node| name(node)).collect();
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
            NodeChange::Requeued(name) => {
                if self.memories.contains_key(name) {
                    self.queue.ask(name, self.clock.now(), true);
                }
            }
            NodeChange::Reassigned => {
                for node in self.sorted().iter().filter(|node| is_uninitialized(node)) {
                    if let Some(memory) = self.memories.get_mut(name(node)) {
                        memory.reconsider();
                    }
                    self.wake(node);
                }
            }
        }
    }

    /// There is no such node any more (NODE-010).
    fn forget(&mut self, name: &str) {
        self.memories.remove(name);
        self.executor.planner().gone(&format!("node/{name}"));
        self.leave(name);
    }

    /// Nothing is to be done about this node any more.
    fn leave(&mut self, name: &str) {
        self.queue.forget(name);
        self.passed(name);
    }

    /// All nodes, by name: the same world gives the same order.
    fn sorted(&self) -> Vec<Arc<Node>> {
        let mut nodes = self.nodes.state();
        nodes.sort_unstable_by(|left, right| name(left).cmp(name(right)));
        nodes
    }

    fn wake(&mut self, node: &Node) {
        if !self.executor.ownership().is_concerned(node) {
            if self.memories.remove(name(node)).is_some() {
                self.leave(name(node));
            }
            return;
        }
        let memory = self.memories.entry(name(node).to_owned()).or_default();
        if memory.is_news(node) {
            self.queue
                .ask(name(node), self.clock.now(), is_uninitialized(node));
        }
    }

    fn next_moment(&self) -> Option<Moment> {
        // With no room for another reconciliation, the end of one is what matters.
        let is_full = self.reconciliations.len() >= MOST_CONVERSATIONS;
        let turn = self.queue.next(self.room());
        let turn = turn.filter(|_| !is_full);
        let pass = match self.pass {
            Pass::Next(moment) => Some(moment),
            Pass::NotYet | Pass::UnderWay(_) => None,
        };
        turn.into_iter().chain(pass).min()
    }

    /// NODE-050, NODE-051.
    fn begin_pass(&mut self) {
        let now = self.clock.now();
        match self.pass {
            Pass::Next(moment) if moment <= now => {}
            _ => return,
        }
        let mut known = HashSet::new();
        let ownership = self.executor.ownership();
        let is_due = |node: &&Arc<Node>| !is_uninitialized(node) && ownership.is_concerned(node);
        for node in self.sorted().iter().filter(is_due) {
            let name = name(node).to_owned();
            let memory = self.memories.entry(name.clone()).or_default();
            memory.wants_refresh();
            self.queue.ask(&name, now, false);
            known.insert(name);
        }
        self.pass = Pass::UnderWay(known);
        self.end_pass();
    }

    /// `name` has had its turn in the pass, or needs none any more.
    fn passed(&mut self, name: &str) {
        if let Pass::UnderWay(left) = &mut self.pass {
            left.remove(name);
            self.end_pass();
        }
    }

    /// The next pass is counted from the end of this one.
    fn end_pass(&mut self) {
        if matches!(&self.pass, Pass::UnderWay(left) if left.is_empty()) {
            if !self.has_passed {
                self.has_passed = true;
                self.executor.planner().passed();
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
        while self.reconciliations.len() < MOST_CONVERSATIONS
            && let Some((name, is_urgent)) = self.queue.take(now, self.room())
        {
            self.start(name, is_urgent, now);
        }
    }

    /// Known nodes take half of the room at most, so that a pass over many of them never keeps a new one waiting.
    fn room(&self) -> Capacity {
        match self.low_priority < MOST_CONVERSATIONS / 2 {
            true => Capacity::Any,
            false => Capacity::Urgent,
        }
    }

    fn start(&mut self, name: String, is_urgent: bool, now: Moment) {
        let Some(node) = self.nodes.get(&ObjectRef::new(&name)) else {
            self.queue.finish(&name);
            self.forget(&name);
            return;
        };
        let memory = self.memories.entry(name.clone()).or_default();
        if let Some(caught_up) = memory.waits_for_cache(&node, now) {
            self.queue.ask(&name, caught_up, is_uninitialized(&node));
            self.queue.finish(&name);
            return;
        }
        let facts = memory.facts(node, self.executor.ownership(), self.rules.clone(), now);
        let (executor, clock) = (self.executor.clone(), self.clock);
        let task = self
            .reconciliations
            .spawn(async move { converse(facts, &*executor, clock).await });
        self.low_priority += usize::from(!is_urgent);
        self.names.insert(task.id(), (name, is_urgent));
    }

    fn conclude(&mut self, ended: Result<(Id, Conclusion<Facts>), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some((name, is_urgent)) = self.names.remove(&id) else {
            return;
        };
        self.low_priority -= usize::from(!is_urgent);
        let now = self.clock.now();
        // A node that was deleted meanwhile is not remembered again.
        if let Some(memory) = self.memories.get_mut(&name)
            && let Some(node) =
                memory.conclude(self.executor.name(), &name, ended, now, &mut self.queue)
        {
            self.executor.count_initialised(&node);
        }
        self.queue.finish(&name);
        self.passed(&name);
    }
}

/// Ends at this moment, or never.
pub(crate) async fn wait_until(timer: Option<tokio::time::Instant>) {
    match timer {
        Some(timer) => tokio::time::sleep_until(timer).await,
        None => std::future::pending().await,
    }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
