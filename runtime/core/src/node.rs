//! The node controller's decisions: initialise a tainted node, keep its labels and addresses correct.
//!
//! Initialisation: ask the provider once; with several candidate providers, cast a vote and read the verdict; check the
//! answer; write the addresses; then, in one patch, write the provider ID, the labels and the owner and remove the
//! taint; then record an Event.
//!
//! Guarantees: a node keeps its taint until its addresses and its provider ID are stored. A stored provider ID never
//! changes. Nodes of other providers are not touched. Nothing here deletes anything.
//!
//! Assumes that the node in [`Facts`] may be outdated: the API server refuses every write when the object has been
//! replaced, and the taint's removal and the record of an owner also when the object has changed at all.

pub mod addresses;
pub mod answer_check;
mod candidate_vote;
pub mod cloud_node;
mod confirm;
mod effect;
mod facts;
pub mod index;
pub mod labels;
mod memory;
pub mod object;
pub mod ownership;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cloud::instance::{Address, CloudEvent, Instance, Lookup};
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::{Decision, When};
use crate::reconciliation::event::reasons;
use crate::reconciliation::patch::{NodePatch, NodeStatusPatch, TaintChange, Taints};
use crate::well_known::{CONTROL_PLANE, OWNER_LABEL, PROVIDED_NODE_IP, UNINITIALIZED_TAINT};
use answer_check::{Checked, Known};
use facts::NodePart;
use index::AddressClash;
use ownership::{Owner, owner, recorded_owner};

pub use confirm::Proposal;
pub use effect::{CandidateVote, Looked, NodeEffect, NodeOutcome};
pub use facts::{Facts, RetainedState};
pub use memory::{AwaitedTurn, Initialised, NodeMemory};
use waiting::Obstacle;

/// Decides what to do next about the node in `facts`; at the end, also which changes in the provider's answer need
/// confirmation (`None`: there was no answer, so the previous proposal stands). Pure: the same facts and moment give the
/// same decision.
pub fn decide(facts: &Facts, now: Moment) -> Decision<NodeEffect, (When, Option<Proposal>)> {
    let found = found(facts);
    next(facts, now, &found).map_end(|when| (when, confirm::proposal(facts, &found)))
}

/// The changes that need confirmation after a reconciliation that was stopped before its end.
pub fn cut_short(facts: &Facts) -> Option<Proposal> {
    confirm::proposal(facts, &found(facts))
}

fn next(facts: &Facts, now: Moment, found: &Found<'_>) -> Decision<NodeEffect> {
    if facts.state.is_over {
        return Decision::Done(When::AwaitChange);
    }
    if facts.state.refusals.has_to_read_again() {
        return Decision::Do(vec![NodeEffect::Read(facts.node.node_ref())]);
    }
    if let Some(error) = facts.state.refusals.trouble() {
        return waiting::wait(facts, now, &Obstacle::Cluster(error));
    }
    if facts.node.is_uninitialized() {
        initialise(facts, now, found)
    } else {
        maintain(facts, now, found)
    }
}

/// Initialises a tainted node (NODE-013), in this project's order (departs from NODE-044 and NODE-045).
fn initialise(facts: &Facts, now: Moment, found: &Found<'_>) -> Decision<NodeEffect> {
    let node = &facts.node;
    let others = match owner(node, &facts.ownership) {
        Owner::Other(whose) => {
            return Decision::Done(When::Blocked {
                why: format!("the node belongs to {whose}"),
            });
        }
        Owner::Foreign(why) => return waiting::wait(facts, now, &Obstacle::Foreign(why)),
        Owner::Unserved(why) => return waiting::wait(facts, now, &Obstacle::Unserved(why)),
        Owner::Candidates(others) => others,
        Owner::Recorded | Owner::Implied | Owner::SoleCandidate => Vec::new(),
    };
    if let Some(decision) = candidate_vote::decide(facts, now, others) {
        return decision;
    }
    let checked = match found {
        Found::Unasked => return ask(node),
        Found::Not(obstacle) => return waiting::wait(facts, now, obstacle),
        Found::Instance(checked) => checked,
    };
    // NODE-025: the annotation has to match, even if the answer has no addresses.
    if let Some(provided) = provided_node_ip(node)
        && let Err(error) = addresses::prefer(&checked.instance.addresses, provided)
    {
        return waiting::wait(facts, now, &Obstacle::NodeIp(error));
    }
    match write_addresses(facts, now, checked) {
        Ok(Some(effect)) => return Decision::Do(vec![effect]),
        Ok(None) => {}
        Err(obstacle) => return waiting::wait(facts, now, &obstacle),
    }
    let mut effects = vec![NodeEffect::Patch(
        node.node_ref(),
        initial_patch(facts, checked),
    )];
    effects.extend(events(facts, checked));
    effects.push(NodeEffect::RecordEvent(node.node_ref(), synced()));
    Decision::Do(effects)
}

/// Maintains an initialised node: labels on every change (NODE-012), addresses in the periodic pass.
fn maintain(facts: &Facts, now: Moment, found: &Found<'_>) -> Decision<NodeEffect> {
    let node = &facts.node;
    let owner = owner(node, &facts.ownership);
    match &owner {
        Owner::Recorded | Owner::Implied => {}
        // A node without a record is not reported: its machine need not be of any cloud here.
        Owner::Unserved(why) if recorded_owner(node).is_some() => {
            return waiting::without_owner(facts, now, why);
        }
        Owner::Unserved(_)
        | Owner::Foreign(_)
        | Owner::Other(_)
        | Owner::SoleCandidate
        | Owner::Candidates(_) => return Decision::Done(When::AwaitChange),
    }
    // The last write of the initialisation was made, but its response was lost.
    if facts.is_unanswered() && owner == Owner::Recorded {
        return Decision::Do(vec![NodeEffect::RecordEvent(node.node_ref(), synced())]);
    }
    let changes = labels::reconcile(node.labels());
    if !changes.is_empty() && !facts.has_settled(NodePart::Labels) {
        return patch_labels(node, changes);
    }
    if !facts.past.refresh {
        return Decision::Done(When::AwaitChange);
    }
    let checked = match found {
        Found::Unasked => return ask(node),
        Found::Not(obstacle) => return waiting::skip(facts, now, obstacle),
        Found::Instance(checked) => checked,
    };
    match write_addresses(facts, now, checked) {
        Ok(Some(effect)) => return Decision::Do(vec![effect]),
        Ok(None) => {}
        Err(obstacle) => return waiting::skip(facts, now, &obstacle),
    }
    let moved = confirm::moved(facts, checked);
    if !moved.is_empty() && !facts.has_settled(NodePart::Labels) {
        return match confirm::labels(facts, now, &moved) {
            Ok(Some(effect)) => Decision::Do(vec![effect]),
            Ok(None) => patch_labels(node, moved),
            Err(obstacle) => waiting::skip(facts, now, &obstacle),
        };
    }
    let events = events(facts, checked);
    if !events.is_empty() && !facts.state.has_recorded_event {
        return Decision::Do(events);
    }
    if owner == Owner::Implied && !facts.has_settled(NodePart::Owner) {
        return record_owner(facts);
    }
    Decision::Done(When::AwaitChange)
}

/// The state of the look-up of the node's instance.
enum Found<'a> {
    /// The provider has to be asked first.
    Unasked,
    /// There is no answer that may be written.
    Not(Obstacle<'a>),
    /// An instance of which every part may be written.
    Instance(Box<Checked>),
}

fn found(facts: &Facts) -> Found<'_> {
    let looked = match facts.state.looked.as_ref() {
        None => return Found::Unasked,
        Some(Err(error)) => return Found::Not(Obstacle::Provider(error)),
        Some(Ok(looked)) => looked,
    };
    match &looked.lookup {
        Lookup::Found(instance) => {
            if let Some(obstacle) = duplicate(facts, instance, looked) {
                return Found::Not(obstacle);
            }
            let known = Known {
                provider_id: facts.node.provider_id(),
                schemes: &facts.ownership.claim.schemes,
                rules: &facts.rules.addresses,
                clashes: &new_clashes(&facts.node, &looked.clashes.addresses),
                is_control_plane: facts.node.labels().contains_key(CONTROL_PLANE),
            };
            match answer_check::check(instance, known) {
                Ok(checked) => Found::Instance(Box::new(checked)),
                Err(unusable) => Found::Not(Obstacle::Answer(unusable)),
            }
        }
        Lookup::Gone => Found::Not(Obstacle::Gone),
        Lookup::NotMine => Found::Not(Obstacle::NotMine {
            provider: &facts.ownership.claim.name,
            node: &facts.node,
        }),
        Lookup::Unknown(why) => Found::Not(Obstacle::Unknown(why)),
    }
}

fn ask(node: &Arc<PrunedNode>) -> Decision<NodeEffect> {
    Decision::Do(vec![NodeEffect::Find(node.clone())])
}

/// Another node with the same machine. If only one of the two has the provider ID stored, only the other one is
/// blocked.
fn duplicate<'a>(facts: &Facts, instance: &Instance, looked: &Looked) -> Option<Obstacle<'a>> {
    let duplicate = looked.clashes.duplicate.as_ref()?;
    let stored = facts.node.provider_id();
    if stored.is_some() && !duplicate.is_stored {
        return None;
    }
    Some(Obstacle::DuplicateProviderId {
        provider_id: stored.unwrap_or(&instance.provider_id).to_owned(),
        name: duplicate.name.clone(),
    })
}

/// Addresses of other nodes that this one does not have stored: a stored address is not removed because a second node
/// claims it.
fn new_clashes(node: &PrunedNode, clashes: &[AddressClash]) -> Vec<AddressClash> {
    let is_new = |clash: &&AddressClash| {
        let stored = node.addresses().iter();
        let mut stored = stored.filter(|one| one.address_type.is_some());
        !stored.any(|one| one.canonical_ip() == Some(clash.address))
    };
    clashes.iter().filter(is_new).cloned().collect()
}

/// The next effect that corrects the stored addresses; `None` if they are correct (NODE-056).
fn write_addresses<'a>(
    facts: &Facts,
    now: Moment,
    checked: &Checked,
) -> Result<Option<NodeEffect>, Obstacle<'a>> {
    if facts.has_settled(NodePart::Addresses) {
        return Ok(None);
    }
    let node = &facts.node;
    let Some(addresses) = next_addresses(facts, checked).map_err(Obstacle::NodeIp)? else {
        return Ok(None);
    };
    if let Some(internal) = confirm::internal_change(node, &addresses)
        && let Some(first) = confirm::internal(facts, now, &internal)?
    {
        return Ok(Some(first));
    }
    let patch = NodeStatusPatch {
        uid: node.uid().to_owned(),
        addresses,
    };
    Ok(Some(NodeEffect::PatchStatus(node.node_ref(), patch)))
}

/// The new value of the stored addresses; `None` if they are correct.
fn next_addresses(
    facts: &Facts,
    checked: &Checked,
) -> Result<Option<Vec<Address>>, addresses::NodeIpError> {
    addresses::next(
        &checked.instance.addresses,
        facts.node.addresses(),
        provided_node_ip(&facts.node),
    )
}

/// Sets provider ID, labels and owner and removes the taint, for exactly the version of the node in `facts`.
fn initial_patch(facts: &Facts, checked: &Checked) -> NodePatch {
    let node = &facts.node;
    let stored = node.labels();
    let mut labels = labels::of_instance(&checked.instance, stored);
    labels.extend(owner_label(facts));
    labels.retain(|key, value| stored.get(key) != Some(value.as_str()));
    let provider_id = match node.provider_id() {
        Some(_) => None,
        None => Some(checked.instance.provider_id.clone()),
    };
    let remaining = node
        .taints()
        .iter()
        .filter(|taint| taint.key != UNINITIALIZED_TAINT);
    NodePatch {
        uid: node.uid().to_owned(),
        resource_version: None,
        provider_id,
        labels,
        taints: Some(Taints {
            resource_version: node.resource_version().to_owned(),
            taints: remaining.cloned().collect(),
            change: TaintChange::Removed("uninitialized"),
        }),
    }
}

fn patch_labels(node: &PrunedNode, labels: BTreeMap<String, String>) -> Decision<NodeEffect> {
    let patch = NodePatch {
        uid: node.uid().to_owned(),
        labels,
        ..NodePatch::default()
    };
    Decision::Do(vec![NodeEffect::Patch(node.node_ref(), patch)])
}

/// For exactly the version of the node in `facts`: an owner that is recorded meanwhile stays.
fn record_owner(facts: &Facts) -> Decision<NodeEffect> {
    let node = &facts.node;
    let patch = NodePatch {
        uid: node.uid().to_owned(),
        resource_version: Some(node.resource_version().to_owned()),
        labels: owner_label(facts),
        ..NodePatch::default()
    };
    Decision::Do(vec![NodeEffect::Patch(node.node_ref(), patch)])
}

fn owner_label(facts: &Facts) -> BTreeMap<String, String> {
    [(OWNER_LABEL.to_owned(), facts.ownership.claim.name.clone())].into()
}

/// The provider's Events, and one that lists the parts left out of its answer.
fn events(facts: &Facts, checked: &Checked) -> Vec<NodeEffect> {
    let mut events = provider_events(facts.answer());
    events.extend(answer_check::faults_event(&checked.faults));
    recorded(facts, events)
}

/// The effects that record these Events about the node.
fn recorded(facts: &Facts, events: Vec<CloudEvent>) -> Vec<NodeEffect> {
    let node = facts.node.node_ref();
    events
        .into_iter()
        .map(|event| NodeEffect::RecordEvent(node.clone(), event))
        .collect()
}

/// The provider's own Events that pass the check.
fn provider_events(looked: Option<&Looked>) -> Vec<CloudEvent> {
    let events = looked
        .map(|looked| looked.events.as_slice())
        .unwrap_or_default();
    events
        .iter()
        .filter_map(answer_check::check_event)
        .collect()
}

/// The Event after an initialisation (NODE-046).
fn synced() -> CloudEvent {
    reasons::SYNCED.event("Node synced successfully")
}

/// The value of the annotation, if it exists, even if empty (NODE-025).
fn provided_node_ip(node: &PrunedNode) -> Option<&str> {
    node.annotations().get(PROVIDED_NODE_IP)
}

#[cfg(test)]
mod tests;
