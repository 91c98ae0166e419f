//! Decisions of the node lifecycle controller: taint nodes whose machine is switched off, untaint those that run again,
//! and delete only the nodes whose machine is gone.
//!
//! Every `--node-monitor-period` runs one pass: [`Memory::begin`] selects the NotReady nodes to ask the provider about,
//! in one look-up per provider ID scheme; [`Memory::absorb`] takes the answers; [`Memory::facts`] creates a
//! reconciliation for each node that needs action; [`decide`] drives it; [`Memory::conclude`] stores its result for the
//! next pass.
//!
//! Guarantees: the provider is asked about a Ready node only as a witness for its answers; nothing is deleted unless
//! every condition in [`deletion_guard`] holds; and a node of another owner is never touched, nor one that several
//! providers could own: a provider that calls such a node gone may not be its owner.

pub mod deletion_guard;
mod drain;
mod effect;
mod facts;
mod lookup_verdict;
mod mass_outage;
mod memory;
mod not_ready_history;
mod ready_yet_gone;
mod remaining_witnesses;
pub(crate) mod survey;
mod survey_bisection;
mod witness;

use k8s_openapi::api::core::v1::Taint;

use crate::moment::Now;
use crate::node::ownership::owner;
use crate::reconciliation::effect::{ClusterError, Decision, When};
use crate::reconciliation::event::reasons::{self, EventReason};
use crate::reconciliation::patch::{NodePatch, TaintChange, Taints};
use crate::reconciliation::retry;
use crate::safety::brake::{Brake, Rise};
use crate::safety::budget_reservation::{Reservation, why_refused};
use crate::well_known::SHUTDOWN_TAINT;

pub use deletion_guard::Held;
pub use drain::is_drained;
pub use effect::{DeletionResult, LifecycleEffect, LifecycleOutcome, NodeDeletion};
pub use facts::{Facts, Finding};
pub use lookup_verdict::confirms_provider_id;
pub use memory::{Memory, Pass};
pub use survey::{Survey, witnesses};

/// How long the same hold of the same node is not reported again: the time in which client-go's recorder aggregates an
/// Event.
const REPORT_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(600);

/// Returns the next effect for the node in `facts`, or when to ask again. Pure.
pub fn decide(facts: &Facts, now: Now) -> Decision<LifecycleEffect> {
    match step(facts, now) {
        Decision::Done(_) if facts.owes_budget() => {
            let brake = Brake::NodeDeletion;
            Decision::Do(vec![LifecycleEffect::ReturnBudget(
                facts.node.node_ref(),
                brake,
            )])
        }
        decision => decision,
    }
}

fn step(facts: &Facts, now: Now) -> Decision<LifecycleEffect> {
    if facts.state.is_over {
        return Decision::Done(When::AwaitChange);
    }
    if facts.state.refusals.has_to_read_again() {
        return Decision::Do(vec![LifecycleEffect::Read(facts.node.node_ref())]);
    }
    if let Some(error) = facts.state.refusals.trouble() {
        return failed(facts, error);
    }
    // The finding only applies while the node is ours.
    if !owner(&facts.node, &facts.ownership).is_ours() {
        return Decision::Done(When::AwaitChange);
    }
    match &facts.finding {
        Finding::Back => untaint(facts),
        _ if facts.node.is_ready() => Decision::Done(When::AwaitChange),
        Finding::Running => untaint(facts),
        Finding::ShutDown => taint(facts, now),
        Finding::Held(held) => hold(facts, held, now),
        Finding::Gone(_) if facts.state.has_changed => {
            let why =
                "the node's readiness has changed meanwhile: the look-ups are repeated".to_owned();
            Decision::Done(When::Retry { after: SOON, why })
        }
        Finding::Gone(evidence) => delete(facts, evidence, now),
    }
}

/// LIFE-013, LIFE-014: only while the brake has budget. Otherwise a provider that calls every machine switched off
/// would empty the cluster (F17).
fn taint(facts: &Facts, now: Now) -> Decision<LifecycleEffect> {
    let node = &facts.node;
    if node.taints().iter().any(is_shutdown_taint) {
        return Decision::Done(When::AwaitChange);
    }
    let brake = Brake::ShutdownTaint;
    match facts.credit(brake, now.moment) {
        Reservation::Nothing => take_budget(facts, brake, Rise::NONE),
        Reservation::Refused(until) => Decision::Done(When::Retry {
            after: now.moment.until(until),
            why: why_refused(brake),
        }),
        Reservation::Exhausted(_) => {
            let why = format!(
                "the cloud says that the machine is switched off; {}",
                brake.engaged()
            );
            report(facts, reasons::BRAKE_ENGAGED, &why)
                .unwrap_or(Decision::Done(When::Blocked { why }))
        }
        Reservation::Covered => {
            // Replaces a taint with the same key and effect in place, whatever its value (LIFE-014).
            let mut all = node.taints().to_vec();
            let ours = shutdown_taint();
            match all.iter_mut().find(|one| has_shutdown_key_and_effect(one)) {
                Some(old) => *old = ours,
                None => all.push(ours),
            }
            write(facts, all, TaintChange::Added("shutdown"))
        }
    }
}

fn take_budget(facts: &Facts, brake: Brake, rise: Rise) -> Decision<LifecycleEffect> {
    let effect = LifecycleEffect::TakeBudget(facts.node.node_ref(), brake, rise);
    Decision::Do(vec![effect])
}

/// LIFE-005, LIFE-015; also as soon as the cloud says that the machine runs again (EDGE-011).
fn untaint(facts: &Facts) -> Decision<LifecycleEffect> {
    let mut all = facts.node.taints().to_vec();
    let before = all.len();
    all.retain(|one| !has_shutdown_key_and_effect(one));
    if all.len() == before {
        return Decision::Done(When::AwaitChange);
    }
    write(facts, all, TaintChange::Removed("shutdown"))
}

fn write(facts: &Facts, taints: Vec<Taint>, change: TaintChange) -> Decision<LifecycleEffect> {
    let node = &facts.node;
    let patch = NodePatch {
        uid: node.uid().to_owned(),
        taints: Some(Taints {
            resource_version: node.resource_version().to_owned(),
            taints,
            change,
        }),
        ..NodePatch::default()
    };
    Decision::Do(vec![LifecycleEffect::Patch(node.node_ref(), patch)])
}

/// LIFE-010, after every condition of the guard. The node is re-read from the API server first: the cache may be stale,
/// and a node that is Ready by now stays. One that the brake holds is re-read when there is budget: hundreds may be held
/// for long, and each asks every minute.
fn delete(
    facts: &Facts,
    evidence: &deletion_guard::Evidence,
    now: Now,
) -> Decision<LifecycleEffect> {
    let is_wanted = facts.is_drained() || deletion_guard::is_wanted(&facts.node, &facts.rules, now);
    if let Err(held) = deletion_guard::check(&facts.node, evidence, &facts.rules, is_wanted, now) {
        return unless_drained(facts, &held, now);
    }
    let read = || Decision::Do(vec![LifecycleEffect::Read(facts.node.node_ref())]);
    let brake = (!is_wanted).then_some(Brake::NodeDeletion);
    let is_held = brake.is_some() && facts.past.braked.is_some();
    if !facts.state.is_read && !is_held {
        return read();
    }
    if let Some(brake) = brake {
        match facts.credit(brake, now.moment) {
            Reservation::Covered => {}
            // A refused deletion is retried at its own pace, and takes budget each time.
            Reservation::Nothing | Reservation::Refused(_) => {
                let rise = Rise::since(facts.past.braked, now.moment);
                return take_budget(facts, brake, rise);
            }
            Reservation::Exhausted(free) => {
                let free = free.min(Rise::next(facts.past.braked, now.moment));
                return unless_drained(facts, &Held::Braked { brake, free }, now);
            }
        }
    }
    if !facts.state.is_read {
        return read();
    }
    let name = facts.node.name();
    let mut effects = Vec::new();
    // While deletions fail, only the failure is reported.
    if facts.past.failures == 0 && facts.state.event_reasons.is_empty() {
        let message =
            format!("Deleting node {name} because it does not exist in the cloud provider");
        effects.push(event(facts, reasons::DELETING_NODE, &message));
    }
    let deletion = NodeDeletion {
        resource_version: facts.node.resource_version().to_owned(),
        brake,
        reason: evidence.reason(),
    };
    effects.push(LifecycleEffect::Delete(facts.node.node_ref(), deletion));
    Decision::Do(effects)
}

/// Holds the deletion, unless the node was drained on purpose, which is checked only now.
fn unless_drained(facts: &Facts, held: &Held, now: Now) -> Decision<LifecycleEffect> {
    match held.yields_to_meaning() && facts.may_be_drained() {
        true => Decision::Do(vec![LifecycleEffect::ReadPods(facts.node.node_ref())]),
        false => hold(facts, held, now),
    }
}

/// Holds the deletion; reported when the condition is new, and every 10 min. The usual half-minute wait is no Event.
fn hold(facts: &Facts, held: &Held, now: Now) -> Decision<LifecycleEffect> {
    let after = held.again(now);
    let description = held.describe(now);
    let why = match held {
        Held::Unknown(_) => description,
        _ => format!("the cloud says that the machine is gone, and the node stays: {description}"),
    };
    let decision = match held.is_ordinary() {
        true => None,
        false => report_held(facts, held, &why, now),
    };
    decision.unwrap_or(Decision::Done(When::Retry { after, why }))
}

fn report_held(
    facts: &Facts,
    held: &Held,
    why: &str,
    now: Now,
) -> Option<Decision<LifecycleEffect>> {
    let reported = facts.past.held.as_ref();
    let is_known = reported.is_some_and(|(condition, at)| {
        *condition == held.condition() && at.after(REPORT_AGAIN_AFTER) > now.moment
    });
    if is_known || facts.state.held.is_some() {
        return None;
    }
    let effect = LifecycleEffect::Hold(facts.node.node_ref(), held.condition());
    let event = event(facts, reasons::NODE_DELETION_HELD, why);
    Some(Decision::Do(vec![effect, event]))
}

/// A request to the API server failed. DeletingNodeFailed is reported once per cause (LIFE-010, EDGE-006).
fn failed(facts: &Facts, error: &ClusterError) -> Decision<LifecycleEffect> {
    let failures = facts.past.failures.saturating_add(1);
    let is_final = error.is_final();
    let after = match &facts.finding {
        // Each try also costs a look-up at the cloud (EDGE-006): a forbidden deletion needs a person, and every other
        // one skips at least one pass before its retry.
        Finding::Gone(_) if is_final => retry::PERSON.after(failures),
        Finding::Gone(_) => retry::cluster(error)
            .after(failures)
            .max(retry::PERSON.first),
        _ => retry::cluster(error).after(failures),
    };
    let name = facts.node.name();
    let why = match &facts.finding {
        Finding::Gone(_) => format!("Failed deleting node {name}: {error}"),
        _ => format!("the API server did not store the taints of node {name}: {error}"),
    };
    let reason = match &facts.finding {
        Finding::Gone(_) => reasons::DELETING_NODE_FAILED,
        _ => reasons::NODE_UPDATE_FAILED,
    };
    let is_due = is_final || matches!(facts.finding, Finding::Gone(_));
    if is_due && let Some(decision) = report(facts, reason, &why) {
        return decision;
    }
    Decision::Done(When::Retry { after, why })
}

/// The next pass; by then the cache should match the API server.
const SOON: std::time::Duration = std::time::Duration::from_secs(5);

/// `None`: already reported, in this reconciliation or recently.
fn report(
    facts: &Facts,
    reason: &'static EventReason,
    why: &str,
) -> Option<Decision<LifecycleEffect>> {
    if facts.has_recorded(reason) || facts.past.reported == Some(reason) {
        return None;
    }
    Some(Decision::Do(vec![event(facts, reason, why)]))
}

fn event(facts: &Facts, reason: &EventReason, message: &str) -> LifecycleEffect {
    LifecycleEffect::RecordEvent(facts.node.node_ref(), reason.event(message))
}

/// The taint of LIFE-013.
fn shutdown_taint() -> Taint {
    Taint {
        key: SHUTDOWN_TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}

fn is_shutdown_taint(taint: &Taint) -> bool {
    has_shutdown_key_and_effect(taint) && taint.value.as_deref().unwrap_or_default().is_empty()
}

/// The taint is matched by key and effect (LIFE-005, LIFE-014).
fn has_shutdown_key_and_effect(taint: &Taint) -> bool {
    taint.key == SHUTDOWN_TAINT && taint.effect == "NoSchedule"
}

#[cfg(test)]
mod tests;
