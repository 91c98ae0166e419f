//! Why a node is not done, how that is reported, and when the node is looked at again. Upstream reports nothing at all
//! (NODE-020, EDGE-021).

use std::time::Duration;

use crate::cloud::error::ProviderError;
use crate::moment::Moment;
use crate::node::answer_check::Unusable;
use crate::node::object::PrunedNode;
use crate::node::ownership::Verdict;
use crate::reconciliation::conclusion::Next;
use crate::reconciliation::effect::{ClusterError, Decision, When};
use crate::reconciliation::event::reasons::{self, EventReason};
use crate::reconciliation::retry::{self, Backoff};
use crate::safety::brake::Brake;
use crate::safety::budget_reservation::why_refused;

use super::addresses::NodeIpError;
use super::effect::NodeEffect;
use super::{Facts, provider_events, recorded};

/// Obstacles that may resolve by themselves are reported as an Event only after this long: a short outage of the cloud
/// is not reported for every node.
const REPORT_AFTER: Duration = Duration::from_secs(30);
/// The same where the provider knows no such machine. A machine boots for longer than its cloud needs to list it, so
/// after some tries its name probably differs, or it is in another project, and a person is looking for the reason.
const REPORT_UNKNOWN_AFTER: Duration = Duration::from_secs(5);

/// The reason why a node cannot be completed now.
pub(super) enum Obstacle<'a> {
    /// The call failed (NODE-020).
    Provider(&'a ProviderError),
    /// No provider here owns the node.
    Unserved(String),
    /// No provider here has the scheme of the node's provider ID. If another manager has it, that one initialises the node,
    /// usually within seconds.
    Foreign(String),
    /// The node has several candidates, and is not this provider's, or not yet.
    Candidates {
        /// The combined verdict, human-readable.
        why: String,
        /// Reason of the Event that reports it.
        reason: &'static EventReason,
        /// Whether this provider reports it now.
        report: bool,
    },
    /// The cloud says that the machine does not exist. The node controller deletes nothing for that.
    Gone,
    /// The provider knows no machine for the node.
    NotMine {
        /// Name of the provider that was asked.
        provider: &'a str,
        /// The node as it was sent to the provider.
        node: &'a PrunedNode,
    },
    /// The provider could not tell whether the machine exists, for this reason.
    Unknown(&'a str),
    /// The answer may not be written.
    Answer(Unusable),
    /// The answer names a machine that another node has, too.
    DuplicateProviderId {
        /// The machine's provider ID.
        provider_id: String,
        /// The other node's name.
        name: String,
    },
    /// The change needs a second, equal answer.
    Unconfirmed {
        /// The kind of change.
        brake: Brake,
        /// Time until the next answer counts.
        again: Duration,
    },
    /// The budget for the change is spent.
    Braked {
        /// The kind of change.
        brake: Brake,
        /// Time until budget is available again.
        again: Duration,
    },
    /// The change was refused after it had taken budget.
    RefusedAfterBudget {
        /// The kind of change.
        brake: Brake,
        /// Time until the next attempt.
        again: Duration,
    },
    /// The kubelet's `--node-ip` cannot be honoured (NODE-025).
    NodeIp(NodeIpError),
    /// The API server did not perform a request (NODE-043, NODE-059).
    Cluster(&'a ClusterError),
}

/// Reports the obstacle if that is due, and schedules a retry.
pub(super) fn wait(facts: &Facts, now: Moment, obstacle: &Obstacle<'_>) -> Decision<NodeEffect> {
    let why = obstacle.why();
    let is_due = match obstacle {
        Obstacle::Candidates { report, .. } => *report,
        _ => {
            let is_over = has_waited(facts, now, obstacle.report_after());
            obstacle.is_reported_at_once() || obstacle.is_defect() || is_over
        }
    };
    if let Some(decision) = record(facts, obstacle, is_due, &why) {
        return decision;
    }
    let failures = facts.past.failures.saturating_add(1);
    Decision::Done(obstacle.retry(failures).when(why))
}

/// Whether the node has waited longer than obstacles that resolve by themselves usually last.
pub(super) fn is_report_due(facts: &Facts, now: Moment) -> bool {
    has_waited(facts, now, REPORT_AFTER)
}

fn has_waited(facts: &Facts, now: Moment, wait: Duration) -> bool {
    let since = facts.past.waiting_since;
    since.is_some_and(|since| since.until(now) >= wait)
}

/// Like [`wait`], for the periodic pass, where the next pass is the retry (NODE-053): reports only obstacles that a
/// person has to remove. Crashed look-ups, failed writes, and unconfirmed or held changes are retried earlier.
pub(super) fn skip(facts: &Facts, now: Moment, obstacle: &Obstacle<'_>) -> Decision<NodeEffect> {
    let is_soon = matches!(
        obstacle,
        Obstacle::Cluster(_)
            | Obstacle::Unconfirmed { .. }
            | Obstacle::Braked { .. }
            | Obstacle::RefusedAfterBudget { .. }
    );
    if is_soon {
        return wait(facts, now, obstacle);
    }
    let why = obstacle.why();
    let is_due = obstacle.is_reported_at_once();
    let end = match obstacle {
        // One node may crash the look-ups of all that share a call: these are divided again only if they are repeated.
        Obstacle::Provider(error) if error.is_crash() => When::Retry {
            after: retry::CLOUD.after(facts.past.failures.saturating_add(1)),
            why: why.clone(),
        },
        _ => When::Blocked { why: why.clone() },
    };
    record(facts, obstacle, is_due, &why).unwrap_or(Decision::Done(end))
}

/// An initialised node whose recorded owner is not configured, for this reason. The second pass in a row reports it,
/// because at a start its owner may be the last one to serve; later passes repeat nothing.
pub(super) fn without_owner(facts: &Facts, now: Moment, why: &str) -> Decision<NodeEffect> {
    let before = facts.past.obstacle.as_ref();
    let passes = before.filter(|(before, _)| before == why);
    match passes.map(|(_, passes)| *passes) {
        Some(0) if facts.past.refresh => skip(facts, now, &Obstacle::Unserved(why.to_owned())),
        None if !facts.past.refresh => Decision::Done(When::AwaitChange),
        Some(_) | None => Decision::Done(When::Blocked {
            why: why.to_owned(),
        }),
    }
}

fn record(
    facts: &Facts,
    obstacle: &Obstacle<'_>,
    is_due: bool,
    why: &str,
) -> Option<Decision<NodeEffect>> {
    if facts.state.has_recorded_event {
        return None;
    }
    // Events of a candidate that is not the owner are not recorded.
    let claimed = facts.state.claimed.as_ref();
    let is_of_owner = claimed.is_none_or(|(verdict, _)| *verdict == Verdict::Ours);
    let mut events = provider_events(facts.answer().filter(|_| is_of_owner));
    if is_due {
        events.push(obstacle.reason().event(why));
    }
    let effects = recorded(facts, events);
    (!effects.is_empty()).then_some(Decision::Do(effects))
}

/// Message that the provider knows no instance with the node's provider ID or, without one, its name.
pub(super) fn no_instance(provider: &str, node: &PrunedNode) -> String {
    match node.provider_id() {
        Some(id) => format!("the provider {provider} knows no instance {id}"),
        None => {
            let name = node.name();
            format!("the provider {provider} knows no instance with the name {name}")
        }
    }
}

impl Obstacle<'_> {
    fn why(&self) -> String {
        match self {
            Obstacle::Provider(error) => format!("failed to look up the instance: {error}"),
            Obstacle::Unserved(why) | Obstacle::Foreign(why) | Obstacle::Candidates { why, .. } => {
                why.clone()
            }
            Obstacle::Gone => "the cloud says that there is no such instance".to_owned(),
            Obstacle::NotMine { provider, node } => no_instance(provider, node),
            Obstacle::Unknown(why) => format!("the provider cannot tell: {why}"),
            Obstacle::Answer(unusable) => format!("the provider's answer was not used: {unusable}"),
            Obstacle::DuplicateProviderId { provider_id, name } => format!(
                "the machine {provider_id} is also that of node {name:?}: delete the node that does not run on it"
            ),
            Obstacle::Unconfirmed { brake, .. } => {
                format!("waiting for a second, equal answer: {}", brake.danger())
            }
            Obstacle::Braked { brake, .. } => format!("{}: {}", brake.engaged(), brake.danger()),
            Obstacle::RefusedAfterBudget { brake, .. } => why_refused(*brake),
            Obstacle::NodeIp(error) => format!("provided node ip is not valid: {error}"),
            Obstacle::Cluster(error) => format!("the API server did not store the node: {error}"),
        }
    }

    /// The reason of the Event.
    fn reason(&self) -> &'static EventReason {
        match self {
            Obstacle::Provider(_) | Obstacle::Unknown(_) => reasons::INSTANCE_LOOKUP_FAILED,
            Obstacle::Unserved(_) | Obstacle::Foreign(_) => reasons::NODE_NOT_SERVED,
            Obstacle::Candidates { reason, .. } => reason,
            Obstacle::Gone | Obstacle::NotMine { .. } => reasons::INSTANCE_NOT_FOUND,
            Obstacle::Answer(_) => reasons::INVALID_PROVIDER_ANSWER,
            Obstacle::DuplicateProviderId { .. } => reasons::DUPLICATE_PROVIDER_ID,
            Obstacle::Unconfirmed { .. } => reasons::CHANGE_UNCONFIRMED,
            Obstacle::Braked { .. } => reasons::BRAKE_ENGAGED,
            Obstacle::NodeIp(_) => reasons::INVALID_PROVIDED_NODE_IP,
            Obstacle::RefusedAfterBudget { .. } | Obstacle::Cluster(_) => {
                reasons::NODE_UPDATE_FAILED
            }
        }
    }

    /// Whether the obstacle is reported at once because waiting does not remove it.
    fn is_reported_at_once(&self) -> bool {
        match self {
            Obstacle::Provider(error) => retry::needs_a_person(error),
            Obstacle::Answer(_) | Obstacle::NodeIp(_) | Obstacle::Unserved(_) => true,
            Obstacle::Candidates { report, .. } => *report,
            Obstacle::DuplicateProviderId { .. } | Obstacle::Braked { .. } => true,
            Obstacle::Unconfirmed { .. } | Obstacle::RefusedAfterBudget { .. } => false,
            Obstacle::Cluster(error) => matches!(error, ClusterError::Rejected(_)),
            Obstacle::Gone | Obstacle::NotMine { .. } | Obstacle::Unknown(_) => false,
            Obstacle::Foreign(_) => false,
        }
    }

    /// How long it may last before it is reported, if it may resolve by itself.
    fn report_after(&self) -> Duration {
        match self {
            Obstacle::NotMine { .. } | Obstacle::Gone => REPORT_UNKNOWN_AFTER,
            _ => REPORT_AFTER,
        }
    }

    /// Whether the provider itself is defective. Reported at once for new nodes, because its author or operator is
    /// watching now. Not reported for initialised nodes, which do not depend on it.
    fn is_defect(&self) -> bool {
        matches!(
            self,
            Obstacle::Provider(ProviderError::Trapped(_) | ProviderError::Internal(_))
        )
    }

    fn retry(&self, failures: u32) -> Next<Duration> {
        let backoff: Backoff = match self {
            Obstacle::Provider(error) => return retry::after(error, failures),
            Obstacle::Cluster(error) => retry::cluster(error),
            Obstacle::Unconfirmed { again, .. } | Obstacle::RefusedAfterBudget { again, .. } => {
                return Next::At(*again);
            }
            Obstacle::Braked { again, .. } => return Next::At(retry::braked(*again)),
            Obstacle::Candidates { .. }
            | Obstacle::Gone
            | Obstacle::NotMine { .. }
            | Obstacle::Unknown(_)
            | Obstacle::Answer(_)
            | Obstacle::DuplicateProviderId { .. } => retry::CLOUD,
            // A person makes the node again, or corrects labels or the configuration. Tried again so that metrics and the
            // log show it for as long as it lasts.
            Obstacle::NodeIp(_) | Obstacle::Foreign(_) | Obstacle::Unserved(_) => retry::PERSON,
        };
        Next::At(backoff.after(failures))
    }
}
