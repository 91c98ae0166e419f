//! The effect executor. Every write to the cluster and every provider call is made here and nowhere else, so that tests
//! and operators can find, label, refuse, measure and crash each one. It decides nothing except whether an effect may
//! still begin.

mod account_proof;
mod budget_lease;
mod budget_store;
mod cloud;
mod cluster_executor;
mod deferred_events;
mod events;
mod node;
mod other_allocator;
mod request;
mod route;
mod service;

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use ccm_core::audit::Author;
use ccm_core::brake::{Brake, Rise};
use ccm_core::cloud::CloudProvider;
use ccm_core::effect::{Effect, Outcome, ServiceEffect, ServiceOutcome};
use ccm_core::node::object::is_uninitialized;
use ccm_core::node_ownership::OwnershipContext;
use ccm_core::permit::Mode;
use ccm_core::service::Account;
use ccm_core::well_known::FIELD_MANAGER;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::Settings;
use crate::clock::{Clock, boottime, wall};
use crate::cluster::{Cluster, locked};
use crate::lookup_batch::Batch;
use crate::metrics::Metrics;
use crate::plan::Planner;
use cloud::Cloud;
use deferred_events::NodeWrite;
use events::about_service;
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
    pub(crate) fn of(node: &Node) -> Priority {
        if is_uninitialized(node) {
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
    ownership: StdMutex<Arc<OwnershipContext>>,
    cloud: Cloud,
    author: Author,
    new: LaneState,
    known: LaneState,
}

/// Permission of one reconciliation to write. Acquired at the first write and kept until the reconciliation ends, so
/// that nodes finish one after another: with a permit for each write, the first of a thousand nodes would be ready only
/// when the last is half done. Consists of one permit of the provider and one of the cluster.
#[derive(Default)]
pub(crate) struct WritePermit<'a> {
    permits: Option<[SemaphorePermit<'a>; 2]>,
    /// From the first write on.
    counted: Option<NodeWrite<'a>>,
}

struct LaneState {
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
        let cloud = Cloud {
            provider,
            cluster: cluster.clone(),
            call_time: settings.call_time,
        };
        let mut priority = |writes: usize| {
            let cloud = cloud.clone();
            let ask = move |nodes| cloud.clone().find_apart(nodes, false);
            let (look_ups, serving) = Batch::new(ask);
            background.spawn(serving);
            LaneState {
                look_ups,
                writes: Semaphore::new(writes),
            }
        };
        EffectExecutor {
            services: Services::new(cloud.clone(), &settings.service.rules.allowances),
            ownership: StdMutex::new(ownership),
            new: priority(settings.node.concurrent_syncs.get()),
            known: priority(settings.node.status_updates().get()),
            author: Author {
                provider: cloud.provider.name().to_owned(),
                digest: cloud.provider.digest(),
            },
            cloud,
            cluster,
        }
    }

    /// The ownership context: this provider and the other current providers.
    pub(crate) fn ownership(&self) -> Arc<OwnershipContext> {
        locked(&self.ownership).clone()
    }

    /// Replaces the ownership context after the set of providers has changed.
    pub(crate) fn reassign(&self, ownership: Arc<OwnershipContext>) {
        *locked(&self.ownership) = ownership;
    }

    /// The provider's name.
    pub(crate) fn name(&self) -> &str {
        self.cloud.provider.name()
    }

    /// The account (generation) whose answers the provider gives now.
    pub(crate) fn account(&self) -> Account {
        self.services.account()
    }

    /// Records withheld writes in plan mode.
    pub(crate) fn planner(&self) -> &Planner {
        &self.cluster.planner
    }

    /// The clock of decisions and budgets.
    pub(crate) fn clock(&self) -> Clock {
        self.cluster.clock
    }

    /// Records how long `node`, whose taint was just removed, waited for its initialisation.
    pub(crate) fn count_initialised(&self, node: &Node) {
        self.cluster.metrics.initialised(age(node));
    }

    /// The controllers' metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.cluster.metrics
    }

    /// The annotation prefixes that the provider may set.
    pub(crate) fn annotation_prefixes(&self) -> Arc<[String]> {
        self.cloud.provider.annotation_prefixes().into()
    }

    /// Executes one effect for the reconciliation that holds `turn`. Never panics; every failure is part of the
    /// outcome.
    pub(crate) async fn perform<'a>(
        &'a self,
        effect: &Effect,
        controller: &'static str,
        priority: Priority,
        turn: &mut WritePermit<'a>,
    ) -> Outcome {
        if withholds(self.cluster.mode, effect) {
            self.planner().withheld(effect, controller);
            return Outcome::Withheld;
        }
        let priority = match priority {
            Priority::New => (&self.new, &self.cluster.new, &self.cluster.new_nodes),
            Priority::Known => (&self.known, &self.cluster.known, &self.cluster.known_nodes),
        };
        // Whoever decides acts under its own identity, if it has one.
        let client = self.cluster.clients.of(controller);
        let nodes = || Api::all(client.clone());
        // The requests are boxed: thousands of reconciliations wait for a look-up while only a few write, and unboxed
        // each future would be as large as the largest of these.
        match effect {
            Effect::Find(node) => Outcome::Looked(self.find(priority.0, node).await),
            Effect::CastVote(node, word) => self.confer(node, word),
            Effect::ReadNode(node) => Box::pin(node::read(&self.cluster, &nodes(), node)).await,
            Effect::ReadPods(node) => Box::pin(node::read_pods(&self.cluster, client, node)).await,
            Effect::Survey(survey) => Outcome::Surveyed(self.survey(survey).await),
            Effect::TakeBudget(node, brake, rise) => {
                let object = format!("node/{}", node.name);
                Box::pin(self.take(&object, *brake, *rise)).await
            }
            Effect::Hold(node, condition) => {
                self.metrics().held_deletion(condition, self.name());
                let object = format_args!("node/{}", node.name);
                tracing::warn!(controller, %object, condition, "the node's deletion is held");
                Outcome::Recorded
            }
            Effect::DeleteNode(node, deletion) => match self.may_write(priority, turn).await {
                Ok(()) => Box::pin(self.delete(&nodes(), node, deletion)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchNodeStatus(node, patch) => match self.may_write(priority, turn).await {
                Ok(()) => Box::pin(self.patch_status(&nodes(), node, patch)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchNode(node, patch) => match self.may_write(priority, turn).await {
                Ok(()) => Box::pin(self.patch(&nodes(), node, patch)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchPodCidrs(node, patch) => match self.may_write(priority, turn).await {
                Ok(()) => {
                    let nodes = nodes();
                    let patched = node::patch_pod_cidrs(&self.cluster, &nodes, node, patch);
                    Box::pin(patched).await
                }
                Err(outcome) => outcome,
            },
            Effect::PatchNetworkCondition(node, patch) => {
                match self.may_write(priority, turn).await {
                    Ok(()) => Box::pin(self.patch_network_condition(&nodes(), node, patch)).await,
                    Err(outcome) => outcome,
                }
            }
            Effect::RecordNodeEvent(node, event) => {
                // Counted before the node is not any more: an end waits for nodes, and then for Events.
                let _writing = self.cluster.deferred_events.begin();
                // Whoever waits for the permit goes first.
                *turn = WritePermit::default();
                Box::pin(self.cluster.record_node_event(controller, node, event)).await
            }
            Effect::Service(service, ServiceEffect::TakeBudget(brake, rise)) => {
                match Box::pin(self.take(&service.to_string(), *brake, *rise)).await {
                    // The budget lease could not be written.
                    Outcome::Node(Err(error)) => {
                        Outcome::Service(ServiceOutcome::Service(Err(error)))
                    }
                    outcome => outcome,
                }
            }
            Effect::Service(service, ServiceEffect::Vouch(vouching)) => {
                let ownership = self.ownership();
                let vouched = self.services.vouched(service, &ownership, *vouching);
                let vouched = Box::pin(vouched).await;
                Outcome::Service(ServiceOutcome::Vouched(vouched))
            }
            Effect::Service(service, ServiceEffect::RecordEvent(event)) => {
                let about = about_service(service);
                Box::pin(self.cluster.events.record(controller, &about, event)).await
            }
            Effect::Service(service, effect) => {
                Box::pin(self.services.perform(service, effect)).await
            }
            Effect::Route(effect) => Box::pin(self.route(effect)).await,
        }
    }

    async fn take(&self, object: &str, brake: Brake, rise: Rise) -> Outcome {
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
        let budget_store = &self.cluster.budget_store;
        budget_store
            .take(self.name(), object, (brake, rise), objects)
            .await
    }

    /// Acquires the reconciliation's write permit if it has none, then checks that the tenure still allows writes.
    async fn may_write<'a>(
        &self,
        (priority, all, nodes): (&'a LaneState, &'a Semaphore, &'a NodeWrites),
        turn: &mut WritePermit<'a>,
    ) -> Result<(), Outcome> {
        if turn.permits.is_none() {
            turn.counted = Some(nodes.begin());
            // The provider's permit comes first: then only a few reconciliations of each provider wait for the
            // cluster's permit, however many nodes the provider has.
            let (Ok(own), Ok(all)) = (priority.writes.acquire().await, all.acquire().await) else {
                return Err(Outcome::Node(Err(stopping())));
            };
            turn.permits = Some([own, all]);
        }
        if nodes.are_closed() || !self.cluster.tenure.may_begin(boottime()) {
            return Err(Outcome::Node(Err(stopping())));
        }
        Ok(())
    }
}

/// Whether `mode` withholds the effect.
fn withholds(mode: Mode, effect: &Effect) -> bool {
    match mode {
        Mode::Enforce => false,
        Mode::Plan => is_write(effect),
        // Changes at the cloud are not even computed.
        Mode::Observe => is_write(effect) || is_cloud_change(effect),
    }
}

/// Whether the effect changes anything stored by the API server.
fn is_write(effect: &Effect) -> bool {
    match effect {
        Effect::PatchNode(..)
        | Effect::PatchNodeStatus(..)
        | Effect::PatchPodCidrs(..)
        | Effect::PatchNetworkCondition(..)
        | Effect::DeleteNode(..)
        | Effect::RecordNodeEvent(..) => true,
        Effect::Find(_)
        | Effect::Survey(_)
        | Effect::CastVote(..)
        | Effect::ReadNode(_)
        | Effect::ReadPods(_)
        | Effect::TakeBudget(..)
        | Effect::Hold(..)
        | Effect::Route(_) => false,
        Effect::Service(_, effect) => effect.is_write(),
    }
}

fn is_cloud_change(effect: &Effect) -> bool {
    match effect {
        Effect::Service(_, effect) => effect.is_cloud_change(),
        Effect::Route(effect) => effect.is_cloud_change(),
        _ => false,
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
fn age(node: &Node) -> Duration {
    let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = created.map(|created| wall().duration_since(created));
    age.and_then(|age| Duration::try_from(age).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
