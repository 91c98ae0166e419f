//! Decides which node gets which pod CIDRs: a block of each range of `--cluster-cidr`, which no other node has, no Service
//! and nobody else.
//!
//! [`Memory`] hears of all nodes and holds the blocks ([`Allocator`], [`CidrSet`]). It makes one reconciliation for each node
//! that has none ([`Memory::begin`]); [`decide`] leads it, and [`Memory::conclude`] keeps what comes of it. Nothing is
//! handed out before all nodes were listed once, so that what they have is known.
//!
//! Guarantees: pod CIDRs that a node has are never changed or removed, whatever is wrong with them (IPAM-028); a block is
//! promised to one node at a time, and free again when that node is gone, or when it is certain that nothing was written.
//! The condition NetworkUnavailable is not touched.

mod allocator;
mod bits;
mod cidr_set;
mod facts;
mod flags;
mod holder;
mod memory;

use crate::cloud::instance::{CloudEvent, EventType};
use crate::effect::{ClusterError, Decision, Effect, When};
use crate::node::object::{name, node_ref, uid};
use crate::patch::PodCidrsPatch;
use crate::retry;

pub use allocator::{Allocator, Exhausted, InvalidPodCidr, pod_cidrs};
pub use cidr_set::{Allocated, CidrSet, CidrSetError, Span, Tally};
pub use facts::{Facts, RetainedState};
pub use flags::{PodNetworkFlags, PodNetworks};
pub use holder::Holder;
pub use memory::Memory;

/// Upstream's reason where a range has no block left (IPAM-025).
const NOT_AVAILABLE: &str = "CIDRNotAvailable";
/// Upstream's reason where blocks could not be written (IPAM-027).
const NOT_ASSIGNED: &str = "CIDRAssignmentFailed";
/// Ours, where a node has pod CIDRs that cannot be right.
const INVALID: &str = "InvalidPodCIDR";
/// What may pass by itself is told when it has lasted so many attempts: upstream's number (IPAM-026).
const PATIENCE: u32 = 3;

/// What to do next about the node in `facts`. Pure.
pub fn decide(facts: &Facts) -> Decision {
    let node = &facts.node;
    if facts.is_over() {
        return Decision::Done(When::AwaitChange);
    }
    if facts.has_to_read_again() {
        return Decision::Do(vec![Effect::ReadNode(node_ref(node))]);
    }
    if !pod_cidrs(node).is_empty() {
        return report(facts);
    }
    // It is going, and its pods with it (IPAM-024).
    if node.metadata.deletion_timestamp.is_some() {
        return Decision::Done(When::AwaitChange);
    }
    if let Some(error) = facts.trouble() {
        return failed(facts, error);
    }
    match &facts.blocks {
        Ok(blocks) => write(facts, blocks),
        Err(exhausted) => wait(facts, *exhausted),
    }
}

/// IPAM-026.
fn write(facts: &Facts, blocks: &[ipnet::IpNet]) -> Decision {
    if blocks.is_empty() {
        return Decision::Done(When::AwaitChange);
    }
    let patch = PodCidrsPatch {
        uid: uid(&facts.node).to_owned(),
        pod_cidrs: blocks.iter().map(ToString::to_string).collect(),
    };
    Decision::Do(vec![Effect::PatchPodCidrs(node_ref(&facts.node), patch)])
}

/// IPAM-025. A block that is freed wakes who waits for one; to come back by itself is for what nobody has told of.
fn wait(facts: &Facts, exhausted: Exhausted) -> Decision {
    if facts.past.told != Some(NOT_AVAILABLE) && !facts.has_told() {
        return say(facts, NOT_AVAILABLE, &exhausted.to_string());
    }
    Decision::Done(When::Retry {
        after: retry::PERSON.after(facts.past.failures.saturating_add(1)),
        why: exhausted.to_string(),
    })
}

/// IPAM-027.
fn failed(facts: &Facts, error: &ClusterError) -> Decision {
    let failures = facts.past.failures.saturating_add(1);
    let is_worth_it = !matches!(error, ClusterError::Unavailable(_)) || failures >= PATIENCE;
    if is_worth_it && facts.past.told != Some(NOT_ASSIGNED) && !facts.has_told() {
        return say(facts, NOT_ASSIGNED, &error.to_string());
    }
    Decision::Done(When::Retry {
        after: retry::cluster(error).after(failures),
        why: format!("its pod CIDRs could not be written: {error}"),
    })
}

/// The node has pod CIDRs. What is wrong with them people have to change.
fn report(facts: &Facts) -> Decision {
    if facts.invalid_pod_cidrs.is_empty() || facts.has_told() {
        return Decision::Done(When::AwaitChange);
    }
    let effects = facts.invalid_pod_cidrs.iter().map(|invalid| {
        let message = format!("{invalid}; the manager leaves it as it is");
        event(facts, INVALID, message)
    });
    Decision::Do(effects.collect())
}

/// Upstream's form of what it says of a node, and why.
fn say(facts: &Facts, reason: &'static str, why: &str) -> Decision {
    let name = name(&facts.node);
    let message = format!("Node {name} status is now: {reason} ({why})");
    Decision::Do(vec![event(facts, reason, message)])
}

fn event(facts: &Facts, reason: &'static str, message: String) -> Effect {
    let event = CloudEvent {
        event_type: EventType::Warning,
        reason: reason.to_owned(),
        message,
    };
    Effect::RecordNodeEvent(node_ref(&facts.node), event)
}

#[cfg(test)]
mod tests;
