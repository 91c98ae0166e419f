//! THE DOOR. Every write to the cluster and every call of the provider is made here and nowhere else, so
//! that each can be found, labelled, refused, measured and crashed on purpose. Carries effects out;
//! decides nothing but whether it still may.

mod events;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccm_core::brake::Budgets;
use ccm_core::cloud::{CloudEvent, CloudNode, CloudProvider, FindReply, Lookup, ProviderError};
use ccm_core::effect::{ClusterError, Effect, Looked, NodeRef, Outcome};
use ccm_core::names::{FIELD_MANAGER, NODE_CONTROLLER};
use ccm_core::neighbours::Neighbours;
use ccm_core::node::is_uninitialized;
use ccm_core::ownership::Claimant;
use ccm_core::patch::{NodePatch, NodeStatusPatch};
use ccm_core::permit::{Mode, NoAudit, Permit};
use ccm_core::tenure::Tenure;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::Settings;
use crate::batch::Batch;
use crate::clock::{Clock, boottime, wall};
use crate::metrics::Metrics;
use crate::pruned::PrunedNode;
use events::{Recorded, Recorder};

/// How long one request to the API server may take. Shorter than the lease lasts (15 s), so that no
/// request outlives it; far longer than a healthy API server needs.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How much longer than its permit a provider call is waited for: the host ends it on time, and this
/// only guards against a host that does not.
const GRACE: Duration = Duration::from_secs(5);
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
    budgets: StdMutex<Budgets>,
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
        let mut lane = |writes: usize| {
            let cloud = Cloud {
                provider: provider.clone(),
                neighbours: neighbours.clone(),
                mode: settings.mode,
                call_time: settings.call_time,
                tenure: settings.tenure.clone(),
            };
            let (look_ups, serving) = Batch::new(move |nodes| cloud.clone().find_apart(nodes));
            background.spawn(serving);
            LaneState {
                look_ups,
                writes: Semaphore::new(writes),
            }
        };
        Door {
            nodes: Api::all(client.clone()),
            events: Api::namespaced(client, EVENT_NAMESPACE),
            recorder: Mutex::default(),
            claimant: Arc::new(Claimant {
                name: provider.name().to_owned(),
                schemes: provider.schemes().to_vec(),
            }),
            neighbours: neighbours.clone(),
            budgets: StdMutex::new(Budgets::new(settings.node.rules.changes)),
            clock: Clock::start(),
            mode: settings.mode,
            tenure: settings.tenure.clone(),
            metrics,
            new: lane(settings.node.concurrent_syncs.get()),
            known: lane(settings.node.status_updates().get()),
        }
    }

    /// The provider on whose behalf the door acts.
    pub(crate) fn claimant(&self) -> Arc<Claimant> {
        self.claimant.clone()
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
        lane: Lane,
        turn: &mut Turn<'a>,
    ) -> Outcome {
        let lane = match lane {
            Lane::New => &self.new,
            Lane::Known => &self.known,
        };
        // Requests are boxed: thousands of conversations wait for a look-up, a few at a time write, and all of them would
        // be as large as the largest of these futures.
        match effect {
            Effect::Find(node) => Outcome::Looked(self.find(lane, node).await),
            Effect::ReadNode(node) => Box::pin(self.read(node)).await,
            Effect::TakeBudget(node, brake) => {
                let nodes = self.neighbours().len();
                let taken = locked(&self.budgets)
                    .of(*brake)
                    .take(self.clock.now(), nodes);
                if taken.is_err() {
                    self.metrics.held(*brake);
                    let object = format_args!("node/{}", node.name);
                    tracing::warn!(%brake, %object, "the brake is engaged: the change is held");
                }
                Outcome::Budget(taken)
            }
            Effect::PatchNodeStatus(node, patch) => match self.may_write(lane, turn).await {
                Ok(()) => Box::pin(self.patch_status(node, patch)).await,
                Err(outcome) => outcome,
            },
            Effect::PatchNode(node, patch) => match self.may_write(lane, turn).await {
                Ok(()) => Box::pin(self.patch(node, patch)).await,
                Err(outcome) => outcome,
            },
            Effect::RecordNodeEvent(..) if self.mode != Mode::Enforce => Outcome::Withheld,
            Effect::RecordNodeEvent(node, event) => {
                Box::pin(self.record(node, event)).await;
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

    async fn read(&self, node: &NodeRef) -> Outcome {
        Outcome::Node(unwrapped(in_time(self.nodes.get(&node.name)).await))
    }

    /// Waits for the conversation's turn to write, and asks whether it still may when that has come.
    async fn may_write<'a>(&self, lane: &'a LaneState, turn: &mut Turn<'a>) -> Result<(), Outcome> {
        if self.mode != Mode::Enforce {
            return Err(Outcome::Withheld);
        }
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
        Outcome::Node(unwrapped(in_time(request).await))
    }

    async fn patch(&self, node: &NodeRef, patch: &NodePatch) -> Outcome {
        let (params, body) = (params(), strategic(patch.to_json()));
        let request = self.nodes.patch(&node.name, &params, &body);
        Outcome::Node(unwrapped(in_time(request).await))
    }

    /// Records an Event, as client-go's recorder does: equal ones are counted up. Best effort.
    async fn record(&self, node: &NodeRef, event: &CloudEvent) {
        if !self.tenure.may_begin(boottime()) {
            return;
        }
        let recorded = self.recorder.lock().await.record(node, event, wall());
        let result = match &recorded {
            Recorded::New(new) => in_time(self.events.create(&PostParams::default(), new)).await,
            Recorded::Again { name, patch } => {
                in_time(
                    self.events
                        .patch(name, &params(), &strategic(patch.clone())),
                )
                .await
            }
        };
        if let Err(error) = result {
            self.recorder.lock().await.forget(node, event);
            tracing::warn!(
                controller = NODE_CONTROLLER,
                object = %format_args!("node/{}", node.name),
                reason = %event.reason,
                %error,
                "an Event could not be recorded"
            );
        }
    }
}

/// The provider, and what every call of it needs.
#[derive(Clone)]
struct Cloud {
    provider: Arc<dyn CloudProvider>,
    neighbours: Arc<StdMutex<Neighbours>>,
    mode: Mode,
    call_time: Duration,
    tenure: Arc<Tenure>,
}

impl Cloud {
    /// One look-up in a task of its own: a provider that panics ends one call and not the batch.
    async fn find_apart(self, nodes: Vec<CloudNode>) -> Result<FindReply, ProviderError> {
        // Dropped, it ends the call.
        let mut call = JoinSet::new();
        call.spawn(self.find(nodes));
        match call.join_next().await {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => Err(ProviderError::Internal(format!(
                "the call ended with a panic: {error}"
            ))),
            None => Err(ProviderError::Internal("the call did not begin".to_owned())),
        }
    }

    /// One look-up of many nodes, under a permit that allows reads only.
    async fn find(self, nodes: Vec<CloudNode>) -> Result<FindReply, ProviderError> {
        if !self.tenure.may_begin(boottime()) {
            return Err(ProviderError::Unavailable(
                "the manager is stopping".to_owned(),
            ));
        }
        let permit = Arc::new(Permit::new(
            boottime().after(self.call_time),
            self.mode,
            0,
            self.tenure.clone(),
            Arc::new(NoAudit),
        ));
        let began = boottime();
        let call = self.provider.find(&nodes, permit);
        let answer = match tokio::time::timeout(self.call_time.saturating_add(GRACE), call).await {
            Ok(answer) => answer,
            Err(_) => Err(ProviderError::TimedOut(format!(
                "find of {} nodes took longer than {:?}",
                nodes.len(),
                self.call_time
            ))),
        };
        // Of the whole answer at once, and before anybody hears his part: two nodes of one answer see each other.
        if let Ok(reply) = &answer {
            locked(&self.neighbours).answered(&nodes, reply);
        }
        tracing::debug!(
            provider = self.provider.name(),
            nodes = nodes.len(),
            took = ?began.until(boottime()),
            result = answer.as_ref().map_or_else(ProviderError::reason, |_| "answered"),
            "find"
        );
        answer
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

fn stopping() -> ClusterError {
    ClusterError::Unavailable("the manager is stopping or no longer leader".to_owned())
}

/// One request, cut off after [`REQUEST_TIME`].
async fn in_time<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<Option<T>, ClusterError> {
    match tokio::time::timeout(REQUEST_TIME, request).await {
        Ok(Ok(object)) => Ok(Some(object)),
        Ok(Err(error)) => meaning(error),
        Err(_) => Err(ClusterError::Unavailable(format!(
            "no answer within {REQUEST_TIME:?}"
        ))),
    }
}

/// What a failed request means. `Ok(None)`: there is no such object.
fn meaning<T>(error: kube::Error) -> Result<Option<T>, ClusterError> {
    let kube::Error::Api(status) = error else {
        return Err(ClusterError::Unavailable(chain(&error)));
    };
    let message = status.message;
    match status.code {
        404 => Ok(None),
        409 => Err(ClusterError::Conflict(message)),
        400 | 405 | 413 | 415 | 422 => Err(ClusterError::Rejected(message)),
        401 | 403 => Err(ClusterError::Denied(message)),
        code => Err(ClusterError::Unavailable(format!("{message} ({code})"))),
    }
}

/// An error with its causes, outermost first. A cause that its effect has quoted already is not repeated.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        next = cause.source();
    }
    text
}

fn unwrapped(
    read: Result<Option<PrunedNode>, ClusterError>,
) -> Result<Option<Box<Node>>, ClusterError> {
    Ok(read?.map(|node| Box::new(node.0)))
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
