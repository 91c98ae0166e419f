//! What the service controller hears of nodes. Whoever polls the stream of nodes passes everything on to [`NodeNews`],
//! which tells apart what changes the set of a load balancer's nodes and what does not (SVC-063): heartbeats of
//! thousands of nodes wake nobody.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::ownership::OwnershipContext;
use ccm_core::service::Targets;
use ccm_core::service::targets::{is_eligible, wakes};
use ccm_core::settings::ServiceSettings;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use crate::executor::EffectExecutor;

/// One end: sees all changes of nodes.
pub(crate) struct NodeNews {
    /// The nodes as they were, for comparison: the store's own objects, until it has others.
    known: HashMap<String, Arc<Node>>,
    said: watch::Sender<Said>,
    /// Whose load balancers are told: news of nodes that they do not reach are none.
    ownership: Arc<OwnershipContext>,
}

/// The other end: which nodes receive traffic now, and when that is to be handed on.
pub(crate) struct NodeSet {
    executor: Arc<EffectExecutor>,
    said: watch::Receiver<Said>,
    targets: Targets,
    /// How many changes `targets` has seen.
    seen: u64,
    /// When the changes that nobody was told of have begun, and when the last one was.
    unsettled: Option<(Moment, Moment)>,
    quiet: Duration,
    wait: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said {
    /// The first list is complete.
    is_complete: bool,
    /// How many changes of every kind there were.
    changes: u64,
}

/// One end, and what the other end is made of.
pub(crate) fn node_news(ownership: Arc<OwnershipContext>) -> (NodeNews, watch::Receiver<Said>) {
    let (said, heard) = watch::channel(Said::default());
    let news = NodeNews {
        known: HashMap::new(),
        said,
        ownership,
    };
    (news, heard)
}

impl NodeNews {
    /// This happened, and `store` has it.
    pub(crate) fn see(&mut self, event: &Event<Node>, store: &Store<Node>) {
        let wakes = match event {
            Event::Apply(node) => self.applied(name(node), store),
            Event::Delete(node) => {
                // Also one that was no target any more, of which nobody was told (SVC-064).
                let known = self.known.remove(name(node));
                known.is_some_and(|known| self.ownership.reaches(&known))
            }
            // During a list the store is still the old one.
            Event::Init | Event::InitApply(_) => return,
            Event::InitDone => self.listed(store),
        };
        self.said.send_if_modified(|said| {
            let is_first = !said.is_complete && matches!(event, Event::InitDone);
            said.is_complete |= is_first;
            said.changes += 1;
            wakes || is_first
        });
    }

    /// From now on there are other providers: which nodes are whose may have changed.
    pub(crate) fn reassign(&mut self, ownership: Arc<OwnershipContext>) {
        self.ownership = ownership;
        self.said.send_modify(|said| said.changes += 1);
    }

    fn applied(&mut self, name: &str, store: &Store<Node>) -> bool {
        let Some(node) = store.get(&ObjectRef::new(name)) else {
            return false;
        };
        let before = self.known.insert(name.to_owned(), node.clone());
        self.differs(before.as_deref(), &node)
    }

    fn listed(&mut self, store: &Store<Node>) -> bool {
        let nodes = store.state().into_iter();
        let now: HashMap<String, Arc<Node>> =
            nodes.map(|node| (name(&node).to_owned(), node)).collect();
        let before = std::mem::replace(&mut self.known, now);
        let is_gone = |name: &String| !self.known.contains_key(name);
        let is_other = |(name, node): (&String, &Arc<Node>)| {
            self.differs(before.get(name).map(|before| &**before), node)
        };
        before.keys().any(is_gone) || self.known.iter().any(is_other)
    }

    /// Whether a node that was like `before`, or was not there, is worth a look.
    fn differs(&self, before: Option<&Node>, now: &Node) -> bool {
        let is_reached = self.ownership.reaches(now);
        match before.filter(|before| self.ownership.reaches(before)) {
            Some(before) if is_reached => wakes(before, now),
            Some(before) => is_eligible(before),
            None => is_reached && is_eligible(now),
        }
    }
}

impl NodeSet {
    /// What receives traffic of the nodes that the provider of `executor` reaches; their news are told by `said`.
    pub(crate) fn new(
        executor: Arc<EffectExecutor>,
        said: watch::Receiver<Said>,
        settings: &ServiceSettings,
    ) -> NodeSet {
        NodeSet {
            executor,
            said,
            targets: Targets::of(std::iter::empty(), false),
            seen: 0,
            unsettled: None,
            quiet: settings.node_quiet,
            wait: settings.node_wait,
        }
    }

    /// Whether the first list is complete: before that, nobody knows who is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.said.borrow().is_complete
    }

    /// Ends when a change is worth a pass.
    pub(super) async fn changed(&mut self) {
        if self.said.changed().await.is_err() {
            // Nobody watches nodes any more: the manager is stopping.
            std::future::pending::<()>().await;
        }
    }

    /// A change is worth a pass, which begins when there is no other for a while.
    pub(super) fn unsettle(&mut self, now: Moment) {
        let first = self.unsettled.map_or(now, |(first, _)| first);
        self.unsettled = Some((first, now));
    }

    /// When the next pass is due, if there is to be one.
    pub(super) fn pass_at(&self) -> Option<Moment> {
        let (first, last) = self.unsettled?;
        Some(last.after(self.quiet).min(first.after(self.wait)))
    }

    /// The pass begins.
    pub(super) fn settle(&mut self) {
        self.unsettled = None;
    }

    /// The nodes that receive traffic, as they are known now. Made anew only when a node has changed.
    pub(super) fn targets(&mut self) -> &Targets {
        let said = *self.said.borrow();
        if said.changes != self.seen || !self.targets.is_synced {
            let nodes = self.executor.cluster.nodes.state();
            let ownership = self.executor.ownership();
            let reached = nodes.iter().filter(|node| ownership.reaches(node));
            self.targets = Targets::of(reached.map(|node| &**node), said.is_complete);
            self.seen = said.changes;
        }
        &self.targets
    }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}
