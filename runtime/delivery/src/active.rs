//! The generations of one provider: the one that serves and the one on trial. Routes each call to one of them and
//! counts how calls end. Never decides on the counts: that is `core::rollout`.
//!
//! | Call | Shadow | Canary |
//! |---|---|---|
//! | `find` | serving; one in ten compared | every second one: candidate, or serving if the candidate cannot answer |
//! | `find_fresh`, `get_load_balancer` | serving | serving: nothing is released on a candidate's answer |
//! | other load balancer calls | serving | candidate for half of the Services, chosen by UID |
//! | `list_routes` | serving; first of a trial and one in ten compared | serving; candidate as often, only for errors |
//! | `create_route`, `delete_route` | serving | serving: see below |
//!
//! Compared: the candidate is afterwards asked the same, and the answers are compared.
//!
//! If a call about a Service fails with the candidate, the serving generation is asked the same in plan mode, and how
//! that ends is counted.
//!
//! Routes are one list for all nodes, and deviations from it are created and deleted at once. Two versions that format
//! a destination, an ID or a node's address differently would undo each other's work, and half of the pods would lose
//! connectivity meanwhile. Comparing lists reveals such differences without risk, so only lists are compared.
//!
//! Before the trial, a candidate reports in plan mode what it would change of load balancers that need no change: see
//! [`Active::plans`].
//!
//! A call ends on the generation that it began with, even if that is replaced meanwhile. Generations share no response
//! cache, no `state`, no hints and no connections. They share only the rate-limit hold of the serving generation and
//! the request budgets, of which a candidate has a tenth. A generation that begins to answer what another one answered so
//! far, which may have changed the cloud, begins with an empty response cache and an empty `state`. They are emptied again
//! when a call ends that may have changed the cloud, and began before.

mod calls;
mod compare;
mod hint;
mod plan;
mod reads;
mod routes;
#[cfg(test)]
mod tests;
mod traffic_split;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use ccm_core::cloud::{Capabilities, ProviderError};
use ccm_core::cloud_provider::CloudProvider;
use ccm_core::rollout::{TrialKind, TrialTally};
use ccm_core::safety::tenure::Tenure;
use ccm_host::Provider;
use ccm_host::egress::now;
use tokio::sync::Notify;

use plan::Settled;
use reads::Seen;
pub(crate) use reads::reading;
use traffic_split::Trial;

/// A provider that can be a generation: [`Provider`], and the scripted providers of tests.
pub trait Holding: CloudProvider + 'static {
    /// Longest remaining wait for a cloud's rate limit or a spent request budget; `None` if there is none.
    fn held_for(&self) -> Option<Duration>;

    /// Marks the provider as serving: it answers all calls and is no longer on trial.
    fn serves(&self);

    /// Empties what the provider remembers of former calls.
    fn forgets(&self);
}

impl Holding for Provider {
    fn held_for(&self) -> Option<Duration> {
        Provider::held_for(self)
    }

    fn serves(&self) {
        Provider::serves(self);
    }

    fn forgets(&self) {
        Provider::forgets(self);
    }
}

/// One module loaded under one load policy. The same module under another load policy is another generation.
pub struct Generation<P = Provider> {
    /// The loaded module. Its connections close when the last reference is dropped.
    pub provider: Arc<P>,
    /// Unique in the process, because hints of one generation are invalid for every other.
    pub number: u64,
}

/// Number of the next generation, counted over all providers.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl<P> Generation<P> {
    /// Creates a generation with a new number.
    pub fn new(provider: Arc<P>) -> Generation<P> {
        Generation {
            provider,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// The error in place of any error of a call under this tenure, once no request may begin under it: the host then refuses
/// the call's requests, so that its own error says nothing about the provider.
pub(crate) fn revoked(tenure: &Tenure) -> Option<ProviderError> {
    let why = "this process is not the leader any more";
    (!tenure.may_begin(now())).then(|| ProviderError::Unavailable(why.to_owned()))
}

/// A provider as the controllers see it, independent of which generation answers. Its shape (schemes, capabilities,
/// annotation prefixes) never changes: see [`Active::fits`].
pub struct Active<P = Provider> {
    name: String,
    schemes: Vec<String>,
    capabilities: Capabilities,
    annotation_prefixes: Vec<String>,
    roles: ArcSwap<Roles<P>>,
    seen: Seen,
    settled: Settled,
    changed: Arc<Notify>,
}

/// The serving generation and the trial, as calls see them: what `core::rollout` decided last. Replaced as a whole, so
/// that each call sees a consistent state.
struct Roles<P> {
    serving: Arc<Generation<P>>,
    trial: Option<Arc<Trial<P>>>,
}

impl<P: Holding> Roles<P> {
    fn canary_forgets(&self) {
        if let Some(trial) = &self.trial
            && trial.kind == TrialKind::Canary
        {
            trial.candidate.provider.forgets();
        }
    }
}

impl<P: Holding> Active<P> {
    /// Creates a provider with the name of its configuration entry and the shape of its first generation.
    pub fn new(name: impl Into<String>, serving: Arc<Generation<P>>) -> Arc<Active<P>> {
        serving.provider.serves();
        Active::of(name.into(), serving)
    }

    /// Puts a candidate whose shape differs from the serving version's into a canary of its own.
    pub fn alone(name: impl Into<String>, candidate: Arc<Generation<P>>) -> Arc<Active<P>> {
        let alone = Active::of(name.into(), candidate.clone());
        alone.set_roles(candidate.clone(), Some((TrialKind::Canary, candidate)));
        alone
    }

    fn of(name: String, serving: Arc<Generation<P>>) -> Arc<Active<P>> {
        let provider = &serving.provider;
        Arc::new(Active {
            name,
            schemes: provider.schemes().to_vec(),
            capabilities: provider.capabilities(),
            annotation_prefixes: provider.annotation_prefixes().to_vec(),
            roles: ArcSwap::from_pointee(Roles {
                serving,
                trial: None,
            }),
            seen: Seen::default(),
            settled: Settled::default(),
            changed: Arc::default(),
        })
    }

    /// The active generation, which answers all calls that a trial does not route to the candidate.
    pub fn serving(&self) -> Arc<Generation<P>> {
        self.roles.load().serving.clone()
    }

    /// The generation on trial; `None` without a trial.
    pub fn trial(&self) -> Option<(TrialKind, Arc<Generation<P>>)> {
        let roles = self.roles.load();
        let trial = roles.trial.as_ref()?;
        Some((trial.kind, trial.candidate.clone()))
    }

    /// Whether a generation has this provider's shape. Another shape needs another [`Active`]: controllers select their
    /// objects by the shape when they start.
    pub fn fits(&self, generation: &Generation<P>) -> bool {
        let provider = &generation.provider;
        provider.schemes() == self.schemes
            && provider.capabilities() == self.capabilities
            && provider.annotation_prefixes() == self.annotation_prefixes
    }

    /// Has calls answered by `serving`, which [fits](Active::fits), with or without a trial. Does nothing if they are
    /// already. Otherwise a trial in progress ends, and a new one begins with an empty tally. New calls go to these
    /// generations at once; calls in progress end on the one they began with.
    pub fn set_roles(
        &self,
        serving: Arc<Generation<P>>,
        trial: Option<(TrialKind, Arc<Generation<P>>)>,
    ) {
        let number = |it: &(TrialKind, Arc<Generation<P>>)| (it.0, it.1.number);
        let former = self.trial();
        let is_new = self.serving().number != serving.number;
        if is_new {
            serving.provider.serves();
        } else if former.as_ref().map(number) == trial.as_ref().map(number) {
            return;
        }
        // It answers what another one answered so far, which may have changed the cloud; one in a shadow has not.
        let forgets = is_new || matches!(former, Some((TrialKind::Canary, _)));
        let trial = trial
            .map(|(kind, candidate)| Arc::new(Trial::new(kind, candidate, self.changed.clone())));
        let current = Arc::new(Roles { serving, trial });
        let former = self.roles.swap(current.clone());
        // After the swap: a call that ends later has them forget once more.
        if forgets {
            current.serving.provider.forgets();
        }
        current.canary_forgets();
        if let Some(trial) = &former.trial {
            trial.end();
        }
    }

    /// Counts of the current trial; empty without one.
    pub fn tally(&self) -> TrialTally {
        let roles = self.roles.load();
        let trial = roles.trial.as_ref();
        trial.map(|trial| trial.tally()).unwrap_or_default()
    }

    /// Completes when something was counted since it last completed. For one listener; cancel-safe.
    pub async fn tally_changed(&self) {
        self.changed.notified().await;
    }
}
