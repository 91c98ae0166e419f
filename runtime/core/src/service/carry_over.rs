//! Computes the retained state that the next reconciliation of a Service begins with, from the end of this one. Decides
//! nothing: what to do and when to retry is settled before.

use crate::event::reasons;

use super::effective_targets::effective_targets;
use super::facts::{Facts, Withheld};
use super::retained_state::{Begun, EnsureFailure, RetainedState};
use super::stored_state::{
    class, has_finalizer, is_load_balancer, load_balancer_status, recorded_owner,
};
use super::waiting::{PENDING, patience};
use super::{Step, ensure};
use crate::brake::Brake;
use crate::cloud::error::ProviderError;
use crate::effect::When;
use crate::load_balancer::Ensured;
use crate::moment::Moment;

/// The retained state after the reconciliation that ended with `facts`, its `last` step and `when`. A reconciliation
/// whose last step lists effects was cut short.
pub(super) fn after(facts: &Facts, last: &Step<'_>, when: &When, now: Moment) -> RetainedState {
    let failures = match last {
        Step::Wait(obstacle) if obstacle.is_failure() => facts.past.failures.saturating_add(1),
        Step::Do(_) => facts.past.failures.saturating_add(1),
        Step::Wait(_) | Step::Made | Step::Rest | Step::Stay(_) => 0,
    };
    let is_over = matches!(last, Step::Made | Step::Rest | Step::Stay(_));
    let ensure_failure = ensure_failure(facts, last, when, now);
    let told_why = match last {
        Step::Stay(why) => Some(why.clone()),
        _ => None,
    };
    let was_foreign = was_foreign(facts);
    if facts.state.is_released || facts.is_gone && is_over {
        return RetainedState {
            is_released: true,
            was_foreign,
            ..RetainedState::default()
        };
    }
    let failures = match &ensure_failure {
        Some(ensure_failure) if facts.past.ensure_failure.as_ref() == Some(ensure_failure) => {
            facts.past.failures
        }
        _ => failures,
    };
    let past = RetainedState {
        failures,
        drift_due: facts.past.drift_due && facts.state.ensured.is_none() && !is_over,
        told_why,
        was_foreign,
        ensure_failure,
        wish: effective_targets(facts, now).wish,
        empty_since: match ensure::is_emptied(facts) {
            Some(true) => facts.past.empty_since.or(Some(now)),
            Some(false) => None,
            None => facts.past.empty_since,
        },
        ..facts.past.clone()
    };
    past.with_calls(facts, last, now).with_words(facts)
}

impl RetainedState {
    /// Applies the results of the provider calls.
    fn with_calls(mut self, facts: &Facts, last: &Step<'_>, now: Moment) -> RetainedState {
        let state = &facts.state;
        // Outside of enforce mode a withheld change counts as made, so that the plan contains it once.
        let is_planned = state.withheld == Some(Withheld::Change);
        if let Some(asked) = &state.asked {
            if is_planned {
                self.targets = Some(asked.targets.clone());
            }
            let pending = facts.pending();
            self.hint = pending.and_then(|pending| pending.hint.clone());
            self.pending_until = pending.map(|pending| now.after(patience(pending)));
            self.begun = pending.map(|_| Begun {
                since: self.begun.map_or(now, |begun| begun.since),
                is_told: self.begun.is_some_and(|begun| begun.is_told) || facts.has_said(PENDING),
            });
        }
        if let Some(result) = &state.ensured {
            self.unsure_at = match result {
                Ok(answered) => match answered.reply.ensured {
                    Ensured::Ready(_) => None,
                    Ensured::Pending(_) => self.unsure_at,
                },
                Err(error) if is_unsure(error) => Some(now),
                Err(_) => self.unsure_at,
            };
        }
        if is_planned || state.ensured.is_some() {
            self.is_made = is_planned || ensure::is_concluded(facts, last);
            if self.is_made {
                self.status = load_balancer_status(&facts.service);
            }
            self.is_paid = false;
            self.braked = None;
            self.is_deleting = false;
            self.is_released = false;
        }
        if state.deleted.is_some() || state.withheld == Some(Withheld::Removal) {
            self.is_made = false;
            self.is_deleting = true;
        }
        match facts.budget(Brake::LoadBalancerDeletion) {
            Some(Ok(())) => self.is_paid = true,
            Some(Err(_)) => self.braked = self.braked.or(Some(now)),
            None => {}
        }
        self
    }

    /// Applies which Events were recorded, with the request and targets they refer to.
    fn with_words(mut self, facts: &Facts) -> RetainedState {
        let has_ended = facts.has_said(reasons::ENSURED_LOAD_BALANCER)
            || matches!(facts.state.ensured, Some(Err(ProviderError::Elsewhere)));
        // An Event about a failure that nothing ends would look as if the failure lasted.
        let owing = [
            reasons::ENSURING_LOAD_BALANCER,
            reasons::SYNC_LOAD_BALANCER_FAILED,
            reasons::UPDATE_LOAD_BALANCER_FAILED,
        ];
        let is_announced = self.owes_ensured || owing.iter().any(|reason| facts.has_said(reason));
        self.owes_ensured = is_announced && !has_ended;
        let has_targets = facts
            .state
            .targets
            .as_ref()
            .is_some_and(|one| !one.is_empty());
        let is_unavailable =
            self.is_unavailable || facts.has_said(reasons::UNAVAILABLE_LOAD_BALANCER);
        self.is_unavailable = is_unavailable && !has_targets;
        self.targets = facts.state.targets.clone().or(self.targets);
        self.asked = facts.state.asked.clone().or(self.asked);
        self
    }
}

/// Whether the cloud may still carry out the request.
fn is_unsure(error: &ProviderError) -> bool {
    matches!(
        error,
        ProviderError::Unavailable(_)
            | ProviderError::TimedOut(_)
            | ProviderError::Trapped(_)
            | ProviderError::Internal(_)
    )
}

fn ensure_failure(
    facts: &Facts,
    last: &Step<'_>,
    when: &When,
    now: Moment,
) -> Option<EnsureFailure> {
    let wanted = facts.wanted();
    match (last, when) {
        (Step::Wait(obstacle), When::Retry { after, why }) if obstacle.is_ensure_failure() => {
            Some(EnsureFailure {
                wanted,
                why: why.clone(),
                until: now.after(*after),
                is_stale: matches!(facts.state.updated, Some(Err(_))),
            })
        }
        _ if facts.state.ensured.is_some() => None,
        _ => facts.past.ensure_failure_of(&wanted, now).cloned(),
    }
}

fn was_foreign(facts: &Facts) -> bool {
    let service = &*facts.service;
    let is_owned = facts.world.owns(service);
    if is_owned && recorded_owner(service).is_some() {
        return false;
    }
    if is_load_balancer(service) && class(service).is_some() && !is_owned {
        return true;
    }
    facts.past.was_foreign && has_finalizer(service) && !is_load_balancer(service)
}
