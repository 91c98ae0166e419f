//! HTTP/2, which most clouds use: the same rules apply.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ccm_host::egress::{FetchError, FetchRequest};
use http::{HeaderMap, Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use crate::tls::{acceptor, authority, egress};
use crate::world::{CANARY, error, get, scope};

type Seen = Arc<Mutex<Vec<(Version, String, HeaderMap)>>>;

/// Answers `/wide` with more headers than the egress accepts, and everything else with `{}`.
async fn server(tls: tokio_rustls::TlsAcceptor, seen: Seen) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (tls, seen) = (tls.clone(), seen.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else {
                    return;
                };
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (head, _) = request.into_parts();
                    let wide = head.uri.path().ends_with("/wide");
                    let reported = (head.version, head.uri.to_string(), head.headers);
                    seen.lock().unwrap().push(reported);
                    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
                    if wide {
                        let value = "x".repeat(40 << 10).parse().unwrap();
                        response.headers_mut().insert("x-wide", value);
                    }
                    async { Ok::<_, std::convert::Infallible>(response) }
                });
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn the_same_rules_hold_for_http2() {
    let authority = authority();
    let seen = Seen::default();
    let tls = acceptor(&authority, &["cloud.test"], false, &["h2"]);
    let address = server(tls, seen.clone()).await;
    let egress = egress(
        &format!("https://cloud.test:{}/v1", address.port()),
        &authority.pem(),
    );
    let requests = (0..12).map(|number| get(&format!("/servers/{number}")));
    let answers = scope(&egress).fetch_all(requests.collect()).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.as_ref().is_ok_and(|answer| answer.body == "{}"))
    );
    for (version, url, headers) in seen.lock().unwrap().drain(..) {
        assert_eq!(version, Version::HTTP_2);
        assert!(
            url.starts_with(&format!(
                "https://cloud.test:{}/v1/servers/",
                address.port()
            )),
            "{url}"
        );
        assert_eq!(headers["authorization"], format!("Bearer {CANARY}"));
        assert!(!headers.contains_key("host") && !headers.contains_key("connection"));
    }
    let smuggled = FetchRequest {
        headers: vec![(":path".to_owned(), "/v1/ssh_keys".to_owned())],
        ..get("/servers")
    };
    assert!(matches!(
        error(scope(&egress).fetch(smuggled).await),
        FetchError::Invalid(_)
    ));
    let wide = error(scope(&egress).fetch(get("/servers/wide")).await);
    assert!(
        matches!(wide, FetchError::Unavailable(_) | FetchError::TooLarge(_)),
        "{wide}"
    );
    // A refused answer does not affect other requests.
    assert!(scope(&egress).fetch(get("/servers")).await.is_ok());
}
