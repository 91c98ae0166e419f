//! Which requests create and delete a route, and what remains when some of them fail.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::RefCell;
use std::rc::Rc;

use ccm_guest::Node;
use ccm_guest::routes::{Progress, Route, Target};
use ccm_guest::testing::TestHost;
use serde_json::{Value, json as value};

use super::super::fixtures::{Project, Trouble, node, settings};
use super::*;
use crate::api::network_id;

/// More calls than any test needs.
const MOST_CALLS: usize = 40;

const NETWORK: &str = "GET /networks?name=cluster";
const ADD: &str = "POST /networks/4711/actions/add_route";
const DELETE: &str = "POST /networks/4711/actions/delete_route";

fn first() -> Node {
    node("node-1", 1, &["10.0.0.2"], &["10.244.1.0/24"])
}

fn second() -> Node {
    node("node-2", 2, &["10.0.0.3"], &["10.244.2.0/24"])
}

fn creation(node: &Node) -> CreateRequest {
    CreateRequest {
        node: node.clone(),
        destination_cidr: node.pod_cidrs[0].clone(),
        hint: None,
    }
}

fn removal(id: &str) -> DeleteRequest {
    let route = Route {
        id: id.to_owned(),
        destination_cidr: "10.244.1.0/24".to_owned(),
        target: Target::Blackhole,
        extra: Vec::new(),
    };
    DeleteRequest { route, hint: None }
}

fn route(destination: &str, gateway: &str) -> (String, String) {
    (destination.to_owned(), gateway.to_owned())
}

fn body(destination: &str, gateway: &str) -> Value {
    value!({"destination": destination, "gateway": gateway})
}

/// A project whose network id is cached, as after any look-up of nodes: that was one request. A listing's cached data
/// does not help other calls, because the host gives it a state store of its own.
fn served(project: Project) -> (TestHost, Rc<RefCell<Project>>) {
    let trouble = project.trouble.clone();
    let mut project = project;
    project.trouble = trouble.into_iter().map(|(at, one)| (at + 1, one)).collect();
    let (host, project) = project.serve();
    network_id("cluster").unwrap();
    (host, project)
}

fn requests(host: &TestHost) -> Vec<String> {
    host.requests().split_off(1)
}

fn hint(progress: &Progress) -> Option<Vec<u8>> {
    match progress {
        Progress::Done => None,
        Progress::Pending(pending) => {
            assert!((100..=600_000).contains(&pending.retry_after_ms));
            let hint = pending.hint.clone().unwrap();
            assert!(hint.len() <= 4096);
            Some(hint)
        }
    }
}

/// Calls `create` until it is done, as the controllers do; `forgetful`: without cached state, as after a swap or a
/// change of leader.
fn create_whole(node: &Node, forgetful: bool) -> Result<usize, Error> {
    let mut request = creation(node);
    for calls in 1..=MOST_CALLS {
        let reply = create(&settings(), &request)?;
        match hint(&reply.progress) {
            None => return Ok(calls),
            Some(hint) => request.hint = (!forgetful).then_some(hint),
        }
    }
    panic!("it does not come to an end");
}

fn delete_whole(id: &str) -> Result<usize, Error> {
    let mut request = removal(id);
    for calls in 1..=MOST_CALLS {
        let reply = delete(&settings(), &request)?;
        match hint(&reply.progress) {
            None => return Ok(calls),
            Some(hint) => request.hint = Some(hint),
        }
    }
    panic!("it does not come to an end");
}

#[test]
fn a_route_costs_its_order_and_its_polls() {
    for polls in [0, 1, 3] {
        let project = Project::slow(polls, &[]);
        let (host, project) = served(project);
        create_whole(&first(), false).unwrap();
        let mut expected = vec![ADD];
        expected.resize(1 + polls as usize, "GET /actions?id=1");
        assert_eq!(requests(&host), expected);
        let project = project.borrow();
        assert_eq!(project.routes(), [route("10.244.1.0/24", "10.0.0.2")]);
        assert_eq!(project.bodies, [body("10.244.1.0/24", "10.0.0.2")]);
    }
}

#[test]
fn a_network_that_nobody_has_asked_for_is_looked_up_once() {
    let (host, project) = Project::new(&[]).serve();
    create_whole(&first(), false).unwrap();
    create_whole(&second(), false).unwrap();
    assert_eq!(host.requests(), [NETWORK, ADD, ADD]);
    assert_eq!(project.borrow().routes().len(), 2);
}

#[test]
fn a_removal_costs_its_order_and_its_polls() {
    let project = Project::slow(1, &[("10.244.1.0/24", "10.0.0.99")]);
    let (host, project) = project.serve();
    delete_whole("4711-10.0.0.99-10.244.1.0/24").unwrap();
    assert_eq!(host.requests(), [DELETE, "GET /actions?id=1"]);
    assert_eq!(
        project.borrow().bodies,
        [body("10.244.1.0/24", "10.0.0.99")]
    );
    assert_eq!(project.borrow().routes(), []);
}

/// The Go manager looks up the gateway by the destination, finds none, and asks the cloud to delete the route through
/// `<nil>`.
#[test]
fn the_removal_of_a_route_that_is_not_there_is_done_and_names_no_other_gateway() {
    for routes in [&[][..], &[("10.244.1.0/24", "10.0.0.3")]] {
        let (host, project) = Project::new(routes).serve();
        assert_eq!(delete_whole("4711-10.0.0.2-10.244.1.0/24"), Ok(1));
        assert_eq!(host.requests(), [DELETE]);
        let project = project.borrow();
        assert_eq!(project.bodies, [body("10.244.1.0/24", "10.0.0.2")]);
        assert_eq!(project.routes().len(), routes.len(), "nobody else's goes");
    }
    let (host, _) = Project::new(&[]).serve();
    let nobody = delete_whole("4711-<nil>-10.244.1.0/24");
    assert!(matches!(nobody, Err(Error::Invalid(_))), "{nobody:?}");
    assert_eq!(host.requests(), [] as [&str; 0]);
}

#[test]
fn a_removal_that_the_cloud_refuses_is_looked_at() {
    let trouble = |routes: &[(&str, &str)]| {
        let mut project = Project::new(routes);
        project
            .trouble
            .insert(0, Trouble::Refused(422, "invalid_input"));
        let (host, _) = project.serve();
        let answer = delete_whole("4711-10.0.0.2-10.244.1.0/24");
        assert_eq!(host.requests(), [DELETE, NETWORK]);
        answer
    };
    assert_eq!(trouble(&[]), Ok(1));
    assert_eq!(trouble(&[("10.244.1.0/24", "10.0.0.3")]), Ok(1));
    let there = trouble(&[("10.244.1.0/24", "10.0.0.2")]);
    assert!(matches!(there, Err(Error::Invalid(_))), "{there:?}");
}

/// The Go manager replaces its copy of the network in each creation, and creations run side by side without a lock.
#[test]
fn two_creations_at_the_same_time_do_not_disturb_each_other() {
    let project = Project::slow(2, &[]);
    let (host, project) = served(project);
    let mut open: Vec<CreateRequest> = vec![creation(&first()), creation(&second())];
    for _ in 0..MOST_CALLS {
        // The calls alternate, as if they ran side by side.
        open.retain_mut(|request| {
            let reply = create(&settings(), request).unwrap();
            request.hint = hint(&reply.progress);
            request.hint.is_some()
        });
    }
    assert!(open.is_empty());
    let project = project.borrow();
    assert_eq!(
        project.routes(),
        [
            route("10.244.1.0/24", "10.0.0.2"),
            route("10.244.2.0/24", "10.0.0.3")
        ]
    );
    assert_eq!(
        project.bodies.len(),
        2,
        "nobody asks while the other's runs"
    );
    assert_eq!(requests(&host).len(), 2 * (1 + 2));
}

#[test]
fn creations_that_do_not_know_of_each_other_wait_until_the_cloud_is_free() {
    let project = Project::slow(2, &[]);
    let (host, project) = served(project);
    let one = create(&settings(), &creation(&first())).unwrap();
    // Another replica, or a person: this replica's state has no marker of the running change.
    host.forget_state();
    let mut other = creation(&second());
    let reply = create(&settings(), &other).unwrap();
    let Progress::Pending(pending) = &reply.progress else {
        panic!("{reply:?}");
    };
    assert!(pending.retry_after_ms >= 1000);
    let mut request = creation(&first());
    request.hint = hint(&one.progress);
    while request.hint.is_some() {
        let reply = create(&settings(), &request).unwrap();
        request.hint = hint(&reply.progress);
    }
    other.hint = hint(&reply.progress);
    while other.hint.is_some() {
        let reply = create(&settings(), &other).unwrap();
        other.hint = hint(&reply.progress);
    }
    assert_eq!(project.borrow().routes().len(), 2);
}

#[test]
fn a_note_that_nobody_takes_back_is_not_waited_for_long() {
    let project = Project::slow(1, &[]);
    let (host, project) = served(project);
    let _ = create(&settings(), &creation(&first())).unwrap();
    let waiting = create(&settings(), &creation(&second())).unwrap();
    assert!(hint(&waiting.progress).is_some());
    assert_eq!(requests(&host), [ADD]);
    // The call that set the marker did not return; at the cloud the change has ended.
    host.advance(NOTED);
    project.borrow_mut().end_all();
    create_whole(&second(), false).unwrap();
    assert_eq!(project.borrow().routes().len(), 2);
}

#[test]
fn every_creation_comes_to_the_same_end_without_hints() {
    for polls in [0, 1] {
        let project = Project::slow(polls, &[]);
        let (host, project) = served(project);
        for _ in 0..MOST_CALLS {
            let reply = create(&settings(), &creation(&first()));
            host.advance(Duration::from_secs(10));
            project.borrow_mut().end_all();
            if matches!(reply, Ok(reply) if matches!(reply.progress, Progress::Done)) {
                break;
            }
        }
        assert_eq!(
            project.borrow().routes(),
            [route("10.244.1.0/24", "10.0.0.2")]
        );
        assert_eq!(create_whole(&first(), true), Ok(1));
    }
}

#[test]
fn a_route_that_is_there_already_is_done() {
    let (host, project) = served(Project::new(&[("10.244.1.0/24", "10.0.0.2")]));
    assert_eq!(create_whole(&first(), false), Ok(1));
    assert_eq!(requests(&host), [ADD, "GET /networks/4711"]);
    assert_eq!(project.borrow().routes().len(), 1);
}

#[test]
fn an_order_whose_answer_was_lost_is_not_carried_out_twice() {
    let mut project = Project::new(&[]);
    project.trouble.insert(0, Trouble::AnswerLost);
    let (_host, project) = served(project);
    let lost = create_whole(&first(), false);
    assert!(matches!(lost, Err(Error::Unavailable(_))), "{lost:?}");
    assert_eq!(create_whole(&first(), false), Ok(1));
    assert_eq!(
        project.borrow().routes(),
        [route("10.244.1.0/24", "10.0.0.2")]
    );
}

#[test]
fn what_is_in_the_way_is_named_and_left() {
    for known in [
        ("10.244.1.0/24", "10.0.0.99"),
        ("10.244.0.0/16", "10.0.0.2"),
        ("10.244.1.128/25", "10.0.0.2"),
    ] {
        let (host, project) = served(Project::new(&[known]).server(9, "gate", &["10.0.0.99"]));
        let before = host.requests().len();
        let answer = create_whole(&first(), false);
        let Err(Error::Conflict(conflict)) = &answer else {
            panic!("{known:?}: {answer:?}");
        };
        assert!(conflict.message.contains(known.0), "{conflict:?}");
        assert!(conflict.message.contains(known.1), "{conflict:?}");
        assert_eq!(conflict.owner, None);
        assert_eq!(host.requests()[before..], [ADD, "GET /networks/4711"]);
        assert_eq!(project.borrow().routes(), [route(known.0, known.1)]);
    }
}

#[test]
fn the_default_route_is_in_nobodys_way() {
    let mut project = Project::new(&[("0.0.0.0/0", "10.0.0.99")]);
    project
        .trouble
        .insert(0, Trouble::Refused(403, "resource_limit_exceeded"));
    let (_host, _) = served(project);
    let answer = create_whole(&first(), false);
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
}

#[test]
fn refusals_are_told_by_what_they_ask_of_whom() {
    let table: &[(u16, &'static str, &str, usize)] = &[
        (422, "invalid_input", "invalid", 2),
        (403, "resource_limit_exceeded", "unavailable", 2),
        (403, "forbidden", "denied", 1),
        (403, "token_readonly", "denied", 1),
        (429, "rate_limit_exceeded", "throttled", 1),
        (409, "conflict", "pending", 1),
        (423, "locked", "pending", 1),
        (503, "maintenance", "unavailable", 1),
        (500, "server_error", "unavailable", 1),
    ];
    for (status, code, expected, requested) in table {
        let mut project = Project::new(&[]);
        project.trouble.insert(0, Trouble::Refused(*status, code));
        let (host, _) = served(project);
        let reported = match create(&settings(), &creation(&first())) {
            Ok(reply) => match reply.progress {
                Progress::Pending(_) => "pending",
                Progress::Done => "done",
            },
            Err(Error::Invalid(_)) => "invalid",
            Err(Error::Denied(_)) => "denied",
            Err(Error::Throttled(_)) => "throttled",
            Err(Error::Unavailable(_)) => "unavailable",
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(reported, *expected, "{code}");
        assert_eq!(requests(&host).len(), *requested, "{code}");
        // After a refusal no call has to wait.
        assert_eq!(create_whole(&first(), false), Ok(1), "{code}");
    }
}

/// Each request counts towards the project's limit.
#[test]
fn a_change_is_asked_about_less_and_less_often() {
    let waits = |project: Project| -> Vec<u64> {
        let (_host, _project) = served(project);
        let mut request = creation(&first());
        let mut waits = Vec::new();
        while let Progress::Pending(pending) = create(&settings(), &request).unwrap().progress {
            waits.push(pending.retry_after_ms);
            request.hint = pending.hint;
        }
        waits
    };
    let mut busy = Project::new(&[]);
    let refused = || Trouble::Refused(423, "locked");
    busy.trouble = (0..4).map(|number| (number, refused())).collect();
    // Calls do not return together: a random part of a second comes on top.
    let seconds: Vec<u64> = waits(busy).iter().map(|wait| wait / 1000).collect();
    assert_eq!(seconds, [1, 2, 3, 4]);
    assert_eq!(waits(Project::slow(12, &[]))[8..10], [500, 1000]);
}

#[test]
fn a_change_that_fails_is_told_once_and_then_begun_again() {
    let mut project = Project::slow(1, &[]);
    project.failed.push(1);
    let (host, project) = served(project);
    let begun = create(&settings(), &creation(&first())).unwrap();
    let mut request = creation(&first());
    request.hint = hint(&begun.progress);
    let failed = create(&settings(), &request);
    assert!(matches!(failed, Err(Error::Unavailable(_))), "{failed:?}");
    // The host may keep a hint for any time.
    let again = create(&settings(), &request).unwrap();
    request.hint = hint(&again.progress);
    let done = create(&settings(), &request).unwrap();
    assert!(matches!(done.progress, Progress::Done));
    assert_eq!(project.borrow().routes().len(), 1);
    assert_eq!(requests(&host).iter().filter(|one| *one == ADD).count(), 2);
}

#[test]
fn a_hint_about_something_else_is_none() {
    let project = Project::slow(1, &[]);
    let (_host, project) = served(project);
    let begun = create(&settings(), &creation(&first())).unwrap();
    project.borrow_mut().end_all();
    let moved = node("node-1", 1, &["10.0.0.8"], &["10.244.3.0/24"]);
    for text in [hint(&begun.progress).unwrap(), b"{}".to_vec(), vec![0xff]] {
        let mut request = creation(&moved);
        request.hint = Some(text);
        let reply = create(&settings(), &request).unwrap();
        assert!(matches!(reply.progress, Progress::Pending(_)));
    }
}

#[test]
fn a_node_with_a_choice_of_addresses_is_reached_through_the_one_in_the_network() {
    let (host, project) = served(Project::new(&[]));
    let addresses = ["192.168.1.7", "10.0.0.1", "10.0.0.2"];
    for (number, node) in [first(), second()].iter_mut().enumerate() {
        let cidrs = node.pod_cidrs.clone();
        *node = super::super::fixtures::node("node", 1, &addresses, &[&cidrs[0]]);
        assert_eq!(create_whole(node, false), Ok(1));
        assert_eq!(
            project.borrow().routes()[number],
            route(&cidrs[0], "10.0.0.2")
        );
    }
    assert_eq!(requests(&host), ["GET /networks/4711", ADD, ADD]);
}

#[test]
fn ipv6_and_what_the_vendor_routes_nothing_to_are_left_to_others() {
    let (host, _) = served(Project::new(&[]));
    let mut bare = first();
    bare.provider_id = Some("hrobot://321".to_owned());
    let mut dual = creation(&first());
    dual.destination_cidr = "fd00:10:244:1::/64".to_owned();
    let mut broken = creation(&first());
    broken.destination_cidr = "10.244.1".to_owned();
    let mut detached = creation(&first());
    detached.node.addresses.clear();
    for (request, expected) in [
        (creation(&bare), "elsewhere"),
        (dual, "elsewhere"),
        (broken, "invalid"),
        (detached, "invalid"),
    ] {
        let reported = match create(&settings(), &request) {
            Err(Error::Elsewhere) => "elsewhere",
            Err(Error::Invalid(_)) => "invalid",
            answer => panic!("{answer:?}"),
        };
        assert_eq!(reported, expected, "{request:?}");
    }
    assert_eq!(requests(&host), ["GET /networks/4711"], "for the last one");
}
