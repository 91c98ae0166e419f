//! Requests as they arrive, and requests that are never sent.

use std::sync::Arc;

use bytes::Bytes;
use ccm_fixtures::http_server::{Reply, Server, answer, ok};
use ccm_host::egress::{Egress, EgressLimits, FetchError, FetchRequest};
use ccm_host::manifest::Contract;
use http::Method;
use serde_json::json;

use crate::world::{CANARY, egress, error, eventually, get, granted, plain, post_form, scope};

#[tokio::test]
async fn a_granted_request_arrives_with_what_the_host_adds() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}/v1/", server.address));
    let request = FetchRequest {
        query: vec![
            ("name".to_owned(), "a b&c=d#é".to_owned()),
            ("empty".to_owned(), String::new()),
        ],
        headers: vec![("Accept".to_owned(), "application/json".to_owned())],
        ..get("/servers")
    };
    let answer = scope(&egress).fetch(request).await.unwrap();
    assert_eq!((answer.status, answer.body.as_ref()), (200, b"{}".as_ref()));
    let [arrived] = server.arrived().try_into().unwrap();
    assert_eq!(
        arrived.line,
        "GET /v1/servers?name=a%20b%26c%3Dd%23%C3%A9&empty="
    );
    assert_eq!(arrived.header("authorization"), format!("Bearer {CANARY}"));
    assert_eq!(
        arrived.header("user-agent"),
        format!("ccm/{} test", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(arrived.header("host"), server.address.to_string());
    assert_eq!(arrived.header("accept"), "application/json");
    assert_eq!(arrived.header("accept-encoding"), "identity");
}

/// No header tells the cloud where in this cluster a request comes from.
#[tokio::test]
async fn h9_the_host_adds_no_header_that_nobody_asked_for() {
    let server = Server::start(|_| ok("{}")).await;
    let egress = egress(&format!("http://{}", server.address));
    scope(&egress).fetch(get("/servers")).await.unwrap();
    let [arrived] = server.arrived().try_into().unwrap();
    let mut names: Vec<_> = arrived
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_unstable();
    let known = [
        "accept",
        "accept-encoding",
        "authorization",
        "host",
        "user-agent",
    ];
    assert_eq!(names, known);
}

#[tokio::test]
async fn a_body_arrives_as_it_was_given() {
    let server =
        Server::start(|_| answer(201, &[("x-id", "7"), ("set-cookie", "a=b")], "made")).await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let request = FetchRequest {
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Some(Bytes::from_static(b"{\"name\":\"x\"}")),
        ..plain(Method::POST, "/servers")
    };
    let answer = scope(&egress).fetch(request).await.unwrap();
    assert_eq!(answer.status, 201);
    assert!(
        answer
            .headers
            .contains(&("x-id".to_owned(), "7".to_owned()))
    );
    assert!(
        answer.headers.iter().all(|(name, _)| name != "set-cookie"),
        "a cookie was shown"
    );
    assert_eq!(server.arrived()[0].body, b"{\"name\":\"x\"}");
    assert_eq!(server.arrived()[0].header("content-length"), "12");
}

#[tokio::test]
async fn a_request_outside_the_grant_makes_no_connection() {
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let scope = scope(&egress);
    let to = |target: &str| FetchRequest {
        target: target.to_owned(),
        ..get("/servers")
    };
    let asking = |query: &str| FetchRequest {
        query: vec![("Action".to_owned(), query.to_owned())],
        ..post_form("Action=List")
    };
    let typed = |kind: &str| FetchRequest {
        headers: vec![("content-type".to_owned(), kind.to_owned())],
        ..post_form("Action=List")
    };
    for (request, words) in [
        (plain(Method::DELETE, "/servers/1"), "DELETE /servers/1 api"),
        (plain(Method::DELETE, "/servers"), "DELETE /servers api"),
        (plain(Method::PUT, "/servers/1"), "PUT /servers/1 api"),
        (
            plain(Method::POST, "/load_balancers/1"),
            "POST /load_balancers/1 api",
        ),
        (plain(Method::OPTIONS, "/servers"), "OPTIONS /servers api"),
        (plain(Method::TRACE, "/servers"), "TRACE api"),
        (plain(Method::CONNECT, "/servers"), "CONNECT api"),
        (
            plain(Method::from_bytes(b"PURGE").unwrap(), "/servers"),
            "PURGE api",
        ),
        (get("/ssh_keys"), "GET /ssh_keys api"),
        (get("/servers/1/actions"), "GET /servers/1/actions api"),
        (get("/Servers"), "GET /Servers api"),
        (get("/v1/servers"), "GET /v1/servers api"),
        (get("/"), "GET / api"),
        (to("other"), "GET other"),
        (to(""), "GET"),
        (to("API"), "API"),
        (plain(Method::POST, "/"), "POST / api"),
        (post_form("Action=Delete"), "POST / api"),
        (post_form("Action=List&Action=Create"), "POST / api"),
        (post_form("%41ction=Delete"), "POST / api"),
        (asking("Create"), "POST / api"),
        (typed("application/json"), "POST / api"),
        (
            typed("application/x-www-form-urlencoded; charset=utf-7"),
            "POST / api",
        ),
    ] {
        let text = format!("{request:?}");
        match error(scope.fetch(request).await) {
            FetchError::Denied(denied) => {
                assert!(
                    words.split(' ').all(|word| denied.contains(word)),
                    "{words} is not in {denied}"
                );
            }
            other => panic!("{text}: {other}"),
        }
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn what_is_not_a_request_makes_no_connection() {
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}/v1", server.address));
    let scope = scope(&egress);
    let header = |name: &str, value: &str| FetchRequest {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..get("/servers")
    };
    let long = "x".repeat(9000);
    for request in [
        get("servers"),
        get("/servers/../ssh_keys"),
        get("/servers/%2e%2e/ssh_keys"),
        get("/servers/..%2fssh_keys"),
        get("/servers//1"),
        get("/servers/"),
        get("/servers?page=1"),
        get("/servers#x"),
        get("/servers/1\r\nX: y"),
        get("/servers/%00"),
        get("/servers\\1"),
        get("http://evil/servers"),
        get("//evil/servers"),
        get("/servers/%252e%252e"),
        get(&format!("/servers/{long}")),
        header("host", "evil"),
        header("transfer-encoding", "chunked"),
        header("content-length", "5"),
        header("te", "chunked"),
        header("connection", "upgrade"),
        header("upgrade", "h2c"),
        header("authorization", "Bearer mine"),
        header("cookie", "a=b"),
        header("proxy-authorization", "x"),
        header("x-forwarded-for", "10.0.0.1"),
        header("x-http-method-override", "DELETE"),
        header("accept", "a\r\nhost: evil"),
        header("a b", "c"),
        header(":authority", "evil"),
        header("accept", &long.repeat(2)),
        FetchRequest {
            query: vec![("q".to_owned(), long.clone())],
            ..get("/servers")
        },
        FetchRequest {
            query: vec![(String::new(), String::new()); 65],
            ..get("/servers")
        },
        FetchRequest {
            headers: vec![("a".to_owned(), String::new()); 33],
            ..get("/servers")
        },
        FetchRequest {
            body: Some(Bytes::from_static(b"x")),
            ..get("/servers")
        },
        FetchRequest {
            body: Some(Bytes::from(vec![0; (1 << 20) + 1])),
            ..plain(Method::POST, "/servers")
        },
    ] {
        let text: String = format!("{request:?}").chars().take(200).collect();
        let refused = error(scope.fetch(request).await);
        assert!(
            matches!(refused, FetchError::Invalid(_)),
            "{text}: {refused}"
        );
    }
    assert_eq!(server.connections(), 0);
}

/// The maximum of everything that a request may carry arrives; a request with one more is refused.
#[tokio::test]
async fn d27_a_request_carries_so_much_beside_its_rule_and_no_more() {
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}", server.address));
    let scope = scope(&egress);
    let of = |count: usize| "x".repeat(count);
    let path = |count: usize| get(&format!("/servers/{}", of(count - "/servers/".len())));
    let query = |pairs: usize, bytes: usize| FetchRequest {
        query: (0..pairs)
            .map(|_| (of(bytes / pairs / 2), of(bytes / pairs / 2)))
            .collect(),
        ..get("/servers")
    };
    let headers = |count: usize, bytes: usize| FetchRequest {
        headers: (0..count)
            .map(|number| (format!("x-{number:02}"), of(bytes / count - "x-00".len())))
            .collect(),
        ..get("/servers")
    };
    let body = |count: usize| FetchRequest {
        body: Some(Bytes::from(vec![0; count])),
        ..plain(Method::POST, "/servers")
    };
    for (most, more) in [
        (path(2048), path(2049)),
        (query(64, 8 << 10), query(65, 130)),
        (query(1, 8 << 10), query(1, (8 << 10) + 2)),
        (headers(32, 16 << 10), headers(33, 330)),
        (headers(1, 16 << 10), headers(1, (16 << 10) + 1)),
        (body(1 << 20), body((1 << 20) + 1)),
    ] {
        let before = server.lines().len();
        let text: String = format!("{more:?}").chars().take(200).collect();
        scope.fetch(most).await.unwrap();
        let refused = error(scope.fetch(more).await);
        assert!(
            matches!(refused, FetchError::Invalid(_)),
            "{text}: {refused}"
        );
        assert_eq!(server.lines().len(), before + 1, "{text}");
    }
    let named = FetchRequest {
        headers: vec![(
            "user-agent".to_owned(),
            "what nobody should know".to_owned(),
        )],
        ..get("/servers")
    };
    assert!(matches!(
        error(scope.fetch(named).await),
        FetchError::Invalid(_)
    ));
}

#[tokio::test]
async fn the_form_that_was_matched_is_the_form_that_is_sent() {
    let server = Server::start(|_| ok("")).await;
    let egress = egress(&format!("http://{}", server.address));
    scope(&egress)
        .fetch(post_form("%41ction=Li%73t&Name=a+b%20c;Action=Create"))
        .await
        .unwrap();
    let [arrived] = server.arrived().try_into().unwrap();
    assert_eq!(arrived.line, "POST /");
    assert_eq!(
        String::from_utf8(arrived.body.clone()).unwrap(),
        "Action=List&Name=a+b+c%3BAction%3DCreate"
    );
    assert_eq!(
        arrived.header("content-length"),
        arrived.body.len().to_string()
    );
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let other = Server::start(|_| ok("")).await;
    let place = format!("http://{}/servers", other.address);
    for status in [301, 302, 303, 307, 308] {
        let location = place.clone();
        let server = Server::start(move |_| answer(status, &[("location", &location)], "")).await;
        let egress = egress(&format!("http://{}", server.address));
        let answer = scope(&egress).fetch(get("/servers")).await.unwrap();
        assert_eq!(answer.status, status);
        assert!(
            answer
                .headers
                .contains(&("location".to_owned(), place.clone()))
        );
        assert_eq!((server.lines().len(), other.connections()), (1, 0));
    }
}

#[tokio::test]
async fn nothing_is_sent_twice() {
    let server = Server::start(|request| {
        if request.line.ends_with("/ok") {
            ok("")
        } else {
            Reply::Close(Vec::new())
        }
    })
    .await;
    let egress = egress(&format!("http://{}", server.address));
    let requests = [
        get("/servers"),
        plain(Method::POST, "/servers"),
        plain(Method::DELETE, "/load_balancers/1"),
    ];
    // On a new connection and on one that was used before.
    for (request, used) in requests
        .iter()
        .flat_map(|request| [(request, false), (request, true)])
    {
        if used {
            scope(&egress).fetch(get("/servers/ok")).await.unwrap();
        }
        let before = server.lines().len();
        let failed = error(scope(&egress).fetch(request.clone()).await);
        assert!(matches!(failed, FetchError::Unavailable(_)), "{failed}");
        assert_eq!(server.lines().len(), before + 1);
    }
}

#[tokio::test]
async fn a_connection_that_the_cloud_closed_meanwhile_is_not_used() {
    let server =
        Server::start(|_| Reply::Close(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n".to_vec()))
            .await;
    let egress = egress(&format!("http://{}", server.address));
    for number in 1..5 {
        eventually("the last connection is closed", || {
            server.closed() == server.connections()
        })
        .await;
        // The request may meet the end of the connection before the client notices it; then it fails, and is not
        // repeated.
        match scope(&egress).fetch(plain(Method::POST, "/servers")).await {
            Ok(answer) => assert_eq!(answer.status, 200),
            Err(failed) => assert!(matches!(failed, FetchError::Unavailable(_)), "{failed}"),
        }
        assert!(server.lines().len() <= number);
    }
}

/// Set in the process that [`proxies_in_the_environment_are_ignored`] starts.
const INNER: &str = "CCM_TEST_PROXY";

#[tokio::test]
async fn proxies_in_the_environment_are_ignored() {
    if std::env::var_os(INNER).is_some() {
        let server = Server::start(|_| ok("direct")).await;
        let answer = scope(&egress(&format!("http://{}", server.address)))
            .fetch(get("/servers"))
            .await
            .unwrap();
        assert_eq!(answer.body.as_ref(), b"direct");
        assert_eq!(server.arrived()[0].header("proxy-authorization"), "");
        return;
    }
    // A separate process, because changing the environment of this one would race with the other tests.
    let proxy = Server::start(|_| ok("proxied")).await;
    let url = format!("http://user:pass@{}", proxy.address);
    let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "requests::proxies_in_the_environment_are_ignored",
        ])
        .env(INNER, "1");
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        command.env(name, &url);
    }
    let output = command.output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_denial_says_which_of_manifest_and_grants_lacks_the_request_and_of_which_version() {
    let server = Server::start(|_| ok("{}")).await;
    let endpoint = format!("http://{}", server.address);
    let mut granted = granted(&[("api", &endpoint)], |grants| {
        let more = json!({ "methods": ["GET"], "path": "/locations", "access": "read" });
        grants.targets[0]
            .rules
            .push(serde_json::from_value(more).unwrap());
    });
    granted.withheld.push("robot".to_owned());
    let egress = Egress::new("test", &granted, EgressLimits::standard()).unwrap();
    let egress = egress.of_module("sha256:77".to_owned(), "1.2.3", Contract::V0_2);
    let scope = scope(&Arc::new(egress));
    let at = |target: &str, path: &str| FetchRequest {
        target: target.to_owned(),
        ..get(path)
    };
    for (request, expected) in [
        (
            at("api", "/locations"),
            "GET /locations on target api: the module's own manifest does not request it, although the grants allow it",
        ),
        (
            at("api", "/secrets"),
            "GET /secrets on target api: the module's own manifest does not request it, and the grants do not allow it either",
        ),
        (
            at("robot", "/server"),
            "GET on target robot: the module's manifest requests this target, and the grants have none of this name",
        ),
        (
            at("other", "/server"),
            "GET on target other: the module's own manifest requests no such target",
        ),
    ] {
        let denied = FetchError::Denied(format!("{expected} (module version 1.2.3)"));
        assert_eq!(error(scope.fetch(request).await), denied);
    }
    assert_eq!(server.lines(), Vec::<String>::new());
}
