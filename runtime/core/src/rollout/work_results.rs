//! Folds results of work into the facts: the progress of a version, or the cause of its failure.

use super::candidate::{Candidate, Step};
use super::facts::{Cause, RolloutFacts, RolloutTime, VersionFailure, Work, WorkResult};
use super::record::{Release, cut};
use super::trial_verdict::TrialTally;
use crate::cloud::Capabilities;

impl Cause {
    /// The result of work that failed for this cause.
    pub fn because(self, why: impl Into<String>) -> WorkResult {
        WorkResult::Failed(self, vec![why.into()])
    }
}

impl WorkResult {
    /// The result of [`Work::Ask`] for a candidate that has no trial: of one read for each of its capabilities, without
    /// comparison. The tally lacks a read that the host held back or refused. Such a read says nothing about the
    /// candidate, which has to be asked again.
    pub fn of_reads(tally: &TrialTally, capabilities: Capabilities) -> WorkResult {
        if let Some(fatal) = &tally.fatal {
            return Cause::Module.because(fatal.clone());
        }
        if tally.interrupted > 0 {
            return Cause::Circumstances.because("its reads are interrupted, or do not begin");
        }
        let Capabilities {
            instances,
            load_balancer,
            routes,
        } = capabilities;
        let reads = [instances, load_balancer, routes].map(u32::from);
        let (reads, calls) = (reads.iter().sum::<u32>(), tally.candidate.calls);
        let kinds: Vec<&str> = tally.candidate.errors.keys().copied().collect();
        match kinds.as_slice() {
            [] if calls < reads => Cause::Circumstances.because(format!(
                "not all of its reads were answered: {calls} of {reads}, because the cloud's requests are limited or this process is not the leader any more"
            )),
            [] => WorkResult::Passed,
            passing
                if passing
                    .iter()
                    .all(|kind| matches!(*kind, "unavailable" | "throttled")) =>
            {
                Cause::Circumstances.because(format!("its reads end {}", passing.join(", ")))
            }
            kinds => Cause::Module.because(format!("its reads end {}", kinds.join(", "))),
        }
    }
}

impl RolloutFacts {
    /// The work under way has ended. The result of other work, or under another load policy, is discarded.
    pub fn ended(
        &mut self,
        work: &Work,
        policy_generation: u64,
        end: WorkResult,
        now: RolloutTime,
    ) {
        if self.work.as_ref() != Some(work) {
            return;
        }
        self.work = None;
        if policy_generation != self.policy_generation {
            return;
        }
        match work {
            Work::Load(release) => self.load_ended(release, end, now),
            _ => self.trial_ended(work, end, now),
        }
    }

    fn load_ended(&mut self, wanted: &Release, end: WorkResult, now: RolloutTime) {
        match end {
            // Results of other work.
            WorkResult::Examined { .. } | WorkResult::Planned(_) | WorkResult::Passed => {}
            WorkResult::Loaded { loaded, .. } => {
                self.named(&loaded.release);
                self.failures.remove(&wanted.digest);
                self.ready = Some(*loaded);
            }
            WorkResult::Failed(cause, lines) => {
                let serving = self.serving.as_ref();
                let is_served = serving.is_some_and(|it| it.is(&wanted.digest));
                let after = match cause {
                    Cause::Policy if is_served => STAYS,
                    _ => "",
                };
                let why = format!("{}{after}", lines.join("; "));
                self.set_back(&wanted.digest, cause, &why, now);
            }
        }
    }

    fn trial_ended(&mut self, work: &Work, end: WorkResult, now: RolloutTime) {
        let digest = &work.release().digest;
        let is_ours = |it: &&mut Candidate| {
            it.release.digest == *digest && it.policy_generation == self.policy_generation
        };
        let Some(candidate) = self.candidate.as_mut().filter(is_ours) else {
            return;
        };
        match end {
            WorkResult::Loaded { loaded, fits } => {
                candidate.step = Step::Compiled;
                candidate.fits = fits;
                self.failures.remove(digest);
                self.named(&loaded.release);
                self.ready = Some(*loaded);
            }
            WorkResult::Examined { release, wider } => {
                candidate.step = Step::Examined(wider);
                self.failures.remove(digest);
                self.named(&release);
            }
            WorkResult::Passed => {
                match (work, &candidate.step) {
                    (Work::SelfTest(_), Step::Compiled) => candidate.step = Step::SelfTested,
                    (Work::Ask(_), Step::Planned(_)) => candidate.step = Step::Asked,
                    _ => {}
                }
                self.failures.remove(digest);
            }
            WorkResult::Planned(plans) => {
                if candidate.step == Step::SelfTested {
                    candidate.step = Step::Planned(plans);
                }
                self.failures.remove(digest);
            }
            WorkResult::Failed(cause, lines) => {
                let why = lines.join("; ");
                match cause {
                    Cause::Policy => candidate.step = Step::Ungranted(lines),
                    Cause::Module => candidate.step = Step::Failed(cut(&why)),
                    Cause::Trust => {
                        candidate.step = Step::Distrusted(cut(&why));
                        self.set_back(digest, cause, &why, now);
                    }
                    Cause::Gone | Cause::Circumstances => self.set_back(digest, cause, &why, now),
                }
            }
        }
    }

    /// Records the failure of this version and when to retry.
    fn set_back(&mut self, digest: &str, cause: Cause, why: &str, now: RolloutTime) {
        let before = self.failures.get(digest).filter(|it| it.cause == cause);
        let failures = before.map_or(0, |it| it.failures).saturating_add(1);
        let again = match cause {
            // Until the load policy or the offer changes.
            Cause::Module | Cause::Policy => None,
            Cause::Trust => Some(self.rules.vouched.after(failures)),
            Cause::Gone | Cause::Circumstances => Some(self.rules.again.after(failures)),
        };
        let failure = VersionFailure {
            cause,
            failures,
            again: again.map(|delay| now.moment.after(delay)),
            why: cut(why),
        };
        if self.failures.len() >= MOST_SETBACKS && !self.failures.contains_key(digest) {
            self.failures.clear();
        }
        self.failures.insert(digest.to_owned(), failure);
    }

    /// Takes the version name read from a module into the offer and the candidate with its digest.
    fn named(&mut self, release: &Release) {
        let offered = self.offer.as_mut().map(|offer| &mut offer.release);
        let tried = self.candidate.as_mut().map(|it| &mut it.release);
        for known in offered.into_iter().chain(tried) {
            if known.digest == release.digest {
                known.version.clone_from(&release.version);
            }
        }
    }
}

/// End of the message about new grants or settings that do not fit the version that serves under the previous ones.
const STAYS: &str = "; the previous settings stay, and the next start will fail";
/// Maximum number of remembered failures: far more versions than are offered during one wait. When it is reached all
/// are dropped, which only loses backoff counts.
const MOST_SETBACKS: usize = 64;
