//! The controllers' client on a real socket: which bytes reach the API server, and which do not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::safety::tenure::Tenure;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::PostParams;
use kube::{Api, Client, Config};
use rustix::net::sockopt::tcp_user_timeout;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::Service as _;

use crate::RestClients;

mod certificates;
mod credentials;
mod proxies;
mod service_accounts;

const NODE: &str = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-1"}}"#;

async fn listener(scheme: &str) -> (TcpListener, Config) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut config = Config::new(format!("{scheme}://{address}").parse().unwrap());
    config.default_retry = false;
    // Nothing here depends on the certificates of the machine.
    config.root_cert = Some(Vec::new());
    (listener, config)
}

fn client(config: &Config, tenure: &Arc<Tenure>) -> Client {
    let clients = RestClients::default();
    super::client(
        config,
        tenure.clone(),
        Some(Duration::from_secs(5)),
        &clients,
    )
    .unwrap()
}

/// Reads the head of a request, and answers it with a node.
async fn answer(stream: &mut TcpStream) -> String {
    answer_as(stream, "200 OK", NODE).await
}

/// Reads the head of a request, and answers it.
async fn answer_as(stream: &mut TcpStream, status: &str, body: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
    }
    let length = body.len();
    let whole = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(whole.as_bytes()).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// All bytes of a connection, however it ends.
async fn everything(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(count) = stream.read_buf(&mut bytes).await
        && count > 0
    {}
    bytes
}

/// The text of an error, with its causes.
fn error_text(error: kube::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(&error);
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}

#[tokio::test]
async fn outside_of_the_tenure_not_one_byte_is_sent() {
    let (past, lost) = (Tenure::pending(), Tenure::unlimited());
    past.renewed(
        Moment(Duration::ZERO),
        Duration::from_nanos(1),
        Duration::MAX,
    );
    lost.close();
    for (case, tenure) in [("past the renew deadline", past), ("lost", lost)] {
        let tenure = Arc::new(tenure);
        for scheme in ["http", "https"] {
            let (listener, config) = listener(scheme).await;
            let nodes: Api<Node> = Api::all(client(&config, &tenure));
            let accepted = tokio::spawn(async move { listener.accept().await.unwrap().0 });
            let text = error_text(nodes.get("worker-1").await.unwrap_err());
            assert!(
                text.contains("does not hold the lease"),
                "{scheme}, {case}: {text}"
            );
            // Not even a handshake.
            let bytes = everything(accepted.await.unwrap()).await;
            assert_eq!(bytes, b"", "{scheme}, {case}");
        }
    }
}

/// As the API server's fairness between clients refuses.
#[tokio::test]
async fn the_pause_that_a_refusal_in_plain_text_asks_for_is_kept() {
    let (listener, config) = listener("http").await;
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    let head = "429 Too Many Requests\r\nretry-after: 7\r\ncontent-type: text/plain; charset=utf-8";
    let refusing = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer_as(
            &mut stream,
            head,
            "Too many requests, please try again later.",
        )
        .await
    };
    let (refused, _) = tokio::join!(nodes.get("worker-1"), refusing);
    let kube::Error::Api(status) = refused.unwrap_err() else {
        panic!("it is an answer");
    };
    let details = status.details.unwrap();
    assert_eq!((status.code, details.retry_after_seconds), (429, 7));
}

#[tokio::test]
async fn before_the_lease_is_won_nothing_is_asked_for() {
    let (_listener, config) = listener("http").await;
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::pending())));
    assert!(nodes.get("worker-1").await.is_err());
}

#[tokio::test]
async fn a_kept_connection_is_broken_off_when_the_lease_is_lost() {
    let (listener, config) = listener("http").await;
    let tenure = Arc::new(Tenure::unlimited());
    let nodes: Api<Node> = Api::all(client(&config, &tenure));
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let first = answer(&mut stream).await;
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest).await;
        (first, rest, end.map_err(|error| error.kind()))
    });
    assert_eq!(
        nodes
            .get("worker-1")
            .await
            .unwrap()
            .metadata
            .name
            .as_deref(),
        Some("worker-1")
    );
    tenure.close();
    let text = error_text(nodes.get("worker-1").await.unwrap_err());
    assert!(text.contains("does not hold the lease"), "{text}");
    drop(nodes);
    let (first, rest, end) = server.await.unwrap();
    assert!(first.starts_with("GET /api/v1/nodes/worker-1"), "{first}");
    assert_eq!(rest, b"");
    // What the operating system still had to send is discarded.
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn bytes_that_are_not_acknowledged_in_time_are_dropped() {
    for (unacknowledged, milliseconds) in [(Some(Duration::from_secs(5)), 5_000), (None, 0)] {
        let (_listener, config) = listener("http").await;
        let mut sockets = super::sockets(unacknowledged);
        let stream = sockets.call(config.cluster_url).await.unwrap();
        assert_eq!(
            tcp_user_timeout(stream.inner()).unwrap(),
            milliseconds,
            "{unacknowledged:?}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_half_written_is_finished_by_a_stopping_process_and_not_by_one_that_lost() {
    for (case, loses) in [("stopping", false), ("lost", true)] {
        let (listener, config) = listener("http").await;
        let tenure = Arc::new(Tenure::unlimited());
        let client = client(&config, &tenure);
        let mut large = ConfigMap::default();
        large.metadata.name = Some("large".to_owned());
        // More than the operating system buffers while nothing is read.
        let length = 16 << 20;
        large.data = Some([("x".to_owned(), "x".repeat(length))].into());
        let writing = tokio::spawn(async move {
            let maps: Api<ConfigMap> = Api::namespaced(client, "default");
            maps.create(&PostParams::default(), &large).await
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        if loses {
            tenure.close();
        } else {
            tenure.end();
        }
        let mut bytes = Vec::new();
        while bytes.len() <= length
            && stream
                .read_buf(&mut bytes)
                .await
                .is_ok_and(|count| count > 0)
        {}
        assert_eq!(bytes.len() > length, !loses, "{case}");
        drop(stream);
        assert!(writing.await.unwrap().is_err(), "{case}");
    }
}

#[tokio::test]
async fn an_answer_is_not_waited_for_longer_than_the_lease_lasts() {
    let (listener, config) = listener("http").await;
    let tenure = Arc::new(Tenure::unlimited());
    // Of a lease that ended long ago, and whose holder may still begin: this test reads no clock.
    let ended = Arc::new(Tenure::pending());
    ended.renewed(Moment(Duration::ZERO), Duration::MAX, Duration::ZERO);
    for (tenure, is_answered) in [(tenure, true), (ended, false)] {
        let nodes: Api<Node> = Api::all(client(&config, &tenure));
        let asking = tokio::spawn(async move { nodes.get("worker-1").await });
        if is_answered {
            let (mut stream, _) = listener.accept().await.unwrap();
            answer(&mut stream).await;
            asking.await.unwrap().unwrap();
        } else {
            let text = error_text(asking.await.unwrap().unwrap_err());
            assert!(text.contains("the lease has ended"), "{text}");
        }
    }
}
