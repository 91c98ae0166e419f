//! Delays, and the size of hints.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::super::send_changes::MAX_ACTIONS;
use super::*;

fn hint(actions: usize, more: bool, waits: u64) -> Hint {
    Hint {
        digest: 7,
        id: 1,
        left: Vec::new(),
        actions: (0..actions as u64).map(|id| u64::MAX - id).collect(),
        more,
        waits,
        addresses: Some(Addresses::default()),
    }
}

#[test]
fn running_actions_are_asked_about_twice_a_second_and_then_less_often() {
    let table = [
        (hint(1, false, 0), 500),
        (hint(1, true, 7), 500),
        (hint(1, false, 8), 1000),
        (hint(25, false, 1_000_000), 10_000),
        (hint(0, true, 0), 100),
        (hint(0, true, 1), 1000),
        (hint(0, true, 3), 3000),
        (hint(0, true, u64::MAX), 10_000),
    ];
    for (hint, expected) in table {
        let shown = format!("{hint:?}");
        assert_eq!(hint.pending().retry_after_ms, expected, "{shown}");
    }
}

#[test]
fn the_longest_hint_is_within_the_contract_and_is_read_back() {
    let longest = Hint {
        digest: u64::MAX,
        waits: u64::MAX,
        addresses: Some(Addresses {
            ipv4: Some("255.255.255.255".to_owned()),
            ipv6: Some("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff".to_owned()),
            private: vec!["255.255.255.255".to_owned(); 3],
        }),
        ..hint(MAX_ACTIONS, true, 0)
    };
    let bytes = longest.clone().pending().hint.unwrap();
    assert!(bytes.len() <= 4096, "{}", bytes.len());
    let read: Option<Hint> = serde_json::from_slice(&bytes).ok();
    assert_eq!(Hint::of(read.clone(), u64::MAX).as_ref(), Some(&longest));
    assert_eq!(Hint::of(read, 1), None, "about another wish");
}

#[test]
fn of_what_is_left_so_much_is_remembered_as_there_is_room_for() {
    let change = |id: u64| Change {
        action: "add_target".to_owned(),
        body: json!({"type": "server", "server": {"id": id}, "use_private_ip": false}),
        why: format!("node node-{id} is to be a target, as server {id}"),
        node: Some(format!("node-{id}")),
        unsettles: false,
    };
    let table = [(0, false), (5, false), (10, false), (200, true)];
    for (changes, more) in table {
        let all: Vec<Change> = (1..=changes).map(change).collect();
        let hint = Hint {
            left: all.clone(),
            ..hint(1, false, 0)
        };
        let bytes = hint.pending().hint.unwrap();
        assert!(bytes.len() <= 4096);
        let read = serde_json::from_slice::<Hint>(&bytes).unwrap();
        assert_eq!(read.more, more, "{changes}");
        assert!(all.starts_with(&read.left), "the first ones");
        assert!(read.left.len() >= all.len().min(5));
    }
    let vast = Change {
        why: "x".repeat(5000),
        ..change(1)
    };
    let hint = Hint {
        left: vec![vast],
        ..hint(1, false, 0)
    };
    let read = serde_json::from_slice::<Hint>(&hint.pending().hint.unwrap()).unwrap();
    assert!(read.left.is_empty() && read.more);
}
