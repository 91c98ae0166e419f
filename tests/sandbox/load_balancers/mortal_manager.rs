//! A manager that a test can kill: the real controllers with the real provider, with a planned death and, in tests of
//! the law, a defect.

use std::sync::Arc;

use bytes::Bytes;
use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Found, GetReply, Progress,
    ProgressReply, UpdateRequest,
};
use ccm_core::cloud::route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::cloud::{Capabilities, CloudNode, FindReply};
use ccm_core::cloud_provider::{CloudProvider, Reply};
use ccm_core::safety::permit::Permit;
use ccm_host::Provider;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;
use libtest_mimic::Failed;
use serde_json::Value;
use tower::BoxError;

use crate::load_balancers::account::CredentialInUse;
use crate::load_balancers::crash::{Life, Moment};
use crate::load_balancers::mutant::Mutant;
use crate::load_balancers::world::{CONTROLLERS, Running, World};

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Starts the manager with this number.
pub(crate) async fn start(
    world: &World,
    number: u64,
    life: &Life,
    mutant: Option<Mutant>,
) -> Result<Running, Failed> {
    let provider = CrashableProvider {
        inner: world.provider().await?,
        number,
        life: life.clone(),
        credential: world.credential.clone(),
        mutant,
    };
    let inner = world.cluster.client_as(CONTROLLERS);
    let wire = {
        let life = life.clone();
        tower::service_fn(move |request: Request<Body>| {
            send(inner.clone(), life.clone(), mutant, request)
        })
    };
    let client = Client::new(wire, "default");
    Ok(world.run(client, Arc::new(provider), Arc::new(life.clone())))
}

/// A request of the manager to the API server.
async fn send(
    inner: Client,
    life: Life,
    mutant: Option<Mutant>,
    request: Request<Body>,
) -> Result<Answer, BoxError> {
    life.wait_if_over().await;
    let is_write = request.method() != Method::GET;
    let last = if is_write { life.write() } else { None };
    if last == Some(Moment::Before) {
        life.end();
        life.wait_if_over().await;
    }
    let request = match mutant {
        Some(mutant) if request.method() == Method::PATCH => spoiled(mutant, request).await?,
        _ => request,
    };
    let answer = inner.send(request).await?;
    if last.is_some() {
        life.end();
    }
    life.wait_if_over().await;
    Ok(answer.map(|body| UnsyncBoxBody::new(body.map_err(BoxError::from))))
}

async fn spoiled(mutant: Mutant, request: Request<Body>) -> Result<Request<Body>, BoxError> {
    let (mut head, body) = request.into_parts();
    let mut patch: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    mutant.patch(&mut patch);
    head.headers.remove(http::header::CONTENT_LENGTH);
    Ok(Request::from_parts(
        head,
        Body::from(patch.to_string().into_bytes()),
    ))
}

/// The real provider, called by a manager that may be dead or have a defect.
struct CrashableProvider {
    inner: Provider,
    number: u64,
    life: Life,
    credential: Arc<CredentialInUse>,
    mutant: Option<Mutant>,
}

impl CrashableProvider {
    fn service(&self, service: &Arc<CloudService>) -> Arc<CloudService> {
        let mut service = service.clone();
        if let Some(mutant) = self.mutant {
            mutant.service(&mut service, self.number);
        }
        service
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    async fn of<T>(&self, call: impl Future<Output = T>) -> T {
        self.life.wait_if_over().await;
        let on_these = self.credential.call().await;
        let answer = call.await;
        drop(on_these);
        self.life.wait_if_over().await;
        answer
    }
}

impl CloudProvider for CrashableProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn digest(&self) -> String {
        CloudProvider::digest(&self.inner)
    }

    fn generation(&self) -> u64 {
        self.credential.generation()
    }

    fn schemes(&self) -> &[String] {
        self.inner.schemes()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn annotation_prefixes(&self) -> &[String] {
        self.inner.annotation_prefixes()
    }

    fn find<'a>(&'a self, nodes: &'a [CloudNode], permit: Arc<Permit>) -> Reply<'a, FindReply> {
        Box::pin(self.of(self.inner.find(nodes, permit)))
    }

    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply> {
        Box::pin(self.of(self.inner.find_fresh(nodes, permit)))
    }

    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        Box::pin(self.of(async move {
            let Some(mutant) = self.mutant else {
                return self.inner.ensure_load_balancer(request, permit).await;
            };
            let mut request = request.clone();
            mutant.request(&mut request, self.number);
            let answer = self.inner.ensure_load_balancer(&request, permit.clone());
            let answer = answer.await;
            match mutant.again(&request, &answer) {
                Some(again) => self.inner.ensure_load_balancer(&again, permit).await,
                None => answer,
            }
        }))
    }

    fn update_targets<'a>(
        &'a self,
        request: &'a UpdateRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(self.of(async move {
            let mut request = request.clone();
            request.service = self.service(&request.service);
            if self.is(Mutant::ForgetsATarget) {
                request.targets = request.targets.iter().skip(1).cloned().collect();
            }
            self.inner.update_targets(&request, permit).await
        }))
    }

    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(self.of(async move {
            if self.is(Mutant::DeletesNothing) {
                return Ok(ProgressReply {
                    progress: Progress::Done,
                    events: Vec::new(),
                    annotations: Vec::new(),
                });
            }
            let mut request = request.clone();
            request.service = self.service(&request.service);
            self.inner.delete_load_balancer(&request, permit).await
        }))
    }

    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        permit: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        Box::pin(self.of(async move {
            if self.is(Mutant::DeletesNothing) {
                return Ok(GetReply {
                    found: Found::Absent,
                    complete: true,
                });
            }
            let service = self.service(&Arc::new(service.clone()));
            self.inner.get_load_balancer(&service, permit).await
        }))
    }

    fn list_routes<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, ListRoutesReply> {
        Box::pin(self.of(self.inner.list_routes(nodes, permit)))
    }

    fn create_route<'a>(
        &'a self,
        request: &'a CreateRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        Box::pin(self.of(self.inner.create_route(request, permit)))
    }

    fn delete_route<'a>(
        &'a self,
        request: &'a DeleteRouteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        Box::pin(self.of(self.inner.delete_route(request, permit)))
    }
}
