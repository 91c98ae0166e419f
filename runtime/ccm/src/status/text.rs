//! Formats a status report for a terminal, in the order of the status page. The caller escapes it. Each field of a report
//! is named, so that a new one is not forgotten.

use std::fmt::Write as _;

use ccm_core::status_report::{
    BrakeReport, DecisionReport, HeldReport, LeaseReport, ProviderReport, ProviderState,
    StatusReport, TargetReport, Time, TrialReport, WaitingReport, length,
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
    let StatusReport {
        component,
        version,
        mode,
        api_server,
        started,
        now,
        has_election: _,
        leases,
        // Below the head.
        providers: _,
        waiting: _,
        is_waiting_cut: _,
        brakes: _,
        decisions: _,
    } = report;
    let mut rows = vec![
        row(["component", component]),
        row(["version", version]),
        row(["mode", mode]),
        row(["API server", api_server]),
        row(["running for", &length_since(*started, *now)]),
    ];
    if leases.is_empty() {
        rows.push(row(["leader", report.without_candidacy()]));
    }
    rows.extend(leases.iter().map(|one| row(["leader", &leader(one, *now)])));
    aligned(&rows)
}

/// The time since then. Clocks can be set back: then it is zero.
fn length_since(since: Time, now: Time) -> String {
    let seconds = now.0.as_second() - since.0.as_second();
    length(seconds.max(0).unsigned_abs())
}

fn leader(report: &LeaseReport, now: Time) -> String {
    let LeaseReport {
        lease,
        identity,
        is_leader,
        holder,
        valid_until,
    } = report;
    let who = match (is_leader, holder.as_str()) {
        (true, _) => format!("this process, {identity}"),
        (false, "") => format!("nobody as far as is known; this is {identity}"),
        (false, own) if report.is_stopping() => format!("this process, {own}, which is stopping"),
        (false, other) => format!("{other}; this process stands by"),
    };
    let until = valid_until.filter(|_| *is_leader);
    let until =
        until.map(|until| format!(", valid {} more", until.seen_from(now).replace("in ", "")));
    format!("{who} (Lease {lease}{})", until.unwrap_or_default())
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
    let ProviderReport {
        name,
        source,
        state,
        // Details below the table.
        trial: _,
        trouble: _,
        targets: _,
        annotation_prefixes: _,
    } = report;
    match state {
        ProviderState::Starting => row([name, "starting", "-", "-", source]),
        ProviderState::Failed { .. } => row([name, "not served", "-", "-", source]),
        ProviderState::Serving { version, digest } => {
            row([name, "serves", version, digest, source])
        }
    }
}

// Writing to a String cannot fail.
fn details(text: &mut String, report: &ProviderReport, now: Time) {
    let ProviderReport {
        name,
        source: _,
        state,
        trial,
        trouble,
        targets,
        annotation_prefixes,
    } = report;
    if let ProviderState::Failed { why, is_final } = state {
        let next = match is_final {
            true => "a person has to act",
            false => "it is tried again",
        };
        let _ = writeln!(text, "\n{name} is not served, and {next}: {why}");
    }
    if !trouble.is_empty() {
        let _ = writeln!(text, "\n{name} has trouble: {trouble}");
    }
    if let Some(TrialReport {
        version,
        digest,
        phase,
        since,
        lines,
    }) = trial
    {
        let since = since.map_or_else(String::new, |since| {
            format!(", for {}", length_since(since, now))
        });
        let _ = writeln!(text, "\n{name}, {phase}: {version} ({digest}){since}");
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    for target in targets {
        grants(text, name, target);
    }
    if !annotation_prefixes.is_empty() {
        let prefixes = annotation_prefixes.join(", ");
        let _ = writeln!(
            text,
            "\n{name} may set annotations of Services under {prefixes}"
        );
    }
}

fn grants(text: &mut String, provider: &str, target: &TargetReport) {
    let TargetReport {
        name,
        endpoint,
        proxy,
        reads,
        writes,
        // In the table of budgets.
        requests: _,
        per_seconds: _,
        requests_left: _,
        held_seconds: _,
        cloud: _,
    } = target;
    let what = match writes.is_empty() {
        true => "may change nothing",
        false => "may change",
    };
    let reads = match reads.len() {
        1 => "1 kind of read".to_owned(),
        many => format!("{many} kinds of reads"),
    };
    let through = proxy.as_ref();
    let through = through.map_or_else(String::new, |proxy| format!(" through {proxy}"));
    let _ = writeln!(
        text,
        "\n{provider} at {name} ({endpoint}{through}): {reads}; {what}"
    );
    for line in writes {
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
        let WaitingReport {
            object,
            provider,
            controller,
            why,
            attempt,
            since,
            next,
            // It chooses the table.
            is_deletion: _,
        } = one;
        let next = next.map_or("when it changes".to_owned(), |next| next.seen_from(now));
        let (since, attempt) = (since.seen_from(now), attempt.to_string());
        row([object, &next, &since, &attempt, provider, controller, why])
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
        let BrakeReport {
            brake,
            provider,
            taken,
            allowed,
            window_seconds,
            is_spent_by_all: _,
            held,
            release,
        } = one;
        let state = match one.is_engaged(report.now) {
            true => "engaged",
            false => "released",
        };
        let window = length(*window_seconds);
        let all = match one.is_engaged_by_all(report.now) {
            true => "; the budget of all providers together is spent",
            false => "",
        };
        let spent = format!("{taken} of {allowed} in {window}{all}");
        let held = held.as_ref();
        let held = held.map_or_else(|| "-".to_owned(), |held| holds(held, report.now));
        row([brake, provider, state, &spent, &held, release])
    }));
    shown(&rows)
}

fn holds(held: &HeldReport, now: Time) -> String {
    let HeldReport { object, at, free } = held;
    let free = free.map_or_else(
        || "no such change is allowed".to_owned(),
        |free| format!("room again {}", free.seen_from(now)),
    );
    format!("{object} for {}; {free}", length_since(*at, now))
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
            let TargetReport {
                name,
                // With the grants.
                endpoint: _,
                proxy: _,
                reads: _,
                writes: _,
                requests,
                per_seconds,
                requests_left,
                held_seconds,
                cloud,
            } = target;
            let per = length(*per_seconds);
            let left = format!("{requests_left} of {requests} per {per}");
            let state = match held_seconds {
                Some(seconds) => format!("rate-limited for {}", length(*seconds)),
                None if *requests_left == 0 => "spent".to_owned(),
                None => "open".to_owned(),
            };
            let cloud = cloud.as_ref();
            let cloud = cloud.map(|cloud| format!("{}, {}", cloud.left(), cloud.when()));
            let cloud = cloud.unwrap_or_else(|| "-".to_owned());
            row([name, &provider.name, &left, &state, &cloud])
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
        let DecisionReport {
            at,
            controller,
            provider,
            // The effect names it.
            object: _,
            effect,
            outcome,
            is_success,
            times,
        } = one;
        let (at, times) = (at.of_day(), times.to_string());
        let outcome = match is_success {
            true => outcome.clone(),
            false => format!("not done: {outcome}"),
        };
        row([&at, &times, provider, controller, effect, &outcome])
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
