#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

fn record() -> AuditRecord {
    AuditRecord {
        author: Author {
            provider: "hcloud".to_owned(),
            digest: "sha256:00".to_owned(),
        },
        subject: Subject {
            kind: Some(ObjectKind::Service),
            namespace: Some("default".to_owned()),
            name: "web".to_owned(),
            uid: "u-1".to_owned(),
            reason: "target worker-3 is missing".to_owned(),
        },
        act: Act::CloudMutation {
            method: "POST".to_owned(),
            host: "api.example.com".to_owned(),
            path: "/load_balancers/{id}/actions/add_target".to_owned(),
            sha256: "ab".repeat(32),
        },
        end: End::Answered {
            status: 201,
            request_id: Some("r-77".to_owned()),
        },
        took: Some(Duration::from_millis(12)),
        brake: Some(BrakeState {
            brake: Brake::CloudMutations,
            level: BudgetLevel {
                taken: 3,
                allowed: 600,
            },
        }),
    }
}

fn leader() -> Leader {
    Leader {
        identity: "pod-1_f00".to_owned(),
        transitions: 4,
    }
}

#[test]
fn a_record_of_a_cloud_mutation_says_all_of_it() {
    assert_eq!(
        record().to_json("2026-01-02T03:04:05Z", &leader()),
        json!({
            "time": "2026-01-02T03:04:05Z",
            "kind": "cloud-mutation",
            "leader": { "identity": "pod-1_f00", "transitions": 4 },
            "provider": { "name": "hcloud", "digest": "sha256:00" },
            "object": { "kind": "service", "namespace": "default", "name": "web", "uid": "u-1" },
            "reason": "target worker-3 is missing",
            "method": "POST",
            "host": "api.example.com",
            "path": "/load_balancers/{id}/actions/add_target",
            "sha256": "ab".repeat(32),
            "outcome": "answered",
            "status": 201,
            "requestId": "r-77",
            "ms": 12,
            "brake": { "name": "cloud-mutations", "taken": 3, "left": 597 },
        })
    );
}

#[test]
fn a_record_of_a_node_deletion_has_the_same_keys() {
    let deletion = AuditRecord {
        subject: Subject {
            kind: Some(ObjectKind::Node),
            namespace: None,
            name: "worker-1".to_owned(),
            uid: "u-2".to_owned(),
            reason: "gone twice".to_owned(),
        },
        act: Act::NodeDeletion,
        end: End::Done,
        ..record()
    };
    let (deletion, mutation) = (
        deletion.to_json("t", &leader()),
        record().to_json("t", &leader()),
    );
    let keys = |value: &Value| {
        let object = value.as_object().unwrap();
        object.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys(&deletion), keys(&mutation));
    assert_eq!(deletion["kind"], "node-deletion");
    assert_eq!(deletion["path"], "/api/v1/nodes/{name}");
    assert_eq!(
        (&deletion["outcome"], &deletion["status"]),
        (&json!("done"), &Value::Null)
    );
}

#[test]
fn how_an_act_ended_is_a_fixed_word() {
    for (end, word) in [
        (End::Done, "done"),
        (End::Unknown, "unknown"),
        (End::Refused("conflict"), "conflict"),
    ] {
        let value = AuditRecord { end, ..record() }.to_json("t", &leader());
        assert_eq!(value["outcome"], word);
        assert_eq!(value["status"], Value::Null);
    }
}

#[test]
fn what_a_cloud_calls_a_request_is_made_harmless() {
    for (given, shown) in [
        ("", None),
        ("9b1d-77:a/b=+_.", Some("9b1d-77:a/b=+_.")),
        ("a b\"\n{}", Some("a?b????")),
        ("\u{202e}x", Some("?x")),
    ] {
        assert_eq!(sanitised(given).as_deref(), shown, "{given:?}");
    }
    assert_eq!(sanitised(&"x".repeat(9_999)).unwrap().len(), 128);
}

/// An audit sink that keeps the records of deletions.
#[derive(Default)]
struct Kept {
    is_broken: bool,
    records: Mutex<Vec<AuditRecord>>,
}

impl AuditSink for Kept {
    fn before(&self, _: &Subject, _: &CloudRequest) -> Result<(), Unrecordable> {
        Ok(())
    }

    fn after(&self, record: &AuditRecord) {
        self.records.lock().unwrap().push(record.clone());
    }

    fn refused(&self, _: &Refused<'_>) {}

    fn before_deletion(&self, _: &Author, _: &Subject) -> Result<(), Unrecordable> {
        if self.is_broken {
            Err(Unrecordable)
        } else {
            Ok(())
        }
    }
}

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

fn deletion(kept: &Arc<Kept>) -> Result<Deletion, Unrecordable> {
    let record = record();
    Deletion::begin(kept.clone(), record.author, record.subject, None, at(3))
}

#[test]
fn every_deletion_that_began_has_one_record_also_when_nobody_waits_for_its_end() {
    let kept = Arc::new(Kept::default());
    let refused = Err;
    let text = String::new;
    let ends = [
        (Ok(Some(())), End::Done),
        (Ok(None), End::Refused("not-found")),
        (
            refused(ClusterError::Conflict(text())),
            End::Refused("conflict"),
        ),
        (
            refused(ClusterError::Rejected(text())),
            End::Refused("rejected"),
        ),
        (
            refused(ClusterError::Denied(text())),
            End::Refused("denied"),
        ),
        (refused(ClusterError::Unavailable(text())), End::Unknown),
    ];
    for (outcome, _) in &ends {
        deletion(&kept).unwrap().ended(at(5), outcome);
    }
    drop(deletion(&kept).unwrap());
    let records = kept.records.lock().unwrap();
    let found: Vec<_> = records
        .iter()
        .map(|record| (record.end.clone(), record.took))
        .collect();
    let took = Some(Duration::from_secs(2));
    let mut expected: Vec<_> = ends.into_iter().map(|(_, end)| (end, took)).collect();
    expected.push((End::Unknown, None));
    assert_eq!(found, expected);
}

#[test]
fn a_deletion_that_cannot_be_recorded_does_not_begin() {
    let kept = Arc::new(Kept {
        is_broken: true,
        ..Kept::default()
    });
    assert!(deletion(&kept).is_err());
    assert!(kept.records.lock().unwrap().is_empty());
}

proptest! {
    #[test]
    fn whatever_texts_hold_a_record_is_one_line_of_valid_json(
        texts in proptest::collection::vec("\\PC*|[\\x00-\\x20\"\\\\{}\u{2028}\u{85}]*", 9),
    ) {
        let mut record = record();
        record.author = Author { provider: texts[0].clone(), digest: texts[1].clone() };
        record.subject.namespace = Some(texts[2].clone());
        record.subject.name = texts[3].clone();
        record.subject.uid = texts[4].clone();
        record.subject.reason = texts[5].clone();
        record.act = Act::CloudMutation {
            method: "POST".to_owned(),
            host: texts[6].clone(),
            path: texts[7].clone(),
            sha256: "00".to_owned(),
        };
        record.end = End::Answered { status: 200, request_id: Some(texts[8].clone()) };
        let leader = Leader { identity: texts[0].clone(), transitions: 1 };
        let line = record.to_json("t", &leader).to_string();
        prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        let back: Value = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(back["status"].as_u64(), Some(200));
    }
}
