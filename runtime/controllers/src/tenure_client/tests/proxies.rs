//! The client behind a proxy: which bytes the proxy gets, which it never sees, and that the tenure bounds both.

use std::net::SocketAddr;
use std::sync::Arc;

use ccm_core::safety::tenure::Tenure;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{answer, client, error_text, everything, listener};
use crate::RestClients;
use crate::api_error::describe;
use crate::tenure_client;

async fn proxied(scheme: &str, proxy: &str) -> (TcpListener, Config) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = behind(listener.local_addr().unwrap(), scheme, proxy);
    (listener, config)
}

fn behind(address: SocketAddr, scheme: &str, proxy: &str) -> Config {
    let mut config = Config::new(format!("{scheme}://api.cluster.test:6443").parse().unwrap());
    config.root_cert = Some(Vec::new());
    config.proxy_url = Some(
        proxy
            .replace("PROXY", &address.to_string())
            .parse()
            .unwrap(),
    );
    config
}

async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.unwrap();
        bytes.push(byte);
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_tunnel_is_asked_for_by_name_and_with_the_credentials_of_the_url() {
    for (url, credentials) in [
        ("http://PROXY", None),
        // As browsers and Go: percent-encoded in the URL, not in the header. `me:se@ret`.
        ("http://me:se%40ret@PROXY/", Some("Basic bWU6c2VAcmV0")),
    ] {
        let (listener, config) = proxied("http", url).await;
        let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
        let asking = tokio::spawn(async move { nodes.get("worker-1").await });
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = head(&mut stream).await;
        assert!(
            asked.starts_with("CONNECT api.cluster.test:6443 HTTP/1.1\r\n"),
            "{asked}"
        );
        let mut lines = asked.lines();
        let reported = lines.find_map(|line| line.strip_prefix("Proxy-Authorization: "));
        assert_eq!(reported, credentials, "{url}");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let request = answer(&mut stream).await;
        assert!(
            request.starts_with("GET /api/v1/nodes/worker-1"),
            "{request}"
        );
        assert!(!request.contains("roxy"), "{request}");
        asking.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn through_a_tunnel_the_api_server_is_spoken_to_in_tls() {
    let (listener, config) = proxied("https", "http://PROXY").await;
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    let asking = tokio::spawn(async move { nodes.get("worker-1").await });
    let (mut stream, _) = listener.accept().await.unwrap();
    head(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    // The type of a TLS handshake record.
    assert_eq!(stream.read_u8().await.unwrap(), 0x16);
    drop(stream);
    assert!(asking.await.unwrap().is_err());
}

#[tokio::test]
async fn a_proxy_of_https_is_spoken_to_in_tls() {
    let (listener, config) = proxied("http", "https://me:secret@PROXY").await;
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    let asking = tokio::spawn(async move { nodes.get("worker-1").await });
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 0x16);
    drop(stream);
    let text = error_text(asking.await.unwrap().unwrap_err());
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn socks_gets_the_name_and_resolves_it() {
    let (listener, config) = proxied("http", "socks5://PROXY").await;
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    let asking = tokio::spawn(async move { nodes.get("worker-1").await });
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut greeting = [0; 3];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(greeting, [5, 1, 0], "version 5, one method: none");
    stream.write_all(&[5, 0]).await.unwrap();
    let mut request = [0; 4 + 1 + 16 + 2];
    stream.read_exact(&mut request).await.unwrap();
    assert_eq!(
        request[..5],
        [5, 1, 0, 3, 16],
        "connect to a name of 16 bytes"
    );
    assert_eq!(&request[5..21], b"api.cluster.test");
    assert_eq!(request[21..], 6443_u16.to_be_bytes());
    stream
        .write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    answer(&mut stream).await;
    asking.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_a_proxy_refuses_is_an_error() {
    for (status, expected) in [
        ("407 No", "with status 407: it wants a user and a password"),
        ("403 No", "with status 403: its rules have to allow CONNECT"),
        ("502 No", "with status 502: it cannot reach the server"),
    ] {
        let (listener, config) = proxied("https", "http://me:secret@PROXY").await;
        let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
        let asking = tokio::spawn(async move { nodes.get("worker-1").await });
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        let refusal = format!("HTTP/1.1 {status}\r\n\r\n");
        stream.write_all(refusal.as_bytes()).await.unwrap();
        let text = error_text(asking.await.unwrap().unwrap_err());
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_away_is_named_in_one_sentence_without_its_login() {
    // Bound and not listening: no other test gets the port.
    let port = TcpSocket::new_v4().unwrap();
    port.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = port.local_addr().unwrap();
    let config = behind(address, "https", "http://me:secret@PROXY");
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    let error = nodes.get("worker-1").await.unwrap_err();
    let expected = format!("the proxy http://{address} cannot be reached: connection refused");
    assert_eq!(describe(&error), expected);
}

#[tokio::test]
async fn outside_of_the_tenure_a_proxy_gets_not_one_byte() {
    for proxy in ["http://PROXY", "https://PROXY", "socks5://PROXY"] {
        let (listener, config) = proxied("https", proxy).await;
        let lost = Arc::new(Tenure::unlimited());
        lost.close();
        let nodes: Api<Node> = Api::all(client(&config, &lost));
        let accepted = tokio::spawn(async move { listener.accept().await.unwrap().0 });
        let text = error_text(nodes.get("worker-1").await.unwrap_err());
        // hyper-util's error of SOCKS does not show its cause.
        let is_told = text.contains("not hold the lease") || proxy.starts_with("socks");
        assert!(is_told, "{proxy}: {text}");
        let bytes = everything(accepted.await.unwrap()).await;
        assert_eq!(bytes, b"", "{proxy}");
    }
}

#[tokio::test]
async fn a_kept_tunnel_is_broken_off_when_the_lease_is_lost() {
    let (listener, config) = proxied("http", "http://PROXY").await;
    let tenure = Arc::new(Tenure::unlimited());
    let nodes: Api<Node> = Api::all(client(&config, &tenure));
    let proxy = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        answer(&mut stream).await;
        everything(stream).await
    });
    nodes.get("worker-1").await.unwrap();
    tenure.close();
    let text = error_text(nodes.get("worker-1").await.unwrap_err());
    assert!(text.contains("not hold the lease"), "{text}");
    drop(nodes);
    assert_eq!(proxy.await.unwrap(), b"");
}

#[tokio::test]
async fn a_proxy_that_nobody_can_use_is_refused_and_its_password_is_not_shown() {
    let (_, mut config) = listener("https").await;
    config.proxy_url = Some("ftp://me:secret@proxy.test:3128".parse().unwrap());
    let tenure = Arc::new(Tenure::unlimited());
    let made = tenure_client::client(&config, tenure, None, &RestClients::default());
    let Err(error) = made else {
        panic!("the proxy is taken");
    };
    let cause = std::error::Error::source(&error).unwrap();
    let text = format!("{error}: {cause} {error:?}");
    assert!(text.contains("expected a URL with http://"), "{text}");
    assert!(
        text.contains("cannot be used: ftp://proxy.test:3128"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
}
