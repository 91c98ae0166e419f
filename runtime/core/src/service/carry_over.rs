//! Computes the retained state that the next reconciliation of a Service begins with, from the end of this one. Decides
//! nothing: what to do and when to retry is settled before.

use std::sync::Arc;

use super::effective_targets::LazyTargets;
use super::facts::Facts;
use super::retained_state::{
    EnsureFailure, LeftAlone, PendingOperation, Phase, RemovalBudget, Request, RetainedAnswers,
    RetainedState, RetainedTargets,
};
use super::stored_state::{
    class, has_finalizer, is_load_balancer, load_balancer_status, recorded_owner,
};
use super::work::{Asked, Making, Work, is_unsure};
use super::{Step, ensure, granted_annotations};
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::Ensured;
use crate::moment::Moment;
use crate::reconciliation::effect::When;
use crate::reconciliation::event::reasons;
use crate::reconciliation::retry;
use crate::safety::brake::Brake;

/// The retained state after the reconciliation that ended with `facts`, its `last` step and `when`. A reconciliation
/// whose last step lists effects was cut short.
pub(super) fn after(
    facts: &Facts,
    effective: &LazyTargets<'_>,
    last: &Step<'_>,
    when: &When,
    now: Moment,
) -> RetainedState {
    let past = &facts.past;
    let is_over = matches!(last, Step::Made | Step::Done | Step::LeftAlone(_));
    let was_foreign = was_foreign(facts);
    if matches!(facts.state.work, Work::Released) || facts.is_gone && is_over {
        return RetainedState {
            phase: Phase::Released,
            left_alone: LeftAlone {
                reported_reason: None,
                was_foreign,
            },
            ..RetainedState::default()
        };
    }
    let phase = phase(facts, last, now);
    let ensure_failure = ensure_failure(facts, last, when, now);
    let is_waiting = ensure_failure.is_some() && ensure_failure == past.ensure_failure;
    RetainedState {
        failures: match last {
            _ if is_waiting => past.failures,
            Step::Wait(obstacle) if obstacle.is_failure() => past.failures.saturating_add(1),
            Step::Do(_) => past.failures.saturating_add(1),
            Step::Wait(_) | Step::Made | Step::Done | Step::LeftAlone(_) => 0,
        },
        drift_due: past.drift_due && facts.state.work.last_ensured().is_none() && !is_over,
        targets: targets(facts, effective),
        answers: answers(facts, &phase, now),
        phase,
        ensure_failure,
        removal: removal(facts, last, now),
        left_alone: LeftAlone {
            reported_reason: match last {
                Step::LeftAlone(why) => Some(why.clone()),
                _ => None,
            },
            was_foreign,
        },
    }
}

fn phase(facts: &Facts, last: &Step<'_>, now: Moment) -> Phase {
    let past = &facts.past.phase;
    match &facts.state.work {
        Work::None | Work::Looked(_) => past.clone(),
        Work::Released => Phase::Released,
        Work::Removing(removing) => {
            let mut request = request(facts, &removing.asked, now);
            // The class of the load balancer, which is not the Service's any more if that is why it is removed.
            if let Some(before) = past.asked()
                && before.service.class != removing.asked.service.class
            {
                let service = Arc::make_mut(&mut request.asked.service);
                service.class.clone_from(&before.service.class);
            }
            Phase::Removing(request)
        }
        Work::Making(making) => {
            let request = request(facts, &making.asked, now);
            let is_made = match &making.ensured {
                // Outside of enforce mode a withheld change counts as made, so that the plan contains it once.
                _ if making.is_withheld => true,
                Some(answer) => ensure::is_concluded(answer, last),
                // An update of the targets alone may be about a Service that no ensure call has succeeded for.
                None => {
                    matches!(past, Phase::Made(made) if made.asked.service == making.asked.service)
                }
            };
            match is_made {
                true => Phase::Made(request),
                false => Phase::Requested(request),
            }
        }
    }
}

fn request(facts: &Facts, asked: &Asked, now: Moment) -> Request {
    let pending = facts.state.work.pending();
    Request {
        asked: asked.clone(),
        pending: pending.map(|(doing, pending)| {
            let before = facts.pending_before(doing);
            PendingOperation {
                doing,
                since: before.map_or(now, |before| before.since),
                is_reported: before.is_some_and(|before| before.is_reported)
                    || facts.has_recorded(reasons::LOAD_BALANCER_PENDING),
                poll_at: now.after(retry::polled(pending)),
                hint: pending.hint.clone(),
            }
        }),
    }
}

fn targets(facts: &Facts, effective: &LazyTargets<'_>) -> RetainedTargets {
    let (state, past) = (&facts.state, &facts.past.targets);
    let planned = state.work.making().filter(|making| making.is_withheld);
    let planned = planned.map(|making| &making.asked.targets);
    let confirmed = state.targets.as_ref();
    let has_some = confirmed.is_some_and(|confirmed| !confirmed.is_empty());
    let is_lack_reported =
        past.is_lack_reported || facts.has_recorded(reasons::UNAVAILABLE_LOAD_BALANCER);
    RetainedTargets {
        confirmed: confirmed.or(planned).or(past.confirmed.as_ref()).cloned(),
        removal: effective.pending.clone(),
        is_lack_reported: is_lack_reported && !has_some,
    }
}

fn answers(facts: &Facts, phase: &Phase, now: Moment) -> RetainedAnswers {
    let past = &facts.past.answers;
    let work = &facts.state.work;
    let is_answered = |making: &Making| making.is_withheld || making.ensured.is_some();
    let is_made_now = work.making().is_some_and(is_answered) && matches!(phase, Phase::Made(_));
    let (status, generation) = match is_made_now {
        true => {
            let status = load_balancer_status(&facts.service);
            (status, facts.account.generation)
        }
        false => (past.status.clone(), past.generation),
    };
    RetainedAnswers {
        status,
        generation,
        empty_since: match ensure::is_emptied(facts) {
            Some(true) => past.empty_since.or(Some(now)),
            Some(false) => None,
            None => past.empty_since,
        },
        unsure_at: match work.last_ensured() {
            Some(Ok(answered)) if matches!(answered.reply.ensured, Ensured::Ready(_)) => None,
            Some(answer) if is_unsure(answer) => Some(now),
            Some(_) | None => past.unsure_at,
        },
        owes_ensured: owes_ensured(facts),
        annotations: match work.last_ensured() {
            Some(Ok(answered)) => {
                let reply = &answered.reply;
                let mut keys = granted_annotations::keys(facts, &reply.annotations);
                // One that is pending need not name them all.
                if matches!(reply.ensured, Ensured::Pending(_)) {
                    keys.extend(past.annotations.iter().cloned());
                }
                keys
            }
            Some(Err(_)) | None => past.annotations.clone(),
        },
    }
}

/// Whether an Event about success is due: without it, an Event about a failure would look as if the failure lasted.
fn owes_ensured(facts: &Facts) -> bool {
    let begins = [
        reasons::ENSURING_LOAD_BALANCER,
        reasons::SYNC_LOAD_BALANCER_FAILED,
        reasons::UPDATE_LOAD_BALANCER_FAILED,
    ];
    let has_ended = facts.has_recorded(reasons::ENSURED_LOAD_BALANCER)
        || matches!(
            facts.state.work.last_ensured(),
            Some(Err(ProviderError::Elsewhere))
        );
    let is_announced = begins.iter().any(|reason| facts.has_recorded(reason));
    (facts.past.answers.owes_ensured || is_announced) && !has_ended
}

fn removal(facts: &Facts, last: &Step<'_>, now: Moment) -> RemovalBudget {
    let work = &facts.state.work;
    let is_wanted_again =
        work.last_ensured().is_some() || work.making().is_some_and(|making| making.is_withheld);
    let past = match facts.past.removal {
        _ if is_wanted_again => RemovalBudget::Unasked,
        RemovalBudget::Held(_) if matches!(last, Step::Made) => RemovalBudget::Unasked,
        past => past,
    };
    match facts.budget(Brake::LoadBalancerDeletion) {
        Some(Ok(())) => RemovalBudget::Taken,
        Some(Err(_)) => RemovalBudget::Held(past.held_since().unwrap_or(now)),
        None => past,
    }
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
            // What the call was about: the Service may have been corrected since.
            let made = facts.state.work.making();
            let made = made.filter(|making| making.ensured.is_some());
            let asked = made.map_or(wanted, |making| making.asked.service.clone());
            Some(EnsureFailure {
                wanted: (!obstacle.is_of_all_changes()).then_some(asked),
                why: why.clone(),
                until: now.after(*after),
                is_stale: matches!(facts.updated(), Some(Err(_))),
            })
        }
        _ if facts.state.work.last_ensured().is_some() => None,
        _ => facts.past.ensure_failure_of(&wanted, now).cloned(),
    }
}

fn was_foreign(facts: &Facts) -> bool {
    let service = &*facts.service;
    let is_owned = facts.is_owned();
    if is_owned && recorded_owner(service).is_some() {
        return false;
    }
    if is_load_balancer(service) && class(service).is_some() && !is_owned {
        return true;
    }
    facts.past.left_alone.was_foreign && has_finalizer(service) && !is_load_balancer(service)
}
