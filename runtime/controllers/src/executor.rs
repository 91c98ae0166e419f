//! The effect executor. All effects that the controllers decide on, writes to the cluster and provider calls, are performed
//! here, so that tests and operators can find, label, refuse, measure and crash each one. It decides nothing except whether
//! an effect may still begin.

mod account_lookups;
mod budget_lease;
mod budget_store;
mod cloud;
mod cluster_executor;
mod deferred_events;
mod events;
mod node;
mod node_lifecycle;
mod node_requests;
mod other_allocator;
mod request;
mod route;
mod service;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ccm_core::cloud::CloudEvent;
use ccm_core::cloud_provider::CloudProvider;
use ccm_core::node::object::{NodeRef, PrunedNode};
use ccm_core::node::ownership::OwnershipContext;
use ccm_core::reconciliation::effect::{
    BudgetOutcome, ClusterError, Effect, EventOutcome, Modification, Performed,
};
use ccm_core::safety::audit::Author;
use ccm_core::safety::brake::{Brake, Rise, SharedBudget};
use ccm_core::safety::permit::Mode;
use ccm_core::service::Account;
use ccm_core::well_known::FIELD_MANAGER;
use kube::Client;
use kube::api::{Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::Settings;
use crate::clock::{Clock, boottime, wall};
use crate::cluster::Cluster;
use crate::lookup_batch::Batch;
use crate::metrics::Metrics;
use crate::plan::Planner;
use cloud::Cloud;
use deferred_events::NodeWrite;
use request::stopping;
use service::Services;

pub use budget_lease::LeaseName;
pub(crate) use budget_store::BudgetStore;
pub(crate) use cluster_executor::ClusterExecutor;
pub(crate) use deferred_events::{DeferredEvents, NodeWrites};
pub(crate) use events::Events;
pub(crate) use other_allocator::Answer;

/// Scheduling class of an effect. Each class of nodes has its own look-up batch and its own write limit. Services need
/// none: no more of their reconciliations run at once than may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Nodes that are not yet initialised.
    New,
    /// All other nodes. Effects on Services ignore the class.
    Known,
}

impl Priority {
    /// Uninitialised and known nodes have separate queues, so that a pass over all nodes delays no new one.
    pub(crate) fn of(node: &PrunedNode) -> Priority {
        if node.is_uninitialized() {
            Priority::New
        } else {
            Priority::Known
        }
    }
}

/// Executes effects for one provider; each provider has its own.
pub(crate) struct EffectExecutor {
    pub(crate) cluster: Arc<Cluster>,
    services: Services,
    cloud: Cloud,
    author: Author,
    new: ClassState,
    known: ClassState,
    /// Number of the controllers that have not finished their first pass.
    passes_left: AtomicUsize,
    /// Whether the provider's controllers were told to stop.
    is_leaving: AtomicBool,
}

/// Permission of one reconciliation to write. Acquired at the first write and kept until the reconciliation ends, so
/// that nodes finish one after another: with a permit for each write, the first of a thousand nodes would be ready only
/// when the last is half done. Consists of one permit of the provider and one of the cluster.
#[derive(Default)]
pub(crate) struct WritePermit<'a> {
    permits: Option<[SemaphorePermit<'a>; 2]>,
    /// Counts the node as being written, from the first write on.
    counted: Option<NodeWrite<'a>>,
}

struct ClassState {
    look_ups: Batch,
    writes: Semaphore,
}

impl EffectExecutor {
    /// Creates an executor for `provider` in `cluster`. Its background tasks are spawned into `background`.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        provider: Arc<dyn CloudProvider>,
        ownership: Arc<OwnershipContext>,
        settings: &Settings,
        background: &mut JoinSet<()>,
    ) -> EffectExecutor {
        let brake = Brake::CloudMutations;
        let allowance = settings.allowances.of(brake);
        let window = allowance.window;
        let ownership = Arc::new(Mutex::new(ownership));
        let count = {
            let (cluster, ownership) = (cluster.clone(), ownership.clone());
            let name = provider.name().to_owned();
            move || {
                let ownership = ownership.lock().clone();
                let services = cluster.service_index().served_by(&name).own;
                cluster.machines(&ownership).own.saturating_add(services)
            }
        };
        let cloud = Cloud {
            provider,
            cluster: cluster.clone(),
            ownership,
            call_time: settings.call_time,
            budget: Arc::new(SharedBudget::new(brake, allowance, count)),
            has_left: Arc::default(),
        };
        cloud.show_budget(window);
        let mut priority = |writes: usize| {
            let cloud = cloud.clone();
            let ask = move |nodes| cloud.clone().find_apart(nodes, false);
            let (look_ups, serving) = Batch::new(ask);
            background.spawn(serving);
            ClassState {
                look_ups,
                writes: Semaphore::new(writes),
            }
        };
        EffectExecutor {
            services: Services::new(cloud.clone()),
            new: priority(settings.node.concurrent_syncs.get()),
            known: priority(settings.node.status_updates().get()),
            author: Author {
                provider: cloud.provider.name().to_owned(),
                digest: cloud.provider.digest(),
            },
            cloud,
            cluster,
            passes_left: AtomicUsize::new(0),
            is_leaving: AtomicBool::new(false),
        }
    }

    /// The ownership context: this provider and the other current providers.
    pub(crate) fn ownership(&self) -> Arc<OwnershipContext> {
        self.cloud.ownership.lock().clone()
    }

    /// Replaces the ownership context after the set of providers has changed.
    pub(crate) fn reassign(&self, ownership: Arc<OwnershipContext>) {
        *self.cloud.ownership.lock() = ownership;
    }

    /// The provider's name in the configuration.
    pub(crate) fn name(&self) -> &str {
        self.cloud.provider.name()
    }

    /// The account (generation) whose answers the provider gives now.
    pub(crate) fn account(&self) -> Account {
        self.services.account()
    }

    /// Announces the first passes of this many controllers.
    pub(crate) fn expect_passes(&self, passes: usize) {
        self.passes_left.store(passes, Ordering::Release);
        self.planner().expect_passes(passes);
    }

    /// A controller has finished its first pass.
    pub(crate) fn passed(&self) {
        let left = |left: usize| left.checked_sub(1);
        let before = self
            .passes_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, left);
        if before.is_ok() {
            self.planner().end_passes(1);
        }
    }

    /// Takes the number of first passes that are not finished: the controllers end, and their passes do not count.
    pub(crate) fn take_passes(&self) -> usize {
        self.passes_left.swap(0, Ordering::AcqRel)
    }

    /// Records withheld writes in plan mode.
    pub(crate) fn planner(&self) -> &Planner {
        &self.cluster.planner
    }

    /// The controllers end: what the provider still answers about nodes without an owner does not count any more.
    pub(crate) fn leave(&self) {
        // Before the votes are withdrawn under the lock that each vote takes.
        self.is_leaving.store(true, Ordering::Release);
        self.cluster.leave(self.name());
    }

    /// The controllers have ended. What they were told and recorded after [`EffectExecutor::leave`] goes with them: until
    /// now their last answers had to be known, because two nodes of one answer may have the same machine.
    pub(crate) fn ended(&self) {
        if self.is_leaving.load(Ordering::Acquire) {
            // Before the answers are withdrawn under the lock that each answer takes.
            self.cloud.has_left.store(true, Ordering::Release);
            self.cluster.withdraw(self.name());
        }
    }

    /// The clock of decisions and budgets.
    pub(crate) fn clock(&self) -> Clock {
        self.cluster.clock
    }

    /// Records how long `node`, whose taint was just removed, waited for its initialisation.
    pub(crate) fn count_initialised(&self, node: &PrunedNode) {
        self.cluster.metrics.initialised(age(node));
    }

    /// The controllers' metrics, shared by all providers.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.cluster.metrics
    }

    /// The annotation prefixes that the provider may set.
    pub(crate) fn annotation_prefixes(&self) -> Arc<[String]> {
        self.cloud.provider.annotation_prefixes().into()
    }

    /// The client of `controller`: its own identity, if it has one.
    fn client(&self, controller: &str) -> &Client {
        self.cluster.clients.of(controller)
    }

    /// Takes one change of `object` from a budget.
    async fn take<T: Display + Sync>(&self, object: &T, brake: Brake, rise: Rise) -> BudgetOutcome {
        let objects = || match brake {
            // Counts only the provider's own nodes; the nodes of others must not enlarge its deletion budget.
            Brake::NodeDeletion
            | Brake::ShutdownTaint
            | Brake::InternalIp
            | Brake::Relabel
            | Brake::RouteDeletion
            | Brake::CloudMutations => self.cluster.machines(&self.ownership()),
            Brake::LoadBalancerDeletion | Brake::StatusClear => {
                self.cluster.service_index().served_by(self.name())
            }
        };
        let (budget_store, object) = (&self.cluster.budget_store, object.to_string());
        let taken = budget_store.take(self.name(), &object, (brake, rise), objects);
        taken.await
    }

    /// Records an Event about a node.
    async fn record_node_event(
        &self,
        controller: &'static str,
        (node, event): (&NodeRef, &CloudEvent),
        turn: &mut WritePermit<'_>,
    ) -> EventOutcome {
        // Counted before the node is not counted any more: shutdown waits for nodes, and then for Events.
        let _writing = self.cluster.deferred_events.begin();
        // Reconciliations that wait for the permit go first.
        *turn = WritePermit::default();
        Box::pin(self.cluster.record_node_event(controller, node, event)).await
    }

    /// Performs a write to a node when the reconciliation may write. The request is boxed, and made only then:
    /// thousands of reconciliations wait for a look-up while only a few write, and each future would otherwise be as
    /// large as the largest request.
    async fn write<'a, T, F: Future<Output = Result<T, ClusterError>>>(
        &'a self,
        priority: Priority,
        turn: &mut WritePermit<'a>,
        request: impl FnOnce() -> F,
    ) -> Result<T, ClusterError> {
        self.may_write(priority, turn).await?;
        Box::pin(request()).await
    }

    /// Acquires the reconciliation's write permit if it has none, then checks that the tenure still allows writes.
    async fn may_write<'a>(
        &'a self,
        priority: Priority,
        turn: &mut WritePermit<'a>,
    ) -> Result<(), ClusterError> {
        let cluster = &*self.cluster;
        let (all, nodes) = match priority {
            Priority::New => (&cluster.new, &cluster.new_nodes),
            Priority::Known => (&cluster.known, &cluster.known_nodes),
        };
        if turn.permits.is_none() {
            turn.counted = Some(nodes.begin());
            // The provider's permit comes first: then only a few reconciliations of each provider wait for the
            // cluster's permit, however many nodes the provider has.
            let own = self.class(priority).writes.acquire().await;
            let (Ok(own), Ok(all)) = (own, all.acquire().await) else {
                return Err(stopping());
            };
            turn.permits = Some([own, all]);
        }
        if nodes.are_closed() || !cluster.tenure.may_begin(boottime()) {
            return Err(stopping());
        }
        Ok(())
    }

    fn class(&self, priority: Priority) -> &ClassState {
        match priority {
            Priority::New => &self.new,
            Priority::Known => &self.known,
        }
    }
}

impl Executor for EffectExecutor {
    fn name(&self) -> &str {
        EffectExecutor::name(self)
    }

    fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

/// Executes effects, for a provider or for the cluster.
pub(crate) trait Executor: Send + Sync {
    /// The provider's name, for logs.
    fn name(&self) -> &str;
    /// The cluster that it acts on.
    fn cluster(&self) -> &Cluster;
}

/// Executes one controller's effects.
pub(crate) trait Perform<E: Effect>: Executor {
    /// Executes one effect, which the mode permits, for the reconciliation that holds `turn`. Never panics; every
    /// failure is part of the outcome.
    fn carry_out<'a>(
        &'a self,
        effect: &E,
        priority: Priority,
        turn: &mut WritePermit<'a>,
    ) -> impl Future<Output = Performed<E::Outcome>> + Send;
}

/// Executes one effect for the reconciliation that holds `turn`, unless the mode withholds it.
pub(crate) async fn perform<'a, E: Effect, P: Perform<E>>(
    executor: &'a P,
    effect: &E,
    priority: Priority,
    turn: &mut WritePermit<'a>,
) -> Performed<E::Outcome> {
    let cluster = executor.cluster();
    if withholds(cluster.mode, &effect.modification()) {
        cluster.planner.withheld(effect, executor.name());
        return Performed::Withheld;
    }
    executor.carry_out(effect, priority, turn).await
}

/// Whether `mode` withholds the effect.
fn withholds(mode: Mode, modification: &Modification<'_>) -> bool {
    let is_write = matches!(modification, Modification::Event | Modification::Object(_));
    match mode {
        Mode::Enforce => false,
        Mode::Plan => is_write,
        // Observe mode does not even compute changes at the cloud.
        Mode::Observe => is_write || matches!(modification, Modification::Cloud),
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn strategic(body: Value) -> Patch<Value> {
    Patch::Strategic(body)
}

/// The node's age by wall clock; zero if its creation time lies in the future.
fn age(node: &PrunedNode) -> Duration {
    let age = node.created().map(|created| wall().duration_since(created));
    age.and_then(|age| Duration::try_from(age).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
