//! The generations of one provider: the one that serves, and the one that is tried. Sends each call to one of them,
//! counts how their calls end, and never decides what follows from it: that is `core::rollout`.
//!
//! | Call | Shadow | Canary |
//! |---|---|---|
//! | `find` | serves; one in ten is asked of the candidate once more, afterwards, and compared | every second one is the candidate's; what it cannot answer, the one that serves is asked |
//! | `find_fresh`, `get_load_balancer` | serves | serves: nothing is let go of on a candidate's word |
//! | the other ones about load balancers | serves | half of the Services, by their UIDs, are the candidate's |
//! | `list_routes` | serves; the first of a trial and one in ten is asked of the candidate once more, afterwards, and compared | serves; the candidate is asked as often, and only its errors count |
//! | `create_route`, `delete_route` | serves | serves: see below |
//!
//! Routes are one list for all nodes, and what differs from it is made and removed at once. Two versions that spell a
//! destination, an identification or a node's address in two ways would undo each other's work, and half of the pods would
//! lose their way meanwhile. A list shows such a difference without any risk, so that only lists are compared.
//!
//! Before it is tried at all, a candidate says in plan mode what it would change of load balancers that are as they should
//! be: see [`Active::plans`].
//!
//! A call ends on the generation that it began with, whatever is put in its place meanwhile. Generations share no kept
//! answers, no `state`, no hints and no connections: only what the cloud asked the one that serves to wait for, and the budgets of
//! requests, of which a candidate has a tenth.

mod calls;
mod compare;
mod hint;
mod plan;
mod reads;
mod routes;
#[cfg(test)]
mod tests;
mod trial;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use ccm_core::cloud::{Capabilities, CloudProvider};
use ccm_core::rollout::{Release, Tally};
use ccm_host::Provider;
use tokio::sync::Notify;

use plan::Settled;
use reads::Seen;
use trial::{Kind, Trial};

/// A provider that can be a generation. [`Provider`] is; so are the scripted ones of tests.
pub trait Holding: CloudProvider + 'static {
    /// How long the cloud still wants to be left alone, or the operator wants it to be, if one of them does.
    fn held_for(&self) -> Option<Duration>;

    /// It answers all calls from now on, and is on trial no more.
    fn serves(&self);
}

impl Holding for Provider {
    fn held_for(&self) -> Option<Duration> {
        Provider::held_for(self)
    }

    fn serves(&self) {
        Provider::serves(self);
    }
}

/// One module on one set of terms, loaded. The same module on other terms is another generation.
pub struct Generation<P = Provider> {
    /// The module, ready to be called. Its connections close with the last one who has it.
    pub provider: Arc<P>,
    /// Which version it is.
    pub release: Release,
    /// Never used twice in a process: hints of one generation are nothing to another.
    number: u64,
}

/// The number of the next generation of any provider.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl<P> Generation<P> {
    /// A new generation.
    pub fn new(provider: Arc<P>, release: Release) -> Generation<P> {
        Generation {
            provider,
            release,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// A provider as the controllers have it, whichever generation answers. Its shape (schemes, capabilities, annotation
/// prefixes) never changes: see [`Active::fits`].
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

/// Who plays what. Replaced as a whole, so that a call sees one state of it.
struct Roles<P> {
    serving: Arc<Generation<P>>,
    trial: Option<Arc<Trial<P>>>,
}

impl<P: Holding> Active<P> {
    /// A provider under the name of its entry, with the shape of its first generation.
    pub fn new(name: impl Into<String>, serving: Arc<Generation<P>>) -> Arc<Active<P>> {
        serving.provider.serves();
        Active::of(name.into(), serving)
    }

    /// A candidate in a canary of its own: for one that has another shape than the version that serves.
    pub fn alone(name: impl Into<String>, candidate: Arc<Generation<P>>) -> Arc<Active<P>> {
        let alone = Active::of(name.into(), candidate.clone());
        alone.canary(candidate);
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

    /// The generation that serves.
    pub fn serving(&self) -> Arc<Generation<P>> {
        self.roles.load().serving.clone()
    }

    /// The generation that is tried.
    pub fn candidate(&self) -> Option<Arc<Generation<P>>> {
        let roles = self.roles.load();
        roles.trial.as_ref().map(|trial| trial.candidate.clone())
    }

    /// Whether a generation has this provider's shape. One of another shape needs another [`Active`]: controllers
    /// choose their objects by the shape when they begin.
    pub fn fits(&self, generation: &Generation<P>) -> bool {
        let provider = &generation.provider;
        provider.schemes() == self.schemes
            && provider.capabilities() == self.capabilities
            && provider.annotation_prefixes() == self.annotation_prefixes
    }

    /// Puts a generation that [fits](Active::fits) in the place of the one that serves, which is returned, and ends a
    /// trial. New calls go there at once; those under way end where they began.
    pub fn replace(&self, serving: Arc<Generation<P>>) -> Arc<Generation<P>> {
        serving.provider.serves();
        let former = self.change(|_| Roles {
            serving: serving.clone(),
            trial: None,
        });
        former.serving.clone()
    }

    /// Begins to compare a candidate with the generation that serves, with an empty tally.
    pub fn shadow(&self, candidate: Arc<Generation<P>>) {
        self.begin(Kind::Shadow, candidate);
    }

    /// Gives a candidate a part of the calls, with an empty tally.
    pub fn canary(&self, candidate: Arc<Generation<P>>) {
        self.begin(Kind::Canary, candidate);
    }

    /// Takes every further call away from the candidate, at once.
    pub fn end_trial(&self) {
        self.change(|roles| Roles {
            serving: roles.serving.clone(),
            trial: None,
        });
    }

    /// What was counted in the trial that is under way. Empty without one.
    pub fn tally(&self) -> Tally {
        let roles = self.roles.load();
        let trial = roles.trial.as_ref();
        trial.map(|trial| trial.tally()).unwrap_or_default()
    }

    /// Ends when something was counted since it ended last. For one listener; may be dropped at any moment.
    pub async fn tally_changed(&self) {
        self.changed.notified().await;
    }

    fn begin(&self, kind: Kind, candidate: Arc<Generation<P>>) {
        let trial = Arc::new(Trial::new(kind, candidate, self.changed.clone()));
        self.change(|roles| Roles {
            serving: roles.serving.clone(),
            trial: Some(trial.clone()),
        });
    }

    /// Changes the roles, and ends the trial that was under way.
    fn change(&self, new: impl Fn(&Roles<P>) -> Roles<P>) -> Arc<Roles<P>> {
        let former = self.roles.rcu(|roles| new(roles));
        if let Some(trial) = &former.trial {
            trial.end();
        }
        former
    }
}
