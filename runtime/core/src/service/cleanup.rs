//! Removes an unwanted load balancer: the provider deletes it, a second look proves that it is gone, and only then is
//! the Service released (F21). Upstream looks first and leaks what that look misses (SVC-042). Here a first look only
//! saves the brake's budget where nothing was made; the deletion follows in any case.

use std::sync::Arc;
use std::time::Duration;

use super::effect::ServiceAction;
use super::retained_state::{Phase, RemovalBudget};
use super::stored_state::{is_deleting, load_balancer_status};
use super::waiting::{self, Obstacle};
use super::work::{Doing, Work, is_unsure};
use super::{
    Facts, Role, Step, account_proof, cloud_service, conditions, finalizer, record, record_once,
};
use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::{DeleteRequest, Found, LoadBalancerStatus, Progress};
use crate::moment::{Moment, Now};
use crate::reconciliation::event::reasons;
use crate::reconciliation::patch::ServicePatch;
use crate::safety::brake::{Brake, Rise};
use crate::safety::permit::Mode;

/// How long a load balancer may still appear after a call whose result is unknown.
const LATE: Duration = Duration::from_secs(30);

pub(super) fn step(facts: &Facts, role: Role, now: Now) -> Step<'_> {
    if matches!(facts.state.work, Work::Released) {
        return deletion_reported(facts);
    }
    if let Some(step) = super::only_look(facts) {
        return step;
    }
    let Work::Removing(removing) = &facts.state.work else {
        return delete(facts, now);
    };
    if let Some(got) = &removing.got {
        return match got {
            Ok(reply) => match reply.found {
                Found::Absent if reply.complete => release(facts, role, now),
                Found::Absent => Step::Wait(Obstacle::Unproven),
                Found::Present(_) => Step::Wait(Obstacle::StillThere),
            },
            // Another controller has made it, if it exists: nothing was deleted.
            Err(ProviderError::Elsewhere) if facts.is_gone => Step::Done,
            Err(ProviderError::Elsewhere) => {
                Step::Do(vec![ServiceAction::Patch(without_marks(facts, role, now))])
            }
            Err(error) => Step::Wait(Obstacle::Provider(Doing::Check, error)),
        };
    }
    let looks = || Arc::new(cloud_service(&facts.service));
    match &removing.deleted {
        Some(Ok(Progress::Done) | Err(ProviderError::Elsewhere)) => {
            Step::Do(vec![ServiceAction::Get(looks())])
        }
        Some(Ok(Progress::Pending(pending))) => {
            let doing = Doing::Delete;
            Step::Wait(waiting::begun(facts, doing, pending, now.moment))
        }
        Some(Err(error)) => Step::Wait(Obstacle::Provider(Doing::Delete, error)),
        None => Step::Done,
    }
}

fn delete(facts: &Facts, now: Now) -> Step<'_> {
    let is_begun = matches!(facts.past.phase, Phase::Removing(_));
    if !is_begun && let Some(step) = budget(facts, now) {
        return step;
    }
    if is_begun
        && let Some(pending) = facts.past.phase.pending()
        && pending.poll_at > now.moment
    {
        let again = now.moment.until(pending.poll_at);
        return Step::Wait(Obstacle::Begun { again });
    }
    let mut effects = Vec::new();
    if !is_begun && !has_found_nothing(facts) {
        let message = "Deleting load balancer";
        effects.extend(record_once(facts, reasons::DELETING_LOAD_BALANCER, message));
    }
    effects.push(ServiceAction::Delete(Arc::new(DeleteRequest {
        service: Arc::new(cloud_service(&facts.service)),
        hint: facts.past.phase.hint(),
    })));
    Step::Do(effects)
}

/// The next step before a deletion that has not begun, if any. Budget is taken once per load balancer, however often its removal is
/// tried. It is not taken if there is none: otherwise whoever may create Services could hold the deletions of others.
fn budget(facts: &Facts, now: Now) -> Option<Step<'_>> {
    if facts.past.removal == RemovalBudget::Taken {
        return None;
    }
    if may_be_unmade(facts) {
        match &facts.state.work {
            Work::None => {
                let service = Arc::new(cloud_service(&facts.service));
                return Some(Step::Do(vec![ServiceAction::Get(service)]));
            }
            Work::Looked(Ok(_)) if has_found_nothing(facts) => return None,
            Work::Looked(Err(error)) if *error != ProviderError::Elsewhere => {
                return Some(Step::Wait(Obstacle::Provider(Doing::Look, error)));
            }
            _ => {}
        }
    }
    let brake = Brake::LoadBalancerDeletion;
    let held_since = facts.past.removal.held_since();
    match facts.budget(brake) {
        None => {
            let rise = Rise::since(held_since, now.moment);
            Some(Step::Do(vec![ServiceAction::TakeBudget(brake, rise)]))
        }
        Some(Err(free)) => match facts.state.budgets.namespace_goes {
            // Deleting a namespace deliberately deletes everything in it.
            Some(true) => None,
            Some(false) => {
                let rises = Rise::next(held_since, now.moment);
                let again = now.moment.until(free.min(rises));
                Some(Step::Wait(Obstacle::Braked { brake, again }))
            }
            None => Some(Step::Do(vec![ServiceAction::ReadNamespace])),
        },
        Some(Ok(())) => None,
    }
}

/// Whether the look before the deletion was complete and found no load balancer.
fn has_found_nothing(facts: &Facts) -> bool {
    match &facts.state.work {
        Work::Looked(Ok(reply)) => reply.found == Found::Absent && reply.complete,
        _ => false,
    }
}

/// Whether nothing known shows that the load balancer was ever begun.
fn may_be_unmade(facts: &Facts) -> bool {
    let phase = &facts.past.phase;
    !matches!(phase, Phase::Made(_))
        && phase.pending().is_none()
        && load_balancer_status(&facts.service).ingress.is_empty()
}

/// Nothing is left: one patch removes finalizer and owner. The account must be proven even if something was removed:
/// another account contains only what was created in it by mistake.
fn release(facts: &Facts, role: Role, now: Now) -> Step<'_> {
    // A load balancer still being created by an earlier call may not be visible yet.
    let unsure_at = match facts.state.work.last_ensured() {
        Some(answer) if is_unsure(answer) => Some(now.moment),
        _ => facts.past.answers.unsure_at,
    };
    let until = unsure_at.map(|at| at.after(LATE));
    // Outside of enforce mode nothing is let go, and a plan should be complete soon.
    let is_early = |until: &Moment| *until > now.moment && facts.world.mode == Mode::Enforce;
    if let Some(until) = until.filter(is_early) {
        let again = now.moment.until(until);
        return Step::Wait(Obstacle::Late { again });
    }
    if let Some(step) = account_proof::unknown(facts, now) {
        return step;
    }
    if facts.is_gone {
        return deletion_reported(facts);
    }
    let patch = without_marks(facts, role, now);
    Step::Do(vec![ServiceAction::Patch(patch), deleted()])
}

/// The patch that lets the Service go.
fn without_marks(facts: &Facts, role: Role, now: Now) -> ServicePatch {
    let service = &*facts.service;
    let mut patch = finalizer::release(service, role);
    // In the role Former the class's present implementation writes the status.
    if role == Role::Owner && !is_deleting(service) {
        if !load_balancer_status(service).ingress.is_empty() {
            patch.status = Some(LoadBalancerStatus::default());
        }
        patch.conditions.extend(conditions::removed(service, now));
    }
    patch
}

/// The Event of SVC-044, after the last write. Without a proof of the account that write was about another controller's
/// load balancer; or a person did without the proof, and the Event came with the write.
pub(super) fn deletion_reported<'a>(facts: &Facts) -> Step<'a> {
    let is_unproven = matches!(facts.state.work, Work::Released) && facts.state.witnesses.is_none();
    match is_unproven || facts.has_recorded(reasons::DELETED_LOAD_BALANCER) {
        true => Step::Done,
        false => Step::Do(vec![deleted()]),
    }
}

fn deleted() -> ServiceAction {
    record(reasons::DELETED_LOAD_BALANCER, "Deleted load balancer")
}
