//! State of a project's load balancers: adds them, changes them when an action ends, and removes deleted targets. Also
//! holds the behaviour that tests configure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::actions::Resource;
use super::load_balancer_objects::{Algorithm, LoadBalancer, LoadBalancerSpec, Service, Target};
use super::load_balancer_types::{LoadBalancerType, Offer};
use super::objects::PrivateNet;
use super::world::World;

/// The response to a change of a load balancer while an action runs on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// 423 `locked`, as the vendor documents for every object with a running action.
    #[default]
    Locked,
    /// 409 `conflict`, which the vendor documents for objects that change during the request.
    Conflict,
    /// The change is accepted and ends after the previous one.
    Off,
}

/// Configurable behaviour of a project's load balancers.
pub(super) struct LoadBalancerRules {
    /// Maximum number of load balancers that requests may create; the handle may add more.
    pub(super) quota: usize,
    /// Maximum number of targets of a load balancer of any type, in place of the vendor's limits.
    pub(super) max_targets: Option<usize>,
    pub(super) locking: Locking,
    /// Whether public addresses stay unknown until the creation has ended.
    pub(super) late_addresses: bool,
    /// Whether a deletion is answered without an action, as before October 2026.
    pub(super) old_deletion: bool,
    /// Offers that differ from the default.
    pub(super) offers: BTreeMap<LoadBalancerType, Offer>,
    /// Addresses of machines outside the project that its owner also rents.
    pub(super) owned_addresses: BTreeSet<IpAddr>,
}

impl Default for LoadBalancerRules {
    fn default() -> Self {
        Self {
            quota: 1_000,
            max_targets: None,
            locking: Locking::default(),
            late_addresses: false,
            old_deletion: false,
            offers: BTreeMap::new(),
            owned_addresses: BTreeSet::new(),
        }
    }
}

/// The change that an action makes to a load balancer when it ends.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Replaces the service with the same listening port, or adds a new one.
    PutService(Service),
    DeleteService(u16),
    AddTarget(Target),
    RemoveTarget(Target),
    SetAlgorithm(Algorithm),
    SetType(LoadBalancerType),
    SetIpv4Pointer(Option<String>),
    SetIpv6Pointer(Option<String>),
    SetProtection(bool),
    SetPublicInterface(bool),
    /// The creation failed: keeps only the name and the labels.
    Strip,
}

impl World {
    pub(super) fn offer(&self, size: LoadBalancerType) -> Offer {
        let offers = &self.load_balancer_rules.offers;
        offers.get(&size).copied().unwrap_or_default()
    }

    pub(super) fn max_targets(&self, size: LoadBalancerType) -> usize {
        let lifted = self.load_balancer_rules.max_targets;
        lifted.unwrap_or_else(|| size.max_targets())
    }

    pub(super) fn add_load_balancer(&mut self, spec: LoadBalancerSpec) -> u64 {
        let made = self.load_balancers_made;
        self.load_balancers_made = self.load_balancers_made.wrapping_add(1);
        let id = self.first_id.saturating_add(u64::from(made));
        let balancer = LoadBalancer {
            id,
            spec,
            created: self.now(),
            // A project has an eighth as many addresses for load balancers as for servers.
            number: (self.first_number / 8).wrapping_add(made),
            private_net: None,
        };
        self.load_balancers.insert(id, balancer);
        id
    }

    pub(super) fn remove_load_balancer(&mut self, id: u64) -> bool {
        let Some(balancer) = self.load_balancers.remove(&id) else {
            return false;
        };
        if let Some(net) = balancer.private_net {
            self.release(net);
        }
        true
    }

    /// Whether the action that creates it still runs.
    pub(super) fn is_being_made(&self, id: u64) -> bool {
        let resource = Resource::LoadBalancer(id);
        self.actions.runs("create_load_balancer", resource)
    }

    /// Detaches a load balancer from a network and removes every target that is reached through it. Returns the
    /// attachment.
    pub(super) fn leave_network(&mut self, id: u64, network: u64) -> Option<PrivateNet> {
        let balancer = self.load_balancers.get_mut(&id)?;
        let net = balancer.private_net.take_if(|net| net.network == network)?;
        let targets = &mut balancer.spec.targets;
        targets.retain(|target| !target.uses_private_ip());
        Some(net)
    }

    /// Removes a deleted server from all targets.
    pub(super) fn forget_target(&mut self, server: u64) {
        for balancer in self.load_balancers.values_mut() {
            let targets = &mut balancer.spec.targets;
            targets.retain(|target| !matches!(target, Target::Server { id, .. } if *id == server));
        }
    }

    /// The load balancers that name the server as a target.
    pub(super) fn balancers_with(&self, server: u64) -> Vec<u64> {
        let names = |target: &Target| matches!(target, Target::Server { id, .. } if *id == server);
        let all = self.load_balancers.values();
        all.filter(|balancer| balancer.spec.targets.iter().any(names))
            .map(|balancer| balancer.id)
            .collect()
    }

    pub(super) fn change_load_balancer(&mut self, id: u64, change: Change) {
        if matches!(change, Change::Strip) {
            let net = self.load_balancers.get(&id).and_then(|one| one.private_net);
            net.and_then(|net| self.leave_network(id, net.network))
                .into_iter()
                .for_each(|net| self.release(net));
        }
        // The load balancer may have been deleted while the action ran, and so may a server to be added as a target.
        let is_gone = |target: &Target| matches!(target, Target::Server { id, .. } if !self.servers.contains_key(id));
        if matches!(&change, Change::AddTarget(target) if is_gone(target)) {
            return;
        }
        let Some(balancer) = self.load_balancers.get_mut(&id) else {
            return;
        };
        let spec = &mut balancer.spec;
        match change {
            Change::PutService(service) => {
                let services = &mut spec.services;
                match services
                    .iter_mut()
                    .find(|kept| kept.listen_port == service.listen_port)
                {
                    Some(kept) => *kept = service,
                    None => services.push(service),
                }
            }
            Change::DeleteService(port) => {
                spec.services.retain(|service| service.listen_port != port);
            }
            Change::AddTarget(target) => {
                if !spec.targets.iter().any(|kept| kept.is_same(&target)) {
                    spec.targets.push(target);
                }
            }
            Change::RemoveTarget(target) => spec.targets.retain(|kept| !kept.is_same(&target)),
            Change::SetAlgorithm(algorithm) => spec.algorithm = algorithm,
            Change::SetType(size) => spec.load_balancer_type = size,
            Change::SetIpv4Pointer(name) => spec.ipv4_dns_ptr = name,
            Change::SetIpv6Pointer(name) => spec.ipv6_dns_ptr = name,
            Change::SetProtection(delete) => spec.delete_protected = delete,
            Change::SetPublicInterface(enabled) => spec.public_interface = enabled,
            Change::Strip => {
                spec.services.clear();
                spec.targets.clear();
            }
        }
    }
}
