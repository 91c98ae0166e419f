//! Two providers, or two versions of one grant, share no connections, answers or cookies.

use std::sync::Arc;

use ccm_fixtures::http_server::{Server, answer};
use ccm_host::egress::{Egress, EgressLimits, FetchError};
use ccm_host::manifest::Manifest;
use http::Method;
use serde_json::json;

use crate::world::{egress, error, eventually, fresh, get, get_kept, plain, scope};

/// The egress of a provider that may read servers.
fn reading(url: &str) -> Arc<Egress> {
    let rule = json!({ "methods": ["GET"], "path": "/servers", "access": "read" });
    let target = json!({ "name": "api", "endpoint": url, "auth": "none", "rules": [rule] });
    let manifest = json!({
        "contract": "0.2.0", "name": "test", "version": "2", "targets": [target],
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let mut grants = manifest.as_grants();
    grants.targets[0].endpoint = url.parse().unwrap();
    let granted = manifest.narrow(grants).unwrap();
    Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap())
}

/// A server that sends a cookie with each answer.
async fn server() -> Server {
    Server::start(|_| answer(200, &[("set-cookie", "session=1; path=/")], "{}")).await
}

#[tokio::test]
async fn d22_a_connection_of_one_provider_is_never_used_for_another() {
    let server = server().await;
    let url = format!("http://{}", server.address);
    let (one, other) = (egress(&url), egress(&url));
    for _ in 0..3 {
        for egress in [&one, &other] {
            scope(egress).fetch(get("/servers")).await.unwrap();
        }
    }
    // Each egress has a connection of its own, and reuses it.
    assert_eq!((server.connections(), server.lines().len()), (2, 6));
}

#[tokio::test]
async fn d28_neither_answers_nor_cookies_are_anybody_elses() {
    let server = server().await;
    let url = format!("http://{}", server.address);
    let (one, other) = (egress(&url), egress(&url));
    for _ in 0..3 {
        for egress in [&one, &other] {
            scope(egress).fetch(get_kept("/servers")).await.unwrap();
        }
    }
    assert_eq!(server.lines().len(), 2, "each asked once");
    for egress in [&one, &other] {
        fresh(egress).fetch(get("/servers/1")).await.unwrap();
    }
    for arrived in server.arrived() {
        assert_eq!(arrived.header("cookie"), "");
    }
}

#[tokio::test]
async fn d23_what_was_granted_before_ends_with_its_connections() {
    let server = server().await;
    let url = format!("http://{}", server.address);
    let wide = egress(&url);
    let change = || plain(Method::POST, "/servers");
    scope(&wide).fetch(change()).await.unwrap();
    // The operator's next grant is for reading only.
    let narrow = reading(&url);
    assert_eq!((server.connections(), server.closed()), (1, 0));
    drop(wide);
    eventually("the connection is closed", || server.closed() == 1).await;
    let refused = error(scope(&narrow).fetch(change()).await);
    assert!(matches!(refused, FetchError::Denied(_)), "{refused}");
    assert_eq!(server.connections(), 1);
    scope(&narrow).fetch(get("/servers")).await.unwrap();
    assert_eq!((server.connections(), server.lines().len()), (2, 2));
}
