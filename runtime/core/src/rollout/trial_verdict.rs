//! Results of a trial so far, and the verdict. Counts nothing itself: the router of the calls does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::limits::RolloutRules;

/// Results of a trial so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrialTally {
    /// Calls of the candidate.
    pub candidate: Counts,
    /// Calls of the active version, in the same window.
    pub serving: Counts,
    /// Number of compared answers.
    pub compared: u32,
    /// Differences between them; lines for people.
    pub differences: Vec<String>,
    /// Calls of the candidate that something outside ended or kept from starting: they count for nothing else.
    pub interrupted: u32,
    /// Reason to end the trial at once: a trap, a call that did not end, an impossible answer.
    pub fatal: Option<String>,
}

/// Calls of one version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Number of calls, failed ones included.
    pub calls: u32,
    /// Failed calls, by error kind (`ProviderError::reason`).
    pub errors: BTreeMap<&'static str, u32>,
}

/// Verdict on a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Undecided: the trial goes on.
    Open,
    /// Nothing speaks against the candidate.
    Passed,
    /// It is rejected, for this reason.
    Failed(String),
}

impl Counts {
    fn of(&self, kind: &str) -> u32 {
        self.errors.get(kind).copied().unwrap_or(0)
    }

    fn failed(&self) -> u32 {
        self.errors
            .values()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Whether there were calls and all of them failed.
    fn is_in_the_dark(&self) -> bool {
        self.calls > 0 && self.failed() >= self.calls
    }

    /// Share of the calls that failed with `kind`, in per cent, rounded down.
    fn percent(&self, kind: &str) -> u32 {
        let share = u64::from(self.of(kind)) * 100 / u64::from(self.calls.max(1));
        u32::try_from(share).unwrap_or(u32::MAX)
    }
}

impl TrialTally {
    /// Whether the candidate has had no call or comparison yet.
    pub(super) fn is_silent(&self) -> bool {
        self.candidate.calls == 0 && self.compared == 0
    }

    /// Verdict after `elapsed` in shadow.
    pub(super) fn shadow(&self, rules: &RolloutRules, elapsed: Duration) -> Verdict {
        if let Some(fatal) = &self.fatal {
            return Verdict::Failed(fatal.clone());
        }
        if self.differences.len() > rules.tolerated_differences as usize {
            let lines = self.differences.iter().take(SHOWN);
            let lines: Vec<&str> = lines.map(String::as_str).collect();
            return Verdict::Failed(format!(
                "its answers differ from those of the version that serves: {}",
                lines.join("; ")
            ));
        }
        if self.compared < rules.shadow_comparisons && elapsed < rules.shadow_time {
            return self.unmatched(rules.errors_at_once);
        }
        self.end(rules)
    }

    /// Verdict after `elapsed` in canary.
    pub(super) fn canary(&self, rules: &RolloutRules, elapsed: Duration) -> Verdict {
        if let Some(fatal) = &self.fatal {
            return Verdict::Failed(fatal.clone());
        }
        if self.candidate.calls < rules.canary_calls && elapsed < rules.canary_time {
            return self.unmatched(rules.errors_at_once);
        }
        self.end(rules)
    }

    /// Fails if the candidate has at least `often` errors of a kind that the active version does not show: more
    /// evidence is not needed.
    fn unmatched(&self, often: u32) -> Verdict {
        for (kind, count) in &self.candidate.errors {
            if *count >= often.max(1) && self.serving.of(kind) == 0 {
                return Verdict::Failed(format!(
                    "{count} of its {} calls ended {kind}, and none of the {} calls of the version that serves",
                    self.candidate.calls, self.serving.calls
                ));
            }
        }
        Verdict::Open
    }

    /// Verdict at the end of the window: one error of a kind that only the candidate shows is enough, and a kind that
    /// both show must not be much more frequent with the candidate.
    fn end(&self, rules: &RolloutRules) -> Verdict {
        let one = self.unmatched(1);
        if one != Verdict::Open {
            return one;
        }
        for kind in self.candidate.errors.keys() {
            let (tried, serves) = (self.candidate.percent(kind), self.serving.percent(kind));
            if tried > serves.saturating_add(rules.excess_percent) {
                return Verdict::Failed(format!(
                    "{tried} % of its calls ended {kind}, and {serves} % of those of the version that serves"
                ));
            }
        }
        // Every call fails with both: the cloud is unreachable, and the candidate is judged when it is back.
        if self.candidate.is_in_the_dark() {
            return Verdict::Open;
        }
        Verdict::Passed
    }
}

/// Maximum number of differences named in a reason.
const SHOWN: usize = 4;
