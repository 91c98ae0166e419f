//! The passes of the node lifecycle controller: every `--node-monitor-period` over all known nodes, with look-ups and
//! reconciliations beside them, so that a slow answer about some nodes delays no others (EDGE-007). Makes no decision
//! and executes nothing.

use std::sync::Arc;

use ccm_core::cloud::{FindReply, ProviderError};
use ccm_core::moment::Moment;
use ccm_core::node::object::PrunedNode;
use ccm_core::node_lifecycle::{Facts, Memory, Pass, Survey};
use ccm_core::settings::{LifecycleRules, LifecycleSettings};
use ccm_core::well_known::NODE_LIFECYCLE_CONTROLLER;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::controller::{Controller, Input, InputOf};
use crate::executor::EffectExecutor;
use crate::reconcile::{ConclusionOf, answer_label, reconcile};
use crate::workers::Workers;

/// Runs the passes for one provider.
pub(crate) struct NodeLifecycleController {
    executor: Arc<EffectExecutor>,
    settings: LifecycleSettings,
    rules: Arc<LifecycleRules>,
    clock: Clock,
    memory: Memory,
    /// The running tasks, each with the names of its nodes.
    tasks: Workers<Vec<String>, LifecycleTaskEnd>,
    /// Notified at the end of a list of all nodes. Not `wait_until_ready` of the store: of
    /// several providers' controllers that wait it wakes one.
    listed: Arc<Notify>,
    is_alone: bool,
    /// When the next pass begins; `None` before the complete list. Deviates from LIFE-003: an incomplete list does not
    /// show which nodes exist, and mass deletions are measured against all nodes.
    next_pass: Option<Moment>,
}

/// The cluster's store has all nodes.
pub(crate) struct ListComplete;

/// The result of a task.
pub(crate) enum LifecycleTaskEnd {
    /// An answer and the moment it arrived.
    Survey(Box<(Survey, Result<FindReply, ProviderError>)>, Moment),
    /// A reconciliation of one node.
    Reconciliation(Box<ConclusionOf<Facts>>),
}

impl NodeLifecycleController {
    /// Creates a controller that acts through `executor` on the cluster's nodes, from the first complete list on, of
    /// which `listed` is notified. `is_alone` says that no other controller passes over all nodes of this provider.
    pub(crate) fn new(
        executor: Arc<EffectExecutor>,
        settings: LifecycleSettings,
        listed: Arc<Notify>,
        is_alone: bool,
    ) -> Self {
        NodeLifecycleController {
            clock: executor.clock(),
            executor,
            rules: Arc::new(settings.rules.clone()),
            settings,
            memory: Memory::default(),
            tasks: Workers::new(),
            listed,
            is_alone,
            next_pass: None,
        }
    }

    /// Reports the first pass to the planner if no other controller passes over all nodes.
    fn report_first_pass(&mut self) {
        if self.is_alone && self.tasks.is_empty() {
            self.is_alone = false;
            self.executor.passed();
        }
    }

    /// One pass (LIFE-002), unless it would do nothing: while every node of the provider is Ready, a cluster costs the
    /// same however many nodes it has.
    fn pass(&mut self) {
        // Before the nodes: a change in between is seen by the next pass.
        let cluster = &self.executor.cluster;
        let node_index = cluster.node_index();
        let (version, unready) = (node_index.version(), node_index.unready());
        drop(node_index);
        let unready = unready.iter().filter_map(|name| cluster.nodes.get(name));
        let ownership = self.executor.ownership();
        if self.memory.is_settled(version, unready, &ownership) && self.tasks.is_empty() {
            return;
        }
        let nodes = cluster.nodes.all();
        self.share_lookup_results();
        let surveys = self.with_pass(&nodes, |memory, pass| memory.begin(pass));
        self.keep_waiting_entries();
        self.settle_plan();
        for survey in surveys {
            let names = survey.about.iter().map(|node| node.name().to_owned());
            let names = names.collect();
            let (executor, clock) = (self.executor.clone(), self.clock);
            let task = async move { ask(survey, &executor, clock).await };
            self.tasks.spawn(names, task);
        }
        self.start_reconciliations(&nodes);
    }

    /// Takes over the node controller's look-up results for the same machines.
    fn share_lookup_results(&mut self) {
        let node_index = self.executor.cluster.node_index();
        self.memory
            .share_lookup_results(|name, uid| node_index.found(name, uid));
    }

    /// Stops reporting nodes as waiting that are Ready again, gone or another provider's: no reconciliation reports
    /// that.
    fn keep_waiting_entries(&self) {
        let activity = &self.executor.cluster.activity;
        activity.keep(self.executor.name(), NODE_LIFECYCLE_CONTROLLER, |object| {
            let name = object.strip_prefix("node/");
            name.is_some_and(|name| self.memory.is_concerned(name))
        });
    }

    /// Takes back what is planned for nodes that need nothing any more, and why they could not be judged: no
    /// reconciliation does that. Only what this provider has planned itself: the node may be another one's by now.
    fn settle_plan(&mut self) {
        let planner = self.executor.planner();
        for name in self.memory.take_outdated() {
            let object = format!("node/{name}");
            planner.outdated(&object, NODE_LIFECYCLE_CONTROLLER, self.executor.name());
        }
    }

    fn start_reconciliations(&mut self, nodes: &[Arc<PrunedNode>]) {
        for facts in self.with_pass(nodes, |memory, pass| memory.facts(pass)) {
            let names = vec![facts.node.name().to_owned()];
            let facts = Box::new(facts);
            let (executor, clock) = (self.executor.clone(), self.clock);
            self.tasks.spawn(names, async move {
                LifecycleTaskEnd::Reconciliation(Box::new(
                    reconcile(facts, &*executor, clock).await,
                ))
            });
        }
    }

    fn with_pass<T>(
        &mut self,
        nodes: &[Arc<PrunedNode>],
        what: impl FnOnce(&mut Memory, &Pass<'_>) -> T,
    ) -> T {
        let ownership = self.executor.ownership();
        let pass = Pass {
            nodes,
            ownership: &ownership,
            rules: &self.rules,
            now: self.clock.both(),
        };
        what(&mut self.memory, &pass)
    }
}

async fn ask(survey: Survey, executor: &EffectExecutor, clock: Clock) -> LifecycleTaskEnd {
    let surveyed = executor.survey(&survey).await;
    let (controller, provider, object) = (NODE_LIFECYCLE_CONTROLLER, executor.name(), "nodes");
    tracing::debug!(target: "decision", controller, provider, object, effect = %survey, outcome = %answer_label(&surveyed));
    LifecycleTaskEnd::Survey(Box::new((survey, surveyed)), clock.now())
}

impl Controller for NodeLifecycleController {
    type Key = Vec<String>;
    type Ended = LifecycleTaskEnd;
    type Change = ListComplete;

    fn clock(&self) -> Clock {
        self.clock
    }

    fn start_due(&mut self) -> Option<Moment> {
        // Before the first pass there is nothing to report.
        let due = self.next_pass?;
        let now = self.clock.now();
        if due <= now {
            self.pass();
            self.next_pass = Some(now.after(self.settings.monitor_period));
        }
        self.report_first_pass();
        self.next_pass
    }

    async fn input(&mut self) -> Option<InputOf<Self>> {
        if self.next_pass.is_none() {
            if !self.executor.cluster.knows_all_nodes() {
                self.listed.notified().await;
            }
            return Some(Input::Change(ListComplete));
        }
        let (names, ended) = self.tasks.next().await;
        Some(Input::Ended(names, ended))
    }

    fn conclude(&mut self, names: Vec<String>, ended: Option<LifecycleTaskEnd>) {
        let now = self.clock.now();
        match ended {
            Some(LifecycleTaskEnd::Survey(answered, at)) => {
                let (survey, answer) = *answered;
                self.memory.absorb(&survey, &answer, at);
                let nodes = self.executor.cluster.nodes.all();
                self.share_lookup_results();
                self.start_reconciliations(&nodes);
            }
            Some(LifecycleTaskEnd::Reconciliation(conclusion)) => {
                self.memory
                    .conclude(&conclusion.facts, &conclusion.when, now);
            }
            None => {
                tracing::error!("a pass over NotReady nodes ended with a panic; this is a defect");
                self.memory.abandon(names.iter().map(String::as_str), now);
            }
        }
        self.settle_plan();
    }

    fn see(&mut self, ListComplete: ListComplete) {
        self.next_pass = Some(self.clock.now());
    }

    async fn drain(&mut self) {
        self.tasks.drain().await;
    }
}

#[cfg(test)]
mod tests;
