//! Formats a status report for a terminal, in the order of the status page. The caller escapes it.

use std::fmt::Write as _;

use ccm_serving::status::StatusReport;
use ccm_serving::status::report::{
    LeaseReport, ProviderReport, ProviderState, Time, WaitingReport, length,
};

use crate::text_table::aligned;

/// Formats the whole report as text.
pub(super) fn describe(report: &StatusReport) -> String {
    let mut text = head(report);
    for part in [
        providers(report),
        waiting("HELD DELETIONS", report.held_deletions(), report.now),
        brakes(report),
        waiting("WAITING", report.others_waiting(), report.now),
        budgets(report),
        decisions(report),
    ] {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    text
}

fn head(report: &StatusReport) -> String {
    let up = report.now.0.as_second() - report.started.0.as_second();
    let mut rows = vec![
        row(["component", &report.component]),
        row(["version", &report.version]),
        row(["mode", &report.mode]),
        row(["API server", &report.api_server]),
        row(["running for", &length(up.max(0).unsigned_abs())]),
    ];
    if report.leases.is_empty() {
        rows.push(row(["leader", report.without_candidacy()]));
    }
    rows.extend(
        report
            .leases
            .iter()
            .map(|one| row(["leader", &leader(one, report.now)])),
    );
    aligned(&rows)
}

fn leader(lease: &LeaseReport, now: Time) -> String {
    let who = match (lease.is_leader, lease.holder.as_str()) {
        (true, _) => format!("this process, {}", lease.identity),
        (false, "") => format!("nobody as far as is known; this is {}", lease.identity),
        (false, own) if lease.is_stopping() => format!("this process, {own}, which is stopping"),
        (false, other) => format!("{other}; this process stands by"),
    };
    let until = lease.valid_until.filter(|_| lease.is_leader);
    let until =
        until.map(|until| format!(", valid {} more", until.seen_from(now).replace("in ", "")));
    format!("{who} (Lease {}{})", lease.lease, until.unwrap_or_default())
}

fn providers(report: &StatusReport) -> String {
    let mut rows = vec![row(["PROVIDER", "STATE", "VERSION", "DIGEST"])];
    rows.extend(report.providers.iter().map(provider));
    let mut text = aligned(&rows);
    for provider in &report.providers {
        details(&mut text, provider);
    }
    text
}

fn provider(provider: &ProviderReport) -> [String; 4] {
    match &provider.state {
        ProviderState::Starting => row([&provider.name, "starting", "-", "-"]),
        ProviderState::Failed { .. } => row([&provider.name, "not served", "-", "-"]),
        ProviderState::Serving { version, digest } => {
            row([&provider.name, "serves", version, digest])
        }
    }
}

// Writing to a String cannot fail.
fn details(text: &mut String, provider: &ProviderReport) {
    let name = &provider.name;
    if let ProviderState::Failed { why, .. } = &provider.state {
        let _ = writeln!(text, "\n{name} is not served: {why}");
    }
    if !provider.trouble.is_empty() {
        let _ = writeln!(text, "\n{name} has trouble: {}", provider.trouble);
    }
    if let Some(trial) = &provider.trial {
        let _ = writeln!(
            text,
            "\n{name}, {}: {} ({})",
            trial.phase, trial.version, trial.digest
        );
        for line in &trial.lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    for target in &provider.targets {
        let what = match target.writes.is_empty() {
            true => "may change nothing",
            false => "may change",
        };
        let (at, reads) = (&target.endpoint, target.reads.len());
        let through = target.proxy.as_ref();
        let through = through.map_or_else(String::new, |proxy| format!(" through {proxy}"));
        let _ = writeln!(
            text,
            "\n{name} at {} ({at}{through}): {reads} kinds of reads; {what}",
            target.name
        );
        for line in &target.writes {
            let _ = writeln!(text, "  {line}");
        }
    }
}

fn waiting<'a>(title: &str, waiting: impl Iterator<Item = &'a WaitingReport>, now: Time) -> String {
    let mut rows = vec![row([
        title, "NEXT TRY", "SINCE", "ATTEMPT", "PROVIDER", "WHY",
    ])];
    rows.extend(waiting.map(|one| {
        let next = one
            .next
            .map_or("when it changes".to_owned(), |next| next.seen_from(now));
        let (since, attempt) = (one.since.seen_from(now), one.attempt.to_string());
        row([
            &one.object,
            &next,
            &since,
            &attempt,
            &one.provider,
            &one.why,
        ])
    }));
    shown(&rows)
}

fn brakes(report: &StatusReport) -> String {
    let mut rows = vec![row([
        "BRAKE",
        "PROVIDER",
        "STATE",
        "SPENT",
        "HOLDS",
        "RELEASED BY",
    ])];
    rows.extend(report.brakes.iter().map(|brake| {
        let state = match brake.is_engaged(report.now) {
            true => "engaged",
            false => "released",
        };
        let window = length(brake.window_seconds);
        let all = match brake.is_engaged_by_all(report.now) {
            true => "; the budget of all providers together is spent",
            false => "",
        };
        let spent = format!("{} of {} in {window}{all}", brake.taken, brake.allowed);
        let held = brake.held.as_ref().map_or("-", |held| &held.object);
        row([
            &brake.brake,
            &brake.provider,
            state,
            &spent,
            held,
            &brake.release,
        ])
    }));
    shown(&rows)
}

fn budgets(report: &StatusReport) -> String {
    let mut rows = vec![row([
        "TARGET",
        "PROVIDER",
        "REQUESTS LEFT",
        "STATE",
        "LEFT AT THE CLOUD",
    ])];
    for provider in &report.providers {
        rows.extend(provider.targets.iter().map(|target| {
            let per = length(target.per_seconds);
            let left = format!("{} of {} per {per}", target.requests_left, target.requests);
            let state = match target.held_seconds {
                Some(seconds) => format!("rate-limited for {}", length(seconds)),
                None if target.requests_left == 0 => "spent".to_owned(),
                None => "open".to_owned(),
            };
            let cloud = target.cloud.as_ref();
            let cloud = cloud.map(|cloud| format!("{}, {}", cloud.left(), cloud.when()));
            let cloud = cloud.unwrap_or_else(|| "-".to_owned());
            row([&target.name, &provider.name, &left, &state, &cloud])
        }));
    }
    shown(&rows)
}

fn decisions(report: &StatusReport) -> String {
    let mut rows = vec![row(["TIME", "TIMES", "PROVIDER", "DECISION", "OUTCOME"])];
    rows.extend(report.decisions.iter().map(|one| {
        let times = one.times.to_string();
        row([
            &one.at.of_day(),
            &times,
            &one.provider,
            &one.effect,
            &one.outcome,
        ])
    }));
    shown(&rows)
}

fn row<const COLUMNS: usize>(cells: [&str; COLUMNS]) -> [String; COLUMNS] {
    cells.map(str::to_owned)
}

/// The table as text; empty if it has only a header.
fn shown<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    match rows.len() {
        0 | 1 => String::new(),
        _ => aligned(rows),
    }
}

#[cfg(test)]
mod tests;
