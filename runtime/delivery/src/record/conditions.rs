//! Status fields for `kubectl get`, `describe` and `wait`: the state as one word, and conditions. For people and tools;
//! only the transition times of conditions are read back.

use ccm_core::rollout::{Orders, Phase, state};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Report;
use super::status_json::{short, word};

/// Maximum length of a condition's message, in bytes. The lines of a trial are listed in full in another field.
const MESSAGE_BYTES: usize = 1024;

/// Status fields other than the record. `before`: the conditions currently written.
pub(super) fn fields(
    report: &Report,
    orders: &Orders,
    before: Option<&Value>,
    now: Timestamp,
) -> Map<String, Value> {
    let record = &report.record;
    let digest = record
        .active
        .as_ref()
        .map(|active| short(&active.release.digest));
    let conditions = [
        ready(report),
        progressing(report, orders),
        permissions_pending(report),
        source_reachable(report),
    ];
    let conditions = conditions.into_iter().map(|it| it.written(before, now));
    let fields = [
        (
            "state",
            json!(state(record, orders, report.is_serving).as_str()),
        ),
        ("shortDigest", json!(digest)),
        (
            "observedSource",
            json!(ccm_host::clean(&report.source, 2048)),
        ),
        ("limits", json!(report.limits)),
        ("conditions", conditions.collect()),
    ];
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

struct Condition {
    kind: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    /// The transition time changes with the status, not with the message.
    fn written(self, before: Option<&Value>, now: Timestamp) -> Value {
        let status = if self.is_true { "True" } else { "False" };
        let known = before.and_then(Value::as_array).into_iter().flatten();
        let same = known.into_iter().find(|it| {
            it.get("type").and_then(Value::as_str) == Some(self.kind)
                && it.get("status").and_then(Value::as_str) == Some(status)
        });
        let since = same
            .and_then(|it| it.get("lastTransitionTime"))
            .and_then(Value::as_str);
        let since = since
            .and_then(|text| text.parse::<Timestamp>().ok())
            .unwrap_or(now);
        let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
        json!({
            "type": self.kind,
            "status": status,
            "reason": self.reason,
            "message": ccm_host::clean(&self.message, MESSAGE_BYTES),
            "lastTransitionTime": since.to_string(),
        })
    }
}

fn ready(report: &Report) -> Condition {
    let record = &report.record;
    let (reason, message) = match &record.active {
        Some(active) if report.is_serving => {
            let mut message = format!("version {} serves", active.release.version);
            message.extend(active.untried.iter().flat_map(|why| ["; ", why]));
            ("Serving", message)
        }
        Some(_) => ("NotLoaded", record.trouble.clone()),
        None => ("NothingYet", record.trouble.clone()),
    };
    Condition {
        kind: "Ready",
        is_true: reason == "Serving",
        reason,
        message,
    }
}

fn progressing(report: &Report, orders: &Orders) -> Condition {
    let record = &report.record;
    let (reason, message) = match &record.trial {
        Some(trial) if trial.phase.is_waiting() => ("Waiting", trial.lines.join("; ")),
        Some(trial) => (
            word(trial.phase),
            format!("version {}", trial.release.version),
        ),
        None if orders.pause => ("Paused", String::new()),
        None => match record.rejected.first() {
            Some(latest)
                if record
                    .active
                    .as_ref()
                    .is_none_or(|it| latest.at >= it.since) =>
            {
                ("Rejected", format!("{}: {}", latest.digest, latest.reason))
            }
            _ => ("UpToDate", String::new()),
        },
    };
    Condition {
        kind: "Progressing",
        is_true: record
            .trial
            .as_ref()
            .is_some_and(|trial| !trial.phase.is_waiting()),
        reason,
        message,
    }
}

fn permissions_pending(report: &Report) -> Condition {
    let waits = report
        .record
        .trial
        .as_ref()
        .filter(|trial| trial.phase.is_waiting());
    let reason = match waits.map(|trial| trial.phase) {
        Some(Phase::WaitsForGrants) => "WaitsForGrants",
        Some(_) => "WaitsForApproval",
        None => "NothingRequested",
    };
    Condition {
        kind: "PermissionsPending",
        is_true: waits.is_some(),
        reason,
        message: waits
            .map(|trial| trial.lines.join("; "))
            .unwrap_or_default(),
    }
}

fn source_reachable(report: &Report) -> Condition {
    let is_true = report.source_trouble.is_empty();
    Condition {
        kind: "SourceReachable",
        is_true,
        reason: if is_true { "Reachable" } else { "Trouble" },
        message: report.source_trouble.clone(),
    }
}
