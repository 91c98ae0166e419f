//! All provider calls, each under a permit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::cloud::{CallFailure, CloudNode, FindReply, ProviderError};
use ccm_core::cloud_provider::{CloudProvider, Reply};
use ccm_core::node::ownership::OwnershipContext;
use ccm_core::reconciliation::effect::{Answered, Performed};
use ccm_core::safety::audit::Subject;
use ccm_core::safety::brake::{BudgetShare, SharedBudget};
use ccm_core::safety::permit::Permit;
use ccm_core::status_report::BrakeReport;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::activity::held_for_time;
use crate::clock::boottime;
use crate::cluster::Cluster;
use crate::metrics::Operation;

/// Extra time beyond the permit for a provider call. The host ends calls on time; this only guards against a defect of
/// the host.
const GRACE: Duration = Duration::from_secs(5);

/// Why a changing call returned no usable answer from the cloud.
pub(super) enum Unmade {
    /// The call attempted a change that this mode withholds. The provider's result then is not a cloud answer.
    Withheld,
    /// The provider answered with an error, or the call timed out or trapped.
    Failed(CallFailure),
}

impl From<ProviderError> for Unmade {
    fn from(error: ProviderError) -> Unmade {
        Unmade::Failed(error.into())
    }
}

/// Converts the result of a changing call for the reconciliation.
pub(super) fn performed<T, O>(
    answer: Result<T, Unmade>,
    outcome: impl FnOnce(Result<T, CallFailure>) -> O,
) -> Performed<O> {
    match answer {
        Ok(answer) => Performed::Ended(outcome(Ok(answer))),
        Err(Unmade::Failed(failure)) => Performed::Ended(outcome(Err(failure))),
        Err(Unmade::Withheld) => Performed::Withheld,
    }
}

/// The provider and the context that each of its calls needs.
#[derive(Clone)]
pub(super) struct Cloud {
    pub(super) provider: Arc<dyn CloudProvider>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) ownership: Arc<Mutex<Arc<OwnershipContext>>>,
    pub(super) call_time: Duration,
    /// Budget shared by all changing calls; each provider has its own quota at its own cloud.
    pub(super) budget: Arc<SharedBudget>,
    /// Whether the provider's controllers were told to stop and have ended: nobody waits for an answer any more.
    pub(super) has_left: Arc<AtomicBool>,
}

/// The provider's method that a call is made with.
pub(super) type Method<R, T> =
    for<'a> fn(&'a (dyn CloudProvider + 'static), &'a R, Arc<Permit>) -> Reply<'a, T>;

impl Cloud {
    /// Runs one look-up in its own task: a provider that panics fails this call and not the batch.
    pub(super) async fn find_apart(
        self,
        nodes: Vec<CloudNode>,
        is_fresh: bool,
    ) -> Result<FindReply, ProviderError> {
        apart(self.find(nodes, is_fresh)).await
    }

    /// Looks up many nodes, under a read-only permit.
    async fn find(self, nodes: Vec<CloudNode>, is_fresh: bool) -> Result<FindReply, ProviderError> {
        let permit = Arc::new(self.permit(0)?);
        let began = boottime();
        let call = match is_fresh {
            true => self.provider.find_fresh(&nodes, permit),
            false => self.provider.find(&nodes, permit),
        };
        let answer = self.in_time("find of nodes", call).await;
        // Index the whole answer before any part of it is returned, so that two nodes in one answer see each other.
        if let Ok(reply) = &answer {
            let (by, now) = (self.ownership.lock().clone(), self.cluster.clock.now());
            let mut node_index = self.cluster.node_index();
            if !self.has_left.load(Ordering::Acquire) {
                node_index.answered(&by, &nodes, reply, now);
            }
        }
        tracing::debug!(
            provider = self.provider.name(),
            nodes = nodes.len(),
            is_fresh,
            took = ?began.until(boottime()),
            result = answer.as_ref().map_or_else(ProviderError::reason, |_| "answered"),
            "find"
        );
        answer
    }

    /// Shows people how much of the budget of all changes is spent, in windows of this length, for as long as it is used.
    pub(super) fn show_budget(&self, window: Duration) {
        let budget = Arc::downgrade(&self.budget);
        let provider = self.provider.name().to_owned();
        self.cluster.activity.reads_brakes(move || {
            let (budget, now) = (budget.upgrade()?, boottime());
            let level = budget.level(now);
            // One object may have used up its part.
            let held = budget.held_longest(now).map(|held| {
                let (ago, wait) = (held.at.until(now), now.until(held.free));
                held_for_time(&held.object, ago, wait)
            });
            if level.taken == 0 && held.is_none() {
                return Some(Vec::new());
            }
            Some(vec![BrakeReport {
                held,
                ..BrakeReport::new(budget.brake(), &provider, level, window)
            }])
        });
    }

    /// A permit for one call that begins now and makes at most `mutations` changes.
    ///
    /// # Errors
    /// The tenure allows no call to begin.
    pub(super) fn permit(&self, mutations: u32) -> Result<Permit, ProviderError> {
        if !self.cluster.tenure.may_begin(boottime()) {
            return Err(ProviderError::Unavailable(
                "the manager is stopping".to_owned(),
            ));
        }
        Ok(Permit::new(
            boottime().after(self.call_time),
            self.cluster.mode,
            mutations,
            self.cluster.tenure.clone(),
            self.cluster.planner.clone(),
        ))
    }

    /// A permit for one call about `subject` that makes at most `mutations` changes, from this part of the shared budget.
    ///
    /// # Errors
    /// As [`Cloud::permit`].
    pub(super) fn changing(
        &self,
        mutations: u32,
        share: BudgetShare,
        subject: Subject,
    ) -> Result<Permit, ProviderError> {
        let permit = self.permit(mutations)?.about(subject);
        Ok(permit.sharing(self.budget.clone(), share))
    }

    /// Makes a call that may change something.
    pub(super) async fn change<R, T>(
        &self,
        operation: (Operation, &'static str),
        permit: Permit,
        request: Arc<R>,
        method: Method<R, T>,
    ) -> Result<Answered<T>, Unmade>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        let permit = Arc::new(permit);
        let reply = self.call(operation, permit.clone(), request, method).await;
        match reply {
            _ if permit.has_withheld() => Err(Unmade::Withheld),
            Ok(reply) => Ok(Answered {
                reply,
                mutations: permit.mutations_made(),
                in_use: Vec::new(),
            }),
            Err(error) => Err(Unmade::Failed(permit.failure(error))),
        }
    }

    /// Makes and counts a call, which error texts call `what`.
    pub(super) async fn call<R, T>(
        &self,
        (operation, what): (Operation, &'static str),
        permit: Arc<Permit>,
        request: Arc<R>,
        method: Method<R, T>,
    ) -> Result<T, ProviderError>
    where
        R: Send + Sync + ?Sized + 'static,
        T: Send + 'static,
    {
        let (began, cloud, own) = (boottime(), self.clone(), permit.clone());
        let answer = apart(async move {
            let call = method(&*cloud.provider, &request, own);
            cloud.in_time(what, call).await
        });
        let answer = answer.await;
        let result = match &answer {
            _ if permit.has_withheld() => "withheld",
            Ok(_) => "success",
            Err(error) => error.reason(),
        };
        let (provider, metrics) = (self.provider.name(), &self.cluster.metrics);
        metrics.asked(provider, operation, result, began.until(boottime()));
        answer
    }

    /// Waits for a call's answer until its permit has expired (plus [`GRACE`]).
    async fn in_time<T>(&self, what: &str, call: Reply<'_, T>) -> Result<T, ProviderError> {
        match tokio::time::timeout(self.call_time.saturating_add(GRACE), call).await {
            Ok(answer) => answer,
            Err(_) => Err(ProviderError::TimedOut(format!(
                "{what} took longer than {:?}",
                self.call_time
            ))),
        }
    }
}

/// Runs a call in its own task: a provider that panics fails this call and nothing else.
async fn apart<T: Send + 'static>(
    call: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
) -> Result<T, ProviderError> {
    // Dropping the set aborts the call.
    let mut task = JoinSet::new();
    task.spawn(call);
    match task.join_next().await {
        Some(Ok(answer)) => answer,
        // The panic message may contain secrets, and this error is shown publicly.
        Some(Err(_)) => Err(ProviderError::Internal(
            "the call ended with a panic".to_owned(),
        )),
        None => Err(ProviderError::Internal("the call did not begin".to_owned())),
    }
}
