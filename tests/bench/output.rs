//! The results: as a table for people, as JSON, and as a folder with RESULTS.md, results.json and plots. Measures
//! nothing.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::cluster::repository;
use crate::figure::{Figure, Figures, Size, number};
use crate::growth::{self, Growth};
use crate::options::Options;
use crate::{plot, summary};

/// Figures that others measured, which no run here prints.
const RECORDED: &str = include_str!("recorded.md");

/// The results of one benchmark.
pub(crate) struct Results {
    pub(crate) surroundings: Value,
    pub(crate) took: Duration,
    pub(crate) figures: Figures,
    pub(crate) failures: Vec<String>,
}

/// The machine, the programs and the command: without them no figure means anything.
pub(crate) fn surroundings(options: &Options) -> Value {
    let read = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().to_owned()
    };
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let memory = read("/proc/meminfo");
    let memory = memory.lines().next().unwrap_or_default();
    let memory = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok());
    let memory = memory.unwrap_or(0_u64) / 1_048_576;
    let load = read("/proc/loadavg");
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let command = match cfg!(feature = "jemalloc") {
        true => "cargo bench --features jemalloc",
        false => "cargo bench",
    };
    let command = match arguments.is_empty() {
        true => command.to_owned(),
        false => format!("{command} --bench nodes -- {}", arguments.join(" ")),
    };
    let commit = first_line("git", &["rev-parse", "--short=12", "HEAD"]);
    let is_changed =
        !first_line("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    json!({
        "command": command,
        "form": options.form_name(),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "commit": if is_changed { format!("{commit} with changes") } else { commit },
        "ccm": first_line(&options.ccm.display().to_string(), &["version"]).lines().next(),
        "peer": options.peer.as_ref().map(|peer| first_line(&peer.display().to_string(), &["--version"])),
        "rustc": first_line("rustc", &["--version"]),
        "kubernetes": kubernetes(),
        "processor": cpu.unwrap_or_default().trim_start_matches([' ', '\t', ':']),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": format!("{memory} GiB"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "loadBefore": load.split(' ').next(),
    })
}

/// The first line that a program prints; empty without it.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(program);
    let output = command.args(arguments).current_dir(repository()).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().to_owned()
}

/// The version of the API server that is built, unless ready binaries are named.
fn kubernetes() -> String {
    if let Ok(folder) = std::env::var("KUBEBUILDER_ASSETS") {
        return first_line(&format!("{folder}/kube-apiserver"), &["--version"]);
    }
    let modules = repository().join("tests/cluster/apiserver/go.mod");
    let modules = std::fs::read_to_string(modules).unwrap_or_default();
    let version = |module: &str| {
        let mut lines = modules.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix(module))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    let (server, store) = (
        version("k8s.io/kubernetes "),
        version("go.etcd.io/etcd/server/v3 "),
    );
    format!(
        "kube-apiserver {}, etcd {}",
        server.unwrap_or_default(),
        store.unwrap_or_default()
    )
}

impl Results {
    /// Writes RESULTS.md, results.json and one plot for each workload and each cost's growth.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let plots = folder.join("plots");
        std::fs::create_dir_all(&plots)
            .with_context(|| format!("cannot make {}", plots.display()))?;
        let drawn = plot::draw_all(&self.figures, &plots)?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write("results.json", format!("{:#}\n", self.json()))?;
        write("RESULTS.md", self.markdown(&drawn))
    }

    pub(crate) fn json(&self) -> Value {
        let figures: Vec<Value> = self.figures.iter().map(|one| self.figure(one)).collect();
        let growth: Vec<Value> = growth::all(&self.figures)
            .iter()
            .map(|growth| {
                json!({
                    "workload": growth.workload, "subject": growth.subject.name(),
                    "what": growth.what, "from": growth.from.count(), "to": growth.to.count(),
                    "of": growth.to.unit(), "exponent": growth.exponent,
                    "atMost": Growth::goal(), "met": growth.is_linear(),
                })
            })
            .collect();
        json!({
            "surroundings": self.surroundings,
            "seconds": self.took.as_secs(),
            "figures": figures,
            "growth": growth,
            "failures": self.failures,
        })
    }

    fn figure(&self, figure: &Figure) -> Value {
        let ratios = figure.ratios.iter().filter_map(|ratio| {
            let value = self.figures.ratio(figure, ratio)?;
            Some(json!({
                "value": value, "to": ratio.label, "figure": ratio.base.what, "atMost": ratio.at_most,
                "met": ratio.at_most.map(|at_most| value <= at_most),
            }))
        });
        let ratios: Vec<Value> = ratios.collect();
        json!({
            "workload": figure.key.workload,
            "size": figure.key.size.count(),
            "of": figure.key.size.unit(),
            "subject": figure.key.subject.name(),
            "what": figure.key.what,
            "unit": figure.unit,
            "median": figure.median(),
            "min": figure.smallest(),
            "max": figure.largest(),
            "values": figure.values,
            "ratios": ratios,
            "atMost": figure.at_most,
            "met": figure.at_most.map(|at_most| figure.median() <= at_most),
        })
    }

    /// The results as a table for a terminal.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for (key, value) in self.surroundings.as_object().into_iter().flatten() {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "{key}: {value}");
        }
        let rows: Vec<[String; 6]> = self.figures.iter().map(|one| self.row(one)).collect();
        let width = |column: usize| {
            let widths = rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..5).map(width).collect();
        let mut heading = None;
        for (figure, [subject, what, value, spread, ratio, goal]) in self.figures.iter().zip(&rows)
        {
            let own = (figure.key.workload, figure.key.size);
            if heading != Some(own) {
                heading = Some(own);
                let _ = writeln!(text, "\n{}, {}", own.0, own.1);
            }
            let line = format!(
                "  {subject:<0$}  {what:<1$}  {value:>2$}  {spread:<3$}  {ratio:<4$}  {goal}",
                widths[0], widths[1], widths[2], widths[3], widths[4]
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let _ = writeln!(text, "\ngrowth: the exponent of the size");
        for growth in growth::all(&self.figures) {
            let verdict = verdict(growth.is_linear());
            let _ = writeln!(
                text,
                "  {}, {}: {}, {} to {}: {:.2}, {verdict}",
                growth.workload,
                growth.subject.name(),
                growth.what,
                growth.from.count(),
                growth.to,
                growth.exponent,
            );
        }
        for failure in &self.failures {
            let _ = writeln!(text, "\nFAILED, and not counted: {failure}");
        }
        text
    }

    /// Subject, name, median, spread, ratios and goals of a figure.
    fn row(&self, figure: &Figure) -> [String; 6] {
        let value = format!("{} {}", number(figure.median()), figure.unit);
        let spread = match figure.values.len() {
            0 | 1 => String::new(),
            runs => format!(
                "{}–{} of {runs}",
                number(figure.smallest()),
                number(figure.largest())
            ),
        };
        let ratios = figure.ratios.iter().filter_map(|ratio| {
            let value = self.figures.ratio(figure, ratio)?;
            Some(format!("{}× {}", number(value), ratio.label))
        });
        let goals = self.figures.goals(figure).into_iter();
        let goals = goals.map(|(words, is_met)| format!("{words}: {}", verdict(is_met)));
        [
            figure.key.subject.name().to_owned(),
            figure.key.what.clone(),
            value.trim_end().to_owned(),
            spread,
            ratios.collect::<Vec<_>>().join(", "),
            goals.collect::<Vec<_>>().join(", "),
        ]
    }

    fn markdown(&self, plots: &[plot::Drawn]) -> String {
        let mut text = String::from("# Results of the benchmark\n\n");
        text += "Written by the benchmark itself, which `README.md` beside this file describes. Medians; the spread is the\n";
        text += "smallest and the largest of all runs. Ratios are of medians of this run and hold elsewhere; times do not.\n\n";
        text += "| | |\n|---|---|\n";
        for (key, value) in self.surroundings.as_object().into_iter().flatten() {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "| {key} | {} |", escaped(&value));
        }
        let minutes = self.took.as_secs() / 60;
        let _ = writeln!(
            text,
            "| took | {minutes} min {} s |",
            self.took.as_secs() % 60
        );
        if self.surroundings["peer"].is_null() {
            text += "\n**No peer was given to this run** (`--peer PATH` takes a ready binary of the vendor's manager): what follows shows\n";
            text += "ours against the limit of the same run, and goals that compare with the peer are not judged. The last section has those\n";
            text += "of a run with it.\n";
        }
        for failure in &self.failures {
            let _ = writeln!(text, "\n**Failed, and not counted:** {}", escaped(failure));
        }
        text += "\n## In short\n\n";
        for sentence in summary::sentences(&self.figures) {
            let _ = writeln!(text, "- {sentence}");
        }
        text += &self.goals();
        text += "\n## Workloads\n";
        let mut heading: Option<(&str, Size)> = None;
        for figure in self.figures.iter() {
            let own = (figure.key.workload, figure.key.size);
            if heading.is_none_or(|last| last.0 != own.0) {
                let _ = writeln!(text, "\n### {}\n", own.0);
                for drawn in plots.iter().filter(|drawn| drawn.about == own.0) {
                    let _ = writeln!(text, "![{}](plots/{})", drawn.title, drawn.file);
                }
            }
            if heading != Some(own) {
                heading = Some(own);
                let _ = writeln!(text, "\n{}:\n", own.1);
                text += "| program | figure | median | spread | ratio | goal |\n|---|---|--:|---|---|---|\n";
            }
            let row = self.row(figure).map(|cell| escaped(&cell));
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text += "\n## Growth\n\n";
        text += "The exponent of the size in each cost between the two largest sizes: 1 is a straight line, 2 a square.\n\n";
        text +=
            "| workload | program | cost | sizes | exponent | goal |\n|---|---|---|---|--:|---|\n";
        for growth in growth::all(&self.figures) {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} to {} | {:.2} | ≤ {}: {} |",
                growth.workload,
                growth.subject.name(),
                growth.what,
                growth.from.count(),
                growth.to,
                growth.exponent,
                Growth::goal(),
                verdict(growth.is_linear()),
            );
        }
        text.push('\n');
        for drawn in plots.iter().filter(|drawn| drawn.about == plot::GROWTH) {
            let _ = writeln!(text, "![{}](plots/{})\n", drawn.title, drawn.file);
        }
        text + RECORDED
    }

    /// Every goal in one table, missed ones first.
    fn goals(&self) -> String {
        let mut rows = Vec::new();
        for figure in self.figures.iter() {
            for (goal, is_met) in self.figures.goals(figure) {
                let [_, what, value, spread, ratio, _] = self.row(figure);
                let row = [
                    format!("{}, {}", figure.key.workload, figure.key.size),
                    what,
                    value,
                    spread,
                    ratio,
                    goal,
                    verdict(is_met).to_owned(),
                ];
                let row = row.map(|cell| escaped(&cell)).join(" | ");
                rows.push((is_met, format!("| {row} |\n")));
            }
        }
        rows.sort_by_key(|(is_met, _)| *is_met);
        let met = rows.iter().filter(|(is_met, _)| *is_met).count();
        let mut text = format!("\n## Goals\n\n{met} of {} are met.\n\n", rows.len());
        text += "| where | figure of ccm | median | spread | ratio | goal | |\n|---|---|--:|---|---|---|---|\n";
        text.extend(rows.into_iter().map(|(_, row)| row));
        text
    }
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT MET" }
}

/// A text escaped for a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
