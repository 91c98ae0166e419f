//! The alerts and the dashboard, judged by Prometheus: its tool checks and fires the alerts, and it answers every query
//! of the dashboard from the golden scrapes. Grafana's own types read the dashboard.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use ccm_tests::prometheus::Prometheus;
use serde_json::Value;
use tempfile::TempDir;

use super::checkout;
use super::python::Client;

fn promtool(arguments: &[&str]) -> String {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(checkout().join("deploy/monitoring"))
        .output()
        .expect("promtool is not in PATH (on Debian: apt-get install prometheus)");
    let reported =
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}");
    reported
}

#[test]
fn promtool_fires_every_alert_and_none_on_a_healthy_manager() {
    let reported = promtool(&["check", "rules", "rules.yaml"]);
    assert!(reported.contains("SUCCESS: 23 rules found"), "{reported}");
    let reported = promtool(&["test", "rules", "rules.test.yaml"]);
    assert!(reported.contains("SUCCESS"), "{reported}");
}

/// Serves this text to every client, until the program ends.
fn serve(text: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut part) = (Vec::new(), [0; 1024]);
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.extend_from_slice(&part[..count]),
                }
            }
            let length = text.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            // Prometheus repeats the request if its connection has closed.
            let _ = stream.write_all((head + &text).as_bytes());
        }
    });
    address
}

/// The metrics of a query: the names in front of its braces.
fn metrics(query: &str) -> Vec<&str> {
    let mut parts: Vec<_> = query.split('{').collect();
    parts.pop();
    let is_of_a_name = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let name = |part: &'_ str| part.trim_end_matches(is_of_a_name).len();
    parts.into_iter().map(|part| &part[name(part)..]).collect()
}

#[tokio::test]
async fn prometheus_answers_every_query_of_the_dashboard() {
    let golden = ["classic.txt", "versions.txt"].map(|scrape| {
        let path = checkout().join("tests/metrics").join(scrape);
        std::fs::read_to_string(path).unwrap()
    });
    let golden = golden.concat();
    let address = serve(golden.clone());
    let folder = TempDir::new().unwrap();
    let rules = checkout().join("deploy/monitoring/rules.yaml");
    let rules = rules.canonicalize().unwrap();
    let configuration = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [{}]\n\
         scrape_configs: [{{ job_name: ccm, static_configs: [{{ targets: ['{address}'] }}] }}]\n",
        rules.display()
    );
    let mut prometheus = Prometheus::start(folder.path(), &configuration).unwrap();
    // A rate needs two scrapes.
    let scraped = "count_over_time(up{job=\"ccm\"}[1m]) > 2";
    prometheus.until(scraped).await.unwrap();

    let file = checkout().join("deploy/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let mut answered = 0;
    for target in targets {
        let query = target["expr"].as_str().unwrap();
        let asked = query
            .replace("$__rate_interval", "1m")
            .replace("$instance", ".*");
        let series = prometheus.query(&asked).unwrap();
        for name in metrics(query) {
            let is_scraped = name == "up" || golden.lines().any(|line| line.starts_with(name));
            assert!(is_scraped, "{query}: no scrape has {name}");
        }
        assert!(!series.is_empty(), "{query} selects nothing");
        answered += 1;
    }
    assert!(answered > 40, "{answered}");
}

/// The fields of `written` that `read` lacks, or has with another value.
fn lost(place: &str, written: &Value, read: &Value, into: &mut Vec<String>) {
    match (written, read) {
        (Value::Object(fields), Value::Object(others)) => {
            for (key, value) in fields {
                let other = others.get(key).unwrap_or(&Value::Null);
                lost(&format!("{place}/{key}"), value, other, into);
            }
        }
        (Value::Array(values), Value::Array(others)) if values.len() == others.len() => {
            for (number, (value, other)) in values.iter().zip(others).enumerate() {
                lost(&format!("{place}/{number}"), value, other, into);
            }
        }
        _ if written == read => {}
        _ => into.push(format!("{place}: {written}")),
    }
}

#[test]
fn grafanas_own_types_know_every_field_of_the_dashboard() {
    let file = checkout().join("deploy/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut misspelt = dashboard.clone();
    let panel = misspelt["panels"][1].as_object_mut().unwrap();
    let place = panel.remove("gridPos").unwrap();
    panel.insert("gridPoss".to_owned(), place);
    let client = Client::install("grafana");
    let read = client.drive(&serde_json::json!([dashboard, misspelt]), &[]);
    let mut problems = Vec::new();
    lost("", &dashboard, &read[0], &mut problems);
    assert_eq!(problems, Vec::<String>::new());
    // A field that Grafana does not know is noticed.
    lost("", &misspelt, &read[1], &mut problems);
    assert!(
        problems
            .iter()
            .any(|one| one.starts_with("/panels/1/gridPoss")),
        "{problems:?}"
    );
}
