//! Why a Service is not done, how that is reported, and when to retry (SVC-022, SVC-024, EDGE-069).

use std::time::Duration;

use super::effect::{ServiceAction, ServiceRef};
use super::facts::{Stored, Trouble};
use super::source_ranges::SourceRangesError;
use super::work::Doing;
use super::{Facts, conditions, ingress_validation, record, stored_state};
use crate::cloud::error::{Owner, ProviderError};
use crate::cloud::load_balancer::Pending;
use crate::moment::{Moment, Now};
use crate::node::answer_check::quoted;
use crate::reconciliation::conclusion::Next;
use crate::reconciliation::effect::When;
use crate::reconciliation::event::reasons::{self, EventReason};
use crate::reconciliation::patch::ServicePatch;
use crate::reconciliation::retry::{self, Backoff};
use crate::safety::brake::Brake;
use crate::safety::permit::Mode;
use crate::well_known::DELETE_UNTIL;

/// A failure of the API server whose next pause is shorter is not reported.
const BRIEF: Duration = Duration::from_secs(10);

/// Reason why a reconciliation cannot complete now.
#[derive(Clone)]
pub(super) enum Obstacle<'a> {
    /// A provider call for this operation failed.
    Provider(Doing, &'a ProviderError),
    /// The source ranges cannot be parsed.
    SourceRanges(SourceRangesError),
    /// The load balancer could not be made as wanted earlier; an Event was recorded then.
    EnsureFailure {
        /// Reason of the failure.
        why: &'a str,
        /// Time until the retry.
        again: Duration,
    },
    /// The answer failed the check and may not be written.
    Answer(ingress_validation::Unusable),
    /// The cloud answered pending.
    Pending {
        /// The operation that is pending.
        doing: Doing,
        /// The provider's answer, with its retry delay.
        pending: &'a Pending,
        /// Pending for so long that an Event is due.
        is_long: bool,
    },
    /// A call whose result is unknown may still be carried out.
    Late {
        /// Time until the next look.
        again: Duration,
    },
    /// The operation is pending, and not due for polling yet.
    Begun {
        /// Time until it is.
        again: Duration,
    },
    /// The node list is not complete yet.
    NodesUnsynced,
    /// Most targets would be removed; this needs confirmation.
    Removal {
        /// Time until the confirmation.
        again: Duration,
    },
    /// All addresses would be removed; this needs a second answer.
    Emptied {
        /// Time until the second answer.
        again: Duration,
    },
    /// The budget for the change is exhausted.
    Braked {
        /// The brake that holds it.
        brake: Brake,
        /// Time until budget is available.
        again: Duration,
    },
    /// Another provider may still have a load balancer for the Service.
    Kept(&'a str),
    /// The load balancer belongs to an existing Service.
    Owned(&'a ServiceRef),
    /// The Service list is not complete yet.
    ServicesUnsynced,
    /// Its owner, if it has one, does not exist, and adoption is not enabled.
    Unadopted(Option<&'a Owner>),
    /// The provider names an owner that cannot be verified, or refuses the adoption.
    Taken(Option<&'a Owner>),
    /// At least half of the witnesses are missing at the provider, as with another account's credential.
    OtherAccount {
        /// The missing ones.
        missing: &'a [String],
        /// Whether the Service is gone, so that nobody can annotate it.
        is_gone: bool,
    },
    /// Deleted according to the provider, but still there.
    StillThere,
    /// The answer does not prove that it is gone.
    Unproven,
    /// The API server refused a request or failed.
    Cluster(Trouble<'a>),
}

/// The report of the obstacle that is due, if any: first an Event, then a condition.
pub(super) fn report(facts: &Facts, now: Now, obstacle: &Obstacle<'_>) -> Option<ServiceAction> {
    if let Some(reason) = obstacle.reason(facts)
        && !facts.has_recorded(reason)
    {
        return Some(record(reason, &obstacle.message(facts)));
    }
    // Only in enforce mode: otherwise the plan reports it and nothing is written.
    if let Some(reason) = obstacle.condition(facts)
        && facts.world.mode == Mode::Enforce
        && !facts.is_gone
        && facts.state.written.stored == Stored::No
    {
        let mut patch = ServicePatch::new(stored_state::uid(&facts.service));
        let change = conditions::failed(&facts.service, reason, &obstacle.public_message(), now);
        patch.conditions.extend(change);
        if !patch.is_empty() {
            return Some(ServiceAction::Patch(patch));
        }
    }
    None
}

/// When the Service is reconciled again.
pub(super) fn until(facts: &Facts, obstacle: &Obstacle<'_>) -> When {
    let why = obstacle.why();
    let failures = facts.past.failures.saturating_add(1);
    obstacle.retry(facts, failures).when(why)
}

/// `when`, or earlier for the targets: when a removal that `hold` delays is confirmed, or a pending update is asked about.
pub(super) fn no_later(facts: &Facts, when: When, hold: Option<Obstacle<'_>>) -> When {
    let confirmed = match hold {
        Some(Obstacle::Removal { again }) => Some(again.max(retry::POLLED.0)),
        _ => None,
    };
    let polled = facts
        .state
        .work
        .pending()
        .map(|(_, pending)| retry::polled(pending));
    match (when, confirmed.into_iter().chain(polled).min()) {
        (When::Retry { after, why }, Some(earlier)) => When::Retry {
            after: after.min(earlier),
            why,
        },
        (when, _) => when,
    }
}

/// The obstacle for a pending operation.
pub(super) fn begun<'a>(
    facts: &Facts,
    doing: Doing,
    pending: &'a Pending,
    now: Moment,
) -> Obstacle<'a> {
    let before = facts.pending_before(doing);
    Obstacle::Pending {
        doing,
        pending,
        is_long: before.is_some_and(|before| before.is_worth_reporting(now)),
    }
}

impl Obstacle<'_> {
    /// Whether it counts as a failure. Waiting for a pending operation or for a confirmation does not.
    pub(super) fn is_failure(&self) -> bool {
        !matches!(
            self,
            Obstacle::Pending { .. }
                | Obstacle::Late { .. }
                | Obstacle::Begun { .. }
                | Obstacle::Removal { .. }
                | Obstacle::Emptied { .. }
                | Obstacle::NodesUnsynced
                | Obstacle::ServicesUnsynced
                | Obstacle::Kept(_)
                | Obstacle::EnsureFailure { .. }
        )
    }

    /// Whether ensuring failed and is retried later, so that the targets follow the nodes until then. Not for a pending
    /// or throttled operation, nor for a load balancer of another owner.
    pub(super) fn is_ensure_failure(&self) -> bool {
        match self {
            Obstacle::Provider(doing, error) => {
                *doing == Doing::Ensure && !matches!(error, ProviderError::Throttled { .. })
            }
            Obstacle::Braked { brake, .. } => {
                matches!(brake, Brake::StatusClear | Brake::CloudMutations)
            }
            Obstacle::SourceRanges(_) | Obstacle::Answer(_) | Obstacle::Emptied { .. } => true,
            _ => false,
        }
    }

    /// Whether the brake of all changes at the cloud holds it, whatever is wanted.
    pub(super) fn is_of_all_changes(&self) -> bool {
        matches!(self, Obstacle::Braked { brake, .. } if *brake == Brake::CloudMutations)
    }

    /// Whether it delays only what follows a load balancer that is as requested: its targets, or a newer request.
    pub(super) fn is_after_ensure(&self) -> bool {
        match self {
            Obstacle::Provider(doing, _) => *doing == Doing::Update,
            Obstacle::Pending { .. }
            | Obstacle::Begun { .. }
            | Obstacle::EnsureFailure { .. }
            | Obstacle::NodesUnsynced
            | Obstacle::Removal { .. } => true,
            _ => false,
        }
    }

    /// The obstacle in a message for operators.
    fn why(&self) -> String {
        match self {
            Obstacle::Answer(unusable) => {
                format!("the provider's answer was not used: {unusable}")
            }
            Obstacle::Braked { brake, .. } => {
                format!("{}; --brake={brake}=… raises it", engaged(*brake))
            }
            Obstacle::Owned(service) => format!("the load balancer belongs to {service}"),
            Obstacle::OtherAccount { missing, .. } => {
                format!(
                    "{}; not found: {}",
                    self.public_message(),
                    missing.join(", ")
                )
            }
            _ => self.public_message(),
        }
    }

    /// Message for everyone who may read the Service; without names of other tenants.
    fn public_message(&self) -> String {
        match self {
            Obstacle::Provider(doing, error) => format!("failed to {}: {error}", doing.as_str()),
            Obstacle::SourceRanges(error) => error.to_string(),
            Obstacle::EnsureFailure { why, .. } => (*why).to_owned(),
            Obstacle::Answer(unusable) => {
                format!("the provider's answer was not used: {}", unusable.public_message())
            }
            Obstacle::Late { .. } => {
                "an earlier request may still take effect; the load balancer is looked up again".to_owned()
            }
            Obstacle::Pending { is_long: true, .. } => {
                "the cloud operation has been pending for more than 10 minutes".to_owned()
            }
            Obstacle::Pending { .. } | Obstacle::Begun { .. } => {
                "the cloud operation is pending".to_owned()
            }
            Obstacle::NodesUnsynced => "waiting for the initial Node list".to_owned(),
            Obstacle::Removal { .. } => {
                "most targets would be removed; waiting for confirmation".to_owned()
            }
            Obstacle::Emptied { .. } => {
                "the provider reports no address; waiting for a second answer".to_owned()
            }
            // Not with the time until then: Events that are equal count as one.
            Obstacle::Braked { brake, .. } => format!(
                "{}; it is tried again within {} minutes",
                engaged(*brake),
                retry::CLOUD.most.as_secs() / 60
            ),
            Obstacle::Kept(keeper) => format!(
                "the provider {} may still have a load balancer for the Service",
                quoted(keeper)
            ),
            Obstacle::Owned(_) => {
                "the load balancer belongs to another Service of this cluster".to_owned()
            }
            Obstacle::ServicesUnsynced => "waiting for the initial Service list".to_owned(),
            Obstacle::Unadopted(owner) => {
                let (whose, remedy) = match owner {
                    Some(owner) => (
                        format!(
                            "belongs to a Service that does not exist in this cluster, {}",
                            with(owner)
                        ),
                        "adoptLoadBalancers, or once the mark of its owner names this Service",
                    ),
                    None => (
                        "has no recorded owner".to_owned(),
                        "adoptUnownedLoadBalancers",
                    ),
                };
                format!("the load balancer {whose}: it is taken over only with the setting {remedy}")
            }
            Obstacle::Taken(Some(owner)) => format!(
                "the provider reports that the load balancer belongs to the Service {}",
                with(owner)
            ),
            Obstacle::Taken(None) => {
                "the provider reports that the load balancer has another owner".to_owned()
            }
            Obstacle::OtherAccount { is_gone, .. } => {
                let remedy = match is_gone {
                    true => "restart the manager, which then gives it up".to_owned(),
                    false => format!("set the annotation {DELETE_UNTIL}"),
                };
                format!(
                    "the provider does not find nodes or load balancers that are known to exist; its credential may belong to another account. The load balancer is kept; if it is lost, {remedy}"
                )
            }
            Obstacle::StillThere => {
                "the provider reported the deletion, but still finds the load balancer"
                    .to_owned()
            }
            Obstacle::Unproven => {
                "failed to check if load balancer exists after cleanup: the provider's answer was not complete: a request of it failed, or none was answered with 2xx"
                    .to_owned()
            }
            Obstacle::Cluster(trouble) => format!("failed to {}: {}", trouble.doing, trouble.error),
        }
    }

    /// Reason of the Event, if one is due.
    fn reason(&self, facts: &Facts) -> Option<&'static EventReason> {
        let failed = match facts.is_gone {
            true => reasons::DELETE_LOAD_BALANCER_FAILED,
            false => reasons::SYNC_LOAD_BALANCER_FAILED,
        };
        match self {
            // Reported already, with the nodes' names.
            Obstacle::Provider(Doing::Update, _) => None,
            // A failure that may pass by itself is reported once its pause has reached `BRIEF`: a webhook may refuse this
            // object alone.
            Obstacle::Cluster(trouble) => {
                let is_away = trouble.error.is_away();
                let failures = facts.past.failures.saturating_add(1);
                // Not by the pause that a busy API server asks for.
                let is_brief = || away(facts).after(failures) < BRIEF;
                (!is_away || !is_brief()).then_some(failed)
            }
            // A cloud may list for a moment what it has begun to delete.
            Obstacle::StillThere | Obstacle::Unproven => {
                (facts.past.failures > 0).then_some(failed)
            }
            Obstacle::Provider(..)
            | Obstacle::SourceRanges(_)
            | Obstacle::Owned(_)
            | Obstacle::Unadopted(_)
            | Obstacle::Taken(_)
            | Obstacle::OtherAccount { .. } => Some(failed),
            Obstacle::Answer(_) => Some(reasons::INVALID_PROVIDER_ANSWER),
            Obstacle::Braked { .. } => Some(reasons::BRAKE_ENGAGED),
            Obstacle::Pending { is_long: true, .. } => Some(reasons::LOAD_BALANCER_PENDING),
            _ => None,
        }
    }

    /// Upstream's prefix before our message (SVC-024, SVC-053).
    fn message(&self, facts: &Facts) -> String {
        match self {
            Obstacle::Answer(_) | Obstacle::Braked { .. } | Obstacle::Pending { .. } => {
                self.public_message()
            }
            Obstacle::Provider(_, error) if facts.is_gone => {
                format!("Error deleting load balancer: {error}")
            }
            _ if facts.is_gone => {
                format!("Error deleting load balancer: {}", self.public_message())
            }
            _ => format!("Error syncing load balancer: {}", self.public_message()),
        }
    }

    /// Reason of the condition, if it is worth a write: a transient failure is gone by the second attempt.
    fn condition(&self, facts: &Facts) -> Option<&'static str> {
        let lasts = facts.past.failures > 0;
        match self {
            Obstacle::Provider(_, error) => {
                (lasts || retry::needs_a_person(error)).then(|| error.condition_reason())
            }
            Obstacle::Braked {
                brake: Brake::CloudMutations,
                ..
            } => lasts.then_some("Throttled"),
            Obstacle::SourceRanges(_) => Some("Invalid"),
            Obstacle::Answer(_) => Some("InvalidAnswer"),
            Obstacle::Owned(_) | Obstacle::Unadopted(_) | Obstacle::Taken(_) => Some("Conflict"),
            // The load balancer is as requested but for its targets, and no update takes a condition back.
            Obstacle::Pending {
                doing,
                is_long: true,
                ..
            } => (*doing != Doing::Update).then_some("Pending"),
            Obstacle::OtherAccount { .. } => Some("UnknownAccount"),
            Obstacle::StillThere => lasts.then_some("StillThere"),
            Obstacle::Unproven => lasts.then_some("Unproven"),
            _ => None,
        }
    }

    fn retry(&self, facts: &Facts, failures: u32) -> Next<Duration> {
        let backoff = match self {
            Obstacle::Provider(_, error) => return retry::after(error, failures),
            Obstacle::Pending { pending, .. } => return Next::At(retry::polled(pending)),
            Obstacle::Begun { again }
            | Obstacle::Removal { again }
            | Obstacle::EnsureFailure { again, .. }
            | Obstacle::Late { again }
            | Obstacle::Emptied { again } => return Next::At((*again).max(retry::POLLED.0)),
            // The other provider's controller acts on the same change of the Service.
            Obstacle::NodesUnsynced | Obstacle::ServicesUnsynced | Obstacle::Kept(_) => {
                return Next::At(retry::CLOUD.first);
            }
            Obstacle::Braked { again, .. } => return Next::At(retry::braked(*again)),
            Obstacle::Cluster(trouble) => cluster_backoff(facts, trouble),
            Obstacle::StillThere | Obstacle::Unproven => retry::CLOUD,
            Obstacle::SourceRanges(_)
            | Obstacle::Answer(_)
            | Obstacle::Owned(_)
            | Obstacle::Unadopted(_)
            | Obstacle::OtherAccount { .. }
            | Obstacle::Taken(_) => retry::PERSON,
        };
        Next::At(backoff.after(failures))
    }
}

/// After a failed request to the API server.
fn cluster_backoff(facts: &Facts, trouble: &Trouble<'_>) -> Backoff {
    let backoff = retry::cluster(trouble.error);
    let away = away(facts);
    match trouble.error.is_away() {
        true => Backoff {
            first: backoff.first.max(away.first),
            ..away
        },
        false => backoff,
    }
}

/// After a request that the API server has not answered. It has the cloud's pauses if each attempt also asks the cloud: an
/// admission webhook can refuse the writes of one object for days.
fn away(facts: &Facts) -> Backoff {
    match facts.state.work.asked().is_some() {
        true => retry::CLOUD,
        false => retry::AWAY,
    }
}

fn engaged(brake: Brake) -> String {
    format!("{}: {}", brake.engaged(), brake.danger())
}

/// The name of an owner in messages.
fn with(owner: &Owner) -> String {
    match owner {
        Owner::Uid(uid) => format!("with the UID {}", quoted(uid)),
        Owner::Name { .. } => format!("with the name {}", quoted(&owner.to_string())),
    }
}
