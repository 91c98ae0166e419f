//! Whether the provider speaks of this cluster's account. A credential of another one answers honestly that no load balancer
//! of ours exists, and makes new ones there. So nothing is let go of, and no address is replaced, on the word of an account
//! in which nothing was found that is known to exist. Asks nobody.

use std::net::IpAddr;

use super::stored::annotations;
use super::waiting::{Doing, Obstacle};
use super::{Facts, Step};
use crate::effect::{ServiceEffect, Witnesses};
use crate::load_balancer::{Ingress, LoadBalancerStatus};
use crate::node_lifecycle::Now;
use crate::node_lifecycle::deletion_guard::is_said;

/// What comes before anything is believed that only the cluster's own account may say; `None` when that is known, when
/// nobody can vouch, or when a person has given the old load balancer up.
pub(super) fn unknown(facts: &Facts, now: Now) -> Option<Step<'_>> {
    if is_said(Some(annotations(&facts.service)), now.wall) {
        return None;
    }
    match &facts.learnt.witnesses {
        None => Some(Step::Do(vec![ServiceEffect::Vouch])),
        // What was made in another account by mistake is found there: the greater part has to be.
        Some(Ok(Witnesses { found, missing })) => {
            let is_strange = !missing.is_empty() && found.len() <= missing.len();
            is_strange.then(|| Step::Wait(Obstacle::Strange(missing)))
        }
        Some(Err(error)) => {
            let doing = Doing::Check;
            Some(Step::Wait(Obstacle::Provider { doing, error }))
        }
    }
}

/// Whether no IP that was there is there any more, and others are. A name says nothing: it is what somebody has asked for.
pub(super) fn is_replaced(stored: &LoadBalancerStatus, said: &LoadBalancerStatus) -> bool {
    let has_ip = |status: &LoadBalancerStatus| ips(status).next().is_some();
    has_ip(stored) && has_ip(said) && !shares_address(stored, said)
}

/// Whether both have an IP in common.
pub fn shares_address(one: &LoadBalancerStatus, other: &LoadBalancerStatus) -> bool {
    ips(one).any(|ip| ips(other).any(|same| same == ip))
}

fn ips(status: &LoadBalancerStatus) -> impl Iterator<Item = IpAddr> {
    status.ingress.iter().filter_map(Ingress::canonical_ip)
}
