//! Shapes of answers, and the conversions that could lose a value.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;

fn instance() -> common::Instance {
    common::Instance {
        provider_id: "sample://1".to_owned(),
        instance_type: None,
        zone: None,
        region: None,
        addresses: Vec::new(),
        labels: Vec::new(),
        shutdown: None,
        extra: Vec::new(),
    }
}

fn address(text: String) -> common::Address {
    common::Address {
        address_type: common::AddressType::InternalIp,
        address: text,
    }
}

fn event(node: u32, reason: &str, message: &str) -> instances::NodeEvent {
    let event = common::Event {
        event_type: common::EventType::Warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    instances::NodeEvent { node, event }
}

/// Checks an answer about three nodes.
fn check(
    name: &str,
    lookups: Vec<instances::Lookup>,
    events: Vec<instances::NodeEvent>,
    expected: &str,
) {
    match answer_limits::check_find(&instances::FindReply { lookups, events }, 3) {
        Ok(()) => assert_eq!("accepted", expected, "{name}"),
        Err(text) => assert!(
            text.contains(expected),
            "{name}: {text:?} does not contain {expected:?}"
        ),
    }
}

fn gone() -> Vec<instances::Lookup> {
    vec![instances::Lookup::Gone; 3]
}

fn found(change: impl FnOnce(&mut common::Instance)) -> Vec<instances::Lookup> {
    let mut instance = instance();
    change(&mut instance);
    vec![
        instances::Lookup::Gone,
        instances::Lookup::NotMine,
        instances::Lookup::Found(instance),
    ]
}

#[test]
fn an_answer_has_one_lookup_per_node() {
    check("three", gone(), vec![], "accepted");
    check("none", vec![], vec![], "0 lookups for 3 nodes");
    check(
        "four",
        [gone(), gone()].concat(),
        vec![],
        "6 lookups for 3 nodes",
    );
}

#[test]
fn an_instance_keeps_to_the_documented_caps() {
    check("plain", found(|_| {}), vec![], "accepted");
    check(
        "provider ID",
        found(|i| i.provider_id = "x".repeat(513)),
        vec![],
        "lookup 2: 513 bytes of a provider ID",
    );
    check(
        "type",
        found(|i| i.instance_type = Some("x".repeat(64))),
        vec![],
        "64 bytes of an instance type",
    );
    check(
        "zone",
        found(|i| i.zone = Some("x".repeat(64))),
        vec![],
        "64 bytes of a zone",
    );
    check(
        "region",
        found(|i| i.region = Some("x".repeat(64))),
        vec![],
        "64 bytes of a region",
    );
    check(
        "addresses",
        found(|i| i.addresses = vec![address("::1".to_owned()); 65]),
        vec![],
        "65 addresses",
    );
    check(
        "address",
        found(|i| i.addresses = vec![address("x".repeat(254))]),
        vec![],
        "254 bytes of an address",
    );
    let label = ("a".to_owned(), "b".to_owned());
    check(
        "labels",
        found(|i| i.labels = vec![label; 65]),
        vec![],
        "65 labels",
    );
    let unknown = vec![
        instances::Lookup::Gone,
        instances::Lookup::Gone,
        instances::Lookup::Unknown("x".repeat(1025)),
    ];
    check("reason", unknown, vec![], "1025 bytes of a reason");
}

#[test]
fn events_are_about_nodes_that_were_asked_for_and_few() {
    check(
        "one",
        gone(),
        vec![event(2, "Moved", "to another zone")],
        "accepted",
    );
    check(
        "nobody's",
        gone(),
        vec![event(3, "Moved", "")],
        "an event about node 3 of 3",
    );
    check(
        "far off",
        gone(),
        vec![event(u32::MAX, "Moved", "")],
        "an event about node 4294967295 of 3",
    );
    check(
        "nine",
        gone(),
        vec![event(1, "Moved", ""); 9],
        "9 events of one node",
    );
    check(
        "message",
        gone(),
        vec![event(0, "Moved", &"x".repeat(1025))],
        "1025 bytes of a message",
    );
    for reason in [
        "",
        "moved",
        "Has Space",
        "Ünicode",
        "Under_score",
        &"X".repeat(65),
    ] {
        check(reason, gone(), vec![event(0, reason, "")], "CamelCase");
    }
    let lookups = vec![instances::Lookup::Gone; 300];
    let events = (0..257).map(|node| event(node, "Moved", "")).collect();
    let reply = instances::FindReply { lookups, events };
    assert!(answer_limits::check_find(&reply, 300).is_err_and(|text| text.contains("257 events")));
}

#[test]
fn texts_of_guests_are_cleaned_and_cut() {
    let error = common::Error::Denied(format!("a\u{1b}[0m\n{}", "x".repeat(10_000)));
    let ProviderError::Denied(text) = ProviderError::from(error) else {
        panic!("another case")
    };
    assert!(text.starts_with("a\\u{1b}[0m xxx") && text.len() <= limits::ERROR_BYTES);
    let Lookup::Unknown(text) = Lookup::from(instances::Lookup::Unknown("a\nb".to_owned())) else {
        panic!("another case")
    };
    assert_eq!(text, "a b");
}

#[test]
fn patience_is_clamped() {
    for (milliseconds, seconds) in [(0, 1), (1_000, 1), (90_000, 90), (u64::MAX, 3_600)] {
        assert_eq!(retry_delay(milliseconds), Duration::from_secs(seconds));
    }
}

fn conflict(owner: Option<common::Owner>) -> ProviderError {
    let message = "taken".to_owned();
    ProviderError::from(common::Error::Conflict(common::Conflict { message, owner }))
}

/// An object without an owner may be adopted, so an invalid owner must not become none.
#[test]
fn an_owner_is_neither_cut_nor_left_out() {
    let uid = |uid: &str| Owner::Uid(uid.to_owned());
    let name = |namespace: &str, name: &str| Owner::Name {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    for owner in [
        None,
        Some(uid("uid-1")),
        Some(uid(&"x".repeat(128))),
        Some(name("default", "web")),
        Some(name(&"x".repeat(63), "a.b-c.9")),
    ] {
        let message = "taken".to_owned();
        let reported = owner.as_ref().map(common::Owner::from);
        assert_eq!(
            conflict(reported),
            ProviderError::Conflict { message, owner }
        );
    }
    let no_name = "a conflict: an owner that no object can be called";
    for (owner, text) in [
        (
            uid(&"x".repeat(129)),
            "a conflict: 129 bytes of an owner, at most 128 allowed",
        ),
        (uid(""), "a conflict: an owner that is no UID"),
        (uid("uid 1"), "a conflict: an owner that is no UID"),
        (uid("uid\u{1b}[2J"), "a conflict: an owner that is no UID"),
        (name("", ""), no_name),
        (name("default", ""), no_name),
        (name("", "web"), no_name),
        (name("Default", "web"), no_name),
        (name("default", "web/../other"), no_name),
        (name("default", "web\u{1b}[2J"), no_name),
        (name(&"x".repeat(64), "web"), no_name),
        (name("a.b", "web"), no_name),
        (name("default", &"x".repeat(254)), no_name),
    ] {
        let reported = common::Owner::from(&owner);
        let expected = ProviderError::Internal(text.to_owned());
        assert_eq!(conflict(Some(reported)), expected, "{owner}");
    }
}

#[test]
fn the_events_of_a_failure_keep_to_their_caps() {
    let event = |reason: &str| common::Event {
        event_type: common::EventType::Warning,
        reason: reason.to_owned(),
        message: String::new(),
    };
    for (events, expected) in [
        (vec![], "why"),
        (vec![event("Wrong"); 16], "why"),
        (
            vec![event("Wrong"); 17],
            "a failure: 17 events, at most 16 allowed",
        ),
        (
            vec![event("<b>")],
            "a failure: event 0: its reason is not a CamelCase word of 1 to 64 letters and digits",
        ),
    ] {
        let error = common::Error::Internal("why".to_owned());
        let failure = common::Failure { error, events };
        let expected = ProviderError::Internal(expected.to_owned());
        assert_eq!(failed(failure, None), expected);
    }
}
