//! The table of objects in every state, of other writers' objects and of broken ones.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{age, describe};

const DIGEST: &str = "sha256:1111111111112222222222222222222222222222222222222222222222222222";
const OTHER: &str = "sha256:aaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn object(name: &str, status: Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1",
        "kind": "Provider",
        "metadata": { "name": name },
        "status": status,
    }))
    .unwrap()
}

#[test]
fn what_serves_waits_and_was_rejected_is_shown() {
    let text = describe(
        &[
            object("fresh", Value::Null),
            object(
                "hcloud",
                json!({
                    "state": "WaitsForApproval",
                    "active": { "digest": DIGEST, "version": "1.2.0", "origin": "file:///x.wasm", "since": "2026-01-02T03:04:05Z",
                        "untried": "it was not tried beside 1.1.0, which cannot be loaded: it is gone" },
                    "trial": {
                        "digest": OTHER, "version": "2.0.0", "phase": "WaitsForApproval", "since": "2026-01-03T03:04:05Z",
                        "lines": ["+ target api: DELETE /servers/{id} (write)"],
                    },
                    "rejected": [{ "digest": OTHER, "version": "1.9.0", "reason": "it traps", "at": "2026-01-01T03:04:05Z" }],
                    "trouble": "the source cannot be asked",
                }),
            ),
        ],
        false,
    );
    let expected = format!(
        "NAME     VERSION   DIGEST         STATE              CANDIDATE   AGE\n\
         fresh    -         -              -                  -           -\n\
         hcloud   1.2.0     111111111111   WaitsForApproval   2.0.0       -\n\
         \n\
         hcloud:\n  serves, and it was not tried beside 1.1.0, which cannot be loaded: it is gone\n  \
         waits for approval: 2.0.0 ({OTHER}), since 2026-01-03T03:04:05Z\n    \
         + target api: DELETE /servers/{{id}} (write)\n    \
         approve it with: kubectl annotate ccmp hcloud --overwrite wasm-ccm.dev/approve={OTHER}\n  \
         rejected: 1.9.0 ({OTHER}), at 2026-01-01T03:04:05Z: it traps\n  \
         trouble: the source cannot be asked\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn wide_shows_whole_digests_and_places() {
    let status = json!({
        "observedSource": "oci://registry.example.com/hcloud:1",
        "active": { "digest": DIGEST, "version": "1.2.0", "origin": "oci://registry.example.com/hcloud@x", "since": "2026-01-02T03:04:05Z" },
        "previous": { "digest": OTHER, "version": "1.1.0" },
    });
    let text = describe(&[object("hcloud", status)], true);
    for part in [
        DIGEST,
        "source: oci://registry.example.com/hcloud:1",
        "serves: oci://registry.example.com/hcloud@x since 2026-01-02T03:04:05Z",
        &format!("previous: 1.1.0 ({OTHER})"),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn why_the_spec_of_an_object_is_not_used_is_shown_once() {
    let spec = |status: &str, message: &str| {
        json!([
            { "type": "Ready", "status": "True", "reason": "Serving", "message": "version 1.2.0 serves" },
            { "type": "Accepted", "status": status, "reason": "InvalidSpec", "message": message },
        ])
    };
    let text = |conditions: Value, trouble: &str| {
        let status = json!({ "state": "Active", "trouble": trouble, "conditions": conditions });
        let text = describe(&[object("hcloud", status)], false);
        let lines = text.lines().skip_while(|line| *line != "hcloud:").skip(1);
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(text(spec("True", ""), ""), [""; 0]);
    let refused = "  spec not used (InvalidSpec): unknown key \"sauce\"";
    let why = "unknown key \"sauce\"";
    assert_eq!(text(spec("False", why), why), [refused]);
    let troubled = [refused, "  trouble: the source cannot be asked"];
    assert_eq!(
        text(spec("False", why), "the source cannot be asked"),
        troubled
    );
}

#[test]
fn what_cannot_be_read_is_shown_by_its_name_alone() {
    for status in [
        json!("text"),
        json!({ "active": 7 }),
        json!({ "rejected": { "digest": [] } }),
    ] {
        let text = describe(&[object("odd", status.clone())], false);
        assert!(
            text.ends_with("odd    -         -        -       -           -\n"),
            "{status}: {text}"
        );
    }
    assert_eq!(describe(&[], true), "There is no provider.\n");
}

#[test]
fn ages_are_in_one_unit() {
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 400);
    for (seconds, expected) in [
        (-5, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (172_799, "47h"),
        (172_800, "2d"),
    ] {
        assert_eq!(age(now - SignedDuration::from_secs(seconds), now), expected);
    }
}
