//! Reconciliation: decide on facts, execute effects, absorb outcomes, repeat.
//!
//! Logs with three targets: `decision` (one per effect, with its outcome), `waiting` (why a node is not done, and when
//! it is reconciled again), `reconciliation` (nothing left to do). A fourth target, `initialised`, is in
//! `node/memory.rs`: how long each node waited for its initialisation.

use ccm_core::effect::{Decision, Effect, Outcome, ServiceEffect, When};
use ccm_core::retry;
use ccm_core::well_known::{
    IPAM_CONTROLLER, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, SERVICE_CONTROLLER,
};
use ccm_core::{ipam, node, node_lifecycle, service};
use k8s_openapi::api::core::v1::Node;

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
    /// The controller's name.
    const CONTROLLER: &'static str;
    /// Decides what to do next.
    fn decide(&self, clock: Clock) -> Decision;
    /// Adds the outcome of `effect`.
    fn absorb(&mut self, effect: &Effect, outcome: Outcome);
    /// The object's name in logs and plans.
    fn object(&self) -> String;
    /// The scheduling class of its effects.
    fn priority(&self) -> Priority;
    /// Number of consecutive failed reconciliations of the object.
    fn failures(&self) -> u32;
    /// Whether another provider is responsible for the object.
    fn is_anothers(&self) -> bool;
}

impl Facts for node::Facts {
    const CONTROLLER: &'static str = NODE_CONTROLLER;

    fn decide(&self, clock: Clock) -> Decision {
        node::decide(self, clock.now())
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
    const CONTROLLER: &'static str = NODE_LIFECYCLE_CONTROLLER;

    fn decide(&self, clock: Clock) -> Decision {
        node_lifecycle::decide(self, clock.both())
    }

    fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        node_lifecycle::Facts::absorb(self, effect, outcome);
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
    const CONTROLLER: &'static str = SERVICE_CONTROLLER;

    fn decide(&self, clock: Clock) -> Decision {
        service::decide(self, clock.both())
    }

    fn absorb(&mut self, effect: &Effect, outcome: Outcome) {
        service::Facts::absorb(self, effect, outcome);
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

    fn is_anothers(&self) -> bool {
        let world = &self.world;
        !world.is_speaker && !world.owns(&self.service)
    }
}

impl Facts for ipam::Facts {
    const CONTROLLER: &'static str = IPAM_CONTROLLER;

    fn decide(&self, _: Clock) -> Decision {
        ipam::decide(self)
    }

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
pub(crate) struct Conclusion<F> {
    /// When to reconcile the object again.
    pub(crate) when: When,
    /// The facts at the end; the object may be newer than the cache's.
    pub(crate) facts: F,
    /// Whether anything was written to the object.
    pub(crate) has_written: bool,
}

/// Runs one reconciliation of one object.
pub(crate) async fn converse<F: Facts, D: Performer>(
    mut facts: F,
    executor: &D,
    clock: Clock,
) -> Conclusion<F> {
    let mut has_written = false;
    let mut has_withheld = false;
    let mut turn = WritePermit::default();
    for _ in 0..MOST_ROUNDS {
        let effects = match facts.decide(clock) {
            Decision::Done(when) => {
                log_end(&facts, executor.name(), &when);
                if !facts.is_anothers() {
                    let (planner, object) = (executor.planner(), facts.object());
                    planner.concluded(&object, F::CONTROLLER, &when, has_withheld);
                }
                return Conclusion {
                    when,
                    facts,
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
            log_effect(&facts, executor.name(), effect, &outcome, priority);
            let goes_on = outcome.is_success();
            has_written |= goes_on && is_write(effect);
            has_withheld |= matches!(outcome, Outcome::Withheld) && !is_event(effect);
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
    Conclusion {
        when: When::Retry { after, why },
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
    format!("node/{}", node.metadata.name.as_deref().unwrap_or_default())
}

fn log_effect<F: Facts>(
    facts: &F,
    provider: &str,
    effect: &Effect,
    outcome: &Outcome,
    priority: Priority,
) {
    let (controller, object) = (F::CONTROLLER, facts.object());
    // Successful look-ups in a pass over thousands of unchanged nodes are logged at debug level only.
    if priority == Priority::Known && outcome.is_success() && matches!(effect, Effect::Find(_)) {
        tracing::debug!(target: "decision", controller, provider, object, %effect, %outcome);
    } else {
        tracing::info!(target: "decision", controller, provider, object, %effect, %outcome);
    }
}

fn log_end<F: Facts>(facts: &F, provider: &str, when: &When) {
    let (controller, object) = (F::CONTROLLER, facts.object());
    match when {
        When::AwaitChange => {
            tracing::debug!(target: "reconciliation", controller, provider, object, done = %when);
        }
        When::Blocked { why } | When::Retry { why, .. } | When::NotBefore { why, .. } => {
            let attempt = facts.failures().saturating_add(1);
            tracing::info!(target: "waiting", controller, provider, object, why, attempt, done = %when);
        }
    }
}
