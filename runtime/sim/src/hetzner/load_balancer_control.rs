//! What the owner of the handle may do with load balancers: look at them, change them behind the clients' backs, and set
//! how the cloud treats them.
//!
//! None of this counts as a request, waits, or spends budget.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;

use super::Hetzner;
use super::actions::Resource;
use super::load_balancer_objects::LoadBalancerSpec;
use super::load_balancer_state::{LoadBalancerRules, Locking};
use super::load_balancer_types::{LoadBalancerType, Offer};
use super::load_balancer_view::show;

impl Hetzner {
    /// Adds a load balancer at once and returns its id.
    pub fn add_load_balancer(&self, spec: LoadBalancerSpec) -> u64 {
        self.state(|state| state.world.add_load_balancer(spec))
    }

    /// Takes a load balancer out of the project at once, without an action, protected or not. Says whether it was there.
    pub fn remove_load_balancer(&self, id: u64) -> bool {
        self.state(|state| state.world.remove_load_balancer(id))
    }

    /// Changes anything about a load balancer. Says whether it is there.
    pub fn change_load_balancer(
        &self,
        id: u64,
        change: impl FnOnce(&mut LoadBalancerSpec),
    ) -> bool {
        self.state(|state| {
            let balancer = state.world.load_balancers.get_mut(&id);
            balancer
                .map(|balancer| change(&mut balancer.spec))
                .is_some()
        })
    }

    /// A load balancer as plain data.
    #[must_use]
    pub fn load_balancer_spec(&self, id: u64) -> Option<LoadBalancerSpec> {
        self.state(|state| {
            let balancer = state.world.load_balancers.get(&id)?;
            Some(balancer.spec.clone())
        })
    }

    /// A load balancer as a client would see it.
    #[must_use]
    pub fn load_balancer(&self, id: u64) -> Option<Value> {
        self.state(|state| {
            let balancer = state.world.load_balancers.get(&id)?;
            Some(show(&state.world, balancer))
        })
    }

    /// All load balancers as a client would see them, in the order of their ids, whatever lists hide.
    #[must_use]
    pub fn load_balancers(&self) -> Vec<Value> {
        self.state(|state| {
            let all = state.world.load_balancers.values();
            all.map(|balancer| show(&state.world, balancer)).collect()
        })
    }

    /// The ids of all load balancers, in their order.
    #[must_use]
    pub fn load_balancer_ids(&self) -> Vec<u64> {
        self.state(|state| state.world.load_balancers.keys().copied().collect())
    }

    /// The commands of the actions that worked on a load balancer, in their order; it may be gone.
    #[must_use]
    pub fn load_balancer_actions(&self, id: u64) -> Vec<&'static str> {
        let resource = Resource::LoadBalancer(id);
        self.state(|state| {
            let all = state.world.actions.iter();
            all.filter(|action| action.resources.contains(&resource))
                .map(|action| action.command)
                .collect()
        })
    }

    /// How long actions run that begin from now on, as in [`super::Options::action_duration`].
    pub fn set_action_duration(&self, duration: Duration) {
        self.state(|state| state.world.action_duration = duration);
    }

    /// Whether actions that take no time have ended already in the answer that shows them first. Without this, and to
    /// begin with, they run there, and have ended when somebody asks again.
    pub fn set_prompt_actions(&self, prompt: bool) {
        self.state(|state| state.world.prompt_actions = prompt);
    }

    /// How many load balancers requests may make; 1 000 to begin with.
    pub fn set_load_balancer_quota(&self, quota: usize) {
        self.rules(|rules| rules.quota = quota);
    }

    /// What a load balancer answers to a change while an action runs on it.
    pub fn set_load_balancer_locking(&self, locking: Locking) {
        self.rules(|rules| rules.locking = locking);
    }

    /// Whether the addresses of a load balancer stay unknown until the action that makes it has ended.
    pub fn set_late_addresses(&self, late: bool) {
        self.rules(|rules| rules.late_addresses = late);
    }

    /// Whether a deletion is answered with 204 and nothing else, as the vendor did before October 2026.
    pub fn set_old_load_balancer_deletion(&self, old: bool) {
        self.rules(|rules| rules.old_deletion = old);
    }

    /// Whether a load balancer type may be ordered. Those in use stay.
    pub fn set_offer(&self, size: LoadBalancerType, offer: Offer) {
        self.rules(|rules| {
            rules.offers.insert(size, offer);
        });
    }

    /// Makes the owner of the project rent a machine with this address, which may be a target from now on.
    pub fn own_address(&self, ip: IpAddr) {
        self.rules(|rules| {
            rules.owned_addresses.insert(ip);
        });
    }

    fn rules(&self, change: impl FnOnce(&mut LoadBalancerRules)) {
        self.state(|state| change(&mut state.world.load_balancer_rules));
    }
}
