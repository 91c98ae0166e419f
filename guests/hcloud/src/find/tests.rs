//! Which requests are sent for which nodes, and the resulting lookups.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{TestHost, config, json, node, ready};

use super::*;
use ccm_guest::EventType;

mod newest;
mod not_ready;
mod project;
mod robot;
use project::Project;

fn find_with(values: &[(&str, &str)], nodes: &[Node]) -> Result<FindReply, Error> {
    find(&Settings::read(&config(values)).unwrap(), nodes)
}

/// The lookups in short, such as `found hcloud://1`.
fn brief(reply: &FindReply) -> Vec<String> {
    let show = |lookup: &Lookup| match lookup {
        Lookup::Found(instance) => format!("found {}", instance.provider_id),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(_) => "unknown".to_owned(),
    };
    reply.lookups.iter().map(show).collect()
}

/// Nodes that are ready, on the servers with these ids.
fn by_id(ids: impl IntoIterator<Item = u64>) -> Vec<Node> {
    ids.into_iter()
        .map(|id| ready(node(&format!("node-{id}"), Some(&format!("hcloud://{id}")))))
        .collect()
}

fn count(host: &TestHost, begin: &str) -> usize {
    host.requests()
        .iter()
        .filter(|line| line.starts_with(begin))
        .count()
}

#[test]
fn gone_is_said_only_of_a_provider_id_of_ours() {
    let table = [
        (Some("hcloud://1"), "server-1", "found hcloud://1"),
        (Some("hcloud://99"), "server-1", "gone"),
        (Some("hcloud://abc"), "server-1", "unknown"),
        (Some("hcloud://bm-99"), "server-1", "not mine"),
        (Some("hrobot://99"), "server-1", "not mine"),
        (Some("aws:///eu-central-1a/i-99"), "server-1", "not mine"),
        (None, "server-1", "found hcloud://1"),
        (Some(""), "server-1", "found hcloud://1"),
        (None, "server-99", "not mine"),
    ];
    for (provider_id, name, expected) in table {
        let _host = Project::of(3).serve();
        let reply = find_with(&[], &[node(name, provider_id)]).unwrap();
        assert_eq!(brief(&reply), [expected], "{name} {provider_id:?}");
    }
    let _host = Project::of(3).serve();
    let nodes: Vec<Node> = table
        .iter()
        .map(|(provider_id, name, _)| node(name, *provider_id))
        .collect();
    let expected: Vec<&str> = table.iter().map(|(_, _, expected)| *expected).collect();
    assert_eq!(
        brief(&find_with(&[], &nodes).unwrap()),
        expected,
        "all of them in one call"
    );
}

#[test]
fn nothing_is_asked_about_nodes_of_others() {
    let host = Project::of(3).serve();
    let nodes = [
        node("a", Some("aws:///x/i-1")),
        node("b", Some("hrobot://1")),
    ];
    assert_eq!(
        brief(&find_with(&[("HCLOUD_NETWORK", "4711")], &nodes).unwrap()),
        ["not mine", "not mine"]
    );
    assert_eq!(brief(&find_with(&[], &[]).unwrap()), [] as [&str; 0]);
    assert_eq!(host.requests(), [] as [&str; 0]);
}

#[test]
fn the_fewest_requests_answer() {
    // Servers in the project, ids asked for, requests for the list, requests for one server.
    let table: [(u64, Vec<u64>, usize, usize); 8] = [
        (3, vec![2], 0, 1),
        (1000, vec![500], 0, 1),
        (3, vec![1, 2, 3], 1, 0),
        (50, (1..=50).collect(), 1, 0),
        (1000, vec![1, 700, 800], 1, 2),
        (1000, (1..=1000).collect(), 20, 0),
        (5000, (1..=5000).collect(), 100, 0),
        (1000, (500..=520).collect(), 20, 0),
    ];
    for (servers, ids, lists, look_ups) in table {
        let host = Project::of(servers).serve();
        let reply = find_with(&[], &by_id(ids.clone())).unwrap();
        let expected: Vec<String> = ids
            .iter()
            .map(|id| format!("found hcloud://{id}"))
            .collect();
        assert_eq!(brief(&reply), expected);
        let requests = (
            count(&host, "GET /servers?page="),
            count(&host, "GET /servers/"),
        );
        assert_eq!(
            requests,
            (lists, look_ups),
            "{servers} servers, {} asked for",
            ids.len()
        );
        assert_eq!(host.requests().len(), lists + look_ups);
    }
}

#[test]
fn n_nodes_cost_their_pages_and_at_most_two_requests_more() {
    for nodes in [2, 50, 51, 64, 65, 1000, 5000] {
        for (gone, network) in [(0, "4711"), (2, "")] {
            let servers = (1..=gone).fold(Project::of(nodes), Project::without);
            let host = servers.serve();
            let asked = by_id(1..=nodes);
            find_with(&[("HCLOUD_NETWORK", network)], &asked).unwrap();
            let most = asked.len().div_ceil(50) + 2;
            let sent = host.requests();
            assert!(sent.len() <= most, "{nodes} nodes, {gone} gone: {sent:?}");
        }
    }
}

/// The calls of hcloud in the table of `guests/README.md`: nodes, other servers in the project, nodes whose servers are
/// gone.
#[test]
fn missing_servers_and_others_in_the_project_cost_what_the_readme_says() {
    let readme = include_str!("../../../README.md");
    for (nodes, others, gone, requests) in [
        (1000, 0, 8, 28),
        (1000, 0, 30, 40),
        (1000, 0, 500, 20),
        (13, 987, 0, 14),
        (40, 960, 0, 20),
        (40, 960, 8, 28),
    ] {
        // The nodes' servers are spread over all pages, and so are the missing ones.
        let id = |node: u64| (node + 1) * (nodes + others) / nodes;
        let lost = (0..gone).map(|index| id(index * nodes / gone));
        let host = lost.fold(Project::of(nodes + others), Project::without);
        let host = host.serve();
        for is_ready in [true, false] {
            let mut asked = by_id((0..nodes).map(id));
            asked
                .iter_mut()
                .for_each(|node| node.ready = Some(is_ready));
            host.forget_state();
            let before = host.requests().len();
            let reported = brief(&find_with(&[], &asked).unwrap());
            let are_gone = reported.iter().filter(|one| *one == "gone").count() as u64;
            assert_eq!(are_gone, gone);
            let sent = host.requests().len() - before;
            assert_eq!(sent, requests, "{nodes} {others} {gone}");
        }
        let pages = nodes.div_ceil(50) + 2;
        let row = format!("| hcloud | {nodes} | {others} | {gone} | {requests} | {pages} |");
        assert!(readme.contains(&row), "guests/README.md lacks\n{row}");
    }
}

#[test]
fn a_list_that_is_known_to_be_long_is_not_begun_for_a_few() {
    let host = Project::of(1000).serve();
    find_with(&[], &by_id(1..=1000)).unwrap();
    for (asked, lists, look_ups) in [(4, 0, 4), (19, 0, 19), (21, 20, 0)] {
        let before = host.requests().len();
        find_with(&[], &by_id(500..500 + asked)).unwrap();
        let requests = host.requests().split_off(before);
        let lists_sent = requests
            .iter()
            .filter(|line| line.starts_with("GET /servers?page="));
        assert_eq!(
            (lists_sent.count(), requests.len()),
            (lists, lists + look_ups),
            "{asked} asked for"
        );
    }
    // Without cached state, as in a confirming look-up, the answers are the same.
    host.forget_state();
    let reply = find_with(&[], &by_id(999..=1001)).unwrap();
    assert_eq!(
        brief(&reply),
        ["found hcloud://999", "found hcloud://1000", "gone"]
    );
}

#[test]
fn other_cache_modes_look_servers_up_one_by_one_unless_they_are_many() {
    // Mode, servers asked for, requests for the list, requests for one server, whether answers may come from the cache.
    for (mode, asked, lists, look_ups, kept) in [
        ("one", 64, 0, 64, true),
        ("off", 64, 0, 64, false),
        ("one", 65, 2, 0, true),
        ("off", 65, 2, 0, false),
    ] {
        let host = Project::of(65).serve();
        let reply = find_with(&[("HCLOUD_SERVER_CACHE_MODE", mode)], &by_id(1..=asked)).unwrap();
        assert!(brief(&reply).iter().all(|one| one.starts_with("found")));
        assert_eq!(
            (
                count(&host, "GET /servers?page="),
                count(&host, "GET /servers/")
            ),
            (lists, look_ups),
            "{mode} {asked}"
        );
        assert!(
            host.seen()
                .iter()
                .all(|seen| seen.headers.is_empty() != kept),
            "{mode} {asked}"
        );
    }
}

#[test]
fn pages_come_in_windows_of_at_most_eight() {
    let host = Project::of(1000).serve();
    find_with(&[], &by_id(1..=1000)).unwrap();
    let windows: Vec<usize> = host.seen().iter().map(|seen| seen.side_by_side).collect();
    assert_eq!(windows.len(), 20);
    assert_eq!(windows.iter().max(), Some(&8));
}

#[test]
fn answers_may_be_kept_ones_except_those_that_confirm_absence() {
    // Servers in the project, ids asked for, requests for one server, whether those may come from the cache.
    let table = [
        (60, 1..=1, 1, true),
        (1000, 999..=1000, 2, true),
        (60, 1..=61, 1, false),
    ];
    for (servers, ids, look_ups, kept) in table {
        let host = Project::of(servers).serve();
        find_with(&[("HCLOUD_SERVER_CACHE_MAX_AGE", "30s")], &by_id(ids)).unwrap();
        assert_eq!(count(&host, "GET /servers/"), look_ups);
        for seen in host.seen() {
            let asked = seen
                .headers
                .contains(&("cache-control".to_owned(), "max-age=30".to_owned()));
            let expected = kept || seen.path_only() == "/servers";
            assert_eq!(asked, expected, "{servers} servers: {}", seen.line());
        }
    }
    let host = Project::of(60).serve();
    find_with(&[("HCLOUD_SERVER_CACHE_MAX_AGE", "0")], &by_id(1..=60)).unwrap();
    assert!(
        host.seen().iter().all(|seen| seen.headers.is_empty()),
        "switched off"
    );
}

#[test]
fn a_new_machine_is_never_missing_by_a_kept_answer() {
    let (host, project) = Project::of(3).serve_changing();
    let new = |names: &[&str]| -> Vec<Node> { names.iter().map(|name| node(name, None)).collect() };
    // Before the list's length is known, after that, and with one server only.
    let calls = [
        (new(&["server-1", "server-9"]), 2),
        (new(&["server-1", "server-9"]), 1),
        (new(&["server-9"]), 1),
    ];
    let mut before = 0;
    for (nodes, requests) in calls {
        let reply = find_with(&[], &nodes).unwrap();
        assert_eq!(brief(&reply).last().unwrap(), "not mine");
        let seen = host.seen();
        assert_eq!(seen.len(), before + requests, "{:?}", host.requests());
        before = seen.len();
        assert_eq!(
            seen.last().unwrap().headers,
            [],
            "the last word is a fresh one"
        );
    }
    project.borrow_mut().add(9);
    let reply = find_with(&[], &new(&["server-1", "server-9"])).unwrap();
    assert_eq!(brief(&reply), ["found hcloud://1", "found hcloud://9"]);
}

#[test]
fn a_server_missing_in_a_list_of_several_pages_is_looked_up_before_it_is_gone() {
    let host = Project::of(120).without(77).serve();
    let reply = find_with(&[], &by_id(1..=120)).unwrap();
    assert_eq!(
        brief(&reply)
            .iter()
            .filter(|lookup| *lookup == "gone")
            .count(),
        1
    );
    assert_eq!(reply.lookups[76], Lookup::Gone);
    assert_eq!(
        (
            count(&host, "GET /servers?page="),
            count(&host, "GET /servers/")
        ),
        (3, 1)
    );
}

#[test]
fn many_missing_servers_are_looked_for_in_a_second_list() {
    let host = Project::of(120).serve();
    let reply = find_with(&[], &by_id(101..=140)).unwrap();
    let brief = brief(&reply);
    assert!(
        brief
            .iter()
            .take(20)
            .all(|lookup| lookup.starts_with("found")),
        "{brief:?}"
    );
    assert!(
        brief.iter().skip(20).all(|lookup| lookup == "gone"),
        "{brief:?}"
    );
    assert_eq!(
        (
            count(&host, "GET /servers?page="),
            count(&host, "GET /servers/")
        ),
        (6, 0)
    );
    let second = host.seen().split_off(3);
    assert!(
        second.iter().all(|seen| seen.headers.is_empty()),
        "the second list is a fresh one"
    );
}

#[test]
fn a_server_that_moved_to_a_page_already_read_is_not_gone() {
    // After page 1 its third server is deleted, and a new one created: server 51 moves to page 1, and every count stays
    // right.
    let host = Project::of(100)
        .then_before_page(2, |project| {
            project.remove(3);
            project.add(101);
        })
        .serve();
    let reply = find_with(&[], &by_id(1..=100)).unwrap();
    assert_eq!(brief(&reply)[50], "found hcloud://51");
    assert_eq!(count(&host, "GET /servers/51"), 1);
}

#[test]
fn a_list_that_changes_its_length_is_not_believed_and_what_was_seen_stands() {
    for (asked, gone) in [(110, 11), (200, 101)] {
        let host = Project::of(100)
            .then_before_page(2, |project| project.remove(60))
            .serve();
        let reply = find_with(&[], &by_id(1..=asked)).unwrap();
        let brief = brief(&reply);
        assert!(
            brief
                .iter()
                .take(50)
                .all(|lookup| lookup.starts_with("found")),
            "{brief:?}"
        );
        // What it lacks is looked up.
        let are_gone = brief.iter().filter(|lookup| *lookup == "gone");
        assert_eq!(are_gone.count(), gone, "{brief:?}");
        assert!(count(&host, "GET /servers/") >= gone);
    }
}

#[test]
fn one_name_on_two_servers_is_unknown_and_said_aloud() {
    let nodes = [node("server-1", None), node("server-2", None)];
    for asked in [&nodes[..1], &nodes[..]] {
        let _host = Project::of(3).named(3, "server-1").serve();
        let reply = find_with(&[], asked).unwrap();
        assert!(
            matches!(reply.lookups[0], Lookup::Unknown(_)),
            "{:?}",
            reply.lookups
        );
        let [event] = reply.events.as_slice() else {
            panic!("one event: {:?}", reply.events);
        };
        assert_eq!(
            (event.node, event.event.reason.as_str()),
            (0, "InstanceLookupFailed")
        );
        assert_eq!(event.event.event_type, EventType::Warning);
    }
}

#[test]
fn the_internal_address_is_that_of_the_configured_network() {
    let _host = Project::of(3).serve();
    let reply = find_with(&[("HCLOUD_NETWORK", "4711")], &by_id([1])).unwrap();
    let [Lookup::Found(instance)] = reply.lookups.as_slice() else {
        panic!("{:?}", reply.lookups);
    };
    assert_eq!(instance.addresses.last().unwrap().address, "10.0.0.7");
}

#[test]
fn without_the_configured_network_nothing_is_said_about_any_node() {
    let _host = Project::of(3).serve();
    let error = find_with(&[("HCLOUD_NETWORK", "elsewhere")], &by_id([1])).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

#[test]
fn a_failure_is_never_absence() {
    let bodies = [
        (401, include_str!("../../fixtures/error-unauthorized.json")),
        (
            403,
            r#"{"error": {"code": "forbidden", "message": "", "details": null}}"#,
        ),
        (404, "<html>not here</html>"),
        (
            429,
            include_str!("../../fixtures/error-rate-limit-exceeded.json"),
        ),
        (500, "oops"),
        (502, ""),
        (503, ""),
        (200, ""),
        (200, "{}"),
        (200, "[]"),
        (200, r#"{"servers": []}"#),
        (301, ""),
    ];
    for (status, body) in bodies {
        for nodes in [
            by_id([1]),
            by_id([1, 2]),
            by_id(1..=100),
            vec![node("server-1", None)],
        ] {
            let _host = TestHost::new(project::MANIFEST, move |_| json(status, body));
            let Ok(reply) = find_with(&[], &nodes) else {
                continue;
            };
            assert_eq!(reply.lookups.len(), nodes.len());
            assert!(
                brief(&reply).iter().all(|lookup| lookup == "unknown"),
                "{status} {body}: {reply:?}"
            );
        }
    }
}

#[test]
fn a_refused_token_or_a_spent_limit_ends_the_call_at_once() {
    for (status, body) in [
        (401, include_str!("../../fixtures/error-unauthorized.json")),
        (
            429,
            include_str!("../../fixtures/error-rate-limit-exceeded.json"),
        ),
    ] {
        let host = TestHost::new(project::MANIFEST, move |_| json(status, body));
        find_with(&[], &by_id(1..=100)).unwrap_err();
        assert_eq!(host.requests().len(), 1);
    }
}
