//! What the controllers of all providers hear of Services. One watch serves all of them, and they share the objects: kept
//! are those that have, or once had, to do with a load balancer. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_core::service::{Claims, is_relevant};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher::Event;

use super::{ServiceIndex, key};
use crate::cluster::Cluster;

/// What a provider's controller hears of Services.
#[derive(Debug, Clone)]
pub(crate) enum ServiceChange {
    /// These are all there are, of those that have or had to do with a load balancer; by `namespace/name`.
    Listed(Arc<BTreeMap<String, Arc<Service>>>),
    /// This one is like this now.
    Applied(Arc<Service>),
    /// This one is gone.
    Deleted(Arc<Service>),
    /// There are other providers than before, who take these.
    Reassigned(Arc<Claims>),
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct ServiceNews {
    kept: BTreeMap<String, Arc<Service>>,
    /// The list that is being read.
    next: Option<(ServiceIndex, BTreeMap<String, Arc<Service>>)>,
    is_listed: bool,
}

impl ServiceNews {
    /// Takes what a watch says, and says what of it is to be told; `cluster` has it then.
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
                *cluster.service_index() = service_index;
                self.kept = services;
                self.is_listed = true;
                return self.all();
            }
            Event::Apply(service) => {
                cluster.service_index().apply(&service);
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

    /// All of them, for somebody who has come just now; `None` before the first list was read.
    pub(crate) fn all(&self) -> Option<ServiceChange> {
        let all = || ServiceChange::Listed(Arc::new(self.kept.clone()));
        self.is_listed.then(all)
    }
}
