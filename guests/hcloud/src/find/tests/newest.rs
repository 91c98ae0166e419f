//! Servers that were created a moment ago: in a large project, and in one that grows while it is listed.

use ccm_guest::Node;
use ccm_guest::testing::node;

use super::project::Project;
use super::{brief, by_id, find_with};

#[test]
fn new_servers_of_a_large_project_are_found_on_the_page_of_the_newest() {
    let named = |ids: std::ops::RangeInclusive<u64>| -> Vec<Node> {
        let new = |id| node(&format!("server-{id}"), None);
        ids.map(new).collect()
    };
    let (host, project) = Project::of(1000).serve_changing();
    find_with(&[], &by_id(1..=1000)).unwrap();
    (1001..=1060).for_each(|id| project.borrow_mut().add(id));
    // Nodes by name, requests, and how many of these nodes are found.
    for (names, requests, found) in [
        (1060..=1060, 1, 1),
        (1053..=1060, 8, 8),
        (1052..=1060, 1, 9),
        (1011..=1060, 1, 50),
        // Some servers are older than the newest page, and some do not exist.
        (1001..=1060, 1 + 10, 60),
        (1031..=1063, 1 + 3, 30),
        (1..=10, 1 + 10, 10),
        // The remaining servers are cheaper by list.
        (1..=60, 1 + 22, 60),
        (901..=1000, 22, 100),
    ] {
        let before = host.requests().len();
        let reply = find_with(&[], &named(names.clone())).unwrap();
        let sent = host.requests().split_off(before);
        let reported = brief(&reply);
        let was_found = reported.iter().filter(|one| one.starts_with("found"));
        assert_eq!(
            (sent.len(), was_found.count()),
            (requests, found),
            "{names:?}: {sent:?}"
        );
        assert!(
            !reported.iter().any(|one| one == "unknown"),
            "{names:?}: {reported:?}"
        );
    }
}

#[test]
fn a_project_that_grows_during_the_second_list_leaves_no_new_node_unknown() {
    // The first list lacks 25 of the nodes; one server more makes the second one disagree with itself.
    let host = Project::of(1000)
        .then_before_page(2, |project| {
            project.before_page(2, |project| project.add(1001))
        })
        .serve();
    let asked: Vec<Node> = (977..=1025)
        .map(|id| node(&format!("server-{id}"), None))
        .collect();
    let reported = brief(&find_with(&[], &asked).unwrap());
    assert_eq!(reported[23], "found hcloud://1000");
    assert_eq!(reported[24], "found hcloud://1001", "{:?}", host.requests());
    assert!(
        reported[25..].iter().all(|one| one == "not mine"),
        "{reported:?}"
    );
}

#[test]
fn new_machines_that_a_growing_list_shows_are_found_although_it_is_not_believed() {
    let grows = |project: &mut Project| project.add(301);
    let host = Project::of(300).then_before_page(2, grows).serve();
    let mut nodes: Vec<Node> = (1..=300)
        .map(|id| node(&format!("server-{id}"), None))
        .collect();
    nodes.push(node("server-999", None));
    let reply = find_with(&[], &nodes).unwrap();
    let found = brief(&reply)
        .iter()
        .filter(|one| one.starts_with("found"))
        .count();
    assert_eq!(found, 300, "{:?}", host.requests());
    assert!(!brief(&reply).contains(&"gone".to_owned()));
}
