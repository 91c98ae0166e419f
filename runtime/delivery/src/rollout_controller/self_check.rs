//! What serves proves its credential. A version that was tried has done so before it served; the first one has not, and
//! serves whatever comes of it: this says what people should know.

use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::retry::PERSON;
use tokio::task::JoinSet;

use super::RolloutController;

/// The check of what serves, which nobody waits for: once this process leads, and again while it fails.
pub(super) struct Check {
    /// Ends with the digest of the version that was asked, and what it has said.
    pub(super) asked: JoinSet<(String, Option<String>)>,
    /// When it is asked next, if it is.
    next: Option<Moment>,
    failures: u32,
    /// What it has said last; empty: nothing.
    pub(super) said: String,
}

impl Check {
    /// Due as soon as something serves and this process leads.
    pub(super) fn due() -> Check {
        Check {
            asked: JoinSet::new(),
            next: Some(Moment(Duration::ZERO)),
            failures: 0,
            said: String::new(),
        }
    }

    /// Nobody would hear of it.
    pub(super) fn is_needless(&mut self) {
        self.next = None;
    }

    /// Another version serves. One that was tried needs no check.
    pub(super) fn is_replaced(&mut self, was_tried: bool) {
        self.said.clear();
        if was_tried {
            self.next = None;
        }
    }
}

impl RolloutController {
    /// Asks what serves, if it is time, and says when it will be.
    pub(super) fn check(&mut self) -> Option<Duration> {
        let (next, now) = (self.check.next?, self.clock.now().moment);
        if next > now {
            return Some(self.clock.timer(now.until(next)));
        }
        // Both are heard of when they come.
        let (active, permit) = (self.active.as_ref()?, self.permit()?);
        self.check.next = None;
        let serving = active.serving();
        self.check.asked.spawn(async move {
            let said = serving.provider.self_check(permit).await.err();
            let said = said.map(|error| format!("its self-check fails: {error}"));
            (serving.release.digest.clone(), said)
        });
        None
    }

    pub(super) fn check_ended(&mut self, digest: &str, said: Option<String>) {
        let serves = self.facts.serving.as_ref().is_some_and(|it| it.is(digest));
        if !serves {
            return;
        }
        if let Some(said) = &said {
            tracing::warn!(target: "rollout", provider = %self.name, %digest, "{said}");
            self.check.failures = self.check.failures.saturating_add(1);
            let now = self.clock.now().moment;
            self.check.next = Some(now.after(PERSON.after(self.check.failures)));
        }
        self.check.said = said.unwrap_or_default();
        self.notice();
    }
}
