//! The result of `ccm migrate check`, as text and as JSON. Decides nothing.

use std::fmt;

use ccm_core::safety::plan::{Plan, PlanVerdict, Planned};
use serde_json::{Value, json};

use super::differences::Difference;

/// The plan of the migration, and the differences from what is there.
pub(super) struct Report {
    pub(super) plan: Plan,
    pub(super) differences: Vec<Difference>,
}

impl Report {
    fn requests(&self) -> impl Iterator<Item = &Planned> {
        self.plan.changes().filter(|one| one.place.is_cloud())
    }

    fn writes(&self) -> impl Iterator<Item = &Planned> {
        self.plan.changes().filter(|one| !one.place.is_cloud())
    }

    /// The result for programs. Its shape is documented in `deploy/docs/migration.md`.
    pub(super) fn to_json(&self) -> Value {
        let all = |planned: &mut dyn Iterator<Item = &Planned>| -> Vec<Value> {
            planned.map(Planned::to_json).collect()
        };
        let undecided = self.plan.unsure();
        json!({
            "verdict": match self.plan.verdict() {
                PlanVerdict::Empty => "clean",
                PlanVerdict::Changes => "changes",
                PlanVerdict::Unknown => "unknown",
            },
            "cloudRequests": all(&mut self.requests()),
            "clusterChanges": all(&mut self.writes()),
            "bookkeeping": all(&mut self.plan.bookkeeping()),
            "undecided": undecided
                .map(|(object, why)| json!({ "object": object, "why": why }))
                .collect::<Vec<_>>(),
            "differences": self.differences,
            "more": self.plan.more(),
            "why": self.plan.gap(),
        })
    }

    fn summary(&self) -> String {
        let mut text = match (self.plan.verdict(), self.plan.gap()) {
            (PlanVerdict::Empty, _) => {
                "clean: no request that changes a cloud and no visible change would follow"
                    .to_owned()
            }
            (PlanVerdict::Changes, _) => format!(
                "not clean: {} requests that change a cloud and {} visible changes would come first",
                self.requests().count(),
                self.writes().count()
            ),
            (PlanVerdict::Unknown, Some(why)) => format!("not judged: {why}"),
            (PlanVerdict::Unknown, None) => {
                "no change is known, but not everything could be judged".to_owned()
            }
        };
        if self.plan.more() > 0 {
            text.push_str(&format!("; {} more are not listed", self.plan.more()));
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = |planned: &mut dyn Iterator<Item = &Planned>| -> Vec<String> {
            planned
                .map(|one| format!("{}  {one}", one.object))
                .collect()
        };
        let undecided = self.plan.unsure();
        let sections = [
            (
                "Requests that change a cloud, the first for each object",
                changes(&mut self.requests()),
            ),
            (
                "Visible changes in the cluster, the first for each object",
                changes(&mut self.writes()),
            ),
            (
                "Not judged",
                undecided
                    .map(|(object, why)| format!("{object}  {why}"))
                    .collect(),
            ),
            (
                "Internal records of this program, which no other program reads",
                changes(&mut self.plan.bookkeeping()),
            ),
            (
                "What means something else here",
                self.differences.iter().map(ToString::to_string).collect(),
            ),
        ];
        for (title, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
            writeln!(f, "{title}:")?;
            for line in lines {
                writeln!(f, "  {line}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{}", self.summary())
    }
}

#[cfg(test)]
mod tests;
