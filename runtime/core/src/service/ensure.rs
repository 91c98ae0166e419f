//! Ensures a wanted load balancer: calls the provider when something differs from the last completed request, checks
//! the answer and writes it down.

use std::sync::Arc;

use super::effect::{OwnerState, ServiceAction};
use super::effective_targets::LazyTargets;
use super::facts::Stored;
use super::retained_state::{Phase, Request};
use super::stored_state::{load_balancer_status, recorded_owner, uid};
use super::waiting::Obstacle;
use super::work::{Asked, Doing, EnsureAnswer, Making, Work};
use super::{
    Facts, Step, account_proof, cloud_service, conditions, finalizer, granted_annotations,
    ingress_validation, record_once, service_ref, source_ranges, targets, update, waiting,
};
use crate::cloud::error::{Owner, ProviderError};
use crate::cloud::load_balancer::{
    Adoptable, CloudService, EnsureReply, EnsureRequest, Ensured, Ingress, IpMode,
    LoadBalancerStatus, TargetNodes,
};
use crate::moment::{Moment, Now};
use crate::name_syntax::{is_dns_label, is_dns_subdomain};
use crate::node::answer_check::{faults_event, quoted};
use crate::reconciliation::effect::Answered;
use crate::reconciliation::event::reasons;
use crate::reconciliation::patch::ServicePatch;
use crate::safety::brake::{Brake, Rise};

pub(super) fn step<'a>(facts: &'a Facts, effective: &LazyTargets<'_>, now: Now) -> Step<'a> {
    let is_marked =
        facts.state.written.is_marked || finalizer::is_marked(&facts.service, &facts.world);
    if let Err(error) = source_ranges(&facts.service) {
        let obstacle = Obstacle::SourceRanges(error);
        return match is_marked {
            true => follow_nodes(facts, effective, obstacle, now),
            false => Step::Wait(obstacle),
        };
    }
    let wanted = facts.wanted();
    if !is_marked {
        let mut effects = Vec::from_iter(announce(facts, &wanted));
        effects.extend(owner_restored(facts));
        effects.push(ServiceAction::Patch(finalizer::mark(
            &facts.service,
            &facts.world,
        )));
        return Step::Do(effects);
    }
    if let Some(step) = after_ensure(facts, effective, now) {
        return step;
    }
    if let Some(step) = update::after(facts, now.moment) {
        return step;
    }
    let hold = effective.hold.clone();
    let Some(targets) = effective.targets.clone() else {
        return hold.map_or(Step::Done, Step::Wait);
    };
    let has_other_targets = !is_confirmed(facts, &targets);
    if has_to_ensure(facts, &wanted, now.moment) {
        if let Some(step) = too_early(facts, &wanted, &targets, now.moment) {
            return step;
        }
        return ensure(facts, (&wanted, targets, None), effective, now);
    }
    if has_other_targets {
        // The update has just failed, and the ensure call since did not include these targets.
        if let Some(Err(error)) = facts.updated()
            && *error != ProviderError::Elsewhere
        {
            return Step::Wait(Obstacle::Provider(Doing::Update, error));
        }
        if let Some(step) = too_early(facts, &wanted, &targets, now.moment) {
            return step;
        }
        return update::ask(facts, targets);
    }
    let ensure_failure = facts.past.ensure_failure_of(&wanted, now.moment);
    let ensure_failure = ensure_failure.map(|ensure_failure| Obstacle::EnsureFailure {
        why: &ensure_failure.why,
        again: now.moment.until(ensure_failure.until),
    });
    hold.or(ensure_failure).map_or(Step::Made, Step::Wait)
}

/// Removes deleted nodes from the load balancer whatever ensure returns: an error in the Service or a limit must not
/// leave it without a living target (SVC-065, SVC-067).
fn follow_nodes<'a>(
    facts: &'a Facts,
    effective: &LazyTargets<'_>,
    obstacle: Obstacle<'a>,
    now: Now,
) -> Step<'a> {
    if facts.updated().is_some() {
        let is_waiting = || {
            let wanted = facts.wanted();
            let ensure_failure = facts.past.ensure_failure_of(&wanted, now.moment);
            facts.ensured().is_none() && ensure_failure.is_some()
        };
        return match update::after(facts, now.moment) {
            // A pending update hides no failure, unless an earlier reconciliation has reported it.
            Some(Step::Wait(Obstacle::Pending { .. })) if !is_waiting() => Step::Wait(obstacle),
            Some(step) => step,
            None => Step::Wait(obstacle),
        };
    }
    let has_status = || !load_balancer_status(&facts.service).ingress.is_empty();
    let exists = !matches!(facts.state.work, Work::Removing(_))
        && (facts.confirmed().is_some() || has_status());
    match effective.targets.as_ref().filter(|_| exists) {
        Some(targets) if !is_confirmed(facts, targets) => update::ask(facts, targets.clone()),
        _ => Step::Wait(obstacle),
    }
}

/// Whether the ensure call with this answer succeeded, and its result is stored, in the reconciliation that ended with
/// `last`.
pub(super) fn is_concluded(answer: &EnsureAnswer, last: &Step<'_>) -> bool {
    let is_made = match answer {
        Ok(answered) => matches!(answered.reply.ensured, Ensured::Ready(_)),
        Err(error) => *error == ProviderError::Elsewhere,
    };
    is_made
        && match last {
            Step::Made => true,
            Step::Wait(obstacle) => obstacle.is_after_ensure(),
            Step::Do(_) | Step::Done | Step::LeftAlone(_) => false,
        }
}

/// Whether the answer has no address while the Service has one; believed only when repeated (F20).
pub(super) fn is_emptied(facts: &Facts) -> Option<bool> {
    let Some(Ok(answered)) = facts.state.work.last_ensured() else {
        return None;
    };
    let Ensured::Ready(status) = &answered.reply.ensured else {
        return None;
    };
    let stored = load_balancer_status(&facts.service);
    Some(status.ingress.is_empty() && !stored.ingress.is_empty())
}

fn is_confirmed(facts: &Facts, targets: &TargetNodes) -> bool {
    let confirmed = facts.confirmed();
    confirmed.is_some_and(|confirmed| targets::are_same(confirmed, targets))
}

/// Whether a full ensure is needed. Level-triggered: an incomplete one is requested again.
fn has_to_ensure(facts: &Facts, wanted: &Arc<CloudService>, now: Moment) -> bool {
    if facts.ensured().is_some() {
        return false;
    }
    // The removal was requested before the load balancer turned out to be wanted.
    if matches!(facts.state.work, Work::Removing(_)) {
        return true;
    }
    if matches!(facts.updated(), Some(Err(error)) if *error != ProviderError::Elsewhere) {
        return true;
    }
    let past = &facts.past;
    if past.ensure_failure_of(wanted, now).is_some() {
        return false;
    }
    let Phase::Made(request) = &past.phase else {
        return true;
    };
    let is_emptied_again = past
        .answers
        .empty_since
        .is_some_and(|since| since.after(facts.world.rules.confirm_removal) <= now);
    past.drift_due
        || is_emptied_again
        || request.asked.service != *wanted
        || past.answers.status != load_balancer_status(&facts.service)
}

/// Delays polling of a pending operation until it is due, unless something else is wanted by now.
fn too_early<'a>(
    facts: &Facts,
    wanted: &Arc<CloudService>,
    targets: &TargetNodes,
    now: Moment,
) -> Option<Step<'a>> {
    let (Phase::Requested(Request { asked, pending }) | Phase::Made(Request { asked, pending })) =
        &facts.past.phase
    else {
        return None;
    };
    let until = pending.as_ref()?.poll_at;
    let is_same = asked.service == *wanted && targets::are_same(&asked.targets, targets);
    (until > now && is_same && facts.updated().is_none()).then(|| {
        Step::Wait(Obstacle::Begun {
            again: now.until(until),
        })
    })
}

fn ensure<'a>(
    facts: &'a Facts,
    (wanted, targets, adopt): (&CloudService, TargetNodes, Option<Adoptable>),
    effective: &LazyTargets<'_>,
    now: Now,
) -> Step<'a> {
    if let Some(step) = super::only_look(facts) {
        return step;
    }
    match account_proof::unproven(facts, now) {
        Some(Step::Wait(obstacle @ Obstacle::Provider(..))) => {
            return follow_nodes(facts, effective, obstacle, now);
        }
        Some(step) => return step,
        None => {}
    }
    let mut effects = Vec::from_iter(announce(facts, wanted));
    effects.extend(update::unavailable(facts, &targets));
    effects.push(ServiceAction::Ensure(Arc::new(EnsureRequest {
        service: Arc::new(cloud_service(&facts.service)),
        targets,
        adopt,
        hint: facts.past.phase.hint(),
    })));
    Step::Do(effects)
}

/// The Event for an owner that another client has edited and that is set back.
fn owner_restored(facts: &Facts) -> Option<ServiceAction> {
    let (edited, name) = (recorded_owner(&facts.service)?, facts.keeper()?);
    if edited == name {
        return None;
    }
    let message = format!(
        "The owner was changed to {}, and is {name} again, which has the load balancer; to move the Service, delete it and create it again",
        quoted(edited)
    );
    record_once(facts, reasons::LOAD_BALANCER_OWNER_RESTORED, &message)
}

/// SVC-030, for a changed request only, not for every check (EDGE-070). Annotations and labels do not count: many
/// writers change them, and only the provider knows which matter.
fn announce(facts: &Facts, wanted: &CloudService) -> Option<ServiceAction> {
    let is_new = match facts.past.phase.asked() {
        Some(asked) => {
            let mut before = (*asked.service).clone();
            before.annotations.clone_from(&wanted.annotations);
            before.labels.clone_from(&wanted.labels);
            before != *wanted
        }
        None => load_balancer_status(&facts.service).ingress.is_empty(),
    };
    if !is_new {
        return None;
    }
    let message = "Ensuring load balancer";
    record_once(facts, reasons::ENSURING_LOAD_BALANCER, message)
}

/// The next step for the answer; `None` when there is no answer, or nothing is left to do about it.
fn after_ensure<'a>(facts: &'a Facts, effective: &LazyTargets<'_>, now: Now) -> Option<Step<'a>> {
    let making = facts.state.work.making()?;
    let answered = match making.ensured.as_ref()? {
        Ok(answered) => answered,
        // SVC-035: another controller makes it and writes the status. An earlier failure no longer applies.
        Err(ProviderError::Elsewhere) => {
            if facts.state.written.stored != Stored::No {
                return None;
            }
            let mut patch = ServicePatch::new(uid(&facts.service));
            let change = conditions::elsewhere(&facts.service, now);
            patch.conditions.push(change?);
            return Some(Step::Do(vec![ServiceAction::Patch(patch)]));
        }
        Err(ProviderError::Conflict { owner, .. }) => {
            return Some(after_conflict(
                facts,
                making,
                owner.as_ref(),
                effective,
                now,
            ));
        }
        Err(error) => {
            let obstacle = match error {
                ProviderError::Held(again) => Obstacle::Braked {
                    brake: Brake::CloudMutations,
                    again: *again,
                },
                _ => Obstacle::Provider(Doing::Ensure, error),
            };
            // The cloud asks to be left alone: no update either.
            return Some(match error {
                ProviderError::Throttled { .. } => Step::Wait(obstacle),
                _ => follow_nodes(facts, effective, obstacle, now),
            });
        }
    };
    match &answered.reply.ensured {
        Ensured::Ready(status) => after_ready(facts, making, answered, status, now),
        Ensured::Pending(pending) => {
            let store = write(facts, ServicePatch::new(uid(&facts.service)), answered);
            // The next call finds it as its own.
            let adopted = || {
                let event = adopted(facts, making).filter(|_| answered.mutations > 0)?;
                Some(Step::Do(vec![event]))
            };
            Some(store.or_else(adopted).unwrap_or_else(|| {
                let obstacle = waiting::begun(facts, Doing::Ensure, pending, now.moment);
                let before = facts.pending_before(Doing::Ensure);
                match before.is_some_and(|before| before.is_slow(now.moment)) {
                    true => follow_nodes(facts, effective, obstacle, now),
                    false => Step::Wait(obstacle),
                }
            }))
        }
    }
}

/// F22: a load balancer that names another owner is adopted only if that owner does not exist and the operator allows
/// it; one without an owner, if the operator allows that.
fn after_conflict<'a>(
    facts: &'a Facts,
    making: &'a Making,
    owner: Option<&'a Owner>,
    effective: &LazyTargets<'_>,
    now: Now,
) -> Step<'a> {
    let is_itself = owner.is_some_and(|owner| service_ref(&facts.service).is(owner));
    if making.adopt.is_some() || is_itself {
        return Step::Wait(Obstacle::Taken(owner));
    }
    if let Some(owner) = owner {
        if !can_be(owner) {
            return Step::Wait(Obstacle::Taken(Some(owner)));
        }
        match &making.owner {
            None => return Step::Do(vec![ServiceAction::FindOwner(owner.clone())]),
            Some(OwnerState::Alive(service)) => return Step::Wait(Obstacle::Owned(service)),
            Some(OwnerState::Unsynced) => return Step::Wait(Obstacle::ServicesUnsynced),
            Some(OwnerState::Gone) => {}
        }
    }
    if !facts.world.rules.adoption.allows(owner) {
        return Step::Wait(Obstacle::Unadopted(owner));
    }
    let Asked { service, targets } = &making.asked;
    let adopt = Adoptable::from(owner.cloned());
    ensure(
        facts,
        (service, targets.clone(), Some(adopt)),
        effective,
        now,
    )
}

/// Whether an object can have this UID or name. One that nothing can have would never be alive.
fn can_be(owner: &Owner) -> bool {
    const LONGEST: usize = 64;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match owner {
        Owner::Uid(uid) => (1..=LONGEST).contains(&uid.len()) && uid.bytes().all(is_part),
        Owner::Name { namespace, name } => is_dns_label(namespace) && is_dns_subdomain(name),
    }
}

fn after_ready<'a>(
    facts: &'a Facts,
    making: &Making,
    answered: &'a Answered<EnsureReply>,
    status: &LoadBalancerStatus,
    now: Now,
) -> Option<Step<'a>> {
    let service = &*facts.service;
    let stored = load_balancer_status(service);
    let rules = &facts.world.rules;
    if let Err(unusable) =
        ingress_validation::check(status, &stored, &answered.in_use, &rules.ingress)
    {
        return Some(Step::Wait(Obstacle::Answer(unusable)));
    }
    let mut patch = ServicePatch::new(uid(service));
    if !is_as_answered(&stored, status) {
        if is_emptied(facts) == Some(true)
            && facts.state.written.stored == Stored::No
            && let Some(step) = confirm_clearing(facts, now)
        {
            return Some(step);
        }
        if account_proof::is_replaced(&stored, status)
            && !account_proof::was_given(facts, status)
            && facts.state.written.stored != Stored::WithStatus
            && let Some(step) = account_proof::unknown(facts, now)
        {
            return Some(step);
        }
        patch.status = Some(status.clone());
    }
    patch.conditions.extend(conditions::ensured(service, now));
    patch
        .conditions
        .extend(conditions::ports(service, status, now));
    write(facts, patch, answered).or_else(|| report(facts, making, answered, status))
}

/// Whether `stored` equals `answered`, in the same order (SVC-082). If the IP mode was omitted, the API server has set its
/// default, and omitting it again would change nothing.
fn is_as_answered(stored: &LoadBalancerStatus, answered: &LoadBalancerStatus) -> bool {
    let is_same = |(stored, answered): (&Ingress, &Ingress)| {
        let mut answered = answered.clone();
        if answered.ip.is_some()
            && answered.ip_mode.is_none()
            && stored.ip_mode == Some(IpMode::Vip)
        {
            answered.ip_mode = stored.ip_mode;
        }
        *stored == answered
    };
    stored.ingress.len() == answered.ingress.len()
        && stored.ingress.iter().zip(&answered.ingress).all(is_same)
}

fn confirm_clearing<'a>(facts: &Facts, now: Now) -> Option<Step<'a>> {
    let confirm = facts.world.rules.confirm_removal;
    let since = facts.past.answers.empty_since.unwrap_or(now.moment);
    let due = since.after(confirm);
    if facts.past.answers.empty_since.is_none() || due > now.moment {
        let again = now.moment.until(due);
        return Some(Step::Wait(Obstacle::Emptied { again }));
    }
    let brake = Brake::StatusClear;
    match facts.budget(brake) {
        None => Some(Step::Do(vec![ServiceAction::TakeBudget(brake, Rise::NONE)])),
        Some(Err(free)) => {
            let again = now.moment.until(free);
            Some(Step::Wait(Obstacle::Braked { brake, again }))
        }
        Some(Ok(())) => None,
    }
}

/// Patches status, conditions and the provider's granted annotations, unless done already.
fn write<'a>(
    facts: &Facts,
    mut patch: ServicePatch,
    answered: &Answered<EnsureReply>,
) -> Option<Step<'a>> {
    if facts.state.written.stored != Stored::No {
        return None;
    }
    let (annotations, faults) = granted_annotations::granted(facts, &answered.reply.annotations);
    patch.annotations = annotations;
    if let Some(event) = faults_event(&faults)
        && !facts.has_recorded(reasons::INVALID_PROVIDER_ANSWER)
    {
        return Some(Step::Do(vec![ServiceAction::RecordEvent(event)]));
    }
    (!patch.is_empty()).then(|| Step::Do(vec![ServiceAction::Patch(patch)]))
}

/// The event for the adoption that the last call was allowed.
fn adopted(facts: &Facts, making: &Making) -> Option<ServiceAction> {
    let whose = match making.adopt.as_ref()? {
        Adoptable::Unowned => "which had no owner".to_owned(),
        Adoptable::Of(owner) => format!("whose owner {owner} does not exist any more"),
    };
    let message = format!("Took over a load balancer {whose}");
    record_once(facts, reasons::LOAD_BALANCER_ADOPTED, &message)
}

/// Events for what is true now and was not reported yet (EDGE-070).
fn report<'a>(
    facts: &Facts,
    making: &Making,
    answered: &Answered<EnsureReply>,
    status: &LoadBalancerStatus,
) -> Option<Step<'a>> {
    let has_status_changed = facts.state.written.stored == Stored::WithStatus;
    let mut events = Vec::from_iter(adopted(facts, making));
    if has_status_changed && status.ingress.is_empty() {
        let message = "The provider said twice that the load balancer has no address";
        let reason = reasons::LOAD_BALANCER_STATUS_CLEARED;
        events.extend(record_once(facts, reason, message));
    }
    let is_announced =
        facts.past.answers.owes_ensured || facts.has_recorded(reasons::ENSURING_LOAD_BALANCER);
    if is_announced || answered.mutations > 0 || has_status_changed {
        let message = "Ensured load balancer";
        events.extend(record_once(facts, reasons::ENSURED_LOAD_BALANCER, message));
    }
    (!events.is_empty()).then_some(Step::Do(events))
}
