#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_core::status_report::{
    CloudQuotaReport, HeldReport, ProviderReport, ProviderState, TargetReport, TrialReport,
};

use super::*;

fn at(time: &str) -> Time {
    Time(time.parse().unwrap())
}

fn now() -> Time {
    at("2026-03-01T12:00:00Z")
}

/// A report without providers, objects or decisions.
fn idle() -> StatusReport {
    StatusReport {
        component: "cloud-controller-manager".to_owned(),
        version: "1.2.3".to_owned(),
        mode: "enforce".to_owned(),
        api_server: "https://10.0.0.1:6443/".to_owned(),
        started: at("2026-03-01T09:00:00Z"),
        now: now(),
        has_election: false,
        leases: Vec::new(),
        providers: Vec::new(),
        waiting: Vec::new(),
        is_waiting_cut: false,
        brakes: Vec::new(),
        decisions: Vec::new(),
    }
}

fn waits(object: &str, why: &str, is_deletion: bool) -> WaitingReport {
    WaitingReport {
        object: object.to_owned(),
        provider: "hcloud".to_owned(),
        controller: "cloud-node-controller".to_owned(),
        why: why.to_owned(),
        attempt: 3,
        since: at("2026-03-01T11:57:00Z"),
        next: Some(at("2026-03-01T12:00:12Z")),
        is_deletion,
    }
}

fn decided(effect: &str, outcome: &str, is_success: bool) -> DecisionReport {
    DecisionReport {
        at: at("2026-03-01T11:59:58.5Z"),
        controller: "cloud-node-controller".to_owned(),
        provider: "hcloud".to_owned(),
        object: "node/worker-1".to_owned(),
        effect: effect.to_owned(),
        outcome: outcome.to_owned(),
        is_success,
        times: if is_success { 1 } else { 4 },
    }
}

fn serving() -> ProviderReport {
    ProviderReport {
        name: "hcloud".to_owned(),
        source: "builtin:hcloud".to_owned(),
        state: ProviderState::Serving {
            version: "0.1.0".to_owned(),
            digest: format!("sha256:{}", "0a".repeat(32)),
        },
        trial: Some(TrialReport {
            version: "0.2.0".to_owned(),
            digest: format!("sha256:{}", "0b".repeat(32)),
            phase: "waits for approval".to_owned(),
            since: Some(at("2026-03-01T11:00:00Z")),
            lines: vec!["DELETE /servers/* (write)".to_owned()],
        }),
        trouble: String::new(),
        targets: vec![TargetReport {
            name: "api".to_owned(),
            endpoint: "https://api.hetzner.cloud/v1".to_owned(),
            proxy: Some("http://proxy.example.com:3128".to_owned()),
            reads: vec!["GET /servers".to_owned()],
            writes: vec![
                "POST /load_balancers".to_owned(),
                "DELETE /load_balancers/*".to_owned(),
            ],
            requests: 3600,
            per_seconds: 3600,
            requests_left: 3590,
            held_seconds: None,
            cloud: Some(CloudQuotaReport {
                remaining: 3512,
                limit: Some(3600),
                reset_seconds: Some(88),
                age_seconds: 4,
            }),
        }],
        annotation_prefixes: vec!["load-balancer.hetzner.cloud/".to_owned()],
    }
}

/// A report with every kind of entry.
fn busy() -> StatusReport {
    StatusReport {
        leases: vec![LeaseReport {
            lease: "kube-system/cloud-controller-manager".to_owned(),
            identity: "control-1_4b7d".to_owned(),
            is_leader: true,
            holder: "control-1_4b7d".to_owned(),
            valid_until: Some(at("2026-03-01T12:00:09Z")),
        }],
        providers: vec![
            serving(),
            ProviderReport {
                name: "other".to_owned(),
                source: "/etc/ccm/other.wasm".to_owned(),
                state: ProviderState::Failed {
                    why: "no such file".to_owned(),
                    is_final: true,
                },
                trial: None,
                trouble: "the source cannot be read".to_owned(),
                targets: Vec::new(),
                annotation_prefixes: Vec::new(),
            },
        ],
        waiting: vec![
            waits("node/laptop", "the cloud has no such machine", false),
            waits(
                "node/worker-9",
                "its machine is gone, and the node stays",
                true,
            ),
        ],
        brakes: vec![BrakeReport {
            brake: "node-deletion".to_owned(),
            provider: "hcloud".to_owned(),
            taken: 3,
            allowed: 3,
            window_seconds: 600,
            is_spent_by_all: true,
            held: Some(HeldReport {
                object: "node/worker-9".to_owned(),
                at: at("2026-03-01T11:59:00Z"),
                free: Some(at("2026-03-01T12:05:00Z")),
            }),
            release: "time".to_owned(),
        }],
        decisions: vec![
            decided("patch node/worker-1", "done", true),
            decided("delete node/worker-1", "conflict: it has changed", false),
        ],
        ..idle()
    }
}

/// Compares with a file; with `CCM_GOLDEN` set, writes it.
fn golden(name: &str, html: &str) {
    let file = format!("{}/src/status/page/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("CCM_GOLDEN").is_some() {
        std::fs::write(&file, html).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(html, expected, "{file}; CCM_GOLDEN=1 writes it");
}

/// The page without its stylesheet.
fn rendered(report: &StatusReport, refresh: Refresh) -> String {
    render(report, refresh).replace(STYLE, "")
}

#[test]
fn a_page_shows_one_of_everything() {
    golden("busy.html", &rendered(&busy(), Refresh::Automatic));
}

#[test]
fn a_page_says_where_there_is_nothing() {
    golden("idle.html", &rendered(&idle(), Refresh::ByHand));
    let mut unserved = idle();
    unserved.has_election = true;
    let page = rendered(&unserved, Refresh::ByHand);
    assert!(page.contains("is no candidate") && !page.contains("acts alone"));
    for mode in ["plan", "observe"] {
        let mut report = idle();
        report.mode = mode.to_owned();
        let page = rendered(&report, Refresh::ByHand);
        let who = "this process takes part in no election, and changes nothing";
        assert!(page.contains(who) && !page.contains("acts alone"), "{page}");
    }
}

#[test]
fn a_leader_that_stops_is_no_other_process() {
    let mut report = busy();
    report.leases[0].is_leader = false;
    let page = rendered(&report, Refresh::ByHand);
    let who = "this process</span>, <bdi>control-1_4b7d</bdi>, which is stopping";
    assert!(page.contains(who), "{page}");
    assert!(!page.contains("another process"), "{page}");
    report.leases[0].holder = "control-2_07aa".to_owned();
    let page = rendered(&report, Refresh::ByHand);
    let who = "another process, <bdi>control-2_07aa</bdi>; this one stands by";
    assert!(page.contains(who), "{page}");
    assert!(!page.contains("which is stopping"), "{page}");
}

#[test]
fn a_spent_budget_of_requests_is_not_open() {
    let mut report = busy();
    report.providers[0].targets[0].requests_left = 0;
    let page = rendered(&report, Refresh::ByHand);
    assert!(page.contains(">spent</span>"), "{page}");
    assert!(!page.contains(">open</span>"), "{page}");
}

#[test]
fn a_brake_is_engaged_while_it_holds_a_change_whoever_spent_the_budget() {
    let by_all = "the budget of all providers together is spent";
    let (later, before) = ("2026-03-01T12:05:00Z", "2026-03-01T11:59:59Z");
    // Taken of three, until when the change is held, and what the page says.
    for (taken, free, is_engaged, is_by_all) in [
        (3, Some(later), true, false),
        (1, Some(later), true, true),
        (0, None, true, true),
        (3, Some(before), false, false),
        (1, Some(before), false, false),
    ] {
        let mut report = busy();
        let brake = &mut report.brakes[0];
        brake.taken = taken;
        brake.held.as_mut().unwrap().free = free.map(at);
        let page = rendered(&report, Refresh::ByHand);
        let case = format!("{taken} of 3 until {free:?}: {page}");
        assert_eq!(page.contains(">engaged</span>"), is_engaged, "{case}");
        assert_eq!(page.contains(">released</span>"), !is_engaged, "{case}");
        assert_eq!(page.contains(by_all), is_by_all, "{case}");
    }
    let mut report = busy();
    let brake = &mut report.brakes[0];
    (brake.taken, brake.is_spent_by_all) = (1, false);
    let page = rendered(&report, Refresh::ByHand);
    assert!(
        page.contains(">engaged</span>"),
        "one was given back: {page}"
    );
    assert!(!page.contains(by_all), "{page}");
    report.brakes[0].held = None;
    let page = rendered(&report, Refresh::ByHand);
    assert!(page.contains(">released</span>"), "{page}");
}

#[test]
fn what_others_say_stays_text() {
    let hostile = "<script>alert(1)</script>\u{202e}\"'><img src=x onerror=y>";
    let huge = "&".repeat(100_000);
    let mut report = busy();
    report.api_server = hostile.to_owned();
    report.leases[0].holder = hostile.to_owned();
    report.leases[0].is_leader = false;
    report.waiting = vec![waits(hostile, hostile, true), waits(&huge, &huge, false)];
    report.decisions = vec![decided(hostile, &huge, false)];
    report.brakes[0].provider = hostile.to_owned();
    for provider in &mut report.providers {
        provider.name = hostile.to_owned();
        provider.source = hostile.to_owned();
        provider.trouble = hostile.to_owned();
        provider.annotation_prefixes = vec![hostile.to_owned()];
        provider.state = ProviderState::Serving {
            version: hostile.to_owned(),
            digest: hostile.to_owned(),
        };
        for target in &mut provider.targets {
            target.name = hostile.to_owned();
            target.endpoint = hostile.to_owned();
            target.writes = vec![hostile.to_owned()];
            target.reads = vec![hostile.to_owned()];
        }
        if let Some(trial) = &mut provider.trial {
            trial.version = hostile.to_owned();
            trial.lines = vec![hostile.to_owned()];
        }
    }
    let html = rendered(&report, Refresh::Automatic);
    for never in ["<script", "<img", "\u{202e}", "\"'>"] {
        assert!(!html.contains(never), "{never}");
    }
    assert!(html.len() < 100_000, "{}", html.len());
}

#[test]
fn a_page_has_a_bound_however_much_waits() {
    let mut report = idle();
    report.waiting = vec![waits("node/a", &"x".repeat(1000), false); 10_000];
    report.is_waiting_cut = true;
    let html = rendered(&report, Refresh::Automatic);
    assert!(html.len() < 1_000_000, "{}", html.len());
    assert!(html.contains("9500 more are in the JSON form"));
}

#[test]
fn the_interval_in_the_markup_is_the_one_of_the_text() {
    let html = rendered(&idle(), Refresh::Automatic);
    let meta = format!("<meta http-equiv=\"refresh\" content=\"{REFRESH_SECONDS}\">");
    assert!(html.contains(&meta) && html.contains(&format!("every {REFRESH_SECONDS} s")));
    assert!(!rendered(&idle(), Refresh::ByHand).contains("http-equiv"));
}

#[test]
fn the_json_form_says_the_same() {
    let report = busy();
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(
        serde_json::from_str::<StatusReport>(&json).unwrap().waiting,
        report.waiting
    );
    assert!(
        json.contains("\"next\":\"2026-03-01T12:00:12.000Z\""),
        "{json}"
    );
}

#[test]
fn times_are_told_from_now() {
    for (time, expected) in [
        ("2026-03-01T12:00:00Z", "now"),
        ("2026-03-01T12:01:59Z", "in 119 s"),
        ("2026-03-01T12:10:00Z", "in 10 min"),
        ("2026-03-01T09:00:00Z", "3 h ago"),
        ("2026-02-01T12:00:00Z", "28 d ago"),
    ] {
        assert_eq!(at(time).seen_from(now()), expected);
    }
}
