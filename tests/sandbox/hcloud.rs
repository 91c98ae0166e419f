//! The shipped guest in the real sandbox between two simulated clouds: Hetzner Cloud, and Robot with its login, its
//! limits and its lock-out. Shown here because a scripted host cannot: which credential goes where, what the host
//! caches, and which answers it calls complete.

use ccm_core::cloud::{CloudNode, Lookup};
use ccm_sim::hetzner;
use ccm_sim::robot::{self, Fault, OperatingStatus, Trouble};
use ccm_tests::harness::trial;
use libtest_mimic::Trial;

use crate::hcloud::world::{PASSWORD, World, brief, node, silent};
use crate::permits::reads;

mod absence;
mod bodies;
mod routes;
pub(crate) mod world;

const ON: &[(&str, &str)] = &[("ROBOT_ENABLED", "true")];

type Test = (&'static str, fn(&World));

const TESTS: &[Test] = &[
    (
        "nodes_of_both_clouds_are_found_in_one_call",
        nodes_of_both_clouds_are_found_in_one_call,
    ),
    (
        "a_vanished_dedicated_server_is_gone_by_complete_answers",
        a_vanished_dedicated_server_is_gone_by_complete_answers,
    ),
    (
        "half_a_list_of_robot_deletes_nothing",
        half_a_list_of_robot_deletes_nothing,
    ),
    (
        "a_limit_at_robot_costs_one_request_and_no_node_of_the_cloud",
        a_limit_at_robot_costs_one_request_and_no_node_of_the_cloud,
    ),
    (
        "a_wrong_password_is_tried_once",
        a_wrong_password_is_tried_once,
    ),
    (
        "a_node_that_is_not_ready_is_told_whether_its_server_is_on",
        a_node_that_is_not_ready_is_told_whether_its_server_is_on,
    ),
    (
        "robot_is_optional_until_it_is_enabled",
        robot_is_optional_until_it_is_enabled,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let more = [absence::TESTS, bodies::TESTS, routes::TESTS].concat();
    let tests = TESTS.iter().copied().chain(more);
    let trials = tests.map(|(name, test)| {
        trial(format!("hcloud::{name}"), move || {
            test(&World::new());
            Ok(())
        })
    });
    trials.collect()
}

fn nodes_of_both_clouds_are_found_in_one_call(world: &World) {
    let id = world
        .cloud
        .add_server(hetzner::ServerSpec::named("cloud-1"));
    let first = world.robot.add_server(robot::ServerSpec::named("bare-1"));
    let second = world.robot.add_server(robot::ServerSpec::named("bare-2"));
    let legacy = format!("hcloud://bm-{second}");
    let nodes = [
        node("cloud-1", Some(format!("hcloud://{id}"))),
        node("bare-1", None),
        node("bare-2", Some(legacy.clone())),
        node("laptop", None),
    ];
    let provider = world.load(Some(PASSWORD), ON).unwrap();
    world
        .runtime
        .block_on(provider.self_check(reads()))
        .unwrap();
    for _ in 0..3 {
        let reply = world.find(&provider, &nodes);
        let expected = [
            format!("hcloud://{id}"),
            format!("hrobot://{first}"),
            legacy.clone(),
            "not mine".to_owned(),
        ];
        assert_eq!(brief(&reply), expected);
        let Lookup::Found(instance) = &reply.lookups[1] else {
            panic!("{reply:?}");
        };
        assert_eq!(instance.instance_type.as_deref(), Some("AX41-NVMe"));
        assert_eq!(instance.zone.as_deref(), Some("fsn1-dc14"));
        assert_eq!(instance.addresses.len(), 2);
    }
    assert_eq!(world.lists(), 1, "the list is kept, from the self-check on");
    assert_eq!(world.robot.requests().len(), 1);
}

fn a_vanished_dedicated_server_is_gone_by_complete_answers(world: &World) {
    let stays = world.robot.add_server(robot::ServerSpec::named("bare-1"));
    let goes = world.robot.add_server(robot::ServerSpec::named("bare-2"));
    let nodes = [
        node("bare-1", Some(format!("hrobot://{stays}"))),
        node("bare-2", Some(format!("hrobot://{goes}"))),
    ];
    let provider = world.load(Some(PASSWORD), ON).unwrap();
    assert!(world.find(&provider, &nodes).complete);
    world.robot.remove_server(goes);
    for _ in 0..2 {
        let reply = world.find_fresh(&provider, &nodes);
        assert_eq!(
            brief(&reply),
            [format!("hrobot://{stays}"), "gone".to_owned()]
        );
        assert!(reply.complete);
        assert!(reply.events.is_empty());
    }
    world.robot.rename(stays, "of-another-cluster");
    let reply = world.find_fresh(&provider, &nodes[..1]);
    assert_eq!(brief(&reply), ["gone"]);
    let [(0, event)] = reply.events.as_slice() else {
        panic!("{:?}", reply.events);
    };
    assert_eq!(event.reason, "PossibleNodeDeletion");
}

fn half_a_list_of_robot_deletes_nothing(world: &World) {
    let names: Vec<String> = (1..=6).map(|number| format!("bare-{number}")).collect();
    let nodes: Vec<CloudNode> = names
        .iter()
        .map(|name| {
            let number = world.robot.add_server(robot::ServerSpec::named(name));
            node(name, Some(format!("hrobot://{number}")))
        })
        .collect();
    let provider = world.load(Some(PASSWORD), ON).unwrap();
    for trouble in [
        Trouble::PartialPage,
        Trouble::EmptyList,
        Trouble::Truncated,
        Trouble::Cut,
        Trouble::ResetAfter,
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
        world.robot.inject(Fault::new(trouble.clone()));
        let reply = world.find_fresh(&provider, &nodes);
        assert!(
            !reply.lookups.contains(&Lookup::Gone),
            "{trouble:?}: {reply:?}"
        );
        world.robot.clear_faults();
        let reply = world.find_fresh(&provider, &nodes);
        assert!(
            brief(&reply).iter().all(|one| one.starts_with("hrobot://")),
            "{trouble:?}"
        );
    }
}

fn a_limit_at_robot_costs_one_request_and_no_node_of_the_cloud(world: &World) {
    let id = world
        .cloud
        .add_server(hetzner::ServerSpec::named("cloud-1"));
    let number = world.robot.add_server(robot::ServerSpec::named("bare-1"));
    let nodes = [
        node("cloud-1", Some(format!("hcloud://{id}"))),
        node("bare-1", Some(format!("hrobot://{number}"))),
    ];
    let provider = world.load(Some(PASSWORD), ON).unwrap();
    let refusal = Trouble::TooManyRequests { retry_after: None };
    world.robot.inject(Fault::new(refusal));
    for _ in 0..3 {
        let reply = world.find(&provider, &nodes);
        assert_eq!(
            brief(&reply),
            [format!("hcloud://{id}"), "unknown".to_owned()]
        );
    }
    assert_eq!(world.robot.requests().len(), 1);
}

fn a_wrong_password_is_tried_once(world: &World) {
    let number = world.robot.add_server(robot::ServerSpec::named("bare-1"));
    let nodes = [node("bare-1", Some(format!("hrobot://{number}")))];
    let provider = world.load(Some("wrong"), ON).unwrap();
    let error = world
        .runtime
        .block_on(provider.self_check(reads()))
        .unwrap_err();
    assert_eq!(error.reason(), "denied", "{error}");
    assert!(!error.to_string().contains(PASSWORD), "{error}");
    for _ in 0..3 {
        assert_eq!(brief(&world.find(&provider, &nodes)), ["unknown"]);
    }
    assert_eq!(world.robot.requests().len(), 1, "three would lock us out");
}

fn a_node_that_is_not_ready_is_told_whether_its_server_is_on(world: &World) {
    for (status, expected) in [
        (OperatingStatus::Running, Some(false)),
        (OperatingStatus::ShutOff, Some(true)),
        (OperatingStatus::NotSupported, None),
    ] {
        let number = world.robot.add_server(robot::ServerSpec::named("bare"));
        world.robot.set_operating_status(number, status);
        let ready = node("bare", Some(format!("hrobot://{number}")));
        let provider = world.load(Some(PASSWORD), ON).unwrap();
        for (node, expected) in [(silent(ready.clone()), expected), (ready, None)] {
            let reply = world.find(&provider, &[node]);
            let [Lookup::Found(instance)] = reply.lookups.as_slice() else {
                panic!("{reply:?}");
            };
            assert_eq!(instance.shutdown, expected, "{status:?}");
        }
    }
}

fn robot_is_optional_until_it_is_enabled(world: &World) {
    let provider = world.load(None, &[]).unwrap();
    assert_eq!(provider.warnings(), [] as [&str; 0]);
    let reply = world.find(&provider, &[node("bare-1", Some("hrobot://1".to_owned()))]);
    assert_eq!(brief(&reply), ["not mine"]);

    // Enabled and not granted: dedicated servers are targets of load balancers, and no instances.
    let provider = world.load(None, ON).unwrap();
    let reply = world.find(&provider, &[node("bare-1", Some("hrobot://1".to_owned()))]);
    assert_eq!(brief(&reply), ["not mine"]);
    assert!(world.robot.requests().is_empty());
}
