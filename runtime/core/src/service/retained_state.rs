//! State kept from one reconciliation of a Service to the next. The controller stores it and loses it at a restart:
//! nothing in it is needed to reach the same end, but for a load balancer that no Service shows any more.
//! [`super::carry_over`] computes it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;

use super::stored_state::{has_finalizer, load_balancer_status};
use super::targets::{Targets, are_same};
use super::work::{Asked, Doing};
use crate::cloud::load_balancer::{CloudService, LoadBalancerStatus, TargetNodes};
use crate::moment::Moment;
use crate::safety::brake::target_removal::PendingRemoval;

/// State kept from earlier reconciliations of a Service.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetainedState {
    /// Number of consecutive failures.
    pub failures: u32,
    /// Whether the drift check requests an ensure call.
    pub drift_due: bool,
    /// How far the last request to the provider is.
    pub(super) phase: Phase,
    /// State of the nodes behind the load balancer.
    pub(super) targets: RetainedTargets,
    /// State from the answers to ensure calls.
    pub(super) answers: RetainedAnswers,
    /// The load balancer could not be made as wanted.
    pub(super) ensure_failure: Option<EnsureFailure>,
    /// The budget for the removal.
    pub(super) removal: RemovalBudget,
    /// State of the Service while it is not this provider's.
    pub(super) left_alone: LeftAlone,
}

/// How far the last request to the provider is.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Phase {
    /// This process has made no request.
    #[default]
    Idle,
    /// A load balancer was requested, and is not known to be as requested.
    Requested(Request),
    /// The load balancer is as requested, and its status is stored: only a difference requires another ensure call.
    Made(Request),
    /// Its removal was requested.
    Removing(Request),
    /// Nothing is left at the cloud, and finalizer and owner are released.
    Released,
}

/// The last request to the provider that may change something.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) asked: Asked,
    /// The operation at the cloud, if the last answer called it pending.
    pub(super) pending: Option<PendingOperation>,
}

/// An operation that every answer since `since` has called pending.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingOperation {
    pub(super) doing: Doing,
    pub(super) since: Moment,
    /// Whether an Event has reported it.
    pub(super) is_reported: bool,
    pub(super) poll_at: Moment,
    /// Hint of the last answer. Dropped when the provider's module changes.
    pub(super) hint: Option<Arc<[u8]>>,
}

/// State of the nodes behind the load balancer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RetainedTargets {
    /// Targets that the provider has confirmed; not those that were merely sent.
    pub(super) confirmed: Option<TargetNodes>,
    /// A removal of most targets, waiting for confirmation.
    pub(super) removal: Option<PendingRemoval>,
    /// An Event has reported that there are no targets.
    pub(super) is_lack_reported: bool,
}

/// State from the answers to ensure calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RetainedAnswers {
    /// Status that was stored when the load balancer was last made.
    pub(super) status: LoadBalancerStatus,
    /// The provider's generation that gave `status`. To another one, whose account may differ, it proves nothing.
    pub(super) generation: u64,
    /// When the provider first answered that there is no address any more.
    pub(super) empty_since: Option<Moment>,
    /// When the last call failed in a way that leaves open whether the cloud still carries it out.
    pub(super) unsure_at: Option<Moment>,
    /// An Event has announced the creation or reported a failure, and none has reported success yet.
    pub(super) owes_ensured: bool,
    /// Keys of the granted annotations that the last answer wanted to write or to remove.
    pub(super) annotations: BTreeSet<String>,
}

/// The budget for the removal of the load balancer, since it was last wanted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum RemovalBudget {
    /// No budget was asked for.
    #[default]
    Unasked,
    /// The brake has held the removal since then.
    Held(Moment),
    /// Budget was taken, once for all attempts.
    Taken,
}

/// State of a Service while it is not this provider's.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LeftAlone {
    /// Reported reason for leaving it alone.
    pub(super) reported_reason: Option<String>,
    /// It had a class of another implementation, which therefore owns its present finalizer.
    pub(super) was_foreign: bool,
}

/// Clouds usually create a load balancer within this time.
const SLOW: Duration = Duration::from_secs(60);
/// After this time users expect an explanation.
const LONG: Duration = Duration::from_secs(600);

/// Why a load balancer is not as wanted, and when to retry. Until then its targets follow the nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EnsureFailure {
    /// The Service as wanted then: a different one is tried at once. `None` if the brake of all changes at the cloud held
    /// it: it would hold a different one, too, after the provider has looked at the cloud.
    pub(super) wanted: Option<Arc<CloudService>>,
    pub(super) why: String,
    pub(super) until: Moment,
    /// Updating its targets failed, too: they also wait.
    pub(super) is_stale: bool,
}

impl Phase {
    fn request(&self) -> Option<&Request> {
        match self {
            Phase::Requested(request) | Phase::Made(request) | Phase::Removing(request) => {
                Some(request)
            }
            Phase::Idle | Phase::Released => None,
        }
    }

    /// The last request that may change something.
    pub(super) fn asked(&self) -> Option<&Asked> {
        self.request().map(|request| &request.asked)
    }

    /// The operation that the last answer called pending.
    pub(super) fn pending(&self) -> Option<&PendingOperation> {
        self.request()?.pending.as_ref()
    }

    /// The hint for the next call.
    pub(super) fn hint(&self) -> Option<Arc<[u8]>> {
        self.pending()?.hint.clone()
    }
}

impl PendingOperation {
    /// Whether it has been pending for so long that targets are updated without waiting for it.
    pub(super) fn is_slow(&self, now: Moment) -> bool {
        self.since.after(SLOW) <= now
    }

    /// Whether it has been pending for so long that an Event is due.
    pub(super) fn is_worth_reporting(&self, now: Moment) -> bool {
        self.since.after(LONG) <= now && !self.is_reported
    }
}

impl RemovalBudget {
    /// Since when the brake holds the removal.
    pub(super) fn held_since(self) -> Option<Moment> {
        match self {
            RemovalBudget::Held(since) => Some(since),
            RemovalBudget::Unasked | RemovalBudget::Taken => None,
        }
    }
}

impl RetainedState {
    /// State at first sight of a Service. If another process has begun to make its load balancer, that process's last
    /// call may have got no answer.
    pub(super) fn of_stranger(service: &Service, now: Moment) -> RetainedState {
        let is_begun = has_finalizer(service) && load_balancer_status(service).ingress.is_empty();
        RetainedState {
            answers: RetainedAnswers {
                unsure_at: is_begun.then_some(now),
                ..RetainedAnswers::default()
            },
            ..RetainedState::default()
        }
    }

    /// Whether nothing is left of what this provider was asked for, and nothing was reported.
    pub(super) fn holds_nothing(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Released)
            && self.failures == 0
            && self.left_alone.reported_reason.is_none()
    }

    /// Whether the last answer called the operation pending.
    pub fn is_pending(&self) -> bool {
        self.phase.pending().is_some()
    }

    /// Whether `targets` differ from those the provider confirmed last. Level-triggered: also true before this process
    /// has sent any.
    pub fn wants_targets(&self, targets: &Targets) -> bool {
        let confirmed = self.targets.confirmed.as_ref();
        confirmed.is_none_or(|confirmed| !are_same(confirmed, &targets.nodes))
    }

    /// Holds `shared` in place of equal lists: each has a place for every node, and keeps the labels of its time.
    pub fn share_targets(&mut self, shared: &TargetNodes) {
        let asked = match &mut self.phase {
            Phase::Requested(request) | Phase::Made(request) | Phase::Removing(request) => {
                Some(&mut request.asked.targets)
            }
            Phase::Idle | Phase::Released => None,
        };
        for targets in asked.into_iter().chain(&mut self.targets.confirmed) {
            if are_same(targets, shared) {
                *targets = shared.clone();
            }
        }
    }

    /// Whether targets follow the nodes after a failed ensure.
    pub fn follows_nodes(&self) -> bool {
        let ensure_failure = self.ensure_failure.as_ref();
        self.targets.confirmed.is_some()
            && ensure_failure.is_some_and(|ensure_failure| !ensure_failure.is_stale)
    }

    /// The failed ensure that delays a request for `wanted`, if any.
    pub(super) fn ensure_failure_of(
        &self,
        wanted: &Arc<CloudService>,
        now: Moment,
    ) -> Option<&EnsureFailure> {
        let is_about = |asked: &Arc<CloudService>| asked == wanted;
        self.ensure_failure.as_ref().filter(|ensure_failure| {
            ensure_failure.until > now && ensure_failure.wanted.as_ref().is_none_or(is_about)
        })
    }
}
