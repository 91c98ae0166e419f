//! Lookups of dedicated servers.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{TestHost, config, granting, json, node, ready};
use ccm_guest::{Address, EventType, FindReply, Lookup, Node};

use super::project::Project;
use super::{brief, count, find_with};
use crate::config::Settings;

mod requests;

const ON: &[(&str, &str)] = &[("ROBOT_ENABLED", "true")];
const RATE_LIMIT: &str = include_str!("../../../fixtures/robot-error-rate-limit-exceeded.json");
const SERVERS: &[(u64, &str)] = &[
    (321, "robot-server1"),
    (322, "robot-server2"),
    (330, "Web-1"),
];

fn find(nodes: &[Node]) -> FindReply {
    find_with(ON, nodes).unwrap()
}

fn reasons(reply: &FindReply) -> Vec<(u32, &str)> {
    let events = reply.events.iter();
    let reasons = events.map(|event| {
        // Nothing is wrong here with the one; the others ask for something.
        let is_hint = event.event.reason == "RobotNameDiffersInCase";
        let expected = if is_hint {
            EventType::Normal
        } else {
            EventType::Warning
        };
        assert_eq!(event.event.event_type, expected);
        (event.node, event.event.reason.as_str())
    });
    reasons.collect()
}

/// Requests to Robot: lists, servers, power states.
fn robot_requests(host: &TestHost) -> (usize, usize, usize) {
    let lists = host
        .requests()
        .iter()
        .filter(|line| *line == "GET /server")
        .count();
    (
        lists,
        count(host, "GET /server/"),
        count(host, "GET /reset/"),
    )
}

#[test]
fn instance_exists_of_the_go_manager() {
    // Name of the case, name of the node, provider ID, lookup.
    let table = [
        (
            "existing server by id",
            "server-1",
            Some("hcloud://1"),
            "found hcloud://1",
        ),
        (
            "existing robot server by id",
            "robot-server1",
            Some("hrobot://321"),
            "found hrobot://321",
        ),
        (
            "existing robot server by (legacy) id",
            "robot-server1",
            Some("hcloud://bm-321"),
            "found hcloud://bm-321",
        ),
        (
            "missing server by id",
            "server-2",
            Some("hcloud://99"),
            "gone",
        ),
        (
            "missing robot server by id",
            "robot-server9",
            Some("hrobot://399"),
            "gone",
        ),
        (
            "missing robot server by (legacy) id",
            "robot-server9",
            Some("hcloud://bm-399"),
            "gone",
        ),
        (
            "existing server by name",
            "server-1",
            None,
            "found hcloud://1",
        ),
        (
            "existing robot server by name",
            "robot-server1",
            None,
            "found hrobot://321",
        ),
        // People write capital letters at Robot, and a node's name has none.
        (
            "robot server with capital letters by name",
            "web-1",
            None,
            "found hrobot://330",
        ),
        // Without provider ID the node is not this provider's, rather than gone.
        ("missing server by name", "server-99", None, "not mine"),
        (
            "missing robot server by name",
            "robot-server9",
            None,
            "not mine",
        ),
    ];
    for (name, node_name, provider_id, expected) in table {
        let _host = Project::of(3).dedicated(SERVERS).serve();
        let reply = find(&[node(node_name, provider_id)]);
        assert_eq!(brief(&reply), [expected], "{name}");
        assert_eq!(reply.events, [], "{name}");
    }
    let _host = Project::of(3).dedicated(SERVERS).serve();
    let nodes: Vec<Node> = table
        .iter()
        .map(|(_, name, provider_id, _)| node(name, *provider_id))
        .collect();
    let expected: Vec<&str> = table.iter().map(|(_, _, _, expected)| *expected).collect();
    assert_eq!(brief(&find(&nodes)), expected, "all of them in one call");
}

#[test]
fn instance_shutdown_of_the_go_manager() {
    for (name, power, expected) in [
        ("[robot] running", "running", Some(false)),
        ("[robot] shutdown", "shut off", Some(true)),
        ("[robot] status unavailable", "not supported", None),
    ] {
        let host = Project::of(0).dedicated(SERVERS).power(power).serve();
        let one = [node("robot-server1", Some("hrobot://321"))];
        let reply = find(&one);
        let [Lookup::Found(instance)] = reply.lookups.as_slice() else {
            panic!("{name}: {reply:?}");
        };
        assert_eq!(instance.shutdown, expected, "{name}");
        assert_eq!(robot_requests(&host), (1, 0, 1), "{name}");
    }
}

#[test]
fn the_power_state_is_asked_for_nodes_that_are_not_ready_and_no_other() {
    let servers = [(321, "a"), (322, "b"), (323, "c"), (324, "d"), (325, "e")];
    let host = Project::of(1).dedicated(&servers).power("shut off").serve();
    let mut not_ready = node("b", Some("hrobot://322"));
    not_ready.ready = Some(false);
    let mut untold = node("e", Some("hrobot://325"));
    untold.extra = Vec::new();
    // Ready; not ready; readiness unknown; new; from a host that states no readiness; on a server that has another name
    // now.
    let nodes = [
        (ready(node("a", Some("hrobot://321"))), None),
        (not_ready, Some(true)),
        (node("c", Some("hcloud://bm-323")), Some(true)),
        (node("d", None), None),
        (untold, Some(true)),
    ];
    let asked: Vec<Node> = nodes.iter().map(|(node, _)| node.clone()).collect();
    for (lookup, (node, expected)) in find(&asked).lookups.into_iter().zip(&nodes) {
        let Lookup::Found(instance) = lookup else {
            panic!("{lookup:?}");
        };
        assert_eq!(instance.shutdown, *expected, "{}", node.name);
    }
    assert_eq!(robot_requests(&host), (1, 0, 3));

    let host_ages = |host: &TestHost| -> Vec<String> {
        let seen = host.seen().into_iter();
        let seen = seen.filter(|seen| seen.path.starts_with("/reset/"));
        seen.map(|seen| seen.headers[0].1.clone()).collect()
    };
    assert_eq!(host_ages(&host), ["max-age=45"; 3]);
}

#[test]
fn many_nodes_that_are_not_ready_stay_within_what_robot_allows() {
    let names: Vec<String> = (1..=100).map(|number| format!("r{number}")).collect();
    let servers: Vec<(u64, &str)> = (1..).zip(names.iter().map(String::as_str)).collect();
    let nodes: Vec<Node> = servers
        .iter()
        .map(|(number, name)| node(name, Some(&format!("hrobot://{number}"))))
        .collect();
    let host = Project::of(0).dedicated(&servers).power("shut off").serve();
    let reply = find(&nodes);
    let reported = reply.lookups.iter().filter(|lookup| {
        let Lookup::Found(instance) = lookup else {
            panic!("{lookup:?}");
        };
        instance.shutdown == Some(true)
    });
    assert_eq!(reported.count(), 40);
    assert_eq!(robot_requests(&host), (1, 0, 40));
}

#[test]
fn a_power_state_that_cannot_be_had_costs_one_request_and_no_node() {
    let project = std::cell::RefCell::new(Project::of(0).dedicated(SERVERS));
    let host = TestHost::new(super::project::MANIFEST, move |seen| {
        match seen.path.as_str() {
            "/reset/321" => json(403, RATE_LIMIT),
            _ => project.borrow_mut().answer(seen),
        }
    });
    let nodes = [
        node("robot-server1", Some("hrobot://321")),
        node("robot-server2", Some("hrobot://322")),
    ];
    assert_eq!(
        brief(&find(&nodes)),
        ["found hrobot://321", "found hrobot://322"]
    );
    assert_eq!(robot_requests(&host), (1, 0, 1));
}

#[test]
fn get_robot_server_by_id_of_the_go_manager() {
    for (name, node_name, expected, events) in [
        (
            "no diff robot and node name",
            "robot-server1",
            "found hrobot://321",
            vec![],
        ),
        (
            "diff robot and node name",
            "barfoo",
            "gone",
            vec![(0, "PossibleNodeDeletion")],
        ),
    ] {
        let _host = Project::of(0).dedicated(SERVERS).serve();
        let reply = find(&[node(node_name, Some("hrobot://321"))]);
        assert_eq!(brief(&reply), [expected], "{name}");
        assert_eq!(reasons(&reply), events, "{name}");
    }
}

#[test]
fn a_name_with_capital_letters_is_the_nodes_and_reported_because_of_the_go_manager() {
    let _host = Project::of(0).dedicated(SERVERS).serve();
    let reply = find(&[
        node("robot-server1", Some("hrobot://321")),
        node("web-1", Some("hrobot://330")),
    ]);
    assert_eq!(brief(&reply), ["found hrobot://321", "found hrobot://330"]);
    assert_eq!(reasons(&reply), [(1, "RobotNameDiffersInCase")]);
}

#[test]
fn a_name_in_both_worlds_or_twice_in_one_is_unknown_and_said_aloud() {
    let projects: [fn() -> Project; 3] = [
        || Project::of(3).dedicated(&[(321, "server-1")]),
        || Project::of(0).dedicated(&[(321, "server-1"), (322, "server-1")]),
        || Project::of(3).named(3, "server-1").dedicated(SERVERS),
    ];
    for project in projects {
        let _host = project().serve();
        let reply = find(&[node("server-1", None)]);
        assert_eq!(brief(&reply), ["unknown"]);
        assert_eq!(reasons(&reply), [(0, "InstanceLookupFailed")]);
    }
}

#[test]
fn with_robot_off_its_nodes_are_nobodys_and_nothing_is_asked() {
    let host = Project::of(3).dedicated(SERVERS).serve();
    let nodes = [
        node("robot-server1", Some("hrobot://321")),
        node("robot-server1", Some("hcloud://bm-321")),
        node("robot-server1", None),
    ];
    let reply = find_with(&[("ROBOT_ENABLED", "false")], &nodes).unwrap();
    assert_eq!(brief(&reply), ["not mine", "not mine", "not mine"]);
    // Robot is enabled without credentials: the Go manager's look-ups fail, so that such nodes stay as they are.
    let ungranted = granting(config(ON), &["api"]);
    let reply = super::find(&Settings::read(&ungranted).unwrap(), &nodes).unwrap();
    assert_eq!(brief(&reply), ["not mine", "not mine", "not mine"]);
    assert_eq!(robot_requests(&host), (0, 0, 0));
}

#[test]
fn an_account_without_any_server_proves_no_absence() {
    let _host = Project::of(1).dedicated(&[]).serve();
    let reply = find(&[
        node("robot-server1", Some("hrobot://321")),
        node("server-1", None),
        node("nobody", None),
    ]);
    assert_eq!(brief(&reply), ["unknown", "found hcloud://1", "not mine"]);
}

#[test]
fn a_failure_of_robot_is_never_absence() {
    for (status, body) in [
        (
            401,
            include_str!("../../../fixtures/robot-error-unauthorized.json"),
        ),
        (403, RATE_LIMIT),
        (404, "<html>not here</html>"),
        (500, "oops"),
        (503, ""),
        (200, ""),
        (200, "{}"),
        (200, "[{}]"),
        (200, "[]"),
        (301, ""),
    ] {
        let nodes = [
            node("robot-server1", Some("hrobot://321")),
            node("barfoo", Some("hcloud://bm-322")),
        ];
        let _host = Project::of(1).robot_answers(json(status, body)).serve();
        let reply = find(&nodes);
        assert_eq!(brief(&reply), ["unknown", "unknown"], "{status} {body}");
        assert_eq!(reply.events, [], "{status} {body}");
    }
}

#[test]
fn a_rename_that_cannot_be_confirmed_is_unknown() {
    let project = std::rc::Rc::new(std::cell::RefCell::new(Project::of(0).dedicated(SERVERS)));
    // Robot's two lists: one from before the server was renamed, and one that shows the new name. The confirming list
    // fails.
    let mut lists = 0;
    let served = std::rc::Rc::clone(&project);
    let _host = TestHost::new(super::project::MANIFEST, move |seen| {
        lists += 1;
        if lists == 3 {
            return json(503, "");
        }
        served.borrow_mut().answer(seen)
    });
    let nodes = [ready(node("robot-server1", Some("hrobot://321")))];
    assert_eq!(brief(&find(&nodes)), ["found hrobot://321"]);
    project.borrow_mut().rename_dedicated(321, "other");
    let reply = find(&nodes);
    assert_eq!(brief(&reply), ["unknown"]);
    assert_eq!(reply.events, []);
}

#[test]
fn trouble_of_the_cloud_leaves_robots_nodes_alone() {
    let unauthorized = include_str!("../../../fixtures/error-unauthorized.json");
    let project = std::cell::RefCell::new(Project::of(0).dedicated(SERVERS));
    let _host = TestHost::new(super::project::MANIFEST, move |seen| {
        match seen.target.as_str() {
            "robot" => project.borrow_mut().answer(seen),
            _ => json(401, unauthorized),
        }
    });
    let robot = node("robot-server1", Some("hrobot://321"));
    let nodes = [
        node("server-1", Some("hcloud://1")),
        robot,
        node("new", None),
    ];
    assert_eq!(
        brief(&find(&nodes)),
        ["unknown", "found hrobot://321", "unknown"]
    );
    find_with(ON, &nodes[..1]).unwrap_err();
}

#[test]
fn internal_addresses_are_the_kubelets() {
    let mut robot = node("robot-server1", Some("hrobot://321"));
    robot.addresses = vec![
        Address::internal("10.0.1.2"),
        Address::internal("233.252.0.123"),
    ];
    let nodes = [node("server-1", Some("hcloud://1")), robot];
    let _host = Project::of(1).dedicated(SERVERS).serve();
    let reply = find(&nodes);
    let Lookup::Found(instance) = &reply.lookups[1] else {
        panic!("{reply:?}");
    };
    assert_eq!(
        instance.addresses.last(),
        Some(&Address::internal("10.0.1.2"))
    );
    assert_eq!(reasons(&reply), [(1, "MisconfiguredInternalIP")]);
}

#[test]
fn events_stay_below_the_contracts_caps() {
    let names: Vec<String> = (1..=300).map(|number| format!("r{number}")).collect();
    let servers: Vec<(u64, &str)> = (1..).zip(names.iter().map(String::as_str)).collect();
    let mut nodes: Vec<Node> = servers
        .iter()
        .map(|(number, _)| node("renamed", Some(&format!("hrobot://{number}"))))
        .collect();
    let mut odd = node("r1", Some("hrobot://1"));
    odd.addresses = (0..20)
        .map(|last| Address::internal(format!("fd00::{last}")))
        .collect();
    nodes.insert(0, odd);
    let _host = Project::of(0).dedicated(&servers).serve();
    let reply = find(&nodes);
    assert_eq!(reply.lookups.len(), 301);
    assert_eq!(reply.events.len(), 256);
    let of_first = reply.events.iter().filter(|event| event.node == 0);
    assert_eq!(of_first.count(), 8);
}

#[test]
fn with_debug_on_every_look_up_is_a_line() {
    let host = Project::of(1).dedicated(SERVERS).serve();
    let nodes = [
        node("server-1", Some("hcloud://1")),
        node("robot-server9", Some("hrobot://399")),
    ];
    find(&nodes);
    assert_eq!(host.lines(), []);
    find_with(&[ON[0], ("HCLOUD_DEBUG", "true")], &nodes).unwrap();
    let lines: Vec<String> = host.lines().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[1].contains("node=robot-server9") && lines[1].contains("answer=gone"));
}
