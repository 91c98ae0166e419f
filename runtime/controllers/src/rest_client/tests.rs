//! The client-side limit, and the metrics of one request.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tower::{ServiceExt as _, service_fn};

use super::rate_limit::{Bucket, Turn};
use super::{RateLimit, RestClients};
use crate::metrics::tests::encoded;

#[tokio::test]
async fn a_bucket_gives_its_burst_at_once_and_then_one_token_after_the_other() {
    let bucket = Arc::new(Bucket::new(RateLimit::new(10.0, 3).unwrap()));
    let start = Instant::now();
    let mut waits = Vec::new();
    for after in [0, 0, 0, 0, 0, 200, 1_000_000] {
        let turn = bucket.take(start + Duration::from_millis(after));
        waits.push(turn.wait.as_millis());
        turn.used();
    }
    assert_eq!(waits, [0, 0, 0, 100, 200, 100, 0]);
}

#[test]
fn zero_is_client_gos_default_and_less_is_no_limit() {
    assert_eq!(RateLimit::new(0.0, 0), RateLimit::new(5.0, 10));
    assert_eq!(RateLimit::new(-1.0, 10), None);
    assert_eq!(RateLimit::new(f32::NAN, 10), None);
}

async fn send(clients: &RestClients, requests: &[(&str, &str)]) {
    let service = clients.around(
        &"https://user:secret@10.0.0.1:6443/base".parse().unwrap(),
        service_fn(
            async |request: Request<Full<Bytes>>| match request.uri().path() {
                "/fails" => Err("no connection"),
                "/hangs" => std::future::pending().await,
                _ => Ok::<_, &str>(Response::new(Full::new(Bytes::from_static(b"0123456789")))),
            },
        ),
    );
    for (method, uri) in requests {
        let request = Request::builder().method(*method).uri(*uri);
        let request = request
            .body(Full::new(Bytes::from_static(b"body")))
            .unwrap();
        if let Ok(answer) = service.clone().oneshot(request).await {
            let body: Result<_, Infallible> = answer.into_body().collect().await;
            body.unwrap();
        }
    }
}

#[tokio::test]
async fn requests_are_counted_by_code_and_verb_and_watches_have_no_duration() {
    let mut registry = Registry::default();
    let clients = RestClients::register(&mut registry, None);
    let requests = [
        ("GET", "/api/v1/nodes?limit=500"),
        ("GET", "/api/v1/nodes?allowWatchBookmarks=true&watch=true"),
        ("PATCH", "/fails"),
        ("A-VERB-OF-NOBODY", "/"),
    ];
    send(&clients, &requests).await;
    let text = encoded(&registry);
    let host = "host=\"10.0.0.1:6443\"";
    for line in [
        &*format!("rest_client_requests_total{{code=\"200\",method=\"GET\",{host}}} 2"),
        &format!("rest_client_requests_total{{code=\"<error>\",method=\"PATCH\",{host}}} 1"),
        &format!("rest_client_requests_total{{code=\"200\",method=\"other\",{host}}} 1"),
        &format!("rest_client_request_duration_seconds_count{{verb=\"GET\",{host}}} 1"),
        &format!("rest_client_request_size_bytes_sum{{verb=\"GET\",{host}}} 4.0"),
        &format!("rest_client_response_size_bytes_sum{{verb=\"GET\",{host}}} 10.0"),
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    assert!(!text.contains("limiter_duration_seconds_count"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn proc_032_the_limit_is_each_clients_own_and_its_waits_are_counted() {
    let mut registry = Registry::default();
    let clients = RestClients::register(&mut registry, RateLimit::new(1.0, 2));
    let start = Instant::now();
    let requests = [("GET", "/"); 5];
    // Two clients, each with two requests at once and three that wait.
    tokio::join!(send(&clients, &requests), send(&clients, &requests));
    assert_eq!(start.elapsed().as_secs(), 3);
    let watches = [("GET", "/?watch=true"); 100];
    send(&clients, &watches).await;
    assert_eq!(start.elapsed().as_secs(), 3, "watches do not wait");
    send(&clients.without_limit(), &[("PUT", "/"); 5]).await;
    assert_eq!(start.elapsed().as_secs(), 3, "there is no limit");
    let text = encoded(&registry);
    let labels = "verb=\"GET\",host=\"10.0.0.1:6443\"";
    for line in [
        &*format!("rest_client_rate_limiter_duration_seconds_count{{{labels}}} 10"),
        &format!("rest_client_rate_limiter_duration_seconds_bucket{{le=\"0.005\",{labels}}} 4"),
        "rest_client_requests_total{code=\"200\",method=\"PUT\",host=\"10.0.0.1:6443\"} 5",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}

/// As in client-go: what gives up waiting returns its place.
#[tokio::test]
async fn proc_032_requests_that_give_up_waiting_hold_nobody_up() {
    let bucket = Arc::new(Bucket::new(RateLimit::new(1.0, 1).unwrap()));
    let now = Instant::now();
    bucket.take(now).used();
    let waiting: Vec<Turn> = (0..100).map(|_| bucket.take(now)).collect();
    assert_eq!(waiting.last().unwrap().wait.as_secs(), 100);
    drop(waiting);
    assert_eq!(bucket.take(now).wait.as_secs(), 1);
}

/// Such as one to an API server that has accepted the connection and says nothing: an alert counts these.
#[tokio::test(start_paused = true)]
async fn a_request_that_its_sender_gives_up_is_counted_as_unanswered() {
    let mut registry = Registry::default();
    let clients = RestClients::register(&mut registry, None);
    let requests = [("GET", "/hangs")];
    let sent = send(&clients, &requests);
    let given_up = tokio::time::timeout(Duration::from_secs(10), sent).await;
    assert!(given_up.is_err());
    let text = encoded(&registry);
    let host = "host=\"10.0.0.1:6443\"";
    for line in [
        &*format!("rest_client_requests_total{{code=\"<error>\",method=\"GET\",{host}}} 1"),
        &format!("rest_client_request_duration_seconds_sum{{verb=\"GET\",{host}}} 10.0"),
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}
