//! Removing most targets of a load balancer at once is not a matter of a budget: a backend that loses half of its
//! machines is right after a large scale-in, and an outage when our own view of the nodes is wrong. So it needs a
//! view that is known to be whole, and the same wish again a little later.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::moment::Moment;

/// Longer than a node controller or a watch needs to correct itself, far shorter than a health check that takes
/// dead targets out anyway leaves users without an answer.
pub const CONFIRM_AFTER: Duration = Duration::from_secs(30);

/// A large removal that was wanted once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRemoval {
    since: Moment,
    remaining: BTreeSet<String>,
}

/// What is to be done about a change of targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may be made.
    Go,
    /// It was wanted before, and may be made. The wish is to be remembered until it is: what has begun and takes long is
    /// not undone.
    Confirmed(PendingRemoval),
    /// Nobody knows yet which nodes there are.
    Unsynced,
    /// It has to be wanted again, not before this moment. The wish is to be remembered until then; adding targets
    /// does not have to wait for it.
    Confirm {
        /// What to hand in the next time.
        wish: PendingRemoval,
        /// When.
        again: Moment,
    },
}

/// Whether the targets of a load balancer may become `wanted`. `before` is the wish that the last verdict gave, if
/// it gave one.
pub fn judge(
    current: &BTreeSet<String>,
    wanted: &BTreeSet<String>,
    nodes_synced: bool,
    before: Option<&PendingRemoval>,
    confirm_after: Duration,
    now: Moment,
) -> Verdict {
    if !is_large(current, wanted) {
        return Verdict::Go;
    }
    if !nodes_synced {
        return Verdict::Unsynced;
    }
    let remaining: BTreeSet<_> = current.intersection(wanted).cloned().collect();
    // Only what would take away the same, or less, confirms what was wanted before.
    let since = before
        .filter(|wish| wish.remaining.is_subset(&remaining))
        .map_or(now, |wish| wish.since);
    let again = since.after(confirm_after);
    let wish = PendingRemoval { since, remaining };
    if before.is_some() && again <= now && since < now {
        return Verdict::Confirmed(wish);
    }
    Verdict::Confirm { wish, again }
}

/// Whether all targets or more than half of them would go.
fn is_large(current: &BTreeSet<String>, wanted: &BTreeSet<String>) -> bool {
    let removed = current.difference(wanted).count();
    let none_remain = removed == current.len();
    removed > 0 && (none_remain || removed > current.len() / 2)
}
