//! The laws about deletions: what must be known before a node is deleted (S1), which object is deleted (S2), how many
//! are (S11), and how often the cloud is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_core::cloud::Lookup;
use ccm_core::moment::Moment;
use ccm_core::safety::brake::{Brake, Rise};
use ccm_core::well_known;
use ccm_sim::cluster::Write;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::cloud::Answered;
use crate::laws::{APART, Record, describe, list};
use crate::transcript::Surveyed;

/// Minimum time of NotReady, and minimum age, of a deleted node.
const NOT_READY: Duration = Duration::from_secs(30);
const OLD: Duration = Duration::from_secs(300);
/// A failed deletion may be retried for this long without using more of the budget.
const PAID: Duration = Duration::from_secs(60);
/// Minimum time between two look-ups of a node.
const SELDOM: Duration = Duration::from_secs(5);
/// A write may be under way this long while the world changes.
const ON_ITS_WAY: Duration = Duration::from_secs(30);

/// The violations of one deletion.
pub(crate) fn deletion(write: &Write, record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["uid", "resourceVersion"] {
        if write.body["preconditions"][field]
            .as_str()
            .is_none_or(str::is_empty)
        {
            let why = format!("deletes without a precondition on {field} (S2)");
            found.push(describe(write, &why));
        }
    }
    // A deletion without effect, of a node that was gone already, is not judged.
    let Some(node) = write.before.as_deref() else {
        return found;
    };
    let is_asked_for = node["metadata"]["annotations"][well_known::DELETE_UNTIL].is_string();
    if !is_confirmed(write, record, false) {
        let why = "deletes without two complete answers 10 s apart, the last one fresh (S1)";
        found.push(describe(write, why));
    } else if !is_asked_for
        && !record.may_delete_the_last
        && !is_marked(node)
        && !is_confirmed(write, record, true)
    {
        let why = "deletes although the answers found no node that exists (S1)";
        found.push(describe(write, why));
    }
    if exists(write, record) {
        found.push(describe(write, "deletes a node whose machine exists"));
    }
    found.extend(age(write, node, record));
    found
}

/// Whether the node has a taint that says that it is to leave: such a node needs no witness if none is left.
fn is_marked(node: &Value) -> bool {
    let mut taints = list(&node["spec"]["taints"]).iter();
    taints.any(|taint| {
        well_known::LEAVING_TAINTS
            .iter()
            .any(|key| taint["key"] == *key)
    })
}

/// Whether the machine was known to be gone when the deletion was sent: complete answers called it gone over a long
/// enough time, the last one without cached data; with `vouched`, only answers count that found a witness under its
/// provider ID.
fn is_confirmed(write: &Write, record: &Record, vouched: bool) -> bool {
    let about = record.answered.iter();
    let about = about.filter(|one| one.node == write.request.name && one.at <= write.at);
    // Incomplete answers do not count; any other answer than "gone" ends the series.
    let reported = about.filter(|one| one.complete && !matches!(one.lookup, Lookup::Unknown(_)));
    let reported: Vec<&Answered> = reported.collect();
    // A process that has died since decided on the answers that it knew.
    let least = match record.lateness {
        None => reported.len(),
        Some(late) => {
            let later = reported
                .iter()
                .rev()
                .take_while(|one| one.at + late >= write.at);
            reported.len() - later.count()
        }
    };
    (least..=reported.len()).any(|end| {
        let row = reported[..end]
            .iter()
            .rev()
            .take_while(|one| one.lookup == Lookup::Gone);
        let row: Vec<_> = row
            .filter(|one| !vouched || has_witness(one, record))
            .collect();
        match (row.first(), row.last()) {
            (Some(newest), Some(oldest)) => {
                newest.is_fresh && newest.call != oldest.call && oldest.at + APART <= newest.at
            }
            _ => false,
        }
    })
}

fn has_witness(answer: &Answered, record: &Record) -> bool {
    let of_the_call = record.answered.iter().filter(|one| one.call == answer.call);
    let mut others = of_the_call.filter(|one| one.node != answer.node);
    others.any(|one| match &one.lookup {
        Lookup::Found(instance) => one.stored.as_deref() == Some(instance.provider_id.as_str()),
        _ => false,
    })
}

/// Whether the machine exists, and has existed for a while.
fn exists(write: &Write, record: &Record) -> bool {
    let about = record.truth.iter();
    let about = about.filter(|one| one.node == write.request.name && one.at <= write.at);
    let last = about.clone().next_back();
    let is_old = last.is_some_and(|one| one.at + ON_ITS_WAY <= write.at);
    is_old && last.is_some_and(|one| matches!(one.lookup, Lookup::Found(_)))
}

/// The violations of the conditions that a node is NotReady for long enough, and old enough.
fn age(write: &Write, node: &Value, record: &Record) -> Vec<String> {
    let Some((began, begin)) = record.began else {
        return Vec::new();
    };
    let since = |date: &Value| -> Option<Duration> {
        let date: Timestamp = date.as_str()?.parse().ok()?;
        let now = begin + k8s_openapi::jiff::SignedDuration::try_from(write.at - began).ok()?;
        Duration::try_from(now.duration_since(date)).ok()
    };
    let mut conditions = list(&node["status"]["conditions"]).iter();
    let ready = conditions.rfind(|one| one["type"] == "Ready");
    let mut found = Vec::new();
    // Timestamps have whole seconds.
    if let Some(ready) = ready {
        let is_long = since(&ready["lastTransitionTime"]).is_some_and(|time| time >= NOT_READY);
        if ready["status"] == "True" || !is_long {
            found.push(describe(
                write,
                "deletes a node that is Ready, or was a moment ago (S1)",
            ));
        }
    }
    if since(&node["metadata"]["creationTimestamp"]).is_none_or(|age| age < OLD) {
        found.push(describe(
            write,
            "deletes a node that is younger than five minutes (S1)",
        ));
    }
    found
}

/// S11: no more deletions in any window than the brake allows. The use of its budget outlives a process.
pub(crate) fn budgets(record: &Record) -> Vec<String> {
    let mut spent: BTreeMap<Brake, Vec<&Write>> = BTreeMap::new();
    for write in &record.writes {
        if let Some(brake) = brake(write) {
            spent.entry(brake).or_default().push(write);
        }
    }
    let mut found = Vec::new();
    for (brake, writes) in spent {
        let allowance = record.allowances.of(brake);
        let window = allowance.window.saturating_sub(PAID);
        for last in &writes {
            let in_window = |at: &Instant| {
                *at <= last.at && *at + window + record.lateness.unwrap_or_default() > last.at
            };
            let count = writes.iter().filter(|one| in_window(&one.at)).count();
            // The next process does not know the budget's use by shutdown taints.
            let lives = match brake {
                Brake::ShutdownTaint => 1 + record.starts.iter().filter(|at| in_window(at)).count(),
                _ => 1,
            };
            let rise = match brake {
                Brake::NodeDeletion => risen(
                    &writes.iter().map(|one| one.at).collect::<Vec<_>>(),
                    last.at,
                ),
                _ => Rise::NONE,
            };
            if count > lives * allowance.risen(record.most_nodes, rise) {
                found.push(describe(
                    last,
                    &format!("is more than the brake {brake} lets through (S11)"),
                ));
            }
        }
    }
    found
}

/// How far an allowance may have risen: a brake holds nothing before the first deletion.
pub(crate) fn risen(spent: &[Instant], now: Instant) -> Rise {
    let first = spent.iter().min().copied().unwrap_or(now);
    let (begin, end) = (Moment(Duration::ZERO), Moment(now - first));
    Rise::since(Some(begin), end)
}

/// The brake whose budget a write uses, if any.
fn brake(write: &Write) -> Option<Brake> {
    let before = write.before.as_deref()?;
    let has = |node: &Value, keys: &[&str]| {
        let mut taints = list(&node["spec"]["taints"]).iter();
        taints.any(|taint| keys.iter().any(|key| taint["key"] == *key))
    };
    match (write.request.resource, write.request.verb) {
        ("nodes", "delete") if write.after.is_none() => {
            let is_asked_for =
                before["metadata"]["annotations"][well_known::DELETE_UNTIL].is_string();
            let is_meant = is_asked_for || is_marked(before);
            (!is_meant).then_some(Brake::NodeDeletion)
        }
        ("nodes", "patch") => {
            let after = write.after.as_deref()?;
            let shutdown = [well_known::SHUTDOWN_TAINT];
            (has(after, &shutdown) && !has(before, &shutdown)).then_some(Brake::ShutdownTaint)
        }
        _ => None,
    }
}

/// Whether a pass may use several calls: a node without a definite answer is asked about by itself from then on, and
/// after a call without an answer nodes are asked about in halves.
fn may_ask_apart(survey: &Surveyed, record: &Record) -> bool {
    let before = record.answered.iter().filter(|one| one.at <= survey.at);
    let was_told = |one: &Answered| !matches!(one.lookup, Lookup::Unknown(_));
    let calls: BTreeSet<usize> = before.clone().map(|one| one.call).collect();
    let has_lost_one = calls.last().is_some_and(|last| calls.len() < *last);
    has_lost_one || !before.clone().all(was_told)
}

/// A node is not asked about all the time, and a pass uses one call.
pub(crate) fn questions(record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    let mut last: BTreeMap<&str, Instant> = BTreeMap::new();
    let mut process = 0;
    let mut vouched_for: Vec<Instant> = Vec::new();
    for survey in &record.surveys {
        if survey.process != process {
            process = survey.process;
            last.clear();
            vouched_for.clear();
        }
        for name in &survey.about {
            let before = last.insert(name, survey.at);
            if before.is_some_and(|before| before + SELDOM > survey.at) {
                found.push(format!("the cloud is asked about {name} again within 5 s"));
            }
        }
        if survey.has_witness {
            let is_second = vouched_for.contains(&survey.at) && !may_ask_apart(survey, record);
            if is_second && !record.has_late_answers {
                found.push(format!(
                    "{:?} are asked about in a second call",
                    survey.about
                ));
            }
            vouched_for.push(survey.at);
        }
    }
    found
}
