//! Builds the plan: collects writes withheld by the executor and requests refused by permits, logs the first change of
//! each object, counts them, and keeps the rest for readers. Counts the requests that a brake holds, in every mode.
//! Forwards all audit records to the audit sink.
//!
//! Decides nothing and withholds nothing; in enforce mode it plans nothing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_core::reconciliation::effect::{Effect, When};
use ccm_core::safety::audit::{
    Attempt, AuditRecord, AuditSink, Author, Refused, Subject, Unrecordable,
};
use ccm_core::safety::permit::{CloudRequest, Mode, Refusal};
use ccm_core::safety::plan::{Plan, PlanVerdict, Planned};
use parking_lot::Mutex;

use crate::metrics::Metrics;

/// The process's plan, for readers. Clones share the same plan.
#[derive(Clone, Default)]
pub struct SharedPlan(Arc<Mutex<Plan>>);

impl SharedPlan {
    /// A copy of the current plan.
    pub fn snapshot(&self) -> Plan {
        self.0.lock().clone()
    }
}

impl fmt::Debug for SharedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedPlan({})", *self.0.lock())
    }
}

/// Collects planned changes. It is the audit sink of every permit during a leadership.
pub(crate) struct Planner {
    plan: SharedPlan,
    mode: Mode,
    audit: Arc<dyn AuditSink>,
    metrics: Metrics,
    /// Number of first passes that are not finished yet.
    passes_left: AtomicUsize,
}

impl Planner {
    /// Creates a planner that writes into `plan` in plan mode and forwards audit records to `audit`.
    pub(crate) fn new(
        plan: SharedPlan,
        mode: Mode,
        audit: Arc<dyn AuditSink>,
        metrics: Metrics,
    ) -> Planner {
        Planner {
            plan,
            mode,
            audit,
            metrics,
            passes_left: AtomicUsize::new(0),
        }
    }

    /// Adds first passes that must finish before the plan is complete.
    pub(crate) fn expect_passes(&self, passes: usize) {
        if passes > 0 {
            self.passes_left.fetch_add(passes, Ordering::AcqRel);
            self.plan.0.lock().set_partial();
        }
    }

    /// Removes first passes that are finished, or whose controllers ended before. If none is left, the plan is complete.
    pub(crate) fn end_passes(&self, passes: usize) {
        let left = |left: usize| left.checked_sub(passes);
        let before = self
            .passes_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, left);
        if passes > 0 && before == Ok(passes) {
            self.plan.0.lock().set_whole();
            self.sum_up();
        }
    }

    /// Records a write to the cluster that a controller of `provider` computed and the mode withheld.
    pub(crate) fn withheld<E: Effect>(&self, effect: &E, provider: &str) {
        if self.mode == Mode::Plan
            && let Some(planned) = Planned::of_effect(effect)
        {
            let provider = provider.to_owned();
            self.add(Planned {
                provider,
                ..planned
            });
        }
    }

    /// Records that the controller of `provider` has finished with the object; `has_withheld` says whether a change was
    /// withheld. If the reconciliation is blocked for any reason but the mode, the object counts as unsure, whatever was
    /// withheld before.
    pub(crate) fn concluded(
        &self,
        object: &str,
        controller: &'static str,
        provider: &str,
        when: &When,
        has_withheld: bool,
    ) {
        if self.mode != Mode::Plan {
            return;
        }
        let why = when.why();
        let mut plan = self.plan.0.lock();
        plan.set_unsure(object, controller, provider, why);
        let is_settled =
            why.is_none() && !has_withheld && plan.settled(object, controller, provider);
        drop(plan);
        if is_settled {
            self.taken_out(object);
        }
    }

    /// Takes out what the controller of `provider` itself has planned for the object, or could not judge about it: it needs
    /// nothing of this provider any more.
    pub(crate) fn outdated(&self, object: &str, controller: &'static str, provider: &str) {
        if self.mode == Mode::Plan && self.plan.0.lock().outdated(object, controller, provider) {
            self.taken_out(object);
        }
    }

    /// Removes an object that no longer exists.
    pub(crate) fn gone(&self, object: &str) {
        if self.mode == Mode::Plan && self.plan.0.lock().gone(object) {
            self.taken_out(object);
        }
    }

    /// Removes everything of a provider whose controllers end.
    pub(crate) fn left(&self, provider: &str) {
        if self.mode == Mode::Plan && self.plan.0.lock().left(provider) {
            tracing::info!(target: "plan", provider, "its controllers end, and what they would change is taken out");
            self.count();
        }
    }

    fn taken_out(&self, object: &str) {
        tracing::info!(target: "plan", object, "would not be changed any more");
        self.count();
    }

    /// Logs a one-line summary of the plan.
    pub(crate) fn sum_up(&self) {
        if self.mode == Mode::Plan {
            let plan = self.plan.snapshot();
            let empty = plan.verdict() == PlanVerdict::Empty;
            tracing::info!(target: "plan", changes = plan.changes().count(), empty, "{plan}");
        }
    }

    fn add(&self, planned: Planned) {
        if !self.plan.0.lock().add(planned.clone()) {
            return;
        }
        let Planned {
            kind,
            object,
            verb,
            what,
            log_line,
            by: _,
            provider: _,
            place: _,
            is_bookkeeping,
        } = planned;
        if is_bookkeeping {
            tracing::info!(target: "plan", kind = kind.as_str(), object, verb, change = what, "would be noted down");
            return;
        }
        tracing::info!(target: "plan", kind = kind.as_str(), object, verb, change = what, said = log_line, "would be changed");
        self.count();
    }

    fn count(&self) {
        // Release the lock first: a scrape must not wait.
        let counts = self.plan.0.lock().counts();
        self.metrics.planned(&counts);
    }
}

impl AuditSink for Planner {
    fn before(&self, subject: &Subject, request: &CloudRequest) -> Result<(), Unrecordable> {
        self.audit.before(subject, request)
    }

    fn after(&self, record: &AuditRecord) {
        self.audit.after(record);
    }

    fn refused(&self, refused: &Refused<'_>) {
        match refused.refusal {
            Refusal::Mode(_) if self.mode == Mode::Plan => self.add(Planned::of_request(refused)),
            // The permit took nothing from the budget store, which counts what it holds itself.
            Refusal::Brake { brake, .. } => {
                self.metrics.held(brake, &refused.request.author.provider);
            }
            _ => {}
        }
        self.audit.refused(refused);
    }

    fn attempted(&self, attempt: &Attempt<'_>) {
        self.audit.attempted(attempt);
    }

    fn before_deletion(&self, author: &Author, subject: &Subject) -> Result<(), Unrecordable> {
        self.audit.before_deletion(author, subject)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use ccm_core::moment::Moment;
    use ccm_core::node::object::NodeRef;
    use ccm_core::node_lifecycle::{LifecycleEffect, NodeDeletion};
    use ccm_core::safety::audit::NoAudit;
    use ccm_core::safety::brake::Brake;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::tests::encoded;

    const CONTROLLER: &str = LifecycleEffect::CONTROLLER;

    fn deletion(name: &str) -> LifecycleEffect {
        let node = NodeRef {
            name: name.to_owned(),
            uid: "u".to_owned(),
        };
        LifecycleEffect::Delete(
            node,
            NodeDeletion {
                resource_version: "7".to_owned(),
                brake: Some(Brake::NodeDeletion),
                reason: String::new(),
            },
        )
    }

    fn planner(mode: Mode) -> (Planner, SharedPlan, Registry) {
        let (plan, mut registry) = (SharedPlan::default(), Registry::default());
        let metrics = Metrics::register(&mut registry);
        let planner = Planner::new(plan.clone(), mode, Arc::new(NoAudit), metrics);
        (planner, plan, registry)
    }

    fn refuse(planner: &Planner, refusal: Refusal) {
        let request = CloudRequest {
            author: Author {
                provider: "hcloud".to_owned(),
                digest: String::new(),
            },
            ..ccm_fixtures::permits::change("POST", "/servers")
        };
        planner.refused(&Refused {
            subject: &Subject::default(),
            request: &request,
            refusal,
            log_line: None,
        });
    }

    #[test]
    fn what_is_planned_is_counted_by_kind_and_counted_down_when_it_is_settled() {
        let (planner, plan, registry) = planner(Mode::Plan);
        planner.withheld(&deletion("a"), "hcloud");
        planner.withheld(&deletion("a"), "hcloud");
        planner.withheld(&deletion("b"), "hcloud");
        refuse(&planner, Refusal::Mode("plan"));
        let text = encoded(&registry);
        assert!(text.contains("ccm_plan_pending{kind=\"node\"} 2"), "{text}");
        assert!(
            text.contains("ccm_plan_pending{kind=\"cloud\"} 1"),
            "{text}"
        );
        planner.concluded("node/a", CONTROLLER, "hcloud", &When::AwaitChange, true);
        planner.concluded("node/b", "another", "hcloud", &When::AwaitChange, false);
        assert_eq!(plan.snapshot().changes().count(), 3);
        planner.concluded("node/a", CONTROLLER, "hcloud", &When::AwaitChange, false);
        planner.gone("node/b");
        let text = encoded(&registry);
        assert!(text.contains("ccm_plan_pending{kind=\"node\"} 0"), "{text}");
        assert_eq!(plan.snapshot().changes().count(), 1);
    }

    #[test]
    fn what_nothing_can_be_said_about_yet_is_no_part_of_a_promise() {
        let (planner, plan, _) = planner(Mode::Plan);
        planner.expect_passes(1);
        planner.end_passes(1);
        assert!(plan.snapshot().is_sure());
        let waits = When::Blocked {
            why: "the cloud is away".to_owned(),
        };
        planner.concluded("node/a", CONTROLLER, "hcloud", &waits, false);
        assert!(!plan.snapshot().is_sure());
        planner.concluded("node/a", CONTROLLER, "hcloud", &When::AwaitChange, false);
        assert!(plan.snapshot().is_sure());
        // A change was withheld, and a later step failed.
        planner.withheld(&deletion("a"), "hcloud");
        planner.concluded("node/a", CONTROLLER, "hcloud", &waits, true);
        assert!(!plan.snapshot().is_sure());
    }

    #[test]
    fn first_passes_of_providers_that_have_left_keep_no_later_plan_partial() {
        let (planner, plan, _) = planner(Mode::Plan);
        planner.expect_passes(2);
        // The last provider leaves, and its successor comes.
        planner.expect_passes(1);
        planner.end_passes(2);
        assert!(!plan.snapshot().is_whole());
        planner.expect_passes(1);
        planner.end_passes(1);
        planner.end_passes(1);
        assert!(plan.snapshot().is_whole());
    }

    #[test]
    fn only_plan_mode_makes_a_plan_and_only_the_mode_is_a_reason_to_plan() {
        for mode in [Mode::Enforce, Mode::Observe] {
            let (planner, plan, _) = planner(mode);
            planner.withheld(&deletion("a"), "hcloud");
            refuse(&planner, Refusal::Mode("observe"));
            assert_eq!(plan.snapshot().changes().count(), 0);
        }
        let (planner, plan, _) = planner(Mode::Plan);
        refuse(&planner, Refusal::Revoked);
        assert_eq!(plan.snapshot().changes().count(), 0);
    }

    #[test]
    fn what_a_brake_holds_is_counted_in_every_mode_and_is_no_part_of_a_plan() {
        let engaged = Refusal::Brake {
            brake: Brake::CloudMutations,
            again: Moment(Duration::ZERO),
        };
        let held = "ccm_brake_held_total{brake=\"cloud-mutations\",provider=\"hcloud\"}";
        for mode in Mode::ALL {
            let (planner, plan, registry) = planner(mode);
            refuse(&planner, Refusal::Budget(4));
            let text = encoded(&registry);
            assert!(!text.contains(held), "{text}");
            refuse(&planner, engaged);
            refuse(&planner, engaged);
            let text = encoded(&registry);
            assert!(text.contains(&format!("{held} 2")), "{text}");
            assert_eq!(plan.snapshot().changes().count(), 0);
        }
    }
}
