#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::connection_limit::Slots;

/// Size of an answer that no buffer of the network takes.
const LARGE: usize = 64 * 1024 * 1024;

/// Serves the first connection with these limits. The task ends with the connection.
async fn serve_one(is_http2: bool, limits: Limits) -> (std::net::SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/small", get(async || "ok"))
        .route("/large", get(async || vec![b'x'; LARGE]));
    let protocol = HttpProtocol {
        tls: None,
        streams: 0,
        limits,
    };
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let slot = Slots::default().take();
        let peer = PeerCertificates::default();
        let stream = WriteLimit::new(stream, protocol.limits.unread);
        http(stream, is_http2, &protocol, peer, router, slot).await;
    });
    (address, task)
}

/// Settings that reqwest requires and this client does not use.
fn no_tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let roots = rustls::RootCertStore::empty();
    config.with_root_certificates(roots).with_no_client_auth()
}

fn brief() -> Duration {
    Duration::from_millis(200)
}

/// The task ends, long before the limits that this test does not set.
async fn ends(task: JoinHandle<()>) {
    let ended = timeout(Duration::from_secs(8), task).await;
    ended.expect("the connection is open still").unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_loses_the_connection() {
    let limits = Limits {
        unread: brief(),
        ..Limits::default()
    };
    let (address, task) = serve_one(false, limits).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
    client.write_all(request).await.unwrap();
    ends(task).await;
}

#[tokio::test]
async fn a_large_answer_that_is_read_arrives() {
    let (address, task) = serve_one(false, Limits::default()).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    client.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.len() > LARGE);
    ends(task).await;
}

#[tokio::test]
async fn a_connection_of_http2_that_asks_nothing_more_ends() {
    let limits = Limits {
        silence: brief(),
        last: brief(),
        ..Limits::default()
    };
    // The second client leaves its answer to the flow control, and goes on answering pings.
    for path in ["small", "large"] {
        let (address, task) = serve_one(true, limits.clone()).await;
        let client = reqwest::Client::builder().http2_prior_knowledge();
        let client = client.tls_backend_preconfigured(no_tls());
        let client = client.build().unwrap();
        let asked = client.get(format!("http://{address}/{path}")).send();
        let answer = asked.await.unwrap();
        assert_eq!(answer.status(), 200);
        ends(task).await;
    }
}
