//! Absolute URLs, as in `wasi:http`: a URL outside of the granted targets is refused.

use bytes::Bytes;
use ccm_fixtures::http_server::{Server, ok};
use ccm_host::egress::{Egress, EgressLimits, FetchError};
use http::{Method, Request};

use crate::world::{CANARY, Names, fresh, granted, named, scope};
use std::sync::Arc;

fn request(method: Method, url: &str) -> Result<Request<Bytes>, http::Error> {
    Request::builder()
        .method(method)
        .uri(url)
        .body(Bytes::new())
}

#[tokio::test]
async fn a_url_inside_a_target_is_a_request_to_that_target() {
    let server = Server::start(|_| ok("{}")).await;
    let names = Names::new(&[&["127.0.0.1"]]);
    let port = server.address.port();
    let egress = named(
        &format!("http://cloud.test:{port}/v1"),
        &["127.0.0.1/32"],
        &names,
    )
    .unwrap();
    for (url, line) in [
        (
            format!("http://cloud.test:{port}/v1/servers"),
            "GET /v1/servers",
        ),
        (
            format!("http://CLOUD.test:{port}/v1/servers/7?a=b+c%20d&e"),
            "GET /v1/servers/7?a=b%20c%20d&e=",
        ),
    ] {
        let mut request = request(Method::GET, &url).unwrap();
        // Headers that HTTP libraries set by themselves.
        for (name, value) in [
            ("host", "evil"),
            ("user-agent", "library/1"),
            ("accept-encoding", "gzip"),
            ("content-length", "0"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let response = scope(&egress).fetch_url(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let arrived = server.arrived().pop().unwrap();
        assert_eq!(arrived.line, line);
        assert_eq!(arrived.header("host"), format!("cloud.test:{port}"));
        assert_eq!(arrived.header("authorization"), format!("Bearer {CANARY}"));
        assert_eq!(arrived.header("accept-encoding"), "identity");
        assert!(arrived.header("user-agent").starts_with("ccm/"));
    }
}

#[tokio::test]
async fn a_url_outside_of_every_target_is_neither_resolved_nor_dialled() {
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[&["127.0.0.1"]]);
    let port = server.address.port();
    let egress = named(
        &format!("http://cloud.test:{port}/v1"),
        &["127.0.0.0/8"],
        &names,
    )
    .unwrap();
    let scope = fresh(&egress);
    let here = |host: &str| format!("http://{host}:{port}/v1/servers");
    let urls = [
        // The metadata address in every notation.
        "http://169.254.169.254/latest/meta-data/",
        "http://169.254.169.254./",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0xA9.0xFE.0xA9.0xFE/",
        "http://0251.0376.0251.0376/",
        "http://025177524776/",
        "http://169.254.43518/",
        "http://169.16689662/",
        "http://0xa9.254.0251.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::a9fe:a9fe]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://metadata.google.internal/",
        "http://METADATA.google.internal./",
        "http://%31%36%39.254.169.254/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        // This machine and this cluster.
        "http://localhost/",
        "http://127.0.0.1/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://[::1]/",
        "http://0/",
        "http://127.1/",
        "https://kubernetes.default.svc/api",
        "https://10.96.0.1/",
        "https://10.0.0.1:10250/pods",
        "http://10.0.0.1:2379/",
        // Names that resemble the granted one.
        &here("cloud.test.evil.test"),
        &here("evilcloud.test"),
        &here("cloud.test."),
        &here("cloud"),
        &here("127.0.0.1"),
        &here("cloud.test@evil.test"),
        &here("evil.test@cloud.test"),
        &here("user:pass@cloud.test"),
        &here("cl%6Fud.test"),
        &here("xn--cloud-9na.test"),
        "http://cloud.test/v1/servers",
        "http://cloud.test:22/v1/servers",
        "http://cloud.test:0/v1/servers",
        &format!("https://cloud.test:{port}/v1/servers"),
        &format!("ftp://cloud.test:{port}/v1/servers"),
        &format!("ws://cloud.test:{port}/v1/servers"),
        // Outside of the base path, or of the rules below it.
        &format!("http://cloud.test:{port}/servers"),
        &format!("http://cloud.test:{port}/v1x/servers"),
        &format!("http://cloud.test:{port}/v1/../servers"),
        &format!("http://cloud.test:{port}/v1/%2e%2e/servers"),
        &format!("http://cloud.test:{port}/%761/servers"),
        &format!("http://cloud.test:{port}//v1/servers"),
        &format!("http://cloud.test:{port}/v1//servers"),
        &format!("http://cloud.test:{port}/v1/ssh_keys"),
        &format!("http://cloud.test:{port}/v1"),
        &format!("http://cloud.test:{port}"),
        // Texts that are no URL.
        "/v1/servers",
        "*",
        "cloud.test:80",
    ];
    for url in urls {
        // A URL that the `http` crate refuses never becomes a request.
        let Ok(request) = request(Method::GET, url) else {
            continue;
        };
        match scope.fetch_url(request).await {
            Err(FetchError::Denied(_) | FetchError::Invalid(_)) => {}
            other => panic!("{url}: {other:?}"),
        }
    }
    for (method, path) in [
        (Method::DELETE, "servers/1"),
        (Method::CONNECT, "servers"),
        (Method::TRACE, "servers"),
    ] {
        let denied = scope
            .fetch_url(request(method, &format!("http://cloud.test:{port}/v1/{path}")).unwrap())
            .await;
        assert!(matches!(denied, Err(FetchError::Denied(_))), "{denied:?}");
    }
    assert_eq!((names.asked(), server.connections()), (0, 0));
    assert!(!scope.complete());
}

#[tokio::test]
async fn among_targets_of_one_host_the_longest_base_path_that_admits_is_taken() {
    let server = Server::start(|_| ok("{}")).await;
    let host = format!("http://{}", server.address);
    let targets = [
        ("root", host.clone()),
        ("deep", format!("{host}/v1/deep")),
        ("below", format!("{host}/servers")),
    ];
    let targets: Vec<_> = targets
        .iter()
        .map(|(name, endpoint)| (*name, endpoint.as_str()))
        .collect();
    let egress = Arc::new(
        Egress::new("test", &granted(&targets, |_| ()), EgressLimits::standard()).unwrap(),
    );
    let scope = fresh(&egress);
    scope
        .fetch_url(request(Method::GET, &format!("{host}/v1/deep/servers")).unwrap())
        .await
        .unwrap();
    scope
        .fetch_url(request(Method::GET, &format!("{host}/servers/v1")).unwrap())
        .await
        .unwrap();
    // The rules of both targets admit it: `/servers/{id}` and `/servers`.
    scope
        .fetch_url(request(Method::GET, &format!("{host}/servers/servers")).unwrap())
        .await
        .unwrap();
    let lines = ["/v1/deep/servers", "/servers/v1", "/servers/servers"];
    assert_eq!(server.lines(), lines.map(|path| format!("GET {path}")));
    let exchanges = scope.exchanges();
    let chosen: Vec<_> = exchanges.iter().map(|one| one.target.as_str()).collect();
    assert_eq!(chosen, ["deep", "root", "below"]);
}
