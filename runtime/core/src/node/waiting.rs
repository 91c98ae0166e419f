//! Why a node is not done, said to people, and when it is looked at again. Upstream says nothing at all
//! (NODE-020, EDGE-021).

use std::time::Duration;

use crate::answer_check::{self, Unusable};
use crate::brake::Brake;
use crate::budget_reservation::why_in_vain;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{CloudEvent, EventType};
use crate::effect::{ClusterError, Decision, Effect, When};
use crate::moment::Moment;
use crate::ownership::Verdict;
use crate::retry::{self, Backoff, Retry};

use super::addresses::NodeIpError;
use super::object::node_ref;
use super::{Facts, provider_events};

/// What passes by itself is worth an Event only after this long: a machine that was made a moment ago is
/// in most clouds' inventories by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// What stands in the way.
pub(super) enum Obstacle<'a> {
    /// The call failed (NODE-020).
    Provider(&'a ProviderError),
    /// Nobody here speaks for the node.
    Unserved(String),
    /// Several providers could speak for the node, and it is not this one's, or not yet.
    Candidates {
        /// What they say together.
        why: String,
        /// The reason of the Event.
        reason: &'static str,
        /// Whether it is this one's turn to tell people.
        tell: bool,
    },
    /// The cloud says that there is no such machine. Not a reason to delete anything, here.
    Gone,
    /// No machine of this provider.
    NotMine,
    /// The provider could not tell.
    Unknown(&'a str),
    /// The answer may not be written down.
    Answer(Unusable),
    /// The answer names a machine that is another node's, too.
    DuplicateProviderId {
        /// The machine.
        provider_id: String,
        /// The other node.
        name: String,
    },
    /// One answer is not enough for this change.
    Unconfirmed {
        /// What kind of change.
        brake: Brake,
        /// When the next answer counts.
        again: Duration,
    },
    /// The change's budget is spent.
    Braked {
        /// What kind of change.
        brake: Brake,
        /// When there is something again.
        again: Duration,
    },
    /// The change was refused after it had taken of the budget.
    PaidInVain {
        /// What kind of change.
        brake: Brake,
        /// When it is tried again.
        again: Duration,
    },
    /// The kubelet's `--node-ip` cannot be honoured (NODE-025).
    NodeIp(NodeIpError),
    /// The API server did not do what was asked (NODE-043, NODE-059).
    Cluster(&'a ClusterError),
}

/// Tells about the obstacle if it is time to, and comes back.
pub(super) fn wait(facts: &Facts, now: Moment, obstacle: Obstacle<'_>) -> Decision {
    let why = obstacle.why();
    let is_due = match obstacle {
        Obstacle::Candidates { tell, .. } => tell,
        _ => obstacle.is_told_at_once() || obstacle.is_defect() || is_patience_over(facts, now),
    };
    if let Some(decision) = tell(facts, &obstacle, is_due, &why) {
        return decision;
    }
    let failures = facts.past.failures.saturating_add(1);
    Decision::Done(match obstacle.retry(failures) {
        Retry::After(after) => When::Retry { after, why },
        Retry::NotBefore(after) => When::NotBefore { after, why },
        Retry::OnChange => When::Blocked { why },
    })
}

/// Whether the node has waited for longer than for what passes by itself.
pub(super) fn is_patience_over(facts: &Facts, now: Moment) -> bool {
    let since = facts.past.waiting_since;
    since.is_some_and(|since| since.until(now) >= PATIENCE)
}

/// The same in the periodic pass, where the next pass is the retry (NODE-053): only what a person has to
/// change is told. Failed writes, and changes that one answer is not enough for, are retried before.
pub(super) fn skip(facts: &Facts, now: Moment, obstacle: Obstacle<'_>) -> Decision {
    let is_soon = matches!(
        obstacle,
        Obstacle::Cluster(_)
            | Obstacle::Unconfirmed { .. }
            | Obstacle::Braked { .. }
            | Obstacle::PaidInVain { .. }
    );
    if is_soon {
        return wait(facts, now, obstacle);
    }
    let why = obstacle.why();
    let is_due = obstacle.is_told_at_once();
    tell(facts, &obstacle, is_due, &why).unwrap_or(Decision::Done(When::Blocked { why }))
}

fn tell(facts: &Facts, obstacle: &Obstacle<'_>, is_due: bool, why: &str) -> Option<Decision> {
    if facts.has_told() {
        return None;
    }
    // Of a candidate that is not the owner nothing is written down.
    let is_heard = facts
        .conferred()
        .is_none_or(|(verdict, _)| *verdict == Verdict::Ours);
    let answer = facts.looked().and_then(|looked| looked.as_ref().ok());
    let mut events = provider_events(answer.filter(|_| is_heard));
    if is_due {
        events.push(CloudEvent {
            event_type: EventType::Warning,
            reason: obstacle.reason().to_owned(),
            message: answer_check::message(why),
        });
    }
    let node = node_ref(&facts.node);
    let effects: Vec<Effect> = events
        .into_iter()
        .map(|event| Effect::RecordNodeEvent(node.clone(), event))
        .collect();
    (!effects.is_empty()).then_some(Decision::Do(effects))
}

impl Obstacle<'_> {
    fn why(&self) -> String {
        match self {
            Obstacle::Provider(error) => format!("failed to look up the instance: {error}"),
            Obstacle::Unserved(why) | Obstacle::Candidates { why, .. } => why.clone(),
            Obstacle::Gone => "the cloud says that there is no such instance".to_owned(),
            Obstacle::NotMine => "the provider knows no instance for this node".to_owned(),
            Obstacle::Unknown(why) => format!("the provider cannot tell: {why}"),
            Obstacle::Answer(unusable) => format!("the provider's answer was not used: {unusable}"),
            Obstacle::DuplicateProviderId { provider_id, name } => format!(
                "the machine {provider_id} is also that of node {name:?}: delete the node that does not run on it"
            ),
            Obstacle::Unconfirmed { brake, .. } => {
                format!("a second, equal answer is waited for: {}", brake.danger())
            }
            Obstacle::Braked { brake, .. } => format!(
                "the brake {brake} is engaged, because as much as is allowed in a while was changed: {}",
                brake.danger()
            ),
            Obstacle::PaidInVain { brake, .. } => why_in_vain(*brake),
            Obstacle::NodeIp(error) => format!("provided node ip is not valid: {error}"),
            Obstacle::Cluster(error) => format!("the API server did not store the node: {error}"),
        }
    }

    /// The reason of the Event.
    fn reason(&self) -> &'static str {
        match self {
            Obstacle::Provider(_) | Obstacle::Unknown(_) => "InstanceLookupFailed",
            Obstacle::Unserved(_) => "NodeNotServed",
            Obstacle::Candidates { reason, .. } => reason,
            Obstacle::Gone | Obstacle::NotMine => "InstanceNotFound",
            Obstacle::Answer(_) => "InvalidProviderAnswer",
            Obstacle::DuplicateProviderId { .. } => "DuplicateProviderID",
            Obstacle::Unconfirmed { .. } => "ChangeUnconfirmed",
            Obstacle::Braked { .. } => "BrakeEngaged",
            Obstacle::NodeIp(_) => "InvalidProvidedNodeIP",
            Obstacle::PaidInVain { .. } | Obstacle::Cluster(_) => "NodeUpdateFailed",
        }
    }

    /// Whether waiting alone will not help.
    fn is_told_at_once(&self) -> bool {
        match self {
            Obstacle::Provider(error) => retry::needs_a_person(error),
            Obstacle::Answer(_) | Obstacle::NodeIp(_) | Obstacle::Unserved(_) => true,
            Obstacle::Candidates { tell, .. } => *tell,
            Obstacle::DuplicateProviderId { .. } | Obstacle::Braked { .. } => true,
            Obstacle::Unconfirmed { .. } | Obstacle::PaidInVain { .. } => false,
            Obstacle::Cluster(error) => matches!(error, ClusterError::Rejected(_)),
            Obstacle::Gone | Obstacle::NotMine | Obstacle::Unknown(_) => false,
        }
    }

    /// Whether the provider itself is broken. Whoever has written it, or put it there, is looking now; of known nodes nothing
    /// is told, since nothing of them depends on it.
    fn is_defect(&self) -> bool {
        matches!(
            self,
            Obstacle::Provider(ProviderError::Trapped(_) | ProviderError::Internal(_))
        )
    }

    fn retry(&self, failures: u32) -> Retry {
        let backoff: Backoff = match self {
            Obstacle::Provider(error) => return retry::after(error, failures),
            Obstacle::Cluster(error) => retry::cluster(error),
            Obstacle::Unconfirmed { again, .. } | Obstacle::PaidInVain { again, .. } => {
                return Retry::After(*again);
            }
            // The budget of ten minutes is not asked for by every node at the moment the first change is free.
            Obstacle::Braked { again, .. } => {
                return Retry::After((*again).clamp(retry::CLOUD.first, retry::CLOUD.most));
            }
            Obstacle::Unserved(_) => return Retry::OnChange,
            Obstacle::Candidates { .. }
            | Obstacle::Gone
            | Obstacle::NotMine
            | Obstacle::Unknown(_)
            | Obstacle::Answer(_)
            | Obstacle::DuplicateProviderId { .. } => retry::CLOUD,
            Obstacle::NodeIp(_) => retry::PERSON,
        };
        Retry::After(backoff.after(failures))
    }
}
