//! The permit is asked before every request, and learns the end of every change.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::safety::permit::{Mode, Permit};
use ccm_core::safety::tenure::Tenure;
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::http_server::{Reply, Server, answer, ok};
use ccm_host::egress::{Egress, EgressLimits, FetchError, now};
use http::Method;
use serde_json::json;
use tokio::time::Instant;

use crate::world::{
    SOON, egress, error, eventually, expired, generous, get, granted, permit, plain,
};

#[tokio::test]
async fn a_refused_request_makes_no_connection() {
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let audit = Arc::new(RecordingAudit::default());
    let tenure = Arc::new(Tenure::unlimited());
    tenure.end();
    let until = now().after(SOON);
    let revoked = Arc::new(Permit::new(until, Mode::Enforce, 9, tenure, audit.clone()));
    let write = || plain(Method::DELETE, "/load_balancers/1");
    for (permit, request, word) in [
        (permit(Mode::Plan, 9, &audit), write(), "plan"),
        (permit(Mode::Observe, 9, &audit), write(), "observe"),
        (
            permit(Mode::Enforce, 0, &audit),
            write(),
            "may change nothing",
        ),
        (expired(&audit), write(), "expired"),
        (expired(&audit), get("/servers"), "expired"),
        (revoked.clone(), write(), "revoked"),
        (revoked, get("/servers"), "revoked"),
    ] {
        let scope = egress.scope(permit, Instant::now() + SOON, false);
        let text = format!("{} {}", request.method, request.path);
        match error(scope.fetch(request).await) {
            FetchError::Denied(denied) => {
                assert!(denied.contains(word) && denied.contains(&text), "{denied}")
            }
            failed => panic!("{word}: {failed}"),
        }
        assert!(!scope.complete());
    }
    assert_eq!(server.connections(), 0);
    assert!(
        audit
            .lines()
            .iter()
            .all(|line| line.starts_with("refused test/api ")),
        "{:?}",
        audit.lines()
    );
    assert_eq!(audit.lines().len(), 7);
}

#[tokio::test]
async fn every_change_is_announced_and_its_end_reported_and_reads_are_not() {
    let server = Server::start(|request| {
        if request.line.starts_with("DELETE") {
            Reply::Close(Vec::new())
        } else {
            answer(201, &[], "")
        }
    })
    .await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let audit = Arc::new(RecordingAudit::default());
    let permit = permit(Mode::Enforce, 3, &audit);
    let scope = egress.scope(permit.clone(), Instant::now() + SOON, false);
    scope.fetch(get("/servers")).await.unwrap();
    scope.fetch(plain(Method::POST, "/servers")).await.unwrap();
    error(
        scope
            .fetch(plain(Method::DELETE, "/load_balancers/a%20b"))
            .await,
    );
    scope
        .fetch(plain(Method::GET, "/load_balancers/1"))
        .await
        .unwrap();
    error(scope.fetch(plain(Method::PUT, "/load_balancers/1")).await);
    assert_eq!(
        audit.lines(),
        [
            "before test/api POST /servers",
            "after test POST /servers 201",
            "before test/api DELETE /load_balancers/a%20b",
            "after test DELETE /load_balancers/{id} Unknown",
            "before test/api GET /load_balancers/1",
            "after test GET /load_balancers/{id} 201",
            "refused test/api PUT /load_balancers/1 Budget(3)",
        ]
    );
    assert_eq!(permit.mutations_made(), 3);
    assert_eq!(server.lines().len(), 4);
}

#[tokio::test]
async fn the_end_of_an_abandoned_change_is_reported() {
    let server = Server::start(|_| Reply::Silence).await;
    let egress = egress(&format!("http://{}", server.address));
    let audit = Arc::new(RecordingAudit::default());
    let scope = egress.scope(
        permit(Mode::Enforce, 3, &audit),
        Instant::now() + SOON,
        false,
    );
    let fetch = tokio::spawn(async move { scope.fetch(plain(Method::POST, "/servers")).await });
    eventually("the request arrives", || server.lines().len() == 1).await;
    fetch.abort();
    eventually("the permit hears", || audit.lines().len() == 2).await;
    assert_eq!(audit.lines()[1], "after test POST /servers Unknown");
}

#[tokio::test]
async fn a_request_ends_with_its_permit_and_with_its_call() {
    let server = Server::start(|_| Reply::Silence).await;
    let egress = egress(&format!("http://{}", server.address));
    let short = Duration::from_secs(1);
    let until = now().after(short);
    let brief = Arc::new(Permit::new(
        until,
        Mode::Enforce,
        9,
        Arc::new(Tenure::unlimited()),
        Arc::new(RecordingAudit::default()),
    ));
    let by_permit = egress.scope(brief, Instant::now() + SOON * 100, false);
    assert!(matches!(
        error(by_permit.fetch(get("/servers")).await),
        FetchError::TimedOut(_)
    ));
    let by_call = egress.scope(
        permit(Mode::Enforce, 9, &Arc::default()),
        Instant::now() + short,
        false,
    );
    assert!(matches!(
        error(by_call.fetch(get("/servers")).await),
        FetchError::TimedOut(_)
    ));
    let before = server.connections();
    assert!(
        matches!(
            error(by_call.fetch(get("/servers")).await),
            FetchError::TimedOut(_)
        ),
        "the call is over"
    );
    assert_eq!(server.connections(), before);
}

#[tokio::test]
async fn a_permit_that_is_revoked_between_two_requests_stops_the_second() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}", server.address));
    let tenure = Arc::new(Tenure::unlimited());
    let permit = Permit::new(
        now().after(SOON),
        Mode::Enforce,
        9,
        tenure.clone(),
        Arc::new(RecordingAudit::default()),
    );
    let scope = egress.scope(Arc::new(permit), Instant::now() + SOON, false);
    scope.fetch(get("/servers")).await.unwrap();
    tenure.end();
    assert!(matches!(
        error(scope.fetch(get("/servers")).await),
        FetchError::Denied(_)
    ));
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn changes_side_by_side_share_one_budget() {
    let server = Server::start(|_| Reply::After(Duration::from_millis(20), Box::new(ok("")))).await;
    let egress = egress(&format!("http://{}", server.address));
    let audit = Arc::new(RecordingAudit::default());
    let permit = permit(Mode::Enforce, 3, &audit);
    let scope = egress.scope(permit.clone(), Instant::now() + SOON, false);
    let ends = scope
        .fetch_all(vec![plain(Method::POST, "/servers"); 16])
        .await;
    let refused = ends.iter().filter_map(|end| end.as_ref().err());
    let texts: Vec<_> = refused.map(ToString::to_string).collect();
    assert_eq!(texts.len(), 13);
    for text in texts {
        assert!(
            text.contains("POST /servers on target api: ") && text.contains("all 3 changes"),
            "{text}"
        );
    }
    assert_eq!((server.lines().len(), permit.mutations_made()), (3, 3));
}

#[tokio::test]
async fn what_the_operator_calls_a_change_is_one_under_any_line() {
    let server = Server::start(|_| ok("")).await;
    let endpoint = format!("http://{}", server.address);
    // The module requests the wide line only, which reads.
    let narrow = json!({ "methods": ["GET"], "path": "/servers/reboot", "access": "write" });
    let granted = granted(&[("api", &endpoint)], |grants| {
        let rule = serde_json::from_value(narrow).unwrap();
        grants.targets[0].rules.push(rule);
    });
    let limits = EgressLimits::standard();
    let egress = Arc::new(Egress::new("test", &granted, limits).unwrap());
    let audit = Arc::new(RecordingAudit::default());
    let reading = egress.scope(
        permit(Mode::Enforce, 0, &audit),
        Instant::now() + SOON,
        false,
    );
    reading.fetch(get("/servers/1")).await.unwrap();
    let text = error(reading.fetch(get("/servers/reboot")).await).to_string();
    assert!(text.contains("may change nothing"), "{text}");
    let changing = egress.scope(generous(), Instant::now() + SOON, false);
    changing.fetch(get("/servers/reboot")).await.unwrap();
    assert_eq!(server.lines(), ["GET /servers/1", "GET /servers/reboot"]);
}
