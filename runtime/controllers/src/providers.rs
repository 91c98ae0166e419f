//! Runs several providers in one manager: each has its own controllers over shared watches and shared state. Starts and
//! stops the controllers of added, removed or changed providers without affecting the others. Decides which controllers
//! run, and nothing about nodes and Services.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use ccm_core::node::object::PrunedNode;
use ccm_core::node::ownership::{self, Claim, OwnershipContext};
use ccm_core::service::{self, Claims, ClaimsError};
use ccm_core::well_known::{IPAM_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher::Event;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::controller_lifecycle::{Ended, pause};
use crate::ipam::Ipam;
use crate::metrics::Metrics;
use crate::node::NodeChange;
use crate::provider_controllers::ProviderControllers;
use crate::service::ServiceChangeFilter;
use crate::watch::{nodes, services};
use crate::{Provided, RunError, Settings, Stopped};

/// Runs the controllers of every provider in `provided`, which may change at any time, until `shutdown` completes; then
/// waits at most `settings.drain` for requests in flight. The controllers act with their clients of `clients`, and share
/// the watches of its base.
///
/// An entry is unchanged while it has the same cloud (the very same object), claim and rules; then its controllers keep
/// running. Otherwise they end, within `settings.drain`, and new ones start. A contradictory list changes nothing. With
/// an empty list the manager waits for an entry.
///
/// # Assumptions
/// `clients` retry nothing: `kube::Config::default_retry` is off. It is on by default, and a retried request could
/// begin after the lease is lost. Failed requests are retried here, after a new decision.
///
/// # Guarantees
/// An unreachable API server, at the start or later, ends nothing: watches and writes are retried with growing delays.
/// A panic in one reconciliation affects no other.
///
/// # Errors
/// See [`RunError`]: only for the first list, and for missing instances only if no other can follow. Mistakes in a later
/// list are logged.
pub async fn run_all(
    clients: impl Into<Clients>,
    mut provided: watch::Receiver<Arc<[Provided]>>,
    settings: Settings,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Stopped, RunError> {
    let first = provided.borrow_and_update().clone();
    let list = ProviderList::of(&first).map_err(RunError::Contradiction)?;
    if settings.controllers.need_instances() && lacks_instances(&first) {
        // Providers that are still being loaded may support them.
        if provided.has_changed().is_err() {
            let names: Vec<&str> = first.iter().map(|one| one.cloud.name()).collect();
            return Err(RunError::NoInstances(names.join(", ")));
        }
        log_missing_instances();
    }
    if settings.controllers.service && !first.iter().any(serves) && !first.is_empty() {
        // IFACE-004; not an error, because most providers have no load balancers.
        tracing::info!(
            controller = SERVICE_CONTROLLER,
            "not started: the cloud provider does not support external load balancers"
        );
    }
    let clients = clients.into();
    let mut watched = nodes(clients.base().clone());
    let cluster = Cluster::new(clients, &settings, metrics, watched.store.clone());
    let mut sets = ControllerManager::new(Arc::new(cluster), settings);
    sets.cluster.planner.expect_passes(sets.awaited_passes());
    sets.start_ipam();
    sets.take(list);
    tokio::pin!(shutdown);
    let mut may_change = true;
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            changed = provided.changed(), if may_change => match changed {
                Ok(()) => {
                    let list = provided.borrow_and_update().clone();
                    sets.change(&list);
                }
                // The sender is gone; the list stays as it is.
                Err(_) => may_change = false,
            },
            Some(ended) = sets.tasks.join_next() => {
                if ended.is_err() {
                    tracing::error!("a task of the controllers ended with a panic; this is a defect");
                }
                sets.revive();
            }
            Some(event) = watched.changes.next() => sets.see_node(&event),
            Some(event) = next(&mut sets.watched_services) => sets.see_service(event),
        }
    }
    Ok(sets.stop().await)
}

/// Whether there are providers, and none of them supports instances (IFACE-003).
#[must_use]
pub fn lacks_instances(list: &[Provided]) -> bool {
    !list.is_empty() && list.iter().all(|one| !one.cloud.capabilities().instances)
}

fn log_missing_instances() {
    tracing::error!("no cloud provider supports instances: no node is initialised");
}

fn serves(one: &Provided) -> bool {
    one.cloud.capabilities().load_balancer
}

async fn next<T>(stream: &mut Option<BoxStream<'static, T>>) -> Option<T> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// The mistakes for which the controllers refuse a list of providers, for people; empty if there is none.
#[must_use]
pub fn contradictions(list: &[Provided]) -> Vec<String> {
    ProviderList::of(list).err().unwrap_or_default()
}

/// All providers of one list and their claims.
struct ProviderList {
    list: Vec<Provided>,
    claims: Arc<Claims>,
}

impl ProviderList {
    /// Validates the list; returns all mistakes if it contradicts itself.
    fn of(list: &[Provided]) -> Result<ProviderList, Vec<String>> {
        let all: Vec<Claim> = list.iter().map(claim).collect();
        let mut mistakes = ownership::mistakes(&all);
        let claims = Claims::new(list.iter().filter(|one| serves(one)).map(takes).collect());
        match claims {
            Ok(claims) if mistakes.is_empty() => Ok(ProviderList {
                list: list.to_vec(),
                claims: Arc::new(claims),
            }),
            Ok(_) => Err(mistakes),
            Err(error) => {
                // Duplicate names were already reported above.
                if !matches!(error, ClaimsError::TwoOfAName(_)) || mistakes.is_empty() {
                    mistakes.push(error.to_string());
                }
                Err(mistakes)
            }
        }
    }

    /// The claims of this provider and of the others.
    fn ownership(&self, provided: &Provided) -> Arc<OwnershipContext> {
        let own = claim(provided);
        let others = || self.list.iter().filter(|one| one.cloud.name() != own.name);
        let known = others().filter(|one| one.cloud.capabilities().instances);
        let routers = others().filter(|one| one.cloud.capabilities().routes);
        Arc::new(OwnershipContext {
            others: known.map(claim).collect(),
            routers: routers.map(claim).collect(),
            has_instances: provided.cloud.capabilities().instances,
            claim: own,
        })
    }
}

/// Describes each pair of providers that support routes but not instances and whose node selectors may overlap.
fn contested_routes(list: &[Provided]) -> Vec<String> {
    let routers = list.iter().filter(|one| {
        let can = one.cloud.capabilities();
        can.routes && !can.instances
    });
    let mut routers: Vec<Claim> = routers.map(claim).collect();
    routers.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    let pairs = routers.iter().enumerate().flat_map(|(index, first)| {
        let later = routers.iter().skip(index + 1);
        later.map(move |second| (first, second))
    });
    let contested = pairs.filter(
        |(first, second)| match (&first.selector, &second.selector) {
            (Some(first), Some(second)) => first.may_overlap(second),
            _ => true,
        },
    );
    let lines = contested.map(|(Claim { name: a, .. }, Claim { name: b, .. })| {
        format!(
            "{a:?} and {b:?} make routes and know no machines, and a node could be meant for both: {a:?} makes its routes, as the first by name; write node selectors that exclude each other, such as `routes={a}` and `routes={b}`"
        )
    });
    lines.collect()
}

/// The provider's claim on nodes. Without instances it has no schemes, whatever its module declares.
fn claim(provided: &Provided) -> Claim {
    let schemes = match provided.nodes.schemes.as_slice() {
        _ if !provided.cloud.capabilities().instances => Vec::new(),
        [] => provided.cloud.schemes().to_vec(),
        schemes => schemes.to_vec(),
    };
    Claim {
        name: provided.cloud.name().to_owned(),
        schemes,
        selector: provided.nodes.selector.clone(),
    }
}

/// The provider's claim on Services.
fn takes(provided: &Provided) -> service::Claim {
    service::Claim {
        name: provided.cloud.name().to_owned(),
        classes: provided.service.classes.clone(),
        is_default: provided.service.is_default,
        prefixes: provided.cloud.annotation_prefixes().to_vec(),
    }
}

/// Starts the task that writes the Events that were deferred.
fn write_events(cluster: Arc<Cluster>, tasks: &mut JoinSet<()>) -> AbortHandle {
    tasks.spawn(async move {
        let events = &cluster.deferred_events;
        events.write(&cluster.events, &cluster.new_nodes).await;
    })
}

/// Starts and stops the controllers of all providers.
struct ControllerManager {
    cluster: Arc<Cluster>,
    settings: Settings,
    list: Option<ProviderList>,
    /// The conflicts between route providers that were logged last.
    contested: Vec<String>,
    running: BTreeMap<String, ProviderControllers>,
    /// The node IPAM controller; it belongs to no provider and runs even without any.
    ipam: Option<Ipam>,
    /// The running controllers, and `writing`; aborted when this is dropped.
    tasks: JoinSet<()>,
    /// Writes the Events that were deferred.
    writing: AbortHandle,
    /// Controllers that were stopped and may not have ended yet.
    leaving: Vec<Ended>,
    services: ServiceChangeFilter,
    watched_services: Option<BoxStream<'static, Event<Service>>>,
}

impl ControllerManager {
    fn new(cluster: Arc<Cluster>, settings: Settings) -> ControllerManager {
        let mut tasks = JoinSet::new();
        let writing = write_events(cluster.clone(), &mut tasks);
        ControllerManager {
            cluster,
            settings,
            list: None,
            contested: Vec::new(),
            running: BTreeMap::new(),
            ipam: None,
            tasks,
            writing,
            leaving: Vec::new(),
            services: ServiceChangeFilter::default(),
            watched_services: None,
        }
    }

    /// Handles a changed list.
    fn change(&mut self, list: &[Provided]) {
        match ProviderList::of(list) {
            Ok(providers) => {
                if self.settings.controllers.need_instances() && lacks_instances(list) {
                    log_missing_instances();
                }
                self.take(providers);
            }
            Err(mistakes) => {
                tracing::error!(
                    mistakes = mistakes.join("; "),
                    "the providers contradict each other; the running controllers are not changed"
                );
            }
        }
    }

    /// Number of first passes that a plan awaits in place of a provider's: one while controllers need a provider and there
    /// is none.
    fn awaited_passes(&self) -> usize {
        usize::from(self.settings.controllers.need_providers() && self.running.is_empty())
    }

    /// Applies a list: unchanged providers keep running and learn the new claims.
    fn take(&mut self, list: ProviderList) {
        let is_same = |(name, set): &(String, ProviderControllers)| {
            let mut list = list.list.iter();
            list.any(|one| one.cloud.name() == name && one.is_same(&set.provided))
        };
        let mut passes = self.awaited_passes();
        let running = std::mem::take(&mut self.running).into_iter();
        let (kept, ended): (BTreeMap<_, _>, BTreeMap<_, _>) = running.partition(is_same);
        self.running = kept;
        self.forget_those_that_have_left();
        for (name, set) in ended {
            tracing::info!(provider = name, "the provider's controllers end");
            passes += set.take_passes();
            set.leave();
            self.leaving.push(set.stop());
        }
        for set in self.running.values_mut() {
            set.reassign(list.ownership(&set.provided), list.claims.clone());
        }
        for provided in &list.list {
            if !self.running.contains_key(provided.cloud.name()) {
                self.start(&list, provided.clone(), self.leaving.clone());
            }
        }
        // Those of successors are expected by now.
        let planner = &self.cluster.planner;
        planner.expect_passes(self.awaited_passes());
        planner.end_passes(passes);
        self.log_contested_routes(&list.list);
        self.list = Some(list);
    }

    /// Logs conflicts between route providers once, until they change.
    fn log_contested_routes(&mut self, list: &[Provided]) {
        let are_made =
            self.settings.controllers.route && !self.settings.route.cluster_cidrs.is_empty();
        let contested = match are_made {
            true => contested_routes(list),
            false => Vec::new(),
        };
        if contested != self.contested && !contested.is_empty() {
            tracing::warn!(
                controller = ROUTE_CONTROLLER,
                providers = contested.join("; "),
                "routes of some nodes could be made by several providers"
            );
        }
        self.contested = contested;
    }

    fn forget_those_that_have_left(&mut self) {
        self.leaving
            .retain(|ended| ended.clone().now_or_never().is_none());
    }

    fn start(&mut self, list: &ProviderList, provided: Provided, before: Vec<Ended>) {
        let name = provided.cloud.name().to_owned();
        tracing::debug!(provider = name, "the provider's controllers begin");
        let ownership = list.ownership(&provided);
        let claims = list.claims.clone();
        let cluster = &self.cluster;
        let tasks = &mut self.tasks;
        let settings = &self.settings;
        let mut set = ProviderControllers::start(
            cluster, provided, ownership, claims, settings, before, tasks,
        );
        if self.cluster.knows_all_nodes() {
            set.see_node(&Event::InitDone, Some(&NodeChange::Listed));
        }
        if set.serves() {
            if self.watched_services.is_none() {
                let watched = services(self.cluster.clients.base().clone());
                self.watched_services = Some(watched.boxed());
            }
            if let Some(all) = self.services.all() {
                set.see_service(&all);
            }
        }
        self.running.insert(name, set);
    }

    fn start_ipam(&mut self) {
        let (cluster, settings) = (&self.cluster, &self.settings);
        self.ipam = Ipam::start(self.ipam.take(), cluster, settings, &mut self.tasks);
    }

    /// Restarts what ended without a request: a defect of ours, which affects no other provider.
    fn revive(&mut self) {
        if self.writing.is_finished() {
            self.writing = write_events(self.cluster.clone(), &mut self.tasks);
        }
        if self.ipam.as_ref().is_some_and(Ipam::has_ended) {
            tracing::error!(
                controller = IPAM_CONTROLLER,
                "the controller ended by itself, and is started anew; this is a defect"
            );
            self.start_ipam();
        }
        let dead = self.running.iter().filter(|(_, set)| set.has_ended());
        let dead: Vec<String> = dead.map(|(name, _)| name.clone()).collect();
        for name in dead {
            let (Some(set), Some(list)) = (self.running.remove(&name), self.list.take()) else {
                continue;
            };
            tracing::error!(
                provider = name,
                "the provider's controllers ended by themselves, and are started anew; this is a defect"
            );
            set.leave();
            let passes = set.take_passes();
            self.start(&list, set.provided, vec![pause()]);
            self.cluster.planner.end_passes(passes);
            self.list = Some(list);
        }
    }

    fn see_node(&mut self, event: &Event<Arc<PrunedNode>>) {
        let change = self.note(event);
        if let (Some(ipam), Some(change)) = (&self.ipam, &change) {
            ipam.see_node(change);
        }
        for set in self.running.values_mut() {
            set.see_node(event, change.as_ref());
        }
    }

    /// Updates the shared state with an event, and returns the change to forward.
    fn note(&mut self, event: &Event<Arc<PrunedNode>>) -> Option<NodeChange> {
        match event {
            Event::Apply(node) => {
                self.cluster.node_index().apply(node);
                if !node.is_uninitialized() {
                    self.cluster.claims().forget(node.uid());
                }
                Some(NodeChange::Applied(node.clone()))
            }
            Event::Delete(node) => {
                self.cluster.node_index().forget(node.name());
                self.cluster.claims().forget(node.uid());
                Some(NodeChange::Deleted(node.name().to_owned()))
            }
            // Until a list is complete, the store still holds the old nodes. During the first list the nodes are known
            // as they come, so that answers about them are noted.
            Event::InitApply(node) if !self.cluster.knows_all_nodes() => {
                self.cluster.node_index().apply(node);
                None
            }
            Event::Init | Event::InitApply(_) => None,
            Event::InitDone => {
                self.cluster.keep_listed();
                Some(NodeChange::Listed)
            }
        }
    }

    fn see_service(&mut self, event: Event<Service>) {
        if let Some(change) = self.services.see(event, &self.cluster) {
            for set in self.running.values() {
                set.see_service(&change);
            }
        }
    }

    /// Stops all controllers; requests in flight get `settings.drain`.
    async fn stop(mut self) -> Stopped {
        self.cluster.give_up_listing();
        // Nothing more begins, and their time runs.
        let stopped: Vec<Ended> = std::mem::take(&mut self.running)
            .into_values()
            .map(ProviderControllers::stop)
            .chain(self.ipam.take().map(Ipam::stop))
            .collect();
        // Finish the writes while the process may still write. Half of the time is left for requests in flight.
        let cluster = &self.cluster;
        let writes = [&cluster.new_nodes, &cluster.known_nodes];
        let events = &cluster.deferred_events;
        events.finish(writes, self.settings.drain / 2).await;
        self.settings.tenure.end();
        self.cluster.planner.sum_up();
        // Controllers that were stopped earlier and have ended have nothing in flight.
        self.forget_those_that_have_left();
        let all = std::mem::take(&mut self.leaving).into_iter().chain(stopped);
        let ended = futures::future::join_all(all).await;
        match ended.contains(&Stopped::OnTheWire) {
            true => Stopped::OnTheWire,
            false => Stopped::Drained,
        }
    }
}

#[cfg(test)]
mod tests;
