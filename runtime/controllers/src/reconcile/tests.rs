//! Log lines about an object that is not done.

use super::*;

/// Facts with only the inputs of the severity.
struct Waiting {
    failures: u32,
    waits_already: bool,
}

impl Facts for Waiting {
    type Effect = service::ServiceEffect;
    /// Whether an operation goes on at the cloud.
    type Retained = bool;

    fn decide(&self, _: Clock) -> Decision<Self::Effect, (When, bool)> {
        Decision::Done((When::AwaitChange, false))
    }

    fn cut_short(&self, _: &When, _: Clock) -> bool {
        false
    }

    fn absorb(&mut self, _: &Self::Effect, _: OutcomeOf<Self::Effect>) {}

    fn object(&self) -> String {
        String::new()
    }

    fn priority(&self) -> Priority {
        Priority::Known
    }

    fn failures(&self) -> u32 {
        self.failures
    }

    fn waits_already(&self) -> bool {
        self.waits_already
    }

    fn is_under_way(retained: &bool) -> bool {
        *retained
    }

    fn is_anothers(&self) -> bool {
        false
    }
}

#[test]
fn what_failed_is_a_warning_unless_the_cloud_works_on_it_now() {
    for (has_failed, is_under_way, failures, waits_already, expected) in [
        (false, false, 0, false, Severity::New),
        (false, true, 0, true, Severity::Usual),
        (true, false, 0, false, Severity::Failure),
        // A load balancer without an owner is refused, and then adopted.
        (true, true, 0, false, Severity::New),
        (true, true, 0, true, Severity::Usual),
        (false, true, 5, true, Severity::Failure),
    ] {
        let facts = Waiting {
            failures,
            waits_already,
        };
        let severity = Severity::of(&facts, &is_under_way, has_failed);
        assert_eq!(severity, expected, "{has_failed} {is_under_way} {failures}");
    }
}
