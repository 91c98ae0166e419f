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

/// One frame of HTTP/2: its type, its flags and its payload.
async fn frame(client: &mut TcpStream) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    client.read_exact(&mut head).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    client.read_exact(&mut payload).await.unwrap();
    (head[3], head[4], payload)
}

/// Few paths read a body, and any stranger can send one to all of them.
#[tokio::test]
async fn an_http2_client_may_send_little_of_a_body_that_is_not_read() {
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;
    let (address, task) = serve_one(true, Limits::default()).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    client.write_all(preface).await.unwrap();
    let ping = b"\0\0\x08\x06\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let (mut settings, mut pings) = (Vec::new(), 0);
    // When it has answered two pings it has sent what comes first.
    client.write_all(ping).await.unwrap();
    while pings < 2 {
        match frame(&mut client).await {
            (SETTINGS, 0, payload) => settings = payload,
            (PING, _, _) => {
                pings += 1;
                client.write_all(ping).await.unwrap();
            }
            (kind, _, payload) => assert_ne!(kind, WINDOW_UPDATE, "{payload:?}"),
        }
    }
    // SETTINGS_INITIAL_WINDOW_SIZE.
    let mut entries = settings.chunks(6);
    let window = entries.find_map(|entry| entry.strip_prefix(&[0, 4]));
    assert_eq!(window, Some(&BODY_BYTES.to_be_bytes()[..]));
    drop(client);
    ends(task).await;
}
