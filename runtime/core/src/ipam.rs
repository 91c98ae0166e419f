//! Decides which node gets which pod CIDRs: one block of each range of `--cluster-cidr` that overlaps no other node's
//! block and no Service range.
//!
//! [`Memory`] observes all nodes and tracks the blocks ([`Allocator`], [`CidrSet`]). It starts one reconciliation for
//! each node without pod CIDRs ([`Memory::begin`]); [`decide`] drives it, and [`Memory::conclude`] stores the result.
//! Nothing is allocated before all nodes were listed once, so that their pod CIDRs are known.
//!
//! Guarantees: existing pod CIDRs of a node are never changed or removed, even if they are invalid (IPAM-028); a block
//! is reserved for one node at a time, and freed when that node is gone, or when it is certain that nothing was
//! written. The condition NetworkUnavailable is not touched.

mod allocator;
mod bits;
mod cidr_set;
mod effect;
mod facts;
mod flags;
mod holder;
mod memory;
pub mod other_allocator;

use crate::reconciliation::effect::{ClusterError, Decision, When};
use crate::reconciliation::event::reasons::{self, EventReason};
use crate::reconciliation::patch::PodCidrsPatch;
use crate::reconciliation::retry;

pub use allocator::{Allocator, Exhausted, InvalidPodCidr, pod_cidrs};
pub use cidr_set::{Allocated, BlockCounts, CidrSet, CidrSetError, Span};
pub use effect::{IpamEffect, IpamOutcome};
pub use facts::{Facts, RetainedState};
pub use flags::{PodNetworkFlags, PodNetworks};
pub use holder::Holder;
pub use memory::Memory;

/// Failures that may resolve by themselves are reported after this many attempts: upstream's number (IPAM-026).
const REPORT_AFTER_FAILURES: u32 = 3;

/// Decides what to do next about the node in `facts`. Pure.
pub fn decide(facts: &Facts) -> Decision<IpamEffect> {
    let node = &facts.node;
    if facts.is_over() {
        return Decision::Done(When::AwaitChange);
    }
    if facts.state.refusals.has_to_read_again() {
        return Decision::Do(vec![IpamEffect::Read(node.node_ref())]);
    }
    if !pod_cidrs(node).is_empty() {
        return report(facts);
    }
    // The node is being deleted, and its pods with it (IPAM-024).
    if node.is_being_deleted() {
        return Decision::Done(When::AwaitChange);
    }
    if let Some(error) = facts.state.refusals.trouble() {
        return failed(facts, error);
    }
    match &facts.blocks {
        Ok(blocks) => write(facts, blocks),
        Err(exhausted) => wait(facts, *exhausted),
    }
}

/// Writes the reserved blocks (IPAM-026).
fn write(facts: &Facts, blocks: &[ipnet::IpNet]) -> Decision<IpamEffect> {
    if blocks.is_empty() {
        return Decision::Done(When::AwaitChange);
    }
    let patch = PodCidrsPatch {
        uid: facts.node.uid().to_owned(),
        pod_cidrs: blocks.iter().map(ToString::to_string).collect(),
    };
    Decision::Do(vec![IpamEffect::Patch(facts.node.node_ref(), patch)])
}

/// No block is free (IPAM-025). Freeing a block wakes a waiting node; the timed retry covers releases that were not
/// noticed.
fn wait(facts: &Facts, exhausted: Exhausted) -> Decision<IpamEffect> {
    if facts.past.reported.as_deref() != Some(reasons::CIDR_NOT_AVAILABLE.reason)
        && facts.state.reported.is_none()
    {
        return record_event(facts, reasons::CIDR_NOT_AVAILABLE, &exhausted.to_string());
    }
    Decision::Done(When::Retry {
        after: retry::PERSON.after(facts.past.failures.saturating_add(1)),
        why: exhausted.to_string(),
    })
}

/// The write failed (IPAM-027).
fn failed(facts: &Facts, error: &ClusterError) -> Decision<IpamEffect> {
    let failures = facts.past.failures.saturating_add(1);
    let is_worth_it = !error.is_away() || failures >= REPORT_AFTER_FAILURES;
    if is_worth_it
        && facts.past.reported.as_deref() != Some(reasons::CIDR_ASSIGNMENT_FAILED.reason)
        && facts.state.reported.is_none()
    {
        return record_event(facts, reasons::CIDR_ASSIGNMENT_FAILED, &error.to_string());
    }
    Decision::Done(When::Retry {
        after: retry::cluster(error).after(failures),
        why: format!("its pod CIDRs could not be written: {error}"),
    })
}

/// The node has pod CIDRs. Reports the invalid ones; a person has to correct them.
fn report(facts: &Facts) -> Decision<IpamEffect> {
    if facts.invalid_pod_cidrs.is_empty() || facts.state.reported.is_some() {
        return Decision::Done(When::AwaitChange);
    }
    let effects = facts.invalid_pod_cidrs.iter().map(|invalid| {
        let message = format!("{invalid}; the manager leaves it as it is");
        event(facts, reasons::INVALID_POD_CIDR, &message)
    });
    Decision::Do(effects.collect())
}

/// An Event in upstream's format.
fn record_event(facts: &Facts, reason: &EventReason, why: &str) -> Decision<IpamEffect> {
    let name = facts.node.name();
    let message = format!("Node {name} status is now: {} ({why})", reason.reason);
    Decision::Do(vec![event(facts, reason, &message)])
}

fn event(facts: &Facts, reason: &EventReason, message: &str) -> IpamEffect {
    IpamEffect::RecordEvent(facts.node.node_ref(), reason.event(message))
}

#[cfg(test)]
mod tests;
