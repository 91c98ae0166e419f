//! What a trial has shown so far, and what follows from it. Counts nothing itself: whoever routes the calls does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rules::RolloutRules;

/// What a trial has shown so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// The calls of the version that is tried.
    pub candidate: Counts,
    /// Those of the version that serves, in the same window.
    pub serving: Counts,
    /// How many answers of both were compared.
    pub compared: u32,
    /// Where they differ; lines for people.
    pub differences: Vec<String>,
    /// What ends the trial at once: a trap, a call that did not end, an answer that cannot be.
    pub fatal: Option<String>,
}

/// Calls of one version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// All of them.
    pub calls: u32,
    /// Those that failed, by the error's fixed word (`ProviderError::reason`).
    pub errors: BTreeMap<&'static str, u32>,
}

/// What follows from a tally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing yet.
    Open,
    /// Nothing speaks against it.
    Passed,
    /// It is taken back, for this reason.
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

    /// Whether there were calls, and the cloud has not answered one of them.
    fn is_in_the_dark(&self) -> bool {
        self.calls > 0 && self.failed() >= self.calls
    }

    /// Of the calls, in per cent, rounded down.
    fn percent(&self, kind: &str) -> u32 {
        let share = u64::from(self.of(kind)) * 100 / u64::from(self.calls.max(1));
        u32::try_from(share).unwrap_or(u32::MAX)
    }
}

impl Tally {
    /// Whether nothing was asked of the candidate yet.
    pub(super) fn is_silent(&self) -> bool {
        self.candidate.calls == 0 && self.compared == 0
    }

    /// After `elapsed` in shadow.
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

    /// After `elapsed` in canary.
    pub(super) fn canary(&self, rules: &RolloutRules, elapsed: Duration) -> Verdict {
        if let Some(fatal) = &self.fatal {
            return Verdict::Failed(fatal.clone());
        }
        if self.candidate.calls < rules.canary_calls && elapsed < rules.canary_time {
            return self.unmatched(rules.errors_at_once);
        }
        self.end(rules)
    }

    /// An error of a kind that only the candidate shows, and that often: no need to see more of it.
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

    /// At the end of the window one error of a kind that only the candidate shows is enough, and a kind that both
    /// show must not be much more frequent with the candidate.
    fn end(&self, rules: &RolloutRules) -> Verdict {
        let one = self.unmatched(1);
        if one != Verdict::Open {
            return one;
        }
        let kinds: BTreeSet<_> = self.candidate.errors.keys().collect();
        for kind in kinds {
            let (tried, serves) = (self.candidate.percent(kind), self.serving.percent(kind));
            if tried > serves.saturating_add(rules.excess_percent) {
                return Verdict::Failed(format!(
                    "{tried} % of its calls ended {kind}, and {serves} % of those of the version that serves"
                ));
            }
        }
        // Both fail alike: the cloud is away, and nothing was learned about the candidate. It is told apart when the
        // cloud is back.
        if self.candidate.is_in_the_dark() {
            return Verdict::Open;
        }
        Verdict::Passed
    }
}

/// Differences that a reason names.
const SHOWN: usize = 4;
