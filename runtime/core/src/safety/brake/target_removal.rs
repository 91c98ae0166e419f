//! Confirmation of large target removals. No budget fits here: a backend that loses half of its targets is right after
//! a large scale-in, and an outage when the manager's view of the nodes is wrong. So a large removal needs a view that
//! is known to be complete, and the same request again a little later.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::moment::Moment;

/// Longer than a node controller or a watch needs to correct itself; far shorter than what users would notice, because
/// health checks take dead targets out anyway.
pub const CONFIRM_AFTER: Duration = Duration::from_secs(30);

/// A large removal that was requested once and awaits confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRemoval {
    since: Moment,
    remaining: BTreeSet<String>,
}

/// What to do about a change of targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalVerdict {
    /// The change removes no target, or few enough to be made at once.
    Go,
    /// The removal was requested before and may be made. Keep the pending removal until it is done, so that a slow
    /// removal that has begun is not undone.
    Confirmed(PendingRemoval),
    /// The node list is not synced yet.
    Unsynced,
    /// The removal has to be requested again, not before this moment. Keep the pending removal until then; adding
    /// targets does not have to wait.
    Confirm {
        /// Pass this as `before` next time.
        pending: PendingRemoval,
        /// When to ask again.
        again: Moment,
    },
}

/// Decides whether the targets of a load balancer may become `wanted`. `before` is the pending removal of the last
/// verdict, if any.
pub fn judge(
    current: &BTreeSet<String>,
    wanted: &BTreeSet<String>,
    nodes_synced: bool,
    before: Option<&PendingRemoval>,
    confirm_after: Duration,
    now: Moment,
) -> RemovalVerdict {
    if !is_large(current, wanted) {
        return RemovalVerdict::Go;
    }
    if !nodes_synced {
        return RemovalVerdict::Unsynced;
    }
    let remaining: BTreeSet<_> = current.intersection(wanted).cloned().collect();
    // Only a request that removes the same targets, or fewer, confirms the earlier one.
    let since = before
        .filter(|pending| pending.remaining.is_subset(&remaining))
        .map_or(now, |pending| pending.since);
    let again = since.after(confirm_after);
    let pending = PendingRemoval { since, remaining };
    if before.is_some() && again <= now && since < now {
        return RemovalVerdict::Confirmed(pending);
    }
    RemovalVerdict::Confirm { pending, again }
}

/// Whether all targets or more than half of them would be removed.
fn is_large(current: &BTreeSet<String>, wanted: &BTreeSet<String>) -> bool {
    let removed = current.difference(wanted).count();
    let none_remain = removed == current.len();
    removed > 0 && (none_remain || removed > current.len() / 2)
}
