//! Routes by the shipped guest: the number of requests for each event, the effect of false answers, and dedicated
//! servers.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::load_balancer::Progress;
use ccm_core::cloud::route::{CloudRoute, CreateRouteRequest, DeleteRouteRequest};
use ccm_core::cloud::{Address, AddressType, CloudNode, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_host::Provider;
use ccm_sim::hetzner::{Fault, Location, ServerSpec, Trouble};
use ipnet::Ipv4Net;

use crate::hcloud::world::{PASSWORD, World, node};
use crate::permits::{self, reads};

type Test = (&'static str, fn(&World));

pub(crate) const TESTS: &[Test] = &[
    ("routes_are_enabled_by_a_network", enabled),
    ("an_idle_listing_of_routes_costs_one_request", idle),
    ("a_node_that_comes_costs_its_order_and_one_poll", comes),
    ("a_node_that_goes_costs_one_look_at_the_servers", goes),
    ("a_node_that_moves_has_its_route_replaced", moves),
    ("routes_made_side_by_side_are_each_made_once", side_by_side),
    ("a_lost_answer_makes_no_second_route", lost_answer),
    ("a_failed_change_is_told_and_made_again", failed_change),
    ("a_route_deleted_twice_is_gone_and_no_other_is", twice),
    ("the_route_limit_is_told_in_the_vendors_words", limit),
    ("a_lying_list_of_servers_makes_no_route_dead", lies),
    ("robot_and_routes_work_together", robot),
    ("plan_mode_makes_no_route", plan),
];

/// Maximum number of calls for one change here.
const MOST_CALLS: usize = 500;

const ON: &[(&str, &str)] = &[("HCLOUD_NETWORK", "cluster")];

fn writing(mode: Mode) -> Arc<Permit> {
    permits::permit(Duration::from_secs(60), mode, 10)
}

fn range(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

/// A network with a subnet for servers.
fn network(world: &World) -> u64 {
    let (all, part) = (range("10.0.0.0/8"), range("10.0.0.0/24"));
    let cloud = &world.cloud;
    cloud.add_network_with_subnet("cluster", all, part, Location::Fsn1)
}

/// A node on a new server in the network, with pods in 10.244.`number`.0/24.
fn joined(world: &World, network: u64, number: u8) -> CloudNode {
    let name = format!("node-{number}");
    let id = world.cloud.add_server(ServerSpec::named(&name));
    let ip = world.cloud.attach(id, network, None).unwrap();
    let mut node = node(&name, Some(format!("hcloud://{id}")));
    node.addresses = vec![internal(ip)];
    node.pod_cidrs = vec![format!("10.244.{number}.0/24")];
    node
}

fn internal(ip: Ipv4Addr) -> Address {
    Address {
        address_type: AddressType::InternalIp,
        address: ip.to_string(),
    }
}

fn id(node: &CloudNode) -> u64 {
    let text = node.provider_id.as_deref().unwrap();
    text.strip_prefix("hcloud://").unwrap().parse().unwrap()
}

fn try_list(
    world: &World,
    provider: &Provider,
    nodes: &[CloudNode],
) -> Result<Vec<CloudRoute>, ProviderError> {
    let reply = world.runtime.block_on(provider.list_routes(nodes, reads()));
    reply.map(|reply| reply.routes)
}

fn list(world: &World, provider: &Provider, nodes: &[CloudNode]) -> Vec<CloudRoute> {
    try_list(world, provider, nodes).unwrap()
}

/// The destinations and targets in short form.
fn brief(routes: &[CloudRoute]) -> Vec<String> {
    let show = |route: &CloudRoute| format!("{} {}", route.destination_cidr, route.target);
    routes.iter().map(show).collect()
}

fn creation(node: &CloudNode) -> CreateRouteRequest {
    CreateRouteRequest {
        node: Arc::new(node.clone()),
        destination_cidr: node.pod_cidrs[0].clone(),
        hint: None,
    }
}

async fn created(provider: &Provider, node: &CloudNode) -> Result<(), ProviderError> {
    let mut request = creation(node);
    for _ in 0..MOST_CALLS {
        let reply = provider.create_route(&request, writing(Mode::Enforce));
        match reply.await?.progress {
            Progress::Done => return Ok(()),
            Progress::Pending(pending) => {
                request.hint = pending.hint;
                tokio::time::sleep(pending.retry_after).await;
            }
        }
    }
    panic!("it does not come to an end");
}

async fn deleted(provider: &Provider, route: &CloudRoute) -> Result<(), ProviderError> {
    let mut request = DeleteRouteRequest {
        route: Arc::new(route.clone()),
        hint: None,
    };
    for _ in 0..MOST_CALLS {
        let reply = provider.delete_route(&request, writing(Mode::Enforce));
        match reply.await?.progress {
            Progress::Done => return Ok(()),
            Progress::Pending(pending) => request.hint = pending.hint,
        }
    }
    panic!("it does not come to an end");
}

fn create(world: &World, provider: &Provider, node: &CloudNode) -> Result<(), ProviderError> {
    world.runtime.block_on(created(provider, node))
}

fn delete(world: &World, provider: &Provider, route: &CloudRoute) -> Result<(), ProviderError> {
    world.runtime.block_on(deleted(provider, route))
}

/// The requests since the last call, without queries and without the IDs of networks.
fn requests(world: &World) -> Vec<String> {
    let all = world.cloud.requests();
    world.cloud.clear_requests();
    let short = |path: &str| {
        let path = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| part.parse::<u64>().is_err())
            .collect();
        parts.join("/")
    };
    all.iter()
        .map(|one| format!("{} {}", one.method, short(&one.path)))
        .collect()
}

/// The guest with routes, and two nodes that have theirs; none of these requests is counted.
fn settled(world: &World) -> (Provider, u64, Vec<CloudNode>) {
    let network = network(world);
    let provider = world.load(None, ON).unwrap();
    let nodes: Vec<CloudNode> = [1, 2].map(|number| joined(world, network, number)).into();
    list(world, &provider, &nodes);
    for node in &nodes {
        create(world, &provider, node).unwrap();
    }
    world.cloud.clear_requests();
    (provider, network, nodes)
}

fn enabled(world: &World) {
    let robot = ("ROBOT_ENABLED", "true");
    let switch = |value| ("HCLOUD_NETWORK_ROUTES_ENABLED", value);
    for (values, password, expected) in [
        (vec![], None, false),
        (vec![switch("true")], None, false),
        (vec![ON[0]], None, true),
        (vec![ON[0], switch("false")], None, false),
        (vec![ON[0], switch("true"), robot], Some(PASSWORD), true),
    ] {
        let provider = world.load(password, &values).unwrap();
        assert_eq!(provider.capabilities().routes, expected, "{values:?}");
    }
    assert_eq!(
        requests(world),
        [] as [&str; 0],
        "no request is made for that"
    );
}

fn idle(world: &World) {
    let (provider, _, nodes) = settled(world);
    for _ in 0..3 {
        let expected = ["10.244.1.0/24 node/node-1", "10.244.2.0/24 node/node-2"];
        assert_eq!(brief(&list(world, &provider, &nodes)), expected);
        assert_eq!(requests(world), ["GET /networks"]);
    }
}

fn comes(world: &World) {
    let (provider, network, mut nodes) = settled(world);
    nodes.push(joined(world, network, 3));
    list(world, &provider, &nodes);
    create(world, &provider, &nodes[2]).unwrap();
    let expected = [
        "GET /networks",
        "POST /networks/actions/add_route",
        "GET /actions",
    ];
    assert_eq!(requests(world), expected);
    assert_eq!(world.cloud.routes(network)[2].0, range("10.244.3.0/24"));
    // Once more, as after a change of leader: the route exists already.
    create(world, &provider, &nodes[2]).unwrap();
    assert_eq!(
        requests(world),
        ["POST /networks/actions/add_route", "GET /networks"]
    );
    assert_eq!(world.cloud.routes(network).len(), 3);
}

fn goes(world: &World) {
    let (provider, network, mut nodes) = settled(world);
    let gone = nodes.pop().unwrap();
    // The Node is gone before its server: a running machine must not be disconnected.
    let routes = list(world, &provider, &nodes);
    let server = format!("10.244.2.0/24 other: server node-2 ({})", id(&gone));
    assert_eq!(
        brief(&routes),
        ["10.244.1.0/24 node/node-1".to_owned(), server]
    );
    assert_eq!(requests(world), ["GET /networks", "GET /servers"]);
    world.cloud.remove_server(id(&gone));
    let routes = list(world, &provider, &nodes);
    assert_eq!(brief(&routes)[1], "10.244.2.0/24 blackhole");
    delete(world, &provider, &routes[1]).unwrap();
    let expected = [
        "GET /networks",
        "GET /servers",
        "POST /networks/actions/delete_route",
        "GET /actions",
    ];
    assert_eq!(requests(world), expected);
    assert_eq!(world.cloud.routes(network).len(), 1);
}

fn moves(world: &World) {
    let (provider, network, mut nodes) = settled(world);
    let server = id(&nodes[0]);
    world.cloud.detach(server, network);
    let ip = Ipv4Addr::new(10, 0, 0, 99);
    world.cloud.attach(server, network, Some(ip)).unwrap();
    nodes[0].addresses = vec![internal(ip)];
    let routes = list(world, &provider, &nodes);
    assert_eq!(brief(&routes)[0], "10.244.1.0/24 outdated node/node-1");
    let in_the_way = create(world, &provider, &nodes[0]).unwrap_err();
    assert_eq!(in_the_way.reason(), "conflict", "{in_the_way}");
    requests(world);
    let routes = list(world, &provider, &nodes);
    delete(world, &provider, &routes[0]).unwrap();
    create(world, &provider, &nodes[0]).unwrap();
    let expected = [
        "GET /networks",
        "GET /servers",
        "POST /networks/actions/delete_route",
        "GET /actions",
        "POST /networks/actions/add_route",
        "GET /actions",
    ];
    assert_eq!(requests(world), expected);
    assert!(
        world
            .cloud
            .routes(network)
            .contains(&(range("10.244.1.0/24"), ip))
    );
}

fn side_by_side(world: &World) {
    let network = network(world);
    let provider = world.load(None, ON).unwrap();
    let nodes: Vec<CloudNode> = (1..=6)
        .map(|number| joined(world, network, number))
        .collect();
    create(world, &provider, &nodes[0]).unwrap();
    world.cloud.clear_requests();
    world.runtime.block_on(async {
        let (a, b, c, d, e) = tokio::join!(
            created(&provider, &nodes[1]),
            created(&provider, &nodes[2]),
            created(&provider, &nodes[3]),
            created(&provider, &nodes[4]),
            created(&provider, &nodes[5]),
        );
        for one in [a, b, c, d, e] {
            one.unwrap();
        }
    });
    let mut made = world.cloud.routes(network);
    made.sort();
    let wanted = nodes.iter().map(|node| {
        let gateway = node.addresses[0].address.parse().unwrap();
        (range(&node.pod_cidrs[0]), gateway)
    });
    assert_eq!(made, wanted.collect::<Vec<_>>());
    let requests = requests(world);
    let count = |what: &str| requests.iter().filter(|one| one.as_str() == what).count();
    assert_eq!(
        count("GET /networks"),
        0,
        "nothing is read again: {requests:?}"
    );
    assert_eq!(count("POST /networks/actions/add_route"), 5, "{requests:?}");
}

fn lost_answer(world: &World) {
    let (provider, network, mut nodes) = settled(world);
    nodes.push(joined(world, network, 3));
    for trouble in [Trouble::ResetAfter, Trouble::Cut] {
        let path = format!("/networks/{network}/actions/");
        world.cloud.inject(Fault::new(trouble).path(path).times(1));
        create(world, &provider, &nodes[2]).unwrap_err();
        create(world, &provider, &nodes[2]).unwrap();
        assert_eq!(world.cloud.routes(network).len(), 3);
        let routes = list(world, &provider, &nodes[..2]);
        delete(world, &provider, &routes[2]).unwrap();
        assert_eq!(world.cloud.routes(network).len(), 2);
    }
}

fn failed_change(world: &World) {
    let (provider, network, mut nodes) = settled(world);
    nodes.push(joined(world, network, 3));
    let failure = Trouble::ActionFails {
        code: "action_failed".to_owned(),
        message: "the network is on fire".to_owned(),
    };
    world.cloud.inject(Fault::new(failure).times(1));
    let error = create(world, &provider, &nodes[2]).unwrap_err();
    assert_eq!(error.reason(), "unavailable");
    assert!(
        error.to_string().contains("the network is on fire"),
        "{error}"
    );
    create(world, &provider, &nodes[2]).unwrap();
    assert_eq!(world.cloud.routes(network).len(), 3);
}

fn twice(world: &World) {
    let (provider, network, nodes) = settled(world);
    let routes = list(world, &provider, &nodes);
    delete(world, &provider, &routes[0]).unwrap();
    delete(world, &provider, &routes[0]).unwrap();
    assert_eq!(world.cloud.routes(network).len(), 1);
    // A person has put another route in its place.
    let other = (range("10.244.1.0/24"), Ipv4Addr::new(10, 0, 0, 200));
    world.cloud.add_route(network, other.0, other.1);
    delete(world, &provider, &routes[0]).unwrap();
    assert!(world.cloud.routes(network).contains(&other));
}

fn limit(world: &World) {
    let (provider, network, mut nodes) = settled(world);
    for number in 0..98 {
        let destination = range(&format!("10.245.{number}.0/24"));
        world
            .cloud
            .add_route(network, destination, Ipv4Addr::new(10, 0, 0, 2));
    }
    nodes.push(joined(world, network, 3));
    assert_eq!(
        list(world, &provider, &nodes).len(),
        2,
        "others' are not ours"
    );
    let error = create(world, &provider, &nodes[2]).unwrap_err();
    assert!(
        error.to_string().contains("resource_limit_exceeded"),
        "{error}"
    );
    assert_eq!(world.cloud.routes(network).len(), 100);
}

fn lies(world: &World) {
    let (provider, network, mut nodes) = settled(world);
    for number in 3..=120 {
        nodes.push(joined(world, network, number));
    }
    // A running server without a Node: only the list of servers shows it.
    let hidden = nodes.remove(1);
    for trouble in [
        Trouble::EmptyList,
        Trouble::PartialPage,
        Trouble::NextPageIsThisPage,
        Trouble::Truncated,
        Trouble::Cut,
        Trouble::ResetBefore,
        Trouble::Foreign {
            status: 200,
            content_type: "text/html".to_owned(),
            body: b"<html>please log in</html>".to_vec(),
        },
        Trouble::Foreign {
            status: 404,
            content_type: "text/html".to_owned(),
            body: b"<html>nothing here</html>".to_vec(),
        },
    ] {
        for path in ["/servers".to_owned(), format!("/networks/{network}")] {
            let fault = Fault::new(trouble.clone()).path(path.clone());
            world.cloud.inject(fault);
            if let Ok(routes) = try_list(world, &provider, &nodes) {
                // A network is no list, so some false lists do not change it.
                assert!(
                    path.starts_with("/networks"),
                    "{trouble:?} {path}: {routes:?}"
                );
                assert!(brief(&routes)[1].contains("other: server"), "{routes:?}");
            }
            world.cloud.clear_faults();
        }
    }
    let routes = list(world, &provider, &nodes);
    let expected = format!("10.244.2.0/24 other: server node-2 ({})", id(&hidden));
    assert_eq!(brief(&routes)[1], expected);
}

fn robot(world: &World) {
    let network = network(world);
    assert!(
        world
            .cloud
            .add_vswitch_subnet(network, range("10.0.9.0/24"), 1000)
    );
    let number = world
        .robot
        .add_server(ccm_sim::robot::ServerSpec::named("bare-1"));
    let mut bare = node("bare-1", Some(format!("hrobot://{number}")));
    bare.addresses = vec![internal(Ipv4Addr::new(10, 0, 9, 7))];
    bare.pod_cidrs = vec!["10.244.200.0/24".to_owned()];
    let values = [ON[0], ("ROBOT_ENABLED", "true")];
    let provider = world.load(Some(PASSWORD), &values).unwrap();
    let nodes = [joined(world, network, 1), bare];
    assert!(list(world, &provider, &nodes).is_empty());
    create(world, &provider, &nodes[0]).unwrap();
    requests(world);
    let answer = create(world, &provider, &nodes[1]);
    assert_eq!(answer, Err(ProviderError::Elsewhere));
    assert_eq!(requests(world), [] as [&str; 0]);
    // A server that exists all the same is not disconnected.
    let behind = (range("10.244.201.0/24"), Ipv4Addr::new(10, 0, 9, 8));
    world.cloud.add_route(network, behind.0, behind.1);
    let routes = list(world, &provider, &nodes);
    let expected = [
        "10.244.1.0/24 node/node-1",
        "10.244.201.0/24 other: 10.0.9.8 (behind a vSwitch)",
    ];
    assert_eq!(brief(&routes), expected);
    assert_eq!(requests(world), ["GET /networks"]);
    assert_eq!(
        world.robot.requests().len(),
        0,
        "Robot knows nothing of routes"
    );
}

fn plan(world: &World) {
    let (provider, network, mut nodes) = settled(world);
    nodes.push(joined(world, network, 3));
    list(world, &provider, &nodes);
    let request = creation(&nodes[2]);
    let answer = provider.create_route(&request, writing(Mode::Plan));
    world.runtime.block_on(answer).unwrap_err();
    assert_eq!(requests(world), ["GET /networks"]);
    assert_eq!(world.cloud.routes(network).len(), 2);
}
