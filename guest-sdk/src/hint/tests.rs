//! Hints are typed, bounded and never needed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::*;
use crate::load_balancer::EnsureRequest;
use crate::testing::service;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Work {
    id: u64,
    left: Vec<String>,
}

fn request(hint: Option<Vec<u8>>) -> EnsureRequest {
    EnsureRequest {
        hint,
        ..EnsureRequest::new(service("web", &[(80, 30080)]), Vec::new())
    }
}

#[test]
fn a_hint_comes_back_as_it_was_given() {
    let work = Work {
        id: 7,
        left: vec!["a".to_owned()],
    };
    let pending = Pending::after(Duration::from_millis(1500)).with_hint(&work);
    assert_eq!(pending.retry_after_ms, 1500);
    assert_eq!(request(pending.hint).hint(), Some(work));
}

#[test]
fn what_cannot_be_read_is_no_hint() {
    let large = format!(r#"{{"id":1,"left":["{}"]}}"#, "x".repeat(MAX_HINT));
    let table = [
        None,
        Some(""),
        Some("{"),
        Some("7"),
        Some(r#"{"id":-1,"left":[]}"#),
        Some("\u{0}\u{ff}"),
        Some(&large),
    ];
    for hint in table {
        let read: Option<Work> = request(hint.map(|text| text.as_bytes().to_vec())).hint();
        assert_eq!(read, None, "{hint:?}");
    }
}

#[test]
fn a_hint_that_the_host_would_refuse_is_left_out() {
    let of_length = |length: usize| Pending::after(Duration::ZERO).with_hint(&"x".repeat(length));
    assert_eq!(
        of_length(MAX_HINT - 2).hint.map(|hint| hint.len()),
        Some(MAX_HINT)
    );
    assert_eq!(of_length(MAX_HINT - 1).hint, None);
}

#[test]
fn polls_come_less_and_less_often() {
    let table = [
        (0, 500),
        (7, 500),
        (8, 1000),
        (16, 1500),
        (1_000_000, 10_000),
        (u64::MAX, 10_000),
    ];
    for (polls, expected) in table {
        let before = Pending::after(Duration::ZERO).with_hint(&Polls(polls));
        let pending = request(before.hint).again();
        assert_eq!(pending.retry_after_ms, expected, "{polls}");
        let next: Option<Polls> = request(pending.hint).hint();
        assert_eq!(next, Some(Polls(polls.saturating_add(1))));
    }
    let unreadable = request(Some(b"{".to_vec())).again();
    assert_eq!(unreadable, request(None).again());
    let table = [(0, 1000), (1, 1000), (3, 3000), (u64::MAX, 10_000)];
    for (refusals, expected) in table {
        assert_eq!(busy_delay(refusals), Duration::from_millis(expected));
    }
}

#[test]
fn another_wish_has_another_digest() {
    assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
    assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
    // FNV-1a of two quotation marks, computed in another language by a program that gives the authors' value for `a`.
    assert_eq!(digest(""), Ok(0x07cc_7607_b494_9e25));
}

#[test]
fn what_cannot_be_serialized_has_neither_a_digest_nor_a_hint() {
    // A key of JSON is a text.
    let keyed = BTreeMap::from([((1, 2), 3)]);
    assert!(matches!(digest(&keyed), Err(Error::Internal(_))));
    assert_eq!(Pending::after(Duration::ZERO).with_hint(&keyed).hint, None);
}
