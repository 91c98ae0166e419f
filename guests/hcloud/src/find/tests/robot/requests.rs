//! Which requests to Robot dedicated servers cost, and which are saved.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ccm_guest::testing::{TestHost, json, node, ready};
use ccm_guest::{Lookup, Node};

use super::super::project::{MANIFEST, Project};
use super::super::{brief, by_id, find_with};
use super::{ON, RATE_LIMIT, SERVERS, find, robot_requests};

#[test]
fn nodes_of_the_cloud_cost_no_request_to_robot() {
    let host = Project::of(3).dedicated(SERVERS).serve();
    find(&by_id(1..=3));
    find(&[node("x", Some("aws:///x/i-1"))]);
    assert_eq!(robot_requests(&host), (0, 0, 0));
}

#[test]
fn many_dedicated_servers_cost_one_request() {
    let names: Vec<String> = (1..=1000).map(|number| format!("r{number}")).collect();
    let servers: Vec<(u64, &str)> = (1..).zip(names.iter().map(String::as_str)).collect();
    let nodes: Vec<Node> = servers
        .iter()
        .map(|(number, name)| ready(node(name, Some(&format!("hrobot://{number}")))))
        .collect();
    let host = Project::of(0).dedicated(&servers).serve();
    assert!(
        brief(&find(&nodes))
            .iter()
            .all(|lookup| lookup.starts_with("found hrobot://"))
    );
    assert_eq!(host.requests(), ["GET /server"]);
}

#[test]
fn absence_is_told_from_a_list_of_at_most_a_minute() {
    let ages = |host: &TestHost| -> Vec<String> {
        let lists = host
            .seen()
            .into_iter()
            .filter(|seen| seen.path == "/server");
        lists.map(|seen| seen.headers[0].1.clone()).collect()
    };
    let missing = node("robot-server9", Some("hrobot://399"));
    let renamed = node("barfoo", Some("hrobot://321"));
    let nobodys = node("robot-server9", None);
    for (node, expected) in [
        (&missing, vec!["max-age=300", "max-age=60"]),
        (&renamed, vec!["max-age=300", "max-age=60"]),
        (&nobodys, vec!["max-age=300"]),
    ] {
        let host = Project::of(0).dedicated(SERVERS).serve();
        find(std::slice::from_ref(node));
        assert_eq!(ages(&host), ["max-age=60"], "the first one: {node:?}");
        find(std::slice::from_ref(node));
        assert_eq!(ages(&host)[1..], expected, "{node:?}");
    }
    let host = Project::of(0).dedicated(SERVERS).serve();
    find_with(&[ON[0], ("ROBOT_CACHE_TIMEOUT", "30s")], &[missing]).unwrap();
    assert_eq!(ages(&host), ["max-age=30"]);
}

#[test]
fn a_server_that_the_list_lacks_is_looked_up_before_it_is_gone() {
    let host = Project::of(0).dedicated(SERVERS).half_listed().serve();
    let nodes = [
        ready(node("robot-server1", Some("hrobot://321"))),
        ready(node("robot-server2", Some("hrobot://322"))),
        node("robot-server9", Some("hrobot://399")),
    ];
    let expected = ["found hrobot://321", "found hrobot://322", "gone"];
    assert_eq!(brief(&find(&nodes)), expected);
    assert_eq!(robot_requests(&host), (1, 2, 0));

    // The absence of a number is cached; existing numbers are asked for again.
    assert_eq!(brief(&find(&nodes)), expected);
    assert_eq!(robot_requests(&host), (3, 3, 0));
    host.advance(Duration::from_secs(600));
    assert_eq!(brief(&find(&nodes[2..])), ["gone"]);
    assert_eq!(robot_requests(&host), (5, 4, 0));
    host.forget_state();
    assert_eq!(brief(&find(&nodes[2..])), ["gone"]);
    assert_eq!(
        robot_requests(&host),
        (6, 5, 0),
        "a confirming look-up asks itself"
    );
}

#[test]
fn no_more_look_ups_are_sent_than_robot_allows() {
    let nodes: Vec<Node> = (1..=100)
        .map(|number| node("gone", Some(&format!("hrobot://{number}"))))
        .collect();
    let host = Project::of(0).dedicated(SERVERS).serve();
    let reply = find(&nodes);
    let gone = reply.lookups.iter().filter(|one| **one == Lookup::Gone);
    assert_eq!(gone.count(), 64);
    assert!(brief(&reply)[64..].iter().all(|one| one == "unknown"));
    assert_eq!(robot_requests(&host), (1, 64, 0));
}

#[test]
fn the_first_refusal_of_a_look_up_is_the_last_request() {
    let project = std::cell::RefCell::new(Project::of(0).dedicated(SERVERS));
    let host = TestHost::new(MANIFEST, move |seen| match seen.path.as_str() {
        "/server/397" => json(403, RATE_LIMIT),
        _ => project.borrow_mut().answer(seen),
    });
    let nodes: Vec<Node> = (396..=399)
        .map(|number| node("gone", Some(&format!("hrobot://{number}"))))
        .collect();
    assert_eq!(
        brief(&find(&nodes)),
        ["gone", "unknown", "unknown", "unknown"]
    );
    assert_eq!(robot_requests(&host), (1, 2, 0));
}

#[test]
fn a_limit_at_robot_leaves_the_cloud_alone() {
    let nodes = [
        node("server-1", Some("hcloud://1")),
        ready(node("robot-server1", Some("hrobot://321"))),
        node("gone", Some("hcloud://99")),
        node("missing", Some("hrobot://399")),
        node("new", None),
        node("server-2", None),
    ];
    let (host, project) = Project::of(3)
        .dedicated(SERVERS)
        .robot_answers(json(403, RATE_LIMIT))
        .serve_changing();
    let expected = [
        "found hcloud://1",
        "unknown",
        "gone",
        "unknown",
        "unknown",
        "unknown",
    ];
    assert_eq!(brief(&find(&nodes)), expected);
    assert_eq!(robot_requests(&host), (1, 0, 0));

    // Until the pause is over, no request is sent to Robot, whatever it would answer now.
    project.borrow_mut().robot_recovers();
    host.advance(Duration::from_secs(299));
    assert_eq!(brief(&find(&nodes)), expected);
    assert_eq!(robot_requests(&host), (1, 0, 0));

    host.advance(Duration::from_secs(1));
    assert_eq!(
        brief(&find(&nodes)),
        [
            "found hcloud://1",
            "found hrobot://321",
            "gone",
            "gone",
            "not mine",
            "found hcloud://2",
        ]
    );

    // While Robot refuses, a name that its last list lacked can be found in the cloud; a name that is found nowhere is
    // unknown.
    project.borrow_mut().robot_fails(json(403, RATE_LIMIT));
    assert_eq!(
        brief(&find(&nodes)),
        [
            "found hcloud://1",
            "unknown",
            "gone",
            "unknown",
            "unknown",
            "found hcloud://2",
        ]
    );
}
