//! Which nodes the provider is handed: those that are wanted, and, where most of the ones before would go, those too
//! until it is certain (`brake::targets`). Sends nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Facts;
use super::stored_state::load_balancer_status;
use super::targets::{self, names, union};
use super::waiting::Obstacle;
use crate::brake::targets::{PendingRemoval, Verdict, judge};
use crate::cloud::instance::CloudNode;
use crate::moment::Moment;

/// What may be handed now.
pub(super) struct EffectiveTargets<'a> {
    /// The nodes; `None` when nothing is known that could be.
    pub(super) targets: Option<Arc<[CloudNode]>>,
    /// Why these are not all that is wanted.
    pub(super) hold: Option<Obstacle<'a>>,
    /// What the next reconciliation has to hand in again.
    pub(super) wish: Option<PendingRemoval>,
}

pub(super) fn effective_targets(facts: &Facts, now: Moment) -> EffectiveTargets<'_> {
    let wanted = &facts.targets.nodes;
    let is_synced = facts.targets.is_synced;
    let confirmed = facts.confirmed();
    // Nearly always; and there may be thousands of Services and of nodes.
    if confirmed.is_some_and(|confirmed| targets::keeps_all(confirmed, wanted)) {
        return EffectiveTargets {
            targets: Some(wanted.clone()),
            hold: None,
            wish: None,
        };
    }
    let current = match confirmed {
        Some(confirmed) => names(confirmed),
        // Whom the provider knows, nobody here does. What has addresses has, or had, targets.
        None if !load_balancer_status(&facts.service).ingress.is_empty() && wanted.is_empty() => {
            BTreeSet::from([String::new()])
        }
        None => BTreeSet::new(),
    };
    if confirmed.is_none() && !is_synced {
        return EffectiveTargets {
            targets: None,
            hold: Some(Obstacle::NodesUnsynced),
            wish: None,
        };
    }
    let kept = || confirmed.map(|confirmed| union(wanted, confirmed));
    let verdict = judge(
        &current,
        &names(wanted),
        is_synced,
        facts.past.wish.as_ref(),
        facts.world.rules.confirm_removal,
        now,
    );
    match verdict {
        Verdict::Go => EffectiveTargets {
            targets: Some(wanted.clone()),
            hold: None,
            wish: None,
        },
        Verdict::Confirmed(wish) => EffectiveTargets {
            targets: Some(wanted.clone()),
            hold: None,
            wish: Some(wish),
        },
        Verdict::Unsynced => EffectiveTargets {
            targets: kept(),
            hold: Some(Obstacle::NodesUnsynced),
            wish: None,
        },
        Verdict::Confirm { wish, again } => EffectiveTargets {
            targets: kept(),
            hold: Some(Obstacle::Removal {
                again: now.until(again),
            }),
            wish: Some(wish),
        },
    }
}
