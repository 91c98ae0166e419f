//! Whether the provider speaks of this cluster's account. A credential of another one answers honestly that no load balancer
//! of ours exists, and makes new ones there. So nothing is let go of, no address is replaced and nothing is made on the word of an
//! account in which nothing was found that is known to exist. Asks nobody.

use std::net::IpAddr;

use super::stored_state::annotations;
use super::waiting::{Doing, Obstacle};
use super::{Facts, Step};
use crate::effect::{ServiceEffect, Vouching};
use crate::load_balancer::{Ingress, LoadBalancerStatus};
use crate::moment::Now;
use crate::node_lifecycle::deletion_guard::is_said;

/// Which account a reconciliation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// The provider's [generation](crate::cloud::CloudProvider::generation) when the reconciliation began: whoever vouches for
    /// its answers does so for this one.
    pub generation: u64,
    /// Whether somebody has vouched for that generation before.
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

/// What comes before a load balancer is asked for: with a credential of which nobody knows yet whose it is, another one would
/// be made beside the one that is there.
pub(super) fn unproven(facts: &Facts, now: Now) -> Option<Step<'_>> {
    if facts.account.is_known {
        return None;
    }
    vouched(facts, false, now)
}

/// What comes before anything is believed that only the cluster's own account may say; `None` when that is known, when
/// nobody can vouch, or when a person has given the old load balancer up.
pub(super) fn unknown(facts: &Facts, now: Now) -> Option<Step<'_>> {
    vouched(facts, true, now)
}

fn vouched(facts: &Facts, is_anew: bool, now: Now) -> Option<Step<'_>> {
    if is_said(Some(annotations(&facts.service)), now.wall) {
        return None;
    }
    match &facts.state.witnesses {
        None => Some(Step::Do(vec![ServiceEffect::Vouch(Vouching {
            generation: facts.account.generation,
            is_anew,
        })])),
        Some(Ok(witnesses)) => {
            let is_strange = witnesses.are_strange();
            is_strange.then(|| Step::Wait(Obstacle::Strange(&witnesses.missing)))
        }
        Some(Err(error)) => {
            let doing = Doing::Check;
            Some(Step::Wait(Obstacle::Provider { doing, error }))
        }
    }
}

/// Whether no IP that was there is there any more, and others are. A name says nothing: it is what somebody has asked for.
pub(super) fn is_replaced(stored: &LoadBalancerStatus, said: &LoadBalancerStatus) -> bool {
    is_same(stored, said) == Some(false)
}

/// Whether a load balancer that is shown so and found so is the same one; `None` where one of them has no IP, but a name that
/// somebody has asked for.
pub fn is_same(shown: &LoadBalancerStatus, found: &LoadBalancerStatus) -> Option<bool> {
    let has_ip = |status: &LoadBalancerStatus| ips(status).next().is_some();
    (has_ip(shown) && has_ip(found)).then(|| shares_address(shown, found))
}

/// Whether both have an IP in common.
pub(super) fn shares_address(one: &LoadBalancerStatus, other: &LoadBalancerStatus) -> bool {
    ips(one).any(|ip| ips(other).any(|same| same == ip))
}

fn ips(status: &LoadBalancerStatus) -> impl Iterator<Item = IpAddr> {
    status.ingress.iter().filter_map(Ingress::canonical_ip)
}
