//! Service changes for the controllers of all providers. One watch serves all of them, and they share the objects; only
//! Services that have, or once had, to do with a load balancer are kept. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_core::safety::permit::Mode;
use ccm_core::service::{Claims, is_relevant, service_ref};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher::Event;

use super::{ServiceIndex, key};
use crate::cluster::Cluster;

/// A change of Services, sent to the provider controllers.
#[derive(Debug, Clone)]
pub(crate) enum ServiceChange {
    /// All Services that have or had to do with a load balancer, by `namespace/name`.
    Listed(Arc<BTreeMap<String, Arc<Service>>>),
    /// The Service was created or changed.
    Applied(Arc<Service>),
    /// The Service was deleted.
    Deleted(Arc<Service>),
    /// The set of providers has changed; these are their claims.
    Reassigned(Arc<Claims>),
}

/// Filters and keeps the watched Services.
#[derive(Default)]
pub(crate) struct ServiceChangeFilter {
    kept: BTreeMap<String, Arc<Service>>,
    /// The list being read.
    next: Option<(ServiceIndex, BTreeMap<String, Arc<Service>>)>,
    is_listed: bool,
}

impl ServiceChangeFilter {
    /// Handles a watch event, updates `cluster`, and returns the change to forward.
    pub(crate) fn see(
        &mut self,
        event: Event<Service>,
        cluster: &Cluster,
    ) -> Option<ServiceChange> {
        match event {
            Event::Init => self.next = Some(Default::default()),
            Event::InitApply(service) => {
                if let Some((service_index, services)) = &mut self.next {
                    service_index.apply(&service);
                    let key = key(&service);
                    if is_relevant(&service) || self.kept.contains_key(&key) {
                        services.insert(key, Arc::new(service));
                    }
                }
            }
            Event::InitDone => {
                let (mut service_index, services) = self.next.take()?;
                service_index.complete();
                let mut known = cluster.service_index();
                service_index.take_holders(&known);
                *known = service_index;
                drop(known);
                self.kept = services;
                self.is_listed = true;
                return self.all();
            }
            Event::Apply(service) => {
                let mut service_index = cluster.service_index();
                service_index.apply(&service);
                // Another manager acts on the Services, and has released this one.
                if cluster.mode != Mode::Enforce && !is_relevant(&service) {
                    service_index.hold(&service_ref(&service), None);
                }
                drop(service_index);
                let (key, service) = (key(&service), Arc::new(service));
                if is_relevant(&service) || self.kept.contains_key(&key) {
                    self.kept.insert(key, service.clone());
                }
                return Some(ServiceChange::Applied(service));
            }
            Event::Delete(service) => {
                cluster.service_index().forget(&service);
                let known = self.kept.get(&key(&service));
                if known.is_some_and(|known| known.metadata.uid == service.metadata.uid) {
                    self.kept.remove(&key(&service));
                }
                return Some(ServiceChange::Deleted(Arc::new(service)));
            }
        }
        None
    }

    /// All kept Services, for newly started controllers; `None` before the first list was read.
    pub(crate) fn all(&self) -> Option<ServiceChange> {
        let all = || ServiceChange::Listed(Arc::new(self.kept.clone()));
        self.is_listed.then(all)
    }
}
