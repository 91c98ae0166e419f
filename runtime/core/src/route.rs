//! Decides which routes a provider's cloud has to have so that pods reach each other, and what nodes say of it.
//!
//! A pass is one listing, and a reconciliation for each node whose routes differ from what it wants and for each
//! destination with routes that nobody wants. [`Memory::begin`] says that routes are to be listed, and with which nodes;
//! [`Memory::absorb`] takes the answer; [`Memory::next`] makes of it one reconciliation after another; [`decide`] leads it,
//! and [`Memory::conclude`] keeps what the next pass has to know. Nothing changed and nothing due: no listing but the
//! slow resync (EDGE-080).
//!
//! Guarantees: a route is removed only when its destination lies wholly in the cluster's networks, a complete answer
//! says that it leads to nothing, or to a node of ours that does not want it, and the brake has budget. One that leads to
//! something alive that is no node goes only when it is known to have been ours. What nobody knows is reported and
//! stays (F24). Networks are compared as networks (EDGE-082), and another's condition is never overwritten (EDGE-081).

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

use k8s_openapi::api::core::v1::Node;

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

/// What a provider may ask for when it has begun something; anything outside is moved to the nearest end.
const ASKED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(600));

/// What has begun and has brought nothing for [`PATIENCE`] is asked about so, each time after a listing.
const BEGUN: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
};

/// So long the cloud is believed that it is at it, after anything has come of anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to do next about the routes in `facts`. Pure.
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
            Some(_) => "what a removal spends of the brake's budget",
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

/// When the reconciliation's next one is: as soon as one of its changes is due again.
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
    // Each try costs a listing.
    after.max(BEGUN.first)
}

/// When a change that has not come to its end is tried again, and why it has not.
#[derive(Debug)]
struct Again {
    after: Duration,
    /// Not earlier either when the node changes.
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
            let why = format!("there are more routes to {destination} that have to go");
            Some(again(BEGUN.first, why))
        }
        End::Held(free) => {
            let after = now.moment.until(*free);
            let why = format!(
                "the brake {} is engaged, because as many routes as is allowed in a while were removed: {destination}",
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
                // Somebody else removes it, or nobody.
                Retry::OnChange => again(retry::PERSON.most, why),
            })
        }
    }
}

fn warning(reason: &str, message: &str) -> CloudEvent {
    CloudEvent {
        event_type: EventType::Warning,
        reason: reason.to_owned(),
        message: answer_check::message(message),
    }
}

/// How a listing that failed is said.
fn not_listed(error: &ProviderError, after: Duration) -> When {
    let why = format!("the routes could not be listed: {error}");
    When::NotBefore { after, why }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
