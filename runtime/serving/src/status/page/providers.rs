//! The parts of the page about providers: the version that serves, the requests that it may send, and how many of them
//! are left.

use ccm_core::status_report::{ProviderReport, ProviderState, StatusReport, TargetReport, length};

use super::super::html::Html;
use super::{open_table, time};

/// Adds the table of providers: versions, trials and grants.
pub(super) fn section(html: &mut Html, report: &StatusReport) {
    html.raw("<section aria-labelledby=\"providers\">\n<h2 id=\"providers\">Providers</h2>\n");
    if report.providers.is_empty() {
        html.raw("<p>No provider is configured.</p>\n</section>\n");
        return;
    }
    let columns = ["Provider", "State", "Version and digest"];
    open_table(
        html,
        "The configured providers, and what serves",
        "providers",
        &columns,
    );
    for provider in &report.providers {
        row(html, provider);
    }
    html.raw("</tbody></table></div>\n");
    for provider in &report.providers {
        details(html, provider, report);
    }
    html.raw("</section>\n");
}

fn row(html: &mut Html, provider: &ProviderReport) {
    html.raw("<tr><th scope=\"row\">")
        .foreign(&provider.name)
        .raw("<small>");
    html.foreign(&provider.source).raw("</small></th><td>");
    match &provider.state {
        ProviderState::Starting => {
            html.raw("<span class=\"warn\">starting</span></td><td>-");
        }
        ProviderState::Failed { why, is_final } => {
            html.raw("<span class=\"bad\">not served</span>")
                .raw(match is_final {
                    true => "<small>a person has to act</small>",
                    false => "<small>tried again</small>",
                });
            html.raw("</td><td>").foreign(why);
        }
        ProviderState::Serving { version, digest } => {
            html.raw("<span class=\"good\">serves</span></td><td>")
                .foreign(version);
            html.raw("<br><code>").foreign(digest).raw("</code>");
        }
    }
    if !provider.trouble.is_empty() {
        html.raw("<br><span class=\"bad\">trouble:</span> ")
            .foreign(&provider.trouble);
    }
    html.raw("</td></tr>\n");
}

fn details(html: &mut Html, provider: &ProviderReport, report: &StatusReport) {
    if let Some(trial) = &provider.trial {
        html.raw("<h3>")
            .foreign(&provider.name)
            .text(": next version");
        html.raw("</h3>\n<p><span class=\"warn\">")
            .text(&trial.phase)
            .raw("</span>: ");
        html.foreign(&trial.version)
            .raw(" <code>")
            .foreign(&trial.digest)
            .raw("</code>");
        if let Some(since) = trial.since {
            html.text(", since ");
            time(html, since, &since.seen_from(report.now));
        }
        html.raw("</p>\n<ul>\n");
        for line in &trial.lines {
            html.raw("<li>").foreign(line).raw("</li>\n");
        }
        html.raw("</ul>\n");
    }
    for target in &provider.targets {
        grants(html, provider, target);
    }
    if !provider.annotation_prefixes.is_empty() {
        html.raw("<p>")
            .foreign(&provider.name)
            .text(" may set annotations of Services under ");
        for (place, prefix) in provider.annotation_prefixes.iter().enumerate() {
            html.raw(if place > 0 { ", <code>" } else { "<code>" });
            html.foreign(prefix).raw("</code>");
        }
        html.raw(".</p>\n");
    }
}

fn grants(html: &mut Html, provider: &ProviderReport, target: &TargetReport) {
    html.raw("<h3>")
        .foreign(&provider.name)
        .text(" may reach ")
        .foreign(&target.name);
    html.raw("</h3>\n<div class=\"grants\">\n<p>At ")
        .foreign(&target.endpoint);
    if let Some(proxy) = &target.proxy {
        html.text(", through the proxy ").foreign(proxy);
    }
    html.raw(".</p>\n");
    if target.writes.is_empty() {
        html.raw("<p>It may change nothing there.</p>\n");
    } else {
        html.raw("<p>It may change:</p>\n");
        lines(html, &target.writes);
    }
    html.raw("<details><summary>It may read: ")
        .text(target.reads.len())
        .text(" kinds of requests");
    html.raw("</summary>\n");
    lines(html, &target.reads);
    html.raw("</details>\n</div>\n");
}

fn lines(html: &mut Html, lines: &[String]) {
    html.raw("<ul>\n");
    for line in lines {
        html.raw("<li><code>").foreign(line).raw("</code></li>\n");
    }
    html.raw("</ul>\n");
}

/// Adds the table of the requests to clouds that are left.
pub(super) fn budgets(html: &mut Html, report: &StatusReport) {
    html.raw("<section aria-labelledby=\"budgets\">\n<h2 id=\"budgets\">Cloud requests</h2>\n");
    let targets = report.providers.iter();
    let targets =
        targets.flat_map(|provider| provider.targets.iter().map(move |it| (provider, it)));
    let targets: Vec<_> = targets.collect();
    if targets.is_empty() {
        html.raw("<p>No provider may send requests.</p>\n</section>\n");
        return;
    }
    let columns = ["Target", "Left of the budget", "Left at the cloud", "State"];
    open_table(
        html,
        "Requests that providers may still send",
        "budgets",
        &columns,
    );
    for (provider, target) in targets {
        html.raw("<tr><th scope=\"row\">")
            .foreign(&target.name)
            .raw("<small>");
        html.foreign(&provider.name)
            .raw("</small></th><td class=\"number\">");
        html.text(target.requests_left)
            .text(" of ")
            .text(target.requests);
        html.raw("<small>refilled over ")
            .text(length(target.per_seconds))
            .raw("</small></td><td class=\"number\">");
        match &target.cloud {
            Some(cloud) => {
                html.text(cloud.left()).raw("<small>");
                html.text(cloud.when()).raw("</small>");
            }
            None => {
                html.raw("-<small>the cloud has said nothing</small>");
            }
        }
        html.raw("</td><td>");
        match target.held_seconds {
            Some(seconds) => {
                html.raw("<span class=\"bad\">rate-limited</span><small>the cloud wants no requests for ");
                html.text(length(seconds)).raw("</small>");
            }
            None if target.requests_left == 0 => {
                html.raw("<span class=\"bad\">spent</span>");
            }
            None => {
                html.raw("<span class=\"good\">open</span>");
            }
        }
        html.raw("</td></tr>\n");
    }
    html.raw("</tbody></table></div>\n</section>\n");
}
