//! Shapes of answers about load balancers, and the conversion of values on their way into a guest and out of it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::Duration;

use ccm_core::cloud::load_balancer::{
    AnnotationChange, Ensured, Found, Ingress, IpFamily, IpFamilyPolicy, IpMode,
    LoadBalancerStatus, Pending, PortStatus, Progress, Protocol, ServicePort, TrafficPolicy,
};

use super::*;
use crate::bindings::common;

fn ingress() -> common::Ingress {
    common::Ingress {
        ip: Some("203.0.113.10".to_owned()),
        hostname: None,
        ip_mode: None,
        ports: Vec::new(),
    }
}

fn port(number: u16, error: Option<&str>) -> common::PortStatus {
    common::PortStatus {
        port: number,
        protocol: common::Protocol::Tcp,
        error: error.map(str::to_owned),
    }
}

fn event(reason: &str, message: &str) -> common::Event {
    common::Event {
        event_type: common::EventType::Normal,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

fn change(key: &str, value: &str) -> common::AnnotationChange {
    common::AnnotationChange {
        key: key.to_owned(),
        value: Some(value.to_owned()),
    }
}

fn pending(retry_after_ms: u64, hint: usize) -> common::Pending {
    common::Pending {
        retry_after_ms,
        hint: Some(vec![7; hint]),
    }
}

fn ready(ingress: Vec<common::Ingress>) -> load_balancer::EnsureReply {
    load_balancer::EnsureReply {
        ensured: load_balancer::Ensured::Ready(common::LoadBalancerStatus { ingress }),
        events: Vec::new(),
        annotations: Vec::new(),
    }
}

fn done() -> load_balancer::ProgressReply {
    load_balancer::ProgressReply {
        progress: load_balancer::Progress::Done,
        events: Vec::new(),
        annotations: Vec::new(),
    }
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

/// One row per rule: a change of a valid ingress point, and the error. `ensure` and `get` give the same error.
#[test]
fn a_way_in_keeps_to_the_documented_caps() {
    type Change = fn(&mut common::Ingress);
    let table: &[(&str, Change, &str)] = &[
        ("an address", |_| {}, "accepted"),
        (
            "a hostname",
            |way| {
                way.ip = None;
                way.hostname = Some("x".repeat(253));
            },
            "accepted",
        ),
        (
            "neither",
            |way| way.ip = None,
            "neither an IP address nor a hostname",
        ),
        (
            "an empty address",
            |way| way.ip = Some(String::new()),
            "its IP address is empty",
        ),
        (
            "an empty hostname",
            |way| way.hostname = Some(String::new()),
            "its hostname is empty",
        ),
        (
            "a long address",
            |way| way.ip = Some("1".repeat(254)),
            "254 bytes of its IP address, at most 253",
        ),
        (
            "a long hostname",
            |way| way.hostname = Some("x".repeat(254)),
            "254 bytes of its hostname, at most 253",
        ),
        (
            "a mode",
            |way| way.ip_mode = Some(common::IpMode::Proxy),
            "accepted",
        ),
        (
            "a mode without an address",
            |way| {
                way.ip = None;
                way.hostname = Some("lb.example".to_owned());
                way.ip_mode = Some(common::IpMode::Vip);
            },
            "an IP mode and no IP address",
        ),
        (
            "the outermost ports",
            |way| way.ports = vec![port(1, None), port(65_535, Some("example.com/PortInUse"))],
            "accepted",
        ),
        (
            "no port",
            |way| way.ports = vec![port(0, None)],
            "port 0 is none",
        ),
        (
            "256 ports",
            |way| way.ports = vec![port(80, None); 256],
            "accepted",
        ),
        (
            "257 ports",
            |way| way.ports = vec![port(80, None); 257],
            "257 ports, at most 256",
        ),
        (
            "a long error",
            |way| way.ports = vec![port(80, Some(&"x".repeat(317)))],
            "317 bytes of a port's error, at most 316",
        ),
        (
            "the longest error",
            |way| way.ports = vec![port(80, Some(&"x".repeat(316)))],
            "accepted",
        ),
        (
            "an error that is a sentence",
            |way| way.ports = vec![port(80, Some("it does not work"))],
            "the error of port 80 is neither",
        ),
        (
            "an error for a terminal",
            |way| way.ports = vec![port(80, Some("Bad\u{1b}[31m"))],
            "the error of port 80 is neither",
        ),
        (
            "an empty error",
            |way| way.ports = vec![port(80, Some(""))],
            "the error of port 80",
        ),
    ];
    for (name, change, expected) in table {
        let mut second = ingress();
        change(&mut second);
        let ways = vec![ingress(), second];
        assert_checked(
            name,
            answer_limits::check_ensure(&ready(ways.clone())),
            expected,
        );
        let status = common::LoadBalancerStatus { ingress: ways };
        let found = load_balancer::Found::Present(status);
        let reported = answer_limits::check_found(&found);
        if let Err(text) = &reported {
            assert!(text.starts_with("get: way in 1: "), "{text}");
        }
        assert_checked(name, reported, expected);
    }
    for (count, expected) in [
        (0, "accepted"),
        (16, "accepted"),
        (17, "17 ways in, at most 16"),
    ] {
        assert_checked(
            "many",
            answer_limits::check_ensure(&ready(vec![ingress(); count])),
            expected,
        );
    }
    assert_checked(
        "absent",
        answer_limits::check_found(&load_balancer::Found::Absent),
        "accepted",
    );
}

/// The same events and annotation changes in an answer of `ensure` and in one of `delete`.
#[test]
fn events_and_annotations_keep_to_the_documented_caps() {
    let long = "x".repeat(318);
    let table: Vec<(
        &str,
        Vec<common::Event>,
        Vec<common::AnnotationChange>,
        &str,
    )> = vec![
        ("nothing", vec![], vec![], "accepted"),
        (
            "16 events",
            vec![event("Done", "it is"); 16],
            vec![],
            "accepted",
        ),
        (
            "17 events",
            vec![event("Done", "it is"); 17],
            vec![],
            "17 events, at most 16",
        ),
        (
            "a reason that is none",
            vec![event("Done", ""), event("<b>Done</b>", "")],
            vec![],
            "event 1: its reason is not a CamelCase word",
        ),
        (
            "a long message",
            vec![event("Done", &"x".repeat(1025))],
            vec![],
            "event 0: 1025 bytes of a message",
        ),
        (
            "16 annotations",
            vec![],
            vec![change("a.example/b", "c"); 16],
            "accepted",
        ),
        (
            "17 annotations",
            vec![],
            vec![change("a.example/b", "c"); 17],
            "17 annotations, at most 16",
        ),
        (
            "the longest key",
            vec![],
            vec![change(&long[1..], "c")],
            "accepted",
        ),
        (
            "a long key",
            vec![],
            vec![change(&long, "c")],
            "annotation 0: 318 bytes of a key, at most 317",
        ),
        ("no key", vec![], vec![change("", "c")], "its key is empty"),
        (
            "the longest value",
            vec![],
            vec![change("k", &"v".repeat(4096))],
            "accepted",
        ),
        (
            "a long value",
            vec![],
            vec![change("k", &"v".repeat(4097))],
            "4097 bytes of a value, at most 4096",
        ),
        (
            "a value for a terminal",
            vec![],
            vec![change("k", "v"), change("k", "\u{1b}[2J")],
            "annotation 1: it has control characters",
        ),
        (
            "a key of two lines",
            vec![],
            vec![change("k\nk", "v")],
            "it has control characters",
        ),
        // A key outside of the granted prefixes has a valid shape: core checks its owner.
        (
            "somebody else's key",
            vec![],
            vec![change("kubernetes.io/x", "v")],
            "accepted",
        ),
    ];
    for (name, events, annotations, expected) in table {
        let reply = load_balancer::EnsureReply {
            events: events.clone(),
            annotations: annotations.clone(),
            ..ready(vec![ingress()])
        };
        assert_checked(name, answer_limits::check_ensure(&reply), expected);
        let reply = load_balancer::ProgressReply {
            events,
            annotations,
            ..done()
        };
        let reported = answer_limits::check_progress("delete", &reply);
        if let Err(text) = &reported {
            assert!(text.starts_with("delete: "), "{text}");
        }
        assert_checked(name, reported, expected);
    }
}

#[test]
fn a_hint_is_kept_whole_or_not_at_all() {
    for (bytes, expected) in [
        (0, "accepted"),
        (4096, "accepted"),
        (4097, "4097 bytes of a hint, at most 4096"),
    ] {
        let ensured = load_balancer::EnsureReply {
            ensured: load_balancer::Ensured::Pending(pending(1_000, bytes)),
            ..ready(vec![])
        };
        assert_checked("ensure", answer_limits::check_ensure(&ensured), expected);
        let updated = load_balancer::ProgressReply {
            progress: load_balancer::Progress::Pending(pending(1_000, bytes)),
            ..done()
        };
        assert_checked(
            "delete",
            answer_limits::check_progress("delete", &updated),
            expected,
        );
    }
}

#[test]
fn the_time_until_the_next_call_is_clamped() {
    for (asked, milliseconds) in [
        (0, 100),
        (99, 100),
        (100, 100),
        (500, 500),
        (600_000, 600_000),
        (600_001, 600_000),
        (u64::MAX, 600_000),
    ] {
        let clamped = Pending::from(pending(asked, 3));
        assert_eq!(clamped.retry_after, Duration::from_millis(milliseconds));
        assert_eq!(clamped.hint.as_deref(), Some(&[7, 7, 7][..]));
    }
}

/// A status with every field set, in core's type.
fn status() -> LoadBalancerStatus {
    let port = |port, protocol, error: Option<&str>| PortStatus {
        port,
        protocol,
        error: error.map(str::to_owned),
    };
    LoadBalancerStatus {
        ingress: vec![
            Ingress {
                ip: Some("203.0.113.10".to_owned()),
                hostname: None,
                ip_mode: Some(IpMode::Proxy),
                ports: vec![
                    port(80, Protocol::Tcp, None),
                    port(53, Protocol::Udp, Some("PortInUse")),
                    port(9_899, Protocol::Sctp, None),
                ],
            },
            Ingress {
                ip: Some("2001:db8::10".to_owned()),
                hostname: Some("lb.example".to_owned()),
                ip_mode: Some(IpMode::Vip),
                ports: Vec::new(),
            },
        ],
    }
}

#[test]
fn a_status_survives_the_way_in_and_out() {
    let there = common::LoadBalancerStatus::from(&status());
    assert_eq!(LoadBalancerStatus::from(there.clone()), status());
    let reply = load_balancer::EnsureReply {
        events: vec![event("Made", "two\nlines\u{1b}")],
        annotations: vec![
            change("a.example/b", "c"),
            common::AnnotationChange {
                key: "a.example/d".to_owned(),
                value: None,
            },
        ],
        ..ready(there.ingress.clone())
    };
    let reply = EnsureReply::from(reply);
    assert_eq!(reply.ensured, Ensured::Ready(status()));
    assert_eq!(reply.events[0].reason, "Made");
    assert_eq!(reply.events[0].message, "two lines\\u{1b}");
    let requests_made =
        [("a.example/b", Some("c")), ("a.example/d", None)].map(|(key, value)| AnnotationChange {
            key: key.to_owned(),
            value: value.map(str::to_owned),
        });
    assert_eq!(reply.annotations, requests_made);
    assert_eq!(ProgressReply::from(done()).progress, Progress::Done);
    assert_eq!(Found::from(load_balancer::Found::Absent), Found::Absent);
    let present = load_balancer::Found::Present(there);
    assert_eq!(Found::from(present), Found::Present(status()));
}

#[test]
fn a_service_is_told_as_it_stands() {
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let service = CloudService {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "uid-1".to_owned(),
        annotations: [
            ("b".to_owned(), "2".to_owned()),
            ("a".to_owned(), "1".to_owned()),
        ]
        .into(),
        labels: [("c".to_owned(), "3".to_owned())].into(),
        ports: vec![ServicePort {
            name: Some("http".to_owned()),
            protocol: Protocol::Udp,
            app_protocol: Some("kubernetes.io/h2c".to_owned()),
            port: 80,
            node_port: Some(30_080),
        }],
        class: Some("example.com/lb".to_owned()),
        requested_ip: Some("203.0.113.10".to_owned()),
        source_ranges: texts(&["192.0.2.0/24"]),
        external_traffic_policy: Some(TrafficPolicy::Local),
        health_check_node_port: Some(31_000),
        ip_families: vec![IpFamily::V6, IpFamily::V4],
        ip_family_policy: Some(IpFamilyPolicy::PreferDualStack),
        session_affinity_seconds: Some(10_800),
        cluster_ips: texts(&["10.96.0.1", "fd00::1"]),
        status: status(),
    };
    // The generated types cannot be compared, and their printed form has every field.
    let expected = load_balancer::Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "uid-1".to_owned(),
        annotations: vec![
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "2".to_owned()),
        ],
        labels: vec![("c".to_owned(), "3".to_owned())],
        ports: vec![load_balancer::ServicePort {
            name: Some("http".to_owned()),
            protocol: common::Protocol::Udp,
            app_protocol: Some("kubernetes.io/h2c".to_owned()),
            port: 80,
            node_port: Some(30_080),
        }],
        class: Some("example.com/lb".to_owned()),
        requested_ip: Some("203.0.113.10".to_owned()),
        source_ranges: texts(&["192.0.2.0/24"]),
        external_traffic_policy: Some(load_balancer::TrafficPolicy::Local),
        health_check_node_port: Some(31_000),
        ip_families: vec![common::IpFamily::Ipv6, common::IpFamily::Ipv4],
        ip_family_policy: Some(load_balancer::IpFamilyPolicy::PreferDualStack),
        session_affinity_seconds: Some(10_800),
        cluster_ips: texts(&["10.96.0.1", "fd00::1"]),
        status: (&status()).into(),
        extra: Vec::new(),
    };
    let recorded = load_balancer::Service::from(&service);
    assert_eq!(format!("{recorded:?}"), format!("{expected:?}"));
}
