//! Decides what the service controller does about one Service of type LoadBalancer (`tests/conformance.md`, SVC). Pure:
//! sends nothing to a cluster or a cloud, and the time is an argument.
//!
//! Creation: one patch writes finalizer and owner; the provider is called; its answer is checked; one patch writes
//! status and condition; an Event reports it. Removal: take budget, unless nothing was made; the provider deletes; a
//! second look proves that nothing is left; then finalizer and owner are removed.
//!
//! Guarantees: no load balancer is created before its Service records its owner, no finalizer is removed before a
//! complete answer has proven that nothing is left, and a Service of another owner is never written.
//!
//! Assumes that the Service in [`Facts`] may be stale: the API server refuses every write to an object that has been
//! replaced or changed, and decisions follow from the current state, not from changes.

mod account_proof;
mod carry_over;
mod change_filter;
mod cleanup;
mod conditions;
mod effect;
mod effective_targets;
mod ensure;
mod facts;
mod finalizer;
mod granted_annotations;
mod ingress_validation;
mod ip_index;
mod memory;
mod owning_provider;
mod provider_view;
mod retained_state;
mod source_ranges;
mod stored_state;
pub mod targets;
mod update;
mod waiting;
mod work;
mod world;

use crate::moment::{Moment, Now};
use crate::reconciliation::effect::{Decision, When};
use crate::reconciliation::event::reasons::{self, EventReason};
use crate::safety::permit::Mode;

pub use account_proof::{Account, is_same};
pub use conditions::is_elsewhere;
pub use effect::{
    OwnerState, ProofScope, ServiceAction, ServiceEffect, ServiceOutcome, ServiceRef, Witnesses,
};
pub use facts::Facts;
pub use finalizer::{is_mark, is_release};
pub use ip_index::Addresses;
pub use memory::{GoneService, NameSlot, ServiceMemory};
pub use owning_provider::{Claim, Claims, ClaimsError, Owner};
pub use provider_view::{
    cloud_service, health_check, needs_health_check, requests_only_local_traffic,
};
pub use retained_state::RetainedState;
pub use source_ranges::{SourceRangesError, source_ranges};
pub use stored_state::{
    has_address, has_finalizer, is_load_balancer, is_relevant, needs_cleanup, recorded_owner,
    service_ref, uid,
};
pub use targets::Targets;
pub use world::World;

use effective_targets::{EffectiveTargets, LazyTargets};
use retained_state::Phase;
use stored_state::class;
use waiting::Obstacle;
use work::{Doing, Work};

/// Returns the next effects for the Service in `facts`, or when to reconcile again and the state for that
/// reconciliation. Pure: equal facts and moments give equal decisions.
pub fn decide(facts: &Facts, now: Now) -> Decision<ServiceEffect, (When, RetainedState)> {
    let effective = EffectiveTargets::lazy(facts, now.moment);
    let last = match step(facts, &effective, now) {
        Step::Do(effects) => return perform(facts, effects),
        last => last,
    };
    let when = match &last {
        Step::Wait(obstacle) => match waiting::report(facts, now, obstacle) {
            Some(effect) => return perform(facts, vec![effect]),
            None => waiting::until(facts, obstacle),
        },
        Step::Do(_) | Step::Made | Step::Done => When::AwaitChange,
        Step::LeftAlone(why) => When::Blocked { why: why.clone() },
    };
    let retained = carry_over::after(facts, &effective, &last, &when, now.moment);
    let when = match &last {
        // Until the retry, the targets follow the nodes.
        Step::Wait(obstacle) if obstacle.is_ensure_failure() => {
            waiting::no_later(facts, when, effective.hold.clone())
        }
        _ => when,
    };
    Decision::Done((when, retained))
}

/// The state for the next reconciliation after one that was stopped before its end; that counts as a failure.
pub fn cut_short(facts: &Facts, when: &When, now: Moment) -> RetainedState {
    let effective = EffectiveTargets::lazy(facts, now);
    carry_over::after(facts, &effective, &Step::Do(Vec::new()), when, now)
}

fn perform<End>(facts: &Facts, actions: Vec<ServiceAction>) -> Decision<ServiceEffect, End> {
    let about = |action| ServiceEffect {
        service: service_ref(&facts.service),
        generation: facts.account.generation,
        action,
    };
    Decision::Do(actions.into_iter().map(about).collect())
}

/// Next step of a reconciliation.
enum Step<'a> {
    /// Perform these effects.
    Do(Vec<ServiceAction>),
    /// An obstacle delays or blocks the reconciliation.
    Wait(Obstacle<'a>),
    /// The load balancer is as requested; nothing to do.
    Made,
    /// No load balancer of this provider is wanted, and nothing is left to do.
    Done,
    /// Not this provider's Service, although it was evidently meant for one of ours; the reason.
    LeftAlone(String),
}

/// This provider's role for a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It owns the Service.
    Owner,
    /// It owned the Service, whose class now belongs to another implementation.
    Former,
    /// It neither owns nor owned it.
    None,
}

fn step<'a>(facts: &'a Facts, effective: &LazyTargets<'_>, now: Now) -> Step<'a> {
    let state = &facts.state;
    if state.is_over {
        return Step::Done;
    }
    if state.refusals.refusals.has_to_read_again() {
        return Step::Do(vec![ServiceAction::Read]);
    }
    if let Some(trouble) = facts.trouble() {
        return Step::Wait(Obstacle::Cluster(trouble));
    }
    if !facts.owed().is_empty() {
        let events = facts.owed().iter().cloned();
        return Step::Do(events.map(ServiceAction::RecordEvent).collect());
    }
    if state.work.is_withheld() {
        return Step::Done;
    }
    match role(facts) {
        Role::None => match facts.keeper() {
            // The recorded owner was edited to this provider: the keeper sets it back, or lets go.
            // Of a Service that wants no load balancer only the keeper still knows more.
            Some(keeper) if facts.is_wanted() && facts.world.owns(&facts.service) => {
                Step::Wait(Obstacle::Kept(keeper))
            }
            _ => leave_alone(facts),
        },
        Role::Former => cleanup::step(facts, Role::Former, now),
        Role::Owner if is_to_go(facts) => cleanup::step(facts, Role::Owner, now),
        Role::Owner if matches!(state.work, Work::Released) => cleanup::deletion_reported(facts),
        Role::Owner if facts.is_gone => Step::Done,
        Role::Owner if facts.is_wanted() => ensure::step(facts, effective, now),
        Role::Owner => Step::Done,
    }
}

fn role(facts: &Facts) -> Role {
    let service = &*facts.service;
    let world = &facts.world;
    if !facts.is_owned() {
        return Role::None;
    }
    let is_recorded = recorded_owner(service).is_some();
    // The finalizer, whose name is shared, is another implementation's, and no class names its owner any more
    // (EDGE-067).
    if facts.past.left_alone.was_foreign && !is_recorded && !is_load_balancer(service) {
        return Role::None;
    }
    let is_ours = |claim: &Claim| claim.name == world.ownership.claim.name;
    // The recorded owner also decides when the configured classes change; but not when the Service's own class changes,
    // which requires another type in between (SVC-046).
    let asked = facts.past.phase.asked();
    let has_left = asked.is_some_and(|asked| asked.service.class.as_deref() != class(service))
        && is_load_balancer(service)
        && !world.claims.implied(service).is_some_and(is_ours);
    match has_left {
        true => Role::Former,
        false => Role::Owner,
    }
}

/// Whether the load balancer is to be removed.
pub fn is_removal(facts: &Facts) -> bool {
    role(facts) == Role::Former || is_to_go(facts)
}

/// Whether there may be a load balancer that is no longer wanted.
fn is_to_go(facts: &Facts) -> bool {
    if facts.is_gone {
        return match facts.past.phase {
            Phase::Idle => is_traced(facts),
            Phase::Requested(_) | Phase::Made(_) | Phase::Removing(_) => true,
            Phase::Released => false,
        };
    }
    !facts.is_wanted() && is_traced(facts)
}

/// Whether the Service shows that there may be a load balancer, or this process knows it: one write can make the
/// Service unwanted and drop both marks. Outside of enforce mode another manager may have released it.
fn is_traced(facts: &Facts) -> bool {
    let service = &*facts.service;
    let is_known = || {
        facts.past.phase.asked().is_some()
            || facts.keeper() == Some(facts.world.ownership.claim.name.as_str())
    };
    has_finalizer(service)
        || recorded_owner(service).is_some()
        || facts.world.mode == Mode::Enforce && is_known()
}

/// Reports, once, a Service that evidently expects one of our providers.
fn leave_alone(facts: &Facts) -> Step<'_> {
    if !facts.world.reports_unserved {
        return Step::Done;
    }
    let service = &*facts.service;
    let claims = &facts.world.claims;
    let why = match claims.owner(service) {
        Owner::Absent(name) => format!(
            "the Service belongs to the provider {}, which does not serve here: it is not configured, no version of it serves, or it contradicts another provider; its load balancer is not changed",
            crate::node::answer_check::quoted(name)
        ),
        Owner::Unserved if is_load_balancer(service) && claims.are_expected(service) => {
            match class(service) {
                Some(class) => format!(
                    "no provider here serves the load balancer class {}",
                    crate::node::answer_check::quoted(class)
                ),
                None => "no provider here serves Services without a load balancer class".to_owned(),
            }
        }
        _ => return Step::Done,
    };
    if facts.is_gone
        || facts.past.left_alone.reported_reason.as_ref() == Some(&why)
        || facts.has_recorded(reasons::LOAD_BALANCER_NOT_SERVED)
    {
        return Step::LeftAlone(why);
    }
    Step::Do(vec![record(reasons::LOAD_BALANCER_NOT_SERVED, &why)])
}

/// In observe mode no changes are computed: the only call is a look-up at the provider.
fn only_look(facts: &Facts) -> Option<Step<'_>> {
    if facts.world.mode != Mode::Observe {
        return None;
    }
    Some(match &facts.state.work {
        Work::Looked(Ok(_)) => Step::Done,
        Work::Looked(Err(error)) => Step::Wait(Obstacle::Provider(Doing::Check, error)),
        _ => Step::Do(vec![ServiceAction::Get(
            cloud_service(&facts.service).into(),
        )]),
    })
}

fn record(reason: &EventReason, message: &str) -> ServiceAction {
    ServiceAction::RecordEvent(reason.event(message))
}

/// Records the Event, unless this reconciliation has recorded one with this reason.
fn record_once(facts: &Facts, reason: &EventReason, message: &str) -> Option<ServiceAction> {
    (!facts.has_recorded(reason)).then(|| record(reason, message))
}

#[cfg(test)]
mod tests;
