//! The metrics of a scrape, compared with the list that is made from the Go modules, and with the table for operators.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use ccm_core::ipam::{CidrSet, Holder};
use ccm_metrics::build::{self, Build};
use ccm_metrics::process;
use ccm_metrics::requests::{Ended, RequestEnd, RequestMetrics, StatedRemaining};
use ccm_metrics::text::{Format, encode};
use http::{Method, StatusCode};

use super::*;
use crate::Pace;
use crate::clock::Clock;
use crate::lease::ElectionMetrics;

#[derive(Debug, PartialEq, Eq)]
struct Shape {
    kind: String,
    /// Stability level; `-` where a metric has none.
    stability: String,
    labels: BTreeSet<String>,
    buckets: Vec<String>,
}

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Upstream's list: `name type stability {labels} [buckets]`.
fn list() -> BTreeMap<String, Shape> {
    let words = |text: &str, separator| {
        let parts = text.split(separator).filter(|part: &&str| !part.is_empty());
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let text = file("tests/metrics/upstream.txt");
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let families = lines.map(|line| {
        let (front, rest) = line.split_once(" {").unwrap();
        let (labels, buckets) = rest.split_once("} [").unwrap();
        let front: Vec<_> = front.split(' ').collect();
        let [name, kind, stability] = front.as_slice() else {
            panic!("{line}");
        };
        let shape = Shape {
            kind: (*kind).to_owned(),
            stability: (*stability).to_owned(),
            labels: words(labels, ',').into_iter().collect(),
            buckets: words(buckets.trim_end_matches(']'), ' '),
        };
        ((*name).to_owned(), shape)
    });
    families.collect()
}

/// The metrics in a scrape of the classic format.
fn shapes(text: &str) -> BTreeMap<String, Shape> {
    let mut families = BTreeMap::<String, Shape>::new();
    let mut stability = "-";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let words = help.split_once(' ').unwrap().1;
            let marked = words
                .strip_prefix('[')
                .and_then(|rest| rest.split_once(']'));
            stability = marked.map_or("-", |(stability, _)| stability);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let shape = Shape {
                kind: kind.to_owned(),
                stability: stability.to_owned(),
                labels: BTreeSet::new(),
                buckets: Vec::new(),
            };
            assert!(
                families.insert(name.to_owned(), shape).is_none(),
                "{name} is there twice"
            );
        } else if let Some((name, labels)) = line.split_once('{') {
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| {
                    families
                        .keys()
                        .find(|known| **known == name.trim_end_matches(suffix))
                })
                .cloned();
            let shape = families.get_mut(family.as_deref().unwrap_or(name)).unwrap();
            // Every second text between quotes is a value.
            let mut texts = labels.split('"');
            while let (Some(label), Some(value)) = (texts.next(), texts.next()) {
                let label = label.trim_matches([',', '=']);
                if label != "le" {
                    shape.labels.insert(label.to_owned());
                } else if value != "+Inf" && !shape.buckets.iter().any(|bound| bound == value) {
                    shape.buckets.push(value.to_owned());
                }
            }
        }
    }
    families
}

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
    metrics.asked_about_routes("sim", RouteOperation::List, "success", second);
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
    let rest = RestMetrics::default();
    rest.register(&mut registry);
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
    requests.ended(&Ended {
        provider: "hcloud",
        target: "api",
        method: "GET",
        endpoint: Some("/servers/{id}"),
        end: RequestEnd::Answered(200),
        took: second,
    });
    registry
}

/// One row of the table in `deploy/docs/metrics.md`.
struct Row {
    name: String,
    kind: String,
    labels: BTreeSet<String>,
    origin: String,
    text: String,
}

impl Row {
    fn covers(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => self.name == name,
        }
    }
}

fn table() -> Vec<Row> {
    let text = file("deploy/docs/metrics.md");
    let lines = text.lines().filter(|line| line.starts_with("| `"));
    let rows = lines.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, labels, origin, text] = cells.as_slice() else {
            panic!("not five cells: {line}");
        };
        let labels = labels.split(", ").filter(|label| !label.is_empty());
        Row {
            name: name.trim_matches('`').to_owned(),
            kind: (*kind).to_owned(),
            labels: labels.map(str::to_owned).collect(),
            origin: (*origin).to_owned(),
            text: (*text).to_owned(),
        }
    });
    rows.collect()
}

#[tokio::test]
async fn proc_047_every_metric_of_upstreams_is_the_same_or_left_out_for_a_reason() {
    let (list, scrape, table) = (list(), everything(), table());
    let scrape = shapes(&encode(&scrape, Format::Classic).unwrap());
    assert!(list.len() > 100, "{}", list.len());
    let mut wrong = Vec::new();
    for (name, upstream) in &list {
        let rows: Vec<_> = table.iter().filter(|row| row.covers(name)).collect();
        let [row] = rows.as_slice() else {
            wrong.push(format!("{name} has {} rows", rows.len()));
            continue;
        };
        match (&*row.origin, scrape.get(name)) {
            ("left out", None) => {}
            ("upstream" | "vendor", Some(ours)) if ours == upstream => {}
            (origin, ours) => wrong.push(format!(
                "{name} ({origin}): {upstream:?}, and here {ours:?}"
            )),
        }
    }
    for row in &table {
        let is_listed = list.keys().any(|name| row.covers(name));
        if is_listed == (row.origin == "ours") || row.text.is_empty() {
            wrong.push(format!("the row {} ({}) is not true", row.name, row.origin));
        }
        if row.name.ends_with('*') && row.origin != "left out" {
            wrong.push(format!(
                "{} stands for several, and is not left out",
                row.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_table_for_operators_has_the_types_and_labels_of_a_scrape() {
    let scrape = shapes(&encode(&everything(), Format::Classic).unwrap());
    let table = table();
    let mut wrong = Vec::new();
    for (name, shape) in &scrape {
        match table.iter().find(|row| row.name == *name) {
            Some(row) if row.kind == shape.kind && row.labels == shape.labels => {}
            _ => wrong.push(format!("{name}: {shape:?}")),
        }
    }
    // Metrics of the providers' versions are registered by the program alone, which has a test of its own.
    let is_elsewhere = |row: &&Row| {
        let of_versions = [
            "ccm_provider_info",
            "ccm_provider_load_seconds",
            "ccm_provider_swaps_total",
        ];
        row.origin == "left out" || of_versions.contains(&&*row.name)
    };
    for row in table.iter().filter(|row| !is_elsewhere(row)) {
        if !scrape.contains_key(&row.name) {
            wrong.push(format!("{} is in the table alone", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
