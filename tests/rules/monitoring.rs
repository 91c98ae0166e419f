//! `deploy/monitoring` is consistent: each alert has a runbook and a test that fires it, rules and dashboard use only
//! metrics of the page of metrics, and texts that are written twice agree. `tests/foreign` shows that Prometheus
//! accepts it.

use std::collections::BTreeSet;

use ccm_core::cloud::error::ProviderError;
use ccm_core::reconciliation::event::reasons;
use ccm_fixtures::metrics::{Row, page};
use serde_json::Value;

use crate::lists::{assert_none, root, text};

/// Functions, operators and units of PromQL outside braces and brackets.
const WORDS: [&str; 15] = [
    "absent",
    "and",
    "changes",
    "count",
    "histogram_quantile",
    "increase",
    "max",
    "offset",
    "or",
    "rate",
    "sum",
    "time",
    "unless",
    "h",
    "m",
];

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&text(&format!("deploy/{file}"))).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn field_text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn alerts(file: &Value) -> impl Iterator<Item = &Value> {
    let groups = list(&file["groups"]).iter();
    groups.flat_map(|group| list(&group["rules"]))
}

fn names(rules: &Value) -> BTreeSet<String> {
    let names = alerts(rules).map(|rule| field_text(rule, "alert").to_owned());
    names.collect()
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&text("deploy/monitoring/dashboard.json")).unwrap();
    list(&dashboard["panels"]).to_vec()
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let rules = yaml("monitoring/rules.yaml");
    let page = text("deploy/docs/runbooks.md");
    let mut problems = Vec::new();
    let mut sections = BTreeSet::new();
    for section in page.split("\n## ").skip(1) {
        let name = section.lines().next().unwrap();
        sections.insert(name.to_owned());
        for part in ["**Meaning.**", "**Look.**", "**Do.**"] {
            if !section.contains(part) {
                problems.push(format!("the runbook {name} has no {part}"));
            }
        }
    }
    assert_eq!(names(&rules), sections);
    for rule in alerts(&rules) {
        let (name, notes) = (field_text(rule, "alert"), &rule["annotations"]);
        let anchor = format!("/deploy/docs/runbooks.md#{}", name.to_lowercase());
        if !field_text(notes, "runbook_url").ends_with(&anchor) {
            problems.push(format!("{name}: runbook_url does not end with {anchor}"));
        }
        if field_text(notes, "summary").is_empty() || field_text(notes, "description").is_empty() {
            problems.push(format!("{name}: no summary or no description"));
        }
        if !["critical", "warning"].contains(&field_text(&rule["labels"], "severity")) {
            problems.push(format!("{name}: no severity that we have"));
        }
    }
    // Links from one runbook to another.
    for target in page.split("](#").skip(1) {
        let target = target.split(')').next().unwrap();
        if !sections.iter().any(|name| name.to_lowercase() == target) {
            problems.push(format!("no runbook #{target}"));
        }
    }
    assert_none(&problems);
}

/// The section of an alert in the runbooks, as one line.
fn section(alert: &str) -> String {
    let page = text("deploy/docs/runbooks.md");
    let mut sections = page.split("\n## ");
    let section = sections.find(|section| section.lines().next() == Some(alert));
    let words: Vec<&str> = section.unwrap().split_whitespace().collect();
    words.join(" ")
}

/// The results of failed calls about load balancers and routes. `held` is never a result: to the metric a brake is
/// `throttled`.
fn failures() -> [&'static str; 12] {
    let text = String::new;
    let conflict = ProviderError::Conflict {
        message: text(),
        owner: None,
    };
    let throttled = ProviderError::Throttled {
        message: text(),
        retry_after: None,
    };
    [
        ProviderError::Invalid(text()),
        ProviderError::Denied(text()),
        conflict,
        throttled,
        ProviderError::Unavailable(text()),
        ProviderError::Unsupported(text()),
        ProviderError::Elsewhere,
        ProviderError::Internal(text()),
        ProviderError::TimedOut(text()),
        ProviderError::Trapped(text()),
        ProviderError::Interrupted(text()),
        ProviderError::NotBegun(text()),
    ]
    .map(|error| error.reason())
}

/// The values of a label that an expression admits: those that it lists, or all results but those.
fn admitted<'a>(expression: &'a str, label: &str) -> Vec<&'a str> {
    let listed = |operator: &str| -> Option<Vec<&'a str>> {
        let (_, rest) = expression.split_once(&format!("{label}{operator}\""))?;
        let (values, _) = rest.split_once('"')?;
        Some(values.split('|').collect())
    };
    match listed("=~") {
        Some(mut values) => {
            values.retain(|value| !value.contains('.'));
            values
        }
        None => {
            let others = listed("!~").unwrap();
            let failures = failures().into_iter();
            failures.filter(|one| !others.contains(one)).collect()
        }
    }
}

#[test]
fn a_runbook_says_what_to_do_about_each_kind_that_its_alert_tells_apart() {
    let rules = yaml("monitoring/rules.yaml");
    let mut problems = Vec::new();
    for (alert, label) in [
        ("CCMProviderNeedsAction", "state"),
        ("CCMCloudRequestsFailing", "code"),
        ("CCMCloudRequestsThrottled", "code"),
        ("CCMLoadBalancerOperationsFailing", "result"),
        ("CCMRouteOperationsFailing", "result"),
    ] {
        let rule = alerts(&rules).find(|rule| field_text(rule, "alert") == alert);
        let kinds = admitted(field_text(rule.unwrap(), "expr"), label);
        let section = section(alert);
        let (_, remedy) = section.split_once("**Do.**").unwrap();
        let unknown = kinds
            .iter()
            .filter(|kind| !remedy.contains(&format!("`{kind}`")));
        problems.extend(unknown.map(|kind| format!("{alert}: nothing to do about {kind}")));
    }
    assert_none(&problems);
}

#[test]
fn the_runbook_about_missing_routes_names_the_event_of_each_cause() {
    let section = section("CCMRoutesMissing");
    for reason in [
        reasons::FAILED_TO_CREATE_ROUTE,
        reasons::FOREIGN_ROUTE,
        reasons::CLUSTER_CIDR_MISCONFIGURED,
        reasons::POD_CIDR_OVERLAPS,
    ] {
        let reason = reason.reason;
        assert!(section.contains(&format!("`{reason}`")), "{reason}");
    }
}

#[test]
fn runbooks_name_the_answers_of_a_cloud_whose_limit_is_reached() {
    for (alert, words) in [
        (
            "CCMCloudRequestsFailing",
            &["`resource_limit_exceeded`", "`ROBOT_RATE_LIMIT_WAIT_TIME`"][..],
        ),
        (
            "CCMLoadBalancerOperationsFailing",
            &["a limit of the account"],
        ),
        (
            "CCMCloudRequestsThrottled",
            &["`RequestLimitExceeded`", "`Throttling`"],
        ),
    ] {
        let section = section(alert);
        for word in words {
            assert!(section.contains(word), "{alert} does not name {word}");
        }
    }
}

#[test]
fn every_alert_is_fired_by_a_case_and_is_silent_before() {
    let cases = yaml("monitoring/rules.test.yaml");
    let mut fired = BTreeSet::new();
    let mut problems = Vec::new();
    for case in list(&cases["tests"]) {
        let name = field_text(case, "name");
        let queries = list(&case["promql_expr_test"]);
        let alert = format!("ALERTS{{alertname=\"{name}\", alertstate=\"firing\", ");
        let fires = queries.iter().any(|query| {
            let samples = list(&query["exp_samples"]).iter();
            samples
                .map(|one| field_text(one, "labels"))
                .any(|labels| labels.starts_with(&alert))
        });
        let silent = queries.iter().any(|query| query["exp_samples"].is_null());
        if fires {
            fired.insert(name.to_owned());
        } else if name != "healthy" {
            problems.push(format!("the case {name} does not fire it"));
        }
        if !silent {
            problems.push(format!("the case {name} is never silent"));
        }
    }
    assert_none(&problems);
    assert_eq!(names(&yaml("monitoring/rules.yaml")), fired);
}

/// The series of `/metrics`, by the page of metrics, and Prometheus' own about a scrape.
fn exported() -> BTreeSet<String> {
    let mut names = BTreeSet::from(["up".to_owned()]);
    for Row { name, kind, .. } in page("/metrics") {
        match &*kind {
            "histogram" => {
                names.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
            }
            "counter" | "gauge" => drop(names.insert(name)),
            _ => {}
        }
    }
    assert!(names.len() > 60, "{names:?}");
    names
}

/// The text with a space in place of each part from `open` to the next `close`.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut parts = text.split(open);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push(' ');
        kept.push_str(part.split_once(close).map_or("", |(_, rest)| rest));
    }
    kept
}

fn problems_of(place: &str, query: &str, exported: &BTreeSet<String>) -> Vec<String> {
    let is_of_a_name = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let mut problems = Vec::new();
    let mut selectors: Vec<&str> = query.split('{').collect();
    selectors.pop();
    if selectors.is_empty() {
        problems.push(format!("{place}: {query} selects nothing"));
    }
    for before in &selectors {
        let name = &before[before.trim_end_matches(is_of_a_name).len()..];
        if !exported.contains(name) {
            problems.push(format!("{place}: nobody exports {name:?}"));
        }
    }
    if query.matches("{job=\"ccm\"").count() != selectors.len() {
        problems.push(format!("{place}: {query} does not say of which job"));
    }
    // Outside the braces there may be words of the language, and no metric.
    let bare = without(&without(query, "by (", ")"), "on (", ")");
    let bare = without(&bare, "[", "]");
    let bare = bare.split('}').map(|part| {
        let outside = part.split('{').next().unwrap();
        match part.contains('{') {
            true => outside.trim_end_matches(is_of_a_name),
            false => outside,
        }
    });
    let bare: Vec<String> = bare.map(str::to_owned).collect();
    for word in bare
        .iter()
        .flat_map(|part| part.split(|one| !is_of_a_name(one)))
    {
        let word = word.trim_start_matches(|one: char| one.is_ascii_digit());
        if !word.is_empty() && !WORDS.contains(&word) {
            problems.push(format!(
                "{place}: {word:?} is no word that is expected in {query}"
            ));
        }
    }
    problems
}

#[test]
fn rules_and_dashboard_ask_only_for_metrics_that_are_exported() {
    let exported = exported();
    let mut problems = Vec::new();
    for rule in alerts(&yaml("monitoring/rules.yaml")) {
        let expression = field_text(rule, "expr");
        problems.extend(problems_of(
            field_text(rule, "alert"),
            expression,
            &exported,
        ));
    }
    for panel in panels() {
        for target in list(&panel["targets"]) {
            let expression = field_text(target, "expr");
            problems.extend(problems_of(
                field_text(&panel, "title"),
                expression,
                &exported,
            ));
        }
    }
    assert_none(&problems);
    assert!(!problems_of("a test", "rate(ccm_gone_total{job=\"ccm\"}[5m])", &exported).is_empty());
    assert!(!problems_of("a test", "up{job=\"ccm\"} + ccm_routes", &exported).is_empty());
    assert!(!problems_of("a test", "sum(ccm_routes{provider=\"one\"})", &exported).is_empty());
}

/// Gauges about the whole cluster. Each process that counts them counts all: several do before a hand-over is seen, and with
/// `--mode=plan`, which takes part in no election.
const OF_THE_CLUSTER: [&str; 4] = [
    "ccm_plan_pending",
    "ccm_routes",
    "node_ipam_controller_cidrset_usage_cidrs",
    "node_ipam_controller_cirdset_max_cidrs",
];

#[test]
fn what_each_process_counts_of_the_whole_cluster_is_not_added_up() {
    let rules = yaml("monitoring/rules.yaml");
    let mut queries: Vec<String> = alerts(&rules)
        .map(|rule| field_text(rule, "expr").to_owned())
        .collect();
    for panel in panels() {
        let targets = list(&panel["targets"]).iter();
        queries.extend(targets.map(|target| field_text(target, "expr").to_owned()));
    }
    let added_up = |name: &str, query: &str| {
        let query = without(query, "by (", ")").replace([' ', '\n'], "");
        query.contains(&format!("sum({name}{{"))
    };
    let mut problems = Vec::new();
    for name in OF_THE_CLUSTER {
        assert!(queries.iter().any(|query| query.contains(name)), "{name}");
        let wrong = queries.iter().filter(|query| added_up(name, query));
        problems.extend(wrong.map(|query| format!("{query}: {name} is added up")));
    }
    assert_none(&problems);
}

#[test]
fn every_panel_has_a_unit_or_says_what_it_counts_and_runbooks_know_the_panels() {
    let mut problems = Vec::new();
    let panels = panels();
    let titles: BTreeSet<&str> = panels
        .iter()
        .map(|panel| field_text(panel, "title"))
        .collect();
    assert_eq!(titles.len(), panels.len(), "two panels have one title");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let (title, unit) = (
            field_text(panel, "title"),
            field_text(&panel["fieldConfig"]["defaults"], "unit"),
        );
        let description = field_text(panel, "description");
        if unit.is_empty() || (unit == "none" && description.is_empty()) {
            problems.push(format!("{title}: neither a unit nor a reason"));
        }
        if list(&panel["targets"]).is_empty() {
            problems.push(format!("{title}: no query"));
        }
    }
    let page = text("deploy/docs/runbooks.md").replace('\n', " ");
    for sentence in page.split("dashboard's ").skip(1) {
        let sentence = sentence.split(['.', ';']).next().unwrap();
        for title in sentence.split('"').skip(1).step_by(2) {
            if !titles.iter().any(|panel| panel.starts_with(title)) {
                problems.push(format!("no panel {title:?}"));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn the_operators_rules_are_the_same() {
    let rules = text("deploy/monitoring/rules.yaml");
    let (file, here) = (
        "monitoring/prometheusrule.yaml",
        text("deploy/monitoring/prometheusrule.yaml"),
    );
    let (head, _) = here.split_once("spec:\n").unwrap();
    let lines = rules.lines().filter(|line| !line.starts_with('#'));
    let body: String = lines.map(|line| format!("  {line}\n")).collect();
    let expected = format!("{head}spec:\n{body}");
    if std::env::var_os("CCM_BLESS").is_some() {
        std::fs::write(root().join("deploy").join(file), &expected).unwrap();
    }
    assert!(
        here == expected,
        "{file} is not as rules.yaml: CCM_BLESS=1 writes it anew"
    );
}

#[test]
fn the_scrape_finds_the_pods_and_the_port_that_their_probes_have() {
    let pods = yaml("kustomize/base/daemonset.yaml");
    let template = &pods["spec"]["template"];
    let probe = &template["spec"]["containers"][0]["livenessProbe"]["httpGet"];
    let port = format!(":{}", probe["port"]);
    let monitor = yaml("monitoring/podmonitor.yaml");
    let labels = &template["metadata"]["labels"];
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], *labels);
    // The value of this label is the job's name.
    assert_eq!(labels[field_text(&monitor["spec"], "jobLabel")], "ccm");
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let rules = list(&endpoint["relabelings"]);
    assert_eq!(rules.len(), 2);
    let page = text("deploy/docs/monitoring.md");
    for rule in rules {
        let replacement = field_text(rule, "replacement");
        assert!(replacement.ends_with(&port), "{replacement}");
        assert!(
            page.contains(&format!("replacement: '{replacement}'")),
            "{replacement}"
        );
    }
}
