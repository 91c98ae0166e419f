//! The target of each route, the requests for it, and when the list is an error.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::json;
use serde_json::json as value;

use super::super::fixtures::{ID, Project, Trouble, node, settings, vswitch};
use super::*;

const NETWORK: &str = "GET /networks?name=cluster";
const SERVERS: &str = "GET /servers?page=1&per_page=50&sort=id:asc";
const BALANCERS: &str = "GET /load_balancers?page=1&per_page=50&sort=id:asc";

fn two_nodes() -> [Node; 2] {
    [
        node("node-1", 1, &["10.0.0.2"], &["10.244.1.0/24"]),
        node(
            "node-2",
            2,
            &["10.0.0.3"],
            &["10.244.2.0/24", "fd00:2::/64"],
        ),
    ]
}

fn shown(target: &Target) -> String {
    match target {
        Target::Node(name) => format!("node {name}"),
        Target::Outdated(name) => format!("outdated {name}"),
        Target::Blackhole => "blackhole".to_owned(),
        Target::Other(what) => format!("other: {what}"),
    }
}

fn targets(routes: &[Route]) -> Vec<(String, String)> {
    routes
        .iter()
        .map(|route| (route.destination_cidr.clone(), shown(&route.target)))
        .collect()
}

#[test]
fn a_listing_of_an_idle_cluster_is_one_request() {
    let routes = [("10.244.1.0/24", "10.0.0.2"), ("10.244.2.0/24", "10.0.0.3")];
    let (host, _) = Project::new(&routes)
        .server(1, "node-1", &["10.0.0.2"])
        .server(2, "node-2", &["10.0.0.3"])
        .serve();
    for _ in 0..3 {
        let routes = list(&settings(), &two_nodes()).unwrap();
        assert_eq!(routes[0].id, "4711-10.0.0.2-10.244.1.0/24");
        assert_eq!(
            targets(&routes),
            [
                ("10.244.1.0/24".to_owned(), "node node-1".to_owned()),
                ("10.244.2.0/24".to_owned(), "node node-2".to_owned()),
            ]
        );
    }
    let by_id = format!("GET /networks/{ID}");
    assert_eq!(host.requests(), [NETWORK, &by_id, &by_id]);
    for seen in host.seen() {
        assert!(seen.headers.is_empty(), "never a kept answer: {seen:?}");
    }
}

#[test]
fn every_route_leads_somewhere_or_nowhere() {
    let project = || {
        Project::new(&[])
            .server(1, "node-1", &["10.0.0.2"])
            .server(2, "node-2", &["10.0.0.3", "10.0.0.33"])
            .server(3, "database", &["10.0.0.4", "10.0.0.44"])
            .load_balancer(7, "web", "10.0.0.5")
    };
    let with_balancers: &[&str] = &[NETWORK, SERVERS, BALANCERS];
    let table: &[(&str, &str, &str, &[&str])] = &[
        ("10.244.1.0/24", "10.0.0.2", "node node-1", &[NETWORK]),
        // A machine's claim about its own address is not enough to have a route deleted.
        ("10.244.9.0/24", "10.0.0.2", "node node-1", with_balancers),
        ("10.244.2.0/24", "10.0.0.33", "node node-2", with_balancers),
        (
            "10.244.9.0/24",
            "10.0.0.4",
            "other: server database (3)",
            with_balancers,
        ),
        (
            "10.244.9.0/24",
            "10.0.0.44",
            "other: server database (3)",
            with_balancers,
        ),
        (
            "10.244.1.0/24",
            "10.0.0.4",
            "other: server database (3)",
            with_balancers,
        ),
        (
            "10.244.9.0/24",
            "10.0.0.5",
            "other: load balancer web (7)",
            with_balancers,
        ),
        ("10.244.9.0/24", "10.0.0.6", "blackhole", with_balancers),
        // A server of another network with the same addresses.
        ("10.244.9.0/24", "10.0.0.250", "blackhole", with_balancers),
        (
            "10.244.1.0/24",
            "10.0.0.6",
            "outdated node-1",
            with_balancers,
        ),
        (
            "10.244.9.0/24",
            "10.0.9.7",
            "other: 10.0.9.7 (behind a vSwitch)",
            &[NETWORK],
        ),
        (
            "10.244.9.0/24",
            "10.0.0.1",
            "other: 10.0.0.1 (the gateway of a subnet)",
            &[NETWORK],
        ),
        (
            "10.244.9.0/24",
            "192.168.1.1",
            "other: 192.168.1.1 (outside of the network)",
            &[NETWORK],
        ),
    ];
    for (destination, gateway, expected, requests) in table {
        let mut project = project();
        project.network = vswitch(project.network, "10.0.9.0/24");
        project.network["routes"] = value!([{"destination": destination, "gateway": gateway}]);
        let (host, _) = project.serve();
        let routes = list(&settings(), &two_nodes()).unwrap();
        let [route] = routes.as_slice() else {
            panic!("{routes:?}");
        };
        assert_eq!(shown(&route.target), *expected, "{destination} {gateway}");
        assert_eq!(host.requests(), *requests, "{destination} {gateway}");
    }
}

#[test]
fn an_address_that_a_node_only_claims_makes_no_route_its_own() {
    let mut liar = node("liar", 9, &["10.0.0.9", "10.0.0.4"], &["10.244.9.0/24"]);
    let (_host, _) = Project::new(&[("10.244.100.0/24", "10.0.0.4")])
        .server(3, "database", &["10.0.0.4"])
        .server(9, "liar", &["10.0.0.9"])
        .serve();
    for provider_id in [Some("hcloud://9".to_owned()), None] {
        liar.provider_id = provider_id;
        let routes = list(&settings(), &[liar.clone()]).unwrap();
        assert_eq!(shown(&routes[0].target), "other: server database (3)");
    }
}

#[test]
fn a_node_without_provider_id_is_known_by_the_name_of_its_server() {
    let (_host, _) = Project::new(&[("10.244.1.0/24", "10.0.0.2")])
        .server(1, "node-1", &["10.0.0.2"])
        .serve();
    let mut one = node("node-1", 1, &[], &["10.244.1.0/24"]);
    for (provider_id, expected) in [
        (None, "node node-1"),
        (Some("hcloud://1"), "node node-1"),
        (Some("hcloud://2"), "other: server node-1 (1)"),
    ] {
        one.provider_id = provider_id.map(str::to_owned);
        let routes = list(&settings(), &[one.clone()]).unwrap();
        assert_eq!(shown(&routes[0].target), expected, "{provider_id:?}");
    }
}

#[test]
fn a_dead_route_is_only_outdated_if_one_node_would_have_it_made_again() {
    let (_host, _) = Project::new(&[("10.244.1.0/24", "10.0.0.99")])
        .server(1, "node-1", &["10.0.0.2"])
        .serve();
    let cidr: &[&str] = &["10.244.1.0/24"];
    let one = || node("node-1", 1, &["10.0.0.2"], cidr);
    let mut robot = node("bare-1", 1, &["10.0.9.2"], cidr);
    robot.provider_id = Some("hrobot://321".to_owned());
    let table = [
        (vec![one()], "outdated node-1"),
        (
            vec![one(), node("node-2", 2, &["10.0.0.3"], cidr)],
            "blackhole",
        ),
        (vec![node("node-1", 1, &[], cidr)], "blackhole"),
        (vec![robot], "blackhole"),
        (vec![], "blackhole"),
    ];
    for (nodes, expected) in table {
        let routes = list(&settings(), &nodes).unwrap();
        assert_eq!(shown(&routes[0].target), expected, "{nodes:?}");
    }
}

#[test]
fn of_two_nodes_with_one_address_the_one_whose_pods_it_is_for_has_the_route() {
    let (host, _) = Project::new(&[("10.244.2.0/24", "10.0.0.2")]).serve();
    let nodes = [
        node("old", 1, &["10.0.0.2"], &["10.244.1.0/24"]),
        node("new", 2, &["10.0.0.2"], &["10.244.2.7/24"]),
    ];
    let routes = list(&settings(), &nodes).unwrap();
    assert_eq!(shown(&routes[0].target), "node new");
    assert_eq!(host.requests().len(), 1);
}

#[test]
fn routes_outside_of_the_cluster_are_not_listed_and_cost_nothing() {
    let routes = [
        ("0.0.0.0/0", "10.0.0.77"),
        ("10.0.0.0/8", "10.0.0.77"),
        ("10.245.1.0/24", "10.0.0.77"),
        ("10.244.1.77/24", "10.0.0.2"),
    ];
    let (host, _) = Project::new(&routes).serve();
    let routes = list(&settings(), &two_nodes()).unwrap();
    assert_eq!(
        targets(&routes),
        [("10.244.1.0/24".to_owned(), "node node-1".to_owned())]
    );
    assert_eq!(
        routes[0].id, "4711-10.0.0.2-10.244.1.77/24",
        "as the API spells it"
    );
    assert_eq!(host.requests(), [NETWORK]);
}

#[test]
fn a_long_list_of_servers_is_read_to_its_end() {
    let mut project = Project::new(&[("10.244.9.0/24", "10.0.0.120")]);
    for id in 2..=120 {
        project = project.server(id, &format!("server-{id}"), &[&format!("10.0.0.{id}")]);
    }
    let (host, _) = project.serve();
    let routes = list(&settings(), &[]).unwrap();
    assert_eq!(shown(&routes[0].target), "other: server server-120 (120)");
    assert_eq!(host.requests().len(), 1 + 3);
}

#[test]
fn what_cannot_be_told_is_an_error_of_the_whole_answer() {
    type Change = fn(&mut Project);
    let table: &[(&str, Change)] = &[
        ("a list without a server of the network", |project| {
            project.servers.clear();
        }),
        ("a server that its own entry shows elsewhere", |project| {
            project.servers[0]["private_net"] = value!([]);
        }),
        ("an address that is none", |project| {
            project.servers[0]["private_net"][0]["alias_ips"] = value!(["10.0.0"]);
        }),
        ("a list without a load balancer of the network", |project| {
            project.network["load_balancers"] = value!([8]);
        }),
        ("no list of servers", |project| {
            project
                .trouble
                .insert(1, Trouble::Refused(503, "unavailable"));
        }),
        ("a route that cannot be read", |project| {
            project.network["routes"][0]["gateway"] = value!("fd00::1");
        }),
        ("a destination that cannot be read", |project| {
            project.network["routes"][0]["destination"] = value!("fd00::/64");
        }),
        ("a network without the field routes", |project| {
            project.network.as_object_mut().unwrap().remove("routes");
        }),
        ("a network without the field servers", |project| {
            project.network.as_object_mut().unwrap().remove("servers");
        }),
        ("a network without ranges", |project| {
            project.network["ip_range"] = value!("");
        }),
        ("no network", |project| {
            project
                .trouble
                .insert(0, Trouble::Refused(500, "server_error"));
        }),
    ];
    for (what, change) in table {
        let routes = [
            ("10.244.9.0/24", "10.0.0.99"),
            ("10.244.1.0/24", "10.0.0.2"),
        ];
        let mut project = Project::new(&routes).server(1, "node-1", &["10.0.0.2"]);
        change(&mut project);
        let (_host, _) = project.serve();
        let answer = list(&settings(), &two_nodes());
        assert!(
            matches!(answer, Err(Error::Unavailable(_) | Error::Internal(_))),
            "{what}: {answer:?}"
        );
    }
}

#[test]
fn refusals_that_a_person_has_to_end_are_told_as_such() {
    for (status, code, expected) in [
        (401, "unauthorized", "denied"),
        (429, "rate_limit_exceeded", "throttled"),
    ] {
        let mut project = Project::new(&[]);
        project.trouble.insert(0, Trouble::Refused(status, code));
        let (_host, _) = project.serve();
        let reported = match list(&settings(), &[]) {
            Err(Error::Denied(_)) => "denied",
            Err(Error::Throttled(_)) => "throttled",
            answer => panic!("{code}: {answer:?}"),
        };
        assert_eq!(reported, expected);
    }
}

#[test]
fn a_network_that_is_made_again_is_found_by_its_name() {
    let (host, project) = Project::new(&[]).serve();
    let named = |name: &str| RouteSettings {
        network: name.to_owned(),
        ..settings()
    };
    list(&named("cluster"), &[]).unwrap();
    project
        .borrow_mut()
        .trouble
        .insert(1, Trouble::Refused(404, "not_found"));
    list(&named("cluster"), &[]).unwrap();
    assert_eq!(host.requests(), [NETWORK, "GET /networks/4711", NETWORK]);
    let missing = list(&named("missing"), &[]);
    assert!(matches!(missing, Err(Error::Invalid(_))), "{missing:?}");
}

#[test]
fn another_network_than_the_one_that_was_asked_for_is_no_answer() {
    let host = ccm_guest::testing::TestHost::open(|seen| {
        let mut network = super::super::fixtures::network(&[]);
        network["id"] = value!(if seen.path_only() == "/networks" {
            4711
        } else {
            4712
        });
        let answer = match seen.path_only() {
            "/networks" => value!({"networks": [network]}),
            _ => value!({"network": network}),
        };
        json(200, &answer.to_string())
    });
    list(&settings(), &[]).unwrap();
    let answer = list(&settings(), &[]);
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    drop(host);
}

#[test]
fn the_name_of_a_route_is_all_that_is_needed_to_delete_it() {
    let table = [
        ("4711-10.0.0.2-10.244.1.0/24", true),
        ("4711-10.0.0.2-10.244.1.7", true),
        ("4711-<nil>-10.244.1.0/24", false),
        ("4711--10.244.1.0/24", false),
        ("4711-10.0.0.2-", false),
        ("x-10.0.0.2-10.244.1.0/24", false),
        ("10.0.0.2-10.244.1.0/24", false),
        ("", false),
    ];
    for (text, expected) in table {
        let id = Id::read(text);
        assert_eq!(id.is_some(), expected, "{text}");
        assert!(id.is_none_or(|id| id.to_string() == text));
    }
}
