//! Nodes that are not ready, beside known-good ones: the calls that the host makes every few seconds before it deletes
//! a node. Each of them has to be useful by itself, and cheap.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::Node;
use ccm_guest::testing::{TestHost, node};

use super::project::Project;
use super::{brief, by_id, find_with};

/// A node that is not ready, on the server with this id, beside three that are.
fn check(id: u64, known_good: [u64; 3]) -> Vec<Node> {
    let not_ready = node("not-ready", Some(&format!("hcloud://{id}")));
    std::iter::once(not_ready)
        .chain(by_id(known_good))
        .collect()
}

/// Requests of one more call: list pages, servers.
fn requests_of(host: &TestHost, nodes: &[Node], expected: &str) -> (usize, usize) {
    let before = host.requests().len();
    let reply = find_with(&[], nodes).unwrap();
    assert_eq!(brief(&reply)[0], expected);
    assert!(
        brief(&reply)[1..]
            .iter()
            .all(|one| one.starts_with("found"))
    );
    let seen = host.seen().split_off(before);
    assert!(
        seen.iter().all(|seen| seen.headers.is_empty()),
        "no answer may be a kept one: {seen:?}"
    );
    let lists = seen.iter().filter(|seen| seen.query("page").is_some());
    let lists = lists.count();
    (lists, seen.len() - lists)
}

#[test]
fn a_check_costs_one_list_of_one_page_or_one_request_for_each_node() {
    // Servers in the project; list pages and servers asked for: without knowledge of the list's length, as in every
    // confirming look-up, and after that. First for an existing server; then for a missing one, which is asked for by
    // itself.
    let table = [
        (5, (1, 0), (1, 0), (1, 1), (1, 1)),
        (50, (1, 0), (1, 0), (1, 1), (1, 1)),
        (100, (2, 0), (2, 0), (1, 1), (1, 1)),
        (200, (1, 3), (1, 3), (1, 1), (1, 1)),
        (1000, (1, 3), (0, 4), (1, 1), (0, 4)),
        (5000, (1, 3), (0, 4), (1, 1), (0, 4)),
    ];
    for (servers, first, then, gone_first, gone_then) in table {
        let last = [servers, servers - 1, servers - 2];
        let host = Project::of(servers).serve();
        let there = check(1, last);
        let at = |nodes: &[Node], expected| requests_of(&host, nodes, expected);
        assert_eq!(at(&there, "found hcloud://1"), first, "{servers}");
        assert_eq!(at(&there, "found hcloud://1"), then, "{servers}");

        let gone = check(servers + 1, [1, 2, 3]);
        host.forget_state();
        assert_eq!(at(&gone, "gone"), gone_first, "{servers}");
        assert_eq!(at(&gone, "gone"), gone_then, "{servers}");
    }
}

/// The table of `guests/hcloud/README.md`: the maximum of requests about one node, wherever in the list the known-good
/// ones are.
#[test]
fn the_readme_has_what_a_check_costs() {
    const NETWORK: &[(&str, &str)] = &[("HCLOUD_NETWORK", "4711")];
    let readme = include_str!("../../../README.md");
    for (shown, projects) in [
        ("up to 50", &[5, 50][..]),
        ("100", &[100]),
        ("1000, 5000", &[1000, 5000]),
    ] {
        let mut rows = std::collections::BTreeSet::new();
        for &servers in projects {
            let good = [[1, 2, 3], [servers, servers - 1, servers - 2]];
            // Requests of a call with these values: after another call, or without any cached state.
            let costs = |id: u64, values: &[(&str, &str)], remembers: bool| {
                good.map(|good| {
                    let host = Project::of(servers).serve();
                    let nodes = check(id, good);
                    if remembers {
                        find_with(values, &nodes).unwrap();
                    }
                    let before = host.requests().len();
                    find_with(values, &nodes).unwrap();
                    host.requests().len() - before
                })
            };
            let [exists, gone] = [4, servers + 1].map(|id| costs(id, &[], true));
            let confirmed = costs(servers + 1, &[], false);
            let with_network = costs(servers + 1, NETWORK, false);
            assert_eq!(with_network, confirmed.map(|requests| requests + 1));
            let most = |costs: [usize; 2]| costs[0].max(costs[1]);
            let (least, confirmed) = (confirmed[0].min(confirmed[1]), most(confirmed));
            let confirmed = match least == confirmed {
                true => confirmed.to_string(),
                false => format!("{least} to {confirmed}"),
            };
            rows.insert(format!(
                "| {shown} | {} | {} | {confirmed} |",
                most(exists),
                most(gone)
            ));
        }
        assert_eq!(rows.len(), 1, "{rows:?}");
        for row in rows {
            assert!(
                readme.contains(&row),
                "guests/hcloud/README.md lacks\n{row}"
            );
        }
    }
}

#[test]
fn many_nodes_that_are_not_ready_are_one_list() {
    // Servers, nodes that are not ready, requests after the list's length is known.
    for (servers, not_ready, requests) in [
        (50, 40, 1),
        (1000, 10, 13),
        (1000, 17, 20),
        (1000, 500, 20),
        (5000, 60, 63),
        (5000, 5000 - 3, 100),
    ] {
        let host = Project::of(servers).serve();
        find_with(&[], &by_id([1, 2])).unwrap();
        let mut nodes = by_id(servers - 2..=servers);
        // The missing servers are spread over all pages.
        let ids = (0..not_ready).map(|index| 1 + index * (servers - 3) / not_ready);
        nodes.extend(ids.map(|id| node("x", Some(&format!("hcloud://{id}")))));
        let before = host.requests().len();
        let reply = find_with(&[], &nodes).unwrap();
        assert!(brief(&reply).iter().all(|one| one.starts_with("found")));
        assert_eq!(
            host.requests().len() - before,
            requests,
            "{servers} {not_ready}"
        );
    }
}

#[test]
fn only_a_small_call_about_nodes_that_are_not_ready_refuses_kept_answers() {
    let new = |id: u64| node("new", Some(&format!("hcloud://{id}")));
    let mut large = by_id(1..=64);
    large.push(new(65));
    let without_id = vec![by_id([1]).remove(0), node("server-2", None)];
    for (nodes, kept) in [
        (by_id([1, 2]), true),
        (vec![new(1)], false),
        (check(1, [2, 3, 4]), false),
        (large, true),
        (without_id, true),
    ] {
        let host = Project::of(100).serve();
        find_with(&[], &nodes).unwrap();
        let first = &host.seen()[0];
        assert_eq!(!first.headers.is_empty(), kept, "{}", first.line());
    }
}

#[test]
fn each_scheme_asks_its_own_cloud_only() {
    let on = [("ROBOT_ENABLED", "true")];
    for (nodes, target) in [
        (check(1, [2, 3, 4]), "api"),
        (check(9, [2, 3, 4]), "api"),
        (vec![node("bare", Some("hrobot://321"))], "robot"),
        (vec![node("bare", Some("hrobot://399"))], "robot"),
        (vec![node("bare", Some("hcloud://bm-321"))], "robot"),
    ] {
        let host = Project::of(4).dedicated(&[(321, "bare")]).serve();
        find_with(&on, &nodes).unwrap();
        let seen = host.seen();
        assert!(!seen.is_empty());
        assert!(seen.iter().all(|seen| seen.target == target), "{seen:?}");
    }
}

#[test]
fn a_list_that_lacks_a_server_and_agrees_with_itself_does_not_make_its_node_gone() {
    let project = std::cell::RefCell::new(Project::of(10));
    let host = TestHost::new(super::project::MANIFEST, move |seen| {
        let mut project = project.borrow_mut();
        if seen.query("page").is_none() {
            return project.answer(seen);
        }
        project.remove(1);
        let answer = project.answer(seen);
        project.add(1);
        answer
    });
    for _ in 0..2 {
        let reply = find_with(&[], &check(1, [2, 3, 4])).unwrap();
        assert_eq!(brief(&reply)[0], "found hcloud://1");
        host.forget_state();
    }
}

#[test]
fn many_servers_that_one_list_lacks_are_not_asked_for_one_by_one() {
    // Nodes that are not ready and gone, requests for one server.
    for (gone, look_ups) in [(8, 8), (9, 0), (60, 0)] {
        let host = Project::of(3).serve();
        let mut nodes = by_id(1..=3);
        nodes.extend((101..=100 + gone).map(|id| node("x", Some(&format!("hcloud://{id}")))));
        let reply = find_with(&[], &nodes).unwrap();
        let reported = brief(&reply);
        assert!(
            reported[3..].iter().all(|one| one == "gone"),
            "{reported:?}"
        );
        assert_eq!(host.requests().len(), 1 + look_ups, "{gone}");
    }
}

#[test]
fn absence_alone_is_said_beside_a_page_of_the_list() {
    // Servers in the project, ids asked for, requests.
    let table: [(u64, &[u64], &[&str]); 4] = [
        (3, &[99], &["GET /servers/99", LIST]),
        (3, &[1], &["GET /servers/1"]),
        (0, &[98, 99], &[LIST, "GET /servers/98", "GET /servers/99"]),
        (500, &[999], &["GET /servers/999", LIST]),
    ];
    for (servers, ids, requests) in table {
        let host = Project::of(servers).serve();
        let nodes: Vec<Node> = ids
            .iter()
            .map(|id| node("x", Some(&format!("hcloud://{id}"))))
            .collect();
        find_with(&[], &nodes).unwrap();
        assert_eq!(host.requests(), requests);
    }
    // Ready nodes are not about to be deleted.
    let host = Project::of(3).serve();
    find_with(&[], &by_id([99])).unwrap();
    assert_eq!(host.requests(), ["GET /servers/99"]);
}

const LIST: &str = "GET /servers?page=1&per_page=50&sort=id:asc";
