//! Formats a status report for a terminal, in the order of the status page. The caller escapes it. A test has a report
//! with every field, so that a new one is not forgotten.

use std::fmt::Write as _;

use ccm_core::status_report::{
    HeldReport, LeaseReport, ProviderReport, ProviderState, StatusReport, TargetReport, Time,
    WaitingReport, length,
};

use crate::text_table::aligned;

/// Formats the whole report as text.
pub(super) fn describe(report: &StatusReport) -> String {
    let mut text = head(report);
    for part in [
        providers(report),
        waiting("HELD DELETIONS", report.held_deletions(), report.now),
        brakes(report),
        others_waiting(report),
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
    let mut rows = vec![
        row(["component", &report.component]),
        row(["version", &report.version]),
        row(["mode", &report.mode]),
        row(["API server", &report.api_server]),
        row(["running for", &length_since(report.started, report.now)]),
    ];
    if report.leases.is_empty() {
        rows.push(row(["leader", report.without_candidacy()]));
    }
    let leaders = report.leases.iter().map(|one| leader(one, report.now));
    rows.extend(leaders.map(|leader| row(["leader", &leader])));
    aligned(&rows)
}

/// The time since then. Clocks can be set back: then it is zero.
fn length_since(since: Time, now: Time) -> String {
    let seconds = now.0.as_second() - since.0.as_second();
    length(seconds.max(0).unsigned_abs())
}

fn leader(report: &LeaseReport, now: Time) -> String {
    let own = &report.identity;
    let who = match (report.is_leader, report.holder.as_str()) {
        (true, _) => format!("this process, {own}"),
        (false, "") => format!("nobody as far as is known; this is {own}"),
        (false, own) if report.is_stopping() => format!("this process, {own}, which is stopping"),
        (false, other) => format!("{other}; this process stands by"),
    };
    let until = report.valid_until.filter(|_| report.is_leader);
    let until =
        until.map(|until| format!(", valid {} more", until.seen_from(now).replace("in ", "")));
    let until = until.unwrap_or_default();
    format!("{who} (Lease {}{until})", report.lease)
}

fn providers(report: &StatusReport) -> String {
    let mut rows = vec![row(["PROVIDER", "STATE", "VERSION", "DIGEST", "SOURCE"])];
    rows.extend(report.providers.iter().map(provider));
    let mut text = aligned(&rows);
    for provider in &report.providers {
        details(&mut text, provider, report.now);
    }
    text
}

fn provider(report: &ProviderReport) -> [String; 5] {
    let (state, version, digest) = match &report.state {
        ProviderState::Starting => ("starting", "-", "-"),
        ProviderState::Failed { .. } => ("not served", "-", "-"),
        ProviderState::Serving { version, digest } => ("serves", version.as_str(), digest.as_str()),
    };
    row([&report.name, state, version, digest, &report.source])
}

// Writing to a String cannot fail.
fn details(text: &mut String, report: &ProviderReport, now: Time) {
    let (name, trouble) = (&report.name, &report.trouble);
    if let ProviderState::Failed { why, is_final } = &report.state {
        let next = match is_final {
            true => "a person has to act",
            false => "it is tried again",
        };
        let _ = writeln!(text, "\n{name} is not served, and {next}: {why}");
    }
    if !trouble.is_empty() {
        let _ = writeln!(text, "\n{name} has trouble: {trouble}");
    }
    if let Some(trial) = &report.trial {
        let (phase, version, digest) = (&trial.phase, &trial.version, &trial.digest);
        let since = trial.since.map_or_else(String::new, |since| {
            format!(", for {}", length_since(since, now))
        });
        let _ = writeln!(text, "\n{name}, {phase}: {version} ({digest}){since}");
        for line in &trial.lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    for target in &report.targets {
        grants(text, name, target);
    }
    if !report.annotation_prefixes.is_empty() {
        let prefixes = report.annotation_prefixes.join(", ");
        let _ = writeln!(
            text,
            "\n{name} may set annotations of Services under {prefixes}"
        );
    }
}

fn grants(text: &mut String, provider: &str, target: &TargetReport) {
    let (name, endpoint) = (&target.name, &target.endpoint);
    let what = match target.writes.is_empty() {
        true => "may change nothing",
        false => "may change",
    };
    let reads = match target.reads.len() {
        1 => "1 kind of read".to_owned(),
        many => format!("{many} kinds of reads"),
    };
    let through = target.proxy.as_ref();
    let through = through.map_or_else(String::new, |proxy| format!(" through {proxy}"));
    let _ = writeln!(
        text,
        "\n{provider} at {name} ({endpoint}{through}): {reads}; {what}"
    );
    for line in &target.writes {
        let _ = writeln!(text, "  {line}");
    }
}

/// Objects that are not to be deleted.
fn others_waiting(report: &StatusReport) -> String {
    let mut text = waiting("WAITING", report.others_waiting(), report.now);
    if report.is_waiting_cut {
        text.push_str("More objects wait than are kept.\n");
    }
    text
}

fn waiting<'a>(title: &str, waiting: impl Iterator<Item = &'a WaitingReport>, now: Time) -> String {
    let mut rows = vec![row([
        title,
        "NEXT TRY",
        "SINCE",
        "ATTEMPT",
        "PROVIDER",
        "CONTROLLER",
        "WHY",
    ])];
    rows.extend(waiting.map(|one| {
        let next = one.next.map(|next| next.seen_from(now));
        row([
            &one.object,
            next.as_deref().unwrap_or("when it changes"),
            &one.since.seen_from(now),
            &one.attempt.to_string(),
            &one.provider,
            &one.controller,
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
    rows.extend(report.brakes.iter().map(|one| {
        let state = match one.is_engaged(report.now) {
            true => "engaged",
            false => "released",
        };
        let window = length(one.window_seconds);
        let all = match one.is_engaged_by_all(report.now) {
            true => "; the budget of all providers together is spent",
            false => "",
        };
        let spent = format!("{} of {} in {window}{all}", one.taken, one.allowed);
        let held = one.held.as_ref().map(|held| holds(held, report.now));
        let held = held.as_deref().unwrap_or("-");
        row([&one.brake, &one.provider, state, &spent, held, &one.release])
    }));
    shown(&rows)
}

fn holds(held: &HeldReport, now: Time) -> String {
    let free = held.free.map_or_else(
        || "no such change is allowed".to_owned(),
        |free| format!("room again {}", free.seen_from(now)),
    );
    format!("{} for {}; {free}", held.object, length_since(held.at, now))
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
            let (left, per) = (target.requests_left, length(target.per_seconds));
            let requests = format!("{left} of {} per {per}", target.requests);
            let state = match target.held_seconds {
                Some(seconds) => format!("rate-limited for {}", length(seconds)),
                None if left == 0 => "spent".to_owned(),
                None => "open".to_owned(),
            };
            let cloud = target.cloud.as_ref();
            let cloud = cloud.map(|cloud| format!("{}, {}", cloud.left(), cloud.when()));
            let cloud = cloud.as_deref().unwrap_or("-");
            row([&target.name, &provider.name, &requests, &state, cloud])
        }));
    }
    shown(&rows)
}

fn decisions(report: &StatusReport) -> String {
    let mut rows = vec![row([
        "TIME",
        "TIMES",
        "PROVIDER",
        "CONTROLLER",
        "DECISION",
        "OUTCOME",
    ])];
    rows.extend(report.decisions.iter().map(|one| {
        let outcome = match one.is_success {
            true => one.outcome.clone(),
            false => format!("not done: {}", one.outcome),
        };
        row([
            &one.at.of_day(),
            &one.times.to_string(),
            &one.provider,
            &one.controller,
            &one.effect,
            &outcome,
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
