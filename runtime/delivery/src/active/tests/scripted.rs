//! A provider with scripted answers, which records its calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, GetReply,
    LoadBalancerStatus, Pending, Progress, ProgressReply, UpdateRequest,
};
use ccm_core::cloud::route::{
    CloudRoute, CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply, RouteTarget,
};
use ccm_core::cloud::{Capabilities, CloudNode, FindReply, Instance, Lookup, ProviderError};
use ccm_core::cloud_provider::{CloudProvider, Reply};
use ccm_core::moment::Moment;
use ccm_core::rollout::TrialKind;
use ccm_core::safety::permit::{Access, Mode, Permit};
use ccm_fixtures::objects::ready_node;
use ccm_fixtures::permits;
use tokio::sync::Semaphore;

use super::shadow::may;
use crate::active::{Active, Generation, Holding};

pub(super) struct Scripted {
    pub(super) name: &'static str,
    pub(super) schemes: Vec<String>,
    pub(super) capabilities: Capabilities,
    pub(super) annotation_prefixes: Vec<String>,
    pub(super) find: Mutex<Result<Lookup, ProviderError>>,
    /// Answer of `find_fresh`; `None`: the same as `find`.
    pub(super) fresh: Mutex<Option<Lookup>>,
    pub(super) balance: Mutex<Result<(), ProviderError>>,
    /// Answers of `list`, call by call; the last one is repeated.
    pub(super) lists: Mutex<Vec<Result<Vec<CloudRoute>, ProviderError>>>,
    /// Whether `get` finds a load balancer.
    pub(super) has_balancer: AtomicBool,
    pub(super) held: Mutex<Option<Duration>>,
    /// Whether [`Holding::serves`] was called.
    pub(super) serves: AtomicBool,
    /// How often [`Holding::forgets`] was called.
    pub(super) forgets: AtomicUsize,
    /// Changes wanted by `ensure` for the Services with these UIDs, call by call; the last one is repeated. `true`: it
    /// tries to change something; `false`: the load balancer is ready. For all other Services it is pending.
    pub(super) wants: Mutex<BTreeMap<String, Vec<bool>>>,
    /// Each call takes a permit, and keeps it.
    pub(super) gate: Semaphore,
    asked: Mutex<Vec<&'static str>>,
    pub(super) hints: Mutex<Vec<Option<Arc<[u8]>>>>,
    pub(super) permits: Mutex<Vec<Arc<Permit>>>,
}

impl Scripted {
    pub(super) fn new(name: &'static str) -> Scripted {
        Scripted {
            name,
            schemes: vec!["sim".to_owned()],
            capabilities: Capabilities {
                instances: true,
                load_balancer: true,
                routes: true,
            },
            annotation_prefixes: Vec::new(),
            find: Mutex::new(Ok(found("sim://1"))),
            fresh: Mutex::new(None),
            balance: Mutex::new(Ok(())),
            lists: Mutex::new(vec![Ok(Vec::new())]),
            has_balancer: AtomicBool::new(false),
            held: Mutex::new(None),
            serves: AtomicBool::new(false),
            forgets: AtomicUsize::new(0),
            wants: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            asked: Mutex::default(),
            hints: Mutex::default(),
            permits: Mutex::default(),
        }
    }

    pub(super) fn of_scheme(name: &'static str, scheme: &str) -> Scripted {
        Scripted {
            schemes: vec![scheme.to_owned()],
            ..Scripted::new(name)
        }
    }

    /// The functions that were called, in their order.
    pub(super) fn asked(&self) -> Vec<&'static str> {
        self.asked.lock().unwrap().clone()
    }

    /// How often this function was called.
    pub(super) fn times(&self, function: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|one| **one == function).count()
    }

    pub(super) fn answers(&self, answer: Result<Lookup, ProviderError>) {
        *self.find.lock().unwrap() = answer;
    }

    /// The next entry in `wants` for this Service.
    fn wish(&self, uid: &str) -> Option<bool> {
        let mut wants = self.wants.lock().unwrap();
        let wishes = wants.get_mut(uid)?;
        Some(match wishes.len() {
            1 => wishes[0],
            _ => wishes.remove(0),
        })
    }

    /// Makes all later calls wait.
    pub(super) fn close(&self) {
        self.gate.forget_permits(usize::MAX);
    }

    async fn enter(&self, function: &'static str, permit: Arc<Permit>) {
        self.asked.lock().unwrap().push(function);
        self.permits.lock().unwrap().push(permit);
        self.gate.acquire().await.unwrap().forget();
    }

    async fn balanced(
        &self,
        function: &'static str,
        hint: Option<&Arc<[u8]>>,
        permit: Arc<Permit>,
    ) -> Result<Pending, ProviderError> {
        self.hints.lock().unwrap().push(hint.cloned());
        self.enter(function, permit).await;
        self.balance.lock().unwrap().clone()?;
        Ok(Pending {
            retry_after: Duration::from_secs(1),
            hint: Some(self.name.as_bytes().into()),
        })
    }

    async fn progressed(
        &self,
        function: &'static str,
        hint: Option<&Arc<[u8]>>,
        permit: Arc<Permit>,
    ) -> Result<ProgressReply, ProviderError> {
        let pending = self.balanced(function, hint, permit).await?;
        Ok(ProgressReply {
            progress: Progress::Pending(pending),
            events: Vec::new(),
            annotations: Vec::new(),
        })
    }
}

impl Holding for Scripted {
    fn held_for(&self) -> Option<Duration> {
        *self.held.lock().unwrap()
    }

    fn serves(&self) {
        self.serves.store(true, Ordering::Relaxed);
    }

    fn forgets(&self) {
        self.forgets.fetch_add(1, Ordering::Relaxed);
    }
}

impl CloudProvider for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    fn digest(&self) -> String {
        format!("digest-of-{}", self.name)
    }

    fn schemes(&self) -> &[String] {
        &self.schemes
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn annotation_prefixes(&self) -> &[String] {
        &self.annotation_prefixes
    }

    fn find<'a>(&'a self, nodes: &'a [CloudNode], permit: Arc<Permit>) -> Reply<'a, FindReply> {
        Box::pin(async move {
            self.enter("find", permit).await;
            let lookup = self.find.lock().unwrap().clone()?;
            Ok(reply(nodes, &lookup))
        })
    }

    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply> {
        Box::pin(async move {
            self.enter("find_fresh", permit).await;
            let fresh = self.fresh.lock().unwrap().clone();
            let lookup = match fresh {
                Some(lookup) => lookup,
                None => self.find.lock().unwrap().clone()?,
            };
            Ok(reply(nodes, &lookup))
        })
    }

    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        Box::pin(async move {
            let pending = self.balanced("ensure", request.hint.as_ref(), permit.clone());
            let pending = pending.await?;
            let ensured = match self.wish(&request.service.uid) {
                None => Ensured::Pending(pending),
                Some(true) if may(&permit, Access::Write).is_err() => {
                    return Err(ProviderError::Denied("changes are not made".to_owned()));
                }
                Some(_) => Ensured::Ready(LoadBalancerStatus::default()),
            };
            Ok(EnsureReply {
                ensured,
                events: Vec::new(),
                annotations: Vec::new(),
            })
        })
    }

    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(self.progressed("update", request.hint.as_ref(), permit))
    }

    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(self.progressed("delete", request.hint.as_ref(), permit))
    }

    fn get_load_balancer<'a>(
        &'a self,
        _: &'a CloudService,
        permit: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        Box::pin(async move {
            self.enter("get", permit).await;
            self.balance.lock().unwrap().clone()?;
            let found = match self.has_balancer.load(Ordering::Relaxed) {
                true => Found::Present(LoadBalancerStatus::default()),
                false => Found::Absent,
            };
            Ok(GetReply {
                found,
                complete: true,
            })
        })
    }

    fn list_routes<'a>(
        &'a self,
        _: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, ListRoutesReply> {
        Box::pin(async move {
            self.enter("list", permit).await;
            let mut lists = self.lists.lock().unwrap();
            let list = match lists.len() {
                1 => lists[0].clone(),
                _ => lists.remove(0),
            };
            Ok(ListRoutesReply {
                routes: list?,
                complete: true,
            })
        })
    }

    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        Box::pin(async move {
            let pending = self.balanced("create", request.hint.as_ref(), permit);
            Ok(routed(pending.await?))
        })
    }

    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        Box::pin(async move {
            let pending = self.balanced("remove", request.hint.as_ref(), permit);
            Ok(routed(pending.await?))
        })
    }
}

fn routed(pending: Pending) -> RouteReply {
    RouteReply {
        progress: Progress::Pending(pending),
        events: Vec::new(),
    }
}

fn reply(nodes: &[CloudNode], lookup: &Lookup) -> FindReply {
    FindReply {
        lookups: vec![lookup.clone(); nodes.len()],
        events: Vec::new(),
        complete: true,
    }
}

pub(super) fn found(provider_id: &str) -> Lookup {
    Lookup::Found(Box::new(Instance {
        provider_id: provider_id.to_owned(),
        ..Instance::default()
    }))
}

pub(super) fn generation(provider: &Arc<Scripted>) -> Arc<Generation<Scripted>> {
    Arc::new(Generation::new(provider.clone()))
}

/// The serving provider, a candidate, and the `Active` that controllers have.
pub(super) struct Play {
    pub(super) old: Arc<Scripted>,
    pub(super) new: Arc<Scripted>,
    pub(super) active: Arc<Active<Scripted>>,
}

impl Play {
    pub(super) fn new() -> Play {
        let (old, new) = (Scripted::new("old"), Scripted::new("new"));
        let (old, new) = (Arc::new(old), Arc::new(new));
        let active = Active::new("entry", generation(&old));
        Play { old, new, active }
    }

    pub(super) fn shadow(&self) {
        self.tries(TrialKind::Shadow);
    }

    pub(super) fn canary(&self) {
        self.tries(TrialKind::Canary);
    }

    fn tries(&self, kind: TrialKind) {
        let trial = Some((kind, generation(&self.new)));
        self.active.set_roles(self.active.serving(), trial);
    }

    pub(super) fn ends_trial(&self) {
        self.active.set_roles(self.active.serving(), None);
    }

    /// The candidate takes over, loaded anew.
    pub(super) fn swaps(&self) {
        self.active.set_roles(generation(&self.new), None);
    }

    pub(super) async fn find(&self) -> Result<FindReply, ProviderError> {
        self.active.find(&[node()], permit()).await
    }

    pub(super) async fn ensure(
        &self,
        uid: &str,
        hint: Option<Arc<[u8]>>,
    ) -> Result<Option<Arc<[u8]>>, ProviderError> {
        let request = EnsureRequest {
            service: service(uid),
            targets: Arc::new([]),
            adopt: None,
            hint,
        };
        let reply = self.active.ensure_load_balancer(&request, permit()).await?;
        match reply.ensured {
            Ensured::Pending(pending) => Ok(pending.hint),
            Ensured::Ready(_) => Ok(None),
        }
    }
}

pub(super) fn route(destination: &str, target: RouteTarget) -> CloudRoute {
    CloudRoute {
        id: "1".to_owned(),
        destination_cidr: destination.to_owned(),
        target,
        extra: Vec::new(),
    }
}

/// A permit that would allow changes.
pub(super) fn permit() -> Arc<Permit> {
    let until = Moment(Duration::from_secs(u64::MAX / 4));
    permits::permit(until, Mode::Enforce, 9)
}

/// A permit whose tenure has ended.
pub(super) fn permit_of_the_past() -> Arc<Permit> {
    let permit = permit();
    permit.tenure().end();
    permit
}

pub(super) fn node() -> CloudNode {
    ready_node("worker-1", Some("sim://1"))
}

pub(super) fn service(uid: &str) -> Arc<CloudService> {
    Arc::new(CloudService {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: uid.to_owned(),
        ..CloudService::default()
    })
}
