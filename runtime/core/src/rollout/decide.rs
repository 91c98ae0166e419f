//! The decision: which version serves, which is tried, and what is recorded. Orders are handled in `orders`, trials in
//! `trial`.

use super::candidate::TrialKind;
use super::facts::{
    Cause, Role, RolloutDecision, RolloutEffect, RolloutEvent, RolloutFacts, RolloutTime,
    VersionFailure, Work,
};
use super::orders::{self, Ordered};
use super::record::{Record, Release, cut};
use super::trial;
use crate::moment::Moment;
use crate::reconciliation::event::reasons::{self, EventReason};

/// Returns the next effects for `facts`, or when to decide again.
pub fn decide(facts: &RolloutFacts, now: RolloutTime) -> RolloutDecision {
    let Some(record) = &facts.record else {
        return RolloutDecision::Wait(None);
    };
    let mut turn = DecisionBuilder {
        facts,
        record,
        now,
        wake: None,
    };
    let effects = turn.withdraw().or_else(|| match facts.role {
        Role::Leader => turn.lead(),
        Role::Follower => turn.follow(),
    });
    effects.map_or(RolloutDecision::Wait(turn.wake), RolloutDecision::Do)
}

/// State of one decision being made.
pub(super) struct DecisionBuilder<'a> {
    pub(super) facts: &'a RolloutFacts,
    pub(super) record: &'a Record,
    pub(super) now: RolloutTime,
    /// When to decide again.
    pub(super) wake: Option<Moment>,
}

/// Progress of a version that should serve.
pub(super) enum Placing<'a> {
    /// It answers the calls already.
    Serves,
    /// Perform these effects; the last of them may be [`RolloutEffect::Place`].
    Do(Vec<RolloutEffect>),
    /// It is being loaded.
    Loading,
    /// It cannot serve for now.
    SetBack(&'a VersionFailure),
}

impl<'a> DecisionBuilder<'a> {
    /// Takes a version out of service that another process has rejected since it was loaded here, or that an order holds
    /// back before it was recorded.
    fn withdraw(&self) -> Option<Vec<RolloutEffect>> {
        let digest = &self.facts.serving.as_ref()?.release.digest;
        let may_serve = match &self.record.active {
            Some(active) if active.release.digest == *digest => true,
            None if orders::held_back(&self.facts.orders, digest).is_some() => false,
            _ => !self.record.is_rejected(digest),
        };
        if may_serve {
            return None;
        }
        let ends = self.facts.candidate.is_some().then(|| self.end_trial());
        let ends = ends.into_iter().flatten();
        Some(ends.chain([RolloutEffect::Withdraw]).collect())
    }

    /// Decision of a follower: the recorded version has to serve. Without a record any offered version may: a follower
    /// changes nothing, and loading it early shortens a later takeover.
    fn follow(&mut self) -> Option<Vec<RolloutEffect>> {
        // Work on a replacement for a lost version remains useful if this process leads again.
        if self.facts.candidate.is_some() && self.lost().is_none() {
            return Some(self.end_trial());
        }
        let serving = self.facts.serving.as_ref().map(|it| &it.release);
        let recorded = self.record.active_release().or(serving);
        let target = recorded.or_else(|| orders::chosen(self));
        match self.placing(target?) {
            Placing::Do(effects) => Some(effects),
            Placing::Serves | Placing::Loading | Placing::SetBack(_) => None,
        }
    }

    fn lead(&mut self) -> Option<Vec<RolloutEffect>> {
        match orders::follow(self) {
            Ordered::Nothing => {}
            Ordered::Do(effects) => return Some(effects),
            Ordered::Waits => return None,
            Ordered::Delayed => return self.serve().or_else(|| self.note()),
        }
        if let Some(reason) = trial::verdict(self) {
            return Some(self.reject_candidate(&reason));
        }
        if let Some(effects) = self.serve() {
            return Some(effects);
        }
        if (self.facts.serving.is_some() || self.lost().is_some())
            && let Some(effects) = trial::advance(self)
        {
            return Some(effects);
        }
        self.note()
    }

    /// Brings the recorded version into service. If it can no longer be loaded, the offered one replaces it once it is
    /// found to request no more, or is approved.
    fn serve(&mut self) -> Option<Vec<RolloutEffect>> {
        let active = self.record.active_release();
        if let Some(active) = active {
            match self.placing(active) {
                Placing::Serves | Placing::Loading => return None,
                Placing::Do(effects) => return Some(effects),
                Placing::SetBack(_) if self.lost().is_none() => return None,
                Placing::SetBack(_) => {}
            }
        }
        // Loaded before this process became leader, and not recorded yet.
        if let (None, Some(serving)) = (active, &self.facts.serving) {
            return Some(self.activate(Vec::new(), &serving.release));
        }
        let release = orders::chosen(self)?;
        let is_other = active.is_some_and(|active| active.digest != release.digest);
        if is_other && !trial::is_admitted(self, release) {
            return None;
        }
        match self.placing(release) {
            Placing::Serves => None,
            Placing::Do(effects) => {
                let is_placed = matches!(effects.last(), Some(RolloutEffect::Place(_)));
                Some(if is_placed {
                    self.activate(effects, release)
                } else {
                    effects
                })
            }
            // The active version has served: that it cannot be loaded here, as by an earlier host or on a slower
            // machine, is no reason to take it from every other process.
            Placing::SetBack(failure)
                if failure.cause == Cause::Module && (is_other || active.is_none()) =>
            {
                Some(self.reject(Vec::new(), release, &failure.why, false))
            }
            Placing::Loading | Placing::SetBack(_) => None,
        }
    }

    /// The recorded active version and its failure, if nothing serves and waiting alone would not help.
    pub(super) fn lost(&self) -> Option<(&'a Release, &'a VersionFailure)> {
        let active = self.record.active_release()?;
        let failure = self.facts.failures.get(&active.digest)?;
        let is_lost = self.facts.serving.is_none() && failure.cause != Cause::Circumstances;
        is_lost.then_some((active, failure))
    }

    /// The steps to have `release` serve under the current load policy.
    pub(super) fn placing(&mut self, release: &Release) -> Placing<'a> {
        let facts = self.facts;
        let is_it = |loaded: &super::Loaded| {
            loaded.is(&release.digest) && loaded.policy_generation == facts.policy_generation
        };
        if facts.serving.as_ref().is_some_and(is_it) {
            return Placing::Serves;
        }
        if facts.ready.as_ref().is_some_and(is_it) {
            return Placing::Do(vec![RolloutEffect::Place(release.clone())]);
        }
        if let Some(failure) = facts.failures.get(&release.digest) {
            let is_due = failure.again.is_some_and(|at| at <= self.now.moment);
            let is_other = |work: &Work| work.release().digest != release.digest;
            // A retry after a failure does not abandon other work.
            if is_due && facts.work.as_ref().is_some_and(is_other) {
                return Placing::SetBack(failure);
            }
            if !is_due {
                self.wake_at(failure.again);
                return Placing::SetBack(failure);
            }
        }
        match &facts.work {
            Some(Work::Load(loading)) if loading.digest == release.digest => Placing::Loading,
            Some(_) => Placing::Do(vec![RolloutEffect::Abandon]),
            None => Placing::Do(vec![RolloutEffect::Begin(Work::Load(release.clone()))]),
        }
    }

    /// Keeps the record with a change.
    pub(super) fn keep(&self, change: impl FnOnce(&mut Record)) -> RolloutEffect {
        let mut record = self.record.clone();
        change(&mut record);
        RolloutEffect::Keep(Box::new(record))
    }

    /// After `effects`, records `release` as active and reports it.
    pub(super) fn activate(
        &self,
        mut effects: Vec<RolloutEffect>,
        release: &Release,
    ) -> Vec<RolloutEffect> {
        let untried = self.lost().map(|(lost, failure)| {
            let why = format!(
                "it was not tried beside {}, which cannot be loaded: {}",
                lost.shown(),
                failure.why
            );
            cut(&why)
        });
        let mut text = format!("{} serves from now on", release.shown());
        text.extend(untried.iter().flat_map(|why| ["; ", why]));
        effects.push(self.keep(|record| record.activate(release.clone(), self.now.wall, untried)));
        let reason = reasons::PROVIDER_ACTIVATED;
        effects.push(rollout_event(reason, Some(release), &text));
        effects
    }

    /// After `effects`, records `release` as rejected and reports it.
    fn reject(
        &self,
        mut effects: Vec<RolloutEffect>,
        release: &Release,
        reason: &str,
        has_answered: bool,
    ) -> Vec<RolloutEffect> {
        effects.push(self.keep(|record| {
            record.reject(release, reason, has_answered, self.now.wall);
            record.trial = None;
        }));
        let serves = match self.record.active_release() {
            Some(active) => format!("{} goes on serving", active.shown()),
            None => "nothing serves".to_owned(),
        };
        let (event_reason, what) = match has_answered {
            true => (reasons::PROVIDER_ROLLED_BACK, "taken back"),
            false => (reasons::PROVIDER_REJECTED, "rejected"),
        };
        let text = format!("{} is {what}: {reason}; {serves}", release.shown());
        effects.push(rollout_event(event_reason, Some(release), &text));
        effects
    }

    fn reject_candidate(&self, reason: &str) -> Vec<RolloutEffect> {
        let Some(candidate) = &self.facts.candidate else {
            return Vec::new();
        };
        let has_answered = candidate.step.trial() == Some(TrialKind::Canary);
        self.reject(self.end_trial(), &candidate.release, reason, has_answered)
    }

    /// Ends the trial and its work.
    pub(super) fn end_trial(&self) -> Vec<RolloutEffect> {
        let works = self.facts.work.is_some().then_some(RolloutEffect::Abandon);
        works.into_iter().chain([RolloutEffect::EndTrial]).collect()
    }

    /// Updates the recorded trial and trouble.
    fn note(&mut self) -> Option<Vec<RolloutEffect>> {
        let mut record = self.record.clone();
        let facts = self.facts;
        let has_heard = facts.offer.is_some() || !facts.source_trouble.is_empty();
        if (facts.serving.is_some() || facts.candidate.is_some()) && has_heard {
            record.trial = trial::shown(self);
        }
        if let (Some(active), Some(serving)) = (&mut record.active, &facts.serving)
            && serving.is(&active.release.digest)
        {
            active.noted.clone_from(&serving.noted);
        }
        record.trouble = self.trouble();
        let events = self.unserved(&record).into_iter();
        let events = events.chain(self.offered_again()).collect::<Vec<_>>();
        if record == *self.record {
            return (!events.is_empty()).then_some(events);
        }
        let trial_events = trial::news(self, record.trial.as_ref());
        let keep = RolloutEffect::Keep(Box::new(record));
        Some(
            [keep]
                .into_iter()
                .chain(trial_events)
                .chain(events)
                .collect(),
        )
    }

    /// Reports, once for each offer, that the source offers a version which was rejected before: without a report it
    /// would look as if the offer were not seen.
    fn offered_again(&self) -> Option<RolloutEffect> {
        let offered = self.facts.offered_release()?;
        let rejected = self.record.rejection(&offered.digest)?;
        if self.facts.reported_rejected.as_ref() == Some(&offered.digest) {
            return None;
        }
        let release = rejected.release();
        let text = format!(
            "{} is offered, and was rejected before: {}; it is tried again if the annotation wasm-ccm.dev/retry names {}",
            release.shown(),
            rejected.reason,
            release.digest
        );
        let reason = reasons::REJECTED_VERSION_OFFERED;
        Some(rollout_event(reason, Some(&release), &text))
    }

    /// Reports, once, that nothing serves: when no work is under way that could change it, and the cause is known.
    fn unserved(&self, record: &Record) -> Option<RolloutEffect> {
        let facts = self.facts;
        let is_under_way = facts.work.is_some() || facts.ready.is_some();
        if facts.serving.is_some() || is_under_way || facts.has_reported_unserved {
            return None;
        }
        let active = record.active_release();
        let is_set_back = active.is_some_and(|it| facts.failures.contains_key(&it.digest));
        if !is_set_back && facts.source_trouble.is_empty() {
            return None;
        }
        let text = format!("nothing serves: {}", record.trouble);
        Some(rollout_event(reasons::PROVIDER_NOT_SERVING, active, &text))
    }

    /// Why the source cannot be read, or a version cannot serve.
    fn trouble(&self) -> String {
        let facts = self.facts;
        let mut lines = vec![facts.source_trouble.clone(), facts.notice.clone()];
        lines.retain(|line| !line.is_empty());
        let wanted = self.record.active_release();
        let first = facts.offered_release().filter(|_| facts.serving.is_none());
        let tried = facts.candidate.as_ref().map(|it| &it.release);
        let mut seen = Vec::new();
        for release in wanted.into_iter().chain(first).chain(tried) {
            if seen.contains(&&release.digest) {
                continue;
            }
            seen.push(&release.digest);
            let is_missed = facts.serving.is_none() && wanted == Some(release);
            if let Some(failure) = facts.failures.get(&release.digest) {
                let what = match facts.stands_in().filter(|_| wanted == Some(release)) {
                    _ if is_missed => " must serve, but".to_owned(),
                    Some(other) => format!(" must serve in place of {}, but", other.shown()),
                    None => ":".to_owned(),
                };
                lines.push(format!("{}{what} {}", release.shown(), failure.why));
            } else if let Some(rejected) = self.record.rejection(&release.digest)
                && (wanted.is_none() || !lines.is_empty())
            {
                // Not while the version that should serve is still being loaded.
                lines.push(rejected.offered());
            }
        }
        lines.extend(orders::misnamed(self).or_else(|| orders::trouble(self)));
        cut(&lines.join("; "))
    }

    /// Decides again at this moment at the latest.
    pub(super) fn wake_at(&mut self, moment: Option<Moment>) {
        let known = self.wake.into_iter().chain(moment);
        self.wake = known.min();
    }
}

pub(super) fn rollout_event(
    reason: &EventReason,
    release: Option<&Release>,
    message: &str,
) -> RolloutEffect {
    RolloutEffect::RecordEvent(RolloutEvent {
        event_type: reason.event_type,
        reason: reason.reason,
        message: cut(message),
        release: release.cloned(),
    })
}
