//! The page as HTML, for browsers without scripts and for screen readers: headings, one table for each list, and times
//! in `<time>` elements. Formats only.

mod providers;

use ccm_core::status_report::{
    BrakeReport, DecisionReport, LeaseReport, StatusReport, Time, WaitingReport, length,
};

use super::Refresh;
use super::html::Html;
use super::style::STYLE;

/// Seconds between two automatic refreshes.
pub(super) const REFRESH_SECONDS: u32 = 10;
/// Maximum number of rows of a table. The JSON form has the others.
const MOST_ROWS: usize = 500;

/// Renders the whole page.
pub(super) fn render(report: &StatusReport, refresh: Refresh) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    if refresh == Refresh::Automatic {
        html.raw("<meta http-equiv=\"refresh\" content=\"");
        html.text(REFRESH_SECONDS).raw("\">\n");
    }
    html.raw("<title>")
        .text(&report.component)
        .raw(": status</title>\n");
    html.raw("<style>")
        .raw(STYLE)
        .raw("</style>\n</head>\n<body>\n");
    html.raw("<a class=\"skip\" href=\"#main\">Skip to the content</a>\n");
    header(&mut html, report, refresh);
    navigation(&mut html, report);
    html.raw("<main id=\"main\">\n");
    providers::section(&mut html, report);
    held_deletions(&mut html, report);
    brakes(&mut html, report);
    waiting(&mut html, report);
    providers::budgets(&mut html, report);
    decisions(&mut html, report);
    html.raw("</main>\n<footer><p>ccm ").text(&report.version);
    html.raw(". Times are UTC. The same as JSON: <code>Accept: application/json</code>; in a terminal: <code>ccm status</code>.</p></footer>\n</body>\n</html>\n");
    html.finish()
}

fn header(html: &mut Html, report: &StatusReport, refresh: Refresh) {
    html.raw("<header>\n<h1>")
        .text(&report.component)
        .raw("</h1>\n<p class=\"quiet\">As of ");
    time(html, report.now, &report.now.to_string());
    match refresh {
        Refresh::Automatic => html
            .text(format_args!(". Refreshed every {REFRESH_SECONDS} s. "))
            .raw("<a href=\"?refresh=off\">Stop refreshing</a></p>\n"),
        Refresh::ByHand => html
            .raw(". Not refreshed. <a href=\"?\">")
            .text(format_args!("Refresh every {REFRESH_SECONDS} s"))
            .raw("</a></p>\n"),
    };
    html.raw("<dl class=\"facts\">\n<dt>Mode</dt><dd>");
    match report.mode.as_str() {
        "enforce" => html.text("enforce"),
        mode => {
            html.raw("<span class=\"warn\">").text(mode).raw("</span>");
            html.text(": decisions are made, and nothing is changed")
        }
    };
    html.raw("</dd>\n<dt>Leader</dt><dd>");
    if report.leases.is_empty() {
        html.text(report.without_candidacy());
    }
    for (place, lease) in report.leases.iter().enumerate() {
        html.raw(if place > 0 { "<br>" } else { "" });
        leader(html, lease, report.now);
    }
    html.raw("</dd>\n<dt>API server</dt><dd>")
        .foreign(&report.api_server);
    html.raw("</dd>\n<dt>Running for</dt><dd>");
    let up = report.now.0.as_second() - report.started.0.as_second();
    time(html, report.started, &length(up.max(0).unsigned_abs()));
    html.raw("</dd>\n</dl>\n</header>\n");
}

fn leader(html: &mut Html, lease: &LeaseReport, now: Time) {
    if lease.is_leader {
        html.raw("<span class=\"good\">this process</span>, ")
            .foreign(&lease.identity);
    } else if lease.holder.is_empty() {
        html.raw("<span class=\"warn\">nobody</span> as far as is known; this process is ");
        html.foreign(&lease.identity);
    } else if lease.is_stopping() {
        html.raw("<span class=\"warn\">this process</span>, ")
            .foreign(&lease.identity);
        html.text(", which is stopping");
    } else {
        html.raw("another process, ").foreign(&lease.holder);
        html.text("; this one stands by and shows only what it does itself");
    }
    html.raw(" <span class=\"quiet\">(Lease ")
        .text(&lease.lease);
    if let Some(until) = lease.valid_until.filter(|_| lease.is_leader) {
        html.text(", valid until ");
        time(html, until, &until.of_day());
        html.text(format_args!(" unless renewed, {}", until.seen_from(now)));
    }
    html.raw(")</span>");
}

fn navigation(html: &mut Html, report: &StatusReport) {
    html.raw("<nav aria-label=\"Sections\"><ul>\n<li><a href=\"#providers\">Providers</a> ");
    count(html, report.providers.len());
    html.raw("</li>\n<li><a href=\"#deletions\">Held deletions</a> ");
    count(html, report.held_deletions().count());
    html.raw("</li>\n<li><a href=\"#brakes\">Engaged brakes</a> ");
    let engaged = report
        .brakes
        .iter()
        .filter(|one| one.is_engaged(report.now));
    count(html, engaged.count());
    html.raw("</li>\n<li><a href=\"#waiting\">Waiting</a> ");
    count(html, report.others_waiting().count());
    html.raw("</li>\n<li><a href=\"#budgets\">Cloud requests</a></li>\n");
    html.raw("<li><a href=\"#decisions\">Decisions</a></li>\n</ul></nav>\n");
}

fn count(html: &mut Html, count: usize) {
    html.raw("<span class=\"quiet number\">(")
        .text(count)
        .raw(")</span>");
}

fn held_deletions(html: &mut Html, report: &StatusReport) {
    html.raw("<section aria-labelledby=\"deletions\">\n<h2 id=\"deletions\">Held deletions</h2>\n");
    let held: Vec<_> = report.held_deletions().collect();
    if held.is_empty() {
        html.raw("<p>No deletion is held.</p>\n</section>\n");
        return;
    }
    html.raw("<p>Each is tried again by itself. Where a person can release it, the reason says how.</p>\n");
    let caption = "What is to be deleted and stays for now; the oldest first";
    waiting_table(html, &held, report.now, caption, "deletions");
    html.raw("</section>\n");
}

fn waiting(html: &mut Html, report: &StatusReport) {
    html.raw("<section aria-labelledby=\"waiting\">\n<h2 id=\"waiting\">Waiting</h2>\n");
    let waiting: Vec<_> = report.others_waiting().collect();
    if waiting.is_empty() {
        html.raw("<p>No node, Service or route waits.</p>\n</section>\n");
        return;
    }
    let caption = "Nodes, Services and routes that wait; the oldest first";
    waiting_table(html, &waiting, report.now, caption, "waiting");
    if report.is_waiting_cut {
        html.raw("<p class=\"warn\">More objects wait than are kept.</p>\n");
    }
    html.raw("</section>\n");
}

fn waiting_table(
    html: &mut Html,
    rows: &[&WaitingReport],
    now: Time,
    caption: &'static str,
    region: &'static str,
) {
    open_table(html, caption, region, &["Object", "Why", "Next try"]);
    for row in rows.iter().take(MOST_ROWS) {
        html.raw("<tr><th scope=\"row\">")
            .foreign(&row.object)
            .raw("<small>");
        whose(html, &row.provider, &row.controller);
        html.raw("</small></th><td>").foreign(&row.why);
        html.raw("</td><td class=\"when\">");
        match row.next {
            Some(next) => time(html, next, &next.seen_from(now)),
            None => {
                html.text("when it changes");
            }
        }
        html.raw("<small>since ");
        time(html, row.since, &row.since.seen_from(now));
        html.raw("</small><small>attempt ")
            .text(row.attempt)
            .raw("</small></td></tr>\n");
    }
    html.raw("</tbody></table></div>\n");
    if rows.len() > MOST_ROWS {
        html.raw("<p>").text(rows.len() - MOST_ROWS);
        html.raw(" more are in the JSON form.</p>\n");
    }
}

fn brakes(html: &mut Html, report: &StatusReport) {
    html.raw("<section aria-labelledby=\"brakes\">\n<h2 id=\"brakes\">Brakes</h2>\n");
    if report.brakes.is_empty() {
        html.raw("<p>No brake is in use.</p>\n</section>\n");
        return;
    }
    let caption = "Budgets for dangerous changes that are partly or wholly spent";
    open_table(html, caption, "brakes", &["Brake", "Spent", "Released by"]);
    for brake in &report.brakes {
        brake_row(html, brake, report.now);
    }
    html.raw("</tbody></table></div>\n</section>\n");
}

fn brake_row(html: &mut Html, brake: &BrakeReport, now: Time) {
    html.raw("<tr><th scope=\"row\">")
        .text(&brake.brake)
        .raw("<small>");
    html.foreign(&brake.provider).raw("</small></th><td>");
    html.raw(match brake.is_engaged(now) {
        true => "<span class=\"bad\">engaged</span>",
        false => "<span class=\"good\">released</span>",
    });
    html.raw("<small class=\"number\">")
        .text(brake.taken)
        .text(" of ")
        .text(brake.allowed);
    html.text(format_args!(" in {}", length(brake.window_seconds)))
        .raw("</small>");
    if brake.is_engaged_by_all(now) {
        html.raw("<small>the budget of all providers together is spent</small>");
    }
    html.raw("</td><td>");
    if let Some(held) = &brake.held {
        html.text("holds ").foreign(&held.object).text(" since ");
        time(html, held.at, &held.at.seen_from(now));
        html.text("; ");
        match held.free {
            Some(free) => {
                html.text("room again ");
                time(html, free, &free.seen_from(now));
            }
            None => {
                html.text("no such change is allowed");
            }
        }
        html.raw("<br>");
    }
    html.text(&brake.release).raw("</td></tr>\n");
}

fn decisions(html: &mut Html, report: &StatusReport) {
    html.raw("<section aria-labelledby=\"decisions\">\n<h2 id=\"decisions\">Decisions</h2>\n");
    if report.decisions.is_empty() {
        html.raw("<p>Nothing was decided yet.</p>\n</section>\n");
        return;
    }
    let caption = "The last hundred decisions, newest first; routine look-ups of unchanged nodes are left out";
    open_table(html, caption, "decisions", &["Time", "Decision", "Outcome"]);
    for decision in report.decisions.iter().take(MOST_ROWS) {
        decision_row(html, decision);
    }
    html.raw("</tbody></table></div>\n</section>\n");
}

fn decision_row(html: &mut Html, decision: &DecisionReport) {
    html.raw("<tr><td class=\"when\">");
    time(html, decision.at, &decision.at.of_day());
    if decision.times > 1 {
        html.raw("<small>")
            .text(decision.times)
            .raw(" times</small>");
    }
    html.raw("</td><td>")
        .foreign(&decision.effect)
        .raw("<small>");
    html.foreign(&decision.object).text(", ");
    whose(html, &decision.provider, &decision.controller);
    html.raw(match decision.is_success {
        true => "</small></td><td>",
        false => "</small></td><td><span class=\"bad\">not done</span> ",
    });
    html.foreign(&decision.outcome).raw("</td></tr>\n");
}

/// Adds the object's provider and controller.
fn whose(html: &mut Html, provider: &str, controller: &str) {
    if provider != "-" {
        html.foreign(provider).text(", ");
    }
    html.text(controller);
}

fn open_table(
    html: &mut Html,
    caption: &'static str,
    region: &'static str,
    columns: &[&'static str],
) {
    html.raw("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"")
        .raw(region);
    html.raw("\">\n<table><caption>")
        .raw(caption)
        .raw("</caption>\n<thead><tr>");
    for column in columns {
        html.raw("<th scope=\"col\">").raw(column).raw("</th>");
    }
    html.raw("</tr></thead>\n<tbody>\n");
}

fn time(html: &mut Html, time: Time, shown: &str) {
    html.raw("<time datetime=\"")
        .text(time)
        .raw("\" title=\"")
        .text(time)
        .raw("\">");
    html.text(shown).raw("</time>");
}

#[cfg(test)]
mod tests;
