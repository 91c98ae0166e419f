//! Reconciliation: decide on facts, execute effects, absorb outcomes, repeat.
//!
//! Logs with three targets: `decision` (one per effect, with its outcome), `waiting` (why an object is not done, and when
//! it is reconciled again), `reconciliation` (nothing left to do). A fourth target, `initialised`, is in
//! `node/memory.rs`: how long each node waited for its initialisation.
//!
//! What goes well is silent at the default level: what was changed at the cloud or deleted is in the audit, and what an
//! operator should know is an Event. A wait that has no failure is told once, and again when it lasts.

use ccm_core::effect::{Decision, Effect, Outcome, ServiceEffect, When};
use ccm_core::node::object::name;
use ccm_core::retry;
use ccm_core::well_known::{
    IPAM_CONTROLLER, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, SERVICE_CONTROLLER,
};
use ccm_core::{ipam, node, node_lifecycle, service};
use k8s_openapi::api::core::v1::Node;

use crate::activity::{Activity, ActivitySubject};
use crate::clock::Clock;
use crate::executor::{EffectExecutor, Priority, WritePermit};
use crate::plan::Planner;

/// More rounds than any reconciliation needs. Only a defect reaches it, and then costs one object its reconciliation
/// instead of the process a CPU.
const MOST_ROUNDS: u32 = 128;

/// Executes the effects of a reconciliation: a provider's executor or the cluster executor.
pub(crate) trait Performer: Send + Sync {
    /// The provider's name, for logs.
    fn name(&self) -> &str;
    /// Where decisions and their ends are told.
    fn activity(&self) -> &Activity;
    /// Records withheld writes in plan mode.
    fn planner(&self) -> &Planner;
    /// Executes one effect for the reconciliation that holds `turn`.
    fn perform<'a>(
        &'a self,
        effect: &Effect,
        controller: &'static str,
        priority: Priority,
        turn: &mut WritePermit<'a>,
    ) -> impl Future<Output = Outcome> + Send;
}

impl Performer for EffectExecutor {
    fn name(&self) -> &str {
        EffectExecutor::name(self)
    }

    fn activity(&self) -> &Activity {
        &self.cluster.activity
    }

    fn planner(&self) -> &Planner {
        EffectExecutor::planner(self)
    }

    async fn perform<'a>(
        &'a self,
        effect: &Effect,
        controller: &'static str,
        priority: Priority,
        turn: &mut WritePermit<'a>,
    ) -> Outcome {
        EffectExecutor::perform(self, effect, controller, priority, turn).await
    }
}

/// The facts of one controller's reconciliation.
pub(crate) trait Facts {
    /// The state that `decide` returns at the end for the next reconciliation of the object.
    type Retained;
    /// The controller's name.
    const CONTROLLER: &'static str;
    /// Decides what to do next.
    fn decide(&self, clock: Clock) -> Decision<(When, Self::Retained)>;
    /// The state for the next reconciliation after one that was stopped before its end.
    fn cut_short(&self, when: &When, clock: Clock) -> Self::Retained;
    /// Adds the outcome of `effect`.
    fn absorb(&mut self, effect: &Effect, outcome: Outcome);
    /// The object's name in logs and plans.
    fn object(&self) -> String;
    /// The scheduling class of its effects.
    fn priority(&self) -> Priority;
    /// Number of consecutive failed reconciliations of the object.
    fn failures(&self) -> u32;
    /// Whether the reconciliation before this one has left a wait that is part of normal operation.
    fn waits_already(&self) -> bool {
        self.failures() > 0
    }
    /// Whether another provider is responsible for the object.
    fn is_anothers(&self) -> bool;
    /// Whether the object, or what it stands for at the cloud, is to be deleted.
    fn is_deletion(&self) -> bool {
        false
    }
}

impl Facts for node::Facts {
    /// The changes in the provider's answer that need confirmation, if it has answered.
    type Retained = Option<node::Proposal>;
    const CONTROLLER: &'static str = NODE_CONTROLLER;

    fn decide(&self, clock: Clock) -> Decision<(When, Self::Retained)> {
        node::decide(self, clock.now())
    }

    fn cut_short(&self, _: &When, _: Clock) -> Self::Retained {
        node::cut_short(self)
    }

    fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        node::Facts::absorb(self, effect, outcome);
    }

    fn object(&self) -> String {
        named(&self.node)
    }

    fn priority(&self) -> Priority {
        Priority::of(&self.node)
    }

    fn failures(&self) -> u32 {
        self.past.failures
    }

    fn is_anothers(&self) -> bool {
        node::Facts::is_anothers(self)
    }
}

impl Facts for node_lifecycle::Facts {
    type Retained = ();
    const CONTROLLER: &'static str = NODE_LIFECYCLE_CONTROLLER;

    fn decide(&self, clock: Clock) -> Decision<(When, ())> {
        node_lifecycle::decide(self, clock.both()).map_end(|when| (when, ()))
    }

    fn cut_short(&self, _: &When, _: Clock) {}

    fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        node_lifecycle::Facts::absorb(self, effect, outcome);
    }

    fn is_deletion(&self) -> bool {
        use node_lifecycle::Finding;
        matches!(self.finding, Finding::Gone(_) | Finding::Held(_))
    }

    fn object(&self) -> String {
        named(&self.node)
    }

    fn priority(&self) -> Priority {
        Priority::of(&self.node)
    }

    fn failures(&self) -> u32 {
        self.past.failures
    }

    fn is_anothers(&self) -> bool {
        false
    }
}

impl Facts for service::Facts {
    type Retained = service::RetainedState;
    const CONTROLLER: &'static str = SERVICE_CONTROLLER;

    fn decide(&self, clock: Clock) -> Decision<(When, Self::Retained)> {
        service::decide(self, clock.both())
    }

    fn cut_short(&self, when: &When, clock: Clock) -> Self::Retained {
        service::cut_short(self, when, clock.now())
    }

    fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        service::Facts::absorb(self, effect, outcome);
    }

    fn is_deletion(&self) -> bool {
        service::needs_cleanup(&self.service)
    }

    fn object(&self) -> String {
        service::service_ref(&self.service).to_string()
    }

    fn priority(&self) -> Priority {
        Priority::Known
    }

    fn failures(&self) -> u32 {
        self.past.failures
    }

    fn waits_already(&self) -> bool {
        self.past.is_pending() || self.past.failures > 0
    }

    fn is_anothers(&self) -> bool {
        let world = &self.world;
        !world.is_speaker && !world.owns(&self.service)
    }
}

impl Facts for ipam::Facts {
    type Retained = ();
    const CONTROLLER: &'static str = IPAM_CONTROLLER;

    fn decide(&self, _: Clock) -> Decision<(When, ())> {
        ipam::decide(self).map_end(|when| (when, ()))
    }

    fn cut_short(&self, _: &When, _: Clock) {}

    fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        ipam::Facts::absorb(self, effect, outcome);
    }

    fn object(&self) -> String {
        named(&self.node)
    }

    fn priority(&self) -> Priority {
        Priority::of(&self.node)
    }

    fn failures(&self) -> u32 {
        self.past.failures
    }

    fn is_anothers(&self) -> bool {
        false
    }
}

/// The result of a reconciliation.
pub(crate) struct Conclusion<F: Facts> {
    /// When to reconcile the object again.
    pub(crate) when: When,
    /// The facts at the end; the object may be newer than the cache's.
    pub(crate) facts: F,
    /// The state for the next reconciliation of the object.
    pub(crate) retained: F::Retained,
    /// Whether anything was written to the object.
    pub(crate) has_written: bool,
}

impl<F: Facts> Conclusion<F> {
    /// Whether the object is put back because something failed or is not finished.
    pub(crate) fn is_retried(&self) -> bool {
        matches!(self.when, When::Retry { .. } | When::NotBefore { .. })
    }
}

/// Runs one reconciliation of one object.
pub(crate) async fn reconcile<F: Facts, D: Performer>(
    mut facts: F,
    executor: &D,
    clock: Clock,
) -> Conclusion<F> {
    let mut has_written = false;
    let mut has_withheld = false;
    let mut has_failed = false;
    let mut turn = WritePermit::default();
    for _ in 0..MOST_ROUNDS {
        let effects = match facts.decide(clock) {
            Decision::Done((when, retained)) => {
                log_end(&facts, executor, &when, clock, has_failed);
                if !facts.is_anothers() {
                    let (planner, object) = (executor.planner(), facts.object());
                    planner.concluded(&object, F::CONTROLLER, &when, has_withheld);
                }
                return Conclusion {
                    when,
                    facts,
                    retained,
                    has_written,
                };
            }
            Decision::Do(effects) => effects,
        };
        for effect in &effects {
            let priority = facts.priority();
            let outcome = executor
                .perform(effect, F::CONTROLLER, priority, &mut turn)
                .await;
            log_effect(&facts, executor, effect, &outcome, priority);
            let goes_on = outcome.is_success();
            has_written |= goes_on && is_write(effect);
            has_withheld |= matches!(outcome, Outcome::Withheld) && !is_event(effect);
            has_failed |= !goes_on && !matches!(outcome, Outcome::Withheld);
            facts.absorb(effect, outcome);
            if !goes_on {
                break;
            }
        }
    }
    let why =
        format!("the reconciliation did not end within {MOST_ROUNDS} rounds; this is a defect");
    tracing::error!(object = %facts.object(), "{why}");
    let after = retry::CLOUD.after(facts.failures().saturating_add(1));
    let when = When::Retry { after, why };
    Conclusion {
        retained: facts.cut_short(&when, clock),
        when,
        facts,
        has_written,
    }
}

fn is_write(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::PatchNode(..)
            | Effect::PatchNodeStatus(..)
            | Effect::PatchPodCidrs(..)
            | Effect::PatchNetworkCondition(..)
            | Effect::Service(_, ServiceEffect::Patch(_))
    )
}

fn is_event(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::RecordNodeEvent(..) | Effect::Service(_, ServiceEffect::RecordEvent(_))
    )
}

fn named(node: &Node) -> String {
    format!("node/{}", name(node))
}

fn log_effect<F: Facts, D: Performer>(
    facts: &F,
    executor: &D,
    effect: &Effect,
    outcome: &Outcome,
    priority: Priority,
) {
    let (controller, provider, object) = (F::CONTROLLER, executor.name(), facts.object());
    if priority == Priority::Known && outcome.is_success() && matches!(effect, Effect::Find(_)) {
        // A pass over thousands of unchanged nodes has one for each.
        tracing::trace!(target: "decision", controller, provider, object, %effect, %outcome);
    } else {
        tracing::debug!(target: "decision", controller, provider, object, %effect, %outcome);
        let about = ActivitySubject {
            object: &object,
            provider,
            controller,
        };
        let is_success = outcome.is_success();
        executor
            .activity()
            .decided(about, effect, outcome, is_success);
    }
}

fn log_end<F: Facts, D: Performer>(
    facts: &F,
    executor: &D,
    when: &When,
    clock: Clock,
    has_failed: bool,
) {
    let (controller, provider, object) = (F::CONTROLLER, executor.name(), facts.object());
    let attempt = facts.failures().saturating_add(1);
    if matches!(when, When::AwaitChange) {
        tracing::debug!(target: "reconciliation", controller, provider, object, done = %when);
    }
    let wait = Wait {
        controller,
        provider,
        object: &object,
        attempt,
        severity: if has_failed || attempt > PATIENT {
            Severity::Failure
        } else if facts.waits_already() {
            Severity::Usual
        } else {
            Severity::News
        },
    };
    wait.log(when);
    let about = ActivitySubject {
        object: &object,
        provider,
        controller,
    };
    let after = match when {
        When::AwaitChange | When::Blocked { .. } => None,
        When::Retry { after, .. } | When::NotBefore { after, .. } => Some(clock.timer(*after)),
    };
    let is_deletion = facts.is_deletion();
    executor
        .activity()
        .ended(about, when, attempt, after, is_deletion);
}

/// Number of attempts that an object may need without anything being wrong: with the cloud's backoff, half a minute.
const PATIENT: u32 = 5;

/// What the log says about an object that is not done.
pub(crate) struct Wait<'a> {
    pub(crate) controller: &'static str,
    pub(crate) provider: &'a str,
    /// The object's name in logs and plans.
    pub(crate) object: &'a str,
    /// Number of this attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) severity: Severity,
}

/// What a wait means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Something has failed, or takes too long.
    Failure,
    /// It is part of normal operation, and begins.
    News,
    /// It is part of normal operation, and goes on.
    Usual,
}

impl Wait<'_> {
    /// Logs the reason, once, and what comes next. Logs nothing if there is no reason to wait.
    pub(crate) fn log(&self, when: &When) {
        let Some(why) = when.why() else { return };
        let Wait {
            controller,
            provider,
            object,
            attempt,
            severity,
        } = *self;
        let next = when.next();
        match severity {
            Severity::Failure => {
                tracing::warn!(target: "waiting", controller, provider, object, next, attempt, "{why}");
            }
            Severity::News => {
                tracing::info!(target: "waiting", controller, provider, object, next, attempt, "{why}");
            }
            Severity::Usual => {
                tracing::debug!(target: "waiting", controller, provider, object, next, attempt, "{why}");
            }
        }
    }
}
