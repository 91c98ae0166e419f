//! Decides which routes a provider's cloud needs so that pods reach each other, and the nodes' condition
//! NetworkUnavailable.
//!
//! A pass is one listing, then one reconciliation for each node whose routes differ from the desired ones and for each
//! destination with routes that no node wants. [`Memory::begin`] starts a listing and returns the nodes to send;
//! [`Memory::absorb`] takes the answer and plans; [`Memory::next`] returns one reconciliation after
//! another; [`decide`] drives it; [`Memory::conclude`] stores its result for the next pass. With no change and
//! nothing due, only the slow resync lists (EDGE-080).
//!
//! Guarantees: a route is removed only when its destination lies wholly in the cluster's networks, a complete answer
//! says that it leads to nothing or to a node of ours that does not want it, and the brake has budget. A route to
//! something alive that is not a node is removed only when it is known to have been ours. An unknown route is reported
//! and left alone (F24). Networks are compared by value (EDGE-082). A condition set by another writer is never
//! overwritten (EDGE-081).

mod carry_over;
mod change;
mod condition;
mod desired_routes;
mod destination_state;
mod effect;
mod facts;
mod list_schedule;
mod listing;
mod memory;
mod network;
mod node_state;
mod owned_routes;
mod route_diff;

use std::time::Duration;

use crate::moment::Now;
use crate::reconciliation::effect::{Decision, When};
use crate::reconciliation::retry::Backoff;

pub use carry_over::{CarryOver, cut_short};
pub use effect::{RouteEffect, RouteOutcome};
pub use facts::{About, Facts, Key};
pub use memory::{Foreign, Memory, Pass};
pub use network::read as read_network;
pub use route_diff::Tally;

/// Retry delays for an operation that has been pending without progress for [`PROGRESS_TIMEOUT`]; each retry follows a listing.
const BEGUN: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
};

/// How long a pending operation counts as progressing, from its start or the last completed change of any route.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the next effect for the routes in `facts`, or when to reconcile again with the state to retain. Pure.
pub fn decide(facts: &Facts, now: Now) -> Decision<RouteEffect, (When, CarryOver)> {
    if facts.state.is_over {
        let end = (When::AwaitChange, cut_short(facts, now.moment));
        return Decision::Done(end);
    }
    if let About::Node(node) = &facts.about
        && facts.state.refusals.has_to_read_again()
    {
        return Decision::Do(vec![RouteEffect::ReadNode(node.node_ref())]);
    }
    if let Some(error) = facts.state.refusals.trouble() {
        return Decision::Done(carry_over::failed(facts, error, now.moment));
    }
    let ask = facts.current().and_then(|change| facts.ask(change));
    if let Some(ask) = ask {
        return Decision::Do(vec![ask]);
    }
    if let About::Node(node) = &facts.about {
        if let Some(event) = facts.next_event(now.moment) {
            return Decision::Do(vec![RouteEffect::RecordEvent(node.node_ref(), event)]);
        }
        if let Some(patch) = facts.condition(now) {
            return Decision::Do(vec![RouteEffect::PatchCondition(node.node_ref(), patch)]);
        }
    }
    Decision::Done(carry_over::finished(facts, now.moment))
}

#[cfg(test)]
mod tests;
