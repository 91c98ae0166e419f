//! Status fields for `kubectl get`, `describe` and `wait`: the state as one word, and conditions. For people and tools;
//! only the transition times of conditions are read back.

use ccm_core::rollout::{Orders, Phase, state};
use ccm_host::short_digest;
use jiff::Timestamp;
use serde_json::Value;

use super::Report;
use super::status::{ConditionStatus, ProviderStatus};
use super::status_json;

/// Maximum length of a condition's message, in bytes. The lines of a trial are listed in full in another field.
const MESSAGE_BYTES: usize = 1024;

/// The whole status. `before`: the conditions currently written.
pub(super) fn status(
    report: &Report,
    orders: &Orders,
    before: Option<&Value>,
    now: Timestamp,
) -> ProviderStatus {
    let record = &report.record;
    let digest = record
        .active
        .as_ref()
        .map(|active| short_digest(&active.release.digest));
    let generation = report.specification.generation;
    let conditions = [
        ("Ready", Some(ready(report))),
        ("Progressing", Some(progressing(report, orders))),
        ("Degraded", Some(degraded(report))),
        ("PermissionsPending", Some(permissions_pending(report))),
        ("SourceReachable", Some(source_reachable(report))),
        ("Accepted", accepted(report)),
    ];
    let write =
        |(kind, state): (_, Option<_>)| Some(written(kind, state?, generation, before, now));
    ProviderStatus {
        observed_generation: generation,
        state: state(record, orders, report.is_serving).as_str(),
        short_digest: digest,
        observed_source: ccm_host::clean(&report.source, 2048),
        limits: report.limits,
        informational: report.is_informational && report.kept.is_none(),
        record: status_json::write(report.kept.as_ref().unwrap_or(record)),
        conditions: conditions.into_iter().filter_map(write).collect(),
    }
}

/// Whether a condition is true, its reason and its message.
type ConditionState = (bool, &'static str, String);

/// The condition as written. Its transition time changes with the status, not with the message.
fn written(
    kind: &'static str,
    (is_true, reason, message): ConditionState,
    generation: Option<i64>,
    before: Option<&Value>,
    now: Timestamp,
) -> ConditionStatus {
    let status = if is_true { "True" } else { "False" };
    let known = before.and_then(Value::as_array).into_iter().flatten();
    let same = known.into_iter().find(|it| {
        it.get("type").and_then(Value::as_str) == Some(kind)
            && it.get("status").and_then(Value::as_str) == Some(status)
    });
    let since = same
        .and_then(|it| it.get("lastTransitionTime"))
        .and_then(Value::as_str);
    let since = since
        .and_then(|text| text.parse::<Timestamp>().ok())
        .unwrap_or(now);
    let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
    ConditionStatus {
        kind,
        status,
        observed_generation: generation,
        last_transition_time: since.to_string(),
        reason,
        message: ccm_host::clean(&message, MESSAGE_BYTES),
    }
}

/// Whether the provider cannot do its work. An unreachable registry, a waiting version and an unused spec do not count
/// while a version serves.
fn degraded(report: &Report) -> ConditionState {
    match &report.impairment {
        _ if report.is_unserved() => (true, "NotServing", report.record.trouble.clone()),
        impairment if report.is_serving && !impairment.is_empty() => {
            (true, "SelfCheckFails", impairment.clone())
        }
        _ => (false, "AsExpected", String::new()),
    }
}

/// Whether the object's own spec is used. `None`: the spec is not read.
fn accepted(report: &Report) -> Option<ConditionState> {
    report.specification.generation?;
    Some(match &report.specification.refusal {
        None => (true, "Accepted", String::new()),
        Some(refusal) => (false, refusal.reason.as_str(), refusal.message.clone()),
    })
}

fn ready(report: &Report) -> ConditionState {
    let record = &report.record;
    match &record.active {
        Some(active) if report.is_serving => {
            let version = &active.release.version;
            let message = match (&report.stands_in, &active.untried) {
                (Some(other), _) => format!(
                    "{other} serves in place of version {version}: {}",
                    record.trouble
                ),
                (None, Some(why)) => format!("version {version} serves; {why}"),
                (None, None) => match report.kept.as_ref().and_then(|kept| kept.active.as_ref()) {
                    Some(kept) if kept.release.digest != active.release.digest => format!(
                        "version {version} serves, which is part of the program; version {} stays recorded for a module from another source",
                        kept.release.version
                    ),
                    _ => format!("version {version} serves"),
                },
            };
            (true, "Serving", message)
        }
        Some(_) => (false, "NotLoaded", record.trouble.clone()),
        None => (false, "NothingYet", record.trouble.clone()),
    }
}

fn progressing(report: &Report, orders: &Orders) -> ConditionState {
    let record = &report.record;
    match &record.trial {
        Some(trial) if trial.phase.is_waiting() => (false, "Waiting", trial.lines.join("; ")),
        Some(trial) => (
            true,
            trial.phase.as_str(),
            format!("version {}", trial.release.version),
        ),
        None if orders.pause => (false, "Paused", String::new()),
        None => match record.rejected.first() {
            Some(latest)
                if record
                    .active
                    .as_ref()
                    .is_none_or(|it| latest.at >= it.since) =>
            {
                let message = format!("{}: {}", latest.digest, latest.reason);
                (false, "Rejected", message)
            }
            _ => (false, "UpToDate", String::new()),
        },
    }
}

fn permissions_pending(report: &Report) -> ConditionState {
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
    let message = waits.map(|trial| trial.lines.join("; "));
    (waits.is_some(), reason, message.unwrap_or_default())
}

fn source_reachable(report: &Report) -> ConditionState {
    match report.source_trouble.as_str() {
        "" => (true, "Reachable", String::new()),
        trouble => (false, "Trouble", trouble.to_owned()),
    }
}
