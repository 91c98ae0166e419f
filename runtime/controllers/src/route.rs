//! The passes of the route controller: after node changes, at a slow resync, and for retries. One listing at a time,
//! with reconciliations beside it, so that a slow change of one route delays no other. Makes no decision and executes
//! nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::route::ListRoutesReply;
use ccm_core::moment::Moment;
use ccm_core::node::object::PrunedNode;
use ccm_core::reconciliation::conclusion::Conclusion;
use ccm_core::reconciliation::effect::{Decision, Performed, When};
use ccm_core::route::{
    self, About, CarryOver, Facts, Foreign, Key, Memory, Pass, RouteEffect, RouteOutcome, Tally,
};
use ccm_core::settings::RouteSettings;
use ccm_core::well_known::ROUTE_CONTROLLER;
use tokio::sync::mpsc;

use crate::activity::ActivitySubject;
use crate::clock::Clock;
use crate::controller::{Controller, Input, InputOf};
use crate::executor::{EffectExecutor, Priority};
use crate::metrics::{QueueMeter, QueueName};
use crate::node::NodeChange;
use crate::reconcile::{self, ConclusionOf, Severity, Wait, answer_label, log_decision, reconcile};
use crate::workers::Workers;

/// Name of the listing of routes in logs, in plans and on the status page.
const LISTING: &str = "routes";

/// Schedules one provider's route listings and reconciliations.
pub(crate) struct RouteController {
    executor: Arc<EffectExecutor>,
    settings: Arc<RouteSettings>,
    changes: mpsc::UnboundedReceiver<NodeChange>,
    clock: Clock,
    memory: Memory,
    /// The running tasks, each with the key of its reconciliation; `None` for the listing.
    tasks: Workers<Option<Key>, RouteTaskEnd>,
    /// The foreign routes that were logged last.
    logged: Foreign,
    has_listed: bool,
    has_passed: bool,
    /// Counts the passes in upstream's `workqueue_*` metrics.
    meter: QueueMeter,
    /// When the running listing began.
    listing_since: Option<Moment>,
}

/// The result of a task.
pub(crate) enum RouteTaskEnd {
    Listing(Box<Result<ListRoutesReply, ProviderError>>),
    Reconciliation(Box<ConclusionOf<Facts>>),
}

impl RouteController {
    /// Creates a controller that acts through `executor` for the cluster's nodes; `changes` reports their changes.
    pub(crate) fn new(
        executor: Arc<EffectExecutor>,
        settings: RouteSettings,
        changes: mpsc::UnboundedReceiver<NodeChange>,
    ) -> Self {
        let settings = Arc::new(settings);
        let clock = executor.clock();
        let meter = executor.metrics().queues.meter(QueueName::Routes, clock);
        RouteController {
            clock,
            memory: Memory::new(settings.clone()),
            executor,
            settings,
            changes,
            tasks: Workers::new(),
            logged: Foreign::default(),
            has_listed: false,
            has_passed: false,
            meter,
            listing_since: None,
        }
    }

    /// At the limit, only the end of a task frees a slot.
    fn next_moment(&self) -> Option<Moment> {
        match self.has_capacity() {
            true => self.memory.next_moment(),
            false => self.memory.next_listing(),
        }
    }

    fn has_capacity(&self) -> bool {
        let held = self.tasks.keys().flatten().count();
        held < self.settings.concurrent_syncs.get()
    }

    fn begin_pass(&mut self) {
        let now = self.clock.now();
        let Some(due) = self.memory.next_listing().filter(|at| *at <= now) else {
            return;
        };
        self.meter.added(1);
        self.meter.begins(due, now);
        self.listing_since = Some(now);
        let nodes = self.with_pass(|memory, pass| memory.begin(pass));
        self.executor.metrics().passes_routes();
        let executor = self.executor.clone();
        self.tasks
            .spawn(None, async move { ask(nodes, &executor).await });
    }

    fn start_reconciliations(&mut self) {
        let now = self.clock.now();
        while self.memory.has_work(now) && self.has_capacity() {
            let nodes = &self.executor.cluster.nodes;
            let find = |name: &str| nodes.get(name);
            let Some(facts) = self.memory.next(find, now) else {
                return;
            };
            let key = facts.key();
            let facts = Box::new(facts);
            let (executor, clock) = (self.executor.clone(), self.clock);
            self.tasks.spawn(Some(key), async move {
                RouteTaskEnd::Reconciliation(Box::new(reconcile(facts, &*executor, clock).await))
            });
        }
    }

    fn listed(&mut self, answer: &Result<ListRoutesReply, ProviderError>) {
        let when = self.with_pass(|memory, pass| memory.absorb(pass, answer));
        if let Some(began) = self.listing_since.take() {
            self.meter.ends(began, self.clock.now());
        }
        let planner = self.executor.planner();
        let provider = self.executor.name();
        planner.concluded(LISTING, ROUTE_CONTROLLER, provider, &when, false);
        match when {
            When::AwaitChange | When::Blocked { .. } => {
                self.has_listed = true;
                for destination in self.memory.settled() {
                    planner.gone(&format!("route/{destination}"));
                }
                let tally = self.memory.tally();
                self.executor
                    .metrics()
                    .count_routes(self.executor.name(), &tally);
                self.log_foreign_routes();
                self.keep_waiting_entries();
            }
            When::Retry { .. } | When::NotBefore { .. } => self.meter.retries(),
        }
        let wait = Wait {
            about: listing(&self.executor),
            attempt: self.memory.failed_listings().max(1),
            severity: Severity::Failure,
            is_deletion: false,
        };
        wait.report(&when, &self.executor.cluster.activity, self.clock);
    }

    /// Stops reporting objects as waiting of which the listing shows that nothing is left to do: no reconciliation reports
    /// that.
    fn keep_waiting_entries(&self) {
        let open = self.memory.open_subjects(self.clock.now());
        let open: BTreeSet<String> = open.iter().map(object).collect();
        let activity = &self.executor.cluster.activity;
        activity.keep(self.executor.name(), ROUTE_CONTROLLER, |object| {
            open.contains(object)
        });
    }

    /// Logs one line whenever the foreign routes have changed.
    fn log_foreign_routes(&mut self) {
        let foreign = self.memory.foreign();
        if *foreign == self.logged {
            return;
        }
        self.logged = foreign.clone();
        if self.logged.count == 0 {
            return;
        }
        let (controller, provider) = (ROUTE_CONTROLLER, self.executor.name());
        let (count, first) = (foreign.count, foreign.named.join(", "));
        tracing::warn!(
            controller,
            provider,
            count,
            first,
            "routes in the cluster's networks do not lead to nodes and are kept; delete unused ones at the cloud"
        );
    }

    fn report_first_pass(&mut self) {
        if self.has_listed && !self.has_passed && self.memory.is_idle() {
            self.has_passed = true;
            self.executor.passed();
        }
    }

    fn with_pass<T>(&mut self, what: impl FnOnce(&mut Memory, &Pass<'_>) -> T) -> T {
        let nodes = self.executor.cluster.nodes.all();
        let ownership = self.executor.ownership();
        let pass = Pass {
            nodes: &nodes,
            ownership: &ownership,
            generation: self.executor.account().generation,
            now: self.clock.now(),
        };
        what(&mut self.memory, &pass)
    }
}

impl Controller for RouteController {
    type Key = Option<Key>;
    type Ended = RouteTaskEnd;
    type Change = NodeChange;

    fn clock(&self) -> Clock {
        self.clock
    }

    fn start_due(&mut self) -> Option<Moment> {
        self.begin_pass();
        self.start_reconciliations();
        self.report_first_pass();
        self.next_moment()
    }

    async fn input(&mut self) -> Option<InputOf<Self>> {
        tokio::select! {
            biased;
            (key, ended) = self.tasks.next() => Some(Input::Ended(key, ended)),
            change = self.changes.recv() => change.map(Input::Change),
        }
    }

    fn conclude(&mut self, key: Option<Key>, ended: Option<RouteTaskEnd>) {
        match ended {
            Some(RouteTaskEnd::Listing(answer)) => self.listed(&answer),
            Some(RouteTaskEnd::Reconciliation(conclusion)) => {
                let Conclusion {
                    facts, retained, ..
                } = *conclusion;
                self.memory.conclude(&facts, retained, self.clock.now());
            }
            None => {
                tracing::error!(
                    "a reconciliation about routes ended with a panic; this is a defect"
                );
                match key {
                    Some(key) => self.memory.abandon(&key, self.clock.now()),
                    None => {
                        let why = "the listing ended with a panic".to_owned();
                        self.listed(&Err(ProviderError::Internal(why)));
                    }
                }
            }
        }
        if self.memory.is_idle() {
            let tally = self.memory.tally();
            self.executor
                .metrics()
                .count_routes(self.executor.name(), &tally);
        }
    }

    fn see(&mut self, change: NodeChange) {
        let now = self.clock.now();
        match &change {
            NodeChange::Applied(node) => self.memory.see(node, &self.executor.ownership(), now),
            NodeChange::Deleted(name) => {
                self.memory.forget(name, now);
                let activity = &self.executor.cluster.activity;
                activity.left(self.executor.name(), &format!("node/{name}"));
            }
            // Before the first complete list of nodes, a missing node cannot be told from an unread one.
            NodeChange::Reassigned if !self.executor.cluster.knows_all_nodes() => {}
            // The nodes' owners may have changed.
            NodeChange::Listed | NodeChange::Reassigned => {
                self.with_pass(|memory, pass| memory.look_around(pass));
            }
            NodeChange::Requeued(_) => {}
        }
    }

    async fn drain(&mut self) {
        self.tasks.drain().await;
    }
}

/// A successor counts anew, and there may be none: a provider that is removed because its cloud hangs is not drained.
impl Drop for RouteController {
    fn drop(&mut self) {
        let nothing = Tally::default();
        let metrics = self.executor.metrics();
        metrics.count_routes(self.executor.name(), &nothing);
    }
}

async fn ask(nodes: Arc<[Arc<PrunedNode>]>, executor: &EffectExecutor) -> RouteTaskEnd {
    let answer = executor.list_routes(&nodes).await;
    let effect = format!("list routes nodes({})", nodes.len());
    let (activity, outcome) = (&executor.cluster.activity, answer_label(&answer));
    log_decision(activity, listing(executor), effect, outcome, answer.is_ok());
    RouteTaskEnd::Listing(Box::new(answer))
}

fn listing(executor: &EffectExecutor) -> ActivitySubject<'_> {
    ActivitySubject {
        object: LISTING,
        provider: executor.name(),
        controller: ROUTE_CONTROLLER,
    }
}

/// The subject as in logs and on the status page.
fn object(subject: &Key) -> String {
    match subject {
        Key::Node(name) => format!("node/{name}"),
        Key::Destination(destination) => format!("route/{destination}"),
    }
}

impl reconcile::Facts for Facts {
    type Effect = RouteEffect;
    type Retained = CarryOver;

    fn decide(&self, clock: Clock) -> Decision<RouteEffect, (When, CarryOver)> {
        route::decide(self, clock.both())
    }

    fn cut_short(&self, _: &When, clock: Clock) -> CarryOver {
        route::cut_short(self, clock.now())
    }

    fn absorb(&mut self, effect: &RouteEffect, performed: Performed<RouteOutcome>) {
        Facts::absorb(self, effect, performed);
    }

    fn object(&self) -> String {
        object(&self.key())
    }

    fn priority(&self) -> Priority {
        match &self.about {
            About::Node(node) => Priority::of(node),
            About::Destination(_) => Priority::Known,
        }
    }

    fn failures(&self) -> u32 {
        self.failures
    }

    fn is_deletion(&self) -> bool {
        matches!(self.about, About::Destination(_))
    }
}

#[cfg(test)]
mod tests;
