//! A scrape, judged by Prometheus' own tools: `promtool` reads the classic format and reports bad style, the parser of
//! OpenMetrics' authors reads the other one. The scrapes are golden files of unit tests.

use std::fs::File;
use std::process::{Command, Stdio};

use serde_json::json;

use super::checkout;
use super::python::Client;

#[test]
fn promtool_has_nothing_to_say_but_of_upstreams_own_names() {
    // How often upstream's own names are bad style.
    for (scrape, upstreams) in [("classic.txt", 5), ("versions.txt", 0), ("slis.txt", 0)] {
        let scrape = File::open(checkout().join("tests/metrics").join(scrape)).unwrap();
        let output = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::from(scrape))
            .output()
            .expect("promtool is not in PATH (on Debian: apt-get install prometheus)");
        let reported =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        // The label clusterCIDR is upstream's.
        let is_upstreams = |line: &str| {
            line.starts_with("node_ipam_controller_")
                && line.ends_with("label names should be written in 'snake_case' not 'camelCase'")
        };
        let ours: Vec<_> = reported
            .lines()
            .filter(|line| !is_upstreams(line))
            .collect();
        assert_eq!(ours, Vec::<&str>::new());
        assert_eq!(reported.lines().count(), upstreams, "{reported}");
    }
}

#[test]
fn the_parser_of_openmetrics_own_authors_reads_the_same_families() {
    let text = std::fs::read_to_string(checkout().join("tests/metrics/openmetrics.txt")).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let expected: Vec<_> = types
        .map(|family| json!(family.split(' ').collect::<Vec<_>>()))
        .collect();
    assert!(expected.len() > 40, "{}", expected.len());
    let read = Client::install("openmetrics").drive(&json!({ "text": text }), &[]);
    assert_eq!(read, expected);
}
