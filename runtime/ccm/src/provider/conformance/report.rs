//! The report on a module: for people, for programs, and for publication.

use std::fmt::Write as _;

use ccm_core::moment::rfc3339;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::law::Finding;
use crate::provider::loadable::Loadable;
use crate::text_table;

/// The whole report. Its fields are those of the document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    file: String,
    name: String,
    version: String,
    /// SHA-256 of the module.
    digest: String,
    contract: String,
    trust: String,
    /// The version of `ccm` that tested it.
    ccm: &'static str,
    /// Date and time of the test, in UTC.
    tested: String,
    warnings: Vec<String>,
    /// Whether no law is broken.
    pub(super) conforms: bool,
    passed: usize,
    failed: usize,
    not_applicable: usize,
    laws: Vec<Finding>,
}

impl Report {
    pub(super) fn new(loadable: &Loadable, warnings: Vec<String>, laws: Vec<Finding>) -> Report {
        let manifest = &loadable.inspection.manifest;
        let count = |result: &str| laws.iter().filter(|law| law.result == result).count();
        let (passed, failed) = (count("pass"), count("fail"));
        Report {
            file: loadable.place.clone(),
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: loadable.inspection.digest.to_string(),
            contract: format!("{}@{}", ccm_host::CONTRACT_PACKAGE, manifest.contract),
            trust: loadable.trust.clone(),
            ccm: env!("CARGO_PKG_VERSION"),
            tested: rfc3339(Timestamp::now()),
            warnings,
            conforms: failed == 0,
            passed,
            failed,
            not_applicable: count("not-applicable"),
            laws,
        }
    }

    fn summary(&self) -> String {
        format!(
            "{}: {} law(s) hold, {} broken, {} not applicable",
            if self.conforms { "yes" } else { "no" },
            self.passed,
            self.failed,
            self.not_applicable
        )
    }

    /// The report as text for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}: {} {}, {}\n  {}, tested by ccm {}\n",
            self.file, self.name, self.version, self.digest, self.contract, self.ccm
        );
        for warning in &self.warnings {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  warning: {warning}");
        }
        text.push('\n');
        let rows = self.laws.iter().map(|law| {
            let result = match law.result {
                "pass" => "pass",
                "fail" => "FAIL",
                _ => "-",
            };
            [
                result.to_owned(),
                law.law.to_owned(),
                format!("{} calls", law.calls),
                format!("{} requests", law.requests),
                law.why.clone(),
            ]
        });
        text.push_str(&text_table::aligned(&rows.collect::<Vec<_>>()));
        for law in self.laws.iter().filter(|law| law.result == "fail") {
            let _ = write!(
                text,
                "\n{} is broken: {}\n  {}\n",
                law.law, law.says, law.why
            );
        }
        let _ = writeln!(text, "\n{}", self.summary());
        text
    }

    /// The report as Markdown, for publication.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# Conformance of {} {}\n\n",
            cell(&self.name),
            cell(&self.version)
        );
        let rows = [
            ("Module", format!("`{}`", self.digest)),
            ("Contract", format!("`{}`", self.contract)),
            ("Tested by", format!("ccm {}, {}", self.ccm, self.tested)),
            ("Result", self.summary()),
        ];
        text.push_str("| | |\n|---|---|\n");
        for (name, value) in rows {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        text.push_str(
            "\n| Law | What holds | Result | Calls | Requests | |\n|---|---|---|---|---|---|\n",
        );
        for law in &self.laws {
            let result = match law.result {
                "fail" => "**fail**",
                other => other,
            };
            let _ = writeln!(
                text,
                "| `{}` | {} | {result} | {} | {} | {} |",
                law.law,
                cell(law.says),
                law.calls,
                law.requests,
                cell(&law.why)
            );
        }
        text
    }
}

/// An untrusted text, as a cell of a table.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|").replace('<', "&lt;")
}
