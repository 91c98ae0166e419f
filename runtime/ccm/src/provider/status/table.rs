//! Formats `Provider` objects as a table for people, with pending work below each. Tolerates objects of older managers
//! and other writers: shows the parts that it can parse.

use std::fmt::Write as _;

use ccm_core::rollout::Phase;
use ccm_host::short_digest;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde::Deserialize;

use crate::text_table::aligned;

const HEADER: [&str; 6] = ["NAME", "VERSION", "DIGEST", "STATE", "CANDIDATE", "AGE"];

// The fields read from an object's status.

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Shown {
    state: String,
    observed_source: String,
    active: Option<Version>,
    previous: Option<Version>,
    trial: Option<Version>,
    rejected: Vec<Version>,
    trouble: String,
    conditions: Vec<ShownCondition>,
}

impl Shown {
    /// The condition that says why the object's spec is not used.
    fn spec_refusal(&self) -> Option<&ShownCondition> {
        let is_refusal = |it: &&ShownCondition| (&*it.kind, &*it.status) == ("Accepted", "False");
        self.conditions.iter().find(is_refusal)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ShownCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Version {
    digest: String,
    version: String,
    origin: String,
    phase: String,
    since: String,
    at: String,
    reason: String,
    lines: Vec<String>,
    untried: Option<String>,
}

/// Formats the table; `is_wide` shows whole digests and their sources.
pub(super) fn describe(objects: &[DynamicObject], is_wide: bool) -> String {
    if objects.is_empty() {
        return "There is no provider.\n".to_owned();
    }
    let now = Timestamp::now();
    let mut rows = vec![HEADER.map(str::to_owned)];
    let mut details = String::new();
    for object in objects {
        let status = object.data.get("status").cloned().unwrap_or_default();
        let shown: Shown = serde_json::from_value(status).unwrap_or_default();
        let name = object.metadata.name.clone().unwrap_or_default();
        let created = object.metadata.creation_timestamp.as_ref();
        rows.push(row(
            &name,
            &shown,
            created.map(|time| age(time.0, now)),
            is_wide,
        ));
        detail(&mut details, &name, &shown, is_wide);
    }
    aligned(&rows) + &details
}

fn row(name: &str, shown: &Shown, age: Option<String>, is_wide: bool) -> [String; 6] {
    let none = Version::default();
    let active = shown.active.as_ref().unwrap_or(&none);
    let digest = match is_wide {
        true => active.digest.clone(),
        false => short_digest(&active.digest),
    };
    [
        name.to_owned(),
        or_dash(&active.version),
        or_dash(&digest),
        or_dash(&shown.state),
        or_dash(shown.trial.as_ref().map_or("", |trial| &trial.version)),
        age.unwrap_or_else(|| "-".to_owned()),
    ]
}

/// Pending versions, what blocks them, rejected versions, and why the spec is not used.
fn detail(text: &mut String, name: &str, shown: &Shown, is_wide: bool) {
    let mut block = String::new();
    // Writing to a String cannot fail.
    if is_wide && !shown.observed_source.is_empty() {
        let _ = writeln!(block, "  source: {}", shown.observed_source);
    }
    if let Some(active) = shown.active.as_ref().filter(|_| is_wide) {
        let _ = writeln!(block, "  serves: {} since {}", active.origin, active.since);
    }
    if let Some(why) = shown.active.as_ref().and_then(|it| it.untried.as_ref()) {
        let _ = writeln!(block, "  serves, and {why}");
    }
    if let Some(previous) = shown.previous.as_ref().filter(|_| is_wide) {
        let _ = writeln!(block, "  previous: {}", title(previous));
    }
    if let Some(trial) = &shown.trial {
        let _ = writeln!(
            block,
            "  {}: {}, since {}",
            Phase::parse(&trial.phase).map_or(trial.phase.as_str(), |phase| phase.words()),
            title(trial),
            trial.since
        );
        for line in &trial.lines {
            let _ = writeln!(block, "    {line}");
        }
        if trial.phase == "WaitsForApproval" {
            let _ = writeln!(
                block,
                "    approve it with: kubectl annotate ccmp {name} --overwrite wasm-ccm.dev/approve={}",
                trial.digest
            );
        }
    }
    for rejected in &shown.rejected {
        let _ = writeln!(
            block,
            "  rejected: {}, at {}: {}",
            title(rejected),
            rejected.at,
            rejected.reason
        );
    }
    let refusal = shown.spec_refusal();
    if let Some(refusal) = refusal {
        let (reason, message) = (&refusal.reason, &refusal.message);
        let _ = writeln!(block, "  spec not used ({reason}): {message}");
    }
    // The trouble of a provider that is not used because of its spec is the same.
    let is_said = refusal.is_some_and(|refusal| refusal.message == shown.trouble);
    if !shown.trouble.is_empty() && !is_said {
        let _ = writeln!(block, "  trouble: {}", shown.trouble);
    }
    if !block.is_empty() {
        let _ = write!(text, "\n{name}:\n{block}");
    }
}

fn title(version: &Version) -> String {
    match version.version.is_empty() {
        true => version.digest.clone(),
        false => format!("{} ({})", version.version, version.digest),
    }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

/// Age as in kubectl: in the largest suitable unit.
fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - then.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
