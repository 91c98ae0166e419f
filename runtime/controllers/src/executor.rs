//! The executor of effects. Every write to the cluster and every call of the provider is made here and nowhere else, so
//! that each can be found, labelled, refused, measured and crashed on purpose. Carries effects out;
//! decides nothing but whether it still may.

mod account_proof;
mod budget_lease;
mod budget_store;
mod cloud;
mod cluster_executor;
mod events;
mod node;
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
use ccm_core::ownership::OwnershipContext;
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
use crate::pruned_objects::PrunedNode;
use cloud::Cloud;
use events::{about_node, about_service};
use request::stopping;
use service::Services;

pub use budget_lease::LeaseName;
pub(crate) use budget_store::BudgetStore;
pub(crate) use cluster_executor::ClusterExecutor;
pub(crate) use events::Events;
pub(crate) use request::chain;

/// Which objects an effect is for. Each lane of nodes has its own look-ups and its own bound on writes; of Services no
/// more reconciliations are held at once than may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Nodes that wait for their initialisation.
    New,
    /// All others. Acts about Services look at no lane.
    Known,
}

impl Priority {
    /// New nodes and known ones have queues of their own, so that a pass over all nodes delays no new one.
    pub(crate) fn of(node: &Node) -> Priority {
        if is_uninitialized(node) {
            Priority::New
        } else {
            Priority::Known
        }
    }
}

/// See the module's documentation. Each provider has one of its own.
pub(crate) struct EffectExecutor {
    pub(crate) cluster: Arc<Cluster>,
    nodes: Api<PrunedNode>,
    services: Services,
    ownership: StdMutex<Arc<OwnershipContext>>,
    cloud: Cloud,
    author: Author,
    new: LaneState,
    known: LaneState,
}

/// One reconciliation's turn to write. It is taken at the first write and kept to the end, so that nodes are
/// finished one after another: with a turn for each write, the first of a thousand nodes would be ready when
/// the last one is half done. It is one of the provider's turns, and one of the cluster's.
#[derive(Default)]
pub(crate) struct WritePermit<'a>(Option<[SemaphorePermit<'a>; 2]>);

struct LaneState {
    look_ups: Batch,
    writes: Semaphore,
}

impl EffectExecutor {
    /// An executor of `cluster` for this provider. What it runs in the background goes into `background`.
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
            nodes: Api::all(cluster.client.clone()),
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

    /// The provider on whose behalf the executor acts, and which others there are now.
    pub(crate) fn ownership(&self) -> Arc<OwnershipContext> {
        locked(&self.ownership).clone()
    }

    /// From now on there are other providers beside this one.
    pub(crate) fn reassign(&self, ownership: Arc<OwnershipContext>) {
        *locked(&self.ownership) = ownership;
    }

    /// The provider's name.
    pub(crate) fn name(&self) -> &str {
        self.cloud.provider.name()
    }

    /// Whose answers the provider gives now.
    pub(crate) fn account(&self) -> Account {
        self.services.account()
    }

    /// Where the plan is made, in plan mode.
    pub(crate) fn planner(&self) -> &Planner {
        &self.cluster.planner
    }

    /// The clock of decisions and budgets.
    pub(crate) fn clock(&self) -> Clock {
        self.cluster.clock
    }

    /// Measures how long `node`, which has lost its taint just now, has waited for that.
    pub(crate) fn count_initialised(&self, node: &Node) {
        self.cluster.metrics.initialised(age(node));
    }

    /// What is measured.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.cluster.metrics
    }

    /// The prefixes of the annotations that the provider may set.
    pub(crate) fn annotation_prefixes(&self) -> Arc<[String]> {
        self.cloud.provider.annotation_prefixes().into()
    }

    /// Carries one effect out, in the reconciliation that has this `turn`. Never panics; whatever goes wrong is part
    /// of the outcome.
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
            Priority::New => (&self.new, &self.cluster.new),
            Priority::Known => (&self.known, &self.cluster.known),
        };
        // Requests are boxed: thousands of reconciliations wait for a look-up, a few at a time write, and all of them would
        // be as large as the largest of these futures.
        match effect {
            Effect::Find(node) => Outcome::Looked(self.find(priority.0, node).await),
            Effect::CastVote(node, word) => self.confer(node, word),
            Effect::ReadNode(node) => Box::pin(node::read(&self.cluster, &self.nodes, node)).await,
            Effect::ReadPods(node) => Box::pin(node::read_pods(&self.cluster, node)).await,
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
                Ok(()) => Box::pin(self.delete(node, deletion)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchNodeStatus(node, patch) => match self.may_write(priority, turn).await {
                Ok(()) => Box::pin(self.patch_status(node, patch)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchNode(node, patch) => match self.may_write(priority, turn).await {
                Ok(()) => Box::pin(self.patch(node, patch)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchPodCidrs(node, patch) => match self.may_write(priority, turn).await {
                Ok(()) => {
                    let patched = node::patch_pod_cidrs(&self.cluster, &self.nodes, node, patch);
                    Box::pin(patched).await
                }
                Err(outcome) => outcome,
            },
            Effect::PatchNetworkCondition(node, patch) => {
                match self.may_write(priority, turn).await {
                    Ok(()) => Box::pin(self.patch_network_condition(node, patch)).await,
                    Err(outcome) => outcome,
                }
            }
            Effect::RecordNodeEvent(node, event) => {
                let about = about_node(node, controller);
                Box::pin(self.cluster.events.record(&about, event)).await
            }
            Effect::Service(service, ServiceEffect::TakeBudget(brake, rise)) => {
                match Box::pin(self.take(&service.to_string(), *brake, *rise)).await {
                    // It could not be written down.
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
                Box::pin(self.cluster.events.record(&about, event)).await
            }
            Effect::Service(service, effect) => {
                Box::pin(self.services.perform(service, effect)).await
            }
            Effect::Route(effect) => Box::pin(self.route(effect)).await,
        }
    }

    async fn take(&self, object: &str, brake: Brake, rise: Rise) -> Outcome {
        let objects = || match brake {
            // Of a provider's own nodes; another one's are no reason to delete more of these.
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

    /// Waits for the reconciliation's turn to write, and asks whether it still may when that has come.
    async fn may_write<'a>(
        &self,
        (priority, all): (&'a LaneState, &'a Semaphore),
        turn: &mut WritePermit<'a>,
    ) -> Result<(), Outcome> {
        if turn.0.is_none() {
            // In this order: who waits for the cluster's turn is one of a few, however many nodes his provider has.
            let (Ok(own), Ok(all)) = (priority.writes.acquire().await, all.acquire().await) else {
                return Err(Outcome::Node(Err(stopping())));
            };
            turn.0 = Some([own, all]);
        }
        if !self.cluster.tenure.may_begin(boottime()) {
            return Err(Outcome::Node(Err(stopping())));
        }
        Ok(())
    }
}

/// Whether it is not done in this mode.
fn withholds(mode: Mode, effect: &Effect) -> bool {
    match mode {
        Mode::Enforce => false,
        Mode::Plan => is_write(effect),
        // What would be changed at the cloud is not even worked out.
        Mode::Observe => is_write(effect) || is_cloud_change(effect),
    }
}

/// Whether the API server keeps something of it.
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

/// How long ago the node was created, on the wall's clock; zero when that is in the future.
fn age(node: &Node) -> Duration {
    let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = created.map(|created| wall().duration_since(created));
    age.and_then(|age| Duration::try_from(age).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
