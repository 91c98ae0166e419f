//! Shapes of answers about routes, and the conversion of routes on their way into a guest and out of it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::Duration;

use ccm_core::cloud::load_balancer::Progress;
use ccm_core::cloud::route::{CloudRoute, RouteTarget};
use ccm_core::cloud::{Address, AddressType, Readiness};

use super::*;
use crate::bindings::common;

fn route() -> routes::Route {
    routes::Route {
        id: "10.0.1.0/24".to_owned(),
        destination_cidr: "10.0.1.0/24".to_owned(),
        target: routes::Target::Node("one".to_owned()),
        extra: Vec::new(),
    }
}

fn pair(key: &str, value: usize) -> (String, String) {
    (key.to_owned(), "x".repeat(value))
}

fn checked(listed: &[routes::Route]) -> Result<(), String> {
    answer_limits::check_routes(listed, &HashSet::from(["one", "two"]))
}

fn assert_checked(name: &str, checked: Result<(), String>, expected: &str) {
    match checked {
        Ok(()) => assert_eq!("accepted", expected, "{name}"),
        Err(text) => assert!(
            text.contains(expected),
            "{name}: {text:?} does not contain {expected:?}"
        ),
    }
}

/// One row per rule: a change of a valid route, and the error.
#[test]
fn a_route_keeps_to_the_documented_caps() {
    type Change = fn(&mut routes::Route);
    let other = routes::Target::Other;
    let named = |length: usize| other("x".repeat(length));
    let table: &[(&str, Change, &str)] = &[
        ("to a node", |_| {}, "accepted"),
        (
            "made for a node",
            |route| route.target = routes::Target::Outdated("two".to_owned()),
            "accepted",
        ),
        (
            "to nothing",
            |route| route.target = routes::Target::Blackhole,
            "accepted",
        ),
        (
            "a longest id",
            |route| route.id = "x".repeat(512),
            "accepted",
        ),
        (
            "a long id",
            |route| route.id = "x".repeat(513),
            "list, route 1: 513 bytes of an id, at most 512",
        ),
        (
            "no id",
            |route| route.id = String::new(),
            "its id is empty or has control characters",
        ),
        (
            "an id for terminals",
            |route| route.id = "\u{1b}[2J".to_owned(),
            "its id is empty or has control characters",
        ),
        (
            "an id in another script",
            |route| route.id = "маршрут 1".to_owned(),
            "accepted",
        ),
        (
            "a longest destination",
            |route| route.destination_cidr = "1".repeat(64),
            "accepted",
        ),
        // Core judges its meaning.
        (
            "a destination that is none",
            |route| route.destination_cidr = "everywhere".to_owned(),
            "accepted",
        ),
        (
            "a long destination",
            |route| route.destination_cidr = "1".repeat(65),
            "65 bytes of a destination, at most 64",
        ),
        (
            "no destination",
            |route| route.destination_cidr = String::new(),
            "its destination is empty or has characters that no CIDR has",
        ),
        (
            "a destination in two lines",
            |route| route.destination_cidr = "10.0.1.0/24\n".to_owned(),
            "its destination is empty or has characters that no CIDR has",
        ),
        (
            "to a node of somebody else",
            |route| route.target = routes::Target::Node("three".to_owned()),
            "list, route 1: it leads to a node that the call was not about",
        ),
        (
            "made for nobody",
            |route| route.target = routes::Target::Outdated(String::new()),
            "it leads to a node that the call was not about",
        ),
        (
            "sixteen entries",
            |route| route.extra = vec![pair("key", 61); 16],
            "accepted",
        ),
        (
            "seventeen entries",
            |route| route.extra = vec![pair("", 0); 17],
            "17 entries of extra, at most 16",
        ),
        (
            "a long entry",
            |route| route.extra = vec![pair("key", 1022)],
            "1025 bytes of extra, at most 1024",
        ),
    ];
    for (name, change, expected) in table {
        let mut changed = route();
        change(&mut changed);
        assert_checked(name, checked(&[route(), changed]), expected);
    }
    for (target, expected) in [
        (named(0), "accepted"),
        (named(256), "accepted"),
        (named(257), "257 bytes of what it leads to, at most 256"),
    ] {
        let changed = routes::Route { target, ..route() };
        assert_checked("to something else", checked(&[changed]), expected);
    }
}

#[test]
fn a_list_has_room_for_two_routes_of_each_node_and_duplicates_are_cores() {
    let room = 2 * limits::ROUTED_NODES;
    assert!(room < limits::ROUTES);
    assert_checked("none", checked(&[]), "accepted");
    assert_checked("duplicates", checked(&vec![route(); room]), "accepted");
    assert_checked("full", checked(&vec![route(); limits::ROUTES]), "accepted");
    let more = vec![route(); limits::ROUTES + 1];
    assert_checked("more", checked(&more), "list: 40001 routes, at most 40000");
}

fn reply(progress: routes::Progress, events: usize) -> routes::ProgressReply {
    let event = common::Event {
        event_type: common::EventType::Normal,
        reason: "Moved".to_owned(),
        message: "a\u{1b}b".to_owned(),
    };
    routes::ProgressReply {
        progress,
        events: vec![event; events],
    }
}

fn pending(retry_after_ms: u64, hint: usize) -> routes::Progress {
    routes::Progress::Pending(common::Pending {
        retry_after_ms,
        hint: Some(vec![7; hint]),
    })
}

#[test]
fn progress_keeps_to_the_documented_caps_and_waits_within_bounds() {
    let table = [
        (reply(routes::Progress::Done, 16), "accepted"),
        (
            reply(routes::Progress::Done, 17),
            "create: 17 events, at most 16",
        ),
        (reply(pending(1, 4096), 0), "accepted"),
        (
            reply(pending(1, 4097), 0),
            "create: 4097 bytes of a hint, at most 4096",
        ),
    ];
    for (reply, expected) in table {
        let checked = answer_limits::check_route_progress("create", &reply);
        assert_checked("progress", checked, expected);
    }
    for (milliseconds, time) in [(0, 100), (1_234, 1_234), (u64::MAX, 600_000)] {
        let reported: RouteReply = reply(pending(milliseconds, 2), 1).into();
        let Progress::Pending(pending) = reported.progress else {
            panic!("{reported:?}")
        };
        assert_eq!(pending.retry_after, Duration::from_millis(time));
        assert_eq!(pending.hint.as_deref(), Some(&[7, 7][..]));
        assert_eq!(reported.events[0].message, "a\\u{1b}b");
    }
}

#[test]
fn a_route_is_handed_back_as_it_was_listed() {
    for target in [
        routes::Target::Node("one".to_owned()),
        routes::Target::Outdated("two".to_owned()),
        routes::Target::Blackhole,
        routes::Target::Other("server 42".to_owned()),
    ] {
        let listed = routes::Route {
            target,
            extra: vec![pair("via", 3)],
            ..route()
        };
        let ours = CloudRoute::from(listed.clone());
        let back = routes::Route::from(&ours);
        assert_eq!(format!("{back:?}"), format!("{listed:?}"));
        assert_eq!(ours.id, listed.id);
    }
    let hostile = routes::Route {
        target: routes::Target::Other(format!("a\nb{}", "\u{202e}".repeat(84))),
        ..route()
    };
    let RouteTarget::Other(text) = CloudRoute::from(hostile).target else {
        panic!("another target")
    };
    assert!(
        text.starts_with("a b\\u{202e}") && text.len() <= 256,
        "{text}"
    );
}

#[test]
fn a_listing_tells_what_a_next_hop_is_recognised_by_and_nothing_large() {
    let node = CloudNode {
        name: "one".to_owned(),
        uid: "uid".to_owned(),
        provider_id: Some("sample://1".to_owned()),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        annotations: [("c".to_owned(), "x".repeat(262_144))].into(),
        addresses: vec![Address {
            address_type: AddressType::InternalIp,
            address: "192.0.2.7".to_owned(),
        }],
        pod_cidrs: vec!["10.0.1.0/24".to_owned()],
        system_uuid: Some("uuid".to_owned()),
        created: 7,
        readiness: Readiness::Ready,
        initialized: true,
    };
    let whole = common::Node::from(&node);
    let expected = common::Node {
        labels: Vec::new(),
        annotations: Vec::new(),
        ..whole
    };
    assert_eq!(
        format!("{:?}", recognisable(&node)),
        format!("{expected:?}")
    );
}
