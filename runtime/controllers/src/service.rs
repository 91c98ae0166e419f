//! The service controller's scheduling: which Services wake, the facts of each reconciliation, and when it runs again.
//! Makes no decision about a Service and executes nothing.
//!
//! One queue serves all causes, with one reconciliation per name at a time, so that no two act on one load balancer
//! (EDGE-061). No more reconciliations run than may write; one that waits for a cloud to finish has ended and takes no
//! slot.

mod nodes;
mod service_index;
mod slots;
mod watch_events;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ccm_core::moment::Moment;
use ccm_core::reconciliation::conclusion::{Conclusion, Next};
use ccm_core::service::{Claims, Facts, NameSlot, Targets, World};
use ccm_core::settings::{ServiceRules, ServiceSettings};
use ccm_core::well_known::SERVICE_CONTROLLER;
use k8s_openapi::api::core::v1::Service;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::controller::{Controller, Input, InputOf};
use crate::executor::EffectExecutor;
use crate::metrics::{QueueMeter, QueueName};
use crate::queue::{Capacity, Queue};
use crate::reconcile::{ConclusionOf, Facts as _, reconcile};
use crate::workers::Workers;

use nodes::Pass;
pub(crate) use nodes::{NodeChangeFilter, NodeSet, node_changes};
pub(crate) use service_index::ServiceIndex;
pub(crate) use watch_events::{ServiceChange, ServiceChangeFilter};

/// Number of corrected edits after which the log asks for a second controller.
const MANY_CORRECTIONS: u32 = 5;

/// Schedules the reconciliations of one provider's Services.
pub(crate) struct ServiceController {
    executor: Arc<EffectExecutor>,
    settings: ServiceSettings,
    world: Arc<World>,
    changes: mpsc::UnboundedReceiver<ServiceChange>,
    nodes: NodeSet,
    clock: Clock,
    queue: Queue,
    /// Counts the passes over nodes in upstream's `workqueue_*` metrics.
    node_meter: QueueMeter,
    /// The Services by `namespace/name`, without those that never had to do with a load balancer, and those in `others`.
    slots: BTreeMap<String, NameSlot>,
    /// The Services of other providers, as last seen.
    others: BTreeMap<String, Arc<Service>>,
    /// Whether all Services were listed once.
    is_listed: bool,
    reconciliations: Workers<Running, ConclusionOf<Facts>>,
    /// Number of running reconciliations that are not urgent.
    low_priority: usize,
    pass: Option<Pass>,
    /// Services present at the start and not reconciled yet.
    first: Option<HashSet<String>>,
}

/// A change that the controller is notified of.
pub(crate) enum Change {
    Services(ServiceChange),
    /// The nodes that receive traffic may have changed.
    Nodes,
}

/// The subject of a running reconciliation.
pub(crate) struct Running {
    key: String,
    uid: String,
    is_urgent: bool,
    began: Moment,
}

impl ServiceController {
    /// Creates a controller that acts through `executor` on the Services in `changes`; `claims` assigns Services to
    /// providers.
    pub(crate) fn new(
        executor: Arc<EffectExecutor>,
        settings: ServiceSettings,
        rules: ServiceRules,
        claims: Arc<Claims>,
        changes: mpsc::UnboundedReceiver<ServiceChange>,
        nodes: NodeSet,
    ) -> Self {
        let rules = Arc::new(rules);
        let (clock, queues) = (executor.clock(), &executor.metrics().queues);
        let queue = Queue::new(queues.meter(QueueName::Services, clock));
        let node_meter = queues.meter(QueueName::ServiceNodes, clock);
        let (ownership, mode) = (executor.ownership(), executor.cluster.mode);
        let world =
            World::new(ownership, executor.annotation_prefixes(), rules, mode).among(claims);
        ServiceController {
            clock,
            executor,
            settings,
            world: Arc::new(world),
            changes,
            nodes,
            queue,
            node_meter,
            slots: BTreeMap::new(),
            others: BTreeMap::new(),
            is_listed: false,
            reconciliations: Workers::new(),
            low_priority: 0,
            pass: None,
            first: None,
        }
    }

    /// SVC-008: nothing starts before all Services and all nodes are known.
    fn is_ready(&self) -> bool {
        self.is_listed && self.nodes.is_complete()
    }

    fn next_moment(&self) -> Option<Moment> {
        if !self.is_ready() {
            return None;
        }
        // At the limit, only the end of a reconciliation frees a slot.
        let turn = self
            .capacity()
            .and_then(|capacity| self.queue.next(capacity));
        turn.into_iter().chain(self.nodes.pass_at()).min()
    }

    /// SVC-065, EDGE-060: one pass for many changes, only over Services whose provider knows other targets.
    fn begin_pass(&mut self) {
        let now = self.clock.now();
        let due = self.nodes.pass_at().filter(|at| *at <= now);
        let Some(due) = due.filter(|_| self.is_ready()) else {
            return;
        };
        self.node_meter.added(1);
        self.node_meter.begins(due, now);
        self.nodes.settle();
        let mut left = HashSet::new();
        let is_own = |slot: &NameSlot| {
            let current = slot.current.as_ref();
            current.is_some_and(|memory| self.world.owns(&memory.service))
        };
        if self.reconciliations.is_empty() && !self.slots.values().any(is_own) {
            self.nodes.forget_targets();
        } else {
            let targets = &self.nodes.targets_for_pass();
            // A running reconciliation may have used older targets.
            let running: HashSet<&str> = self.reconciliations.keys().map(|one| &*one.key).collect();
            for (key, slot) in &self.slots {
                let current = slot.current.as_ref();
                let wants = current.is_some_and(|one| one.wants_targets(targets, &self.world));
                if wants || running.contains(key.as_str()) {
                    self.queue.ask(key, now, false);
                    left.insert(key.clone());
                }
            }
        }
        if let Some(before) = &self.pass {
            self.node_meter.ends(before.began, now);
        }
        self.pass = Some(Pass::begin(now, left, self.pass.take()));
        self.end_pass();
    }

    /// Removes `key` from the pass, once reconciled since `began`.
    fn passed(&mut self, key: &str, began: Moment) {
        if let Some(pass) = &mut self.pass
            && pass.removes(key, began)
        {
            self.end_pass();
        }
        if let Some(first) = &mut self.first
            && first.remove(key)
        {
            self.report_first_pass();
        }
    }

    fn end_pass(&mut self) {
        if let Some(pass) = self.pass.take_if(|pass| pass.left.is_empty()) {
            let now = self.clock.now();
            let took = pass.since.until(now);
            self.node_meter.ends(pass.began, now);
            self.executor.metrics().passed_nodes(took);
        }
    }

    fn report_first_pass(&mut self) {
        if self.first.take_if(|first| first.is_empty()).is_some() {
            self.executor.passed();
        }
    }

    fn start_reconciliations(&mut self) {
        if !self.is_ready() {
            return;
        }
        let now = self.clock.now();
        while let Some(capacity) = self.capacity()
            && let Some((key, is_urgent)) = self.queue.take(now, capacity)
        {
            self.start(key, is_urgent, now);
        }
    }

    /// Which turns may start. Passes take at most three quarters of the slots, so that a new Service never waits for
    /// them; so do changed Services, so that hundreds of new ones at a cloud that does not answer cannot keep deleted
    /// nodes in the load balancers of the others.
    fn capacity(&self) -> Option<Capacity> {
        let all = self.settings.concurrent_syncs.get();
        if self.reconciliations.len() >= all {
            return None;
        }
        let most = all - all / 4;
        Some(match self.low_priority < most {
            true if self.reconciliations.len() - self.low_priority < most => Capacity::Any,
            true => Capacity::LowPriority,
            false => Capacity::Urgent,
        })
    }

    fn start(&mut self, key: String, is_urgent: bool, now: Moment) {
        let slot = self.slots.get_mut(&key);
        let next_at = slot.as_ref().and_then(|slot| slot.next_at());
        let Some(memory) = slot.and_then(|slot| slot.first(now)) else {
            self.queue.finish(&key, now);
            self.passed(&key, now);
            return;
        };
        let uid = memory.uid().to_owned();
        let holder = self.executor.cluster.service_index().holder(&uid);
        let unknown = Targets::unknown();
        let is_holder = holder.as_deref() == Some(self.executor.name());
        let targets = match is_holder || self.world.owns(&memory.service) {
            true => self.nodes.targets_for(is_urgent || self.pass.is_none()),
            // It gets no request with targets.
            false => &unknown,
        };
        if !memory.wants_turn(targets, &self.world, now) {
            if let Some(at) = next_at {
                self.queue.ask(&key, at, false);
            }
            self.queue.finish(&key, now);
            self.passed(&key, now);
            return;
        }
        let (world, targets) = (self.world.clone(), targets.clone());
        let account = self.executor.account();
        let corrections = memory.corrections();
        let facts = Box::new(memory.facts(world, targets, account, holder, now));
        if corrections < MANY_CORRECTIONS && memory.corrections() >= MANY_CORRECTIONS {
            tracing::warn!(
                service = key,
                "another client keeps changing status, finalizer, owner or an annotation of the provider, which is corrected at growing intervals: is there a second controller for load balancers, or a tool that sets the Service back?"
            );
        }
        let (executor, clock) = (self.executor.clone(), self.clock);
        let task = async move { reconcile(facts, &*executor, clock).await };
        self.low_priority += usize::from(!is_urgent);
        let running = Running {
            key,
            uid,
            is_urgent,
            began: now,
        };
        self.reconciliations.spawn(running, task);
    }
}

/// The Service as `namespace/name`.
pub(crate) fn key(service: &Service) -> String {
    let metadata = &service.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    format!("{namespace}/{name}")
}

impl Controller for ServiceController {
    type Key = Running;
    type Ended = ConclusionOf<Facts>;
    type Change = Change;

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
            (running, ended) = self.reconciliations.next() => Some(Input::Ended(running, ended)),
            change = self.changes.recv() => change.map(|change| Input::Change(Change::Services(change))),
            () = self.nodes.changed() => Some(Input::Change(Change::Nodes)),
        }
    }

    fn conclude(&mut self, running: Running, ended: Option<ConclusionOf<Facts>>) {
        let now = self.clock.now();
        let Running {
            key,
            uid,
            is_urgent,
            began,
        } = running;
        self.low_priority -= usize::from(!is_urgent);
        let is_anothers = ended
            .as_ref()
            .is_some_and(|conclusion| conclusion.facts.is_anothers());
        if ended.as_ref().is_none_or(Conclusion::is_retried) {
            self.queue.retries();
        }
        let slot = self.slots.entry(key.clone()).or_default();
        let next = slot.with_uid(&uid).and_then(|memory| match ended {
            Some(conclusion) => {
                let next = memory.conclude(conclusion, now, self.settings.drift_check);
                memory.share_targets(self.nodes.shared());
                next
            }
            None => {
                tracing::error!(
                    service = key,
                    "a reconciliation ended with a panic; this is a defect"
                );
                Some(memory.abandon(now))
            }
        });
        // A failed Service loses its urgency: hundreds of new Services at an unreachable cloud must not keep deleted
        // nodes in all load balancers.
        let is_urgent = is_urgent
            && slot
                .with_uid(&uid)
                .is_none_or(|memory| !memory.has_failed());
        let is_retried = slot.with_uid(&uid).is_some_and(|memory| memory.is_due());
        match next {
            Some(Next::At(at)) => self.queue.ask(&key, at, is_urgent && is_retried),
            Some(Next::OnChange) => {}
            // Other Services of this name do not wait for it.
            Some(Next::NotBefore(at)) => self.queue.ask(&key, at, is_urgent),
            None => {
                slot.release(&uid);
                let cluster = &self.executor.cluster;
                cluster.remove_gone_service(self.executor.name(), &uid);
                // Another Service may have taken the name meanwhile.
                self.queue.ask(&key, now, true);
            }
        }
        // Other Services of this name do not wait for the failed one.
        if !slot.orphans.is_empty() {
            let is_waiting = slot
                .current
                .as_mut()
                .is_some_and(|memory| memory.wants_turn(self.nodes.targets(), &self.world, now));
            if is_waiting {
                self.queue.ask(&key, now, true);
            } else if let Some(at) = slot.next_at() {
                self.queue.ask(&key, at, is_urgent && is_retried);
            }
        }
        let is_left = self.let_go(&key);
        let is_gone = self.forget_if_empty(&key);
        if is_gone && !is_left && !is_anothers {
            let (planner, object) = (self.executor.planner(), format!("service/{key}"));
            match self.others.contains_key(&key) {
                // Another provider has a Service of that name.
                true => planner.outdated(&object, SERVICE_CONTROLLER, self.executor.name()),
                false => planner.gone(&object),
            }
        }
        self.queue.finish(&key, now);
        // What is gone gets no other turn.
        self.passed(&key, if is_gone { now } else { began });
    }

    fn see(&mut self, change: Change) {
        match change {
            Change::Services(change) => self.see_services(change),
            Change::Nodes => self.nodes.unsettle(self.clock.now()),
        }
    }

    async fn drain(&mut self) {
        self.reconciliations.drain().await;
    }
}

#[cfg(test)]
mod tests;
