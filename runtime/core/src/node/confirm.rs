//! Changes that need confirmation: an InternalIP of a Ready node, and the type, zone or region of an initialised node.
//! They need a second, equal answer some time after the first, and the brake's budget. Writes nothing.

use std::collections::BTreeMap;

use crate::cloud::instance::{Address, AddressType};
use crate::moment::Moment;
use crate::node::answer_check::Checked;
use crate::node::object::{PrunedNode, StoredAddress};
use crate::safety::brake::{Brake, Rise};
use crate::safety::budget_reservation::Reservation;

use super::effect::NodeEffect;
use super::ownership::recorded_owner;
use super::waiting::Obstacle;
use super::{Facts, Found, labels};

/// The changes in an answer that need confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// The new InternalIPs, if they are a change that needs confirmation.
    internal: Option<Vec<Address>>,
    /// Labels whose values would change.
    labels: BTreeMap<String, String>,
}

/// The changes in this reconciliation's answer that need confirmation; retained for the next reconciliation. `None`:
/// there was no answer, so the previous proposal stands.
pub(super) fn proposal(facts: &Facts, found: &Found<'_>) -> Option<Proposal> {
    facts.answer()?;
    // The common case: no possible change needs confirmation.
    if !facts.rules.reconcile_labels && !has_addresses_in_use(&facts.node) {
        return Some(Proposal::default());
    }
    let Found::Instance(checked) = found else {
        return Some(Proposal::default());
    };
    let next = super::next_addresses(facts, checked).ok().flatten();
    Some(Proposal {
        internal: next.and_then(|next| internal_change(&facts.node, &next)),
        labels: moved(facts, checked),
    })
}

/// The labels that follow the cloud and differ from the stored ones. Empty unless `--reconcile-node-labels` is set.
pub(super) fn moved(facts: &Facts, checked: &Checked) -> BTreeMap<String, String> {
    if !facts.rules.reconcile_labels {
        return BTreeMap::new();
    }
    labels::of_place(&checked.instance, facts.node.labels())
}

/// Whether connections may depend on the stored addresses. Those of a new node are the kubelet's, until a provider says
/// which ones are right: a kubelet with `--node-ip` reports that IP as an InternalIP.
fn has_addresses_in_use(node: &PrunedNode) -> bool {
    let is_new = node.is_uninitialized() && recorded_owner(node).is_none();
    node.is_ready() && !is_new
}

/// The InternalIPs of `next`, if they change or remove one of a Ready node, or put another one first, which is the one
/// that pods and probes use. InternalIPs added behind the stored ones are not such a change. A node that no provider has
/// initialised yet has no such change.
pub(super) fn internal_change(node: &PrunedNode, next: &[Address]) -> Option<Vec<Address>> {
    if !has_addresses_in_use(node) {
        return None;
    }
    let is_internal = |one: &Address| one.address_type == AddressType::InternalIp;
    let stored: Vec<Address> = node
        .addresses()
        .iter()
        .filter_map(StoredAddress::read)
        .filter(is_internal)
        .collect();
    let next: Vec<Address> = next
        .iter()
        .filter(|one| is_internal(one))
        .cloned()
        .collect();
    let keeps = next.len() >= stored.len()
        && stored
            .iter()
            .zip(&next)
            .all(|(stored, next)| stored.is_same(next));
    (!keeps).then_some(next)
}

/// Whether these InternalIPs may be written now.
pub(super) fn internal<'a>(
    facts: &Facts,
    now: Moment,
    next: &[Address],
) -> Result<Option<NodeEffect>, Obstacle<'a>> {
    permitted(facts, now, Brake::InternalIp, |proposal| {
        proposal.internal.as_deref() == Some(next)
    })
}

/// Whether these labels may be written now.
pub(super) fn labels<'a>(
    facts: &Facts,
    now: Moment,
    next: &BTreeMap<String, String>,
) -> Result<Option<NodeEffect>, Obstacle<'a>> {
    permitted(facts, now, Brake::Relabel, |proposal| {
        proposal.labels == *next
    })
}

/// `Ok(None)`: the change may be made. Otherwise the effect to perform first, or the obstacle.
fn permitted<'a>(
    facts: &Facts,
    now: Moment,
    brake: Brake,
    is_proposed: impl Fn(&Proposal) -> bool,
) -> Result<Option<NodeEffect>, Obstacle<'a>> {
    let proposed = facts.past.proposal.as_ref();
    let since = proposed.and_then(|(proposal, since)| is_proposed(proposal).then_some(*since));
    let confirmed = since.unwrap_or(now).after(facts.rules.confirm_after);
    // An answer that is recalled is no second one.
    let answered = facts.state.recalled.unwrap_or(now);
    if answered < confirmed {
        return Err(Obstacle::Unconfirmed {
            brake,
            again: now.until(confirmed),
        });
    }
    match facts.credit(brake, now) {
        Reservation::Covered => Ok(None),
        Reservation::Nothing => {
            let effect = NodeEffect::TakeBudget(facts.node.node_ref(), brake, Rise::NONE);
            Ok(Some(effect))
        }
        Reservation::Refused(until) => Err(Obstacle::RefusedAfterBudget {
            brake,
            again: now.until(until),
        }),
        Reservation::Exhausted(free) => Err(Obstacle::Braked {
            brake,
            again: now.until(free),
        }),
    }
}
