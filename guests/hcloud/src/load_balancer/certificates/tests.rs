//! Which requests find or order which certificates.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ccm_guest::testing::TestHost;
use serde_json::{Value, json};

use super::super::fixtures::UID;
use super::super::fixtures::project::{Project, Trouble};
use super::super::names;
use super::*;

const LOOK: &str = "GET /certificates";
const ORDER: &str = "POST /certificates";

fn certificate(id: u64, name: &str, owner: &str, issuance: &str) -> (u64, Value) {
    let error = json!({"code": "ca_dns_validation_failed", "message": "no such domain"});
    let one = json!({"id": id, "name": name, "type": "managed",
        "labels": {"hcloud-ccm/service-uid": owner},
        "status": {"issuance": issuance, "renewal": "scheduled", "error": error}});
    (id, one)
}

fn managed_request() -> Certificates {
    Certificates::Managed(ManagedCertificate {
        name: "shop".to_owned(),
        domains: vec!["example.com".to_owned(), "*.example.com".to_owned()],
        labels: names::labels(UID),
    })
}

fn serve(
    certificates: impl IntoIterator<Item = (u64, Value)>,
    polls: u32,
) -> (TestHost, Rc<RefCell<Project>>) {
    let mut project = Project::new();
    project.polls = polls;
    project.certificates = certificates.into_iter().collect();
    project.serve()
}

fn lines(host: &TestHost) -> Vec<String> {
    let seen = host.seen();
    seen.iter()
        .map(|one| format!("{} {}", one.method, one.path_only()))
        .collect()
}

#[test]
fn ids_cost_nothing_and_names_one_look_each() {
    let requested = Certificates::Uploaded(vec![
        wanted::Certificate::Id(5),
        wanted::Certificate::Name("shop".to_owned()),
    ]);
    let (host, _project) = serve([certificate(7, "shop", "other", "completed")], 0);
    let found = find(&requested, UID, &mut Vec::new()).unwrap();
    assert_eq!(found, Found::Ids(Some(vec![5, 7])));
    assert_eq!(host.requests(), ["GET /certificates?name=shop"]);
    let none = find(&Certificates::None, UID, &mut Vec::new()).unwrap();
    assert_eq!(none, Found::Ids(None));
    assert_eq!(host.requests().len(), 1);
}

#[test]
fn one_that_is_not_there_is_named() {
    let requested = Certificates::Uploaded(vec![wanted::Certificate::Name("shop".to_owned())]);
    let (_host, _project) = serve([], 0);
    let error = find(&requested, UID, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert!(error.message().contains("shop"));
}

#[test]
fn a_managed_one_is_ordered_once_and_then_found_by_its_label() {
    let (host, _project) = serve([], 1);
    let first = find(&managed_request(), UID, &mut Vec::new()).unwrap();
    assert_eq!(first, Found::Making(Some(102)));
    let body: Value = serde_json::from_slice(&host.seen()[1].body).unwrap();
    assert_eq!(
        body,
        json!({"name": "shop", "type": "managed", "domain_names": ["example.com", "*.example.com"],
            "labels": {"hcloud-ccm/service-uid": UID}})
    );
    let again = find(&managed_request(), UID, &mut Vec::new()).unwrap();
    assert_eq!(again, Found::Ids(Some(vec![101])));
    assert_eq!(lines(&host), [LOOK, ORDER, LOOK]);
}

#[test]
fn how_far_it_is_decides_whether_it_is_used() {
    let table = [
        ("pending", Found::Making(None), 0),
        ("completed", Found::Ids(Some(vec![7])), 0),
        ("failed", Found::Ids(Some(vec![7])), 1),
    ];
    for (issuance, expected, events) in table {
        let (_host, _project) = serve([certificate(7, "any", UID, issuance)], 0);
        let mut reported = Vec::new();
        assert_eq!(
            find(&managed_request(), UID, &mut reported).unwrap(),
            expected
        );
        assert_eq!(reported.len(), events, "{issuance}");
    }
}

#[test]
fn a_name_that_is_taken_is_fine_only_if_it_is_ours() {
    let (host, project) = serve([certificate(7, "shop", "other", "completed")], 0);
    let before = project.borrow().certificates.clone();
    let error = find(&managed_request(), UID, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert_eq!(project.borrow().certificates, before);
    assert_eq!(lines(&host), [LOOK, ORDER, LOOK]);
    drop(host);
    // The Service's own certificate, created by a request whose answer was lost, and not in the list yet.
    let mut project = Project::new();
    project.trouble = BTreeMap::from([(1, Trouble::AnswerLost)]);
    let (_host, _project) = project.serve();
    assert!(find(&managed_request(), UID, &mut Vec::new()).is_err());
    let again = find(&managed_request(), UID, &mut Vec::new()).unwrap();
    assert_eq!(again, Found::Ids(Some(vec![101])));
}

#[test]
fn two_with_one_label_are_named() {
    let (host, _project) = serve(
        [
            certificate(7, "one", UID, "completed"),
            certificate(8, "two", UID, "completed"),
        ],
        0,
    );
    let error = find(&managed_request(), UID, &mut Vec::new()).unwrap_err();
    let both = "certificate 7 and certificate 8";
    assert!(error.message().contains(both), "{error:?}");
    assert_eq!(lines(&host), [LOOK]);
}
