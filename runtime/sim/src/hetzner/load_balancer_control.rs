//! Direct control of load balancers through the handle: read them, change them without requests, and configure the
//! cloud's behaviour.
//!
//! None of this counts as a request, waits, or uses budget.

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
        self.world(|world| world.add_load_balancer(spec))
    }

    /// Removes a load balancer at once, without an action, even if protected. Returns whether it existed.
    pub fn remove_load_balancer(&self, id: u64) -> bool {
        self.world(|world| world.remove_load_balancer(id))
    }

    /// Changes any property of a load balancer. Returns whether it exists.
    pub fn change_load_balancer(
        &self,
        id: u64,
        change: impl FnOnce(&mut LoadBalancerSpec),
    ) -> bool {
        self.world(|world| {
            let balancer = world.load_balancers.get_mut(&id);
            balancer
                .map(|balancer| change(&mut balancer.spec))
                .is_some()
        })
    }

    /// The specification of a load balancer.
    #[must_use]
    pub fn load_balancer_spec(&self, id: u64) -> Option<LoadBalancerSpec> {
        self.world(|world| {
            let balancer = world.load_balancers.get(&id)?;
            Some(balancer.spec.clone())
        })
    }

    /// A load balancer as clients see it.
    #[must_use]
    pub fn load_balancer(&self, id: u64) -> Option<Value> {
        self.world(|world| {
            let balancer = world.load_balancers.get(&id)?;
            Some(show(world, balancer))
        })
    }

    /// All load balancers as clients see them, in the order of their IDs, including those hidden from lists.
    #[must_use]
    pub fn load_balancers(&self) -> Vec<Value> {
        self.world(|world| {
            let all = world.load_balancers.values();
            all.map(|balancer| show(world, balancer)).collect()
        })
    }

    /// The IDs of all load balancers, in ascending order.
    #[must_use]
    pub fn load_balancer_ids(&self) -> Vec<u64> {
        self.world(|world| world.load_balancers.keys().copied().collect())
    }

    /// The commands of a load balancer's actions, in order; it may be deleted already.
    #[must_use]
    pub fn load_balancer_actions(&self, id: u64) -> Vec<&'static str> {
        let resource = Resource::LoadBalancer(id);
        self.world(|world| {
            let all = world.actions.iter();
            all.filter(|action| action.resources.contains(&resource))
                .map(|action| action.command)
                .collect()
        })
    }

    /// Sets the duration of actions that begin from now on, as in [`super::Options::action_duration`].
    pub fn set_action_duration(&self, duration: Duration) {
        self.world(|world| world.action_duration = duration);
    }

    /// Sets whether actions without duration have already ended in the response that shows them first. By default they
    /// are still running there and have ended in the next response.
    pub fn set_prompt_actions(&self, prompt: bool) {
        self.world(|world| world.prompt_actions = prompt);
    }

    /// Sets the maximum number of load balancers that requests may create; 1 000 by default.
    pub fn set_load_balancer_quota(&self, quota: usize) {
        self.rules(|rules| rules.quota = quota);
    }

    /// Sets the maximum number of targets of a load balancer of any type, in place of the vendor's limits, which are at
    /// most 150.
    pub fn set_max_targets(&self, targets: usize) {
        self.rules(|rules| rules.max_targets = Some(targets));
    }

    /// Sets the response to a change of a load balancer while an action runs on it.
    pub fn set_load_balancer_locking(&self, locking: Locking) {
        self.rules(|rules| rules.locking = locking);
    }

    /// Sets whether the addresses of a load balancer stay unknown until its creation has ended.
    pub fn set_late_addresses(&self, late: bool) {
        self.rules(|rules| rules.late_addresses = late);
    }

    /// Sets whether a deletion is answered with 204 and no body, as the vendor did before October 2026.
    pub fn set_old_load_balancer_deletion(&self, old: bool) {
        self.rules(|rules| rules.old_deletion = old);
    }

    /// Sets whether a load balancer type may be ordered. Existing load balancers stay.
    pub fn set_offer(&self, size: LoadBalancerType, offer: Offer) {
        self.rules(|rules| {
            rules.offers.insert(size, offer);
        });
    }

    /// Registers this address as a machine rented by the project's owner, which may then be a target.
    pub fn own_address(&self, ip: IpAddr) {
        self.rules(|rules| {
            rules.owned_addresses.insert(ip);
        });
    }

    fn rules(&self, change: impl FnOnce(&mut LoadBalancerRules)) {
        self.world(|world| change(&mut world.load_balancer_rules));
    }
}
