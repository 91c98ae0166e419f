//! Node changes for the service controller. The consumer of the node stream passes everything to [`NodeChangeFilter`], which
//! filters the changes that affect load balancer targets (SVC-063): heartbeats of thousands of nodes wake nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::load_balancer::TargetNodes;
use ccm_core::moment::Moment;
use ccm_core::node::object::PrunedNode;
use ccm_core::node::ownership::OwnershipContext;
use ccm_core::service::Targets;
use ccm_core::service::targets::{are_same, is_eligible, is_seen_otherwise, wakes};
use ccm_core::settings::ServiceSettings;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use crate::executor::EffectExecutor;
use crate::node_store::NodeStore;

/// The sending side: sees all node changes.
pub(crate) struct NodeChangeFilter {
    /// The previous nodes, for comparison; shares the store's objects until it replaces them.
    known: HashMap<String, Arc<PrunedNode>>,
    count: watch::Sender<ChangeCount>,
    /// The provider's ownership: changes of nodes that its load balancers do not reach are ignored.
    ownership: Arc<OwnershipContext>,
}

/// The receiving side: the current targets, and when load balancers get them.
pub(crate) struct NodeSet {
    executor: Arc<EffectExecutor>,
    count: watch::Receiver<ChangeCount>,
    targets: Targets,
    /// A list that is equal to `targets` for a load balancer; the same one until the targets really change.
    shared: TargetNodes,
    /// Number of changes that `targets` includes.
    seen: u64,
    /// First and last change since the last pass.
    unsettled: Option<(Moment, Moment)>,
    quiet: Duration,
    wait: Duration,
}

/// A pass that gives load balancers the changed nodes (SVC-065).
pub(super) struct Pass {
    pub(super) began: Moment,
    /// When the first of the passes began that this one continues.
    pub(super) since: Moment,
    /// The Services that have not got the nodes yet.
    pub(super) left: HashSet<String>,
}

impl Pass {
    /// A pass over `left` that begins now and continues `before`, which has not ended.
    pub(super) fn begin(now: Moment, mut left: HashSet<String>, before: Option<Pass>) -> Pass {
        let mut since = now;
        if let Some(before) = before {
            since = before.since;
            left.extend(before.left);
        }
        Pass {
            began: now,
            since,
            left,
        }
    }

    /// Removes a Service after a reconciliation that began at `began`; returns whether it was left. One that began
    /// before the pass may have used older nodes: another one follows it.
    pub(super) fn removes(&mut self, key: &str, began: Moment) -> bool {
        self.began <= began && self.left.remove(key)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChangeCount {
    /// Whether the first list is complete.
    is_complete: bool,
    /// Number of changes so far that changed what providers see of the targets.
    changes: u64,
}

/// What a change of nodes means for load balancers.
#[derive(Debug, Clone, Copy, Default)]
struct TargetChange {
    /// Providers see other targets, of which the next request tells them.
    is_seen: bool,
    /// A pass tells them at once.
    wakes: bool,
}

impl TargetChange {
    fn and(self, other: TargetChange) -> TargetChange {
        TargetChange {
            is_seen: self.is_seen || other.is_seen,
            wakes: self.wakes || other.wakes,
        }
    }
}

/// Creates the sender and the channel for [`NodeSet`].
pub(crate) fn node_changes(
    ownership: Arc<OwnershipContext>,
) -> (NodeChangeFilter, watch::Receiver<ChangeCount>) {
    let (count, receiver) = watch::channel(ChangeCount::default());
    let filter = NodeChangeFilter {
        known: HashMap::new(),
        count,
        ownership,
    };
    (filter, receiver)
}

impl NodeChangeFilter {
    /// Handles an event that `store` has applied.
    pub(crate) fn see(&mut self, event: &Event<Arc<PrunedNode>>, store: &NodeStore) {
        let change = match event {
            Event::Apply(node) => self.applied(node.name(), store),
            Event::Delete(node) => {
                let known = self.known.remove(node.name());
                self.change(known.as_deref(), None)
            }
            // Until a list is complete, the store still holds the old nodes.
            Event::Init | Event::InitApply(_) => return,
            Event::InitDone => self.listed(store),
        };
        self.count.send_if_modified(|count| {
            let is_first = !count.is_complete && matches!(event, Event::InitDone);
            count.is_complete |= is_first;
            count.changes += u64::from(change.is_seen);
            change.wakes || is_first
        });
    }

    /// Handles a changed set of providers, which may change the owner of nodes.
    pub(crate) fn reassign(&mut self, ownership: Arc<OwnershipContext>) {
        let before = std::mem::replace(&mut self.ownership, ownership);
        let is_other = |node: &Arc<PrunedNode>| {
            is_eligible(node) && before.reaches(node) != self.ownership.reaches(node)
        };
        if self.known.values().any(is_other) {
            self.count.send_modify(|count| count.changes += 1);
        }
    }

    fn applied(&mut self, name: &str, store: &NodeStore) -> TargetChange {
        let Some(node) = store.get(name) else {
            return TargetChange::default();
        };
        let before = self.known.insert(name.to_owned(), node.clone());
        self.change(before.as_deref(), Some(&node))
    }

    fn listed(&mut self, store: &NodeStore) -> TargetChange {
        let nodes = store.all().into_iter();
        let now: HashMap<String, Arc<PrunedNode>> =
            nodes.map(|node| (node.name().to_owned(), node)).collect();
        let before = std::mem::replace(&mut self.known, now);
        let gone = before
            .iter()
            .filter(|(name, _)| !self.known.contains_key(*name));
        let gone = gone.map(|(_, node)| self.change(Some(node), None));
        let there = self.known.iter().map(|(name, node)| {
            let before = before.get(name).map(|before| &**before);
            self.change(before, Some(node))
        });
        gone.chain(there)
            .fold(TargetChange::default(), TargetChange::and)
    }

    /// What a change of a node from `before` to `now` means; `None` where there is no node.
    fn change(&self, before: Option<&PrunedNode>, now: Option<&PrunedNode>) -> TargetChange {
        let is_gone = now.is_none();
        let before = before.filter(|node| self.ownership.reaches(node));
        let now = now.filter(|node| self.ownership.reaches(node));
        TargetChange {
            is_seen: is_seen_otherwise(before, now),
            wakes: match (before, now) {
                (Some(before), Some(now)) => wakes(before, now),
                // Also for a node that was no target any more, whose removal from the targets triggered no pass
                // (SVC-064).
                (Some(before), None) => is_gone || is_eligible(before),
                (None, Some(now)) => is_eligible(now),
                (None, None) => false,
            },
        }
    }
}

impl NodeSet {
    /// Computes the targets among the nodes that the provider of `executor` reaches; `count` announces changes.
    pub(crate) fn new(
        executor: Arc<EffectExecutor>,
        count: watch::Receiver<ChangeCount>,
        settings: &ServiceSettings,
    ) -> NodeSet {
        NodeSet {
            executor,
            count,
            targets: Targets::unknown(),
            shared: Arc::default(),
            seen: 0,
            unsettled: None,
            quiet: settings.node_quiet,
            wait: settings.node_wait,
        }
    }

    /// Whether the first list is complete: before that, missing nodes are unknown.
    pub(super) fn is_complete(&self) -> bool {
        self.count.borrow().is_complete
    }

    /// Completes when a change needs a pass.
    pub(super) async fn changed(&mut self) {
        if self.count.changed().await.is_err() {
            // The watch has ended: the manager is stopping.
            std::future::pending::<()>().await;
        }
    }

    /// Registers a change; the pass begins when no other follows for a while.
    pub(super) fn unsettle(&mut self, now: Moment) {
        let first = self.unsettled.map_or(now, |(first, _)| first);
        self.unsettled = Some((first, now));
    }

    /// When the next pass is due, if any.
    pub(super) fn pass_at(&self) -> Option<Moment> {
        let (first, last) = self.unsettled?;
        Some(last.after(self.quiet).min(first.after(self.wait)))
    }

    /// Marks the beginning of the pass.
    pub(super) fn settle(&mut self) {
        self.unsettled = None;
    }

    /// Drops the targets until they are needed. Without own Services they would be the largest part of what a manager keeps
    /// of a node, and be recomputed each time that one of thousands of new nodes gets its machine.
    pub(super) fn forget_targets(&mut self) {
        self.targets = Targets::unknown();
        self.shared = Arc::default();
    }

    /// The current targets. Recomputed only when providers see others.
    pub(super) fn targets(&mut self) -> &Targets {
        let count = *self.count.borrow();
        if count.changes != self.seen || !self.targets.is_synced {
            let nodes = self.executor.cluster.nodes.all();
            let ownership = self.executor.ownership();
            let reached = nodes.iter().filter(|node| ownership.reaches(node));
            let targets = Targets::of(reached.map(|node| &**node), count.is_complete);
            self.targets = targets.sharing(&self.targets.nodes);
            self.seen = count.changes;
            if !are_same(&self.shared, &self.targets.nodes) {
                self.shared = self.targets.nodes.clone();
            }
        }
        &self.targets
    }

    /// The targets for a reconciliation; those `of_now` for what is no part of a pass. A change of the targets begins another
    /// pass, and newer labels wait for the next drift check; a list for each reconciliation in between would be one more
    /// list of all nodes, kept by its Service.
    pub(super) fn targets_for(&mut self, of_now: bool) -> &Targets {
        match of_now || !self.targets.is_synced {
            true => self.targets(),
            false => &self.targets,
        }
    }

    /// The current targets, to be compared with those of the Services: if nothing has changed, with the very list that
    /// they keep.
    pub(super) fn targets_for_pass(&mut self) -> Targets {
        let is_synced = self.targets().is_synced;
        Targets {
            nodes: self.shared.clone(),
            is_synced,
        }
    }

    /// The list that Services keep in place of equal ones. The current targets have newer labels, for the next request.
    pub(super) fn shared(&self) -> &TargetNodes {
        &self.shared
    }
}

#[cfg(test)]
mod tests;
