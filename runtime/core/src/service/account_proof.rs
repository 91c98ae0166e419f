//! Checks that the provider uses this cluster's account. With the credential of another one it answers honestly that
//! none of our load balancers exists, and creates new ones there. So nothing is released, no address replaced and
//! nothing created because of answers from an account that lacks the known witnesses. Performs no I/O.

use std::net::IpAddr;

use super::effect::{ProofScope, ServiceAction};
use super::stored_state::annotations;
use super::waiting::Obstacle;
use super::work::Doing;
use super::{Facts, Step};
use crate::cloud::load_balancer::{Ingress, LoadBalancerStatus};
use crate::moment::Now;
use crate::node_lifecycle::deletion_guard::is_deletion_asked_for;
use crate::well_known::DELETE_UNTIL;

/// Account that a reconciliation relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// The provider's [generation](crate::cloud_provider::CloudProvider::generation) when the reconciliation began; evidence
    /// counts for this generation only.
    pub generation: u64,
    /// Whether this generation was proven before.
    pub is_known: bool,
}

impl Default for Account {
    fn default() -> Account {
        Account {
            generation: 0,
            is_known: true,
        }
    }
}

/// Step required before an ensure call: with an unproven credential it might create a second load balancer in another
/// account.
pub(super) fn unproven(facts: &Facts, now: Now) -> Option<Step<'_>> {
    if facts.account.is_known {
        return None;
    }
    proof(facts, false, now)
}

/// Step required before an answer is used that only the cluster's own account may give; `None` when the account is
/// proven, when there is no witness, or when a person has given up the old load balancer.
pub(super) fn unknown(facts: &Facts, now: Now) -> Option<Step<'_>> {
    proof(facts, true, now)
}

fn proof(facts: &Facts, is_anew: bool, now: Now) -> Option<Step<'_>> {
    let until = annotations(&facts.service).get(DELETE_UNTIL);
    if is_deletion_asked_for(until.map(String::as_str), now.wall) {
        return None;
    }
    match &facts.state.witnesses {
        None => Some(Step::Do(vec![ServiceAction::ProveAccount(ProofScope {
            generation: facts.account.generation,
            is_anew,
        })])),
        Some(Ok(witnesses)) => {
            let is_other_account = witnesses.are_of_other_account();
            is_other_account.then(|| {
                Step::Wait(Obstacle::OtherAccount {
                    missing: &witnesses.missing,
                    is_gone: facts.is_gone,
                })
            })
        }
        Some(Err(error)) => Some(Step::Wait(Obstacle::Provider(Doing::Check, error))),
    }
}

/// Whether all stored IPs are replaced by others. Hostnames do not count: a user may have requested them.
pub(super) fn is_replaced(stored: &LoadBalancerStatus, answered: &LoadBalancerStatus) -> bool {
    is_same(stored, answered) == Some(false)
}

/// Whether this generation has given one of these addresses before, and another writer has replaced it since.
pub(super) fn was_given(facts: &Facts, answered: &LoadBalancerStatus) -> bool {
    let past = &facts.past.answers;
    past.generation == facts.account.generation && shares_address(&past.status, answered)
}

/// Whether a shown and a found load balancer are the same; `None` if one has no IP, but only a name that a user may
/// have requested.
pub fn is_same(shown: &LoadBalancerStatus, found: &LoadBalancerStatus) -> Option<bool> {
    let has_ip = |status: &LoadBalancerStatus| ips(status).next().is_some();
    (has_ip(shown) && has_ip(found)).then(|| shares_address(shown, found))
}

/// Whether both have an IP in common.
fn shares_address(one: &LoadBalancerStatus, other: &LoadBalancerStatus) -> bool {
    ips(one).any(|ip| ips(other).any(|same| same == ip))
}

fn ips(status: &LoadBalancerStatus) -> impl Iterator<Item = IpAddr> {
    status.ingress.iter().filter_map(Ingress::canonical_ip)
}
