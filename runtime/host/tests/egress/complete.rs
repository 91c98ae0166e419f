//! Whether a call's answers may prove absence, and what is recorded of it.

use std::sync::Arc;

use ccm_host::egress::{Egress, EgressLimits, ExchangeEnd, FetchRequest};
use ccm_host::manifest::Granted;
use http::Method;

use crate::server::{Reply, Server, answer};
use crate::world::{counts, egress, error, get, get_kept, plain, scope};

/// Answers with the status that is the last segment of the path; 200 for lists.
async fn server() -> Server {
    Server::start(|request| {
        let last = request.line.rsplit('/').next().unwrap();
        match last.parse() {
            Ok(0) => Reply::Close(Vec::new()),
            Ok(status) => answer(status, &[], ""),
            Err(_) => answer(200, &[], ""),
        }
    })
    .await
}

#[tokio::test]
async fn only_complete_answers_prove_absence() {
    let server = server().await;
    let egress = egress(&format!("http://{}", server.address));
    for (paths, expected) in [
        (&["/servers"][..], true),
        (&["/servers/200", "/servers/204"], true),
        (&["/servers", "/servers/404"], true),
        (&[], false),
        (&["/servers/404"], false),
        (&["/servers", "/servers/500"], false),
        (&["/servers", "/servers/401"], false),
        (&["/servers", "/servers/403"], false),
        (&["/servers", "/servers/410"], false),
        (&["/servers", "/servers/302"], false),
        (&["/servers", "/servers/0"], false),
        (&["/servers", "/nowhere"], false),
        (&["/servers", "/servers/.."], false),
    ] {
        let scope = scope(&egress);
        for path in paths {
            let _ = scope.fetch(get(path)).await;
        }
        assert_eq!(
            scope.complete(),
            expected,
            "{paths:?}: {:?}",
            scope.exchanges()
        );
    }
}

#[tokio::test]
async fn not_found_proves_nothing_where_a_path_names_no_object() {
    let server = Server::start(|request| {
        answer(
            if request.line == "GET /servers" {
                404
            } else {
                200
            },
            &[],
            "",
        )
    })
    .await;
    let egress = egress(&format!("http://{}", server.address));
    let scope = scope(&egress);
    scope.fetch(get("/servers/1")).await.unwrap();
    assert!(scope.complete());
    scope.fetch(get("/servers")).await.unwrap();
    assert!(!scope.complete());
}

#[tokio::test]
async fn a_kept_answer_is_no_answer_of_this_call() {
    let server = server().await;
    let egress = egress(&format!("http://{}", server.address));
    scope(&egress).fetch(get_kept("/servers")).await.unwrap();
    let scope = scope(&egress);
    scope.fetch(get_kept("/servers")).await.unwrap();
    assert!(!scope.complete());
    scope.fetch(get("/servers/200")).await.unwrap();
    assert!(scope.complete());
}

#[tokio::test]
async fn a_provider_without_network_is_complete_until_it_asks() {
    let nothing = Granted {
        targets: Vec::new(),
        annotation_prefixes: Vec::new(),
        withheld: Vec::new(),
        warnings: Vec::new(),
    };
    let egress = Arc::new(Egress::new("static", &nothing, EgressLimits::standard()).unwrap());
    let scope = scope(&egress);
    assert!(scope.complete());
    error(scope.fetch(get("/servers")).await);
    assert!(!scope.complete());
}

#[tokio::test]
async fn exchanges_and_counts_tell_what_happened() {
    let server = server().await;
    let egress = egress(&format!("http://{}", server.address));
    let scope = scope(&egress);
    for request in [
        get("/servers/200"),
        get_kept("/servers"),
        get_kept("/servers"),
        get("/servers/404"),
        get("/servers/500"),
        get("/servers/0"),
        get("/x"),
        get("x"),
    ] {
        let _ = scope.fetch(request).await;
    }
    let _ = scope
        .fetch(plain(Method::DELETE, "/load_balancers/204"))
        .await;
    let told: Vec<_> = scope
        .exchanges()
        .iter()
        .map(|exchange| (exchange.template.clone(), exchange.end, exchange.kept))
        .collect();
    let one = || Some("/servers/{id}".to_owned());
    let list = || Some("/servers".to_owned());
    assert_eq!(
        told,
        [
            (one(), ExchangeEnd::Answered(200), false),
            (list(), ExchangeEnd::Answered(200), false),
            (list(), ExchangeEnd::Answered(200), true),
            (one(), ExchangeEnd::Answered(404), false),
            (one(), ExchangeEnd::Answered(500), false),
            (one(), ExchangeEnd::Failed("unavailable"), false),
            (None, ExchangeEnd::Failed("denied"), false),
            (None, ExchangeEnd::Failed("invalid"), false),
            (
                Some("/load_balancers/{id}".to_owned()),
                ExchangeEnd::Answered(204),
                false
            ),
        ]
    );
    assert_eq!(
        counts(&egress),
        [
            "api DELETE 204 1",
            "api GET 200 2",
            "api GET 404 1",
            "api GET 500 1",
            "api GET denied 1",
            "api GET invalid 1",
            "api GET kept 1",
            "api GET unavailable 1",
        ]
    );
}

/// Counts become series of metrics.
#[tokio::test]
async fn h8_what_a_guest_names_makes_no_new_counts() {
    let server = server().await;
    let egress = egress(&format!("http://{}", server.address));
    for number in 0..300 {
        let scope = scope(&egress);
        let elsewhere = FetchRequest {
            target: format!("target-{number}"),
            ..get("/servers")
        };
        let verb = Method::from_bytes(format!("VERB{number}").as_bytes()).unwrap();
        for request in [
            elsewhere,
            plain(verb, "/servers"),
            get(&format!("/path-{number}")),
            get(&format!("/servers/{}", 200 + number)),
        ] {
            let _ = scope.fetch(request).await;
        }
    }
    let counts = counts(&egress);
    let is_known =
        |count: &String| count.starts_with("api GET ") || count.starts_with("api other denied ");
    assert!(counts.iter().all(is_known), "{counts:?}");
    // The known statuses, the hundreds of the others, and what was denied.
    assert!(counts.len() <= 36, "{counts:?}");
}
