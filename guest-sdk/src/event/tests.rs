//! Messages are never longer than the contract allows, and are cut between characters.

use super::*;
use crate::load_balancer::{EnsureReply, ProgressReply};
use crate::{Error, LoadBalancerStatus, routes};

#[test]
fn a_message_is_cut_between_letters() {
    let event = Event::warning("Reason", "€".repeat(1000));
    assert_eq!(event.message, "€".repeat(341));
    assert_eq!(event.event_type, EventType::Warning);
    assert_eq!(Event::normal("Reason", "short").message, "short");
}

#[test]
fn a_list_says_how_many_names_are_left_out() {
    assert_eq!(listed::<&str>(&[]), "");
    assert_eq!(listed(&["a", "b"]), "a, b");
    let names: Vec<String> = (0..1000).map(|number| format!("node-{number}")).collect();
    let list = listed(&names);
    assert!(list.len() < 600, "{list}");
    let shown = list.matches("node-").count();
    assert!(
        list.ends_with(&format!(" and {} more", 1000 - shown)),
        "{list}"
    );
}

#[test]
fn a_list_has_its_first_name_however_long() {
    let long = "n".repeat(2000);
    assert_eq!(listed(&[long.as_str(), "b"]), format!("{long} and 1 more"));
}

#[test]
fn a_reply_has_the_first_sixteen_events() {
    let events = |count: u32| -> Vec<Event> {
        let reasons = (0..count).map(|number| format!("Reason{number}"));
        reasons
            .map(|reason| Event::normal(&reason, "why"))
            .collect()
    };
    let status = LoadBalancerStatus::new(Vec::new());
    for (given, kept) in [(0, 0), (16, 16), (17, 16)] {
        let kept = events(kept);
        let ready = EnsureReply::ready(status.clone()).with_events(events(given));
        assert_eq!(ready.events, kept);
        let done = ProgressReply::done().with_events(events(given));
        assert_eq!(done.events, kept);
        let done = routes::ProgressReply::done().with_events(events(given));
        assert_eq!(done.events, kept);
        let failure = Error::invalid("why").with_events(events(given));
        assert_eq!(failure.events, kept);
    }
}
