//! Several providers in one manager: each has a set of controllers of its own, over watches and everything else that they
//! share. Who comes, goes or changes is started or ended, and the others do not notice. Decides whose set runs, and
//! nothing about nodes and Services.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use ccm_core::node::object::is_uninitialized;
use ccm_core::ownership::{self, Claim, OwnershipContext};
use ccm_core::service::{self, Claims, ClaimsError};
use ccm_core::well_known::{IPAM_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::ipam::Ipam;
use crate::metrics::Metrics;
use crate::node::NodeChange;
use crate::provider_controllers::{Ended, ProviderControllers, pause};
use crate::service::ServiceNews;
use crate::watch::{nodes, services};
use crate::{Provided, RunError, Settings, Stopped};

/// Runs the controllers of every provider in `provided`, which may change at any time, until `shutdown` ends; and then
/// waits at most `settings.drain` for what is on the wire. `settings.service.rules` is not looked at: each provider
/// brings its own.
///
/// An entry is the same as before as long as it has the same cloud (the very same object), claim and rules; then its
/// controllers go on. Otherwise they end, within `settings.drain`, and new ones begin. A list that contradicts itself
/// changes nothing. Without any entry the controllers wait for one.
///
/// # Assumptions
/// Those of [`crate::run`].
///
/// # Errors
/// See [`RunError`]: only about the first list. What is wrong with a later one is logged.
pub async fn run_all(
    client: Client,
    mut provided: watch::Receiver<Arc<[Provided]>>,
    settings: Settings,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Stopped, RunError> {
    let first = provided.borrow_and_update().clone();
    let list = ProviderList::of(&first).map_err(RunError::Contradiction)?;
    if settings.controllers.need_instances() && !first.is_empty() && !has_instances(&first) {
        let names: Vec<&str> = first.iter().map(|one| one.cloud.name()).collect();
        return Err(RunError::NoInstances(names.join(", ")));
    }
    if settings.controllers.service && !first.iter().any(serves) && !first.is_empty() {
        // IFACE-004; no mistake of anybody's, as most providers have none.
        tracing::info!(
            controller = SERVICE_CONTROLLER,
            "not started: the cloud provider does not support external load balancers"
        );
    }
    let mut watched = nodes(client.clone());
    let cluster = Cluster::new(client, &settings, metrics, watched.store.clone());
    let mut sets = ControllerManager::new(Arc::new(cluster), settings);
    sets.start_ipam(Vec::new());
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
                // Nobody changes it any more.
                Err(_) => may_change = false,
            },
            Some(ended) = sets.tasks.join_next() => {
                if ended.is_err() {
                    tracing::error!("controllers ended with a panic; this is a defect");
                }
                sets.revive();
            }
            Some(event) = watched.changes.next() => sets.see_node(&event),
            Some(event) = next(&mut sets.watched_services) => sets.see_service(event),
        }
    }
    Ok(sets.stop().await)
}

fn has_instances(list: &[Provided]) -> bool {
    list.iter().any(|one| one.cloud.capabilities().instances)
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

/// All providers of one list, and what each claims beside the others.
struct ProviderList {
    list: Vec<Provided>,
    claims: Arc<Claims>,
}

impl ProviderList {
    /// The list as a whole, if it does not contradict itself; all mistakes otherwise.
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
                // Names were compared above.
                if !matches!(error, ClaimsError::TwoOfAName(_)) || mistakes.is_empty() {
                    mistakes.push(error.to_string());
                }
                Err(mistakes)
            }
        }
    }

    /// What this one of them claims, and the others.
    fn ownership(&self, provided: &Provided) -> Arc<OwnershipContext> {
        let Claim {
            name,
            schemes,
            selector,
        } = claim(provided);
        let others = || self.list.iter().filter(|one| one.cloud.name() != name);
        let known = others().filter(|one| one.cloud.capabilities().instances);
        let routers = others().filter(|one| one.cloud.capabilities().routes);
        Arc::new(OwnershipContext {
            others: known.map(claim).collect(),
            routers: routers.map(claim).collect(),
            has_instances: provided.cloud.capabilities().instances,
            name,
            schemes,
            selector,
        })
    }
}

/// Which of the providers that make routes and know no machines could make them to the same nodes, for people.
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
    let said = contested.map(|(Claim { name: a, .. }, Claim { name: b, .. })| {
        format!(
            "{a:?} and {b:?} make routes and know no machines, and a node could be meant for both: {a:?} makes its routes, as the first by name; write node selectors that exclude each other, such as `routes={a}` and `routes={b}`"
        )
    });
    said.collect()
}

/// Of nodes. Who knows no machines has no scheme, whatever the module says.
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

/// Of Services.
fn takes(provided: &Provided) -> service::Claim {
    service::Claim {
        name: provided.cloud.name().to_owned(),
        classes: provided.service.classes.clone(),
        is_default: provided.service.is_default,
        prefixes: provided.cloud.annotation_prefixes().to_vec(),
    }
}

/// See the module's documentation.
struct ControllerManager {
    cluster: Arc<Cluster>,
    settings: Settings,
    list: Option<ProviderList>,
    /// What was said of providers that make routes to the same nodes.
    contested: Vec<String>,
    running: BTreeMap<String, ProviderControllers>,
    /// No provider's, and there before the first of them.
    ipam: Option<Ipam>,
    /// What runs; aborted when this is dropped.
    tasks: JoinSet<()>,
    /// Those that were told to end, and perhaps have not yet.
    leaving: Vec<Ended>,
    is_listed: bool,
    services: ServiceNews,
    watched_services: Option<BoxStream<'static, Event<Service>>>,
}

impl ControllerManager {
    fn new(cluster: Arc<Cluster>, settings: Settings) -> ControllerManager {
        ControllerManager {
            cluster,
            settings,
            list: None,
            contested: Vec::new(),
            running: BTreeMap::new(),
            ipam: None,
            tasks: JoinSet::new(),
            leaving: Vec::new(),
            is_listed: false,
            services: ServiceNews::default(),
            watched_services: None,
        }
    }

    /// The list has changed.
    fn change(&mut self, list: &[Provided]) {
        match ProviderList::of(list) {
            Ok(providers) => {
                let needs = self.settings.controllers.need_instances();
                if needs && !list.is_empty() && !has_instances(list) {
                    tracing::error!("no cloud provider supports instances: no node is initialised");
                }
                self.take(providers);
            }
            Err(mistakes) => {
                let mistakes = mistakes.join("; ");
                tracing::error!(
                    mistakes,
                    "the providers contradict each other; what runs goes on as before"
                );
            }
        }
    }

    /// From now on these run: those that are as before go on, and hear who the others are.
    fn take(&mut self, list: ProviderList) {
        let is_same = |name: &String, set: &ProviderControllers| {
            let mut list = list.list.iter();
            list.any(|one| one.cloud.name() == name && one.is_same(&set.provided))
        };
        let running = std::mem::take(&mut self.running);
        let (kept, ended): (BTreeMap<_, _>, BTreeMap<_, _>) = running
            .into_iter()
            .partition(|(name, set)| is_same(name, set));
        self.running = kept;
        self.forget_those_that_have_left();
        for (name, set) in ended {
            tracing::info!(provider = name, "the provider's controllers end");
            self.cluster.leave(&name);
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
        self.tell_of_contested_routes(&list.list);
        self.list = Some(list);
    }

    /// Once, as long as it stays the same.
    fn tell_of_contested_routes(&mut self, list: &[Provided]) {
        let are_made =
            self.settings.controllers.route && !self.settings.route.cluster_cidrs.is_empty();
        let contested = match are_made {
            true => contested_routes(list),
            false => Vec::new(),
        };
        if contested != self.contested && !contested.is_empty() {
            let controller = ROUTE_CONTROLLER;
            tracing::warn!(
                controller,
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
        if self.is_listed {
            set.see_node(&Event::InitDone, Some(&NodeChange::Listed));
        }
        if set.serves() {
            if self.watched_services.is_none() {
                let watched = services(self.cluster.client.clone());
                self.watched_services = Some(watched.boxed());
            }
            if let Some(all) = self.services.all() {
                set.see_service(&all);
            }
        }
        self.running.insert(name, set);
    }

    fn start_ipam(&mut self, before: Vec<Ended>) {
        self.ipam = Ipam::start(&self.cluster, &self.settings, before, &mut self.tasks);
        if let Some(ipam) = self.ipam.as_ref().filter(|_| self.is_listed) {
            ipam.see_node(&NodeChange::Listed);
        }
    }

    /// Starts sets anew that have ended without having been told to: a defect of ours, which costs the others nothing.
    fn revive(&mut self) {
        if self.ipam.as_ref().is_some_and(Ipam::has_ended) {
            tracing::error!(
                controller = IPAM_CONTROLLER,
                "the controller ended by itself, and is started anew; this is a defect"
            );
            self.start_ipam(vec![pause()]);
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
            self.cluster.leave(&name);
            self.start(&list, set.provided, vec![pause()]);
            self.list = Some(list);
        }
    }

    fn see_node(&mut self, event: &Event<Node>) {
        let change = self.note(event);
        if let (Some(ipam), Some(change)) = (&self.ipam, &change) {
            ipam.see_node(change);
        }
        for set in self.running.values_mut() {
            set.see_node(event, change.as_ref());
        }
    }

    /// Keeps true what all share, and says what of it is told.
    fn note(&mut self, event: &Event<Node>) -> Option<NodeChange> {
        match event {
            Event::Apply(node) => {
                self.cluster.node_index().apply(node);
                if !is_uninitialized(node) {
                    let uid = node.metadata.uid.as_deref();
                    self.cluster.claims().forget(uid.unwrap_or_default());
                }
                let stored = self.cluster.nodes.get(&ObjectRef::from_obj(node));
                stored.map(NodeChange::Applied)
            }
            Event::Delete(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                self.cluster.node_index().forget(&name);
                let uid = node.metadata.uid.as_deref();
                self.cluster.claims().forget(uid.unwrap_or_default());
                Some(NodeChange::Deleted(name))
            }
            // During a list the store is still the old one.
            Event::Init | Event::InitApply(_) => None,
            Event::InitDone => {
                self.is_listed = true;
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

    /// Nothing begins any more, and what is on the wire gets its time.
    async fn stop(mut self) -> Stopped {
        self.settings.tenure.end();
        self.cluster.planner.sum_up();
        let stopped: Vec<Ended> = std::mem::take(&mut self.running)
            .into_values()
            .map(ProviderControllers::stop)
            .chain(self.ipam.take().map(Ipam::stop))
            .collect();
        // Who was told to go before, and has gone since, has nothing on the wire.
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
