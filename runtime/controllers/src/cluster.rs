//! State shared by the controllers of all providers: the clock, the tenure, the indexes of all nodes and Services, the
//! cluster's brake budgets, the write limits, the Events and the plan. Exists once per leadership, however many
//! providers come and go. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::node::index::NodeIndex;
use ccm_core::node::ownership::{ClaimRegistry, OwnershipContext, owner};
use ccm_core::safety::brake::Objects;
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use ccm_core::service::{GoneService, uid};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::Settings;
use crate::activity::Activity;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::executor::{BudgetStore, DeferredEvents, Events, NodeWrites};
use crate::metrics::Metrics;
use crate::node::NodeChange;
use crate::node_store::NodeStore;
use crate::plan::Planner;
use crate::service::ServiceIndex;

/// How long an answer may wait for the first list of all nodes; after that it is dropped, and asked for again.
const LISTED_WITHIN: Duration = Duration::from_secs(30);

/// Progress of the first list of all nodes. Later lists replace the known nodes at their end, so that all stay known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstList {
    /// Some nodes may be unknown.
    UnderWay,
    /// Every node is known.
    Complete,
    /// The manager stops before the list is complete.
    GivenUp,
}

/// The shared state of one leadership.
pub(crate) struct Cluster {
    pub(crate) clients: Clients,
    pub(crate) clock: Clock,
    pub(crate) mode: Mode,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) metrics: Metrics,
    pub(crate) planner: Arc<Planner>,
    pub(crate) activity: Activity,
    pub(crate) events: Events,
    pub(crate) deferred_events: DeferredEvents,
    pub(crate) budget_store: BudgetStore,
    /// All nodes. Kept up to date by the node watch, together with [`Cluster::node_index`].
    pub(crate) nodes: NodeStore,
    /// Maximum concurrent writes of uninitialised nodes, and of known ones. Each provider has its own such limit in
    /// front of it, so that a provider with thousands of nodes waits for each permit like all others.
    pub(crate) new: Semaphore,
    pub(crate) known: Semaphore,
    pub(crate) new_nodes: NodeWrites,
    pub(crate) known_nodes: NodeWrites,
    first_list: watch::Sender<FirstList>,
    node_index: Mutex<NodeIndex>,
    service_index: Mutex<ServiceIndex>,
    /// By provider and UID: the Services that are gone and whose load balancers are to be removed. Controllers of the
    /// same provider that replace others continue with them; the API server has no trace of them.
    gone_services: Mutex<BTreeMap<String, BTreeMap<String, GoneService>>>,
    claims: Mutex<ClaimRegistry>,
    /// Number of routes by provider, as last listed.
    routes: Mutex<BTreeMap<String, usize>>,
    /// Channels by provider: notified when another provider casts an awaited vote.
    listeners: Mutex<BTreeMap<String, mpsc::UnboundedSender<NodeChange>>>,
}

impl Cluster {
    /// Starts without any state; `nodes` is empty.
    pub(crate) fn new(
        clients: Clients,
        settings: &Settings,
        metrics: Metrics,
        nodes: NodeStore,
    ) -> Cluster {
        let clock = Clock::start(settings.pace);
        let planner = Planner::new(
            settings.plan.clone(),
            settings.mode,
            settings.audit.clone(),
            metrics.clone(),
        );
        Cluster {
            events: Events::new(clients.clone(), settings.tenure.clone()),
            deferred_events: DeferredEvents::default(),
            budget_store: BudgetStore::new(
                clients.base().clone(),
                settings,
                clock,
                metrics.clone(),
            ),
            clients,
            clock,
            mode: settings.mode,
            tenure: settings.tenure.clone(),
            metrics,
            planner: Arc::new(planner),
            activity: settings.reports.activity.clone(),
            nodes,
            new: Semaphore::new(settings.node.concurrent_syncs.get()),
            known: Semaphore::new(settings.node.status_updates().get()),
            new_nodes: NodeWrites::default(),
            known_nodes: NodeWrites::default(),
            first_list: watch::Sender::new(FirstList::UnderWay),
            node_index: Mutex::default(),
            service_index: Mutex::default(),
            gone_services: Mutex::default(),
            claims: Mutex::default(),
            routes: Mutex::default(),
            listeners: Mutex::default(),
        }
    }

    /// Whether every node is known: the first list of all nodes is complete.
    pub(crate) fn knows_all_nodes(&self) -> bool {
        *self.first_list.borrow() == FirstList::Complete
    }

    /// Completes when every node is known. Before that, no answer may be compared with those about other nodes.
    ///
    /// # Errors
    /// It takes too long, or the manager stops.
    pub(crate) async fn all_nodes_known(&self) -> Result<(), ProviderError> {
        let mut first_list = self.first_list.subscribe();
        let ended = first_list.wait_for(|first_list| *first_list != FirstList::UnderWay);
        let ended = tokio::time::timeout(LISTED_WITHIN, ended).await;
        match ended.map(|ended| ended.map(|ended| *ended)) {
            Ok(Ok(FirstList::Complete)) => Ok(()),
            Ok(_) => Err(ProviderError::Unavailable(
                "the manager is stopping".to_owned(),
            )),
            Err(_) => Err(ProviderError::Unavailable(
                "the list of all nodes is not complete yet".to_owned(),
            )),
        }
    }

    /// Whether the controllers are ending, so that nothing begins any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.known_nodes.are_closed()
    }

    /// Ends the wait for the first list.
    pub(crate) fn give_up_listing(&self) {
        self.first_list.send_if_modified(|first_list| {
            let is_under_way = *first_list == FirstList::UnderWay;
            if is_under_way {
                *first_list = FirstList::GivenUp;
            }
            is_under_way
        });
    }

    /// The index of all nodes.
    pub(crate) fn node_index(&self) -> MutexGuard<'_, NodeIndex> {
        self.node_index.lock()
    }

    /// The index of all Services.
    pub(crate) fn service_index(&self) -> MutexGuard<'_, ServiceIndex> {
        self.service_index.lock()
    }

    /// Records that `provider` has to remove the load balancer of a Service that is gone.
    pub(crate) fn add_gone_service(&self, provider: &str, gone: GoneService) {
        let uid = uid(&gone.service).to_owned();
        let mut all = self.gone_services.lock();
        all.entry(provider.to_owned())
            .or_default()
            .insert(uid, gone);
    }

    /// Records that nothing is left of it.
    pub(crate) fn remove_gone_service(&self, provider: &str, uid: &str) {
        let mut all = self.gone_services.lock();
        if let Some(own) = all.get_mut(provider) {
            own.remove(uid);
            if own.is_empty() {
                all.remove(provider);
            }
        }
    }

    /// The Services that are gone and whose load balancers `provider` has to remove.
    pub(crate) fn gone_services(&self, provider: &str) -> Vec<GoneService> {
        let all = self.gone_services.lock();
        let own = all.get(provider).into_iter().flatten();
        own.map(|(_, gone)| gone.clone()).collect()
    }

    /// The providers' votes on nodes that several of them may claim. Whoever holds both locks takes that of
    /// [`Cluster::node_index`] second.
    pub(crate) fn claims(&self) -> MutexGuard<'_, ClaimRegistry> {
        self.claims.lock()
    }

    /// Registers the channel on which `provider` learns that a node must be reconciled again.
    pub(crate) fn listen(&self, provider: &str, changes: mpsc::UnboundedSender<NodeChange>) {
        self.listeners.lock().insert(provider.to_owned(), changes);
    }

    /// Makes these providers reconcile the node of this name again.
    pub(crate) fn wake(&self, providers: &[String], name: &str) {
        let listeners = self.listeners.lock();
        for provider in providers {
            if let Some(changes) = listeners.get(provider) {
                // A closed channel belongs to controllers that have ended.
                let _ = changes.send(NodeChange::Requeued(name.to_owned()));
            }
        }
    }

    /// Removes the state of a `provider` whose controllers are told to stop.
    pub(crate) fn leave(&self, provider: &str) {
        self.listeners.lock().remove(provider);
        self.withdraw(provider);
    }

    /// Removes what `provider` has said and planned, and what waits for it. Its controllers go on until their calls have
    /// ended; a successor of the same name listens by then, and has been told nothing yet.
    pub(crate) fn withdraw(&self, provider: &str) {
        self.routes.lock().remove(provider);
        self.claims().withdraw(provider);
        self.node_index().withdraw(provider);
        self.activity.ended_all(provider);
        self.planner.left(provider);
    }

    /// Number of nodes that have a provider ID and belong to this provider, and number of all nodes.
    pub(crate) fn machines(&self, ownership: &OwnershipContext) -> Objects {
        let nodes = self.nodes.all();
        let machines = nodes.iter().filter(|node| node.provider_id().is_some());
        let own = machines.filter(|node| owner(node, ownership).is_ours());
        Objects {
            own: own.count(),
            all: nodes.len(),
        }
    }

    /// Stores the number of routes of `provider`; returns it with the total of all providers.
    pub(crate) fn count_routes(&self, provider: &str, own: usize) -> Objects {
        let mut routes = self.routes.lock();
        routes.insert(provider.to_owned(), own);
        let all = routes
            .values()
            .fold(0_usize, |sum, one| sum.saturating_add(*one));
        Objects { own, all }
    }

    /// Removes everything about nodes that the complete list no longer contains: every node is known now.
    pub(crate) fn keep_listed(&self) {
        let nodes = self.nodes.all();
        let names: BTreeSet<&str> = nodes.iter().map(|node| node.name()).collect();
        let uids: BTreeSet<&str> = nodes.iter().map(|node| node.uid()).collect();
        let mut node_index = self.node_index();
        node_index.keep(|name| names.contains(name));
        nodes.iter().for_each(|node| node_index.apply(node));
        drop(node_index);
        // After the nodes: a vote on one that is not known any more is not noted.
        self.claims().keep(|uid| uids.contains(uid));
        self.first_list.send_replace(FirstList::Complete);
    }
}

#[cfg(test)]
mod tests {
    use ccm_core::node::object::PrunedNode;
    use ccm_core::node::ownership::Claim;
    use ccm_fixtures::kubernetes::node;
    use ccm_sim::cluster::Cluster as SimCluster;
    use kube::runtime::watcher;

    use super::*;
    use crate::fixtures;

    /// Budgets are shares of these numbers.
    #[tokio::test]
    async fn a_providers_nodes_are_those_with_a_machine_that_no_other_provider_owns() {
        let nodes = NodeStore::default();
        let apply = |node: PrunedNode| nodes.apply(&watcher::Event::Apply(Arc::new(node)));
        for (scheme, count) in [("sim", 5), ("other", 200)] {
            for number in 0..count {
                let name = format!("{scheme}-{number}");
                let id = format!("{scheme}://{number}");
                apply(node(&name).provider_id(&id).build());
            }
        }
        apply(node("without-machine").build());
        let client = SimCluster::new().client();
        let settings = fixtures::settings();
        let cluster = Cluster::new(client.into(), &settings, Metrics::default(), nodes);
        let alone = OwnershipContext::alone("sim", vec!["sim".to_owned()]);
        let beside_another = OwnershipContext {
            others: vec![Claim {
                name: "other".to_owned(),
                schemes: vec!["other".to_owned()],
                selector: None,
            }],
            ..alone.clone()
        };
        for ownership in [alone, beside_another] {
            let expected = Objects { own: 5, all: 206 };
            assert_eq!(cluster.machines(&ownership), expected, "{ownership:?}");
        }
    }
}
