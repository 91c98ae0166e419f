//! The client with a kubeconfig whose client certificate is in files.

use std::path::Path;
use std::sync::Arc;

use ccm_core::safety::tenure::Tenure;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_rustls::TlsAcceptor;

use super::{NODE, client};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issue(authority: &Issuer) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

/// Puts a new client certificate and its key into the files, and returns the certificate.
fn rotate(authority: &Issuer, folder: &Path) -> CertificateDer<'static> {
    let (certificate, key) = issue(authority);
    std::fs::write(folder.join("client.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.join("client.key"), key.serialize_pem()).unwrap();
    certificate.der().clone()
}

/// An API server that refuses the client certificates in `expired`, and tells which one came with each request.
async fn server(
    authority: &Issuer,
    expired: Vec<CertificateDer<'static>>,
) -> (Config, UnboundedReceiver<CertificateDer<'static>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let mut config = Config::new(url.parse().unwrap());
    config.root_cert = Some(vec![authority.der().to_vec()]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let (certificate, key) = issue(authority);
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let (shown, requests) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let (shown, expired) = (shown.clone(), expired.clone());
            tokio::spawn(async move {
                let client = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
                let status = match expired.contains(&client) {
                    true => "401 Unauthorized",
                    false => "200 OK",
                };
                let length = NODE.len();
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{NODE}");
                let mut bytes = Vec::new();
                while stream
                    .read_buf(&mut bytes)
                    .await
                    .is_ok_and(|count| count > 0)
                {
                    if bytes.ends_with(b"\r\n\r\n") {
                        bytes.clear();
                        shown.send(client.clone()).unwrap();
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    (config, requests)
}

async fn minute_passes() {
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    tokio::time::resume();
}

/// As in client-go: a kubelet's certificate, for one, is replaced in its file before it expires.
#[tokio::test]
async fn a_client_certificate_that_is_replaced_in_its_file_is_used() {
    let (authority, folder) = (authority(), tempfile::tempdir().unwrap());
    let (mut config, mut requests) = server(&authority, Vec::new()).await;
    let first = rotate(&authority, folder.path());
    for (file, setting) in [
        ("client.crt", &mut config.auth_info.client_certificate),
        ("client.key", &mut config.auth_info.client_key),
    ] {
        *setting = Some(folder.path().join(file).display().to_string());
    }
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    nodes.get("worker-1").await.unwrap();
    assert_eq!(requests.recv().await.unwrap(), first);
    let second = rotate(&authority, folder.path());
    minute_passes().await;
    nodes.get("worker-1").await.unwrap();
    assert_eq!(requests.recv().await.unwrap(), second);
    // Files that cannot be used leave the certificate as it is: half of a pair, or none.
    let (_, other) = issue(&authority);
    std::fs::write(folder.path().join("client.key"), other.serialize_pem()).unwrap();
    minute_passes().await;
    nodes.get("worker-1").await.unwrap();
    assert_eq!(requests.recv().await.unwrap(), second);
    std::fs::remove_file(folder.path().join("client.crt")).unwrap();
    minute_passes().await;
    nodes.get("worker-1").await.unwrap();
    assert_eq!(requests.recv().await.unwrap(), second);
}

/// An API server refuses a certificate that has expired, also on a connection that was opened before.
#[tokio::test]
async fn the_files_of_a_client_certificate_that_is_refused_are_read_at_once() {
    let (authority, folder) = (authority(), tempfile::tempdir().unwrap());
    let first = rotate(&authority, folder.path());
    let (mut config, mut requests) = server(&authority, vec![first.clone()]).await;
    let file = |name| Some(folder.path().join(name).display().to_string());
    config.auth_info.client_certificate = file("client.crt");
    config.auth_info.client_key = file("client.key");
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    let second = rotate(&authority, folder.path());
    nodes.get("worker-1").await.unwrap_err();
    nodes.get("worker-1").await.unwrap();
    assert_eq!(requests.recv().await.unwrap(), first);
    assert_eq!(requests.recv().await.unwrap(), second);
}

/// A file on a file system that does not answer delays the request that reads it, and no other.
#[tokio::test]
async fn while_the_files_of_a_client_certificate_are_read_requests_are_sent() {
    let (authority, folder) = (authority(), tempfile::tempdir().unwrap());
    let (mut config, mut requests) = server(&authority, Vec::new()).await;
    let first = rotate(&authority, folder.path());
    let certificate = folder.path().join("client.crt");
    config.auth_info.client_certificate = Some(certificate.display().to_string());
    config.auth_info.client_key = Some(folder.path().join("client.key").display().to_string());
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    nodes.get("worker-1").await.unwrap();
    // Whoever reads it waits for somebody who writes.
    let text = std::fs::read(&certificate).unwrap();
    std::fs::remove_file(&certificate).unwrap();
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(mkfifo.arg(&certificate).status().unwrap().success());
    minute_passes().await;
    let reading = tokio::spawn({
        let nodes = nodes.clone();
        async move { nodes.get("worker-1").await.map(drop) }
    });
    // Opened as soon as it is read.
    let open = move || std::fs::File::options().write(true).open(certificate);
    let mut writer = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    let other = nodes.get("worker-1");
    let answered = tokio::time::timeout(std::time::Duration::from_secs(10), other).await;
    std::io::Write::write_all(&mut writer, &text).unwrap();
    drop(writer);
    answered.unwrap().unwrap();
    reading.await.unwrap().unwrap();
    for _ in 0..3 {
        assert_eq!(requests.recv().await.unwrap(), first);
    }
}

/// The authorities of a file count before those that were read at the start, so that a replaced file is used.
#[tokio::test]
async fn the_file_of_an_authority_counts_before_what_was_read() {
    let (trusted, other, folder) = (authority(), authority(), tempfile::tempdir().unwrap());
    rotate(&trusted, folder.path());
    let (mut config, _requests) = server(&trusted, Vec::new()).await;
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, trusted.pem()).unwrap();
    let path = |name| Some(folder.path().join(name).display().to_string());
    config.auth_info.client_certificate = path("client.crt");
    config.auth_info.client_key = path("client.key");
    config.root_cert = Some(vec![other.der().to_vec()]);
    config.root_cert_file = Some(file);
    let nodes: Api<Node> = Api::all(client(&config, &Arc::new(Tenure::unlimited())));
    nodes.get("worker-1").await.unwrap();
}
