//! The requests to the cloud, one by one.

use super::*;

const LOOK: &str = "GET /load_balancers";
const POLL: &str = "GET /actions";

/// A load balancer that matches the Service, in a project whose actions run for one poll.
fn agreed() -> World {
    let mut project = Project::new();
    project.polls = 1;
    let mut world = World::new(project);
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()), as_wanted());
    world
}

fn act(name: &str) -> String {
    format!("POST /load_balancers/101/actions/{name}")
}

#[test]
fn creation_is_one_order_with_everything_in_it() {
    let world = agreed();
    assert_eq!(world.requests(0), [LOOK, "POST /load_balancers", POLL]);
    let seen = world.host.seen();
    assert_eq!(
        seen[0].line(),
        format!("GET /load_balancers?label_selector=hcloud-ccm/service-uid={UID}&per_page=50")
    );
    let body: Value = serde_json::from_slice(&seen[1].body).unwrap();
    let service = |port: u16, node_port: u16| {
        json!({"listen_port": port, "destination_port": node_port, "protocol": "tcp",
            "health_check": {"protocol": "tcp", "port": node_port}})
    };
    let target = |id: u64| json!({"type": "server", "server": {"id": id}, "use_private_ip": false});
    assert_eq!(
        body,
        json!({
            "name": "a0b1f6d5e7a3c4c559e0a2f1d3b4c5a6",
            "load_balancer_type": "lb11",
            "location": "fsn1",
            "labels": {"hcloud-ccm/service-uid": UID},
            "services": [service(80, 30080), service(443, 30443)],
            "targets": [target(1), target(2), target(3), target(4)],
        })
    );
}

type Change = fn(&mut World);
type Act = fn(&mut World) -> Result<(), Error>;

fn again(world: &mut World) -> Result<(), Error> {
    world.ensure().map(|_| ())
}

#[test]
fn every_change_costs_the_fewest_requests() {
    let nodes: Act = World::update_targets;
    let table: [(&str, Change, Act, &[&str]); 10] = [
        ("nothing", |_| {}, again, &[]),
        (
            "an unrelated annotation",
            |world| world.annotate("example.com/owner", "me"),
            again,
            &[],
        ),
        (
            "a node port",
            |world| world.service.ports[0].node_port = Some(31000),
            again,
            &["update_service"],
        ),
        (
            "a port",
            |world| world.service.ports[1].port = 8443,
            again,
            &["add_service", "delete_service"],
        ),
        (
            "a node more",
            |world| world.nodes.push(server(5)),
            nodes,
            &["add_target"],
        ),
        (
            "a node less",
            |world| drop(world.nodes.pop()),
            nodes,
            &["remove_target"],
        ),
        ("the same nodes", |_| {}, nodes, &[]),
        (
            "a name in the reverse DNS",
            |world| world.annotate(annotations::IPV4_RDNS, "www.example.com"),
            again,
            &["change_dns_ptr"],
        ),
        (
            "an algorithm",
            |world| world.annotate(annotations::ALGORITHM_TYPE, "least_connections"),
            again,
            &["change_algorithm"],
        ),
        (
            "a bad annotation and a node less",
            |world| {
                world.annotate(annotations::ALGORITHM_TYPE, "by taste");
                world.nodes.remove(0);
            },
            nodes,
            &["remove_target"],
        ),
    ];
    for (what, change, call, writes) in table {
        let mut world = agreed();
        change(&mut world);
        let before = world.count();
        call(&mut world).unwrap();
        let mut expected = vec![LOOK.to_owned()];
        // The cloud locks a load balancer while an action runs: the writes are sent one after the other, without a read
        // in between.
        for write in writes {
            expected.extend([act(write), POLL.to_owned()]);
        }
        assert_eq!(world.requests(before), expected, "{what}");
        let before = world.count();
        call(&mut world).unwrap();
        assert_eq!(world.requests(before), [LOOK], "{what}, again");
    }
}

#[test]
fn a_name_is_written_at_once_and_there_is_nothing_to_wait_for() {
    let mut world = agreed();
    world.annotate(annotations::NAME, "shop");
    let before = world.count();
    world.ensure().unwrap();
    assert_eq!(world.requests(before), [LOOK, "PUT /load_balancers/101"]);
    // Removing the annotation does not request another name.
    world.service.annotations.clear();
    let before = world.count();
    world.ensure().unwrap();
    assert_eq!(world.requests(before), [LOOK]);
}

#[test]
fn what_changes_more_than_it_says_is_followed_by_a_new_look() {
    let table: [(&str, Change, &[&str], &str); 2] = [
        (
            "a type",
            |world| world.annotate(annotations::TYPE, "lb21"),
            &[],
            "change_type",
        ),
        (
            "a network",
            |world| {
                world.settings = settings(&[
                    ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1"),
                    ("HCLOUD_NETWORK", "4711"),
                ]);
            },
            &["GET /networks/4711"],
            "attach_to_network",
        ),
    ];
    for (what, change, reads, write) in table {
        let mut world = agreed();
        change(&mut world);
        let before = world.count();
        world.ensure().unwrap();
        let mut expected = vec![LOOK.to_owned()];
        expected.extend(reads.iter().map(|line| (*line).to_owned()));
        expected.extend([act(write), POLL.to_owned(), LOOK.to_owned()]);
        assert_eq!(world.requests(before), expected, "{what}");
    }
}

#[test]
fn a_type_that_nobody_chose_any_more_stays() {
    let mut world = agreed();
    world.annotate(annotations::TYPE, "lb31");
    world.ensure().unwrap();
    world.service.annotations.clear();
    world.settings = settings(&[("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1")]);
    world.ensure().unwrap();
    assert_eq!(world.only()["load_balancer_type"]["name"], "lb31");
    assert_eq!(world.reasons(), Vec::<&str>::new());
}

#[test]
fn that_nobody_chose_a_type_is_said_when_one_is_made_and_never_again() {
    let mut world = World::new(Project::new());
    world.settings = settings(&[("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1")]);
    world.ensure().unwrap();
    assert_eq!(world.only()["load_balancer_type"]["name"], "lb11");
    assert_eq!(world.reasons(), ["LoadBalancerTypeUnconfigured"]);
    world.annotate(annotations::ALGORITHM_TYPE, "least_connections");
    world.ensure().unwrap();
    assert_eq!(world.only()["algorithm"]["type"], "least_connections");
    assert_eq!(world.reasons(), ["LoadBalancerTypeUnconfigured"]);
}

fn through_the_network() -> World {
    let mut project = Project::new();
    project.polls = 1;
    let values = [
        ("HCLOUD_NETWORK", "4711"),
        ("HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", "true"),
    ];
    World::with(project, &values)
}

#[test]
fn the_network_is_in_the_order_and_targets_are_reached_through_it() {
    let mut world = through_the_network();
    let status = world.ensure().unwrap();
    let ips = status.ingress.iter().filter_map(|one| one.ip.as_deref());
    let ips: Vec<&str> = ips.collect();
    assert_eq!(ips, ["203.0.113.10", "2001:db8:c17::1", "10.0.0.2"]);
    let order = [LOOK, "GET /networks/4711", "POST /load_balancers", POLL];
    assert_eq!(world.requests(0), order);
    // To change the address, every target is removed and added again.
    let before = world.count();
    world.annotate(annotations::USE_PRIVATE_IP, "false");
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()), as_wanted());
    let requests = world.requests(before);
    let count = |what: &str| requests.iter().filter(|one| one.ends_with(what)).count();
    assert_eq!((count("/remove_target"), count("/add_target")), (4, 4));
}

#[test]
fn the_public_interface_goes_after_the_targets_that_are_reached_through_it() {
    let table: [(&str, Change, &[&str]); 2] = [
        (
            "other addresses of the targets",
            |world| world.annotate(annotations::USE_PRIVATE_IP, "true"),
            &[
                LOOK,
                "remove_target",
                POLL,
                LOOK,
                "disable_public_interface",
                POLL,
                LOOK,
                "add_target",
                POLL,
            ],
        ),
        (
            "no targets any more",
            |world| world.nodes.clear(),
            &[
                LOOK,
                "remove_target",
                POLL,
                LOOK,
                "disable_public_interface",
                POLL,
                LOOK,
            ],
        ),
    ];
    for (what, change, requests) in table {
        let mut world = through_the_network();
        world.annotate(annotations::USE_PRIVATE_IP, "false");
        world.nodes.truncate(1);
        world.ensure().unwrap();
        change(&mut world);
        world.annotate(annotations::DISABLE_PUBLIC_NETWORK, "true");
        let before = world.count();
        world.ensure().unwrap();
        let line = |request: &&str| match request.starts_with("GET ") {
            true => (*request).to_owned(),
            false => act(request),
        };
        let expected: Vec<String> = requests.iter().map(line).collect();
        assert_eq!(world.requests(before), expected, "{what}");
        assert_eq!(world.only()["public_net"]["enabled"], false, "{what}");
    }
}

#[test]
fn an_address_in_the_network_is_asked_for_after_the_order() {
    let mut world = through_the_network();
    for address in ["10.0.0.77", "10.0.0.78"] {
        world.annotate(annotations::PRIVATE_IPV4, address);
        let status = world.ensure().unwrap();
        assert_eq!(status.ingress[2].ip.as_deref(), Some(address));
        assert_eq!(brief(&world.only()), as_wanted());
    }
}

#[test]
fn deletion_is_one_look_and_one_request_and_the_proof_one_more() {
    let mut world = agreed();
    let before = world.count();
    world.delete().unwrap();
    let proof = deletion::get(&world.settings, &world.service).unwrap();
    assert!(matches!(proof, ccm_guest::load_balancer::Found::Absent));
    let expected = [LOOK, "DELETE /load_balancers/101", LOOK];
    assert_eq!(world.requests(before), expected);
    world.delete().unwrap();
    // An earlier call may have left a certificate.
    let nothing = [LOOK, "GET /certificates"];
    assert_eq!(world.requests(before + 3), nothing);
}

#[test]
fn a_hundred_targets_are_added_in_portions_that_one_request_asks_about() {
    let mut project = Project::new();
    project.polls = 1;
    project.max_targets = 150;
    let mut world = World::new(project);
    world.nodes.clear();
    world.ensure().unwrap();
    world.nodes = (1..=100).map(server).collect();
    let before = world.count();
    world.update_targets().unwrap();
    assert_eq!(brief(&world.only()).1.len(), 100);
    let requests = world.requests(before);
    let count = |what: &str| requests.iter().filter(|one| *one == what).count();
    assert_eq!((count(LOOK), count(POLL)), (3, 5), "{requests:?}");
}

#[test]
fn dedicated_servers_are_targets_by_the_address_that_robot_knows() {
    let mut project = Project::new();
    project.polls = 1;
    let mut world = World::with(project, &[("ROBOT_ENABLED", "true")]);
    world.nodes = vec![
        node("bm-1", Some("hrobot://321")),
        node("bm-9", Some("hrobot://999")),
    ];
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()).1, ["233.252.0.123"]);
    assert!(world.reasons().contains(&"ServerNotFound"));
    // Targets with addresses of former nodes are removed.
    world.nodes = vec![server(1)];
    world.update_targets().unwrap();
    assert_eq!(brief(&world.only()).1, ["1"]);
}

#[test]
fn every_write_is_announced_with_its_reason() {
    let mut world = agreed();
    world.service.ports[1].port = 8443;
    world.ensure().unwrap();
    world.delete().unwrap();
    let writes = world.host.seen();
    let writes = writes.iter().filter(|one| one.method != "GET").count();
    let lines = world.host.lines();
    let reported: Vec<&str> = lines
        .iter()
        .filter(|(level, line)| *level == log::Level::Info && line.contains(" why="))
        .map(|(_, line)| line.as_str())
        .collect();
    assert_eq!(reported.len(), writes, "{reported:?}");
    let expected = "changing the load balancer id=101 write=add_service why=port 8443 is missing";
    assert!(reported.contains(&expected), "{reported:?}");
}
