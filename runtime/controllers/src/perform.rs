//! THE DOOR. Every write to the cluster and every call of the provider is made here and nowhere else, so
//! that each can be found, labelled, refused, measured and crashed on purpose. Carries effects out;
//! decides nothing but whether it still may.

mod cloud;
mod events;
mod ledger;
mod purse;
mod request;

use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccm_core::audit::{Author, Deletion, Subject};
use ccm_core::cloud::{CloudEvent, CloudProvider, FindReply, Lookup, ProviderError};
use ccm_core::cloud_node::cloud_node;
use ccm_core::effect::{ClusterError, Effect, Looked, NodeDeletion, NodeRef, Outcome};
use ccm_core::names::FIELD_MANAGER;
use ccm_core::neighbours::Neighbours;
use ccm_core::node::is_uninitialized;
use ccm_core::node_lifecycle::Survey;
use ccm_core::ownership::Claimant;
use ccm_core::patch::{NodePatch, NodeStatusPatch};
use ccm_core::permit::Mode;
use ccm_core::tenure::Tenure;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::Settings;
use crate::batch::Batch;
use crate::clock::{Clock, boottime, wall};
use crate::metrics::Metrics;
use crate::plan::Planner;
use crate::pruned::PrunedNode;
use cloud::Cloud;
use events::{Recorded, Recorder};
use ledger::Ledger;
use purse::{Owner, Purse};
use request::{stopping, unwrapped};

pub use ledger::LeaseName;
pub(crate) use request::{chain, in_time};

/// Nodes are not namespaced; their Events live here (client-go does the same).
const EVENT_NAMESPACE: &str = "default";

/// Which nodes an effect is for. Each lane has its own look-ups and its own bound on writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Nodes that wait for their initialisation.
    New,
    /// All others.
    Known,
}

impl Lane {
    /// New nodes and known ones have queues of their own, so that a pass over all nodes delays no new one.
    pub(crate) fn of(node: &Node) -> Lane {
        if is_uninitialized(node) {
            Lane::New
        } else {
            Lane::Known
        }
    }
}

/// See the module's documentation.
pub(crate) struct Door {
    nodes: Api<PrunedNode>,
    events: Api<Event>,
    recorder: Mutex<Recorder>,
    claimant: Arc<Claimant>,
    neighbours: Arc<StdMutex<Neighbours>>,
    purse: Purse,
    cloud: Cloud,
    planner: Arc<Planner>,
    author: Author,
    clock: Clock,
    mode: Mode,
    tenure: Arc<Tenure>,
    metrics: Metrics,
    new: LaneState,
    known: LaneState,
}

/// One conversation's turn to write. It is taken at the first write and kept to the end, so that nodes are
/// finished one after another: with a turn for each write, the first of a thousand nodes would be ready when
/// the last one is half done.
#[derive(Default)]
pub(crate) struct Turn<'a>(Option<SemaphorePermit<'a>>);

struct LaneState {
    look_ups: Batch,
    writes: Semaphore,
}

impl Door {
    /// A door to this cluster and this provider. What it runs in the background goes into `background`.
    pub(crate) fn new(
        client: Client,
        provider: Arc<dyn CloudProvider>,
        settings: Settings,
        metrics: Metrics,
        background: &mut JoinSet<()>,
    ) -> Door {
        let neighbours: Arc<StdMutex<Neighbours>> = Arc::default();
        let clock = Clock::start(settings.pace);
        let planner = Arc::new(Planner::new(
            settings.plan.clone(),
            settings.mode,
            settings.audit.clone(),
            metrics.clone(),
        ));
        let cloud = Cloud {
            provider: provider.clone(),
            neighbours: neighbours.clone(),
            mode: settings.mode,
            planner: planner.clone(),
            call_time: settings.call_time,
            clock,
            tenure: settings.tenure.clone(),
        };
        let mut lane = |writes: usize| {
            let cloud = cloud.clone();
            let ask = move |nodes| cloud.clone().find_apart(nodes, false);
            let (look_ups, serving) = Batch::new(ask);
            background.spawn(serving);
            LaneState {
                look_ups,
                writes: Semaphore::new(writes),
            }
        };
        let ledger = Ledger::new(client.clone(), settings.ledger, settings.tenure.clone());
        let owner = Owner {
            neighbours: neighbours.clone(),
            schemes: provider.schemes().to_vec(),
            clock,
            mode: settings.mode,
            tenure: settings.tenure.clone(),
            metrics: metrics.clone(),
        };
        let purse = Purse::new(&settings.node.rules.allowances, ledger, owner);
        Door {
            nodes: Api::all(client.clone()),
            events: Api::namespaced(client, EVENT_NAMESPACE),
            recorder: Mutex::default(),
            claimant: Arc::new(Claimant {
                name: provider.name().to_owned(),
                schemes: provider.schemes().to_vec(),
            }),
            neighbours: neighbours.clone(),
            purse,
            clock,
            mode: settings.mode,
            tenure: settings.tenure.clone(),
            metrics,
            new: lane(settings.node.concurrent_syncs.get()),
            known: lane(settings.node.status_updates().get()),
            author: Author {
                provider: cloud.provider.name().to_owned(),
                digest: cloud.provider.digest(),
            },
            cloud: cloud.clone(),
            planner,
        }
    }

    /// The provider on whose behalf the door acts.
    pub(crate) fn claimant(&self) -> Arc<Claimant> {
        self.claimant.clone()
    }

    /// Where the plan is made, in plan mode.
    pub(crate) fn planner(&self) -> Arc<Planner> {
        self.planner.clone()
    }

    /// The clock of decisions and budgets.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Measures how long `node`, which has lost its taint just now, has waited for that.
    pub(crate) fn count_initialised(&self, node: &Node) {
        self.metrics.initialised(age(node));
    }

    /// What is known of all nodes together. Whoever watches them keeps it true.
    pub(crate) fn neighbours(&self) -> MutexGuard<'_, Neighbours> {
        locked(&self.neighbours)
    }

    /// Carries one effect out, in the conversation that has this `turn`. Never panics; whatever goes wrong is part
    /// of the outcome.
    pub(crate) async fn perform<'a>(
        &'a self,
        effect: &Effect,
        controller: &'static str,
        lane: Lane,
        turn: &mut Turn<'a>,
    ) -> Outcome {
        let lane = match lane {
            Lane::New => &self.new,
            Lane::Known => &self.known,
        };
        if self.mode != Mode::Enforce && is_write(effect) {
            self.planner.withheld(effect, controller);
            return Outcome::Withheld;
        }
        // Requests are boxed: thousands of conversations wait for a look-up, a few at a time write, and all of them would
        // be as large as the largest of these futures.
        match effect {
            Effect::Find(node) => Outcome::Looked(self.find(lane, node).await),
            Effect::ReadNode(node) => Box::pin(self.read(node)).await,
            Effect::Survey(survey) => Outcome::Surveyed(self.survey(survey).await),
            Effect::TakeBudget(node, brake) => Box::pin(self.purse.take(node, *brake)).await,
            Effect::Hold(node, condition) => {
                self.metrics.held_deletion(condition);
                let object = format_args!("node/{}", node.name);
                tracing::warn!(controller, %object, condition, "the node's deletion is held");
                Outcome::Recorded
            }
            Effect::DeleteNode(node, deletion) => match self.may_write(lane, turn).await {
                Ok(()) => Box::pin(self.delete(node, deletion)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchNodeStatus(node, patch) => match self.may_write(lane, turn).await {
                Ok(()) => Box::pin(self.patch_status(node, patch)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchNode(node, patch) => match self.may_write(lane, turn).await {
                Ok(()) => Box::pin(self.patch(node, patch)).await,
                Err(outcome) => outcome,
            },
            Effect::RecordNodeEvent(node, event) => {
                Box::pin(self.record(node, event, controller)).await;
                Outcome::Recorded
            }
        }
    }

    async fn find(&self, lane: &LaneState, node: &Arc<Node>) -> Result<Looked, ProviderError> {
        let mut looked = lane.look_ups.find(node.clone()).await?;
        if let Lookup::Found(instance) = &looked.lookup {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            looked.clashes = self.neighbours().clashes(name, instance);
        }
        Ok(looked)
    }

    /// Asks about many nodes at once, without waiting for company.
    async fn survey(&self, survey: &Survey) -> Result<FindReply, ProviderError> {
        let nodes = survey.nodes().map(|node| cloud_node(node)).collect();
        self.cloud.clone().find_apart(nodes, survey.is_fresh).await
    }

    /// S2: only this very node, in this very state.
    async fn delete(&self, node: &NodeRef, deletion: &NodeDeletion) -> Outcome {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(node.uid.clone()),
                resource_version: Some(deletion.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let subject = Subject {
            kind: "node",
            namespace: None,
            name: node.name.clone(),
            uid: node.uid.clone(),
            reason: deletion.reason.clone(),
        };
        let brake = self.purse.state(deletion.brake);
        let sink = self.planner.clone();
        let author = self.author.clone();
        let Ok(record) = Deletion::begin(sink, author, subject, Some(brake), boottime()) else {
            let why = "the audit log cannot be written, and no node is deleted without it";
            return Outcome::Node(Err(ClusterError::Unavailable(why.to_owned())));
        };
        let outcome = match in_time(&self.tenure, self.nodes.delete(&node.name, &params)).await {
            Ok(Some(_)) => Outcome::Deleted,
            Ok(None) => Outcome::Node(Ok(None)),
            Err(error) => Outcome::Node(Err(error)),
        };
        record.ended(boottime(), &outcome);
        outcome
    }

    async fn read(&self, node: &NodeRef) -> Outcome {
        Outcome::Node(unwrapped(
            in_time(&self.tenure, self.nodes.get(&node.name)).await,
        ))
    }

    /// Waits for the conversation's turn to write, and asks whether it still may when that has come.
    async fn may_write<'a>(&self, lane: &'a LaneState, turn: &mut Turn<'a>) -> Result<(), Outcome> {
        if turn.0.is_none() {
            let Ok(permit) = lane.writes.acquire().await else {
                return Err(Outcome::Node(Err(stopping())));
            };
            turn.0 = Some(permit);
        }
        if !self.tenure.may_begin(boottime()) {
            return Err(Outcome::Node(Err(stopping())));
        }
        Ok(())
    }

    async fn patch_status(&self, node: &NodeRef, patch: &NodeStatusPatch) -> Outcome {
        let (params, body) = (params(), strategic(patch.to_json()));
        let request = self.nodes.patch_status(&node.name, &params, &body);
        Outcome::Node(unwrapped(in_time(&self.tenure, request).await))
    }

    async fn patch(&self, node: &NodeRef, patch: &NodePatch) -> Outcome {
        let (params, body) = (params(), strategic(patch.to_json()));
        let request = self.nodes.patch(&node.name, &params, &body);
        Outcome::Node(unwrapped(in_time(&self.tenure, request).await))
    }

    /// Records an Event, as client-go's recorder does: equal ones are counted up. Best effort.
    async fn record(&self, node: &NodeRef, event: &CloudEvent, controller: &'static str) {
        if !self.tenure.may_begin(boottime()) {
            return;
        }
        let recorded = self
            .recorder
            .lock()
            .await
            .record(node, event, controller, wall());
        let result = match &recorded {
            Recorded::New(new) => {
                in_time(
                    &self.tenure,
                    self.events.create(&PostParams::default(), new),
                )
                .await
            }
            Recorded::Again { name, patch } => {
                in_time(
                    &self.tenure,
                    self.events
                        .patch(name, &params(), &strategic(patch.clone())),
                )
                .await
            }
        };
        if let Err(error) = result {
            self.recorder.lock().await.forget(node, event);
            tracing::warn!(
                controller,
                object = %format_args!("node/{}", node.name),
                reason = %event.reason,
                %error,
                "an Event could not be recorded"
            );
        }
    }
}

/// Whether the API server keeps something of it.
fn is_write(effect: &Effect) -> bool {
    match effect {
        Effect::PatchNode(..)
        | Effect::PatchNodeStatus(..)
        | Effect::DeleteNode(..)
        | Effect::RecordNodeEvent(..) => true,
        Effect::Find(_)
        | Effect::Survey(_)
        | Effect::ReadNode(_)
        | Effect::TakeBudget(..)
        | Effect::Hold(..) => false,
    }
}

/// Nothing that is done under these locks can panic half-way; a poisoned one is as good as any.
fn locked<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
