//! How many writes are sent before the call waits.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::fixtures::project::{Project, Trouble};
use super::*;
use serde_json::json;

fn additions(nodes: std::ops::Range<u64>) -> Vec<Change> {
    nodes
        .map(|id| Change {
            action: "add_target".to_owned(),
            body: json!({"type": "server", "server": {"id": id}, "use_private_ip": false}),
            why: "it is a node".to_owned(),
            node: Some(format!("node-{id}")),
            unsettles: false,
        })
        .collect()
}

/// Sends this many additions: returns the number sent, and the result.
fn sent(project: Project, changes: u64) -> (usize, Done) {
    let mut project = project;
    let id = project.put("shop", &json!({}));
    let (host, _project) = project.serve();
    let mut done = Done::default();
    done.carry_out(id, additions(1..changes + 1)).unwrap();
    (host.requests().len(), done)
}

fn project(polls: u32, locks: bool) -> Project {
    let mut project = Project::new();
    project.polls = polls;
    project.locks = locks;
    project.max_targets = 1000;
    project
}

#[test]
fn a_running_action_ends_the_call_unless_there_are_many_and_the_cloud_takes_them() {
    // Polls until an action ends, whether actions lock, writes wanted, sent, left.
    for (polls, locks, wanted, expected, left) in [
        (0, false, 3, 3, 0),
        (0, false, 30, 30, 0),
        (1, false, 1, 1, 0),
        (1, false, 3, 1, 2),
        (1, false, 4, 4, 0),
        (1, false, 30, 25, 5),
        (1, true, 3, 1, 2),
        // The second write is refused, and comes first the next time.
        (1, true, 30, 2, 29),
    ] {
        let (requests, done) = sent(project(polls, locks), wanted);
        let row = format!("{polls} {locks} {wanted}");
        assert_eq!((requests, done.left.len()), (expected, left), "{row}");
        assert!(!done.more && !done.busy, "{row}");
    }
}

#[test]
fn a_cloud_that_locks_is_not_tried_again() {
    let mut project = project(1, true);
    let id = project.put("shop", &json!({}));
    let (host, _project) = project.serve();
    for expected in [2, 1] {
        let before = host.requests().len();
        // The action of the last call ends when its status is read.
        let mut done = Done::default();
        done.carry_out(id, additions(before as u64..before as u64 + 9))
            .unwrap();
        assert_eq!(host.requests().len() - before, expected);
        assert!(
            !crate::api::actions::actions(&done.actions)
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn what_the_cloud_is_too_busy_for_is_looked_at_again() {
    let mut project = project(1, false);
    project.trouble.insert(0, Trouble::Refused(423, "locked"));
    let (requests, done) = sent(project, 3);
    assert_eq!(requests, 1);
    assert!(done.busy && done.more && done.left.is_empty());
}

#[test]
fn trouble_with_one_node_is_an_error_when_nothing_else_is_left() {
    let detached = |polls| {
        let mut project = project(polls, false);
        project.detached = vec![1];
        project
    };
    let (requests, done) = sent(detached(1), 3);
    assert_eq!((requests, done.left.len(), done.more), (2, 1, true));
    let mut project = detached(0);
    let id = project.put("shop", &json!({}));
    let (host, _project) = project.serve();
    let error = Done::default().carry_out(id, additions(1..4)).unwrap_err();
    assert!(error.message().contains("node-1"), "{error:?}");
    assert_eq!(host.requests().len(), 3, "the others are targets");
}
