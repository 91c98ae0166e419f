//! State of a node between two reconciliations, and the filter for changes that need a new one. Keeps no node and
//! starts nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::confirm::Proposal;
use super::effect::Looked;
use super::facts::{Facts, RetainedState};
use super::index::Clashes;
use super::ownership::OwnershipContext;
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::reconciliation::conclusion::{Conclusion, Next};
use crate::reconciliation::effect::When;
use crate::reconciliation::own_write::OwnWrite;
use crate::reconciliation::retry;
use crate::settings::NodeRules;

/// Maximum age of a cloud answer when it is finally stored. A machine does not change in a minute. Longer than each delay
/// while the API server is away: otherwise every attempt at a write would ask the cloud again.
const FRESH: Duration = retry::AWAY.most.saturating_mul(2);

/// State of one node between reconciliations. After a restart it begins empty, which only costs calls.
#[derive(Debug, Default)]
pub struct NodeMemory {
    /// Fingerprint at the last wake-up; an equal one wakes nothing.
    fingerprint: Option<u64>,
    /// UID of the node that was reconciled last.
    uid: Box<str>,
    past: RetainedState,
    /// When this process first saw the taint on the node.
    tainted_since: Option<Moment>,
    last_write: LastWrite,
    /// An answer that could not be stored because the API server was unreachable.
    kept: Option<Box<KeptAnswer>>,
    /// Names of other nodes that have the machine, or an address, of the last answer.
    clashing: Vec<String>,
}

/// An answer of the provider that is kept for the next reconciliation.
#[derive(Debug)]
struct KeptAnswer {
    looked: Looked,
    answered: Moment,
    /// UID of the node that it is about.
    uid: Box<str>,
}

/// A node that has just been initialised.
#[derive(Debug)]
pub struct Initialised {
    /// The node without its taint.
    pub node: Arc<PrunedNode>,
    /// Time since this process first saw the taint.
    pub waited: Duration,
    /// The last obstacle, if there was one.
    pub obstacle: Option<String>,
    /// Number of reconciliations, from 1.
    pub attempts: u32,
}

/// Our last write of a node, and whether the cache has it.
#[derive(Debug, Default, Clone, Copy)]
enum LastWrite {
    /// There was no write, or the cache has it.
    #[default]
    Cached,
    /// The cache may be older than this write.
    Uncached(OwnWrite),
    /// The cache was older than this write, and the next turn only waits for it.
    Awaited(OwnWrite),
    /// The cache was older than this write, and the next turn, which has more to do, is due as soon as it is not.
    Overdue(OwnWrite),
}

/// A turn that has waited until the cache has our last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedTurn {
    /// It has nothing to do.
    Needless,
    /// It is due.
    Due,
}

impl From<Option<OwnWrite>> for LastWrite {
    fn from(written: Option<OwnWrite>) -> LastWrite {
        written.map_or(LastWrite::Cached, LastWrite::Uncached)
    }
}

impl NodeMemory {
    /// Requests a check of the addresses by the periodic pass.
    pub fn wants_refresh(&mut self) {
        self.past.refresh = true;
        self.has_more_to_do();
    }

    /// Records that the next turn does more than wait for our own write.
    pub fn has_more_to_do(&mut self) {
        if let LastWrite::Awaited(written) | LastWrite::Overdue(written) = self.last_write {
            self.last_write = LastWrite::Uncached(written);
        }
    }

    /// Whether the node waits for its initialisation, and the node `other` has its machine or an address of it.
    pub fn is_held_back_by(&self, other: &str) -> bool {
        self.tainted_since.is_some() && self.clashing.iter().any(|name| name == other)
    }

    /// Makes the next wake-up count as a change.
    pub fn reconsider(&mut self) {
        self.fingerprint = None;
    }

    /// Whether `node` differs from the last wake-up in a way that can change a decision.
    pub fn is_relevant_change(&mut self, node: &PrunedNode) -> bool {
        let fingerprint = Some(fingerprint(node));
        let is_relevant_change = self.fingerprint != fingerprint;
        self.fingerprint = fingerprint;
        if is_relevant_change {
            self.has_more_to_do();
        }
        is_relevant_change
    }

    /// The turn that waits for our own write, which `node`, in which nothing of interest has changed, is or includes. Mostly
    /// the turn has nothing to do: the first write of each new node is seen while the second is on its way. A retry has.
    pub fn caught_up(&mut self, node: &PrunedNode) -> Option<AwaitedTurn> {
        let (written, turn) = match self.last_write {
            LastWrite::Awaited(written) => (written, AwaitedTurn::Needless),
            LastWrite::Overdue(written) => (written, AwaitedTurn::Due),
            LastWrite::Uncached(_) | LastWrite::Cached => return None,
        };
        if written.is_newer_than(node.resource_version()) {
            return None;
        }
        self.last_write = LastWrite::Cached;
        Some(turn)
    }

    /// How long a reconciliation must wait because the cache does not have our last write yet: it would ask the
    /// provider about work already done.
    pub fn waits_for_cache(&mut self, cached: &PrunedNode, now: Moment) -> Option<Moment> {
        let (LastWrite::Uncached(written)
        | LastWrite::Awaited(written)
        | LastWrite::Overdue(written)) = self.last_write
        else {
            return None;
        };
        let expires_at = written.expires_at();
        if !written.is_newer_than(cached.resource_version()) || now >= expires_at {
            self.last_write = LastWrite::Cached;
            return None;
        }
        let has_more_to_do = self.past.refresh || self.past.failures > 0;
        self.last_write = match has_more_to_do || self.fingerprint.is_none() {
            true => LastWrite::Overdue(written),
            false => LastWrite::Awaited(written),
        };
        Some(expires_at)
    }

    /// The initial facts of a reconciliation of `node`.
    pub fn facts(
        &mut self,
        node: Arc<PrunedNode>,
        ownership: Arc<OwnershipContext>,
        rules: Arc<NodeRules>,
        now: Moment,
    ) -> Facts {
        // A node that was made again under the same name while the watch was interrupted does not inherit a backoff.
        if *self.uid != *node.uid() {
            self.uid = node.uid().into();
            self.past = RetainedState {
                refresh: self.past.refresh,
                ..RetainedState::default()
            };
            self.tainted_since = None;
        }
        if node.is_uninitialized() {
            self.tainted_since.get_or_insert(now);
        }
        self.kept
            .take_if(|kept| kept.answered.after(FRESH) < now || *kept.uid != *node.uid());
        let mut facts = Facts::new(node, ownership, rules, self.past.clone());
        if let Some(kept) = &self.kept {
            facts.recall(kept.looked.clone(), kept.answered);
        }
        facts
    }

    /// Stores the result of a reconciliation. Returns when the next one is due, and the initialisation if the node has
    /// lost its taint.
    pub fn conclude(
        &mut self,
        conclusion: Conclusion<Facts, Option<Proposal>>,
        now: Moment,
    ) -> (Next, Option<Initialised>) {
        let facts = conclusion.facts;
        if conclusion.has_written {
            self.last_write = OwnWrite::new(facts.node.resource_version(), now).into();
            self.fingerprint = Some(fingerprint(&facts.node));
        }
        match facts.unstored_answer() {
            // A stored answer keeps its age.
            Some(answer) => {
                self.kept.get_or_insert_with(|| {
                    Box::new(KeptAnswer {
                        looked: answer.clone(),
                        answered: now,
                        uid: facts.node.uid().into(),
                    })
                });
            }
            None => self.kept = None,
        }
        let clashes = facts.answer().map(|answer| &answer.clashes);
        let clashing = clashes.into_iter().flat_map(Clashes::nodes);
        self.clashing = clashing.map(str::to_owned).collect();
        if let Some(next) = conclusion.retained {
            let before = self.past.proposal.take();
            let before = before.filter(|(before, _)| *before == next);
            self.past.proposal = before.or(Some((next, now)));
        }
        self.past.is_unanswered = facts.is_unanswered();
        self.past.reservation = facts.reservation(now);
        let has_refreshed = facts.past.refresh;
        let initialised = self.initialised(facts.node, now);
        let next = match conclusion.when {
            When::AwaitChange => self.has_ended(None, has_refreshed),
            When::Blocked { why } => self.has_ended(Some(why), has_refreshed),
            When::Retry { after, why } => {
                self.has_failed(now, why);
                Next::At(now.after(after))
            }
            When::NotBefore { after, why } => {
                self.has_failed(now, why);
                Next::NotBefore(now.after(after))
            }
        };
        (next, initialised)
    }

    /// Stores that the reconciliation panicked. Returns when the next one is due.
    pub fn abandon(&mut self, now: Moment) -> Next {
        let after = retry::CLOUD.after(self.past.failures.saturating_add(1));
        self.has_failed(now, "the last reconciliation panicked".to_owned());
        Next::At(now.after(after))
    }

    fn has_ended(&mut self, obstacle: Option<String>, has_refreshed: bool) -> Next {
        self.past.failures = 0;
        self.past.waiting_since = None;
        // A check that was requested while it ran is still to be made.
        self.past.refresh &= !has_refreshed;
        let before = self.past.obstacle.take();
        self.past.obstacle = obstacle.map(|why| {
            let before = before.filter(|(before, _)| *before == why);
            let passes = before.map_or(0, |(_, passes)| {
                passes.saturating_add(u32::from(has_refreshed))
            });
            (why, passes)
        });
        Next::OnChange
    }

    fn has_failed(&mut self, now: Moment, obstacle: String) {
        self.past.failures = self.past.failures.saturating_add(1);
        self.past.waiting_since.get_or_insert(now);
        self.past.obstacle = Some((obstacle, 0));
    }

    /// The initialisation, once `node` has lost its taint.
    fn initialised(&mut self, node: Arc<PrunedNode>, now: Moment) -> Option<Initialised> {
        if node.is_uninitialized() {
            return None;
        }
        Some(Initialised {
            node,
            waited: self.tainted_since.take()?.until(now),
            obstacle: self.past.obstacle.take().map(|(why, _)| why),
            attempts: self.past.failures.saturating_add(1),
        })
    }
}

/// Hash of the parts of a node that can change a decision. Heartbeats, conditions and images cannot. For initialised
/// nodes, neither can annotations and addresses, which the periodic pass checks (NODE-012, NODE-060).
fn fingerprint(node: &PrunedNode) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.uid().hash(&mut hasher);
    node.labels().hash(&mut hasher);
    node.provider_id().hash(&mut hasher);
    for taint in node.taints() {
        (&taint.key, &taint.value, &taint.effect).hash(&mut hasher);
    }
    if node.is_uninitialized() {
        node.annotations().hash(&mut hasher);
        node.addresses().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
