//! Readers for Hetzner's annotations: whole seconds, untrimmed lists, ranges.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::fixtures::service;
use super::*;

const KEY: &str = "load-balancer.hetzner.cloud/some";

/// Reads the annotation with this value: the result, and whether there was no mistake.
fn read<T>(value: &str, get: fn(&mut Values<'_>, &str) -> Option<T>) -> (Option<T>, bool) {
    let service = service(&[(KEY, value)]);
    let mut annotations = service.values();
    let read = get(&mut annotations, KEY);
    (read, annotations.finish().is_ok())
}

#[test]
fn durations_are_counted_in_whole_seconds() {
    let table = [
        ("1m30s", Some(90)),
        ("1500ms", Some(1)),
        ("999ms", Some(0)),
        ("15", None),
    ];
    for (value, expected) in table {
        assert_eq!(
            read(value, seconds),
            (expected, expected.is_some()),
            "{value}"
        );
    }
}

#[test]
fn lists_are_split_at_commas_and_not_trimmed() {
    let table = [
        ("a,b,c", vec!["a", "b", "c"]),
        ("a, b", vec!["a", " b"]),
        ("a", vec!["a"]),
        ("", vec![""]),
        (",", vec!["", ""]),
    ];
    for (value, expected) in table {
        let expected = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(read(value, parts), (Some(expected), true));
    }
}

#[test]
fn ranges_are_written_as_the_range_itself() {
    let table = [
        ("10.0.1.0/24", Some("10.0.1.0/24")),
        ("10.0.1.7/24", Some("10.0.1.0/24")),
        ("10.255.0.1/8", Some("10.0.0.0/8")),
        ("10.0.1.7/32", Some("10.0.1.7/32")),
        ("10.0.1.7/0", Some("0.0.0.0/0")),
        ("10.0.0.0/33", None),
        ("10.0.0.0/", None),
        ("10.0.0.0/+8", None),
        ("10.0.0.0/-1", None),
        ("10.0.0.0/8/8", None),
        ("10.0.0.0", None),
        ("fd00::/8", None),
        ("/24", None),
        ("invalid", None),
    ]
    .map(|(value, expected)| (value, expected.map(str::to_owned)));
    for (value, expected) in table {
        let is_right = expected.is_some();
        assert_eq!(read(value, ip_range), (expected, is_right), "{value}");
    }
    assert_eq!(read("", ip_range), (None, true));
}
