//! Which objects are removed with a Service, and which are not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::RefCell;
use std::rc::Rc;

use ccm_guest::load_balancer::Progress;
use ccm_guest::testing::TestHost;
use serde_json::Value;

use super::super::fixtures::project::{Project, Trouble};
use super::super::fixtures::{UID, service, settings};
use super::*;

fn label() -> Value {
    json!({"hcloud-ccm/service-uid": UID, "team": "a"})
}

fn certificate(id: u64, kind: &str, used_by: &[u64]) -> Value {
    let users: Vec<Value> = used_by
        .iter()
        .map(|id| json!({"id": id, "type": "load_balancer"}))
        .collect();
    json!({"id": id, "name": format!("certificate-{id}"), "type": kind, "labels": label(),
        "status": null, "used_by": users})
}

fn managed_service() -> Service {
    service(&[(annotations::CERTIFICATE_TYPE, "managed")])
}

fn serve(project: Project) -> (TestHost, Rc<RefCell<Project>>) {
    project.serve()
}

/// Calls `delete` until it is done; returns the events of all calls.
fn to_the_end(service: &Service, forgetful: bool) -> Vec<Event> {
    let mut hint = None;
    let mut events = Vec::new();
    for _ in 0..20 {
        let request = DeleteRequest {
            service: service.clone(),
            hint: hint.take().filter(|_| !forgetful),
        };
        let reply = match delete(&request) {
            Ok(reply) => reply,
            Err(Error::Unavailable(_)) => continue,
            Err(error) => panic!("{error:?}"),
        };
        events.extend(reply.events);
        match reply.progress {
            Progress::Done => return events,
            Progress::Pending(pending) => hint = pending.hint,
        }
    }
    panic!("it does not come to an end");
}

#[test]
fn one_that_is_protected_stays_and_is_nobodys() {
    for known_before in [true, false] {
        let mut project = Project::new();
        let id = project.put("shop", &label());
        let protected = project.load_balancers.get_mut(&id).unwrap();
        protected["protection"]["delete"] = json!(known_before);
        if !known_before {
            // A person protects it between the read and the request.
            project
                .trouble
                .insert(1, Trouble::Refused(403, "protected"));
        }
        let (_host, project) = serve(project);
        let events = to_the_end(&service(&[]), false);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].reason, "LoadBalancerKept");
        assert!(events[0].message.contains("shop"));
        let found = project.borrow().load_balancers[&id].clone();
        assert_eq!(found["labels"], json!({"team": "a"}), "other labels stay");
        let proof = get(&settings(&[]), &service(&[])).unwrap();
        assert!(matches!(proof, Found::Absent));
    }
}

#[test]
fn of_several_with_the_label_none_is_deleted() {
    let mut project = Project::new();
    let own = project.put("shop", &label());
    let mislabelled = project.put("another", &label());
    let (_host, project) = serve(project);
    let request = DeleteRequest {
        service: service(&[]),
        hint: None,
    };
    let refused = delete(&request).unwrap_err();
    assert!(matches!(refused, Error::Invalid(_)), "{refused:?}");
    let both = format!("{own} and {mislabelled}");
    assert!(refused.message().contains(&both), "{refused:?}");
    assert_eq!(project.borrow().load_balancers.len(), 2);
    // A person takes the label off.
    let mut corrected = project.borrow().load_balancers[&mislabelled].clone();
    corrected["labels"] = json!({});
    project
        .borrow_mut()
        .load_balancers
        .insert(mislabelled, corrected);
    to_the_end(&service(&[]), false);
    let project = project.borrow();
    let left: Vec<&u64> = project.load_balancers.keys().collect();
    assert_eq!(left, [&mislabelled]);
}

#[test]
fn managed_certificates_go_and_uploaded_ones_stay() {
    // The failing request: the list, the load balancer, the certificates, the certificate.
    for trouble in [None, Some(0), Some(1), Some(2), Some(3)] {
        for forgetful in [false, true] {
            let mut project = Project::new();
            project.put("shop", &label());
            project.certificates = [
                (1, certificate(1, "managed", &[])),
                (2, certificate(2, "uploaded", &[])),
            ]
            .into();
            if let Some(number) = trouble {
                project
                    .trouble
                    .insert(number, Trouble::Refused(423, "locked"));
            }
            let (_host, project) = serve(project);
            to_the_end(&managed_service(), forgetful);
            let project = project.borrow();
            assert!(project.load_balancers.is_empty());
            let ids: Vec<&u64> = project.certificates.keys().collect();
            assert_eq!(ids, [&2], "{trouble:?} {forgetful}");
        }
    }
}

#[test]
fn certificates_are_not_asked_for_where_there_is_no_trace_of_any() {
    let mut project = Project::new();
    project.put("shop", &label());
    let (host, _project) = serve(project);
    to_the_end(&service(&[]), false);
    assert_eq!(host.requests().len(), 2);
}

#[test]
fn a_load_balancer_shows_that_there_may_be_a_certificate() {
    for labelled in [true, false] {
        let mut project = Project::new();
        let id = project.put("shop", &label());
        let found = project.load_balancers.get_mut(&id).unwrap();
        match labelled {
            true => found["labels"][certificates::ORDERED] = json!("true"),
            false => {
                found["services"] = json!([{"protocol": "https", "listen_port": 443,
                    "destination_port": 1, "http": {"certificates": [1]}}]);
            }
        }
        project.certificates = [(1, certificate(1, "managed", &[id]))].into();
        // When the certificates cannot be listed, only the hint still refers to them.
        project
            .trouble
            .insert(2, Trouble::Refused(500, "server_error"));
        let (_host, project) = serve(project);
        to_the_end(&service(&[]), false);
        assert!(project.borrow().certificates.is_empty());
    }
}

/// A load balancer with a managed certificate, and a Service whose annotations say nothing about one any more.
fn with_certificate() -> (Project, u64) {
    let mut project = Project::new();
    let id = project.put("shop", &label());
    let found = project.load_balancers.get_mut(&id).unwrap();
    found["labels"][certificates::ORDERED] = json!("true");
    project.certificates = [(1, certificate(1, "managed", &[]))].into();
    (project, id)
}

#[test]
fn a_certificate_goes_also_if_a_request_failed_after_its_load_balancer_went() {
    // The failing request: the load balancer, the certificates, the certificate.
    for (number, trouble) in [
        (1, Trouble::AnswerLost),
        (2, Trouble::AnswerLost),
        (3, Trouble::AnswerLost),
        (3, Trouble::Refused(500, "server_error")),
    ] {
        let (mut project, _) = with_certificate();
        project.trouble.insert(number, trouble);
        let (_host, project) = serve(project);
        to_the_end(&service(&[]), false);
        assert!(project.borrow().load_balancers.is_empty());
        assert!(project.borrow().certificates.is_empty(), "{number}");
    }
}

#[test]
fn a_certificate_of_a_protected_load_balancer_stays_with_it() {
    let (mut project, id) = with_certificate();
    project.certificates = [(1, certificate(1, "managed", &[id]))].into();
    let protected = project.load_balancers.get_mut(&id).unwrap();
    protected["protection"]["delete"] = json!(true);
    let (_host, project) = serve(project);
    let events = to_the_end(&service(&[]), false);
    let reasons: Vec<&str> = events.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons, ["LoadBalancerKept", "CertificateKept"]);
    assert_eq!(project.borrow().certificates.len(), 1);
}

#[test]
fn a_certificate_that_something_else_uses_stays_with_an_event() {
    let mut project = Project::new();
    project.certificates = [(1, certificate(1, "managed", &[7]))].into();
    let (_host, project) = serve(project);
    let events = to_the_end(&managed_service(), false);
    assert_eq!(events[0].reason, "CertificateKept");
    assert_eq!(project.borrow().certificates.len(), 1);
}

/// A restart between the deletion of the load balancer and that of its certificate loses the hint.
#[test]
fn a_user_that_nothing_else_shows_counts_at_the_second_look() {
    // The users at the second look, how many certificates stay, and the Events.
    type Row<'a> = (&'a [u64], usize, &'a [&'a str]);
    let table: [Row<'_>; 2] = [(&[], 0, &[]), (&[7], 1, &["CertificateKept"])];
    for (users, kept, expected) in table {
        let mut project = Project::new();
        project.certificates = [(1, certificate(1, "managed", &[7]))].into();
        let (_host, project) = serve(project);
        let ask = |hint| {
            let service = service(&[]);
            delete(&DeleteRequest { service, hint }).unwrap()
        };
        let first = ask(None);
        assert!(first.events.is_empty(), "{users:?}");
        let Progress::Pending(pending) = first.progress else {
            panic!("it is not looked at again");
        };
        assert_eq!(project.borrow().certificates.len(), 1);
        let then = certificate(1, "managed", users);
        project.borrow_mut().certificates.insert(1, then);
        let second = ask(pending.hint);
        assert!(matches!(second.progress, Progress::Done), "{users:?}");
        let reasons: Vec<&str> = second
            .events
            .iter()
            .map(|one| one.reason.as_str())
            .collect();
        assert_eq!(reasons, expected);
        assert_eq!(project.borrow().certificates.len(), kept, "{users:?}");
    }
}

#[test]
fn a_mistake_in_an_annotation_hides_nothing_and_keeps_nothing() {
    let mut project = Project::new();
    project.put("shop", &label());
    let (_host, project) = serve(project);
    let service = service(&[
        (annotations::IPV6_DISABLED, "perhaps"),
        (annotations::ALGORITHM_TYPE, "by taste"),
    ]);
    let settings = settings(&[]);
    let found = get(&settings, &service).unwrap();
    assert!(matches!(found, Found::Present(_)));
    to_the_end(&service, false);
    assert!(project.borrow().load_balancers.is_empty());
    assert!(matches!(get(&settings, &service), Ok(Found::Absent)));
}

#[test]
fn nothing_is_said_to_be_absent_by_an_answer_that_failed() {
    for trouble in [
        Trouble::AnswerLost,
        Trouble::Refused(404, "not_found"),
        Trouble::Refused(500, "server_error"),
    ] {
        let mut project = Project::new();
        project.trouble.insert(0, trouble);
        let (_host, _project) = serve(project);
        assert!(get(&settings(&[]), &service(&[])).is_err());
    }
}
