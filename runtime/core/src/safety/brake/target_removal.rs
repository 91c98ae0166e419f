//! Confirmation of large target removals. No budget fits here: a backend that loses half of its targets is right after
//! a large scale-in, and an outage when the manager's view of the nodes is wrong. So a large removal needs a view that
//! is known to be complete, and each target goes only after it has not been wanted for a while, without a break. That
//! time is each target's own: in a cluster whose nodes come and go all the time no two wishes are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::cloud::instance::CloudNode;
use crate::cloud::load_balancer::TargetNodes;
use crate::moment::Moment;

/// Longer than a node controller or a watch needs to correct itself; far shorter than what users would notice, because
/// health checks take dead targets out anyway.
pub const CONFIRM_AFTER: Duration = Duration::from_secs(30);

/// A large removal that was requested and awaits confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRemoval {
    /// Since when every request would remove most targets.
    since: Moment,
    /// What was wanted last, sorted by name. The list is the one that all Services share: a copy of its names for each
    /// of thousands of them would fill the memory just when all nodes seem to be gone.
    wanted: TargetNodes,
    /// The targets that were wanted after `since` and are not any more, and since when.
    late: BTreeMap<String, Moment>,
}

/// What to do about a change of targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalVerdict {
    /// The change removes no target, or few enough to be made at once.
    Go,
    /// No target that would be removed was wanted for long enough: all of them may go. Keep the pending removal until it
    /// is done, so that a slow removal that has begun is not undone.
    Confirmed(PendingRemoval),
    /// The node list is not synced yet.
    Unsynced,
    /// Some targets have to stay; the others may go, and adding targets does not have to wait.
    Confirm {
        /// Pass this as `before` next time.
        pending: PendingRemoval,
        /// The targets that stay for now: they were wanted a short time ago.
        kept: BTreeSet<String>,
        /// When to ask again.
        again: Moment,
    },
}

/// Decides whether the targets of a load balancer may become `wanted`, which is sorted by name. `before` is the pending
/// removal of the last verdict, if any.
pub fn judge(
    current: &BTreeSet<String>,
    wanted: &TargetNodes,
    nodes_synced: bool,
    before: Option<&PendingRemoval>,
    confirm_after: Duration,
    now: Moment,
) -> RemovalVerdict {
    let removed = current.iter().filter(|name| !has(wanted, name));
    let removed: Vec<&String> = removed.collect();
    if !is_large(removed.len(), current.len()) {
        return RemovalVerdict::Go;
    }
    if !nodes_synced {
        return RemovalVerdict::Unsynced;
    }
    let pending = PendingRemoval {
        since: before.map_or(now, |before| before.since),
        wanted: wanted.clone(),
        late: before.map_or_else(BTreeMap::new, |before| before.late(&removed, now)),
    };
    // Also with a wait of zero, one request alone confirms nothing.
    let is_kept = |name: &&String| {
        let since = pending.unwanted_since(name);
        since >= now || since.after(confirm_after) > now
    };
    let kept: BTreeSet<String> = removed.into_iter().filter(is_kept).cloned().collect();
    let since = kept.iter().map(|name| pending.unwanted_since(name));
    match since.min() {
        None => RemovalVerdict::Confirmed(pending),
        Some(since) => RemovalVerdict::Confirm {
            pending,
            kept,
            again: since.after(confirm_after),
        },
    }
}

impl PendingRemoval {
    /// Those of `removed`, which are not wanted `now`, that were wanted at a request since this removal began.
    fn late(&self, removed: &[&String], now: Moment) -> BTreeMap<String, Moment> {
        let since = |name: &str| match has(&self.wanted, name) {
            true => Some(now),
            false => self.late.get(name).copied(),
        };
        let late = removed.iter();
        late.filter_map(|name| Some(((*name).clone(), since(name)?)))
            .collect()
    }

    /// Since when this target has not been wanted at any request.
    fn unwanted_since(&self, name: &str) -> Moment {
        self.late.get(name).copied().unwrap_or(self.since)
    }
}

fn has(nodes: &[Arc<CloudNode>], name: &str) -> bool {
    let place = nodes.binary_search_by(|node| node.name.as_str().cmp(name));
    place.is_ok()
}

/// Whether all targets or more than half of them would be removed.
fn is_large(removed: usize, current: usize) -> bool {
    removed > 0 && (removed == current || removed > current / 2)
}
