//! Computes the targets sent to the provider; when most current targets would be removed, keeps each until its removal
//! is confirmed (`brake::target_removal`). Sends nothing.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use super::Facts;
use super::stored_state::load_balancer_status;
use super::targets::{self, names, union};
use super::waiting::Obstacle;
use crate::cloud::instance::CloudNode;
use crate::cloud::load_balancer::TargetNodes;
use crate::moment::Moment;
use crate::safety::brake::target_removal::{PendingRemoval, RemovalVerdict, judge};

/// Targets that may be sent now.
pub(super) struct EffectiveTargets {
    /// The nodes; `None` when they cannot be determined yet.
    pub(super) targets: Option<TargetNodes>,
    /// The obstacle, if they differ from the wanted ones.
    pub(super) hold: Option<Obstacle<'static>>,
    /// Pending removal to pass to the next reconciliation.
    pub(super) pending: Option<PendingRemoval>,
}

/// The effective targets of one decision, computed when it first needs them: there may be thousands of Services and of
/// nodes.
pub(super) type LazyTargets<'a> =
    LazyCell<EffectiveTargets, Box<dyn FnOnce() -> EffectiveTargets + 'a>>;

impl EffectiveTargets {
    pub(super) fn lazy(facts: &Facts, now: Moment) -> LazyTargets<'_> {
        LazyCell::new(Box::new(move || effective_targets(facts, now)))
    }
}

fn effective_targets(facts: &Facts, now: Moment) -> EffectiveTargets {
    let wanted = &facts.targets.nodes;
    let is_synced = facts.targets.is_synced;
    let confirmed = facts.confirmed();
    // The usual case; kept cheap.
    if confirmed.is_some_and(|confirmed| targets::keeps_all(confirmed, wanted)) {
        return EffectiveTargets {
            targets: Some(wanted.clone()),
            hold: None,
            pending: None,
        };
    }
    let current = match confirmed {
        Some(confirmed) => names(confirmed),
        // The provider's targets are unknown here. A Service with an address has or had some.
        None if !load_balancer_status(&facts.service).ingress.is_empty() && wanted.is_empty() => {
            BTreeSet::from([String::new()])
        }
        None => BTreeSet::new(),
    };
    if confirmed.is_none() && !is_synced {
        return EffectiveTargets {
            targets: None,
            hold: Some(Obstacle::NodesUnsynced),
            pending: None,
        };
    }
    let with = |is_kept: &dyn Fn(&CloudNode) -> bool| {
        confirmed.map(|confirmed| union(wanted, confirmed.iter().filter(|node| is_kept(node))))
    };
    let verdict = judge(
        &current,
        wanted,
        is_synced,
        facts.past.targets.removal.as_ref(),
        facts.world.rules.confirm_removal,
        now,
    );
    let all = || Some(wanted.clone());
    let (targets, hold, pending) = match verdict {
        RemovalVerdict::Go => (all(), None, None),
        RemovalVerdict::Confirmed(pending) => (all(), None, Some(pending)),
        RemovalVerdict::Unsynced => (with(&|_| true), Some(Obstacle::NodesUnsynced), None),
        RemovalVerdict::Confirm {
            pending,
            kept,
            again,
        } => {
            let targets = with(&|node| kept.contains(&node.name));
            let again = now.until(again);
            (targets, Some(Obstacle::Removal { again }), Some(pending))
        }
    };
    EffectiveTargets {
        targets,
        hold,
        pending,
    }
}
