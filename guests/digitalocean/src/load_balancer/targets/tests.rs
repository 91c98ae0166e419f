//! Which nodes a load balancer can reach.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::Address;
use ccm_guest::testing::node;

use super::*;

fn worker(id: u64, public: &[&str]) -> Node {
    let mut worker = node(&format!("n{id}"), Some(&format!("digitalocean://{id}")));
    worker.addresses = vec![Address::internal("10.0.0.7")];
    worker
        .addresses
        .extend(public.iter().map(|ip| Address::external(*ip)));
    worker
}

#[test]
fn each_kind_takes_the_nodes_that_the_go_manager_takes() {
    let nodes = [
        worker(1, &["203.0.113.1"]),
        worker(2, &["203.0.113.2", "2001:db8::2"]),
        worker(3, &["2001:db8::3"]),
        worker(4, &[]),
    ];
    let droplets = |kind, network| {
        let targets = Targets::read(kind, network, &nodes);
        targets.droplets.into_iter().collect::<Vec<u64>>()
    };
    assert_eq!(droplets(Type::RegionalNetwork, Network::External), [1, 2]);
    assert_eq!(droplets(Type::Regional, Network::External), [1, 2, 4]);
    assert_eq!(
        droplets(Type::RegionalNetwork, Network::Internal),
        [1, 2, 3, 4]
    );
    let targets = Targets::read(Type::RegionalNetwork, Network::External, &nodes);
    assert_eq!(targets.unreachable, ["n3", "n4"]);
    assert_eq!(targets.without_ipv6, ["n1"]);
    let odd = [
        node("a", None),
        node("b", Some("digitalocean://x")),
        node("c", Some("hcloud://1")),
    ];
    let targets = Targets::read(Type::Regional, Network::Internal, &odd);
    assert_eq!(targets.unknown, ["a", "b", "c"]);
}

#[test]
fn a_new_load_balancer_has_ipv6_where_all_its_nodes_have() {
    let dual = [worker(1, &["203.0.113.1", "2001:db8::1"])];
    let mixed = [
        worker(1, &["203.0.113.1", "2001:db8::1"]),
        worker(2, &["203.0.113.2"]),
    ];
    let stack =
        |kind, network, nodes: &[Node]| Targets::read(kind, network, nodes).stack(kind, network);
    for (nodes, expected) in [
        (&dual[..], Stack::DualStack),
        (&mixed, Stack::Ipv4),
        (&[], Stack::Ipv4),
    ] {
        assert_eq!(
            stack(Type::RegionalNetwork, Network::External, nodes),
            expected
        );
    }
    assert_eq!(
        stack(Type::Regional, Network::External, &mixed),
        Stack::DualStack
    );
    assert_eq!(stack(Type::Regional, Network::Internal, &dual), Stack::Ipv4);
}
