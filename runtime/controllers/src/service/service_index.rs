//! Index of all Services: which exist, which addresses they have, and which provider serves them. Decides nothing.

use std::collections::HashMap;
use std::net::IpAddr;

use ccm_core::cloud::Owner;
use ccm_core::reconciliation::effect::InUse;
use ccm_core::reconciliation::own_write;
use ccm_core::safety::brake::Objects;
use ccm_core::service::{
    Addresses, OwnerState, ServiceRef, has_address, has_finalizer, is_elsewhere, is_load_balancer,
    recorded_owner, service_ref,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;

/// Keyed by UID; a Service that was created again replaces the old one.
#[derive(Default)]
pub(crate) struct ServiceIndex {
    /// The Services by UID.
    services: HashMap<String, Listed>,
    /// UIDs by namespace and name.
    names: HashMap<(String, String), String>,
    addresses: Addresses,
    is_complete: bool,
}

struct Listed {
    service: ServiceRef,
    /// Its resource version, if that is a number.
    version: Option<u64>,
    /// The provider that the Service records as its owner.
    owner: Option<String>,
    /// The provider that may have a load balancer for it, as far as this process knows. Another client that edits the
    /// owner or removes the marks does not change it.
    holder: Option<String>,
    /// Whether it has an address of its provider's load balancer.
    has_address: bool,
    made: Option<Timestamp>,
}

impl ServiceIndex {
    /// Adds or updates `service`.
    pub(crate) fn apply(&mut self, service: &Service) {
        let named = service_ref(service);
        let place = (named.namespace.clone(), named.name.clone());
        let before = self.names.insert(place, named.uid.clone());
        if let Some(before) = before.filter(|before| *before != named.uid) {
            self.remove(&before);
        }
        self.addresses.apply(service);
        let recorded = recorded_owner(service);
        let is_marked = has_finalizer(service);
        let holder = match self.services.remove(&named.uid) {
            Some(known) => known.holder,
            // Both marks are written together; an owner alone may be a user's wish.
            None => recorded.filter(|_| is_marked).map(str::to_owned),
        };
        let owner = recorded_owner(service).filter(|_| is_load_balancer(service));
        let uid = named.uid.clone();
        let listed = Listed {
            version: version(service),
            service: named,
            owner: owner.map(str::to_owned),
            holder,
            // The load balancer of a Service being deleted may be gone already.
            has_address: has_address(service)
                && !is_elsewhere(service)
                && service.metadata.deletion_timestamp.is_none(),
            made: service
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
        };
        self.services.insert(uid, listed);
    }

    /// Updates `service` with the answer to our own write, unless the watch has told more meanwhile, such as its deletion:
    /// no further event would correct that.
    pub(crate) fn written(&mut self, service: &Service) {
        let known = self.services.get(&service_ref(service).uid);
        if known.is_some_and(|known| known.version <= version(service)) {
            self.apply(service);
        }
    }

    /// The provider that may have a load balancer for the Service with this UID.
    pub(crate) fn holder(&self, uid: &str) -> Option<String> {
        self.services.get(uid)?.holder.clone()
    }

    /// Notes the provider that makes a load balancer for `service`, or that none has one any more.
    pub(crate) fn hold(&mut self, service: &ServiceRef, holder: Option<&str>) {
        if let Some(listed) = self.services.get_mut(&service.uid) {
            listed.holder = holder.map(str::to_owned);
        }
    }

    /// Takes what only this process knows from the index that this one, a complete list, replaces.
    pub(crate) fn take_holders(&mut self, before: &ServiceIndex) {
        for (uid, listed) in &mut self.services {
            if let Some(before) = before.services.get(uid) {
                listed.holder.clone_from(&before.holder);
            }
        }
    }

    /// Removes a deleted Service.
    pub(crate) fn forget(&mut self, service: &Service) {
        let named = service_ref(service);
        self.remove(&named.uid);
        let place = (named.namespace, named.name);
        if self.names.get(&place).is_some_and(|uid| *uid == named.uid) {
            self.names.remove(&place);
        }
    }

    /// Marks the index as complete.
    pub(crate) fn complete(&mut self) {
        self.is_complete = true;
    }

    /// The addresses of `ips` that Services other than `service` have.
    pub(crate) fn in_use(
        &self,
        service: &ServiceRef,
        ips: impl IntoIterator<Item = IpAddr>,
    ) -> Vec<InUse> {
        self.addresses.in_use(&service.uid, ips)
    }

    /// Whether a Service with this UID or name exists.
    pub(crate) fn owner(&self, owner: &Owner) -> OwnerState {
        let uid = match owner {
            Owner::Uid(uid) => Some(uid),
            Owner::Name { namespace, name } => self.names.get(&(namespace.clone(), name.clone())),
        };
        match uid.and_then(|uid| self.services.get(uid)) {
            Some(listed) => OwnerState::Alive(listed.service.clone()),
            None if self.is_complete => OwnerState::Gone,
            None => OwnerState::Unsynced,
        }
    }

    /// The other Services of this provider that have an address of its load balancer and are not being deleted, oldest
    /// first.
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

    /// Number of Services of type LoadBalancer recorded for this provider, and for any provider.
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

    fn remove(&mut self, uid: &str) {
        if let Some(Listed { service, .. }) = self.services.remove(uid) {
            self.addresses.forget(&service);
        }
    }
}

fn version(service: &Service) -> Option<u64> {
    own_write::version(service.metadata.resource_version.as_ref()?)
}
