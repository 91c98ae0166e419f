//! The Services that a controller keeps, as lists and the watch show them. Of a Service of another provider here it keeps
//! no more than the object, which all controllers share, to notice when it changes hands: with thirty providers, each
//! change of a Service would start thirty reconciliations, and each of its memories would be kept. Starts nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_core::service::{
    Claims, NameSlot, ServiceMemory, World, has_finalizer, is_relevant, needs_cleanup, uid,
};
use k8s_openapi::api::core::v1::Service;

use super::{ServiceChange, ServiceController, key};

impl ServiceController {
    /// Handles changes (SVC-004) and deletions: an object can vanish without its finalizer (SVC-056, EDGE-066).
    pub(super) fn see_services(&mut self, change: ServiceChange) {
        match change {
            ServiceChange::Listed(services) => self.listed(&services),
            ServiceChange::Applied(service) => self.apply(key(&service), service, false),
            ServiceChange::Deleted(service) => {
                let key = key(&service);
                let slot = self.slots.get(&key);
                let current = slot.and_then(|slot| slot.current.as_ref());
                if current.is_some_and(|memory| memory.uid() == uid(&service)) {
                    self.orphan(&key);
                }
                let other = self.others.get(&key);
                if other.is_some_and(|other| uid(other) == uid(&service)) {
                    self.others.remove(&key);
                }
            }
            ServiceChange::Reassigned(claims) => self.reassign(claims),
        }
    }

    /// Handles a complete list, which also shows the Services that are gone.
    fn listed(&mut self, services: &BTreeMap<String, Arc<Service>>) {
        let is_gone = |(key, slot): &(&String, &NameSlot)| {
            slot.current.is_some() && !services.contains_key(*key)
        };
        let gone = self.slots.iter().filter(is_gone);
        let gone: Vec<String> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.orphan(key));
        self.others.retain(|key, _| services.contains_key(key));
        if !self.is_listed {
            self.inherit_orphans();
        }
        for (key, service) in services {
            self.apply(key.clone(), service.clone(), true);
        }
        if !self.is_listed {
            self.is_listed = true;
            self.first = Some(self.slots.keys().cloned().collect());
            self.report_first_pass();
        }
    }

    /// Handles a changed set of providers: reconsiders each Service whose owner has changed.
    fn reassign(&mut self, claims: Arc<Claims>) {
        let before = self.world.clone();
        self.world = Arc::new(World::clone(&before).among(claims));
        let now = self.clock.now();
        for (key, slot) in &mut self.slots {
            // Only about a Service that is not this provider's there is anything to report. One that it keeps has
            // nothing to reconsider, and in plan mode its planned change would count as settled.
            let is_other = |service: &Service| {
                before.claims.owner(service) != self.world.claims.owner(service)
                    || before.reports_unserved != self.world.reports_unserved
                        && !self.world.owns(service)
            };
            if let Some(memory) = &mut slot.current
                && is_other(&memory.service)
            {
                memory.reconsider();
                self.queue.ask(key, now, false);
            }
        }
        let left = self.others.values();
        let left = left.filter(|service| !self.is_anothers(service));
        let left: Vec<Arc<Service>> = left.cloned().collect();
        for service in left {
            self.apply(key(&service), service, false);
        }
    }

    /// Handles a Service from a list or the watch.
    fn apply(&mut self, key: String, service: Arc<Service>, is_listed: bool) {
        let now = self.clock.now();
        let known = self.slots.get(&key);
        let known = known.and_then(|slot| slot.current.as_ref());
        let is_kept = known.is_some_and(|memory| memory.uid() == uid(&service));
        if known.is_some() && !is_kept {
            // Created again: the old Service's load balancer does not belong to the new one.
            self.orphan(&key);
        }
        if !is_kept && is_relevant(&service) && self.is_anothers(&service) {
            self.others.insert(key, service);
            return;
        }
        let is_wanted = is_relevant(&service) || self.holds(&service);
        let before = self.others.remove(&key);
        let slot = self.slots.entry(key.clone()).or_default();
        if let Some(memory) = &mut slot.current {
            if memory.see(service, is_listed, now) {
                self.queue.ask(&key, now, true);
            } else if let Some(at) = memory.seen_counts_at() {
                self.queue.ask(&key, at, false);
            } else if self.let_go(&key) && self.forget_if_empty(&key) {
                self.passed(&key, now);
            }
        } else if is_wanted {
            // A Service with our finalizer was handled before, and is not urgent.
            let is_urgent = needs_cleanup(&service) || !has_finalizer(&service);
            let before = before.filter(|before| uid(before) == uid(&service));
            let memory = ServiceMemory::new(service, now);
            slot.current = Some(match before {
                Some(before) => memory.after_another(&before),
                None => memory,
            });
            self.queue.ask(&key, now, is_urgent);
        } else if slot.is_empty() {
            self.slots.remove(&key);
        }
    }

    /// Handles a deleted Service.
    fn orphan(&mut self, key: &str) {
        let now = self.clock.now();
        if let Some(slot) = self.slots.get_mut(key)
            && let Some(gone) = slot.orphan(now)
        {
            let cluster = &self.executor.cluster;
            cluster.add_gone_service(self.executor.name(), gone);
            self.queue.ask(key, now, true);
        }
    }

    /// Continues with the removals of controllers that these replace.
    fn inherit_orphans(&mut self) {
        let now = self.clock.now();
        let cluster = &self.executor.cluster;
        for gone in cluster.gone_services(self.executor.name()) {
            let key = key(&gone.service);
            self.queue.ask(&key, now, false);
            self.slots.entry(key).or_default().inherit(gone, now);
        }
    }

    /// Keeps only the object of a Service once another provider owns it and nothing is left to do here; returns whether
    /// that is so.
    pub(super) fn let_go(&mut self, key: &str) -> bool {
        let Some(slot) = self.slots.get(key) else {
            return false;
        };
        let current = slot.current.as_ref().filter(|memory| memory.is_at_rest());
        let service = current.map(|memory| memory.service.clone());
        let Some(service) = service.filter(|service| self.is_anothers(service)) else {
            return false;
        };
        if let Some(slot) = self.slots.get_mut(key) {
            slot.current = None;
        }
        self.others.insert(key.to_owned(), service);
        true
    }

    /// Removes the slot of a name of which no Service is left; returns whether that is so.
    pub(super) fn forget_if_empty(&mut self, key: &str) -> bool {
        let is_empty = self.slots.get(key).is_some_and(NameSlot::is_empty);
        if is_empty {
            self.slots.remove(key);
            self.queue.forget(key);
            let activity = &self.executor.cluster.activity;
            activity.left(self.executor.name(), &format!("service/{key}"));
        }
        is_empty
    }

    /// Whether another provider here owns the Service, and this one has no load balancer for it.
    fn is_anothers(&self, service: &Service) -> bool {
        self.world.is_anothers(service) && !self.holds(service)
    }

    /// Whether this provider may have a load balancer for a Service that does not show it any more: another client has
    /// edited the owner, or the controllers that these replace had not ended the removal.
    fn holds(&self, service: &Service) -> bool {
        let holder = self.executor.cluster.service_index().holder(uid(service));
        holder.as_deref() == Some(self.executor.name())
    }
}
