//! The metrics of a scrape, compared with the list that is made from the Go modules, and with the page for operators.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ccm_core::ipam::{CidrSet, Holder};
use ccm_fixtures::metrics::{self, Scraped, file, scraped};
use ccm_metrics::build::{self, Build};
use ccm_metrics::process;
use ccm_metrics::requests::{EndedRequest, RequestEnd, RequestMetrics, StatedRemaining};
use ccm_metrics::text::{Format, encode};
use http::{Method, StatusCode};

use super::*;
use crate::Pace;
use crate::clock::Clock;
use crate::lease::ElectionMetrics;

/// A registry as the program's, without the engine's metrics, with a series for every metric.
fn everything() -> Registry {
    let mut registry = Registry::default();
    let version = "1.2.3";
    build::register(
        &mut registry,
        Build {
            version,
            commit: "",
        },
    );
    process::register(&mut registry);
    let metrics = Metrics::register(&mut registry);
    let second = Duration::from_secs(1);
    metrics.initialised(second);
    metrics.planned(&BTreeMap::new());
    metrics.held(Brake::NodeDeletion, "sim");
    metrics.held_deletion("old enough", "sim");
    metrics.asked("sim", Operation::UpdateTargets, "timed-out", second);
    metrics.passed_nodes(second);
    metrics.passes_routes();
    metrics.asked("sim", Operation::ListRoutes, "success", second);
    metrics.count_routes("sim", &Tally::default());
    let mut set = CidrSet::new("10.0.0.0/22".parse().unwrap(), 24).unwrap();
    let before = set.tally();
    let allocated = set.allocate(&Holder::Services).unwrap();
    metrics.ipam.set_blocks(&set, before);
    metrics.ipam.tried(&set, allocated.tries);
    drop(metrics.controllers.start("cloud-node"));
    let clock = Clock::start(Pace::REAL);
    let meter = metrics.queues.meter(QueueName::Nodes, clock);
    meter.added(1);
    meter.begins(clock.now(), clock.now());
    // The gauges of a queue are shown while it exists.
    std::mem::forget(meter);
    let elections = ElectionMetrics::register(&mut registry);
    elections.leads("cloud-controller-manager", true);
    elections.slow_path("cloud-controller-manager");
    let rest = RestMetrics::register(&mut registry);
    let request = RequestMeter::new(rest, "10.0.0.1:6443".into(), &Method::GET, false);
    request.waited(second);
    request.answered(Some(StatusCode::OK), Some(0), second);
    request.received(100);
    let requests = RequestMetrics::register(&mut registry);
    requests.begun("hcloud", "api");
    let listener: Arc<dyn Send + Sync> = Arc::new(());
    let stated = StatedRemaining {
        remaining: 3512,
        lasts: Duration::from_secs(3600),
        listener: Arc::downgrade(&listener),
    };
    requests.cloud_admits("hcloud", "api", &stated);
    std::mem::forget(listener);
    requests.ended(&EndedRequest {
        provider: "hcloud",
        target: "api",
        method: "GET",
        endpoint: Some("/servers/{id}"),
        end: RequestEnd::Answered(200),
        took: second,
    });
    registry
}

/// The metrics of each path: here and, as far as other crates count them, in their golden scrapes.
fn served() -> [(&'static str, BTreeMap<String, Scraped>); 2] {
    let mut all = scraped(&encode(&everything(), Format::Classic).unwrap());
    all.extend(metrics::golden("versions.txt"));
    [
        ("/metrics", all),
        ("/metrics/slis", metrics::golden("slis.txt")),
    ]
}

/// One row of the tables in `deploy/docs/metrics.md`: metrics that upstream or a vendor has and this program has not.
struct LeftOut {
    path: String,
    name: String,
    reason: String,
}

impl LeftOut {
    fn covers(&self, path: &str, name: &str) -> bool {
        let is_named = match self.name.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => self.name == name,
        };
        is_named && self.path == path
    }
}

/// The rows of all tables; the first cell of a table's head ends with the path.
fn left_out() -> Vec<LeftOut> {
    let (mut path, mut rows) = (String::new(), Vec::new());
    for line in file("deploy/docs/metrics.md").lines() {
        if let Some(head) = line.strip_prefix("| Left out of `") {
            path = head.split('`').next().unwrap().to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let (name, reason) = row.split_once("` |").unwrap();
            rows.push(LeftOut {
                path: path.clone(),
                name: name.to_owned(),
                reason: reason.trim_matches([' ', '|']).to_owned(),
            });
        }
    }
    rows
}

#[tokio::test]
async fn proc_047_every_metric_of_upstreams_is_the_same_or_left_out_for_a_reason() {
    let left_out = left_out();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (path, served) in served() {
        let (listed, page) = (metrics::listed(path), metrics::page(path));
        compared += listed.len();
        for (name, upstream) in &listed {
            let reasons = left_out.iter().filter(|one| one.covers(path, name));
            let rows: Vec<_> = page.iter().filter(|row| row.name == *name).collect();
            match (reasons.count(), rows.as_slice(), served.get(name)) {
                (1, [], None) => {}
                (0, [row], Some(ours))
                    if row.origin == upstream.origin && ours.shape == upstream.shape => {}
                (reasons, rows, ours) => wrong.push(format!(
                    "{name} of {path} is left out for {reasons} reasons: {upstream:?}, here {ours:?}, on the page {rows:?}"
                )),
            }
        }
        for row in &page {
            if listed.contains_key(&row.name) == (row.origin == "ours") || row.meaning.is_empty() {
                wrong.push(format!("the row {row:?} of {path} is not true"));
            }
        }
        for one in left_out.iter().filter(|one| one.path == path) {
            if !listed.keys().any(|name| one.covers(path, name)) || one.reason.is_empty() {
                wrong.push(format!("{} is left out of {path} for nothing", one.name));
            }
        }
    }
    assert!(compared > 100, "{compared}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_page_for_operators_has_the_types_labels_and_stability_of_a_scrape() {
    for (path, served) in served() {
        let page = metrics::page(path);
        let mut wrong = Vec::new();
        for (name, Scraped { shape, .. }) in &served {
            match page.iter().find(|row| row.name == *name) {
                Some(row)
                    if row.kind == shape.kind
                        && row.labels == shape.labels
                        && row.stability == shape.stability => {}
                row => wrong.push(format!("{name}: {shape:?}, and on the page {row:?}")),
            }
        }
        for row in page.iter().filter(|row| !served.contains_key(&row.name)) {
            wrong.push(format!("{} is on the page alone", row.name));
        }
        assert!(wrong.is_empty(), "{path}: {}", wrong.join("\n"));
    }
}

/// A scrape without its values and without differences between machines. Series of counters and gauges are sorted:
/// their order is that of a hash map.
fn golden(format: Format) -> String {
    let text = encode(&everything(), format).unwrap();
    let (mut golden, mut series) = (String::new(), Vec::new());
    for line in text.lines().chain(["#"]) {
        if let Some((name, _)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) {
            let name = name.replace("linux/arm64", "linux/amd64");
            series.push(format!("{name} 1\n"));
            continue;
        }
        if !series.iter().any(|one| one.contains("_bucket{")) {
            series.sort();
        }
        golden.extend(series.drain(..));
        if line != "#" {
            golden.push_str(&format!("{line}\n"));
        }
    }
    golden
}

#[tokio::test]
async fn a_scrape_in_both_formats_is_the_golden_one() {
    for (format, path) in [
        (Format::Classic, "tests/metrics/classic.txt"),
        (Format::OpenMetrics, "tests/metrics/openmetrics.txt"),
    ] {
        let found = golden(format);
        if std::env::var_os("CCM_BLESS").is_some() {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            std::fs::write(root.join(path), &found).unwrap();
        }
        assert!(
            found == file(path),
            "CCM_BLESS=1 writes {path} anew:\n{found}"
        );
    }
}
