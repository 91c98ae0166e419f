//! A cloud of load balancers, at most one for each Service. Making one takes two requests, of which a plan shows the
//! first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, Found, GetReply, Ingress,
    LoadBalancerStatus, Progress, ProgressReply, UpdateRequest,
};
use ccm_core::cloud::route::{CreateRouteRequest, DeleteRouteRequest, ListRoutesReply, RouteReply};
use ccm_core::cloud::{Capabilities, CloudNode, FindReply, ProviderError};
use ccm_core::cloud_provider::{CloudProvider, Reply};
use ccm_core::safety::audit::End;
use ccm_core::safety::permit::Permit;
use ccm_fixtures::permits;

/// The state of a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Balancer {
    /// It has no targets.
    Bare,
    /// It is as the Service wants it.
    Right,
    /// Its settings were changed by another client.
    Other,
}

/// The load balancers, and the provider `sim` for them.
#[derive(Default)]
pub(crate) struct Balancers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The load balancers by the Service's name.
    there: BTreeMap<String, Balancer>,
    refused: BTreeSet<String>,
    hidden: BTreeSet<String>,
    ignores_refusals: BTreeSet<String>,
    /// The first request for each Service, by its name.
    made: BTreeMap<String, String>,
}

impl Balancers {
    /// From now on the Service has this load balancer.
    pub(crate) fn set(&self, name: &str, balancer: Option<Balancer>) {
        let there = &mut self.state.lock().unwrap().there;
        match balancer {
            Some(balancer) => there.insert(name.to_owned(), balancer),
            None => there.remove(name),
        };
    }

    /// From now on the provider refuses this Service.
    pub(crate) fn refuse(&self, name: &str) {
        self.state.lock().unwrap().refused.insert(name.to_owned());
    }

    /// From now on the provider cannot look up this Service's load balancer.
    pub(crate) fn hide(&self, name: &str) {
        self.state.lock().unwrap().hidden.insert(name.to_owned());
    }

    /// From now on the provider reports a request as done that its permit refused.
    pub(crate) fn ignore_refusals(&self, name: &str) {
        self.state
            .lock()
            .unwrap()
            .ignores_refusals
            .insert(name.to_owned());
    }

    /// Forgets the requests so far.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().made.clear();
    }

    /// The first request for each Service, by its name.
    pub(crate) fn made(&self) -> BTreeMap<String, String> {
        self.state.lock().unwrap().made.clone()
    }

    fn note(&self, name: &str, request: String) {
        let made = &mut self.state.lock().unwrap().made;
        made.entry(name.to_owned()).or_insert(request);
    }

    fn look(&self, service: &CloudService) -> Result<Option<Balancer>, ProviderError> {
        let state = self.state.lock().unwrap();
        if state.hidden.contains(&service.name) {
            return Err(ProviderError::Unavailable("502".to_owned()));
        }
        if state.refused.contains(&service.name) {
            return Err(ProviderError::Invalid("no such algorithm".to_owned()));
        }
        Ok(state.there.get(&service.name).copied())
    }

    /// Makes a change under its permit, after which the Service has this load balancer.
    fn change(
        &self,
        permit: &Permit,
        service: &CloudService,
        (method, path): (&str, String),
        after: Option<Balancer>,
    ) -> Result<(), ProviderError> {
        let request = permits::change(method, &path);
        // Any time at which it is valid.
        let now = permit.valid_until();
        if let Err(refusal) = permit.ask(now, &request) {
            let is_ignored = self
                .state
                .lock()
                .unwrap()
                .ignores_refusals
                .contains(&service.name);
            return match is_ignored {
                true => Ok(()),
                false => Err(ProviderError::Denied(refusal.to_string())),
            };
        }
        permit.ended(now, now, &request, End::Done);
        self.note(&service.name, format!("{method} {path}"));
        self.set(&service.name, after);
        Ok(())
    }

    fn ensure(
        &self,
        service: &CloudService,
        permit: &Permit,
    ) -> Result<EnsureReply, ProviderError> {
        let one = format!("/load_balancers/{}", service.name);
        if self.look(service)?.is_none() {
            let make = ("POST", "/load_balancers".to_owned());
            self.change(permit, service, make, Some(Balancer::Bare))?;
        }
        match self.look(service)? {
            Some(Balancer::Right) | None => {}
            Some(Balancer::Bare) => {
                let add = ("POST", format!("{one}/targets"));
                self.change(permit, service, add, Some(Balancer::Right))?;
            }
            Some(Balancer::Other) => {
                self.change(permit, service, ("PUT", one), Some(Balancer::Right))?;
            }
        }
        Ok(EnsureReply {
            ensured: Ensured::Ready(status(service)),
            events: Vec::new(),
            annotations: Vec::new(),
        })
    }

    fn delete(
        &self,
        service: &CloudService,
        permit: &Permit,
    ) -> Result<ProgressReply, ProviderError> {
        if self.look(service)?.is_some() {
            let path = format!("/load_balancers/{}", service.name);
            self.change(permit, service, ("DELETE", path), None)?;
        }
        Ok(done())
    }
}

/// The address that belongs to its node port.
fn status(service: &CloudService) -> LoadBalancerStatus {
    let port = service.ports.first().and_then(|port| port.node_port);
    let last = port.unwrap_or_default().saturating_sub(30_000) + 1;
    LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some(format!("192.0.2.{last}")),
            ..Ingress::default()
        }],
    }
}

fn done() -> ProgressReply {
    ProgressReply {
        progress: Progress::Done,
        events: Vec::new(),
        annotations: Vec::new(),
    }
}

impl CloudProvider for Balancers {
    fn name(&self) -> &str {
        "sim"
    }

    fn schemes(&self) -> &[String] {
        &[]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            load_balancer: true,
            ..Capabilities::default()
        }
    }

    fn find<'a>(&'a self, _: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, FindReply> {
        unreachable!("nobody asks about machines")
    }

    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply> {
        self.find(nodes, permit)
    }

    fn ensure_load_balancer<'a>(
        &'a self,
        request: &'a EnsureRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, EnsureReply> {
        Box::pin(async move { self.ensure(&request.service, &permit) })
    }

    fn update_targets<'a>(
        &'a self,
        _: &'a UpdateRequest,
        _: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        // The nodes stay as they are.
        Box::pin(async { Ok(done()) })
    }

    fn delete_load_balancer<'a>(
        &'a self,
        request: &'a DeleteRequest,
        permit: Arc<Permit>,
    ) -> Reply<'a, ProgressReply> {
        Box::pin(async move { self.delete(&request.service, &permit) })
    }

    fn get_load_balancer<'a>(
        &'a self,
        service: &'a CloudService,
        _: Arc<Permit>,
    ) -> Reply<'a, GetReply> {
        Box::pin(async move {
            let found = match self.look(service)? {
                Some(_) => Found::Present(status(service)),
                None => Found::Absent,
            };
            Ok(GetReply {
                found,
                complete: true,
            })
        })
    }

    fn list_routes<'a>(&'a self, _: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, ListRoutesReply> {
        unreachable!("nobody asks about routes")
    }

    fn create_route<'a>(
        &'a self,
        _: &'a CreateRouteRequest,
        _: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        unreachable!("nobody asks for routes")
    }

    fn delete_route<'a>(
        &'a self,
        _: &'a DeleteRouteRequest,
        _: Arc<Permit>,
    ) -> Reply<'a, RouteReply> {
        unreachable!("nobody asks for routes")
    }
}
