//! The page of metrics, from the golden scrapes, which tests of the crates that count hold, and from the list of the Go
//! managers' metrics.

use std::fmt::Write as _;

use ccm_fixtures::metrics::{SCRAPES, golden, listed};

use super::{cell, hold};

/// Maximum length of a help text: one sentence or two.
const LONGEST_HELP: usize = 200;

#[test]
fn the_page_of_metrics_is_what_the_scrapes_say() {
    let mut body = String::new();
    for ((path, scrapes), at_least) in SCRAPES.into_iter().zip([50, 2]) {
        write!(
            body,
            "## `{path}`\n\n| Metric | Type | Labels | Stability | Origin | Meaning |\n|---|---|---|---|---|---|\n"
        )
        .unwrap();
        let listed = listed(path);
        let mut rows: Vec<_> = scrapes.iter().flat_map(|scrape| golden(scrape)).collect();
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, metric) in &rows {
            let help = &metric.help;
            assert!(
                (1..=LONGEST_HELP).contains(&help.len()),
                "{name} has a help text of {} bytes: {help}",
                help.len()
            );
            let labels: Vec<_> = metric.shape.labels.iter().map(String::as_str).collect();
            writeln!(
                body,
                "| `{name}` | {} | {} | {} | {} | {} |",
                metric.shape.kind,
                labels.join(", "),
                metric.shape.stability.trim_matches('-'),
                listed.get(name).map_or("ours", |one| one.origin),
                cell(help)
            )
            .unwrap();
        }
        assert!(rows.len() >= at_least, "{path}: {}", rows.len());
        body.push('\n');
    }
    hold(
        "metrics.md",
        "Metrics",
        "Every metric that `ccm` exports, by the path that serves it. *Upstream* metrics are those of the framework \
         `k8s.io/cloud-provider`, the libraries below it and the node IPAM controller; *vendor* metrics are those of a vendor's own \
         Go manager; *ours* have no counterpart. [About metrics](../metrics.md) explains formats, queues and labels, and which \
         metrics of the Go managers are left out.",
        &body,
    );
}
