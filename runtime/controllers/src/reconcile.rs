//! Reconciliation: decide on facts, execute effects, absorb outcomes, repeat.
//!
//! Logs with three targets: `decision` (one per effect, with its outcome), `waiting` (why an object is not done, and
//! when it is reconciled again), `reconciliation` (nothing left to do). A fourth target, `initialised`, is in
//! `node.rs`: how long each node waited for its initialisation.
//!
//! A success is silent at the default level: what was changed at the cloud or deleted is in the audit log, and what an
//! operator should know is an Event. A wait without a failure is logged once, and again when it lasts.

use std::fmt::Display;

use ccm_core::cloud::ProviderError;
use ccm_core::node::object::PrunedNode;
use ccm_core::reconciliation::conclusion::Conclusion;
use ccm_core::reconciliation::effect::{Decision, Effect, Modification, Performed, When};
use ccm_core::reconciliation::retry;
use ccm_core::{ipam, node, node_lifecycle, service};

use crate::activity::{Activity, ActivitySubject};
use crate::clock::{Clock, wall};
use crate::executor::{Executor, Perform, Priority, WritePermit, perform};

/// More rounds than any reconciliation needs. Only a defect reaches it, and then costs one object its reconciliation
/// instead of the process a CPU.
const MOST_ROUNDS: u32 = 128;
/// Why a reconciliation ends that the end of the manager cuts short.
const STOPPING: &str = "the manager is stopping";

/// How a controller's effect may end.
type OutcomeOf<E> = Performed<<E as Effect>::Outcome>;

/// The facts of one controller's reconciliation.
pub(crate) trait Facts {
    /// The effects that the controller's decisions order.
    type Effect: Effect;
    /// The state that `decide` returns at the end for the next reconciliation of the object.
    type Retained;
    /// Decides what to do next.
    fn decide(&self, clock: Clock) -> Decision<Self::Effect, (When, Self::Retained)>;
    /// The state for the next reconciliation after one that was stopped before its end.
    fn cut_short(&self, when: &When, clock: Clock) -> Self::Retained;
    /// Adds the outcome of `effect`.
    fn absorb(&mut self, effect: &Self::Effect, performed: OutcomeOf<Self::Effect>);
    /// The object's name in logs and plans.
    fn object(&self) -> String;
    /// The scheduling class of its effects.
    fn priority(&self) -> Priority;
    /// Number of consecutive failed reconciliations of the object.
    fn failures(&self) -> u32;
    /// Whether the previous reconciliation has ended in a wait that is part of normal operation.
    fn waits_already(&self) -> bool {
        self.failures() > 0
    }
    /// Whether the reconciliation ends because an operation goes on at the cloud. Then nothing is wrong, even if an
    /// earlier call was refused: a load balancer without an owner is first refused, and then adopted.
    fn is_under_way(_: &Self::Retained) -> bool {
        false
    }
    /// Whether another provider is responsible for the object.
    fn is_anothers(&self) -> bool {
        false
    }
    /// Whether the object does not exist any more, so that another provider may have one of its name.
    fn is_gone(&self) -> bool {
        false
    }
    /// Whether the object, or its counterpart at the cloud, is to be deleted.
    fn is_deletion(&self) -> bool {
        false
    }
}

impl Facts for node::Facts {
    type Effect = node::NodeEffect;
    /// The changes in the provider's answer that need confirmation, if it has answered.
    type Retained = Option<node::Proposal>;

    fn decide(&self, clock: Clock) -> Decision<Self::Effect, (When, Self::Retained)> {
        node::decide(self, clock.now())
    }

    fn cut_short(&self, _: &When, _: Clock) -> Self::Retained {
        node::cut_short(self)
    }

    fn absorb(&mut self, effect: &Self::Effect, performed: OutcomeOf<Self::Effect>) {
        node::Facts::absorb(self, effect, performed);
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
    type Effect = node_lifecycle::LifecycleEffect;
    type Retained = ();

    fn decide(&self, clock: Clock) -> Decision<Self::Effect, (When, ())> {
        node_lifecycle::decide(self, clock.both()).map_end(|when| (when, ()))
    }

    fn cut_short(&self, _: &When, _: Clock) {}

    fn absorb(&mut self, effect: &Self::Effect, performed: OutcomeOf<Self::Effect>) {
        node_lifecycle::Facts::absorb(self, effect, performed);
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
}

impl Facts for service::Facts {
    type Effect = service::ServiceEffect;
    type Retained = service::RetainedState;

    fn decide(&self, clock: Clock) -> Decision<Self::Effect, (When, Self::Retained)> {
        service::decide(self, clock.both())
    }

    fn cut_short(&self, when: &When, clock: Clock) -> Self::Retained {
        service::cut_short(self, when, clock.now())
    }

    fn absorb(&mut self, effect: &Self::Effect, performed: OutcomeOf<Self::Effect>) {
        service::Facts::absorb(self, effect, performed);
    }

    fn is_deletion(&self) -> bool {
        service::is_removal(self)
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

    fn is_under_way(retained: &service::RetainedState) -> bool {
        retained.is_pending() && retained.failures == 0
    }

    fn is_anothers(&self) -> bool {
        let (world, service) = (&self.world, &self.service);
        // One provider is responsible for the Services that none serves.
        world.is_anothers(service) || !world.owns(service) && !world.reports_unserved
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

impl Facts for ipam::Facts {
    type Effect = ipam::IpamEffect;
    type Retained = ();

    fn decide(&self, _: Clock) -> Decision<Self::Effect, (When, ())> {
        ipam::decide(self).map_end(|when| (when, ()))
    }

    fn cut_short(&self, _: &When, _: Clock) {}

    fn absorb(&mut self, effect: &Self::Effect, performed: OutcomeOf<Self::Effect>) {
        ipam::Facts::absorb(self, effect, performed);
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
}

/// The result of a reconciliation with these facts.
pub(crate) type ConclusionOf<F> = Conclusion<F, <F as Facts>::Retained>;

/// Runs one reconciliation of one object. The facts are boxed, because thousands of reconciliations wait at a time, and a
/// future has room for every place that a value is moved to.
pub(crate) async fn reconcile<F: Facts, X: Perform<F::Effect>>(
    mut facts: Box<F>,
    executor: &X,
    clock: Clock,
) -> ConclusionOf<F> {
    let mut has_written = false;
    let mut has_withheld = false;
    let mut has_failed = false;
    let mut turn = WritePermit::default();
    for _ in 0..MOST_ROUNDS {
        // The manager itself refuses writes by now: that is no failure to report.
        if has_failed && executor.cluster().is_stopping() {
            return cut_short(facts, STOPPING, has_written, clock);
        }
        let effects = match facts.decide(clock) {
            Decision::Done((when, retained)) => {
                let severity = Severity::of(&*facts, &retained, has_failed);
                log_end(&*facts, executor, &when, clock, severity);
                if !facts.is_anothers() {
                    let (planner, object) = (&executor.cluster().planner, facts.object());
                    let (by, provider) = (F::Effect::CONTROLLER, executor.name());
                    match facts.is_gone() && when.why().is_none() && !has_withheld {
                        true => planner.outdated(&object, by, provider),
                        false => planner.concluded(&object, by, provider, &when, has_withheld),
                    }
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
            // Writes to the cluster go on, because they may record what was done; those of nodes are refused at their own
            // place. No call begins, and no budget is taken.
            if !is_write_to_the_cluster(effect) && executor.cluster().is_stopping() {
                return cut_short(facts, STOPPING, has_written, clock);
            }
            let priority = facts.priority();
            let performed = perform(executor, effect, priority, &mut turn).await;
            log_effect(&*facts, executor, effect, &performed, priority);
            let goes_on = performed.is_success();
            let is_withheld = matches!(performed, Performed::Withheld);
            match effect.modification() {
                Modification::Event => {}
                Modification::Object(_) if goes_on => has_written = true,
                _ => has_withheld |= is_withheld,
            }
            has_failed |= !goes_on && !is_withheld;
            facts.absorb(effect, performed);
            if !goes_on {
                break;
            }
        }
    }
    let why =
        format!("the reconciliation did not end within {MOST_ROUNDS} rounds; this is a defect");
    tracing::error!(object = %facts.object(), "{why}");
    cut_short(facts, &why, has_written, clock)
}

/// Whether the effect writes an Event or an object of the cluster.
fn is_write_to_the_cluster(effect: &impl Effect) -> bool {
    matches!(
        effect.modification(),
        Modification::Event | Modification::Object(_)
    )
}

/// The result of a reconciliation that is stopped before its end.
fn cut_short<F: Facts>(
    facts: Box<F>,
    why: &str,
    has_written: bool,
    clock: Clock,
) -> ConclusionOf<F> {
    let after = retry::CLOUD.after(facts.failures().saturating_add(1));
    let why = why.to_owned();
    let when = When::Retry { after, why };
    Conclusion {
        retained: facts.cut_short(&when, clock),
        when,
        facts,
        has_written,
    }
}

/// The label of a provider's answer, or of its error, in the log.
pub(crate) fn answer_label<T: Display>(answer: &Result<T, ProviderError>) -> &dyn Display {
    match answer {
        Ok(reply) => reply,
        Err(error) => error,
    }
}

fn named(node: &PrunedNode) -> String {
    format!("node/{}", node.name())
}

fn log_effect<F: Facts>(
    facts: &F,
    executor: &impl Executor,
    effect: &F::Effect,
    outcome: &OutcomeOf<F::Effect>,
    priority: Priority,
) {
    let (controller, provider, object) = (F::Effect::CONTROLLER, executor.name(), facts.object());
    if priority == Priority::Known && outcome.is_success() && effect.is_routine() {
        // A pass over thousands of unchanged nodes has one for each.
        tracing::trace!(target: "decision", controller, provider, object, %effect, %outcome);
    } else {
        let about = ActivitySubject {
            object: &object,
            provider,
            controller,
        };
        let activity = &executor.cluster().activity;
        log_decision(activity, about, effect, outcome, outcome.is_success());
    }
}

/// Logs how an effect ended, and shows it among the last decisions.
pub(crate) fn log_decision(
    activity: &Activity,
    about: ActivitySubject<'_>,
    effect: impl Display,
    outcome: impl Display,
    is_success: bool,
) {
    let ActivitySubject {
        object,
        provider,
        controller,
    } = about;
    tracing::debug!(target: "decision", controller, provider, object, %effect, %outcome);
    activity.decided(about, effect, outcome, is_success);
}

fn log_end<F: Facts>(
    facts: &F,
    executor: &impl Executor,
    when: &When,
    clock: Clock,
    severity: Severity,
) {
    let (controller, provider, object) = (F::Effect::CONTROLLER, executor.name(), facts.object());
    let attempt = facts.failures().saturating_add(1);
    if matches!(when, When::AwaitChange) {
        tracing::debug!(target: "reconciliation", controller, provider, object, done = %when);
    }
    let about = ActivitySubject {
        object: &object,
        provider,
        controller,
    };
    let wait = Wait {
        about,
        attempt,
        severity,
        is_deletion: facts.is_deletion(),
    };
    wait.report(when, &executor.cluster().activity, clock);
}

/// Number of attempts that an object may need in normal operation: with the cloud's backoff, half a minute.
const NORMAL_ATTEMPTS: u32 = 5;

/// The end of an attempt, with which the object may not be done.
pub(crate) struct Wait<'a> {
    pub(crate) about: ActivitySubject<'a>,
    /// Number of this attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) severity: Severity,
    /// Whether the object is to be deleted.
    pub(crate) is_deletion: bool,
}

/// How serious a wait is, which gives its log level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Something has failed, or takes too long.
    Failure,
    /// The wait is part of normal operation, and begins.
    New,
    /// The wait is part of normal operation, and goes on.
    Usual,
}

impl Severity {
    /// The severity at the end of a reconciliation; `has_failed`: an effect did not succeed on the way.
    fn of<F: Facts>(facts: &F, retained: &F::Retained, has_failed: bool) -> Severity {
        let is_failure = has_failed && !F::is_under_way(retained);
        match facts.waits_already() {
            _ if is_failure || facts.failures() >= NORMAL_ATTEMPTS => Severity::Failure,
            true => Severity::Usual,
            false => Severity::New,
        }
    }
}

impl Wait<'_> {
    /// Logs the reason and the next attempt, and shows them among what waits. An object that is done is not shown any more.
    pub(crate) fn report(&self, when: &When, activity: &Activity, clock: Clock) {
        self.log(when);
        let (after, now) = (when.after().map(|after| clock.timer(after)), wall());
        activity.ended(self.about, when, self.attempt, after, self.is_deletion, now);
    }

    /// Logs nothing if there is no reason to wait.
    fn log(&self, when: &When) {
        let Some(why) = when.why() else { return };
        let ActivitySubject {
            object,
            provider,
            controller,
        } = self.about;
        let (attempt, next) = (self.attempt, when.next());
        match self.severity {
            Severity::Failure => {
                tracing::warn!(target: "waiting", controller, provider, object, next, attempt, "{why}");
            }
            Severity::New => {
                tracing::info!(target: "waiting", controller, provider, object, next, attempt, "{why}");
            }
            Severity::Usual => {
                tracing::debug!(target: "waiting", controller, provider, object, next, attempt, "{why}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
