//! The facts of one reconciliation of a Service, and how outcomes update them. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::account_proof::Account;
use super::cloud_service;
use super::retained_state::{Asked, RetainedState};
use super::stored_state::{annotations, uid};
use super::targets::Targets;
use super::world::World;
use crate::answer_check;
use crate::brake::Brake;
use crate::cloud::error::{CallFailure, ProviderError};
use crate::cloud::instance::{CloudEvent, CloudNode};
use crate::effect::{
    Answered, ClusterError, Effect, Outcome, OwnerState, ServiceEffect, ServiceOutcome, Witnesses,
};
use crate::load_balancer::{CloudService, EnsureReply, Ensured, GetReply, Pending, Progress};
use crate::moment::Moment;
use crate::patch::ServicePatch;
use crate::write_refusal::Refusals;

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
    pub(super) state: ReconcileState,
}

/// Results of the reconciliation so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReconcileState {
    pub(super) refusals: Refusals<MAX_CONFLICTS>,
    /// The operation that the API server refused last, as the end of "failed to …".
    refused: &'static str,
    budgets: BTreeMap<Brake, Result<(), Moment>>,
    /// Events of the provider that are not recorded yet.
    pub(super) owed: Vec<CloudEvent>,
    said: Vec<String>,
    /// Finalizer and owner were written, or their write withheld.
    pub(super) is_marked: bool,
    /// Last request, to be compared with later wishes.
    pub(super) asked: Option<Asked>,
    pub(super) ensured: Option<Result<Answered<EnsureReply>, ProviderError>>,
    pub(super) updated: Option<Result<Progress, ProviderError>>,
    pub(super) deleted: Option<Result<Progress, ProviderError>>,
    /// The mode withheld a change at the cloud, so that its consequences are unknown.
    pub(super) withheld: Option<Withheld>,
    pub(super) got: Option<Result<GetReply, ProviderError>>,
    pub(super) owner: Option<OwnerState>,
    /// Evidence of the account, if looked up after the last answer.
    pub(super) witnesses: Option<Result<Witnesses, ProviderError>>,
    /// Whether the namespace is being deleted, if looked up.
    pub(super) namespace_goes: Option<bool>,
    /// The targets that the provider has confirmed.
    pub(super) targets: Option<Arc<[CloudNode]>>,
    /// Status, annotations and conditions were written, or their write withheld.
    pub(super) is_stored: bool,
    /// That write included a status.
    pub(super) has_status_changed: bool,
    /// The removal of finalizer and owner was written, or withheld.
    pub(super) is_released: bool,
    /// The Service is gone or recreated: nothing is left to do.
    pub(super) is_over: bool,
}

/// Change at the cloud that was withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Withheld {
    /// Of the load balancer or its targets.
    Change,
    /// Removal of the load balancer.
    Removal,
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
            state: ReconcileState::default(),
        }
    }

    /// Whether the Service has changed since the provider was asked: the response to our own write may contain another
    /// writer's change, for which no further watch event arrives.
    pub fn is_outdated(&self) -> bool {
        let asked = self.state.asked.as_ref();
        !self.is_gone
            && !self.state.is_over
            && !self.state.is_released
            && asked.is_some_and(|asked| asked.service != self.wanted())
    }

    /// The request that the Service calls for now.
    pub(super) fn wanted(&self) -> Arc<CloudService> {
        without_status(cloud_service(&self.service))
    }

    /// Adds the outcome of `effect`.
    pub fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        let Effect::Service(_, effect) = effect else {
            return;
        };
        match outcome {
            Outcome::Budget(result) => {
                if let ServiceEffect::TakeBudget(brake, _) = effect {
                    self.state.budgets.insert(*brake, result);
                }
            }
            Outcome::Recorded | Outcome::Deferred | Outcome::Unrecorded(_) => self.note(effect),
            Outcome::Withheld => self.withhold(effect),
            Outcome::Service(outcome) => self.absorb_service(effect, outcome),
            // Effects of other controllers.
            Outcome::Looked(_)
            | Outcome::Surveyed(_)
            | Outcome::VoteCast(..)
            | Outcome::Node(_)
            | Outcome::Route(_)
            | Outcome::Deleted
            | Outcome::Drained(_) => {}
        }
    }

    fn absorb_service(&mut self, effect: &ServiceEffect, outcome: ServiceOutcome) {
        match outcome {
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
                self.state.got = Some(result);
                self.state.witnesses = None;
            }
            ServiceOutcome::Owner(owner) => self.state.owner = Some(owner),
            ServiceOutcome::Vouched(said) => self.state.witnesses = Some(said),
            ServiceOutcome::NamespaceGoes(goes) => self.state.namespace_goes = Some(goes),
            ServiceOutcome::Service(Ok(Some(service))) if uid(&service) == uid(&self.service) => {
                self.service = Arc::from(service);
                self.settle(effect);
            }
            // Deleted, or recreated under the same name: the new one has its own reconciliation.
            ServiceOutcome::Service(Ok(_)) => {
                self.state.is_released |= releases(effect);
                self.state.is_over = true;
            }
            ServiceOutcome::Service(Err(error)) => self.absorb_error(effect, error),
        }
    }

    fn absorb_ensured(
        &mut self,
        effect: &ServiceEffect,
        result: Result<Answered<EnsureReply>, CallFailure>,
    ) {
        let ServiceEffect::Ensure(request) = effect else {
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
        state.asked = asked(effect);
        state.ensured = Some(result);
        state.witnesses = None;
        state.is_stored = false;
    }

    fn absorb_progress(&mut self, effect: &ServiceEffect, result: Result<Progress, ProviderError>) {
        let state = &mut self.state;
        match effect {
            ServiceEffect::UpdateTargets(request) => {
                let is_made = matches!(result, Ok(Progress::Done) | Err(ProviderError::Elsewhere));
                if is_made {
                    state.targets = Some(request.targets.clone());
                }
                state.asked = asked(effect);
                state.updated = Some(result);
            }
            ServiceEffect::Delete(_) => {
                state.asked = asked(effect);
                state.deleted = Some(result);
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
        self.state.owed.extend(fit);
    }

    /// A write or a re-read succeeded.
    fn settle(&mut self, effect: &ServiceEffect) {
        let state = &mut self.state;
        match effect {
            ServiceEffect::Read => {
                state.refusals.was_read();
                state.is_marked = false;
                state.is_stored = false;
            }
            ServiceEffect::Patch(patch) => {
                self.write(patch);
                let is_lost =
                    super::is_mark(patch) && !super::is_marked(&self.service, &self.world);
                if is_lost && !super::stored_state::is_deleting(&self.service) {
                    // An admission webhook has removed it. Writing it again at once would loop forever.
                    let what = "finalizer and owner are not there after they were written";
                    let error = ClusterError::Rejected(what.to_owned());
                    self.state.refused = doing(effect);
                    self.state.refusals.fail(error);
                }
            }
            _ => {}
        }
    }

    /// A change was withheld in plan mode. After a withheld write the rest is computed as if it had been made; after a
    /// change at the cloud it depends on the answer, so the reconciliation ends.
    fn withhold(&mut self, effect: &ServiceEffect) {
        if effect.is_cloud_change() {
            self.state.asked = asked(effect);
            self.state.withheld = Some(match effect {
                ServiceEffect::Delete(_) => Withheld::Removal,
                _ => Withheld::Change,
            });
        }
        match effect {
            ServiceEffect::Patch(patch) => self.write(patch),
            ServiceEffect::TakeBudget(brake, _) => {
                self.state.budgets.insert(*brake, Ok(()));
            }
            _ => self.note(effect),
        }
    }

    fn write(&mut self, patch: &ServicePatch) {
        let state = &mut self.state;
        if super::is_mark(patch) {
            state.is_marked = true;
        } else if super::is_release(patch) {
            state.is_released = true;
        } else {
            state.is_stored = true;
            state.has_status_changed |= patch.status.is_some();
            // Annotations set for the provider itself must not trigger another call.
            if let Some(asked) = &mut state.asked {
                let service = Arc::make_mut(&mut asked.service);
                for (key, value) in &patch.annotations {
                    match value {
                        Some(value) => service.annotations.insert(key.clone(), value.clone()),
                        None => service.annotations.remove(key),
                    };
                }
            }
        }
    }

    /// An Event was recorded.
    fn note(&mut self, effect: &ServiceEffect) {
        if let ServiceEffect::RecordEvent(event) = effect {
            if let Some(index) = self.state.owed.iter().position(|owed| owed == event) {
                self.state.owed.remove(index);
            } else {
                self.state.said.push(event.reason.clone());
            }
        }
    }

    fn absorb_error(&mut self, effect: &ServiceEffect, error: ClusterError) {
        let state = &mut self.state;
        if is_only_conditions(effect) {
            // The condition only repeats the Event: its failed write does not delay the reconciliation further.
            state.is_stored = true;
            return;
        }
        state.refused = doing(effect);
        match effect {
            ServiceEffect::Read => state.refusals.read_failed(error),
            _ => state.refusals.write_failed(error),
        }
    }

    /// The last failure of the API server.
    pub(super) fn trouble(&self) -> Option<Trouble<'_>> {
        let error = self.state.refusals.trouble()?;
        Some(Trouble {
            error,
            doing: self.state.refused,
        })
    }

    /// Result of taking budget from `brake`, if tried.
    pub(super) fn budget(&self, brake: Brake) -> Option<Result<(), Moment>> {
        self.state.budgets.get(&brake).copied()
    }

    /// Whether an Event with this reason was recorded in this reconciliation.
    pub(super) fn has_said(&self, reason: &str) -> bool {
        self.state.said.iter().any(|said| said == reason)
    }

    /// The targets that the provider confirmed last.
    pub(super) fn confirmed(&self) -> Option<&Arc<[CloudNode]>> {
        self.state.targets.as_ref().or(self.past.targets.as_ref())
    }

    /// The pending operation of the last call in this reconciliation.
    pub(super) fn pending(&self) -> Option<&Pending> {
        let state = &self.state;
        let ensured = match &state.ensured {
            Some(Ok(answered)) => match &answered.reply.ensured {
                Ensured::Pending(pending) => Some(pending),
                Ensured::Ready(_) => None,
            },
            _ => None,
        };
        let others = [&state.deleted, &state.updated];
        let others = others.into_iter().find_map(|progress| match progress {
            Some(Ok(Progress::Pending(pending))) => Some(pending),
            _ => None,
        });
        ensured.or(others)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&String> {
        annotations(&self.service).get(key)
    }
}

/// The request of a call that may change something.
fn asked(effect: &ServiceEffect) -> Option<Asked> {
    let (service, targets, adopt) = match effect {
        ServiceEffect::Ensure(request) => {
            let adopt = request.adopt.clone();
            (&request.service, request.targets.clone(), adopt)
        }
        ServiceEffect::UpdateTargets(request) => (&request.service, request.targets.clone(), None),
        ServiceEffect::Delete(request) => (&request.service, Arc::from([]), None),
        _ => return None,
    };
    Some(Asked {
        service: without_status((**service).clone()),
        targets,
        adopt,
    })
}

/// For comparison: a status that we wrote ourselves must not trigger another call.
fn without_status(mut service: CloudService) -> Arc<CloudService> {
    service.status = crate::load_balancer::LoadBalancerStatus::default();
    Arc::new(service)
}

fn releases(effect: &ServiceEffect) -> bool {
    matches!(effect, ServiceEffect::Patch(patch) if super::is_release(patch))
}

fn is_only_conditions(effect: &ServiceEffect) -> bool {
    let ServiceEffect::Patch(patch) = effect else {
        return false;
    };
    patch.finalizer.is_none() && patch.annotations.is_empty() && patch.status.is_none()
}

/// Upstream's wording (SVC-031, SVC-043, SVC-084), where it does the same.
fn doing(effect: &ServiceEffect) -> &'static str {
    match effect {
        ServiceEffect::Patch(patch) if super::is_mark(patch) => {
            "add load balancer cleanup finalizer"
        }
        ServiceEffect::Patch(patch) if super::is_release(patch) => {
            "remove load balancer cleanup finalizer"
        }
        ServiceEffect::Patch(_) => "update load balancer status",
        ServiceEffect::TakeBudget(..) => "record the spent budget",
        _ => "read the service",
    }
}
