//! Credential self-check of the serving version. A tried version has passed it before it serves; the first one and one
//! that was loaded anew, with a configuration that may hold another credential, have not and serve whatever the result,
//! which is reported to people.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::moment::Moment;
use ccm_core::reconciliation::retry::PERSON;
use ccm_core::safety::tenure::Tenure;
use futures::FutureExt as _;
use tokio::task::JoinSet;

use super::{Lead, RolloutController};
use crate::active::revoked;

/// State of the background check: runs once this process leads, and again while it fails.
pub(super) struct Check {
    /// Completes with the number of the generation that was asked, and how the check ended.
    pub(super) asked: JoinSet<(u64, CheckEnd)>,
    /// The tenure of the last check. Weak, because the egress sends nothing while a tenure that has ended is still used.
    tenure: Weak<Tenure>,
    /// When the next check is due; `None`: no check is due.
    next: Option<Moment>,
    failures: u32,
    /// Error of the last check; empty if there was none.
    pub(super) problem: String,
}

/// How a check ended.
pub(super) enum CheckEnd {
    /// The credential was accepted, or the provider has no check.
    Passed,
    /// The error, for people.
    Failed(String),
    /// The leadership ended during the check, which therefore says nothing.
    Revoked,
}

impl CheckEnd {
    /// Waits for the end of a check under this tenure. A panic of the host is a failure as well: without an end, no check
    /// would be due any more.
    async fn of(
        check: impl Future<Output = Result<(), ProviderError>>,
        tenure: &Tenure,
    ) -> CheckEnd {
        match AssertUnwindSafe(check).catch_unwind().await {
            Ok(Ok(())) => CheckEnd::Passed,
            Ok(Err(_)) if revoked(tenure).is_some() => CheckEnd::Revoked,
            Ok(Err(error)) => CheckEnd::Failed(format!("its self-check fails: {error}")),
            Err(_) => CheckEnd::Failed("its self-check fails: the host panicked".to_owned()),
        }
    }
}

impl Check {
    /// Due as soon as a version serves and this process leads.
    pub(super) fn due() -> Check {
        Check {
            asked: JoinSet::new(),
            tenure: Weak::new(),
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

    /// Handles a change of the leadership. A check that began under another one is aborted, and is due again.
    pub(super) fn is_led_by(&mut self, lead: Option<&Lead>) {
        let tenure = lead.map(|lead| Arc::as_ptr(&lead.tenure));
        if self.asked.is_empty() || tenure == Some(self.tenure.as_ptr()) {
            return;
        }
        // Dropping the set aborts its tasks, and with them the requests under the former tenure.
        self.asked = JoinSet::new();
        self.next = Some(Moment(Duration::ZERO));
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
        // The next leadership triggers another call, too.
        if revoked(permit.tenure()).is_some() {
            return None;
        }
        self.check.next = None;
        self.check.tenure = Arc::downgrade(permit.tenure());
        self.check.asked.spawn(async move {
            let check = generation.provider.self_check(permit.clone());
            let end = CheckEnd::of(check, permit.tenure()).await;
            (generation.number, end)
        });
        None
    }

    /// Takes the result of a check, unless another generation serves by now.
    pub(super) fn check_ended(&mut self, generation: u64, end: CheckEnd) {
        let serving = self.facts.serving.as_ref();
        let Some(serving) = serving.filter(|it| it.generation == generation) else {
            return;
        };
        match end {
            CheckEnd::Passed => self.check.problem.clear(),
            CheckEnd::Failed(problem) => {
                let digest = &serving.release.digest;
                tracing::warn!(target: "rollout", provider = %self.name, %digest, "{problem}");
                self.check.failures = self.check.failures.saturating_add(1);
                let now = self.clock.now().moment;
                self.check.next = Some(now.after(PERSON.after(self.check.failures)));
                self.check.problem = problem;
            }
            CheckEnd::Revoked => self.check.next = Some(Moment(Duration::ZERO)),
        }
        self.notice();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn a_self_check_in_which_the_host_panics_has_failed() {
        let tenure = Tenure::unlimited();
        let end = CheckEnd::of(async { panic!("on purpose") }, &tenure).await;
        assert!(matches!(end, CheckEnd::Failed(_)));
    }
}
