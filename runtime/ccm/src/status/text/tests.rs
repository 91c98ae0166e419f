#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;

/// A report with one of everything, and with every field.
fn report() -> StatusReport {
    let every_field = json!({
        "component": "cloud-controller-manager", "version": "1.2.3", "mode": "enforce",
        "apiServer": "https://10.0.0.1:6443",
        "started": "2026-03-01T09:00:00.000Z", "now": "2026-03-01T12:00:00.000Z",
        "hasElection": false,
        "leases": [{
            "lease": "kube-system/ccm", "identity": "a_1", "isLeader": true, "holder": "a_1",
            "validUntil": "2026-03-01T12:00:09.000Z",
        }],
        "providers": [{
            "name": "hcloud", "source": "embedded:hcloud", "trouble": "the registry is away",
            "annotationPrefixes": ["load-balancer.hetzner.cloud/", "example.com/"],
            "state": { "name": "serving", "version": "0.1.0", "digest": "sha256:0a" },
            "trial": {
                "version": "0.2.0", "digest": "sha256:0b", "phase": "canary",
                "since": "2026-03-01T11:57:00.000Z",
                "lines": ["find: 10 answers, 0 faults"],
            },
            "targets": [{
                "name": "api", "endpoint": "https://api.hetzner.cloud/v1", "proxy": "http://proxy:3128",
                "reads": ["GET /servers"],
                "writes": ["POST /load_balancers"], "requests": 3600, "perSeconds": 3600,
                "requestsLeft": 3590, "heldSeconds": 30,
                "cloud": { "remaining": 3512, "limit": 3600, "resetSeconds": 88, "ageSeconds": 4 },
            }],
        }],
        "waiting": [{
            "object": "node/laptop", "provider": "hcloud", "controller": "cloud-node-controller",
            "why": "no such machine", "attempt": 3, "since": "2026-03-01T11:57:00.000Z",
            "next": "2026-03-01T12:00:12.000Z", "isDeletion": false,
        }, {
            "object": "node/b", "provider": "hcloud", "controller": "cloud-node-lifecycle-controller",
            "why": "it is young", "attempt": 1, "since": "2026-03-01T11:59:00.000Z", "next": null,
            "isDeletion": true,
        }],
        "isWaitingCut": true,
        "brakes": [{
            "brake": "node-deletion", "provider": "hcloud", "taken": 3, "allowed": 3, "windowSeconds": 600,
            "isSpentByAll": true,
            "held": { "object": "node/b", "at": "2026-03-01T11:59:00.000Z", "free": "2026-03-01T12:05:00.000Z" },
            "release": "time",
        }],
        "decisions": [{
            "at": "2026-03-01T11:59:58.000Z", "controller": "cloud-node-controller", "provider": "hcloud",
            "object": "node/laptop", "effect": "find node/laptop",
            "outcome": "unavailable: 503", "isSuccess": false, "times": 4,
        }],
    });
    let report: StatusReport = serde_json::from_value(every_field.clone()).unwrap();
    assert_eq!(serde_json::to_value(&report).unwrap(), every_field);
    report
}

#[test]
fn a_terminal_shows_what_the_page_shows() {
    let expected = "\
component     cloud-controller-manager
version       1.2.3
mode          enforce
API server    https://10.0.0.1:6443
running for   3 h
leader        this process, a_1 (Lease kube-system/ccm, valid 9 s more)

PROVIDER   STATE    VERSION   DIGEST      SOURCE
hcloud     serves   0.1.0     sha256:0a   embedded:hcloud

hcloud has trouble: the registry is away

hcloud, canary: 0.2.0 (sha256:0b), for 3 min
  find: 10 answers, 0 faults

hcloud at api (https://api.hetzner.cloud/v1 through http://proxy:3128): 1 kind of read; may change
  POST /load_balancers

hcloud may set annotations of Services under load-balancer.hetzner.cloud/, example.com/

HELD DELETIONS   NEXT TRY          SINCE      ATTEMPT   PROVIDER   CONTROLLER                        WHY
node/b           when it changes   60 s ago   1         hcloud     cloud-node-lifecycle-controller   it is young

BRAKE           PROVIDER   STATE     SPENT              HOLDS                                  RELEASED BY
node-deletion   hcloud     engaged   3 of 3 in 10 min   node/b for 60 s; room again in 5 min   time

WAITING       NEXT TRY   SINCE       ATTEMPT   PROVIDER   CONTROLLER              WHY
node/laptop   in 12 s    3 min ago   3         hcloud     cloud-node-controller   no such machine
More objects wait than are kept.

TARGET   PROVIDER   REQUESTS LEFT             STATE                   LEFT AT THE CLOUD
api      hcloud     3590 of 3600 per 60 min   rate-limited for 30 s   3512 of 3600, said 4 s ago; resets in 88 s

TIME       TIMES   PROVIDER   CONTROLLER              DECISION           OUTCOME
11:59:58   4       hcloud     cloud-node-controller   find node/laptop   not done: unavailable: 503
";
    assert_eq!(describe(&report()), expected);
}

#[test]
fn who_has_to_act_is_told_of_a_provider_that_is_not_served() {
    for (is_final, next) in [(true, "a person has to act"), (false, "it is tried again")] {
        let mut report = report();
        let why = "no token".to_owned();
        report.providers[0].state = ProviderState::Failed { why, is_final };
        let text = describe(&report);
        let expected = format!("hcloud is not served, and {next}: no token\n");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn a_change_that_is_not_allowed_has_no_time_at_which_there_is_room() {
    let mut report = report();
    report.brakes[0].held.as_mut().unwrap().free = None;
    let text = describe(&report);
    let expected = "node/b for 60 s; no such change is allowed   time";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_brake_that_holds_a_change_is_engaged_whoever_spent_the_budget() {
    let mut report = report();
    report.brakes[0].taken = 1;
    let row = "engaged   1 of 3 in 10 min; the budget of all providers together is spent   node/b";
    let text = describe(&report);
    assert!(text.contains(row), "{text}");
    report.brakes[0].held.as_mut().unwrap().free = Some(report.now);
    let text = describe(&report);
    assert!(text.contains("released   1 of 3 in 10 min   "), "{text}");
}

#[test]
fn a_leader_that_stops_is_no_other_process() {
    let mut report = report();
    for (holder, who) in [
        ("a_1", "this process, a_1, which is stopping (Lease"),
        ("b_2", "b_2; this process stands by (Lease"),
        ("", "nobody as far as is known; this is a_1 (Lease"),
    ] {
        report.leases[0].is_leader = false;
        report.leases[0].holder = holder.to_owned();
        let text = describe(&report);
        assert!(text.contains(&format!("leader        {who}")), "{text}");
    }
}

#[test]
fn only_a_process_that_changes_something_acts_alone() {
    let nothing = "this process takes part in no election, and changes nothing";
    for (mode, who) in [
        ("enforce", "there is no election: this process acts alone"),
        ("plan", nothing),
        ("observe", nothing),
    ] {
        let mut report = report();
        report.leases.clear();
        report.mode = mode.to_owned();
        let text = describe(&report);
        assert!(text.contains(&format!("leader        {who}\n")), "{text}");
    }
}

#[test]
fn a_spent_budget_of_requests_is_not_open() {
    let mut report = report();
    let target = &mut report.providers[0].targets[0];
    (target.requests_left, target.held_seconds) = (0, None);
    let text = describe(&report);
    assert!(text.contains("0 of 3600 per 60 min   spent"), "{text}");
}
