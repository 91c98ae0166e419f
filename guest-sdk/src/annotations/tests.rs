//! What is said about each treatment.

use super::*;
use crate::EventType;

fn summaries(events: &[Event]) -> Vec<(EventType, &str, &str)> {
    let events = events.iter();
    let summaries = events.map(|one| (one.event_type, one.reason.as_str(), one.message.as_str()));
    summaries.collect()
}

#[test]
fn an_annotation_with_its_meaning_is_not_reported() {
    let mut report = Report::default();
    report.add("size", Treatment::Supported);
    report.add("type", Treatment::AtCreation("it cannot be changed"));
    assert_eq!(report, Report::default());
    assert_eq!(report.event("Ignored"), None);
    assert_eq!(report.events("Ignored"), []);
    assert!(report.mistakes().is_empty());
}

#[test]
fn an_ignored_annotation_is_an_event_and_a_refused_one_a_mistake() {
    let mut report = Report::default();
    report.add("algorithm", Treatment::Ignored("there is one"));
    report.add("groups", Treatment::Refused("there are none"));
    report.add("name", Treatment::Refused("the cloud chooses it"));
    report.add("logs", Treatment::Ignored("unknown"));
    assert_eq!(
        report.mistakes(),
        ["groups: there are none", "name: the cloud chooses it"]
    );
    let all = report.event("Ignored");
    assert_eq!(
        summaries(all.as_slice()),
        [(
            EventType::Warning,
            "Ignored",
            "algorithm: there is one; logs: unknown"
        )]
    );
    assert_eq!(
        summaries(&report.events("NoEffect")),
        [
            (
                EventType::Warning,
                "NoEffect",
                "annotation algorithm has no effect: there is one"
            ),
            (
                EventType::Warning,
                "NoEffect",
                "annotation logs has no effect: unknown"
            ),
        ]
    );
}
