//! What the controllers of all providers share: the clock, the tenure, what is known of all nodes and Services together,
//! the cluster's part of the brakes, the bound on writes, the Events, the plan. There is one for a leadership, however
//! many providers come and go. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccm_core::brake::Objects;
use ccm_core::node_index::NodeIndex;
use ccm_core::ownership::{ClaimRegistry, OwnershipContext, owner, stored_provider_id};
use ccm_core::permit::Mode;
use ccm_core::tenure::Tenure;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::runtime::reflector::Store;
use tokio::sync::{Semaphore, mpsc};

use crate::Settings;
use crate::clock::Clock;
use crate::executor::{BudgetStore, Events};
use crate::metrics::Metrics;
use crate::node::NodeChange;
use crate::plan::Planner;
use crate::service::ServiceIndex;

/// See the module's documentation.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) mode: Mode,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) metrics: Metrics,
    pub(crate) planner: Arc<Planner>,
    pub(crate) events: Events,
    pub(crate) budget_store: BudgetStore,
    /// All nodes. Whoever watches them keeps it true, and [`Cluster::node_index`] with it.
    pub(crate) nodes: Store<Node>,
    /// How many new nodes are written at the same time, and how many known ones. Each provider has such a bound of its
    /// own before it, so that one with thousands of nodes takes its turns one by one like all others.
    pub(crate) new: Semaphore,
    pub(crate) known: Semaphore,
    node_index: Mutex<NodeIndex>,
    service_index: Mutex<ServiceIndex>,
    claims: Mutex<ClaimRegistry>,
    /// How many routes each provider has, as far as it was asked.
    routes: Mutex<BTreeMap<String, usize>>,
    /// By provider: whoever is woken when another one has said something that is waited for.
    listeners: Mutex<BTreeMap<String, mpsc::UnboundedSender<NodeChange>>>,
}

impl Cluster {
    /// Nothing is known yet; `nodes` is empty.
    pub(crate) fn new(
        client: Client,
        settings: &Settings,
        metrics: Metrics,
        nodes: Store<Node>,
    ) -> Cluster {
        let clock = Clock::start(settings.pace);
        let planner = Planner::new(
            settings.plan.clone(),
            settings.mode,
            settings.audit.clone(),
            metrics.clone(),
        );
        Cluster {
            events: Events::new(client.clone(), settings.tenure.clone()),
            budget_store: BudgetStore::new(client.clone(), settings, clock, metrics.clone()),
            client,
            clock,
            mode: settings.mode,
            tenure: settings.tenure.clone(),
            metrics,
            planner: Arc::new(planner),
            nodes,
            new: Semaphore::new(settings.node.concurrent_syncs.get()),
            known: Semaphore::new(settings.node.status_updates().get()),
            node_index: Mutex::default(),
            service_index: Mutex::default(),
            claims: Mutex::default(),
            routes: Mutex::default(),
            listeners: Mutex::default(),
        }
    }

    /// What is known of all nodes together.
    pub(crate) fn node_index(&self) -> MutexGuard<'_, NodeIndex> {
        locked(&self.node_index)
    }

    /// What is known of all Services together.
    pub(crate) fn service_index(&self) -> MutexGuard<'_, ServiceIndex> {
        locked(&self.service_index)
    }

    /// Who has said what about nodes that several providers could speak for.
    pub(crate) fn claims(&self) -> MutexGuard<'_, ClaimRegistry> {
        locked(&self.claims)
    }

    /// From now on `changes` hears for `provider` that a node is to be looked at again.
    pub(crate) fn listen(&self, provider: &str, changes: mpsc::UnboundedSender<NodeChange>) {
        locked(&self.listeners).insert(provider.to_owned(), changes);
    }

    /// These providers look at the node of this name again.
    pub(crate) fn wake(&self, providers: &[String], name: &str) {
        let listeners = locked(&self.listeners);
        for provider in providers {
            if let Some(changes) = listeners.get(provider) {
                // Who does not listen any more needs nothing.
                let _ = changes.send(NodeChange::Requeued(name.to_owned()));
            }
        }
    }

    /// `provider` does not run any more.
    pub(crate) fn leave(&self, provider: &str) {
        locked(&self.listeners).remove(provider);
        locked(&self.routes).remove(provider);
        self.claims().withdraw(provider);
    }

    /// How many nodes have a machine, of this provider and of all.
    pub(crate) fn machines(&self, ownership: &OwnershipContext) -> Objects {
        let nodes = self.nodes.state();
        let machines = nodes
            .iter()
            .filter(|node| stored_provider_id(node).is_some());
        let own = machines.filter(|node| owner(node, ownership).is_ours());
        Objects {
            own: own.count(),
            all: nodes.len(),
        }
    }

    /// `provider` has so many routes: how many that are, beside those of all.
    pub(crate) fn count_routes(&self, provider: &str, own: usize) -> Objects {
        let mut routes = locked(&self.routes);
        routes.insert(provider.to_owned(), own);
        let all = routes
            .values()
            .fold(0_usize, |sum, one| sum.saturating_add(*one));
        Objects { own, all }
    }

    /// All nodes were listed: whoever is not in the store is gone.
    pub(crate) fn keep_listed(&self) {
        let nodes = self.nodes.state();
        let names = nodes
            .iter()
            .filter_map(|node| node.metadata.name.as_deref());
        let names: BTreeSet<&str> = names.collect();
        let uids = nodes.iter().filter_map(|node| node.metadata.uid.as_deref());
        let uids: BTreeSet<&str> = uids.collect();
        self.claims().keep(|uid| uids.contains(uid));
        let mut node_index = self.node_index();
        node_index.keep(|name| names.contains(name));
        nodes.iter().for_each(|node| node_index.apply(node));
    }
}

/// Nothing that is done under these locks can panic half-way; a poisoned one is as good as any.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
