//! Refusals, lost answers and crashes: the result is the same, and nothing is created twice or left behind.

use super::*;

/// A Service whose load balancer takes more than one request in every step.
fn demanding(project: Project) -> World {
    let mut world = World::with(project, &[("HCLOUD_NETWORK", "4711")]);
    for (key, value) in [
        (annotations::PROTOCOL, "https"),
        (annotations::CERTIFICATE_TYPE, "managed"),
        (annotations::HTTP_MANAGED_CERTIFICATE_DOMAINS, "example.com"),
        (annotations::IPV4_RDNS, "www.example.com"),
        (annotations::PRIVATE_IPV4, "10.0.0.9"),
        (annotations::USE_PRIVATE_IP, "true"),
    ] {
        world.annotate(key, value);
    }
    world
}

/// Creates, changes and deletes the load balancer, and checks the cloud in between. Returns the number of requests.
fn live(world: &mut World) -> usize {
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()), as_wanted());
    let found = world.only();
    assert_eq!(found["private_net"][0]["ip"], "10.0.0.9");
    assert_eq!(found["public_net"]["ipv4"]["dns_ptr"], "www.example.com");
    let ids: Vec<u64> = world
        .project
        .borrow()
        .certificates
        .keys()
        .copied()
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    for service in found["services"].as_array().unwrap() {
        assert_eq!(service["http"]["certificates"], json!(ids));
    }
    world.service.ports[1].port = 8443;
    world.nodes.push(server(5));
    world.ensure().unwrap();
    let (services, targets) = brief(&world.only());
    assert_eq!(services, ["80→30080", "8443→30443"]);
    assert_eq!(targets, ["1", "2", "3", "4", "5"]);
    world.delete().unwrap();
    let project = world.project.borrow();
    assert!(project.load_balancers.is_empty(), "{project:?}");
    assert!(project.certificates.is_empty(), "{project:?}");
    world.count()
}

fn project(polls: u32, locks: bool) -> Project {
    let mut project = Project::new();
    project.polls = polls;
    project.locks = locks;
    project
}

#[test]
fn the_end_is_the_same_however_long_actions_run_and_without_any_hint() {
    for (polls, locks, forgetful) in [
        (0, false, false),
        (0, false, true),
        (1, false, false),
        (2, false, false),
        (20, false, false),
        (2, false, true),
        (1, true, false),
        (3, true, false),
    ] {
        let mut world = demanding(project(polls, locks));
        world.forgetful = forgetful;
        live(&mut world);
    }
}

#[test]
fn no_request_can_fail_so_that_anything_is_made_twice_or_left_behind() {
    let troubles = [
        Trouble::AnswerLost,
        Trouble::Refused(409, "conflict"),
        Trouble::Refused(423, "locked"),
        Trouble::Refused(500, "server_error"),
        Trouble::Refused(503, "timeout"),
    ];
    for forgetful in [false, true] {
        for trouble in &troubles {
            let mut number = 0;
            loop {
                let mut project = project(1, false);
                project.trouble.insert(number, trouble.clone());
                let mut world = demanding(project);
                world.forgetful = forgetful;
                let requests = live(&mut world);
                number += 1;
                if number >= requests {
                    break;
                }
            }
            assert!(number > 15, "there are more requests than {number}");
        }
    }
}

#[test]
fn a_certificate_goes_with_its_service_also_when_the_annotation_went_before() {
    let mut world = demanding(project(1, false));
    world.ensure().unwrap();
    world.service.annotations.clear();
    world.ensure().unwrap();
    assert_eq!(world.only()["services"][0]["http"], Value::Null);
    world.delete().unwrap();
    assert!(world.project.borrow().certificates.is_empty());
}

fn in_network(project: Project) -> World {
    let mut world = World::with(project, &[("HCLOUD_NETWORK", "4711")]);
    world.annotate(annotations::USE_PRIVATE_IP, "true");
    world
}

fn request(world: &World, hint: Option<Vec<u8>>) -> EnsureRequest {
    EnsureRequest {
        service: world.service.clone(),
        targets: world.nodes.clone(),
        adopt: None,
        hint,
    }
}

#[test]
fn addresses_that_come_late_are_waited_for_with_or_without_a_hint() {
    for forgetful in [false, true] {
        let mut project = project(1, false);
        project.unaddressed = 4;
        let mut world = World::new(project);
        world.forgetful = forgetful;
        let status = world.ensure().unwrap();
        assert_eq!(status.ingress.len(), 2, "{forgetful}");
    }
}

#[test]
fn an_action_that_fails_is_an_error_once_and_then_there_is_a_new_look() {
    let mut project = project(1, false);
    project.failed = vec![102];
    let world = World::new(project);
    let begun = ensure(&world.settings, &request(&world, None)).unwrap();
    let Ensured::Pending(pending) = begun.ensured else {
        panic!("{begun:?}");
    };
    let failed = ensure(&world.settings, &request(&world, pending.hint.clone()));
    assert!(matches!(failed, Err(Error::Unavailable(_))), "{failed:?}");
    // A host that keeps the hint of a failed call is not stuck with it.
    let again = ensure(&world.settings, &request(&world, pending.hint)).unwrap();
    assert!(matches!(again.ensured, Ensured::Pending(_)), "{again:?}");
}

#[test]
fn what_a_failed_order_leaves_behind_is_finished() {
    for (forgetful, locks) in [(false, true), (false, false), (true, false)] {
        let mut project = project(1, locks);
        project.failed = vec![102];
        let mut world = in_network(project);
        world.forgetful = forgetful;
        let status = world.ensure().unwrap();
        assert_eq!(
            status.ingress.len(),
            3,
            "public addresses, and one in the network"
        );
        assert_eq!(brief(&world.only()), as_wanted(), "{forgetful}");
    }
}

#[test]
fn a_node_that_cannot_be_a_target_keeps_no_other_from_being_one() {
    let mut project = project(1, false);
    project.detached = vec![2];
    let mut world = World::new(project);
    let mut reported = None;
    for _ in 0..10 {
        reported = ensure(&world.settings, &request(&world, None))
            .err()
            .or(reported);
    }
    let reported = reported.unwrap();
    assert!(reported.message().contains("node-2"), "{reported:?}");
    assert_eq!(brief(&world.only()).1, ["1", "3", "4"]);
    world.project.borrow_mut().detached.clear();
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()), as_wanted());
}

/// The cloud takes one change at a time, and accepts that of the second node before it fails.
#[test]
fn a_node_whose_action_fails_keeps_no_other_from_being_a_target() {
    for polls in [0, 1] {
        let mut project = project(polls, true);
        project.failing = vec![2];
        let mut world = World::new(project);
        let nodes = std::mem::take(&mut world.nodes);
        world.ensure().unwrap();
        world.nodes = nodes;
        let (mut hint, mut reported) = (None, None);
        for _ in 0..20 {
            match ensure(&world.settings, &request(&world, hint.take())) {
                Ok(reply) => {
                    hint = match reply.ensured {
                        Ensured::Pending(pending) => pending.hint,
                        _ => None,
                    }
                }
                Err(error) => reported = Some(error),
            }
        }
        assert!(reported.is_some());
        assert_eq!(brief(&world.only()).1, ["1", "3", "4"], "{polls}");
    }
}

#[test]
fn a_node_whose_server_is_gone_is_an_event_and_no_error() {
    for (polls, locks) in [(0, false), (1, false), (1, true)] {
        for at_order in [true, false] {
            let mut project = project(polls, locks);
            project.absent = vec![2, 4];
            let mut world = World::new(project);
            if !at_order {
                let kept = std::mem::take(&mut world.nodes);
                world.ensure().unwrap();
                world.nodes = kept;
            }
            let status = world.ensure().unwrap();
            assert_eq!(status.ingress.len(), 2);
            assert_eq!(brief(&world.only()).1, ["1", "3"], "{polls} {locks}");
            let mut events = world.events.iter().rev();
            let event = events.find(|one| one.reason == "ServerNotFound");
            let message = &event.unwrap().message;
            assert!(message.ends_with("node-2, node-4"), "{message}");
            world.update_targets().unwrap();
        }
    }
}

#[test]
fn a_load_balancer_that_goes_in_the_middle_is_made_again() {
    let mut world = World::new(project(1, true));
    world.nodes.truncate(1);
    world.ensure().unwrap();
    world.nodes = (1..=4).map(server).collect();
    let begun = ensure(&world.settings, &request(&world, None)).unwrap();
    let Ensured::Pending(pending) = begun.ensured else {
        panic!("{begun:?}");
    };
    world.project.borrow_mut().load_balancers.clear();
    let went = ensure(&world.settings, &request(&world, pending.hint)).unwrap();
    assert!(matches!(went.ensured, Ensured::Pending(_)), "{went:?}");
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()), as_wanted());
}

#[test]
fn more_nodes_than_the_type_allows_are_an_event_and_no_error() {
    for limited_at_order in [true, false] {
        let mut project = project(1, false);
        project.max_targets = 3;
        let mut world = World::new(project);
        if !limited_at_order {
            let kept = world.nodes.split_off(3);
            world.ensure().unwrap();
            world.nodes.extend(kept);
        }
        world.ensure().unwrap();
        assert_eq!(brief(&world.only()).1, ["1", "2", "3"]);
        let mut events = world.events.iter();
        let event = events.find(|one| one.reason == "MaxTargetsReached");
        let message = &event.unwrap().message;
        assert!(message.contains("node-4"), "{message}");
        assert!(!message.contains("node-3"), "{message}");
    }
}

#[test]
fn a_type_that_is_deprecated_is_an_event() {
    let mut world = World::new(Project::new());
    world.ensure().unwrap();
    assert!(!world.reasons().contains(&"LoadBalancerTypeDeprecated"));
    let announced = "2026-01-01T00:00:00+00:00";
    let end = "2026-07-01T00:00:00+00:00";
    let both = json!({"announced": announced, "unavailable_after": end});
    for (deprecation, expected) in [
        (both, format!("after {end}")),
        (Value::Null, format!("since {announced},")),
    ] {
        for found in world.project.borrow_mut().load_balancers.values_mut() {
            found["load_balancer_type"]["deprecated"] = json!(announced);
            found["load_balancer_type"]["deprecation"] = deprecation.clone();
        }
        world.events.clear();
        world.ensure().unwrap();
        let mut events = world.events.iter();
        let event = events.find(|one| one.reason == "LoadBalancerTypeDeprecated");
        let message = &event.unwrap().message;
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn a_hint_that_cannot_be_read_or_is_about_another_wish_is_none() {
    let mut world = World::new(project(1, false));
    world.ensure().unwrap();
    let before = world.count();
    let other = json!({"digest": 1, "actions": [1], "more": false, "waits": 0,
        "addresses": {"private": []}});
    for hint in [
        b"".to_vec(),
        b"\xff{".to_vec(),
        other.to_string().into_bytes(),
    ] {
        let reply = ensure(&world.settings, &request(&world, Some(hint))).unwrap();
        assert!(matches!(reply.ensured, Ensured::Ready(_)));
    }
    assert_eq!(world.requests(before), ["GET /load_balancers"; 3]);
}

#[test]
fn while_the_cloud_is_busy_it_is_asked_less_and_less_often() {
    let mut project = project(1, false);
    for number in 0..20 {
        if number % 2 == 1 {
            project
                .trouble
                .insert(number, Trouble::Refused(423, "locked"));
        }
    }
    let world = World::new(project);
    let mut hint = None;
    let mut waits = Vec::new();
    for _ in 0..5 {
        let reply = ensure(&world.settings, &request(&world, hint.take())).unwrap();
        let Ensured::Pending(pending) = reply.ensured else {
            panic!("{reply:?}");
        };
        waits.push(pending.retry_after_ms);
        hint = pending.hint;
    }
    assert_eq!(waits, [1000, 2000, 3000, 4000, 5000]);
}

/// A Service with a cloud server and a dedicated server behind its load balancer.
fn with_dedicated() -> World {
    let mut world = World::with(project(1, false), &[("ROBOT_ENABLED", "true")]);
    world.nodes = vec![server(1), node("bm-1", Some("hrobot://321"))];
    world
}

#[test]
fn while_robot_is_away_the_other_targets_follow_and_dedicated_servers_stay() {
    for status in [401, 403, 503] {
        let mut world = with_dedicated();
        world.ensure().unwrap();
        assert_eq!(brief(&world.only()).1, ["1", "233.252.0.123"]);
        world.project.borrow_mut().robot_refuses = Some(status);
        world.nodes = vec![server(2), node("bm-1", Some("hrobot://321"))];
        let error = world.update_targets().unwrap_err();
        assert_eq!(brief(&world.only()).1, ["2", "233.252.0.123"], "{status}");
        // The host would wait with later changes as long as a throttled call asks for.
        assert!(!matches!(error, Error::Throttled(_)), "{error:?}");

        world.service.ports[1].port = 8443;
        world.nodes.push(server(3));
        let error = loop {
            match ensure(&world.settings, &request(&world, None)) {
                Ok(reply) => assert!(matches!(reply.ensured, Ensured::Pending(_)), "{reply:?}"),
                Err(error) => break error,
            }
        };
        assert!(error.message().contains("dedicated"), "{error:?}");
        let (services, targets) = brief(&world.only());
        assert_eq!(services, ["80→30080", "8443→30443"], "{status}");
        assert_eq!(targets, ["2", "233.252.0.123", "3"], "{status}");
    }
}

#[test]
fn dedicated_servers_stay_while_robot_names_no_server_at_all() {
    let mut world = with_dedicated();
    world.ensure().unwrap();
    world.project.borrow_mut().robot_is_empty = true;
    world.nodes = vec![server(2), node("bm-1", Some("hrobot://321"))];
    let error = world.update_targets().unwrap_err();
    assert_eq!(brief(&world.only()).1, ["2", "233.252.0.123"]);
    assert!(error.message().contains("no server at all"), "{error:?}");
}

#[test]
fn a_load_balancer_that_is_made_while_robot_is_away_gets_its_dedicated_servers_later() {
    let mut world = with_dedicated();
    world.project.borrow_mut().robot_refuses = Some(503);
    let mut calls = 0..MOST_CALLS;
    while calls.next().is_some() {
        match ensure(&world.settings, &request(&world, None)) {
            Ok(reply) => assert!(matches!(reply.ensured, Ensured::Pending(_)), "{reply:?}"),
            Err(_) => break,
        }
    }
    assert_eq!(brief(&world.only()).1, ["1"]);
    world.project.borrow_mut().robot_refuses = None;
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()).1, ["1", "233.252.0.123"]);
}

#[test]
fn a_load_balancer_is_not_refused_because_robot_cannot_tell_whose_its_targets_are() {
    let mut world = with_dedicated();
    world.ensure().unwrap();
    for one in world.project.borrow_mut().load_balancers.values_mut() {
        one["labels"] = json!({});
    }
    let name = world.only()["name"].as_str().unwrap().to_owned();
    world.annotate(annotations::NAME, &name);
    world.adopt = Some(String::new());
    world.project.borrow_mut().robot_refuses = Some(503);
    let asked = EnsureRequest {
        adopt: Some(Adoption::Unowned),
        ..request(&world, None)
    };
    let error = ensure(&world.settings, &asked).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    world.project.borrow_mut().robot_refuses = None;
    world.ensure().unwrap();
    assert_eq!(brief(&world.only()).1, ["1", "233.252.0.123"]);
}
