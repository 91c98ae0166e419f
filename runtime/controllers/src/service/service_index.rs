//! What all Services together say: who there is, who has which address, and whom which provider serves. An index;
//! decides nothing.

use std::collections::HashMap;
use std::net::IpAddr;

use ccm_core::brake::Objects;
use ccm_core::effect::{InUse, OwnerState, ServiceRef};
use ccm_core::service::{Addresses, has_address, is_load_balancer, recorded_owner, service_ref};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;

/// See the module's documentation. Services are known by UID; one that was made again replaces the old one.
#[derive(Default)]
pub(crate) struct ServiceIndex {
    /// By UID.
    services: HashMap<String, Listed>,
    /// By namespace and name, the UID.
    names: HashMap<(String, String), String>,
    addresses: Addresses,
    is_complete: bool,
}

struct Listed {
    service: ServiceRef,
    /// The provider that serves it, as it is written down.
    owner: Option<String>,
    has_address: bool,
    made: Option<Timestamp>,
}

impl ServiceIndex {
    /// `service` is like this now.
    pub(crate) fn apply(&mut self, service: &Service) {
        let named = service_ref(service);
        let place = (named.namespace.clone(), named.name.clone());
        let before = self.names.insert(place, named.uid.clone());
        if let Some(before) = before.filter(|before| *before != named.uid) {
            self.strike(&before);
        }
        self.addresses.apply(service);
        let owner = recorded_owner(service).filter(|_| is_load_balancer(service));
        let uid = named.uid.clone();
        let listed = Listed {
            service: named,
            owner: owner.map(str::to_owned),
            // Of one that goes the load balancer may be gone already.
            has_address: has_address(service) && service.metadata.deletion_timestamp.is_none(),
            made: service
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
        };
        self.services.insert(uid, listed);
    }

    /// There is no such Service any more.
    pub(crate) fn forget(&mut self, service: &Service) {
        let named = service_ref(service);
        self.strike(&named.uid);
        let place = (named.namespace, named.name);
        if self.names.get(&place).is_some_and(|uid| *uid == named.uid) {
            self.names.remove(&place);
        }
    }

    /// Nobody is missing from now on.
    pub(crate) fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Of `ips`, those that other Services than `service` have.
    pub(crate) fn in_use(
        &self,
        service: &ServiceRef,
        ips: impl IntoIterator<Item = IpAddr>,
    ) -> Vec<InUse> {
        self.addresses.in_use(&service.uid, ips)
    }

    /// Whether there is a Service with this UID.
    pub(crate) fn owner(&self, uid: &str) -> OwnerState {
        match self.services.get(uid) {
            Some(listed) => OwnerState::Alive(listed.service.clone()),
            None if self.is_complete => OwnerState::Gone,
            None => OwnerState::Unsynced,
        }
    }

    /// The other Services that this provider serves, that have an address and stay, the oldest first.
    pub(crate) fn others_with_address(&self, provider: &str, than: &ServiceRef) -> Vec<ServiceRef> {
        let others = self.services.values().filter(|listed| {
            listed.has_address
                && listed.owner.as_deref() == Some(provider)
                && listed.service != *than
        });
        let mut others: Vec<&Listed> = others.collect();
        others.sort_unstable_by_key(|listed| (listed.made, &listed.service));
        others
            .into_iter()
            .map(|listed| listed.service.clone())
            .collect()
    }

    /// How many Services of type LoadBalancer this provider serves, as it is written down, and how many have a provider.
    pub(crate) fn served_by(&self, provider: &str) -> Objects {
        let owners = self.services.values();
        let owners = owners.filter_map(|listed| listed.owner.as_deref());
        let is_own = |owner: &str| usize::from(owner == provider);
        let count = |objects: Objects, owner| Objects {
            own: objects.own + is_own(owner),
            all: objects.all + 1,
        };
        owners.fold(Objects { own: 0, all: 0 }, count)
    }

    fn strike(&mut self, uid: &str) {
        if let Some(Listed { service, .. }) = self.services.remove(uid) {
            self.addresses.forget(&service);
        }
    }
}
