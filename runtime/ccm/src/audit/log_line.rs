//! An audit record in the ordinary log: the record's values as fields of one line, so that no JSON is inside of a text.
//! Writes nowhere else.

use serde_json::Value;

/// Writes the record, given as its JSON.
pub(super) fn write(record: &Value) {
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str);
    let number = |pointer: &str| record.pointer(pointer).and_then(Value::as_u64);
    let names = ["/object/kind", "/object/namespace", "/object/name"];
    let object = names.into_iter().filter_map(text).collect::<Vec<_>>();
    tracing::info!(
        target: "audit",
        provider = text("/provider/name"),
        digest = text("/provider/digest"),
        object = object.join("/"),
        uid = text("/object/uid"),
        reason = text("/reason"),
        target = text("/target"),
        method = text("/method"),
        host = text("/host"),
        path = text("/path"),
        sha256 = text("/sha256"),
        outcome = text("/outcome"),
        status = number("/status"),
        request_id = text("/requestId"),
        ms = number("/ms"),
        brake = text("/brake/name"),
        brake_taken = number("/brake/taken"),
        brake_left = number("/brake/left"),
        refusal = text("/refusal"),
        unwritten = number("/unwritten"),
        leader = text("/leader/identity"),
        transitions = number("/leader/transitions"),
        "{}",
        text("/kind").unwrap_or_default()
    );
}

#[cfg(test)]
mod tests {
    use ccm_core::reconciliation::effect::ObjectKind;
    use ccm_core::safety::audit::{Act, AuditRecord, Author, BrakeState, End, Leader, Subject};
    use ccm_core::safety::brake::{Brake, BudgetLevel};
    use serde_json::Value;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    #[test]
    fn a_record_in_the_log_has_every_value_of_its_json_and_no_json() {
        let record = AuditRecord {
            author: Author {
                provider: "hcloud".to_owned(),
                digest: "sha256:0".to_owned(),
            },
            subject: Subject {
                kind: Some(ObjectKind::Service),
                namespace: Some("default".to_owned()),
                name: "web".to_owned(),
                uid: "u-1".to_owned(),
                reason: "it changed".to_owned(),
            },
            act: Act::CloudMutation {
                method: "POST".to_owned(),
                host: "cloud.test".to_owned(),
                path: "/load_balancers".to_owned(),
                sha256: "ab".to_owned(),
            },
            end: End::Answered {
                status: 201,
                request_id: Some("r-1".to_owned()),
            },
            took: Some(std::time::Duration::from_millis(12)),
            brake: Some(BrakeState {
                brake: Brake::LoadBalancerDeletion,
                level: BudgetLevel {
                    taken: 1,
                    allowed: 3,
                },
            }),
        };
        let leader = Leader {
            identity: "node-1".to_owned(),
            transitions: 7,
        };
        let json = record.to_json("2026-01-02T03:04:05.000Z", &leader);
        let recorded = RecordedEvents::default();
        tracing::subscriber::with_default(recorded.clone(), || write(&json));
        let text = recorded.text();
        assert!(!text.contains('{'), "{text}");
        for value in leaves(&json) {
            // The log's own line has a time.
            assert!(
                value == "2026-01-02T03:04:05.000Z" || text.contains(&value),
                "{value}: {text}"
            );
        }
    }

    fn leaves(value: &Value) -> Vec<String> {
        match value {
            Value::Null => Vec::new(),
            Value::Object(fields) => fields.values().flat_map(leaves).collect(),
            Value::String(text) => vec![text.clone()],
            other => vec![other.to_string()],
        }
    }

    /// The fields written to the log, as `name=value`.
    #[derive(Clone, Default)]
    struct RecordedEvents(std::sync::Arc<std::sync::Mutex<String>>);

    impl RecordedEvents {
        fn text(&self) -> String {
            self.0.lock().map(|text| text.clone()).unwrap_or_default()
        }
    }

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_str(&mut self, field: &Field, value: &str) {
            *self.0 += &format!("{}={value} ", field.name());
        }

        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            *self.0 += &format!("{}={value:?} ", field.name());
        }
    }

    impl Subscriber for RecordedEvents {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            if let Ok(mut text) = self.0.lock() {
                event.record(&mut Fields(&mut text));
            }
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }
}
