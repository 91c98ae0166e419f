//! What work has come to, folded back into the facts: how far a version is, or whose fault it is that it is not.

use super::facts::{Candidate, Cause, End, Facts, Failure, Loaded, Now, Step, Work};
use super::record::{Release, cut};

impl Facts {
    /// The work under way has ended. Of work on something else nothing is learned.
    pub fn ended(&mut self, work: &Work, terms: u64, end: End, now: Now) {
        if self.work.as_ref() != Some(work) {
            return;
        }
        self.work = None;
        if terms != self.terms {
            return;
        }
        match work {
            Work::Load(release) => self.load_ended(release, end, now),
            _ => self.trial_ended(work, end, now),
        }
    }

    fn load_ended(&mut self, wanted: &Release, end: End, now: Now) {
        match end {
            // Nobody asks what is only loaded.
            End::Planned(_) => {}
            End::Fine { release, noted, .. } => {
                self.named(&release);
                self.failures.remove(&wanted.digest);
                self.ready = Some(Loaded {
                    release,
                    terms: self.terms,
                    noted: *noted,
                });
            }
            End::Ungranted(lines) => {
                self.set_back(&wanted.digest, Cause::Terms, &lines.join("; "), now);
            }
            End::Fault(why) => self.set_back(&wanted.digest, Cause::Module, &why, now),
            End::Distrusted(why) => self.set_back(&wanted.digest, Cause::Trust, &why, now),
            End::Gone(why) => self.set_back(&wanted.digest, Cause::Gone, &why, now),
            End::Trouble(why) => self.set_back(&wanted.digest, Cause::Circumstances, &why, now),
        }
    }

    fn trial_ended(&mut self, work: &Work, end: End, now: Now) {
        let digest = &work.release().digest;
        let is_ours = |it: &&mut Candidate| it.release.digest == *digest && it.terms == self.terms;
        let Some(candidate) = self.candidate.as_mut().filter(is_ours) else {
            return;
        };
        match end {
            End::Fine {
                release,
                wider,
                fits,
                noted,
            } => {
                let step = match (work, &candidate.step) {
                    (Work::Examine(_), _) => Step::Examined(wider),
                    (Work::Compile(_), _) => Step::Compiled { fits },
                    (Work::SelfTest(_), Step::Compiled { fits }) => {
                        Step::SelfTested { fits: *fits }
                    }
                    (Work::Ask(_), Step::Planned { .. }) => Step::Asked,
                    (_, step) => step.clone(),
                };
                candidate.step = step;
                if matches!(work, Work::Compile(_)) {
                    self.ready = Some(Loaded {
                        release: release.clone(),
                        terms: self.terms,
                        noted: *noted,
                    });
                }
                self.failures.remove(digest);
                self.named(&release);
            }
            End::Planned(plans) => {
                if let Step::SelfTested { fits } = candidate.step {
                    candidate.step = Step::Planned { fits, plans };
                }
                self.failures.remove(digest);
            }
            End::Ungranted(lines) => candidate.step = Step::Ungranted(lines),
            End::Distrusted(why) => {
                candidate.step = Step::Distrusted(cut(&why));
                self.set_back(digest, Cause::Trust, &why, now);
            }
            End::Fault(why) => candidate.step = Step::Failed(cut(&why)),
            End::Gone(why) => self.set_back(digest, Cause::Gone, &why, now),
            End::Trouble(why) => self.set_back(digest, Cause::Circumstances, &why, now),
        }
    }

    /// Remembers that this version did not come further, and when it is tried again.
    fn set_back(&mut self, digest: &str, cause: Cause, why: &str, now: Now) {
        let before = self.failures.get(digest).filter(|it| it.cause == cause);
        let failures = before.map_or(0, |it| it.failures).saturating_add(1);
        let again = match cause {
            // Until the terms or the offer change.
            Cause::Module | Cause::Terms => None,
            Cause::Trust => Some(self.rules.vouched.after(failures)),
            Cause::Gone | Cause::Circumstances => Some(self.rules.again.after(failures)),
        };
        let failure = Failure {
            terms: self.terms,
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

    /// What keeps this version from coming further.
    pub(super) fn failure(&self, digest: &str) -> Option<&Failure> {
        let found = self.failures.get(digest);
        found.filter(|failure| failure.terms == self.terms)
    }

    /// The version that a module names was read: every mention of its digest learns it.
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

/// Versions whose setbacks are remembered: far more than are offered while one is waited for. When it is reached, all are
/// forgotten, which costs nothing but earlier tries.
const MOST_SETBACKS: usize = 64;
