//! Nodes as targets: the Go manager's cases of `TestLoadBalancerOps_ReconcileHCLBTargets` and
//! `TestLoadBalancer_matchNodeSelector`, as far as they concern the wanted state.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::EventType;
use ccm_guest::testing::node;

use super::super::fixtures::{Pairs, granted, node_at, service, settings};
use super::*;

const NETWORK: (&str, &str) = ("HCLOUD_NETWORK", "cluster");
const ROBOT: (&str, &str) = ("ROBOT_ENABLED", "true");
const PRIVATE: (&str, &str) = ("HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", "true");

fn server(id: u64, use_private_ip: bool) -> Target {
    Target::Server { id, use_private_ip }
}

fn ip(text: &str) -> Target {
    Target::Ip(text.parse().unwrap())
}

fn targets(wanted: &WantedTargets) -> Vec<Target> {
    wanted.targets.keys().copied().collect()
}

fn reasons(wanted: &WantedTargets) -> Vec<&str> {
    let warnings = wanted
        .events
        .iter()
        .filter(|event| event.event_type == EventType::Warning);
    warnings.map(|event| event.reason.as_str()).collect()
}

fn labelled(name: &str, id: u64, labels: Pairs<'_>) -> Node {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Node {
        labels: labels.iter().map(owned).collect(),
        ..node(name, Some(&format!("hcloud://{id}")))
    }
}

#[test]
fn cloud_servers_are_targets_by_id_and_dedicated_servers_by_the_address_that_robot_knows() {
    let nodes = [
        node("cloud-1", Some("hcloud://1")),
        node("cloud-2", Some("hcloud://2")),
        // The addresses in the Node do not count here.
        node_at("robot-3", "hrobot://3", "10.0.1.10"),
        node("robot-4", Some("hcloud://bm-4")),
        node("robot-5", Some("hrobot://5")),
    ];
    let mut wanted = WantedTargets::read(&settings(&[ROBOT]), &service(&[]), &nodes).unwrap();
    assert_eq!(targets(&wanted), [server(1, false), server(2, false)]);
    let asked: Vec<u64> = wanted.dedicated.keys().copied().collect();
    assert_eq!((asked, reasons(&wanted)), (vec![3, 4, 5], vec![]));

    let addresses = BTreeMap::from([
        (3, "1.2.3.4".parse().unwrap()),
        (4, "1.2.3.5".parse().unwrap()),
        (9, "1.2.3.9".parse().unwrap()),
    ]);
    wanted.resolve(&addresses);
    let all = [
        server(1, false),
        server(2, false),
        ip("1.2.3.4"),
        ip("1.2.3.5"),
    ];
    assert_eq!(targets(&wanted), all);
    let names: Vec<&str> = wanted.targets.values().map(String::as_str).collect();
    assert_eq!(names, ["cloud-1", "cloud-2", "robot-3", "robot-4"]);
    assert_eq!(reasons(&wanted), ["ServerNotFound"]);
    assert!(
        wanted.events[0].message.contains("robot-5 (server 5)"),
        "{wanted:?}"
    );
    assert_eq!(wanted.dedicated, BTreeMap::new());
}

#[test]
fn dedicated_servers_are_no_targets_while_they_are_no_nodes() {
    let nodes = [
        node("cloud-1", Some("hcloud://1")),
        node_at("robot-3", "hrobot://3", "10.0.1.10"),
    ];
    for (configured, private) in [(&[][..], false), (&[NETWORK, PRIVATE], true)] {
        let wanted = WantedTargets::read(&settings(configured), &service(&[]), &nodes).unwrap();
        assert_eq!(targets(&wanted), [server(1, private)]);
        assert_eq!(
            (&wanted.dedicated, &wanted.events),
            (&BTreeMap::new(), &vec![])
        );
    }
}

/// The Go manager's mode without `ROBOT_USER` and `ROBOT_PASSWORD`: `useRobotInternalIPs` in `ReconcileHCLBTargets`.
#[test]
fn without_robot_dedicated_servers_are_targets_by_their_private_addresses_only() {
    let nodes = [
        node("cloud-1", Some("hcloud://1")),
        node_at("robot-3", "hrobot://3", "10.0.1.10"),
        node("robot-4", Some("hcloud://bm-4")),
    ];
    let (private, public) = ([server(1, true), ip("10.0.1.10")], [server(1, false)]);
    let table = [
        (
            "true",
            &private[..],
            "InternalIPNotConfigured",
            "address of a dedicated server is known: robot-4",
        ),
        (
            "false",
            &public,
            "ServerNotFound",
            "use-private-ip is not true: robot-3, robot-4",
        ),
    ];
    let settings = granted(&["api"], &[NETWORK, ROBOT]);
    for (use_private_ip, expected, reason, words) in table {
        let service = service(&[(USE_PRIVATE_IP, use_private_ip)]);
        let wanted = WantedTargets::read(&settings, &service, &nodes).unwrap();
        assert_eq!(targets(&wanted), expected, "{use_private_ip}");
        assert_eq!(reasons(&wanted), [reason], "{use_private_ip}");
        let message = &wanted.events[0].message;
        assert!(message.ends_with(words), "{message}");
        assert_eq!(wanted.dedicated, BTreeMap::new(), "nobody to ask");
    }
}

#[test]
fn a_server_of_the_cloud_and_one_of_robot_with_the_same_number_are_two() {
    let nodes = [
        node("cloud", Some("hcloud://7")),
        node("dedicated", Some("hrobot://7")),
        node("cloud-again", Some("hcloud://7")),
    ];
    let mut wanted = WantedTargets::read(&settings(&[ROBOT]), &service(&[]), &nodes).unwrap();
    wanted.resolve(&BTreeMap::from([(7, "1.2.3.4".parse().unwrap())]));
    assert_eq!(targets(&wanted), [server(7, false), ip("1.2.3.4")]);
}

#[test]
fn private_addresses_are_used_where_they_are_wanted() {
    const YES: (&str, &str) = (USE_PRIVATE_IP, "true");
    const NO: (&str, &str) = (USE_PRIVATE_IP, "false");
    let nodes = [
        node("cloud-1", Some("hcloud://1")),
        node_at("robot-3", "hrobot://3", "10.0.1.10"),
    ];
    let private = [server(1, true), ip("10.0.1.10")];
    let public = [server(1, false)];
    let table = [
        (&[NETWORK, ROBOT][..], None, &public[..]),
        (&[NETWORK, ROBOT, PRIVATE], None, &private),
        (&[NETWORK, ROBOT], Some(YES), &private),
        (&[NETWORK, ROBOT, PRIVATE], Some(NO), &public),
        (&[ROBOT], Some(NO), &public),
    ];
    for (configured, annotated, expected) in table {
        let service = service(annotated.as_slice());
        let wanted = WantedTargets::read(&settings(configured), &service, &nodes).unwrap();
        assert_eq!(targets(&wanted), expected, "{configured:?} {annotated:?}");
        // Robot is asked only about servers whose address is needed.
        let asked = wanted.dedicated.len();
        assert_eq!(asked, 2 - expected.len(), "{configured:?} {annotated:?}");
    }
}

#[test]
fn private_addresses_need_a_network() {
    let annotated = service(&[(USE_PRIVATE_IP, "true")]);
    let table = [
        (settings(&[]), &annotated, USE_PRIVATE_IP),
        (settings(&[PRIVATE]), &service(&[]), PRIVATE.0),
    ];
    for (settings, service, key) in table {
        let error = WantedTargets::read(&settings, service, &[]).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        assert!(error.message().contains(key), "{error:?}");
    }
}

#[test]
fn a_dedicated_server_without_private_address_is_reached_by_its_public_one() {
    let mut nodes = [
        node("robot-1", Some("hrobot://1")),
        node_at("robot-2", "hrobot://2", "no address"),
        node("robot-3", Some("hrobot://3")),
    ];
    nodes[2].addresses = vec![Address {
        address_type: AddressType::ExternalIp,
        address: "1.2.3.4".to_owned(),
    }];
    let settings = settings(&[NETWORK, ROBOT, PRIVATE]);
    let wanted = WantedTargets::read(&settings, &service(&[]), &nodes).unwrap();
    let asked: Vec<u64> = wanted.dedicated.keys().copied().collect();
    assert_eq!((asked, targets(&wanted)), (vec![1, 2, 3], vec![]));
    assert_eq!(reasons(&wanted), ["InternalIPNotConfigured"]);
    let message = &wanted.events[0].message;
    assert!(message.ends_with("robot-1, robot-2, robot-3"), "{message}");
}

#[test]
fn the_first_internal_address_of_ipv4_counts_and_without_one_the_first() {
    let settings = settings(&[NETWORK, ROBOT, PRIVATE]);
    for (addresses, expected) in [
        (&["fd00::1", "10.0.0.1", "10.0.0.2"][..], "10.0.0.1"),
        (&["fd00::1", "fd00::2"], "fd00::1"),
    ] {
        let mut robot = node("robot-1", Some("hrobot://1"));
        let each = addresses.iter().map(|address| node_at("", "", address));
        robot.addresses = each.flat_map(|node| node.addresses).collect();
        let wanted = WantedTargets::read(&settings, &service(&[]), &[robot]).unwrap();
        assert_eq!(targets(&wanted), [ip(expected)]);
    }
}

#[test]
fn nodes_with_other_provider_ids_are_left_out_and_said() {
    let nodes = [
        node("cloud-1", Some("hcloud://1")),
        node("other-2", Some("mycloud://2")),
        node("new-3", None),
        node("broken-4", Some("hcloud://four")),
        node("empty-5", Some("")),
    ];
    let wanted = WantedTargets::read(&settings(&[ROBOT]), &service(&[]), &nodes).unwrap();
    assert_eq!(targets(&wanted), [server(1, false)]);
    assert_eq!(reasons(&wanted), ["UnknownProviderIDPrefix"]);
    let message = &wanted.events[0].message;
    assert!(message.contains("service web"), "{message}");
    assert!(
        message.ends_with("other-2, new-3, broken-4, empty-5"),
        "{message}"
    );
}

#[test]
fn events_about_a_thousand_nodes_are_as_few_and_as_short_as_the_contract_wants() {
    let foreign = (0..1000).map(|n| node(&format!("foreign-{n}-{}", "x".repeat(200)), None));
    let bare = (0..1000).map(|n| node(&format!("bare-{n}"), Some(&format!("hrobot://1{n}"))));
    let nodes: Vec<Node> = foreign.chain(bare).collect();
    let settings = settings(&[NETWORK, ROBOT, PRIVATE]);
    let mut wanted = WantedTargets::read(&settings, &service(&[]), &nodes).unwrap();
    wanted.resolve(&BTreeMap::new());
    let expected = [
        "UnknownProviderIDPrefix",
        "InternalIPNotConfigured",
        "ServerNotFound",
    ];
    assert_eq!(reasons(&wanted), expected);
    for event in &wanted.events {
        assert!(event.message.len() <= 1024, "{}", event.message);
        assert!(event.message.ends_with(" more"), "{}", event.message);
    }
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let event = max_targets_reached(&service(&[]), &names);
    assert_eq!(event.reason, "MaxTargetsReached");
    assert!(event.message.len() <= 1024 && event.message.contains("service web"));
}

#[test]
fn the_node_selector_says_which_nodes_are_targets() {
    let production = ("environment", "production");
    let nodes = [
        labelled("node1", 1, &[production, ("zone", "fsn")]),
        labelled("node2", 2, &[production, ("zone", "nue")]),
        labelled("node3", 3, &[("environment", "staging")]),
        labelled("node4", 4, &[]),
    ];
    let table: [(Pairs<'_>, &[u64]); 7] = [
        (&[], &[1, 2, 3, 4]),
        (&[(NODE_SELECTOR, "")], &[1, 2, 3, 4]),
        (&[(NODE_SELECTOR, "environment")], &[1, 2, 3]),
        (&[(NODE_SELECTOR, "environment=production")], &[1, 2]),
        (&[(NODE_SELECTOR, "environment=production,zone=nue")], &[2]),
        (&[(NODE_SELECTOR, "zone notin (nue)")], &[1, 3, 4]),
        (&[(NODE_SELECTOR, "nothing=here")], &[]),
    ];
    for (annotated, expected) in table {
        let wanted = WantedTargets::read(&settings(&[]), &service(annotated), &nodes).unwrap();
        let expected: Vec<Target> = expected.iter().map(|id| server(*id, false)).collect();
        assert_eq!(targets(&wanted), expected, "{annotated:?}");
    }
}

#[test]
fn nodes_that_are_not_selected_are_not_complained_about() {
    let nodes = [node("other", Some("mycloud://2"))];
    let service = service(&[(NODE_SELECTOR, "mine")]);
    let wanted = WantedTargets::read(&settings(&[]), &service, &nodes);
    assert_eq!(wanted, Ok(WantedTargets::default()));
}

#[test]
fn mistakes_elsewhere_do_not_keep_targets_from_being_changed_and_mistakes_here_do() {
    let nodes = [node("cloud-1", Some("hcloud://1"))];
    let elsewhere = service(&[("load-balancer.hetzner.cloud/health-check-port", "invalid")]);
    assert!(WantedTargets::read(&settings(&[]), &elsewhere, &nodes).is_ok());
    let here = service(&[(NODE_SELECTOR, "a b"), (USE_PRIVATE_IP, "invalid")]);
    let error = WantedTargets::read(&settings(&[]), &here, &nodes).unwrap_err();
    for part in [NODE_SELECTOR, "is not a label selector", USE_PRIVATE_IP] {
        assert!(error.message().contains(part), "{error:?}");
    }
}
