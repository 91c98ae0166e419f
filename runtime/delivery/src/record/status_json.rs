//! JSON form of the record: the object's `status`, and the file of a record in memory. Reading never fails: malformed
//! parts, which another client may have written, are left out.

use ccm_core::rollout::{
    MOST_APPROVED, MOST_LINES, MOST_REASON, MOST_REJECTED, MOST_REQUESTS, Noted, Phase, Placed,
    Record, Rejected, Release, Trial,
};
use ccm_host::{Digest, clean};
use jiff::Timestamp;
use serde_json::Value;

use super::status::{ActiveStatus, RecordStatus, RejectedStatus, ReleaseStatus, TrialStatus};

/// Maximum lengths of a version and of an origin, in bytes, as in the kind's definition.
const VERSION_BYTES: usize = 128;
const ORIGIN_BYTES: usize = 2048;

/// The record in the form of the object's `status` and of the file of a record in memory. Absent values are left out.
pub(super) fn write(record: &Record) -> RecordStatus {
    let active = record.active.as_ref().map(|active| ActiveStatus {
        release: release(&active.release),
        since: time(active.since),
        requests: active.noted.requests.clone(),
        highest_version: active
            .noted
            .highest
            .as_deref()
            .map(|version| clean(version, VERSION_BYTES)),
        untried: active.untried.as_deref().map(text),
    });
    let trial = record.trial.as_ref().map(|trial| {
        let lines = trial.lines.iter().take(MOST_LINES);
        TrialStatus {
            release: release(&trial.release),
            phase: trial.phase.as_str(),
            since: time(trial.since),
            lines: lines.map(|line| text(line)).collect(),
        }
    });
    let rejected = record.rejected.iter().take(MOST_REJECTED);
    let rejected = rejected.map(|one| RejectedStatus {
        digest: one.digest.clone(),
        version: clean(&one.version, VERSION_BYTES),
        reason: text(&one.reason),
        has_answered: one.has_answered,
        at: time(one.at),
    });
    let approved = record.approved.iter().take(MOST_APPROVED);
    RecordStatus {
        active,
        previous: record.previous.as_ref().map(release),
        trial,
        rejected: rejected.collect(),
        approved: approved.cloned().collect(),
        trouble: text(&record.trouble),
        gone_back: record.has_gone_back,
    }
}

/// Reads the record from JSON; malformed parts count as absent.
pub(super) fn read(status: &Value) -> Record {
    let list = |name: &str| {
        status
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let active = status.get("active").and_then(|value| {
        Some(Placed {
            release: read_release(value)?,
            since: read_time(value, "since"),
            noted: Noted {
                requests: value
                    .get("requests")
                    .and_then(Value::as_str)
                    .filter(|text| text.len() <= MOST_REQUESTS)
                    .map(str::to_owned),
                highest: some(read_text(value, "highestVersion", VERSION_BYTES)),
            },
            untried: some(read_text(value, "untried", MOST_REASON)),
        })
    });
    let approved = list("approved")
        .filter_map(Value::as_str)
        .filter(|text| Digest::parse(text).is_some());
    Record {
        active,
        previous: status.get("previous").and_then(read_release),
        trial: status.get("trial").and_then(read_trial),
        rejected: list("rejected")
            .filter_map(read_rejected)
            .take(MOST_REJECTED)
            .collect(),
        approved: approved.map(str::to_owned).take(MOST_APPROVED).collect(),
        trouble: read_text(status, "trouble", MOST_REASON),
        has_gone_back: status.get("goneBack") == Some(&Value::Bool(true)),
    }
}

fn release(release: &Release) -> ReleaseStatus {
    ReleaseStatus {
        digest: release.digest.clone(),
        version: clean(&release.version, VERSION_BYTES),
        origin: clean(&release.origin, ORIGIN_BYTES),
    }
}

fn read_release(value: &Value) -> Option<Release> {
    let digest = value.get("digest").and_then(Value::as_str);
    Some(Release {
        digest: digest
            .filter(|digest| Digest::parse(digest).is_some())?
            .to_owned(),
        version: read_text(value, "version", VERSION_BYTES),
        origin: read_text(value, "origin", ORIGIN_BYTES),
    })
}

fn read_trial(value: &Value) -> Option<Trial> {
    let phase = value.get("phase").and_then(Value::as_str)?;
    let lines = value
        .get("lines")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    Some(Trial {
        release: read_release(value)?,
        phase: Phase::parse(phase)?,
        since: read_time(value, "since"),
        lines: lines
            .filter_map(Value::as_str)
            .take(MOST_LINES)
            .map(|line| clean(line, MOST_REASON))
            .collect(),
    })
}

fn read_rejected(value: &Value) -> Option<Rejected> {
    let release = read_release(value)?;
    Some(Rejected {
        digest: release.digest,
        version: release.version,
        reason: read_text(value, "reason", MOST_REASON),
        has_answered: value.get("hasAnswered") == Some(&Value::Bool(true)),
        at: read_time(value, "at"),
    })
}

fn text(text: &str) -> String {
    clean(text, MOST_REASON)
}

fn read_text(value: &Value, name: &str, most: usize) -> String {
    let found = value.get(name).and_then(Value::as_str).unwrap_or_default();
    clean(found, most)
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Seconds since the epoch as RFC 3339; the epoch itself for values out of range.
fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(0);
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_string()
}

/// Reads a time; the epoch if it cannot be parsed.
fn read_time(value: &Value, name: &str) -> u64 {
    let text = value.get(name).and_then(Value::as_str);
    let time = text.and_then(|text| text.parse::<Timestamp>().ok());
    time.and_then(|time| u64::try_from(time.as_second()).ok())
        .unwrap_or(0)
}
