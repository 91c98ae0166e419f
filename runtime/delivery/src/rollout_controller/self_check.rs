//! Credential self-check of the serving version. A tried version has passed it before it serves; the first one and one
//! that was loaded anew, with a configuration that may hold another credential, have not and serve whatever the result,
//! which is reported to people.

use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::reconciliation::retry::PERSON;
use tokio::task::JoinSet;

use super::RolloutController;

/// State of the background check: runs once this process leads, and again while it fails.
pub(super) struct Check {
    /// Completes with the number of the generation that was asked, and its error if it failed.
    pub(super) asked: JoinSet<(u64, Option<String>)>,
    /// When the next check is due; `None`: no check is due.
    next: Option<Moment>,
    failures: u32,
    /// Error of the last check; empty if there was none.
    pub(super) problem: String,
}

impl Check {
    /// Due as soon as a version serves and this process leads.
    pub(super) fn due() -> Check {
        Check {
            asked: JoinSet::new(),
            next: Some(Moment(Duration::ZERO)),
            failures: 0,
            problem: String::new(),
        }
    }

    /// Handles a change of the serving generation. One that was tried needs no check.
    pub(super) fn is_replaced(&mut self, was_tried: bool) {
        self.problem.clear();
        self.failures = 0;
        self.next = (!was_tried).then_some(Moment(Duration::ZERO));
    }
}

impl RolloutController {
    /// Starts the check if it is due; otherwise returns the delay until then.
    pub(super) fn check(&mut self) -> Option<Duration> {
        let (next, now) = (self.check.next?, self.clock.now().moment);
        if next > now {
            return Some(self.clock.timer(now.until(next)));
        }
        // Either change triggers another call.
        let (serving, permit) = (self.facts.serving.as_ref()?, self.permit()?);
        let generation = self.generated(serving)?.generation.clone();
        self.check.next = None;
        self.check.asked.spawn(async move {
            let problem = generation.provider.self_check(permit).await.err();
            let problem = problem.map(|error| format!("its self-check fails: {error}"));
            (generation.number, problem)
        });
        None
    }

    /// Takes the result of a check, unless another generation serves by now.
    pub(super) fn check_ended(&mut self, generation: u64, problem: Option<String>) {
        let serving = self.facts.serving.as_ref();
        let Some(serving) = serving.filter(|it| it.generation == generation) else {
            return;
        };
        if let Some(problem) = &problem {
            let digest = &serving.release.digest;
            tracing::warn!(target: "rollout", provider = %self.name, %digest, "{problem}");
            self.check.failures = self.check.failures.saturating_add(1);
            let now = self.clock.now().moment;
            self.check.next = Some(now.after(PERSON.after(self.check.failures)));
        }
        self.check.problem = problem.unwrap_or_default();
        self.notice();
    }
}
