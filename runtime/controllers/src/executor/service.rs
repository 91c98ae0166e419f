//! The service controller's effects: provider calls about load balancers, and status writes. No two on the same Service
//! run at once: the caller serialises the reconciliations of a Service.

use std::net::IpAddr;
use std::sync::Arc;

use ccm_core::cloud::load_balancer::{
    CloudService, DeleteRequest, EnsureReply, EnsureRequest, Ensured, GetReply, LoadBalancerStatus,
    ProgressReply, UpdateRequest,
};
use ccm_core::cloud::{Owner, ProviderError};
use ccm_core::cloud_provider::CloudProvider;
use ccm_core::reconciliation::effect::{Answered, InUse, ObjectKind, ObjectResult, Performed};
use ccm_core::reconciliation::patch::ServicePatch;
use ccm_core::safety::audit::Subject;
use ccm_core::safety::brake::BudgetShare;
use ccm_core::safety::permit::{LOAD_BALANCER_CHANGES, Mode, Permit};
use ccm_core::service::{
    OwnerState, ServiceAction, ServiceEffect, ServiceOutcome, ServiceRef, is_mark, is_release,
    service_ref,
};
use ccm_core::well_known::SERVICE_CONTROLLER;
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, Client};
use parking_lot::Mutex;

use super::account_lookups::FailedLookUp;
use super::cloud::{Cloud, Unmade, performed};
use super::events::about_service;
use super::request::{answered, in_time, stopping};
use super::{EffectExecutor, Perform, Priority, WritePermit, params, strategic};
use crate::clock::boottime;
use crate::metrics::Operation;
use crate::pruned_objects::PrunedService;

/// Page size for listing Services; client-go's value.
const PAGE: u32 = 500;

impl Perform<ServiceEffect> for EffectExecutor {
    async fn carry_out<'a>(
        &'a self,
        effect: &ServiceEffect,
        _: Priority,
        _: &mut WritePermit<'a>,
    ) -> Performed<ServiceOutcome> {
        Box::pin(self.act(effect)).await
    }
}

impl EffectExecutor {
    async fn act(&self, effect: &ServiceEffect) -> Performed<ServiceOutcome> {
        let ServiceEffect {
            service,
            generation,
            action,
        } = effect;
        let services = &self.services;
        Performed::Ended(match action {
            ServiceAction::Ensure(request) => {
                services.hold(service, true);
                let answer = services.ensure(service, *generation, request.clone()).await;
                return performed(answer, ServiceOutcome::Ensured);
            }
            ServiceAction::UpdateTargets(request) => {
                let answer = services.update_targets(service, request.clone()).await;
                return performed(answer, ServiceOutcome::Progressed);
            }
            ServiceAction::Delete(request) => {
                let answer = services.remove(service, request.clone()).await;
                return performed(answer, ServiceOutcome::Progressed);
            }
            ServiceAction::Get(known) => {
                ServiceOutcome::Got(services.look(service, known.clone()).await)
            }
            ServiceAction::FindOwner(owner) => ServiceOutcome::Owner(services.owner(owner).await),
            ServiceAction::ProveAccount(scope) => {
                let ownership = self.ownership();
                let witnesses = services.prove_account(service, &ownership, *scope).await;
                ServiceOutcome::Witnesses(witnesses)
            }
            ServiceAction::ReadNamespace => {
                ServiceOutcome::NamespaceGoes(services.namespace_goes(service).await)
            }
            ServiceAction::Read => ServiceOutcome::Service(services.read(service).await),
            ServiceAction::TakeBudget(brake, rise) => {
                let taken = self.take(service, *brake, *rise).await;
                ServiceOutcome::Budget(*brake, taken)
            }
            ServiceAction::Patch(patch) => {
                ServiceOutcome::Service(services.write(service, patch).await)
            }
            ServiceAction::RecordEvent(event) => {
                let (events, about) = (&self.cluster.events, about_service(service));
                ServiceOutcome::Event(events.record(SERVICE_CONTROLLER, &about, event).await)
            }
        })
    }
}

/// The part of the executor that handles Services.
pub(super) struct Services {
    pub(super) cloud: Cloud,
    /// The last provider generation whose account was confirmed.
    pub(super) known: Mutex<Option<u64>>,
    /// Serialises the look-ups of nodes that confirm the account; the last one that failed.
    pub(super) account_proof: tokio::sync::Mutex<Option<FailedLookUp>>,
}

impl Services {
    /// Creates the Service part of a provider's executor.
    pub(super) fn new(cloud: Cloud) -> Services {
        Services {
            cloud,
            known: Mutex::new(None),
            account_proof: tokio::sync::Mutex::default(),
        }
    }

    async fn ensure(
        &self,
        service: &ServiceRef,
        generation: u64,
        request: Arc<EnsureRequest>,
    ) -> Result<Answered<EnsureReply>, Unmade> {
        self.still(generation)?;
        let why = "its load balancer has to agree with it";
        let permit = self.changing(service, BudgetShare::Common, why)?;
        let ensure = (Operation::Ensure, "ensure of a load balancer");
        let method = <dyn CloudProvider>::ensure_load_balancer;
        let answered = self.cloud.change(ensure, permit, request, method).await?;
        Ok(Answered {
            in_use: self.in_use(service, &answered.reply),
            ..answered
        })
    }

    async fn update_targets(
        &self,
        service: &ServiceRef,
        request: Arc<UpdateRequest>,
    ) -> Result<Answered<ProgressReply>, Unmade> {
        let why = "the set of nodes has changed";
        let permit = self.changing(service, BudgetShare::Whole, why)?;
        let update = (Operation::UpdateTargets, "update of targets");
        let method = <dyn CloudProvider>::update_targets;
        self.cloud.change(update, permit, request, method).await
    }

    async fn remove(
        &self,
        service: &ServiceRef,
        request: Arc<DeleteRequest>,
    ) -> Result<Answered<ProgressReply>, Unmade> {
        let why = "its load balancer is not wanted any more";
        let permit = self.changing(service, BudgetShare::Whole, why)?;
        let deletion = (Operation::Delete, "deletion of a load balancer");
        let method = <dyn CloudProvider>::delete_load_balancer;
        self.cloud.change(deletion, permit, request, method).await
    }

    pub(super) async fn look(
        &self,
        service: &ServiceRef,
        known: Arc<CloudService>,
    ) -> Result<GetReply, ProviderError> {
        let subject = subject(service, "whether it has a load balancer");
        let permit = Arc::new(self.cloud.permit(0)?.about(subject));
        let look = (Operation::Get, "look at a load balancer");
        let method = <dyn CloudProvider>::get_load_balancer;
        self.cloud.call(look, permit, known, method).await
    }

    fn changing(
        &self,
        service: &ServiceRef,
        share: BudgetShare,
        reason: &str,
    ) -> Result<Permit, ProviderError> {
        self.cloud
            .changing(LOAD_BALANCER_CHANGES, share, subject(service, reason))
    }

    /// The IPs in the answer about `service` that other objects of the cluster already use.
    fn in_use(&self, service: &ServiceRef, reply: &EnsureReply) -> Vec<InUse> {
        let Ensured::Ready(LoadBalancerStatus { ingress }) = &reply.ensured else {
            return Vec::new();
        };
        let ips: Vec<IpAddr> = ingress
            .iter()
            .filter_map(|one| one.canonical_ip())
            .collect();
        let cluster = &self.cloud.cluster;
        let mut in_use = cluster.service_index().in_use(service, ips.iter().copied());
        let node_index = cluster.node_index();
        in_use.extend(ips.into_iter().filter_map(|ip| {
            let node = node_index.holder(ip)?;
            let by = format!("node/{node}");
            Some(InUse { ip, by })
        }));
        in_use
    }

    /// Whether this owner exists. Absence is confirmed with the API server, because the watch lags and the
    /// caller takes over the owner's load balancer.
    async fn owner(&self, owner: &Owner) -> OwnerState {
        let known = self.cloud.cluster.service_index().owner(owner);
        if known != OwnerState::Gone {
            return known;
        }
        let api: Api<PrunedService> = Api::all(self.client());
        let mut page = ListParams::default().limit(PAGE);
        loop {
            // Not the metadata alone: with managed fields that cannot be read, one Service would hide all of them.
            let listed = in_time(&self.cloud.cluster.tenure, api.list(&page)).await;
            let Ok(Some(listed)) = listed else {
                return OwnerState::Unsynced;
            };
            let services = listed.items.iter().map(|one| service_ref(&one.0));
            if let Some(found) = services.into_iter().find(|one| one.is(owner)) {
                return OwnerState::Alive(found);
            }
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return OwnerState::Gone,
            }
        }
    }

    /// Reads the Service from the API server: by a list of one, because the ClusterRole of the Go managers grants no
    /// `get` on Services.
    pub(super) async fn read(&self, service: &ServiceRef) -> ObjectResult<Service> {
        let by_name = ListParams::default().fields(&format!("metadata.name={}", service.name));
        let api = self.api(service);
        let listed = in_time(&self.cloud.cluster.tenure, api.list(&by_name)).await?;
        answered(Ok(listed.and_then(|list| list.items.into_iter().next())))
    }

    /// Writes the Service's status (SVC-080).
    async fn write(&self, service: &ServiceRef, patch: &ServicePatch) -> ObjectResult<Service> {
        if !self.cloud.cluster.tenure.may_begin(boottime()) {
            return Err(stopping());
        }
        let (api, params, body) = (self.api(service), params(), strategic(patch.to_json()));
        let request = api.patch_status(&service.name, &params, &body);
        let written = answered(in_time(&self.cloud.cluster.tenure, request).await)?;
        if let Some(service) = &written {
            // Update the index before the watch does: the next answer is compared with these addresses.
            self.cloud.cluster.service_index().written(service);
            let named = service_ref(service);
            if is_mark(patch) {
                self.hold(&named, true);
            } else if is_release(patch) {
                self.hold(&named, false);
            }
        }
        Ok(written)
    }

    /// Notes that this provider may have a load balancer for `service`, or that it has none any more.
    fn hold(&self, service: &ServiceRef, may_exist: bool) {
        let holder = may_exist.then(|| self.cloud.provider.name());
        if self.cloud.cluster.mode == Mode::Enforce {
            self.cloud.cluster.service_index().hold(service, holder);
        }
    }

    pub(super) fn api(&self, service: &ServiceRef) -> Api<PrunedService> {
        Api::namespaced(self.client(), &service.namespace)
    }

    /// The client of the service controller.
    pub(super) fn client(&self) -> Client {
        self.cloud.cluster.clients.of(SERVICE_CONTROLLER).clone()
    }
}

fn subject(service: &ServiceRef, reason: &str) -> Subject {
    Subject {
        kind: Some(ObjectKind::Service),
        namespace: Some(service.namespace.clone()),
        name: service.name.clone(),
        uid: service.uid.clone(),
        reason: reason.to_owned(),
    }
}
