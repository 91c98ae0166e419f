//! History of one NotReady node. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::reconciliation::retry::Backoff;

use super::deletion_guard::Held;
use super::facts::Finding;
use super::survey::LookupGroup;

/// Delays between look-ups for a node that is NotReady and found: its kubelet has died, or its machine is about to.
pub(super) const FOUND: Backoff = Backoff {
    first: Duration::from_secs(5),
    most: Duration::from_secs(60),
};
/// How long a provider's wrong "gone" for a node counts against it.
const MEMORY: Duration = Duration::from_secs(3600);
/// Number of consecutive uncounted answers before they are reported: about half a minute.
const UNCOUNTED: u32 = 3;
/// Limit: further answers prove no more, and a node that is gone has to be deleted some day.
const MOST_CHANGES: u32 = 4;

/// History of one NotReady node.
#[derive(Debug, Clone)]
pub(super) struct NodeHistory {
    pub(super) uid: String,
    provider_id: Option<String>,
    /// Since when it has been NotReady, as observed by this process.
    pub(super) not_ready_since: Moment,
    transition: Option<Timestamp>,
    /// Whether it was Ready in the previous pass.
    pub(super) was_ready: bool,
    /// Number of consecutive answers without a reason to ask sooner.
    pub(super) quiet: u32,
    /// When to look it up again.
    pub(super) next: Moment,
    /// Earliest time to include it in the look-up of other nodes.
    pub(super) earliest: Moment,
    pub(super) gone: Option<Gone>,
    pub(super) group: LookupGroup,
    /// Number of consecutive answers that did not count.
    uncounted: u32,
    changes: u32,
    changed: Option<Moment>,
    /// It is young and awaits initialisation: the node controller looks it up.
    pub(super) is_starting: bool,
    /// A look-up or a reconciliation of it is in progress.
    pub(super) is_busy: bool,
    /// Result of this pass.
    pub(super) finding: Option<Noted>,
    pub(super) past: super::facts::RetainedState,
}

/// Result of a pass for a node.
#[derive(Debug, Clone)]
pub(super) enum Noted {
    /// Its machine is called gone; valid as long as [`NodeHistory::gone`] is set.
    Gone,
    /// Any other finding.
    Other(Finding),
}

/// Maximum number of nodes that are named as found: one proves that the answers are about this cluster.
pub(super) const NAMED: usize = 3;

/// An unbroken row of complete answers that call the node gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Receipt of the first answer.
    pub first: Moment,
    /// When the last one was requested.
    pub last: Moment,
    /// Number of answers in the row.
    pub answers: u32,
    /// Whether the last one used no cached data.
    pub is_fresh: bool,
    /// Nodes found by the previous answer, of which all nodes of that answer share one set.
    pub(super) found_first: Arc<BTreeSet<String>>,
    /// Up to three nodes that both the previous and the last answer found under their stored provider ID.
    pub known_good: BTreeSet<String>,
}

impl NodeHistory {
    pub(super) fn new(node: &PrunedNode, now: Moment) -> NodeHistory {
        NodeHistory {
            uid: node.uid().to_owned(),
            provider_id: node.provider_id().map(str::to_owned),
            not_ready_since: now,
            transition: transition(node),
            was_ready: false,
            quiet: 0,
            next: now,
            earliest: now,
            gone: None,
            group: LookupGroup::Identified,
            uncounted: 0,
            changes: 0,
            changed: None,
            is_starting: false,
            is_busy: false,
            finding: None,
            past: super::facts::RetainedState::default(),
        }
    }

    /// Whether this history belongs to `node`: a recreated node, or one with a new provider ID, gets its own.
    pub(super) fn is_about(&self, node: &PrunedNode) -> bool {
        node.uid() == self.uid && node.provider_id() == self.provider_id.as_deref()
    }

    /// Notes that the node is NotReady now. It may have been Ready between two passes.
    pub(super) fn see(&mut self, node: &PrunedNode, now: Moment) {
        let transition = transition(node);
        if transition != self.transition || self.was_ready {
            if self.was_ready {
                self.reset_backoff(now);
            }
            self.was_ready = false;
            self.transition = transition;
            self.not_ready_since = now;
            self.gone = None;
            self.past.braked = None;
        }
    }

    /// Notes an answer that does not count, for this reason.
    pub(super) fn is_uncounted(&mut self, held: Held) {
        self.uncounted = self.uncounted.saturating_add(1);
        if self.uncounted >= UNCOUNTED {
            self.finding = Some(Noted::Other(Finding::Held(held)));
        }
    }

    /// Notes an answer that counts.
    pub(super) fn counts(&mut self) {
        self.uncounted = 0;
        self.finding = None;
        self.group = LookupGroup::Identified;
    }

    /// Notes a complete answer, requested at `asked` and received `now`, that calls it gone; `found` are the existing
    /// nodes of the same answer. The gap between two answers runs from the receipt of one to the request of the next:
    /// overlapping look-ups count as one.
    pub(super) fn is_called_gone(
        &mut self,
        asked: Moment,
        now: Moment,
        is_fresh: bool,
        found: &Arc<BTreeSet<String>>,
    ) {
        match &mut self.gone {
            Some(gone) => {
                gone.last = asked;
                gone.answers = gone.answers.saturating_add(1);
                gone.is_fresh = is_fresh;
                if gone.found_first.is_empty() && !found.is_empty() {
                    // Answers without a witness have proved nothing: the row begins here.
                    gone.first = now;
                    gone.answers = 1;
                    gone.found_first.clone_from(found);
                }
                let both = gone.found_first.intersection(found);
                gone.known_good = both.take(NAMED).cloned().collect();
                // Witnesses change during a long hold: those found now serve the next answer.
                gone.found_first.clone_from(found);
            }
            None => {
                self.gone = Some(Gone {
                    first: now,
                    last: asked,
                    answers: 1,
                    is_fresh,
                    found_first: found.clone(),
                    known_good: BTreeSet::new(),
                });
            }
        }
    }

    /// Notes an answer that says that the machine exists.
    pub(super) fn is_called_found(&mut self, now: Moment) {
        self.past.braked = None;
        if self.gone.take().is_some() {
            self.changes = self.recent_changes(now).saturating_add(1);
            self.changed = Some(now);
        }
    }

    /// Number of answers required to believe that it is gone.
    pub(super) fn enough(&self, now: Moment) -> u32 {
        2 + self.recent_changes(now).min(MOST_CHANGES)
    }

    fn recent_changes(&self, now: Moment) -> u32 {
        match self.changed {
            Some(at) if at.after(MEMORY) > now => self.changes,
            Some(_) | None => 0,
        }
    }

    /// Cancels the back-off, because the node's state has changed.
    pub(super) fn reset_backoff(&mut self, now: Moment) {
        self.quiet = 0;
        self.next = now;
        self.earliest = now;
    }

    /// Schedules the next look-up after an answer without urgency.
    pub(super) fn back_off(&mut self, now: Moment) {
        self.quiet = self.quiet.saturating_add(1);
        self.next = now.after(FOUND.after(self.quiet));
        self.earliest = now.after(FOUND.first);
    }
}

/// The transition time in the node's Ready condition; only compared for equality.
pub(super) fn transition(node: &PrunedNode) -> Option<Timestamp> {
    node.ready_condition()?.since
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_gone_counts_against_the_provider_for_an_hour() {
        let node = json!({ "metadata": { "name": "a", "uid": "u" } });
        let node: PrunedNode = serde_json::from_value(node).unwrap();
        let at = |second| Moment(Duration::from_secs(second));
        let mut history = NodeHistory::new(&node, at(0));
        history.is_called_gone(at(0), at(1), false, &Arc::default());
        history.is_called_found(at(100));
        let enough = [100, 3699, 3700].map(|second| history.enough(at(second)));
        assert_eq!(enough, [3, 3, 2]);
    }
}
