//! The facts of one reconciliation of a Service, and how outcomes update them. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::account_proof::Account;
use super::effect::{ServiceAction, ServiceEffect, ServiceOutcome, Witnesses};
use super::owning_provider::Owner;
use super::retained_state::{PendingOperation, RetainedState};
use super::stored_state::{annotations, is_deleting, is_load_balancer, uid};
use super::targets::Targets;
use super::work::{Asked, Doing, EnsureAnswer, Making, Work, without_status};
use super::world::World;
use super::{cloud_service, finalizer};
use crate::cloud::error::{CallFailure, ProviderError};
use crate::cloud::instance::CloudEvent;
use crate::cloud::load_balancer::{CloudService, EnsureReply, Ensured, Progress, TargetNodes};
use crate::moment::Moment;
use crate::node::answer_check;
use crate::reconciliation::effect::{Answered, BudgetOutcome, ClusterError, Performed};
use crate::reconciliation::event::reasons::EventReason;
use crate::reconciliation::patch::ServicePatch;
use crate::reconciliation::write_refusal::Refusals;
use crate::safety::brake::Brake;

/// Maximum re-reads of the Service after a conflict in one reconciliation; then it is retried later.
const MAX_CONFLICTS: u32 = 20;

/// The facts of one reconciliation. [`Facts::absorb`] adds to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The Service: from the cache, or as the API server returned it since; its last known state if it is gone.
    pub service: Arc<Service>,
    /// Whether the object itself is gone, so that only its load balancer is left to be removed (SVC-050).
    pub is_gone: bool,
    /// Context shared by all reconciliations.
    pub world: Arc<World>,
    /// The nodes that are to receive traffic.
    pub targets: Targets,
    /// State kept from earlier reconciliations.
    pub past: RetainedState,
    /// The provider account that the answers come from.
    pub account: Account,
    /// The provider that may have a load balancer for it, as far as this process knows.
    pub holder: Option<String>,
    pub(super) state: ReconcileState,
}

/// Results of the reconciliation so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReconcileState {
    pub(super) refusals: ApiRefusals,
    pub(super) budgets: Budgets,
    events: Events,
    pub(super) written: Written,
    /// The requests to the provider, and its answers.
    pub(super) work: Work,
    /// Evidence of the account, if looked up after the last answer.
    pub(super) witnesses: Option<Result<Witnesses, ProviderError>>,
    /// The targets that the provider has confirmed.
    pub(super) targets: Option<TargetNodes>,
    /// The Service is gone or recreated: nothing is left to do.
    pub(super) is_over: bool,
}

/// Refusals of the API server in this reconciliation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ApiRefusals {
    pub(super) refusals: Refusals<MAX_CONFLICTS>,
    /// The operation that was refused last, as the end of "failed to …".
    doing: &'static str,
}

/// Answers that decide whether a change may be made now.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Budgets {
    asked: BTreeMap<Brake, Result<(), Moment>>,
    /// Whether the namespace is being deleted, if looked up.
    pub(super) namespace_goes: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Events {
    /// Events of the provider that are not recorded yet.
    owed: Vec<CloudEvent>,
    /// Reasons of our own Events that were recorded.
    recorded: Vec<String>,
}

/// Writes to the Service since it was last read, made or withheld.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Written {
    /// Whether finalizer and owner were written.
    pub(super) is_marked: bool,
    pub(super) stored: Stored,
}

/// Whether the result of the last call was written: status, annotations and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stored {
    #[default]
    No,
    /// Yes; the status did not differ.
    WithoutStatus,
    /// Yes, with another status.
    WithStatus,
}

/// A failed write or read at the API server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trouble<'a> {
    pub(super) error: &'a ClusterError,
    /// The failed operation, as the end of "failed to …".
    pub(super) doing: &'static str,
}

impl Facts {
    /// Facts at the start of a reconciliation.
    pub fn new(
        service: Arc<Service>,
        is_gone: bool,
        world: Arc<World>,
        targets: Targets,
        past: RetainedState,
        account: Account,
    ) -> Facts {
        Facts {
            service,
            is_gone,
            world,
            targets,
            past,
            account,
            holder: None,
            state: ReconcileState::default(),
        }
    }

    /// Whether the Service has changed since the provider was asked: the response to our own write may contain another
    /// writer's change, for which no further watch event arrives.
    pub fn is_outdated(&self) -> bool {
        if self.is_gone || self.state.is_over {
            return false;
        }
        match &self.state.work {
            Work::Released => self.is_wanted() && self.world.owns(&self.service),
            work => work
                .asked()
                .is_some_and(|asked| asked.service != self.wanted()),
        }
    }

    /// Whether the Service wants a load balancer.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_gone && is_load_balancer(&self.service) && !is_deleting(&self.service)
    }

    /// The configured provider that may have a load balancer for the Service. An owner that another client edited
    /// meanwhile does not replace it: nobody would remove that load balancer. One that is not configured here does: it
    /// may have a manager of its own, and two managers would set the owner back in turns.
    pub(super) fn keeper(&self) -> Option<&str> {
        let claims = &self.world.claims;
        let holder = self.holder.as_deref();
        let is_absent = matches!(claims.owner(&self.service), Owner::Absent(_));
        holder.filter(|name| claims.contain(name) && !is_absent)
    }

    /// Whether this provider owns the Service.
    pub(super) fn is_owned(&self) -> bool {
        match self.keeper() {
            Some(keeper) => keeper == self.world.ownership.claim.name,
            None => self.world.owns(&self.service),
        }
    }

    /// The request that the Service calls for now.
    pub(super) fn wanted(&self) -> Arc<CloudService> {
        without_status(&cloud_service(&self.service))
    }

    /// The operation that was pending before this reconciliation, if it is this one: each has its own age.
    pub(super) fn pending_before(&self, doing: Doing) -> Option<&PendingOperation> {
        let before = self.past.phase.pending();
        before.filter(|before| before.doing == doing)
    }

    /// Adds the result of `effect`.
    pub fn absorb(&mut self, effect: &ServiceEffect, performed: Performed<ServiceOutcome>) {
        let effect = &effect.action;
        let Performed::Ended(outcome) = performed else {
            return self.withhold(effect);
        };
        match outcome {
            ServiceOutcome::Budget(brake, BudgetOutcome::Answered(answer)) => {
                self.state.budgets.asked.insert(brake, answer);
            }
            ServiceOutcome::Budget(_, BudgetOutcome::Failed(error)) => {
                self.fail("record the spent budget", error);
            }
            ServiceOutcome::Event(_) => self.note(effect),
            ServiceOutcome::Ensured(result) => self.absorb_ensured(effect, result),
            ServiceOutcome::Progressed(result) => {
                let result = match result {
                    Ok(answered) => {
                        self.owe(&answered.reply.events);
                        Ok(answered.reply.progress)
                    }
                    Err(failure) => Err(self.failed(failure)),
                };
                self.absorb_progress(effect, result);
            }
            ServiceOutcome::Got(result) => {
                match &mut self.state.work {
                    Work::Removing(removing) => removing.got = Some(result),
                    work => *work = Work::Looked(result),
                }
                self.state.witnesses = None;
            }
            ServiceOutcome::Owner(owner) => {
                if let Work::Making(making) = &mut self.state.work {
                    making.owner = Some(owner);
                }
            }
            ServiceOutcome::Witnesses(witnesses) => self.state.witnesses = Some(witnesses),
            ServiceOutcome::NamespaceGoes(goes) => self.state.budgets.namespace_goes = Some(goes),
            ServiceOutcome::Service(Ok(Some(service))) if uid(&service) == uid(&self.service) => {
                self.service = Arc::from(service);
                self.settle(effect);
            }
            // Deleted, or recreated under the same name: the new one has its own reconciliation.
            ServiceOutcome::Service(Ok(_)) => {
                if releases(effect) {
                    self.state.work = Work::Released;
                }
                self.state.is_over = true;
            }
            ServiceOutcome::Service(Err(error)) => self.absorb_error(effect, error),
        }
    }

    fn absorb_ensured(
        &mut self,
        effect: &ServiceAction,
        result: Result<Answered<EnsureReply>, CallFailure>,
    ) {
        let ServiceAction::Ensure(request) = effect else {
            return;
        };
        let result = result.map_err(|failure| self.failed(failure));
        let is_made = match &result {
            Ok(answered) => {
                self.owe(&answered.reply.events);
                matches!(answered.reply.ensured, Ensured::Ready(_))
            }
            Err(error) => *error == ProviderError::Elsewhere,
        };
        let state = &mut self.state;
        if is_made {
            state.targets = Some(request.targets.clone());
        }
        let asked = Asked::new(&request.service, &request.targets);
        state.work.make(asked, |making| {
            making.adopt.clone_from(&request.adopt);
            making.ensured = Some(result);
        });
        state.witnesses = None;
        state.written.stored = Stored::No;
    }

    fn absorb_progress(&mut self, effect: &ServiceAction, result: Result<Progress, ProviderError>) {
        let state = &mut self.state;
        match effect {
            ServiceAction::UpdateTargets(request) => {
                let is_made = matches!(result, Ok(Progress::Done) | Err(ProviderError::Elsewhere));
                if is_made {
                    state.targets = Some(request.targets.clone());
                }
                let asked = Asked::new(&request.service, &request.targets);
                let work = &mut state.work;
                work.make(asked, |making| making.updated = Some(result));
            }
            ServiceAction::Delete(request) => {
                let asked = Asked::new(&request.service, &Arc::from([]));
                state.work.remove(asked, Some(result));
            }
            _ => {}
        }
    }

    /// Keeps the events of a failure; returns its error.
    fn failed(&mut self, failure: CallFailure) -> ProviderError {
        self.owe(&failure.events);
        failure.error
    }

    /// Keeps the provider's events that pass the answer check.
    fn owe(&mut self, events: &[CloudEvent]) {
        let fit = events.iter().filter_map(answer_check::check_event);
        self.state.events.owed.extend(fit);
    }

    /// A write or a re-read succeeded.
    fn settle(&mut self, effect: &ServiceAction) {
        let state = &mut self.state;
        match effect {
            ServiceAction::Read => {
                state.refusals.refusals.was_read();
                state.written = Written::default();
            }
            ServiceAction::Patch(patch) => {
                self.write(patch);
                let seen = cloud_service(&self.service);
                self.state.work.note_annotations(patch, &seen);
                let is_lost =
                    finalizer::is_mark(patch) && !finalizer::is_marked(&self.service, &self.world);
                if is_lost && !is_deleting(&self.service) {
                    // An admission webhook has removed it. Writing it again at once would loop forever.
                    let what = "finalizer and owner are not there after they were written";
                    let error = ClusterError::Rejected(what.to_owned());
                    self.fail(doing(effect), error);
                }
            }
            _ => {}
        }
    }

    /// A change was withheld in plan mode. After a withheld write the rest is computed as if it had been made; after a
    /// change at the cloud it depends on the answer, so the reconciliation ends.
    fn withhold(&mut self, effect: &ServiceAction) {
        let work = &mut self.state.work;
        let withheld = |making: &mut Making| making.is_withheld = true;
        match effect {
            ServiceAction::Patch(patch) => self.write(patch),
            ServiceAction::Ensure(request) => {
                work.make(Asked::new(&request.service, &request.targets), withheld);
            }
            ServiceAction::UpdateTargets(request) => {
                work.make(Asked::new(&request.service, &request.targets), withheld);
            }
            ServiceAction::Delete(request) => {
                work.remove(Asked::new(&request.service, &Arc::from([])), None);
            }
            _ => self.note(effect),
        }
    }

    fn write(&mut self, patch: &ServicePatch) {
        let state = &mut self.state;
        if finalizer::is_mark(patch) {
            state.written.is_marked = true;
        } else if finalizer::is_release(patch) {
            state.work = Work::Released;
        } else {
            state.written.stored = match patch.status {
                Some(_) => Stored::WithStatus,
                None => Stored::WithoutStatus,
            };
        }
    }

    /// An Event was recorded.
    fn note(&mut self, effect: &ServiceAction) {
        if let ServiceAction::RecordEvent(event) = effect {
            if let Some(index) = self.state.events.owed.iter().position(|owed| owed == event) {
                self.state.events.owed.remove(index);
            } else {
                self.state.events.recorded.push(event.reason.clone());
            }
        }
    }

    /// The reconciliation has failed at this operation; reading again would not help.
    fn fail(&mut self, doing: &'static str, error: ClusterError) {
        self.state.refusals.doing = doing;
        self.state.refusals.refusals.fail(error);
    }

    fn absorb_error(&mut self, effect: &ServiceAction, error: ClusterError) {
        let state = &mut self.state;
        if is_only_conditions(effect) {
            // The condition only repeats the Event: its failed write does not delay the reconciliation further.
            state.written.stored = Stored::WithoutStatus;
            return;
        }
        state.refusals.doing = doing(effect);
        match effect {
            ServiceAction::Read => state.refusals.refusals.read_failed(error),
            _ => state.refusals.refusals.write_failed(error),
        }
    }

    /// The last failure of the API server.
    pub(super) fn trouble(&self) -> Option<Trouble<'_>> {
        let ApiRefusals { refusals, doing } = &self.state.refusals;
        Some(Trouble {
            error: refusals.trouble()?,
            doing,
        })
    }

    /// Result of taking budget from `brake`, if tried.
    pub(super) fn budget(&self, brake: Brake) -> Option<Result<(), Moment>> {
        self.state.budgets.asked.get(&brake).copied()
    }

    /// Whether an Event with this reason was recorded in this reconciliation.
    pub(super) fn has_recorded(&self, reason: &EventReason) -> bool {
        self.state
            .events
            .recorded
            .iter()
            .any(|recorded| recorded == reason.reason)
    }

    /// Events of the provider that are not recorded yet.
    pub(super) fn owed(&self) -> &[CloudEvent] {
        &self.state.events.owed
    }

    /// The last answer to an ensure call, unless a removal was requested since.
    pub(super) fn ensured(&self) -> Option<&EnsureAnswer> {
        self.state.work.making()?.ensured.as_ref()
    }

    /// The last answer to an update of the targets, unless a removal was requested since.
    pub(super) fn updated(&self) -> Option<&Result<Progress, ProviderError>> {
        self.state.work.making()?.updated.as_ref()
    }

    /// The targets that the provider confirmed last.
    pub(super) fn confirmed(&self) -> Option<&TargetNodes> {
        let before = self.past.targets.confirmed.as_ref();
        self.state.targets.as_ref().or(before)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&String> {
        annotations(&self.service).get(key)
    }
}

fn releases(effect: &ServiceAction) -> bool {
    matches!(effect, ServiceAction::Patch(patch) if finalizer::is_release(patch))
}

fn is_only_conditions(effect: &ServiceAction) -> bool {
    let ServiceAction::Patch(patch) = effect else {
        return false;
    };
    patch.finalizer.is_none() && patch.annotations.is_empty() && patch.status.is_none()
}

/// The operation as the end of "failed to …": upstream's wording (SVC-031, SVC-043, SVC-084), where there is one.
fn doing(effect: &ServiceAction) -> &'static str {
    match effect {
        ServiceAction::Patch(patch) if finalizer::is_mark(patch) => {
            "add load balancer cleanup finalizer"
        }
        ServiceAction::Patch(patch) if finalizer::is_release(patch) => {
            "remove load balancer cleanup finalizer"
        }
        ServiceAction::Patch(_) => "update load balancer status",
        _ => "read the service",
    }
}
