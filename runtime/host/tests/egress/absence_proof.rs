//! Whether a call's answers may prove absence, and the records of its exchanges.

use std::sync::Arc;

use ccm_fixtures::http_server::{Reply, Server, answer};
use ccm_host::egress::{Egress, EgressLimits, ExchangeEnd, FetchRequest};
use ccm_host::manifest::Granted;
use http::Method;

use crate::world::{counted, counts, egress, error, get, get_kept, plain, post_form, scope};

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

/// Clouds that do not answer 404: their manifest lists the status and the text that mean the same. Both have to match.
#[tokio::test]
async fn absence_is_proven_by_the_words_of_the_manifest() {
    const NOT_FOUND: &str = "<Code>InvalidInstanceID.NotFound</Code>";
    for (status, body, expected) in [
        (400, NOT_FOUND, true),
        (400, "<Code>InvalidInstanceID.Malformed</Code>", false),
        (400, "", false),
        (403, NOT_FOUND, false),
        (500, NOT_FOUND, false),
        (404, NOT_FOUND, false),
    ] {
        let server = Server::start(move |request| match request.line.as_str() {
            "POST /" => answer(status, &[], body),
            _ => answer(200, &[], ""),
        })
        .await;
        let egress = egress(&format!("http://{}", server.address));
        let scope = scope(&egress);
        scope.fetch(post_form("Action=List")).await.unwrap();
        assert!(!scope.complete(), "nothing was found: {status} {body}");
        scope.fetch(get("/servers")).await.unwrap();
        assert_eq!(scope.complete(), expected, "{status} {body}");
    }
    let server = Server::start(|request| match request.line.as_str() {
        "GET /machines/7/config" => answer(500, &[], "Configuration file does not exist"),
        "GET /servers/7" => answer(500, &[], "does not exist"),
        _ => answer(200, &[], ""),
    })
    .await;
    let egress = egress(&format!("http://{}", server.address));
    for (path, expected) in [("/machines/7/config", true), ("/servers/7", false)] {
        let scope = scope(&egress);
        scope.fetch(get("/servers")).await.unwrap();
        scope.fetch(get(path)).await.unwrap();
        assert_eq!(scope.complete(), expected, "another rule's words: {path}");
    }
}

#[tokio::test]
async fn a_supplementary_request_neither_proves_nor_is_missed() {
    let server = server().await;
    let egress = egress(&format!("http://{}", server.address));
    let more = |path: &str| FetchRequest {
        supplementary: true,
        ..get(path)
    };
    for (requests, expected) in [
        (vec![get("/servers"), more("/servers/500")], true),
        (vec![get("/servers"), more("/servers/401")], true),
        (vec![get("/servers"), more("/servers/0")], true),
        (vec![get("/servers"), more("/nowhere")], true),
        (vec![more("/servers"), more("/servers/404")], false),
        (vec![more("/servers"), get("/servers/404")], false),
        (
            vec![get("/servers"), get("/servers/500"), more("/servers")],
            false,
        ),
        (vec![get("/servers/500"), more("/servers")], false),
    ] {
        let scope = scope(&egress);
        for request in requests.clone() {
            let _ = scope.fetch(request).await;
        }
        assert_eq!(scope.complete(), expected, "{requests:?}");
    }
}

/// The label of a request to `POST /` has the field of its rule, and no other field of the guest's.
#[tokio::test]
async fn the_field_of_a_rule_names_the_request() {
    let server = server().await;
    let egress = egress(&format!("http://{}", server.address));
    let scope = scope(&egress);
    for form in [
        "Action=List&Filter=a",
        "Action=List&Filter=b",
        "Action=Create",
    ] {
        scope.fetch(post_form(form)).await.unwrap();
    }
    let mut request = get("/query");
    request.query = vec![
        ("Action".to_owned(), "List".to_owned()),
        ("x".to_owned(), "y".to_owned()),
    ];
    scope.fetch(request).await.unwrap();
    let exchanges = scope.exchanges();
    let labels: Vec<_> = exchanges
        .iter()
        .map(|one| one.template.as_deref())
        .collect();
    let expected = [
        "/ Action=List",
        "/ Action=List",
        "/ Action=Create",
        "/query Action=List",
    ];
    assert_eq!(labels, expected.map(Some));
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
    let (egress, registry) = counted(egress(&format!("http://{}", server.address)));
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
    let reported: Vec<_> = scope
        .exchanges()
        .iter()
        .map(|exchange| (exchange.template.clone(), exchange.end, exchange.kept))
        .collect();
    let one = || Some("/servers/{id}".to_owned());
    let list = || Some("/servers".to_owned());
    assert_eq!(
        reported,
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
        counts(&registry),
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

/// Counts are series of metrics, so a guest must not be able to add series.
#[tokio::test]
async fn h8_what_a_guest_names_makes_no_new_counts() {
    let server = server().await;
    let (egress, registry) = counted(egress(&format!("http://{}", server.address)));
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
    let counts = counts(&registry);
    let is_known =
        |count: &String| count.starts_with("api GET ") || count.starts_with("api other denied ");
    assert!(counts.iter().all(is_known), "{counts:?}");
    // The known statuses, the classes of all other statuses, and denied requests.
    assert!(counts.len() <= 36, "{counts:?}");
}
