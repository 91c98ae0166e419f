//! Every call of the provider, under a permit.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::{CloudNode, CloudProvider, FindReply, ProviderError, Reply};
use ccm_core::effect::Outcome;
use ccm_core::permit::Permit;
use tokio::task::JoinSet;

use crate::clock::boottime;
use crate::cluster::Cluster;

/// How much longer than its permit a provider call is waited for: the host ends it on time, and this
/// only guards against a host that does not.
const GRACE: Duration = Duration::from_secs(5);

/// Why a call that may change something has brought no answer of the cloud.
pub(super) enum Unmade {
    /// It came to a change that is not made in this mode. Whatever the provider made of that is no answer.
    Withheld,
    /// It failed.
    Failed(ProviderError),
}

impl From<ProviderError> for Unmade {
    fn from(error: ProviderError) -> Unmade {
        Unmade::Failed(error)
    }
}

impl Unmade {
    /// How the call ended, in a word for metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Unmade::Withheld => "withheld",
            Unmade::Failed(error) => error.reason(),
        }
    }
}

/// The answer of a call under this permit.
pub(super) fn made<T>(permit: &Permit, answer: Result<T, ProviderError>) -> Result<T, Unmade> {
    match permit.has_withheld() {
        true => Err(Unmade::Withheld),
        false => Ok(answer?),
    }
}

/// How such a call ended, for whoever asked for it.
pub(super) fn outcome<T>(
    answer: Result<T, Unmade>,
    answered: impl FnOnce(Result<T, ProviderError>) -> Outcome,
) -> Outcome {
    match answer {
        Ok(answer) => answered(Ok(answer)),
        Err(Unmade::Failed(error)) => answered(Err(error)),
        Err(Unmade::Withheld) => Outcome::Withheld,
    }
}

/// The provider, and what every call of it needs.
#[derive(Clone)]
pub(super) struct Cloud {
    pub(super) provider: Arc<dyn CloudProvider>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) call_time: Duration,
}

impl Cloud {
    /// One look-up in a task of its own: a provider that panics ends one call and not the batch.
    pub(super) async fn find_apart(
        self,
        nodes: Vec<CloudNode>,
        is_fresh: bool,
    ) -> Result<FindReply, ProviderError> {
        apart(self.find(nodes, is_fresh)).await
    }

    /// One look-up of many nodes, under a permit that allows reads only.
    async fn find(self, nodes: Vec<CloudNode>, is_fresh: bool) -> Result<FindReply, ProviderError> {
        let permit = Arc::new(self.permit(0)?);
        let began = boottime();
        let call = match is_fresh {
            true => self.provider.find_fresh(&nodes, permit),
            false => self.provider.find(&nodes, permit),
        };
        let answer = self.in_time("find of nodes", call).await;
        // Of the whole answer at once, and before anybody hears his part: two nodes of one answer see each other.
        if let Ok(reply) = &answer {
            let (by, now) = (self.provider.name(), self.cluster.clock.now());
            self.cluster.node_index().answered(by, &nodes, reply, now);
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

    /// A permit for one call that begins now and makes at most so many changes.
    ///
    /// # Errors
    /// No call may begin.
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

    /// The answer of a call, if it comes while its permit lasts.
    pub(super) async fn in_time<T>(
        &self,
        what: &str,
        call: Reply<'_, T>,
    ) -> Result<T, ProviderError> {
        match tokio::time::timeout(self.call_time.saturating_add(GRACE), call).await {
            Ok(answer) => answer,
            Err(_) => Err(ProviderError::TimedOut(format!(
                "{what} took longer than {:?}",
                self.call_time
            ))),
        }
    }
}

/// A call in a task of its own: a provider that panics ends this call and nothing else.
pub(super) async fn apart<T: Send + 'static>(
    call: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
) -> Result<T, ProviderError> {
    // Dropped, it ends the call.
    let mut task = JoinSet::new();
    task.spawn(call);
    match task.join_next().await {
        Some(Ok(answer)) => answer,
        // Its message may hold anything, and this is told to everybody.
        Some(Err(_)) => Err(ProviderError::Internal(
            "the call ended with a panic".to_owned(),
        )),
        None => Err(ProviderError::Internal("the call did not begin".to_owned())),
    }
}
