//! Performs effects. Long work is started here and completes in [`super::version_work`]; all other effects are done
//! immediately.

use std::sync::{Arc, OnceLock};

use ccm_core::cloud::EventType;
use ccm_core::rollout::{
    Candidate, Cause, Noted, Record, Role, RolloutEffect, RolloutEvent, Work, WorkResult,
    not_serving, state,
};
use ccm_core::safety::audit::NoAudit;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_host::egress::now;
use ccm_host::{Digest, limits};
use tokio::task::{JoinError, JoinSet};

use super::version_work::{Ended, Job, run};
use super::{Generated, RolloutController, Served};
use crate::artifact::Artifact;
use crate::metrics;
use crate::record::{Limits, Report};
use crate::source::{Location, PANICKED};

impl RolloutController {
    pub(super) fn perform(&mut self, effect: &RolloutEffect) {
        match effect {
            RolloutEffect::Keep(record) => {
                // The store may be set back to what was seen before this record was seen there.
                self.seen_record = None;
                self.keep(record);
            }
            RolloutEffect::Begin(work) => self.begin(work),
            // Dropping the set aborts its tasks; a result that has just arrived is discarded.
            RolloutEffect::Abandon => self.works = JoinSet::new(),
            RolloutEffect::Place(_) => {
                self.place();
                // A process that does not lead keeps no record, and stores what its leader has it load.
                if let Some(record) = &self.facts.record {
                    self.keep(record);
                }
            }
            RolloutEffect::Withdraw => self.withdraw(),
            RolloutEffect::Try(release) => {
                tracing::info!(target: "rollout", provider = %self.name, digest = %release.digest, "a new version is looked at");
            }
            RolloutEffect::Shadow(release) => {
                tracing::info!(target: "rollout", provider = %self.name, digest = %release.digest, version = %release.version, "shadow: its answers are compared");
            }
            RolloutEffect::Canary(release) => {
                tracing::info!(target: "rollout", provider = %self.name, digest = %release.digest, version = %release.version, "canary: it answers a part of the calls");
            }
            // The facts then have no trial, and the roles follow from them.
            RolloutEffect::EndTrial => {}
            RolloutEffect::Clear(order) => self.record_writer.clear_order(order.clone()),
            RolloutEffect::RecordEvent(event) => self.record_event(event),
        }
    }

    fn ready(&self) -> Option<&Generated> {
        self.generated(self.facts.ready.as_ref()?)
    }

    /// Keeps the modules in the record, the offered one and the one that serves in the store, and no others.
    fn keep(&self, record: &Record) {
        let facts = &self.facts;
        let serving = facts.ready.as_ref().or(facts.serving.as_ref());
        let known = [
            record.active_release(),
            record.previous.as_ref(),
            record.trial.as_ref().map(|trial| &trial.release),
            facts.offered_release(),
            serving.map(|loaded| &loaded.release),
        ];
        let digests: Vec<Digest> = known
            .into_iter()
            .flatten()
            .filter_map(|it| Digest::parse(&it.digest))
            .collect();
        let resources = self.resources.clone();
        tokio::spawn(async move { resources.store.keep(&digests).await });
    }

    /// Submits the record in the current facts to the status writer, if this process leads.
    pub(super) fn write(&mut self) {
        if self.facts.role != Role::Leader {
            return;
        }
        let Some(record) = &self.facts.record else {
            return;
        };
        self.record_writer.submit_report(Report {
            impairment: self.check.problem.clone(),
            specification: self.inputs.specification.borrow().clone(),
            record: record.clone(),
            source: self.place.clone(),
            source_trouble: self.facts.source_trouble.clone(),
            is_serving: self.facts.serving.is_some(),
            stands_in: self.facts.stands_in().map(|release| release.shown()),
            limits: self.active().map(|active| {
                let provider = &active.serving().provider;
                Limits {
                    call: provider.call_limits(),
                    memory_share_mib: provider.memory_share_mib(),
                }
            }),
            ..Report::default()
        });
    }

    fn begin(&mut self, work: &Work) {
        let serving = self.facts.serving.as_ref();
        let serving = serving.and_then(|serving| self.generated(serving));
        let location = Location::parse(&self.place);
        let job = Job {
            work: work.clone(),
            policy_generation: self.facts.policy_generation,
            location_pin: location.ok().and_then(|location| location.pin()),
            offered: self.offered.clone(),
            anew: OnceLock::new(),
            again: self.source_watcher.again(),
            policies: self.inputs.policies.clone(),
            endorsement: self.facts.endorsement(&work.release().digest),
            serving: serving.map(|serving| serving.inspection.clone()),
            recorded: self.recorded(),
            active: self.active(),
            ready: self.ready().cloned(),
            permit: self.permit(),
        };
        self.works.spawn(run(self.resources.clone(), job));
    }

    fn recorded(&self) -> Noted {
        let record = self.facts.record.as_ref();
        let active = record.and_then(|record| record.active.as_ref());
        active
            .map(|active| active.noted.clone())
            .unwrap_or_default()
    }

    /// A permit for reads, bounded by the tenure.
    pub(super) fn permit(&self) -> Option<Arc<Permit>> {
        let lead = self.inputs.lead.borrow().clone()?;
        Some(Arc::new(reading_under(lead.tenure)))
    }

    pub(super) fn work_ended(&mut self, ended: Result<Ended, JoinError>) {
        // Abandoned work has no listener. A panic is not attributed to the module: its cause is unknown.
        let now = self.clock.now();
        let Ended {
            work,
            policy_generation,
            end,
            generated,
            anew,
        } = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_cancelled() => return,
            Err(_) => {
                let Some(work) = self.facts.work.clone() else {
                    return;
                };
                let end = Cause::Circumstances.because(PANICKED);
                self.facts
                    .ended(&work, self.facts.policy_generation, end, now);
                return;
            }
        };
        // A signature may come after its artifact: what follows is judged by it, too.
        if let Some(anew) = anew
            && let Some(offered) = &self.offered
            && offered.digest == anew.digest
        {
            self.offered = Some(Arc::new(Artifact {
                origin: offered.origin.clone(),
                ..Artifact::clone(&anew)
            }));
        }
        // Dropped again unless the facts take it.
        if let Some(generated) = generated {
            let number = generated.generation.number;
            self.generations.insert(number, generated);
        }
        let before = end.clone();
        self.facts.ended(&work, policy_generation, end, now);
        self.log(&work, &before);
    }

    fn log(&self, work: &Work, end: &WorkResult) {
        let provider = &self.name;
        let (digest, version) = (&work.release().digest, &work.release().version);
        let WorkResult::Failed(cause, lines) = end else {
            return;
        };
        let why = match self.facts.failures.get(digest) {
            // The recorded failure also says what happens to a version that serves.
            Some(failure) if (*cause, failure.cause) == (Cause::Policy, Cause::Policy) => {
                failure.why.clone()
            }
            _ => lines.join("; "),
        };
        let what = cause.what();
        tracing::warn!(target: "rollout", %provider, %digest, %version, why = %why, "{what}");
    }

    /// Reports that the ready generation answers all calls from now on, and has it checked unless it was tried.
    fn place(&mut self) {
        let (Some(ready), Some(loaded)) = (self.ready(), &self.facts.ready) else {
            return;
        };
        let release = &loaded.release;
        for warning in ready.generation.provider.warnings() {
            tracing::warn!(target: "rollout", provider = %self.name, "{warning}");
        }
        tracing::info!(target: "rollout", provider = %self.name, digest = %release.digest, version = %release.version, "serves");
        let is_tried = |it: &Candidate| it.release.digest == release.digest;
        let was_tried = self.facts.candidate.as_ref().is_some_and(is_tried);
        self.check.is_replaced(was_tried);
        self.notice();
    }

    /// Reports that the version which serves is rejected or held back, and answers no call from now on.
    fn withdraw(&mut self) {
        if let Some(serving) = &self.facts.serving {
            let release = &serving.release;
            let record = self.facts.record.as_ref();
            let what = match record.is_some_and(|record| record.is_rejected(&release.digest)) {
                true => "is rejected",
                false => "is held back by an order",
            };
            tracing::warn!(target: "rollout", provider = %self.name, digest = %release.digest, version = %release.version, "{what}, and serves no longer");
        }
        self.check.is_replaced(false);
        self.notice();
    }

    fn record_event(&mut self, event: &RolloutEvent) {
        let RolloutEvent {
            event_type,
            reason,
            message,
            ..
        } = event;
        match event_type {
            EventType::Normal => {
                tracing::info!(target: "rollout", provider = %self.name, reason, "{message}");
            }
            EventType::Warning => {
                tracing::warn!(target: "rollout", provider = %self.name, reason, "{message}");
            }
        }
        self.metrics.reported(&self.name, reason);
        self.record_writer.record_event(event.clone());
    }

    /// Publishes the current state: record, metrics, and the reason if nothing serves.
    pub(super) fn show(&mut self) {
        self.write();
        let record = self.facts.record.clone().unwrap_or_default();
        let serving = self.facts.serving.as_ref();
        let (digest, version) = serving.map_or(("", ""), |serving| {
            let release = &serving.release;
            (release.digest.as_str(), release.version.as_str())
        });
        let state = state(&record, &self.facts.orders, serving.is_some());
        let info = metrics::info(&self.name, digest, version, state);
        self.metrics.stands(self.info.as_ref(), &info);
        self.info = Some(info);
        if self.facts.serving.is_some() {
            return;
        }
        let Some((why, is_final)) = not_serving(&self.facts) else {
            return;
        };
        self.served.send_if_modified(|served| {
            let is_current = matches!(served, Served::Failed { why: known_reason, is_final: known } if *known_reason == why && *known == is_final);
            if !is_current {
                *served = Served::Failed { why, is_final };
            }
            !is_current
        });
    }
}

/// A permit for the reads of a call that begins now.
fn reading_under(tenure: Arc<Tenure>) -> Permit {
    let until = now().after(limits::CALL_WITH_WAIT);
    Permit::new(until, Mode::Enforce, 0, tenure, Arc::new(NoAudit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_self_check_that_has_waited_has_all_of_its_time() {
        let begins = now().after(limits::CALL_CEILING);
        let permit = reading_under(Arc::new(Tenure::unlimited()));
        assert!(begins.until(permit.call_ends()) >= limits::CALL_CEILING);
    }
}
