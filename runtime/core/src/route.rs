//! Decides which routes a provider's cloud needs so that pods reach each other, and the nodes' condition
//! NetworkUnavailable.
//!
//! A pass is one listing, then one reconciliation for each node whose routes differ from the desired ones and for each
//! destination with routes that no node wants. [`Memory::begin`] starts a listing and returns the nodes to send;
//! [`Memory::absorb`] takes the answer and plans; [`Memory::next`] returns one reconciliation after another; [`decide`]
//! drives it; [`Memory::conclude`] stores its result for the next pass. With no change and nothing due, only the slow
//! resync lists (EDGE-080).
//!
//! Guarantees: a route is removed only when its destination lies wholly in the cluster's networks, a complete answer
//! says that it leads to nothing or to a node of ours that does not want it, and the brake has budget. A route to
//! something alive that is not a node is removed only when it is known to have been ours. An unknown route is reported
//! and left alone (F24). Networks are compared by value (EDGE-082). A condition set by another writer is never
//! overwritten (EDGE-081).

mod change;
mod condition;
mod desired_routes;
mod facts;
mod list_schedule;
mod listing;
mod memory;
mod network;
mod owned_routes;
mod route_diff;

use std::time::Duration;

use crate::answer_check;
use crate::brake::Brake;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{CloudEvent, EventType};
use crate::effect::{Decision, Effect, When};
use crate::load_balancer::Pending;
use crate::moment::Now;
use crate::node::object::node_ref;
use crate::retry::{self, Backoff, Retry};

use change::{Change, Doing, End};

pub use facts::{About, Facts, Key};
pub use memory::{Foreign, Memory, Pass};
pub use network::read as read_network;
pub use route_diff::Tally;

/// Range of the retry delay that a provider may request for a pending operation; values outside are clamped.
const ASKED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(600));

/// Retry delays for an operation that has been pending without progress for [`PATIENCE`]; each retry follows a listing.
const BEGUN: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
};

/// How long a pending operation counts as progressing, from its start or the last completed change of any route.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the next effect for the routes in `facts`, or when to reconcile again. Pure.
pub fn decide(facts: &Facts, now: Now) -> Decision {
    if facts.state.is_over {
        return Decision::Done(When::AwaitChange);
    }
    if let About::Node(node) = &facts.about
        && facts.state.refusals.has_to_read_again()
    {
        return Decision::Do(vec![Effect::ReadNode(node_ref(node))]);
    }
    if let Some(error) = facts.state.refusals.trouble() {
        let after = after_trouble(facts, error);
        let what = match facts.current() {
            Some(_) => "the spent budget of the route removal",
            None => "the node's condition",
        };
        let why = format!("the API server did not store {what}: {error}");
        return Decision::Done(When::Retry { after, why });
    }
    let ask = facts.current().and_then(|change| facts.ask(change));
    if let Some(ask) = ask {
        return Decision::Do(vec![Effect::Route(ask)]);
    }
    if let About::Node(node) = &facts.about {
        if let Some(event) = facts.to_tell(now.moment) {
            return Decision::Do(vec![Effect::RecordNodeEvent(node_ref(node), event)]);
        }
        if let Some(patch) = facts.condition(now) {
            return Decision::Do(vec![Effect::PatchNetworkCondition(node_ref(node), patch)]);
        }
    }
    Decision::Done(end(facts, now))
}

/// When to reconcile again: as soon as the first unfinished change is due.
fn end(facts: &Facts, now: Now) -> When {
    let again = facts.changes.iter().filter_map(|change| again(change, now));
    let soonest = again.min_by_key(|again| again.after);
    match soonest {
        None => When::AwaitChange,
        Some(Again {
            after,
            is_firm: true,
            why,
        }) => When::NotBefore { after, why },
        Some(Again { after, why, .. }) => When::Retry { after, why },
    }
}

fn after_trouble(facts: &Facts, error: &crate::effect::ClusterError) -> Duration {
    let after = retry::cluster(error).after(facts.failures.saturating_add(1));
    // Each retry costs a listing.
    after.max(BEGUN.first)
}

/// When to retry an unfinished change, and why it is unfinished.
#[derive(Debug)]
struct Again {
    after: Duration,
    /// Do not retry earlier, even when the node changes.
    is_firm: bool,
    why: String,
}

fn again(change: &Change, now: Now) -> Option<Again> {
    let destination = change.destination;
    let failures = change.past.failures.saturating_add(1);
    let again = |after, why: String| Again {
        after,
        is_firm: false,
        why,
    };
    match change.end.as_ref()? {
        End::Done | End::Elsewhere | End::Planned => None,
        End::More => {
            let why = format!("more routes to {destination} remain to be removed");
            Some(again(BEGUN.first, why))
        }
        End::Held(free) => {
            let after = now.moment.until(*free);
            let why = format!(
                "the brake {} is engaged because its budget is exhausted: {destination}",
                Brake::RouteDeletion
            );
            Some(again(
                after.clamp(retry::CLOUD.first, retry::CLOUD.most),
                why,
            ))
        }
        End::Begun(Pending { retry_after, .. }) => {
            let asked = (*retry_after).clamp(ASKED.0, ASKED.1);
            let why = format!("the cloud has begun to change the route to {destination}");
            Some(again(
                match change.past.in_vain {
                    0 => asked,
                    in_vain => asked.max(BEGUN.after(in_vain)),
                },
                why,
            ))
        }
        End::Failed(doing, error) => {
            let doing = match doing {
                Doing::Make => "made",
                Doing::Remove => "removed",
            };
            let why = format!("the route to {destination} could not be {doing}: {error}");
            Some(match retry::after(error, failures) {
                Retry::After(after) => again(after, why),
                Retry::NotBefore(after) => Again {
                    after,
                    is_firm: true,
                    why,
                },
                // Retrying cannot help: only a change elsewhere can, and that may never come.
                Retry::OnChange => again(retry::PERSON.most, why),
            })
        }
    }
}

fn warning(reason: &str, message: &str) -> CloudEvent {
    CloudEvent::new(EventType::Warning, reason, answer_check::message(message))
}

/// Result of a failed listing.
fn not_listed(error: &ProviderError, after: Duration) -> When {
    let why = format!("the routes could not be listed: {error}");
    When::NotBefore { after, why }
}

#[cfg(test)]
mod tests;
