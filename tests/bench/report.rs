//! Figures, each with what it is compared to and the goal it has, as a table for people or as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

/// One figure.
pub(crate) struct Figure {
    workload: &'static str,
    nodes: usize,
    what: String,
    value: f64,
    unit: &'static str,
    ratio: Option<(f64, &'static str)>,
    goal: Option<Goal>,
}

struct Goal {
    at_most: f64,
    /// Of the ratio, or of the value.
    of_ratio: bool,
}

impl Figure {
    pub(crate) fn new(
        workload: &'static str,
        nodes: usize,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            workload,
            nodes,
            what: what.into(),
            value,
            unit,
            ratio: None,
            goal: None,
        }
    }

    pub(crate) fn time(
        workload: &'static str,
        nodes: usize,
        what: impl Into<String>,
        value: Duration,
    ) -> Self {
        Self::new(workload, nodes, what, value.as_secs_f64() * 1e3, "ms")
    }

    pub(crate) fn count(
        workload: &'static str,
        nodes: usize,
        what: impl Into<String>,
        value: usize,
    ) -> Self {
        Self::new(workload, nodes, what, value as f64, "")
    }

    /// In KiB, shown in MiB.
    pub(crate) fn memory(
        workload: &'static str,
        nodes: usize,
        what: impl Into<String>,
        kib: u64,
    ) -> Self {
        Self::new(workload, nodes, what, kib as f64 / 1024.0, "MiB")
    }

    /// Compares with a figure of the same unit.
    pub(crate) fn over(mut self, base: f64, what: &'static str) -> Self {
        self.ratio = (base > 0.0).then(|| (self.value / base, what));
        self
    }

    /// Compares with a time, which figures of time are shown in milliseconds of.
    pub(crate) fn over_time(self, base: Duration, what: &'static str) -> Self {
        self.over(base.as_secs_f64() * 1e3, what)
    }

    /// The goal: the value is at most this.
    pub(crate) fn at_most(mut self, at_most: f64) -> Self {
        self.goal = Some(Goal {
            at_most,
            of_ratio: false,
        });
        self
    }

    /// The goal: the ratio is at most this, if there is such a goal.
    pub(crate) fn ratio_at_most(mut self, at_most: Option<f64>) -> Self {
        self.goal = at_most.map(|at_most| Goal {
            at_most,
            of_ratio: true,
        });
        self
    }

    fn is_met(&self) -> Option<bool> {
        let goal = self.goal.as_ref()?;
        let value = if goal.of_ratio {
            self.ratio?.0
        } else {
            self.value
        };
        Some(value <= goal.at_most)
    }

    fn goal(&self) -> String {
        match (&self.goal, self.is_met()) {
            (Some(goal), Some(is_met)) => {
                let factor = if goal.of_ratio { "×" } else { "" };
                let unit = if goal.of_ratio { "" } else { self.unit };
                let verdict = if is_met { "met" } else { "NOT MET" };
                format!("≤ {}{factor} {unit}: {verdict}", number(goal.at_most)).replace(" :", ":")
            }
            _ => String::new(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "workload": self.workload,
            "nodes": self.nodes,
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "ratio": self.ratio.map(|(ratio, to)| json!({"value": ratio, "to": to})),
            "goal": self.goal.as_ref().map(|goal| json!({
                "atMost": goal.at_most, "of": if goal.of_ratio { "ratio" } else { "value" },
            })),
            "met": self.is_met(),
        })
    }
}

/// The machine and the programs: without them no figure means anything.
pub(crate) fn surroundings(ccm: &std::path::Path, is_small: bool) -> Value {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let load = read("/proc/loadavg");
    json!({
        "ccm": ccm,
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "form": if is_small { "small" } else { "full" },
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "loadBefore": load.split(' ').next(),
    })
}

/// Puts together what belongs together; within that, as it was measured.
pub(crate) fn sort(figures: &mut [Figure]) {
    figures.sort_by_key(|figure| (figure.nodes, figure.workload));
}

pub(crate) fn json(surroundings: &Value, figures: &[Figure], notes: &[String]) -> String {
    let figures: Vec<Value> = figures.iter().map(Figure::to_json).collect();
    json!({"surroundings": surroundings, "figures": figures, "notes": notes}).to_string()
}

pub(crate) fn table(surroundings: &Value, figures: &[Figure], notes: &[String]) -> String {
    let mut text = String::new();
    for (key, value) in surroundings.as_object().into_iter().flatten() {
        let _ = writeln!(
            text,
            "{key}: {}",
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        );
    }
    let rows: Vec<[String; 4]> = figures
        .iter()
        .map(|figure| {
            let ratio = figure.ratio.map(|(ratio, to)| format!("{ratio:.2}× {to}"));
            let value = format!("{} {}", number(figure.value), figure.unit);
            [
                figure.what.clone(),
                value,
                ratio.unwrap_or_default(),
                figure.goal(),
            ]
        })
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2)];
    let mut heading = None;
    for (figure, [what, value, ratio, goal]) in figures.iter().zip(&rows) {
        if heading != Some((figure.workload, figure.nodes)) {
            heading = Some((figure.workload, figure.nodes));
            let _ = writeln!(text, "\n{}, {} nodes", figure.workload, figure.nodes);
        }
        let line = format!(
            "  {what:<0$}  {value:>1$}  {ratio:<2$}  {goal}",
            widths[0], widths[1], widths[2]
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for note in notes {
        let _ = writeln!(text, "\n{note}");
    }
    text
}

/// Three digits are all that a noisy machine gives.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
