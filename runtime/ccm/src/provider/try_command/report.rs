//! The output of `ccm provider try`: for people, and as a document.

use std::fmt::Write as _;

use ccm_core::safety::permit::Mode;
use ccm_host::Provider;
use serde::Serialize;

use super::super::loadable::Loadable;
use super::super::observed_calls::ObservedCall;
use super::reconciliation::Reconciled;

/// An Event with this many of a reason's first characters covers the reason.
const SAME: usize = 200;

/// The whole result. Its fields are those of the document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    file: String,
    name: String,
    version: String,
    digest: String,
    trust: String,
    /// `plan`: nothing was changed at the cloud; `enforce`: it was allowed.
    mode: &'static str,
    warnings: Vec<String>,
    /// The calls and objects, in order.
    asked: Vec<CallGroup>,
    /// Whether everything would be served: an object that waits only for a withheld change counts as served.
    pub(super) served: bool,
}

/// Calls, and the objects that they were about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallGroup {
    pub(super) calls: Vec<ObservedCall>,
    pub(super) objects: Vec<Reconciled>,
}

impl Report {
    pub(super) fn new(
        loadable: &Loadable,
        provider: &Provider,
        mode: Mode,
        asked: Vec<CallGroup>,
    ) -> Report {
        let objects = asked.iter().flat_map(|group| &group.objects);
        let calls = asked.iter().flat_map(|group| &group.calls);
        let is_granted = calls
            .flat_map(|call| &call.refused)
            .all(|refused| refused.is_granted);
        let manifest = provider.manifest();
        Report {
            file: loadable.place.clone(),
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: provider.digest().to_string(),
            trust: loadable.trust.clone(),
            mode: mode.as_str(),
            warnings: provider.warnings().to_vec(),
            served: is_granted && objects.clone().all(|one| one.waits.is_none()),
            asked,
        }
    }

    /// The report as text for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}: {} {}, {}\n",
            self.file, self.name, self.version, self.digest
        );
        let mode = match self.mode {
            "plan" => {
                "the cloud is asked, and nothing is changed there (--allow-changes allows it)"
            }
            _ => "changes at the cloud are allowed",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {mode}");
        for warning in &self.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
        for group in &self.asked {
            text.push('\n');
            group
                .calls
                .iter()
                .for_each(|call| show_call(&mut text, call));
            group
                .objects
                .iter()
                .for_each(|one| show_object(&mut text, one));
        }
        let _ = writeln!(text, "\n{}", self.summary());
        text
    }

    fn summary(&self) -> String {
        let calls = || self.asked.iter().flat_map(|group| &group.calls);
        let objects = || self.asked.iter().flat_map(|group| &group.objects);
        let requests: usize = calls().map(|call| call.requests.len()).sum();
        let waiting = objects().filter(|one| one.waits.is_some()).count();
        let withheld = objects().filter(|one| one.is_withheld).count();
        let mut parts = vec![
            format!("{} object(s)", objects().count()),
            format!("{} call(s)", calls().count()),
            format!("{requests} request(s)"),
        ];
        if waiting > 0 {
            parts.push(format!("{waiting} would not be served"));
        }
        if withheld > 0 {
            parts.push(format!("{withheld} would need a change at the cloud"));
        }
        let verdict = if self.served { "yes" } else { "no" };
        format!("{verdict}: {}", parts.join(", "))
    }
}

fn show_call(text: &mut String, call: &ObservedCall) {
    let memory = call.memory_kib.map(|kib| format!(", {kib} KiB"));
    let _ = writeln!(
        text,
        "{}  {} ms, {:.1} ms of CPU{}",
        call.function,
        call.took_ms,
        call.computed_us as f64 / 1_000.0,
        memory.unwrap_or_default()
    );
    for request in &call.requests {
        let _ = writeln!(
            text,
            "  {:<6} {} {}  {}  {} ms",
            request.method, request.target, request.path, request.answer, request.took_ms
        );
    }
    for refused in &call.refused {
        let path = refused.path.as_deref().unwrap_or_default();
        let log_line = refused.said.as_ref();
        let log_line = log_line.map(|line| format!(" (the module: {line})"));
        let _ = writeln!(
            text,
            "  refused {} {} {path}: {}{}",
            refused.method,
            refused.target,
            refused.why,
            log_line.unwrap_or_default()
        );
    }
    for line in &call.log {
        let _ = writeln!(text, "  log     {line}");
    }
}

fn show_object(text: &mut String, one: &Reconciled) {
    let _ = writeln!(text, "{}: {}", one.object, one.answer);
    for written in &one.writes {
        let _ = writeln!(text, "  writes  {}", written.what);
        for line in written.lines() {
            let _ = writeln!(text, "          {line}");
        }
    }
    for event in &one.events {
        let mark = match event.kind {
            "Warning" => "warns",
            _ => "event",
        };
        let _ = writeln!(text, "  {mark:<7} {}: {}", event.reason, event.message);
    }
    // Most reasons are also an Event.
    let is_reported = |why: &str| {
        let begin: String = why.chars().take(SAME).collect();
        one.events
            .iter()
            .any(|event| event.message.contains(&begin))
    };
    if let Some(why) = one.waits.as_ref().filter(|why| !is_reported(why)) {
        let _ = writeln!(text, "  waits   {why}");
    }
}
