//! State kept from one reconciliation of a Service to the next. The controller stores it and loses it at a restart:
//! nothing in it is needed to reach the same end. [`super::carry_over`] computes it.

use std::sync::Arc;
use std::time::Duration;

use super::targets::{Targets, are_same};
use crate::brake::target_removal::PendingRemoval;
use crate::cloud::instance::CloudNode;
use crate::load_balancer::{Adoptable, CloudService, LoadBalancerStatus};
use crate::moment::Moment;

/// State kept from earlier reconciliations of a Service.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetainedState {
    /// Number of consecutive failures.
    pub failures: u32,
    /// Whether the drift check requests an ensure call.
    pub drift_due: bool,
    /// Hint of the last pending answer. Dropped when the provider's module changes.
    pub hint: Option<Arc<[u8]>>,
    /// Last request to the provider.
    pub(super) asked: Option<Asked>,
    /// Whether that request has completed: only a difference from it requires another ensure call.
    pub(super) is_made: bool,
    /// Status stored at that time.
    pub(super) status: LoadBalancerStatus,
    /// Targets that the provider has confirmed; not those that were merely sent.
    pub(super) targets: Option<Arc<[CloudNode]>>,
    /// When to poll the pending operation.
    pub(super) pending_until: Option<Moment>,
    /// Since when the operation is pending, and whether an Event reported it.
    pub(super) begun: Option<Begun>,
    /// When the last call failed in a way that leaves open whether the cloud still carries it out.
    pub(super) unsure_at: Option<Moment>,
    /// A removal of most targets, waiting for confirmation.
    pub(super) wish: Option<PendingRemoval>,
    /// When the provider first answered that there is no address any more.
    pub(super) empty_since: Option<Moment>,
    /// An Event has reported that there are no nodes.
    pub(super) is_unavailable: bool,
    /// An Event has announced the creation, and none has reported its end yet.
    pub(super) owes_ensured: bool,
    /// Budget was taken for the removal.
    pub(super) is_paid: bool,
    /// Since when the brake holds the removal.
    pub(super) braked: Option<Moment>,
    /// The removal has begun.
    pub(super) is_deleting: bool,
    /// Nothing is left at the cloud, and finalizer and owner are released.
    pub(super) is_released: bool,
    /// The Service had a class of another implementation, which therefore owns its present finalizer.
    pub(super) was_foreign: bool,
    /// Reported reason for leaving the Service alone.
    pub(super) told_why: Option<String>,
    /// The load balancer could not be made as wanted.
    pub(super) ensure_failure: Option<EnsureFailure>,
}

/// Request to a provider that may change something.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    /// The Service, without its status.
    pub(super) service: Arc<CloudService>,
    /// The target nodes.
    pub(super) targets: Arc<[CloudNode]>,
    /// The load balancer that may be adopted.
    pub(super) adopt: Option<Adoptable>,
}

/// An operation that every answer since `since` has called pending.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Begun {
    pub(super) since: Moment,
    pub(super) is_told: bool,
}

impl Begun {
    /// Whether it has been pending for so long that targets are updated without waiting for it.
    pub(super) fn is_slow(self, now: Moment) -> bool {
        self.since.after(SLOW) <= now
    }

    /// Whether it has been pending for so long that an Event is due.
    pub(super) fn is_worth_telling(self, now: Moment) -> bool {
        self.since.after(LONG) <= now && !self.is_told
    }
}

/// Clouds usually create a load balancer within this time.
const SLOW: Duration = Duration::from_secs(60);
/// After this time users expect an explanation.
const LONG: Duration = Duration::from_secs(600);

/// Why a load balancer is not as wanted, and when to retry. Until then its targets follow the nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EnsureFailure {
    /// The Service as wanted then: a different one is tried at once.
    pub(super) wanted: Arc<CloudService>,
    pub(super) why: String,
    pub(super) until: Moment,
    /// Updating its targets failed, too: they also wait.
    pub(super) is_stale: bool,
}

impl RetainedState {
    /// Whether the last answer called the operation pending.
    pub fn is_pending(&self) -> bool {
        self.begun.is_some()
    }

    /// Whether `targets` differ from those the provider confirmed last. Level-triggered: also true before this process
    /// has sent any.
    pub fn wants_targets(&self, targets: &Targets) -> bool {
        let confirmed = self.targets.as_ref();
        confirmed.is_none_or(|confirmed| !are_same(confirmed, &targets.nodes))
    }

    /// Whether targets follow the nodes after a failed ensure.
    pub fn follows_nodes(&self) -> bool {
        let ensure_failure = self.ensure_failure.as_ref();
        self.targets.is_some()
            && ensure_failure.is_some_and(|ensure_failure| !ensure_failure.is_stale)
    }

    /// The failed ensure that delays a request for `wanted`, if any.
    pub(super) fn ensure_failure_of(
        &self,
        wanted: &Arc<CloudService>,
        now: Moment,
    ) -> Option<&EnsureFailure> {
        let ensure_failure = self.ensure_failure.as_ref();
        ensure_failure
            .filter(|ensure_failure| ensure_failure.until > now && ensure_failure.wanted == *wanted)
    }
}
