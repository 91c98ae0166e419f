//! For any listing and any changes of nodes: no route is removed that must not be, and the end is the same.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::world::*;
use crate::cloud::route::RouteTarget;

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];
const CLUSTER: [&str; 2] = ["10.1.0.0/16", "fd00::/48"];

#[derive(Debug, Clone)]
enum Happening {
    Add(usize, u8, bool),
    Address(usize, u8),
    Forget(usize),
    Remove(usize),
    Taint(usize),
    Listed(usize, u8, Lead),
    Fail(u8),
    Begin(u8),
    Work(u8),
    ListingFails,
    Incomplete(bool),
    Restart,
    Wait(u32),
}

#[derive(Debug, Clone)]
enum Lead {
    Node(usize),
    Ghost,
    Outdated(usize),
    Blackhole,
    Other(String),
}

fn lead() -> impl Strategy<Value = Lead> {
    prop_oneof![
        (0..5_usize).prop_map(Lead::Node),
        Just(Lead::Ghost),
        (0..5_usize).prop_map(Lead::Outdated),
        Just(Lead::Blackhole),
        "\\PC{0,8}".prop_map(Lead::Other),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let node = || 0..5_usize;
    prop_oneof![
        4 => (node(), 0..8_u8, any::<bool>()).prop_map(|(node, net, dual)| Happening::Add(node, net, dual)),
        1 => (node(), 0..4_u8).prop_map(|(node, address)| Happening::Address(node, address)),
        1 => node().prop_map(Happening::Forget),
        1 => node().prop_map(Happening::Remove),
        1 => node().prop_map(Happening::Taint),
        3 => (0..12_usize, 0..8_u8, lead()).prop_map(|(kind, net, lead)| Happening::Listed(kind, net, lead)),
        1 => (0..8_u8).prop_map(Happening::Fail),
        1 => (0..8_u8).prop_map(Happening::Begin),
        1 => (0..8_u8).prop_map(Happening::Work),
        1 => Just(Happening::ListingFails),
        1 => any::<bool>().prop_map(Happening::Incomplete),
        1 => Just(Happening::Restart),
        4 => (0..20_000_u32).prop_map(Happening::Wait),
    ]
}

fn cidr(net: u8) -> String {
    format!("10.1.{net}.0/24")
}

/// The spelling and the width of a destination.
fn destination(kind: usize, net: u8) -> String {
    match kind {
        0 => "0.0.0.0/0".to_owned(),
        1 => "10.0.0.0/8".to_owned(),
        2 => format!("10.1.{net}.9/24"),
        3 => format!("::ffff:10.1.{net}.0/120"),
        4 => format!("fd00:0:0:{net}::/64"),
        5 => "nonsense".to_owned(),
        6 => format!("192.168.{net}.0/24"),
        7 => format!("10.1.{net}.0/25"),
        _ => cidr(net),
    }
}

/// Checks the guarantees about removed routes.
#[derive(Default)]
struct Judge {
    /// IDs of routes that were known to lead to a node, or were created for one.
    known: BTreeSet<String>,
    seen: usize,
}

impl Happening {
    fn happen(&self, world: &mut World) {
        let add = |world: &mut World, node: usize, net: u8, is_dual: bool| {
            let cidrs = [cidr(net), format!("fd00:0:0:{net}::/64")];
            let cidrs: Vec<&str> = cidrs.iter().map(String::as_str).collect();
            let cidrs = if is_dual { &cidrs[..] } else { &cidrs[..1] };
            world.add(NODES[node], cidrs, &format!("192.168.0.{node}"));
        };
        match self {
            Happening::Add(node, net, is_dual) => add(world, *node, *net, *is_dual),
            Happening::Address(node, address) => {
                if world.nodes.contains_key(NODES[*node]) {
                    world.move_to(NODES[*node], &format!("192.168.1.{address}"));
                }
            }
            Happening::Forget(node) => world.forget(NODES[*node]),
            Happening::Remove(node) => world.remove(NODES[*node]),
            Happening::Taint(node) => {
                if world.nodes.contains_key(NODES[*node]) {
                    world.taint(NODES[*node]);
                }
            }
            Happening::Listed(kind, net, lead) => {
                let name = |node: &usize| NODES[*node].to_owned();
                let destination = destination(*kind, *net);
                let hop = match lead {
                    Lead::Node(node) => Hop::Machine(name(node), format!("192.168.0.{node}")),
                    Lead::Outdated(node) => Hop::Machine(name(node), "192.168.9.9".to_owned()),
                    Lead::Ghost => Hop::Fixed(RouteTarget::Node("ghost".to_owned())),
                    Lead::Blackhole => Hop::Fixed(RouteTarget::Blackhole),
                    Lead::Other(text) => Hop::Fixed(RouteTarget::Other(text.clone())),
                };
                world.route(&destination, hop);
            }
            Happening::Fail(net) => {
                world.changes.insert(cidr(*net), Err(unavailable()));
            }
            Happening::Begin(net) => {
                world.changes.insert(cidr(*net), Ok(pending(100)));
            }
            Happening::Work(net) => {
                world.changes.remove(&cidr(*net));
            }
            Happening::ListingFails => world.listings.push_back(unavailable()),
            Happening::Incomplete(is_incomplete) => world.is_complete = !is_incomplete,
            Happening::Restart => world.restart(),
            Happening::Wait(milliseconds) => world.run(u64::from(*milliseconds)),
        }
    }
}

impl Judge {
    /// Notes the routes that the cloud can list as a node's now.
    fn note(&mut self, world: &World) {
        for route in &world.routes {
            if let Hop::Machine(node, _) = &route.hop
                && world.nodes.contains_key(node)
            {
                self.known.insert(route.id.clone());
            }
        }
    }

    fn judge(&mut self, world: &World) -> Result<(), TestCaseError> {
        for route in &world.deleted[self.seen..] {
            let network = network(&route.destination_cidr);
            let cluster = CLUSTER.map(super::world::network);
            prop_assert!(
                cluster.iter().any(|cluster| cluster.contains(&network)),
                "outside of the cluster: {route:?}"
            );
            if let RouteTarget::Other(_) = route.target {
                prop_assert!(self.known.contains(&route.id), "never ours: {route:?}");
            }
            prop_assert!(
                route.target != RouteTarget::Node("ghost".to_owned()),
                "{route:?}"
            );
        }
        let unproven = world.unproven.first();
        prop_assert!(
            unproven.is_none(),
            "from an incomplete answer: {unproven:?}"
        );
        self.seen = world.deleted.len();
        Ok(())
    }
}

/// Asserts the required end: every wanted route whose destination is free exists, and no route is left that should be
/// removed.
fn is_right(world: &World) -> Result<(), TestCaseError> {
    let cluster = CLUSTER.map(network);
    let mut wanted = BTreeSet::new();
    for (name, node) in &world.nodes {
        let waits = node["spec"]["taints"].is_array();
        if world.condition(name) == "False/RouteCreated" && !waits {
            for cidr in node["spec"]["podCIDRs"].as_array().unwrap() {
                wanted.insert((network(cidr.as_str().unwrap()), name.clone()));
            }
        }
    }
    let taken = taken(world);
    let free = |(destination, _): &&(ipnet::IpNet, String)| !taken.contains(destination);
    for (destination, name) in wanted.iter().filter(free) {
        let address = world.nodes[name]["status"]["addresses"][0]["address"]
            .as_str()
            .unwrap()
            .to_owned();
        let hop = Hop::Machine(name.clone(), address);
        let is_it = |route: &&Route| {
            super::super::read_network(&route.destination) == Some(*destination) && route.hop == hop
        };
        prop_assert!(
            world.routes.iter().any(|route| is_it(&route)),
            "{name} says that its route to {destination} is there"
        );
    }
    for route in &world.routes {
        let Some(destination) = super::super::read_network(&route.destination) else {
            continue;
        };
        let is_inside = cluster.iter().any(|cluster| cluster.contains(&destination));
        let is_stray = match &route.hop {
            Hop::Fixed(RouteTarget::Blackhole) => true,
            Hop::Fixed(_) => false,
            Hop::Machine(node, address) => match world.nodes.get(node) {
                Some(stored) => {
                    let cidrs = stored["spec"]["podCIDRs"].as_array().unwrap();
                    let has = cidrs
                        .iter()
                        .any(|cidr| network(cidr.as_str().unwrap()) == destination);
                    let is_there = stored["status"]["addresses"][0]["address"] == **address;
                    let waits = stored["spec"]["taints"].is_array();
                    !(has && (is_there || waits))
                }
                None => !world.machines.contains(node),
            },
        };
        prop_assert!(!(is_inside && is_stray), "left behind: {route:?}");
    }
    Ok(())
}

/// Destinations of the routes that are not ours.
fn taken(world: &World) -> Vec<ipnet::IpNet> {
    world
        .routes
        .iter()
        .filter(|route| match &route.hop {
            Hop::Fixed(RouteTarget::Blackhole) => false,
            Hop::Fixed(_) => true,
            Hop::Machine(node, _) => !world.nodes.contains_key(node),
        })
        .filter_map(|route| super::super::read_network(&route.destination))
        .collect()
}

/// The nodes without a route although no other node shares their networks and no foreign route is in their place.
fn unserved(world: &World) -> Vec<String> {
    let taken = taken(world);
    let cidrs = |node: &serde_json::Value| -> BTreeSet<String> {
        let cidrs = node["spec"]["podCIDRs"].as_array().unwrap();
        cidrs
            .iter()
            .map(|cidr| cidr.as_str().unwrap().to_owned())
            .collect()
    };
    let nodes = world.nodes.iter().filter(|(name, node)| {
        let own = cidrs(node);
        let is_shared = world
            .nodes
            .iter()
            .any(|(other, node)| other != *name && !own.is_disjoint(&cidrs(node)));
        let is_taken = own.iter().any(|cidr| taken.contains(&network(cidr)));
        let waits = node["spec"]["taints"].is_array();
        !is_shared && !is_taken && !waits && world.condition(name) != "False/RouteCreated"
    });
    nodes.map(|(name, _)| name.clone()).collect()
}

proptest! {
    #[test]
    fn whatever_happens_the_laws_hold_and_the_end_is_what_is_wanted(happenings in vec(happening(), 0..40)) {
        let mut world = world(&CLUSTER);
        let mut judge = Judge::default();
        for happening in &happenings {
            happening.happen(&mut world);
            judge.judge(&world)?;
            judge.note(&world);
        }
        let untouchable: BTreeSet<Route2> = world.routes.iter().filter(|route| is_untouchable(route)).map(text).collect();
        world.changes.clear();
        world.listings.clear();
        world.is_complete = true;
        world.run(1_000_000);
        judge.judge(&world)?;
        is_right(&world)?;
        prop_assert_eq!(unserved(&world), Vec::<String>::new());
        let left: BTreeSet<Route2> = world.routes.iter().map(text).collect();
        prop_assert!(untouchable.is_subset(&left), "{:?}", untouchable.difference(&left));
        world.log.clear();
        let before = world.routes.clone();
        world.pass();
        prop_assert_eq!(world.acts(), Vec::<String>::new(), "a second pass does nothing");
        prop_assert_eq!(world.routes, before);
    }

    #[test]
    fn a_network_is_read_from_any_text_without_a_panic(text in "\\PC{0,24}") {
        let _ = super::super::read_network(&text);
    }

    #[test]
    fn the_same_network_is_equal_however_it_is_spelt(address in any::<u32>(), prefix in 0..=32_u8) {
        let address = std::net::Ipv4Addr::from(address);
        let four = network(&format!("{address}/{prefix}"));
        let six = network(&format!("::ffff:{address}/{}", u16::from(prefix) + 96));
        prop_assert_eq!(four, six);
        prop_assert_eq!(four, network(&four.to_string()));
    }
}

type Route2 = (String, String);

fn text(route: &Route) -> Route2 {
    (route.id.clone(), route.destination.clone())
}

/// Whether no manager may remove the route, whatever it knows.
fn is_untouchable(route: &Route) -> bool {
    let destination = super::super::read_network(&route.destination);
    let cluster = CLUSTER.map(network);
    let is_inside = destination.is_some_and(|one| cluster.iter().any(|all| all.contains(&one)));
    let is_foreign = matches!(
        &route.hop,
        Hop::Fixed(RouteTarget::Other(_) | RouteTarget::Node(_))
    );
    !is_inside || is_foreign
}
