//! Targets behind a proxy: requests to the proxy, secrets that it never sees, and proxies that answer falsely.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ccm_fixtures::http_server::{Server, ok};
use ccm_host::egress::{Egress, EgressError, EgressLimits, FetchError};
use ccm_host::grant::{Credential, ProxyGrant, Secret};
use ccm_proxy::{NoProxy, Proxy};

use crate::proxy_server::{Answer, FakeProxy};
use crate::tls::{acceptor, authority, some_root};
use crate::world::{CANARY, Names, error, get, granted, scope};

/// A grant of the proxy at this URL.
pub(crate) fn through(
    url: &str,
    no_proxy: &str,
    addresses: &[&str],
    root: Option<&str>,
) -> ProxyGrant {
    ProxyGrant {
        proxy: Proxy::parse(url).unwrap(),
        except: NoProxy::parse(no_proxy),
        addresses: addresses
            .iter()
            .map(|range| range.parse().unwrap())
            .collect(),
        ca_pem: root.map(str::to_owned),
    }
}

fn build(
    endpoint: &str,
    root: &str,
    proxy: ProxyGrant,
    names: &Arc<Names>,
) -> Result<Arc<Egress>, EgressError> {
    let granted = granted(&[("api", endpoint)], |grants| {
        grants.targets[0].ca_pem = Some(root.to_owned());
        grants.targets[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
        grants.targets[0].proxy = Some(proxy);
    });
    let limits = EgressLimits {
        connect: Duration::from_secs(2),
        ..EgressLimits::standard()
    };
    Egress::with_lookup("test", &granted, limits, names.clone()).map(Arc::new)
}

/// A cloud that answers over TLS, and its root certificate.
async fn cloud() -> (Server, String) {
    let authority = authority();
    let tls = acceptor(&authority, &["cloud.test"], false, &["http/1.1"]);
    (
        Server::with_tls(tls, |_| ok("secure")).await,
        authority.pem(),
    )
}

fn url(server: &Server) -> String {
    format!("https://cloud.test:{}/v1", server.address.port())
}

#[tokio::test]
async fn d33_a_proxy_learns_host_and_port_and_nothing_else() {
    let ca = authority();
    for scheme in ["http", "https", "socks5"] {
        let (server, root) = cloud().await;
        let tls = acceptor(&ca, &["127.0.0.1"], false, &[]);
        let proxy = match scheme {
            "http" => FakeProxy::start(Answer::Tunnel).await,
            "https" => FakeProxy::with_tls(tls, Answer::Tunnel).await,
            _ => FakeProxy::start(Answer::Socks).await,
        };
        let names = Names::new(&[&["203.0.113.7"]]);
        let grant = through(
            &format!("{scheme}://me:se%40ret@{}", proxy.address),
            "",
            &[],
            Some(&ca.pem()),
        );
        let egress = build(&url(&server), &root, grant, &names).unwrap();
        for _ in 0..2 {
            let answer = scope(&egress).fetch(get("/servers")).await.unwrap();
            assert_eq!(answer.body.as_ref(), b"secure", "{scheme}");
        }
        let port = server.address.port();
        let asked = proxy.asked();
        // Both requests use one tunnel.
        assert_eq!(asked.len(), 1, "{scheme}: {asked:?}");
        if scheme == "socks5" {
            assert_eq!(asked[0], format!("cloud.test:{port} me se@ret"));
        } else {
            let lines: Vec<_> = asked[0].lines().collect();
            let mut sorted = lines[1..].to_vec();
            sorted.sort_unstable();
            assert_eq!(lines[0], format!("CONNECT cloud.test:{port} HTTP/1.1"));
            let host = format!("Host: cloud.test:{port}");
            assert_eq!(
                sorted,
                [&host, "Proxy-Authorization: Basic bWU6c2VAcmV0"],
                "{scheme}"
            );
        }
        let seen = proxy.seen();
        assert!(!seen.is_empty());
        let finds = |text: &str| seen.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!finds(CANARY) && !finds("servers"), "{scheme}");
        assert_eq!(names.asked(), 0, "{scheme}: the proxy resolves the name");
        for request in server.arrived() {
            assert_eq!(request.header("authorization"), format!("Bearer {CANARY}"));
            assert_eq!(request.header("proxy-authorization"), "");
        }
    }
}

#[tokio::test]
async fn d29_a_proxy_that_answers_in_the_clouds_name_gets_no_request() {
    let (genuine, root) = cloud().await;
    for names in [&["cloud.test"][..], &["proxy.test"]] {
        let own = acceptor(&authority(), names, false, &[]);
        let impostor = Server::with_tls(own, |_| ok("{}")).await;
        let proxy = FakeProxy::start(Answer::Elsewhere(impostor.address)).await;
        let grant = through(&format!("http://{}", proxy.address), "", &[], None);
        let egress = build(&url(&genuine), &root, grant, &Names::new(&[])).unwrap();
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(
            matches!(&failed, FetchError::Unavailable(text) if text.contains("certificate")),
            "{failed}"
        );
        assert_eq!(proxy.asked().len(), 1);
        assert!(impostor.lines().is_empty() && genuine.lines().is_empty());
    }
}

#[tokio::test]
async fn a_refusal_names_the_proxy_and_what_to_do() {
    for (status, expected) in [
        (
            "407 Proxy Authentication Required",
            "with status 407: it wants a user and a password",
        ),
        (
            "401 Unauthorized",
            "with status 401: it wants a user and a password",
        ),
        (
            "403 Forbidden",
            "with status 403: its rules have to allow CONNECT",
        ),
        (
            "404 Not Found",
            "with status 404: its rules have to allow CONNECT",
        ),
        (
            "502 Bad Gateway",
            "with status 502: it cannot reach the server",
        ),
        (
            "503 Service Unavailable",
            "with status 503: it cannot reach the server",
        ),
        (
            "302 Found\r\nLocation: http://169.254.169.254/",
            "with status 302: redirects are not followed",
        ),
    ] {
        let (server, root) = cloud().await;
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n{CANARY}");
        let proxy = FakeProxy::start(Answer::Bytes(answer.into_bytes())).await;
        let at = format!("http://{}", proxy.address);
        let grant = through(&at.replace("//", "//me:secret@"), "", &[], None);
        let egress = build(&url(&server), &root, grant, &Names::new(&[])).unwrap();
        let failed = error(scope(&egress).fetch(get("/servers")).await).to_string();
        let port = server.address.port();
        let whole = format!("the proxy {at} refuses CONNECT to cloud.test:{port} {expected}");
        assert!(failed.contains(&whole), "{failed}");
        assert!(!failed.contains("secret"), "{failed}");
        assert_eq!(proxy.connections(), 1, "it is not asked again");
        assert_eq!(server.connections(), 0, "nor is the cloud asked without it");
    }
}

#[tokio::test]
async fn d30_what_a_proxy_answers_is_bounded_and_belongs_to_nobody() {
    let drip = b"HTTP/1.1 200 OK\r\n".to_vec();
    for (what, answer) in [
        (
            "no HTTP",
            Answer::Bytes(b"\x16\x03\x03garbage\r\n\r\n".to_vec()),
        ),
        ("nothing", Answer::Close),
        (
            "half a head",
            Answer::BytesThenClose(b"HTTP/1.1 200 OK\r\nVia: x".to_vec()),
        ),
        ("silence", Answer::Silence),
        ("a head byte by byte", Answer::Drip(drip)),
        (
            "header fields without end",
            Answer::Endless(b"HTTP/1.1 200 OK\r\n", b"X-A: aaaaaaaa\r\n"),
        ),
        (
            "one field without end",
            Answer::Endless(b"HTTP/1.1 200 OK\r\nX-A: ", b"aaaaaaaa"),
        ),
        (
            "interim answers without end",
            Answer::Endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ),
        (
            "an answer of the cloud's",
            Answer::Bytes(
                b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
            ),
        ),
    ] {
        let (server, root) = cloud().await;
        let proxy = FakeProxy::start(answer).await;
        let at = format!("http://{}", proxy.address);
        let grant = through(&at, "", &[], None);
        let egress = build(&url(&server), &root, grant, &Names::new(&[])).unwrap();
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(
            matches!(&failed, FetchError::Unavailable(text) | FetchError::TimedOut(text) if text.contains(&at)),
            "{what}: {failed}"
        );
        assert_eq!(proxy.connections(), 1, "{what}");
        assert_eq!(server.connections(), 0, "{what}");
    }
}

#[tokio::test]
async fn d32_the_address_of_the_proxy_is_checked_and_the_name_of_the_target() {
    // Addresses of a proxy's name are checked like those of a target.
    for (ranges, addresses, is_dialled) in [
        (&["127.0.0.1/32"][..], &["127.0.0.1"][..], true),
        (&[], &["127.0.0.1"], false),
        (&[], &["10.0.0.1"], false),
        (&["0.0.0.0/0"], &["169.254.169.254"], false),
        (&["127.0.0.1/32"], &["127.0.0.1", "10.0.0.1"], false),
    ] {
        let (server, root) = cloud().await;
        let proxy = FakeProxy::start(Answer::Tunnel).await;
        let names = Names::new(&[addresses]);
        let at = format!("http://proxy.test:{}", proxy.address.port());
        let grant = through(&at, "", ranges, None);
        let egress = build(&url(&server), &root, grant, &names).unwrap();
        let end = scope(&egress).fetch(get("/servers")).await;
        assert_eq!(end.is_ok(), is_dialled, "{addresses:?}: {end:?}");
        assert_eq!(proxy.connections(), usize::from(is_dialled));
        if !is_dialled {
            let failed = error(end);
            let is_denied = matches!(&failed, FetchError::Denied(text) if text.contains(&at));
            assert!(is_denied, "{addresses:?}: {failed}");
        }
    }
    // Configurations that are refused before a request.
    for (endpoint, proxy) in [
        ("https://metadata.google.internal", "http://10.0.0.1:3128"),
        ("https://sub.localhost", "http://10.0.0.1:3128"),
        ("https://169.254.169.254", "http://10.0.0.1:3128"),
        ("http://cloud.test", "http://10.0.0.1:3128"),
        ("https://cloud.test", "http://169.254.169.254"),
        ("https://cloud.test", "http://[fe80::1]:3128"),
        ("https://cloud.test", "http://0.0.0.0:3128"),
    ] {
        let grant = through(proxy, "", &["0.0.0.0/0", "::/0"], None);
        let built = build(endpoint, &some_root(), grant, &Names::new(&[]));
        assert!(
            matches!(built, Err(EgressError::Dial { .. })),
            "{endpoint} {proxy}"
        );
    }
}

#[tokio::test]
async fn what_the_exceptions_name_is_reached_without_the_proxy() {
    for (no_proxy, is_direct) in [
        ("", false),
        ("*", true),
        ("cloud.test", true),
        (".test", true),
        ("example.com, TEST", true),
        (".cloud.test", false),
        ("cloud.test:1", false),
        ("127.0.0.0/8", false),
    ] {
        let (server, root) = cloud().await;
        let proxy = FakeProxy::start(Answer::Tunnel).await;
        let names = Names::new(&[&["127.0.0.1"]]);
        let grant = through(&format!("http://{}", proxy.address), no_proxy, &[], None);
        let egress = build(&url(&server), &root, grant, &names).unwrap();
        scope(&egress).fetch(get("/servers")).await.unwrap();
        assert_eq!(proxy.connections(), usize::from(!is_direct), "{no_proxy}");
        assert_eq!(names.asked(), usize::from(is_direct), "{no_proxy}");
    }
    // This machine needs no proxy, as in Go.
    let grant = through("http://192.0.2.1:3128", "", &[], None);
    let server = Server::start(|_| ok("here")).await;
    let endpoint = format!("http://{}", server.address);
    let granted = granted(&[("api", &endpoint)], |grants| {
        grants.targets[0].proxy = Some(grant);
    });
    let egress = Arc::new(Egress::new("test", &granted, EgressLimits::standard()).unwrap());
    scope(&egress).fetch(get("/servers")).await.unwrap();
}

#[tokio::test]
async fn d31_each_target_has_tunnels_of_its_own() {
    let (server, root) = cloud().await;
    let proxy = FakeProxy::start(Answer::Tunnel).await;
    let endpoint = url(&server);
    let granted = granted(&[("api", &endpoint), ("other", &endpoint)], |grants| {
        for (target, token) in grants.targets.iter_mut().zip(["one", "two"]) {
            target.ca_pem = Some(root.clone());
            target.credential = Credential::Bearer(Secret::new(format!("token-{token}-{CANARY}")));
            target.proxy = Some(through(&format!("http://{}", proxy.address), "", &[], None));
        }
    });
    let egress = Egress::with_lookup("test", &granted, EgressLimits::standard(), Names::new(&[]));
    let egress = Arc::new(egress.unwrap());
    for _ in 0..2 {
        for target in ["api", "other"] {
            let mut request = get("/servers");
            request.target = target.to_owned();
            scope(&egress).fetch(request).await.unwrap();
        }
    }
    assert_eq!(proxy.connections(), 2);
    assert_eq!(server.connections(), 2);
    let tokens: Vec<_> = server
        .arrived()
        .iter()
        .map(|one| one.header("authorization").to_owned())
        .collect();
    assert_eq!(tokens.len(), 4);
    assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), 2);
}

#[tokio::test]
async fn a_proxy_where_nobody_listens_is_named() {
    let (server, root) = cloud().await;
    let free = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let grant = through(&format!("http://{free}"), "", &[], None);
    let egress = build(&url(&server), &root, grant, &Names::new(&[])).unwrap();
    let failed = error(scope(&egress).fetch(get("/servers")).await).to_string();
    let expected = format!("the proxy http://{free} cannot be reached");
    assert!(failed.contains(&expected), "{failed}");
    assert_eq!(server.connections(), 0);
}
