//! What a Service's memory believes, and when it asks for a reconciliation.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::node::ownership::OwnershipContext;
use crate::safety::permit::Mode;
use crate::settings::ServiceRules;

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

fn service(version: &str, port: u16) -> Arc<Service> {
    let service = crate::fixtures::service("a").uid("u");
    Arc::new(service.resource_version(version).port(port).build())
}

/// A Service whose version 7 this process wrote at 100.
fn written() -> ServiceMemory {
    let mut memory = ServiceMemory::new(service("7", 80), at(0));
    memory.concluded = Some(memory.service.clone());
    memory.written = OwnWrite::new(resource_version(&memory.service), at(100));
    memory
}

#[test]
fn a_late_watch_is_never_believed_against_our_own_write() {
    for now in [100, 160, 10_000] {
        let mut memory = written();
        assert!(!memory.see(service("5", 81), false, at(now)));
        assert_eq!(memory.service, service("7", 80));
        assert!(!memory.see(service("7", 80), false, at(now)), "it is ours");
        assert!(memory.see(service("8", 82), false, at(now)));
    }
}

#[test]
fn a_list_that_is_older_than_our_own_write_is_believed_after_ten_seconds() {
    let mut memory = written();
    assert!(!memory.see(service("5", 81), true, at(109)));
    assert_eq!(memory.next_at(), Some(at(110)));
    memory.accept_older(at(109));
    assert_eq!(memory.service, service("7", 80));
    memory.accept_older(at(110));
    assert_eq!(memory.service, service("5", 81));
    assert!(memory.has_changed(at(110)));
    assert!(written().see(service("5", 81), true, at(110)));
}

#[test]
fn a_change_that_follows_such_a_list_is_not_lost() {
    let mut memory = written();
    assert!(!memory.see(service("5", 81), true, at(103)));
    assert!(!memory.see(service("6", 82), false, at(105)));
    memory.accept_older(at(110));
    assert_eq!(memory.service, service("6", 82));
}

#[test]
fn drift_checks_are_spread_over_the_period_and_always_the_same() {
    let hour = Duration::from_secs(3600);
    let spread = |number| jittered(hour, &format!("uid-{number}")).as_secs();
    let all: Vec<u64> = (0..1000).map(spread).collect();
    assert!(all.iter().all(|one| (1800..=5400).contains(one)));
    assert!(all.iter().any(|one| *one < 2000));
    assert!(all.iter().any(|one| *one > 5200));
    assert_eq!(spread(1), all[1]);
}

#[test]
fn only_an_own_service_is_checked_for_drift() {
    for is_own in [true, false] {
        let rules = ServiceRules {
            is_default: is_own,
            ..ServiceRules::default()
        };
        let ownership = Arc::new(OwnershipContext::alone("sim", Vec::new()));
        let world = World::new(ownership, Arc::default(), Arc::new(rules), Mode::Enforce);
        let mut memory = ServiceMemory::new(service("7", 80), at(0));
        let (targets, account) = (Targets::unknown(), Account::default());
        let facts = memory.facts(Arc::new(world), targets, account, None, at(0));
        let conclusion = Conclusion {
            when: When::AwaitChange,
            facts: Box::new(facts),
            retained: RetainedState::default(),
            has_written: false,
        };
        let next = memory.conclude(conclusion, at(0), Some(Duration::from_secs(3600)));
        assert_eq!(matches!(next, Some(Next::At(_))), is_own);
    }
}

/// Another writer of the same object removes it whenever it is written.
#[test]
fn an_annotation_that_is_written_for_the_provider_is_corrected_at_growing_intervals() {
    let with = |version: u32, is_there: bool| {
        let service = crate::fixtures::service("a").uid("u");
        let service = service.resource_version(&version.to_string());
        let key = |service: &mut serde_json::Value| {
            service["metadata"]["annotations"] = serde_json::json!({ "lb.example.com/id": "7" });
        };
        Arc::new(if is_there { service.with(key) } else { service }.build())
    };
    let mut memory = ServiceMemory::new(with(1, true), at(0));
    memory.past.answers.annotations = ["lb.example.com/id".to_owned()].into();
    memory.concluded = Some(memory.service.clone());
    let mut at_once = Vec::new();
    for second in 0..60_u32 {
        let now = at(second.into());
        if memory.see(with(2 * second + 2, false), false, now) {
            at_once.push(second);
            memory.corrections.record(now);
        }
        memory.see(with(2 * second + 3, true), false, now);
        memory.concluded = Some(memory.service.clone());
    }
    assert_eq!(at_once, [0, 1, 3, 7, 15, 31]);
    // A setting of the Service counts at once.
    memory.past.answers.annotations.clear();
    assert!(memory.see(with(900, false), false, at(60)));
}

#[test]
fn an_edit_after_ten_quiet_minutes_begins_the_intervals_again() {
    let mut corrections = Corrections::default();
    for (second, pause) in [(0, 1), (1, 2), (600, 4), (1200, 1)] {
        corrections.record(at(second));
        assert_eq!(corrections.next_at(), Some(at(second + pause)));
    }
}
