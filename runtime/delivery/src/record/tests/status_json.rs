//! The record as JSON, and orders as annotations.

use std::collections::BTreeMap;

use ccm_core::rollout::{
    MOST_APPROVED, MOST_LINES, MOST_REASON, MOST_REJECTED, Orders, Phase, Record,
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{digest, full};
use crate::record::{Report, Specification, acts_otherwise, annotations, conditions, status_json};

#[test]
fn what_is_written_is_read_again() {
    for record in [Record::default(), full()] {
        let written = json!(status_json::write(&record));
        assert_eq!(status_json::read(&written), record);
    }
}

#[test]
fn a_stored_record_differs_by_what_replicas_act_on_and_not_by_shortened_texts() {
    let mut own = full();
    own.rejected[0].reason = "x".repeat(2 * MOST_REASON);
    let stored = status_json::read(&json!(status_json::write(&own)));
    assert_ne!(stored, own);
    let stored = || stored.clone();
    let without = |part: fn(&mut Record)| {
        let mut record = stored();
        part(&mut record);
        record
    };
    for (name, stored, expected) in [
        ("nothing", stored(), false),
        ("the trial", without(|it| it.trial = None), false),
        ("the trouble", without(|it| it.trouble.clear()), false),
        ("the active one", without(|it| it.active = None), true),
        ("the previous one", without(|it| it.previous = None), true),
        ("a rejection", without(|it| it.rejected.clear()), true),
        ("an approval", without(|it| it.approved.truncate(1)), true),
    ] {
        assert_eq!(acts_otherwise(&own, &stored), expected, "{name}");
    }
}

#[test]
fn what_there_is_not_is_left_out_which_takes_it_away() {
    let written = json!(status_json::write(&Record::default()));
    for name in ["active", "previous", "trial", "goneBack"] {
        assert!(written.get(name).is_none(), "{name}");
    }
    for name in ["rejected", "approved"] {
        assert_eq!(written[name], json!([]), "{name}");
    }
}

#[test]
fn what_somebody_else_wrote_is_left_out_where_it_is_not_of_the_form() {
    let of = |status: Value| status_json::read(&status);
    for status in [
        json!(null),
        json!([]),
        json!("Active"),
        json!({"active": {"digest": "sha256:short"}, "previous": 7, "trial": [], "rejected": {}, "approved": "x"}),
        json!({"active": {"digest": digest(1).to_uppercase()}}),
        json!({"trial": {"digest": digest(1), "phase": "Promoted", "since": "2026-01-01T00:00:00Z"}}),
        json!({"rejected": [{"reason": "no digest"}, 7, null], "approved": [7, "sha256:", null]}),
        json!({"unknown": true, "state": "Active"}),
    ] {
        assert_eq!(of(status.clone()), Record::default(), "{status}");
    }
    let odd = of(json!({"active": {"digest": digest(1), "since": "yesterday", "version": 7}}));
    let active = odd.active.unwrap();
    assert_eq!((active.since, active.release.version.as_str()), (0, ""));
}

#[test]
fn orders_are_read_from_annotations_and_from_nothing_else() {
    let sha = digest(1);
    // Such as two digests in one annotation.
    let (longer, longest) = (format!("{sha},"), format!("{sha},{sha}"));
    for (key, value, expected) in [
        (
            "wasm-ccm.dev/pin",
            sha.as_str(),
            Orders {
                pin: Some(sha.clone()),
                ..Orders::default()
            },
        ),
        // No version has this digest: nothing new begins, as for any pinned version that is not known.
        (
            "wasm-ccm.dev/pin",
            " 1.0.0",
            Orders {
                pin: Some("1.0.0".to_owned()),
                ..Orders::default()
            },
        ),
        (
            "wasm-ccm.dev/pin",
            longest.as_str(),
            Orders {
                pin: Some(longer),
                ..Orders::default()
            },
        ),
        ("wasm-ccm.dev/pin", "", Orders::default()),
        (
            "wasm-ccm.dev/pause",
            "true",
            Orders {
                pause: true,
                ..Orders::default()
            },
        ),
        (
            "wasm-ccm.dev/pause",
            "",
            Orders {
                pause: true,
                ..Orders::default()
            },
        ),
        ("wasm-ccm.dev/pause", "false", Orders::default()),
        ("wasm-ccm.dev/pause", "False", Orders::default()),
        (
            "wasm-ccm.dev/roll-back",
            "true",
            Orders {
                roll_back: true,
                ..Orders::default()
            },
        ),
        ("wasm-ccm.dev/roll-back", "0", Orders::default()),
        ("wasm-ccm.dev/roll-back", "no", Orders::default()),
        (
            "wasm-ccm.dev/approve",
            sha.as_str(),
            Orders {
                approve: Some(sha.clone()),
                ..Orders::default()
            },
        ),
        ("wasm-ccm.dev/approve", "everything", Orders::default()),
        (
            "wasm-ccm.dev/retry",
            sha.as_str(),
            Orders {
                retry: Some(sha.clone()),
                ..Orders::default()
            },
        ),
        (
            "wasm-ccm.dev/allow-downgrade",
            sha.as_str(),
            Orders {
                allow_downgrade: Some(sha.clone()),
                ..Orders::default()
            },
        ),
        (
            "wasm-ccm.dev/allow-changes",
            sha.as_str(),
            Orders {
                allow_changes: Some(sha.clone()),
                ..Orders::default()
            },
        ),
        ("example.com/pause", "true", Orders::default()),
    ] {
        let found = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        assert_eq!(annotations::orders(Some(&found)), expected, "{key}={value}");
    }
    assert_eq!(annotations::orders(None), Orders::default());
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let mut report = Report {
        record: full(),
        is_serving: true,
        ..Report::default()
    };
    let orders = Orders::default();
    let first = conditions::status(&report, &orders, None, time("2026-01-01T00:00:00.5Z"));
    let first = json!(first);
    let of = |fields: &Value, kind: &str| {
        let all = fields["conditions"].as_array().unwrap().clone();
        all.into_iter().find(|it| it["type"] == kind).unwrap()
    };
    assert_eq!(first["state"], "WaitsForApproval");
    assert_eq!(first["shortDigest"], "010101010101");
    assert_eq!(of(&first, "Ready")["status"], "True");
    assert_eq!(of(&first, "PermissionsPending")["status"], "True");
    assert_eq!(of(&first, "Progressing")["status"], "False");
    report.source_trouble = "it is down".to_owned();
    report.record.trial = None;
    let now = time("2026-01-02T00:00:00Z");
    let then = json!(conditions::status(
        &report,
        &orders,
        first.get("conditions"),
        now
    ));
    assert_eq!(
        of(&then, "Ready")["lastTransitionTime"],
        "2026-01-01T00:00:00Z"
    );
    let pending = of(&then, "PermissionsPending");
    assert_eq!(pending["status"], "False");
    assert_eq!(pending["lastTransitionTime"], "2026-01-02T00:00:00Z");
    assert_eq!(of(&then, "SourceReachable")["message"], "it is down");
}

#[test]
fn a_condition_has_the_reason_of_its_status() {
    fn is_in(report: &mut Report, phase: Phase) {
        report.record.trial.as_mut().unwrap().phase = phase;
    }
    // The version that was rejected last was so at 1_700_000_050.
    fn serves_since(report: &mut Report, since: u64) {
        report.record.trial = None;
        report.record.active.as_mut().unwrap().since = since;
    }
    type Change = fn(&mut Report, &mut Orders);
    let cases: [(Change, &str, &str, &str); 13] = [
        (|_, _| {}, "PermissionsPending", "True", "WaitsForApproval"),
        (|_, _| {}, "Progressing", "False", "Waiting"),
        (|_, _| {}, "Ready", "True", "Serving"),
        (
            |report, _| is_in(report, Phase::WaitsForGrants),
            "PermissionsPending",
            "True",
            "WaitsForGrants",
        ),
        (
            |report, _| is_in(report, Phase::Canary),
            "PermissionsPending",
            "False",
            "NothingRequested",
        ),
        (
            |report, _| is_in(report, Phase::Canary),
            "Progressing",
            "True",
            "Canary",
        ),
        (
            |report, _| serves_since(report, 1_700_000_050),
            "Progressing",
            "False",
            "Rejected",
        ),
        (
            |report, _| serves_since(report, 1_700_000_051),
            "Progressing",
            "False",
            "UpToDate",
        ),
        (
            |report, orders| {
                report.record.trial = None;
                orders.pause = true;
            },
            "Progressing",
            "False",
            "Paused",
        ),
        (
            |report, _| report.is_serving = false,
            "Ready",
            "False",
            "NotLoaded",
        ),
        (
            |report, _| report.record.active = None,
            "Ready",
            "False",
            "NothingYet",
        ),
        (|_, _| {}, "SourceReachable", "True", "Reachable"),
        (
            |report, _| report.source_trouble = "it is down".to_owned(),
            "SourceReachable",
            "False",
            "Trouble",
        ),
    ];
    for (change, kind, expected, reason) in cases {
        let mut orders = Orders::default();
        let mut report = Report {
            record: full(),
            is_serving: true,
            ..Report::default()
        };
        change(&mut report, &mut orders);
        let status = conditions::status(&report, &orders, None, Timestamp::UNIX_EPOCH);
        let status = json!(status);
        let mut conditions = status["conditions"].as_array().unwrap().iter();
        let found = conditions.find(|one| one["type"] == kind).unwrap();
        assert_eq!(found["status"], expected, "{kind}: {reason}");
        assert_eq!(found["reason"], reason, "{kind}");
    }
}

#[test]
fn what_serves_in_place_of_the_recorded_version_is_named() {
    for (stands_in, expected) in [
        (None, "version 1.0.1 serves; 1.0.2 is gone"),
        (
            Some("1.0.0 (sha256:00)"),
            "1.0.0 (sha256:00) serves in place of version 1.0.1: the registry is down",
        ),
    ] {
        let report = Report {
            record: full(),
            is_serving: true,
            stands_in: stands_in.map(str::to_owned),
            ..Report::default()
        };
        let orders = Orders::default();
        let status = conditions::status(&report, &orders, None, Timestamp::UNIX_EPOCH);
        let status = json!(status);
        let conditions = status["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|one| one["type"] == "Ready");
        let ready = ready.unwrap();
        assert_eq!(ready["status"], "True");
        assert_eq!(ready["message"], expected);
    }
}

#[test]
fn degraded_says_that_something_is_wrong_for_those_who_are_served_and_nothing_else() {
    // Serving, trouble and impairment; then condition, reason and state.
    let table = [
        (true, "", "", "False", "AsExpected", "Active"),
        (
            true,
            "the registry is down",
            "",
            "False",
            "AsExpected",
            "ActiveWithTrouble",
        ),
        (
            true,
            "",
            "its self-check fails",
            "True",
            "SelfCheckFails",
            "Active",
        ),
        (false, "", "", "False", "AsExpected", "Active"),
        (
            false,
            "it cannot be loaded",
            "",
            "True",
            "NotServing",
            "NotServing",
        ),
    ];
    for (is_serving, trouble, impairment, expected, reason, state) in table {
        let mut record = full();
        record.trial = None;
        record.rejected.clear();
        record.trouble = trouble.to_owned();
        let specification = Specification {
            generation: Some(7),
            ..Specification::default()
        };
        let report = Report {
            record,
            is_serving,
            impairment: impairment.to_owned(),
            specification,
            ..Report::default()
        };
        let orders = Orders::default();
        let status = json!(conditions::status(
            &report,
            &orders,
            None,
            Timestamp::UNIX_EPOCH
        ));
        let conditions = status["conditions"].as_array().unwrap();
        let degraded = conditions.iter().find(|one| one["type"] == "Degraded");
        let degraded = degraded.unwrap();
        assert_eq!(degraded["status"], expected, "{status}");
        assert_eq!(degraded["reason"], reason, "{status}");
        assert_eq!(status["state"], state, "{status}");
        assert_eq!(status["observedGeneration"], 7);
        assert!(conditions.iter().all(|one| one["observedGeneration"] == 7));
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let names = prop_oneof![
        Just("active".to_owned()),
        Just("trial".to_owned()),
        Just("rejected".to_owned()),
        Just("approved".to_owned()),
        Just("digest".to_owned()),
        Just("since".to_owned()),
        Just("lines".to_owned()),
        Just("phase".to_owned()),
        Just("trouble".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(Value::from(digest(9))),
        Just(Value::from("\u{1b}[31m\u{202e}x".repeat(900))),
        Just(Value::from("9999-12-31T23:59:59Z")),
        Just(Value::from("Canary")),
    ];
    leaf.prop_recursive(4, 256, 100, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..100).prop_map(Value::from),
            proptest::collection::btree_map(names.clone(), inner, 0..9)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_read_is_bounded_and_stays_what_it_is(status in any_json()) {
        let record = status_json::read(&status);
        prop_assert!(record.rejected.len() <= MOST_REJECTED);
        prop_assert!(record.approved.len() <= MOST_APPROVED);
        prop_assert!(record.trouble.len() <= MOST_REASON);
        if let Some(trial) = &record.trial {
            prop_assert!(trial.lines.len() <= MOST_LINES);
        }
        prop_assert_eq!(status_json::read(&json!(status_json::write(&record))), record);
    }
}
