//! State of a Service between two reconciliations, and the filter for changes that need a new one. Starts nothing.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;

use super::account_proof::Account;
use super::change_filter::{is_edit, is_relevant_change};
use super::facts::Facts;
use super::retained_state::RetainedState;
use super::stored_state::{class, uid};
use super::targets::Targets;
use super::world::World;
use super::{is_load_balancer, needs_cleanup};
use crate::cloud::load_balancer::TargetNodes;
use crate::moment::Moment;
use crate::reconciliation::conclusion::{Conclusion, Next};
use crate::reconciliation::effect::When;
use crate::reconciliation::own_write::OwnWrite;
use crate::reconciliation::retry;
use crate::safety::permit::Mode;

/// All Services of one name: the current one, and earlier ones whose load balancers are still to be removed. A Service
/// that was created again has another UID and another load balancer (SVC-023).
#[derive(Default)]
pub struct NameSlot {
    /// Earlier Services, oldest first. They take precedence over the current one until a removal fails.
    pub orphans: VecDeque<ServiceMemory>,
    /// The Service that has the name now.
    pub current: Option<ServiceMemory>,
}

/// A Service that is gone, and whose load balancer may not be.
#[derive(Clone)]
pub struct GoneService {
    /// Its last known state.
    pub service: Arc<Service>,
    /// The provider that may have the load balancer; `None`: the recorded owner.
    pub holder: Option<String>,
}

/// State of one Service between reconciliations.
pub struct ServiceMemory {
    /// Its current or last known state.
    pub service: Arc<Service>,
    /// Whether no Service has this UID any more.
    pub is_gone: bool,
    past: RetainedState,
    /// The provider that may have a load balancer for it.
    holder: Option<String>,
    /// Before this moment the cloud asked not to be called about it.
    not_before: Option<Moment>,
    /// The Service at the end of the last reconciliation, which has considered all of it: changes that others wrote
    /// meanwhile are part of the response to our last write, and are compared with the request.
    concluded: Option<Arc<Service>>,
    /// The Service at the begin of the reconciliation that is running.
    reconciling: Option<Arc<Service>>,
    /// When the next reconciliation is due, even without a change.
    due_at: Option<Moment>,
    /// When the next drift check is due.
    drift_at: Option<Moment>,
    /// Our last write of this Service, until the cache has it.
    written: Option<OwnWrite>,
    /// The state from a list that is older than our own write, and from the watch after it.
    older: Option<Arc<Service>>,
    corrections: Corrections,
}

/// Reconciliations because of edits by other clients. Two clients that both write the status, or an annotation of the
/// provider, would otherwise wake each other for ever, with a request to the cloud each time.
#[derive(Debug, Default, Clone, Copy)]
struct Corrections {
    /// How many there were with less than [`Corrections::QUIET`] between them.
    count: u32,
    last: Option<Moment>,
}

impl Corrections {
    /// Without an edit for this long, the next one is corrected at once.
    const QUIET: Duration = Duration::from_secs(600);

    /// The earliest moment of the next one; `None`: at once.
    fn next_at(self) -> Option<Moment> {
        self.last
            .map(|last| last.after(retry::CLOUD.after(self.count)))
    }

    fn record(&mut self, now: Moment) {
        if self.last.is_some_and(|last| last.after(Self::QUIET) <= now) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
    }
}

impl NameSlot {
    /// The next Service to reconcile. An earlier one whose removal has failed waits for its retry, and the current one
    /// does not wait for it (SVC-023).
    pub fn first(&mut self, now: Moment) -> Option<&mut ServiceMemory> {
        let is_due = |memory: &ServiceMemory| {
            memory.due_at.is_none_or(|at| at <= now) && !memory.is_held(now)
        };
        match self.orphans.iter().position(is_due) {
            Some(eldest) => self.orphans.get_mut(eldest),
            None if self.current.is_some() => self.current.as_mut(),
            None => self.orphans.front_mut(),
        }
    }

    /// When a Service of this name is due without a change.
    pub fn next_at(&self) -> Option<Moment> {
        let all = self.orphans.iter().chain(&self.current);
        all.filter_map(ServiceMemory::next_at).min()
    }

    /// The Service with this UID.
    pub fn with_uid(&mut self, uid: &str) -> Option<&mut ServiceMemory> {
        let mut all = self.orphans.iter_mut().chain(&mut self.current);
        all.find(|memory| memory.uid() == uid)
    }

    /// Turns the current Service into an orphan: it was deleted or replaced.
    pub fn orphan(&mut self, now: Moment) -> Option<GoneService> {
        let mut memory = self.current.take()?;
        memory.is_gone = true;
        memory.due_at = Some(now);
        memory.service = memory.older.take().unwrap_or(memory.service);
        let gone = GoneService {
            service: memory.service.clone(),
            holder: memory.holder.clone(),
        };
        self.orphans.push_back(memory);
        Some(gone)
    }

    /// Adds an orphan of controllers that these replace.
    pub fn inherit(&mut self, gone: GoneService, now: Moment) {
        let mut memory = ServiceMemory::new(gone.service, now);
        memory.is_gone = true;
        memory.due_at = Some(now);
        memory.holder = gone.holder;
        self.orphans.push_back(memory);
    }

    /// Removes the orphan with this UID, which is done.
    pub fn release(&mut self, uid: &str) {
        self.orphans.retain(|memory| memory.uid() != uid);
    }

    /// Whether no Service is left.
    pub fn is_empty(&self) -> bool {
        self.orphans.is_empty() && self.current.is_none()
    }
}

impl ServiceMemory {
    /// Starts with a Service not known before.
    pub fn new(service: Arc<Service>, now: Moment) -> ServiceMemory {
        ServiceMemory {
            past: RetainedState::of_stranger(&service, now),
            service,
            is_gone: false,
            holder: None,
            not_before: None,
            concluded: None,
            reconciling: None,
            due_at: None,
            drift_at: None,
            written: None,
            older: None,
            corrections: Corrections::default(),
        }
    }

    /// The same, about a Service that was another provider's while it was as `before`.
    pub fn after_another(mut self, before: &Service) -> ServiceMemory {
        self.past.left_alone.was_foreign = is_load_balancer(before) && class(before).is_some();
        self
    }

    /// The Service's `metadata.uid`.
    pub fn uid(&self) -> &str {
        uid(&self.service)
    }

    /// Takes the state from a list or a watch; returns whether it may need a reconciliation. Our own writes do not. A
    /// change that is taken back during a reconciliation does: the provider was told of the change. A watch event older
    /// than our own write is late and never right: accepting it would create a load balancer for a deleted Service.
    pub fn see(&mut self, service: Arc<Service>, is_listed: bool, now: Moment) -> bool {
        if let Some(written) = self.written
            && written.is_newer_than(resource_version(&service))
            && (!is_listed || now < written.expires_at())
        {
            // Nothing repeats a change that follows such a list.
            if is_listed || self.older.is_some() {
                self.older = Some(service);
            }
            return false;
        }
        self.written = None;
        self.older = None;
        self.service = service;
        let reconciling = self.reconciling.as_deref();
        self.has_changed(now) || reconciling.is_some_and(|before| self.is_wanted_otherwise(before))
    }

    /// Whether something else is wanted than of the Service as it was.
    fn is_wanted_otherwise(&self, before: &Service) -> bool {
        is_relevant_change(before, &self.service, &self.past.answers.annotations)
    }

    /// Makes the Service count as changed.
    pub fn reconsider(&mut self) {
        self.concluded = None;
    }

    /// Whether the Service has changed since the last reconciliation, and this is not an edit that is corrected later.
    fn has_changed(&self, now: Moment) -> bool {
        let concluded = self.concluded.as_deref();
        concluded.is_none_or(|before| self.is_wanted_otherwise(before))
            || self.is_edited() && self.corrections.next_at().is_none_or(|at| at <= now)
    }

    /// Whether another client has edited what only this controller writes.
    fn is_edited(&self) -> bool {
        let concluded = self.concluded.as_deref();
        let written = &self.past.answers.annotations;
        concluded.is_some_and(|before| is_edit(before, &self.service, written))
    }

    /// When an edit by another client is corrected, if there is one.
    fn corrected_at(&self) -> Option<Moment> {
        self.corrections.next_at().filter(|_| self.is_edited())
    }

    /// How many edits by other clients were corrected with less than ten minutes between them.
    pub fn corrections(&self) -> u32 {
        self.corrections.count
    }

    /// Whether a reconciliation is needed now.
    pub fn wants_turn(&mut self, targets: &Targets, world: &World, now: Moment) -> bool {
        self.accept_older(now);
        if self.is_held(now) {
            return false;
        }
        if let Some(due_at) = self.due_at {
            return due_at <= now || self.has_changed(now) || self.wants_targets(targets, world);
        }
        self.past.drift_due |= self.drift_at.is_some_and(|at| at <= now);
        self.past.drift_due || self.wants_targets(targets, world) || self.has_changed(now)
    }

    fn is_held(&self, now: Moment) -> bool {
        self.not_before.is_some_and(|at| now < at)
    }

    /// Accepts a list that is older than our own write, once that write is long enough ago.
    fn accept_older(&mut self, now: Moment) {
        let is_long_ago = |written: OwnWrite| written.expires_at() <= now;
        if self.written.is_some_and(is_long_ago)
            && let Some(older) = self.older.take()
        {
            self.written = None;
            self.service = older;
        }
    }

    /// Whether it has a load balancer whose provider knows other targets. A failed Service is retried at its own time,
    /// with the nodes of that time; but a load balancer that cannot be made as requested still follows the nodes.
    pub fn wants_targets(&self, targets: &Targets, world: &World) -> bool {
        (self.due_at.is_none() || self.past.follows_nodes())
            && is_load_balancer(&self.service)
            && !needs_cleanup(&self.service)
            && world.owns(&self.service)
            && self.past.wants_targets(targets)
    }

    /// Whether the last attempt failed.
    pub fn has_failed(&self) -> bool {
        self.past.failures > 0
    }

    /// Whether nothing is to be done about the Service, and a new memory of it would know as much.
    pub fn is_at_rest(&self) -> bool {
        self.reconciling.is_none()
            && self.due_at.is_none()
            && self.written.is_none()
            && self.older.is_none()
            && self.past.holds_nothing()
    }

    /// Whether another reconciliation is scheduled.
    pub fn is_due(&self) -> bool {
        self.due_at.is_some()
    }

    /// When it is reconciled again without a change.
    pub fn next_at(&self) -> Option<Moment> {
        let turn = self.due_at.or(self.drift_at);
        let turn = turn.into_iter().chain(self.corrected_at()).min();
        let turn = turn.map(|at| self.not_before.map_or(at, |earliest| at.max(earliest)));
        turn.into_iter().chain(self.accepts_older_at()).min()
    }

    /// When what was seen last counts, if it does not yet: a list that is older than our own write, or an edit by another
    /// client.
    pub fn seen_counts_at(&self) -> Option<Moment> {
        let at = self.accepts_older_at();
        at.into_iter().chain(self.corrected_at()).min()
    }

    /// When it accepts a list that is older than our own write, if there is one.
    fn accepts_older_at(&self) -> Option<Moment> {
        let older = self.older.as_ref().and(self.written);
        older.map(|written| written.expires_at())
    }

    /// The initial facts of a reconciliation; `holder` is the provider that may have a load balancer for the Service,
    /// unless it is gone.
    pub fn facts(
        &mut self,
        world: Arc<World>,
        targets: Targets,
        account: Account,
        holder: Option<String>,
        now: Moment,
    ) -> Facts {
        self.due_at = None;
        if self.is_edited() {
            self.corrections.record(now);
        }
        if !self.is_gone {
            self.holder = holder;
        }
        let service = self.service.clone();
        self.reconciling = Some(service.clone());
        let past = self.past.clone();
        Facts {
            holder: self.holder.clone(),
            ..Facts::new(service, self.is_gone, world, targets, past, account)
        }
    }

    /// Stores the result of a reconciliation. If drift checks are enabled, the next of an own Service is due after
    /// `drift_check`, plus or minus one half. Returns when the next reconciliation is due; `None`: nothing is left to do
    /// about a Service that is gone.
    pub fn conclude(
        &mut self,
        conclusion: Conclusion<Facts, RetainedState>,
        now: Moment,
        drift_check: Option<Duration>,
    ) -> Option<Next> {
        let Conclusion {
            when,
            facts,
            retained,
            has_written,
            ..
        } = conclusion;
        let has_vanished_before = facts.is_gone;
        let (is_outdated, is_owned) = (facts.is_outdated(), facts.is_owned());
        let world = facts.world;
        let service = facts.service;
        self.past = retained;
        let is_asked = self.past.phase.asked().is_some();
        if is_asked && !has_vanished_before && world.mode == Mode::Enforce {
            // The index of Services forgets one that vanishes before the next reconciliation.
            self.holder = Some(world.ownership.claim.name.clone());
        }
        if has_written && let Some(written) = OwnWrite::new(resource_version(&service), now) {
            self.written = Some(written);
            if written.is_newer_than(resource_version(&self.service)) && !self.is_gone {
                self.service = service.clone();
            }
        }
        self.concluded = Some(service);
        self.reconciling = None;
        self.not_before = None;
        // A Service that was deleted during the reconciliation gets another one. So does one that was changed
        // meanwhile, unless the cloud has asked for a delay.
        let is_unfinished = self.is_gone && !has_vanished_before || is_outdated;
        self.due_at = is_unfinished.then_some(now);
        Some(match when {
            When::AwaitChange | When::Blocked { .. } if has_vanished_before => return None,
            When::AwaitChange | When::Blocked { .. } if self.is_due() => Next::At(now),
            When::AwaitChange | When::Blocked { .. } => {
                if !is_owned {
                    self.drift_at = None;
                } else if self.drift_at.is_none_or(|at| at <= now) {
                    let period = drift_check.map(|period| jittered(period, self.uid()));
                    self.drift_at = period.map(|period| now.after(period));
                }
                self.next_at().map_or(Next::OnChange, Next::At)
            }
            When::Retry { after, .. } => Next::At(*self.due_at.get_or_insert(now.after(after))),
            When::NotBefore { after, .. } => {
                let at = now.after(after);
                self.due_at.get_or_insert(at);
                self.not_before = Some(at);
                Next::NotBefore(at)
            }
        })
    }

    /// See [`RetainedState::share_targets`].
    pub fn share_targets(&mut self, shared: &TargetNodes) {
        self.past.share_targets(shared);
    }

    /// Stores that the reconciliation panicked, and requests the next one.
    pub fn abandon(&mut self, now: Moment) -> Next {
        self.reconciling = None;
        self.past.failures = self.past.failures.saturating_add(1);
        let at = now.after(retry::CLOUD.after(self.past.failures));
        self.due_at = Some(at);
        Next::At(at)
    }
}

/// Between a half and one and a half of `period`, constant for each Service, to spread the checks.
fn jittered(period: Duration, uid: &str) -> Duration {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    let thousandths = u32::try_from(hasher.finish() % 1001).unwrap_or(500);
    period.saturating_mul(500 + thousandths) / 1000
}

/// The `metadata.resourceVersion` of `service`; empty if there is none.
fn resource_version(service: &Service) -> &str {
    let version = service.metadata.resource_version.as_deref();
    version.unwrap_or_default()
}

#[cfg(test)]
mod tests;
