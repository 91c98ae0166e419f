//! Every change has one audit record, which contains nothing of what was sent.

use std::sync::Arc;

use bytes::Bytes;
use ccm_core::reconciliation::effect::ObjectKind;
use ccm_core::safety::audit::{Act, AuditRecord, End, Subject};
use ccm_core::safety::brake::{Allowance, Brake, BudgetShare, SharedBudget};
use ccm_core::safety::permit::{Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::http_server::{Reply, Server, answer, ok};
use ccm_host::egress::{Egress, EgressLimits, FetchError, FetchRequest, now};
use ccm_host::manifest::Contract;
use http::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::world::{
    CANARY, SOON, egress, error, eventually, get, granted, permit, plain, post_form,
};

const BODY: &str = "canary-of-the-body";
const QUERY: &str = "canary-of-the-query";
const HEADER: &str = "canary-of-a-header";
const PATH: &str = "canary-of-the-path";
const ANSWER: &str = "canary-of-the-answer";

/// A change with a canary in every part that can hold one.
fn request_with_secrets() -> FetchRequest {
    FetchRequest {
        query: vec![("name".to_owned(), QUERY.to_owned())],
        headers: vec![("x-note".to_owned(), HEADER.to_owned())],
        body: Some(Bytes::from_static(BODY.as_bytes())),
        ..plain(Method::PUT, &format!("/load_balancers/{PATH}"))
    }
}

#[tokio::test]
async fn a_record_names_the_rule_the_host_and_the_module_and_holds_nothing_that_was_sent_or_answered()
 {
    let server = Server::start(|_| {
        let headers = [
            ("x-note", ANSWER),
            ("x-correlation-id", "second"),
            ("X-Request-Id", "r-7 \"{}\t\\"),
        ];
        answer(201, &headers, ANSWER)
    })
    .await;
    let endpoint = format!("http://{}/v1", server.address);
    let granted = granted(&[("api", &endpoint)], |_| ());
    let egress = Egress::new("test", &granted, EgressLimits::standard()).unwrap();
    let egress = egress.of_module("sha256:77".to_owned(), "1.2.3", Contract::V0_2);
    let egress = Arc::new(egress);
    let audit = Arc::new(RecordingAudit::default());
    let tenure = Arc::new(Tenure::unlimited());
    let permit = Permit::new(now().after(SOON), Mode::Enforce, 9, tenure, audit.clone());
    let permit = permit.about(Subject {
        kind: Some(ObjectKind::Service),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
        uid: "u-1".to_owned(),
        reason: "a target is missing".to_owned(),
    });
    let scope = egress.scope(Arc::new(permit), Instant::now() + SOON, false);
    scope.fetch(request_with_secrets()).await.unwrap();

    let written = audit.written();
    assert_eq!(written.len(), 1);
    for canary in [BODY, QUERY, HEADER, PATH, ANSWER, CANARY] {
        assert!(!written[0].contains(canary), "{canary}: {}", written[0]);
    }
    let record: Value = serde_json::from_str(&written[0]).unwrap();
    for (pointer, expected) in [
        ("/method", "PUT"),
        ("/path", "/load_balancers/{id}"),
        ("/host", server.address.to_string().as_str()),
        ("/provider/name", "test"),
        ("/provider/digest", "sha256:77"),
        ("/object/name", "web"),
        ("/reason", "a target is missing"),
        ("/outcome", "answered"),
        ("/requestId", "r-7??????"),
    ] {
        let found = record.pointer(pointer).unwrap_or(&Value::Null);
        assert_eq!(found, expected, "{pointer} of {record}");
    }
    assert_eq!(record["status"], 201);
}

#[tokio::test]
async fn the_fingerprint_is_that_of_method_url_and_body_and_not_of_headers() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let audit = Arc::new(RecordingAudit::default());
    let permit = permit(Mode::Enforce, 9, &audit);
    let scope = egress.scope(permit, Instant::now() + SOON, false);
    let other_header = FetchRequest {
        headers: Vec::new(),
        ..request_with_secrets()
    };
    let other_query = FetchRequest {
        query: Vec::new(),
        ..request_with_secrets()
    };
    let other_body = FetchRequest {
        body: None,
        ..request_with_secrets()
    };
    for request in [
        request_with_secrets(),
        other_header,
        other_query,
        other_body,
    ] {
        scope.fetch(request).await.unwrap();
    }
    let url = format!(
        "http://{}/v1/load_balancers/{PATH}?name={QUERY}",
        server.address
    );
    let mut hash = Sha256::new();
    for part in ["PUT", &url, BODY] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let expected = hex::encode(hash.finalize());
    let found: Vec<_> = audit.records().iter().map(fingerprint).collect();
    assert_eq!(found[0], expected);
    assert_eq!(found[1], expected, "headers are no part of it");
    assert!(found[2] != expected && found[3] != expected && found[2] != found[3]);
}

fn fingerprint(record: &AuditRecord) -> String {
    match &record.act {
        Act::CloudMutation { sha256, .. } => sha256.clone(),
        Act::NodeDeletion => unreachable!("the egress deletes no node"),
    }
}

/// The changes that arrived, as the pattern of their rule.
fn arrived(server: &Server) -> Vec<String> {
    let pattern = |line: &String| {
        let (method, path) = line.split_once(' ').unwrap();
        let path = path.split([' ', '?']).next().unwrap();
        let path = path.strip_prefix("/v1").unwrap();
        match path.strip_prefix("/load_balancers/") {
            Some(_) => Some(format!("{method} /load_balancers/{{id}}")),
            None if method == "GET" => None,
            // The only form in this test that is a change.
            None if path == "/" => Some(format!("{method} / Action=Create")),
            None => Some(format!("{method} {path}")),
        }
    };
    let mut found: Vec<_> = server.lines().iter().filter_map(pattern).collect();
    found.sort();
    found
}

#[tokio::test]
async fn what_the_cloud_saw_change_and_what_was_recorded_are_the_same_one_to_one() {
    let server = Server::start(|request| {
        let line = &request.line;
        if line.starts_with("DELETE") {
            return Reply::Close(Vec::new());
        }
        if line.contains("/load_balancers/3") {
            return Reply::Silence;
        }
        match line.len() % 3 {
            0 => answer(503, &[], "{}"),
            1 => answer(404, &[], "{}"),
            _ => ok("{}"),
        }
    })
    .await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let audit = Arc::new(RecordingAudit::default());
    let permit = permit(Mode::Enforce, 25, &audit);
    let scope = egress.scope(permit.clone(), Instant::now() + SOON, false);
    let mut calls = tokio::task::JoinSet::new();
    for index in 0..10 {
        for request in [
            get("/servers"),
            plain(Method::POST, "/servers"),
            post_form("Action=Create&Name=x"),
            plain(Method::DELETE, &format!("/load_balancers/{index}")),
            plain(Method::PUT, &format!("/load_balancers/{index}")),
            // Not granted, so it is neither sent nor recorded.
            plain(Method::DELETE, "/servers"),
        ] {
            let scope = scope.clone();
            calls.spawn(async move { scope.fetch(request).await.is_ok() });
        }
    }
    // One change is never answered, and is cancelled when all others have ended.
    eventually("all but one have ended", || {
        while calls.try_join_next().is_some() {}
        calls.len() <= 1
    })
    .await;
    calls.shutdown().await;
    drop(scope);
    let mut recorded: Vec<_> = audit
        .records()
        .iter()
        .map(|record| match &record.act {
            Act::CloudMutation { method, path, .. } => format!("{method} {path}"),
            Act::NodeDeletion => unreachable!("the egress deletes no node"),
        })
        .collect();
    recorded.sort();
    assert_eq!(recorded, arrived(&server));
    assert_eq!(recorded.len(), 25, "the permit has room for no more");
    assert_eq!(permit.mutations_made(), 25);
    let unknown = audit.records();
    let unknown = unknown.iter().filter(|record| record.end == End::Unknown);
    assert!(unknown.count() > 0, "some had no answer");
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_sent() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let audit = Arc::new(RecordingAudit::broken());
    let permit = permit(Mode::Enforce, 9, &audit);
    let scope = egress.scope(permit, Instant::now() + SOON, false);
    let refused = error(scope.fetch(plain(Method::POST, "/servers")).await);
    assert!(matches!(&refused, FetchError::Denied(text) if text.contains("audit log")));
    assert_eq!(server.connections(), 0);
    scope.fetch(get("/servers")).await.unwrap();
    assert!(audit.records().is_empty(), "nothing was allowed");
}

#[tokio::test]
async fn an_engaged_brake_asks_the_guest_for_patience_and_sends_nothing() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let allowance = Allowance {
        least: 1,
        most: 1,
        ..Allowance::default_of(Brake::CloudMutations)
    };
    let budget = Arc::new(SharedBudget::new(Brake::CloudMutations, allowance, || 0));
    let audit = Arc::new(RecordingAudit::default());
    let call = || {
        let tenure = Arc::new(Tenure::unlimited());
        let permit = Permit::new(now().after(SOON), Mode::Enforce, 9, tenure, audit.clone());
        let permit = Arc::new(permit.sharing(budget.clone(), BudgetShare::Common));
        egress.scope(permit, Instant::now() + SOON, false)
    };
    let change = || plain(Method::POST, "/servers");
    call().fetch(change()).await.unwrap();
    match error(call().fetch(change()).await) {
        FetchError::Throttled(ms) => assert!((500_000..=600_000).contains(&ms), "{ms} ms"),
        other => panic!("{other}"),
    }
    assert_eq!(server.lines().len(), 1);
    assert_eq!(audit.records().len(), 1);
    assert_eq!(audit.records()[0].brake.unwrap().level.taken, 1);
}

#[tokio::test]
async fn what_a_module_tries_and_is_not_granted_is_told() {
    let server = Server::start(|_| ok("")).await;
    let audit = Arc::new(RecordingAudit::default());
    let egress = egress(&format!("http://{}", server.address));
    let scope = egress.scope(
        permit(Mode::Enforce, 9, &audit),
        Instant::now() + SOON,
        false,
    );
    scope.fetch(get("/servers")).await.unwrap();
    assert_eq!(audit.attempts(), [Value::Null; 0]);
    let asked = |headers: &[(&str, &str)], request: FetchRequest| FetchRequest {
        headers: headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
        query: vec![("name".to_owned(), QUERY.to_owned())],
        ..request
    };
    let other = FetchRequest {
        target: format!("{CANARY}\u{202e}"),
        ..get("/servers")
    };
    for (request, target, method, outcome, word) in [
        (
            asked(&[], get("/ssh_keys")),
            "api",
            "GET",
            "denied",
            "/ssh_keys",
        ),
        (
            asked(&[], plain(Method::DELETE, "/servers/1")),
            "api",
            "DELETE",
            "denied",
            "/servers/1",
        ),
        (
            asked(&[("range", HEADER)], get("/servers")),
            "api",
            "GET",
            "invalid",
            "range",
        ),
        (
            other,
            "[redacted]\\u{202e}",
            "GET",
            "denied",
            "no such target",
        ),
    ] {
        error(scope.fetch(request).await);
        let attempt = audit.attempts().pop().unwrap();
        let field = |name: &str| attempt[name].as_str().unwrap().to_owned();
        assert_eq!(field("kind"), "refused");
        assert_eq!(attempt["provider"]["name"], "test");
        assert_eq!(
            (field("target").as_str(), field("method").as_str()),
            (target, method)
        );
        assert_eq!(field("outcome"), outcome);
        assert!(field("refusal").contains(word), "{attempt}");
        for canary in [QUERY, HEADER, CANARY] {
            assert!(!attempt.to_string().contains(canary), "{attempt}");
        }
    }
    assert_eq!((audit.attempts().len(), audit.records().len()), (4, 0));
}
