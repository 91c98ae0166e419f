//! Certificates that the egress accepts, checked for each connection anew, and the names that it sends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ccm_fixtures::http_server::{Reply, Server};
use ccm_host::egress::{Egress, EgressLimits, FetchError};
use http::Request;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SigningKey};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DEFAULT_VERSIONS, ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::tls::{authority, egress, limited};
use crate::weak_rsa_key::Weak;
use crate::world::{error, get, scope};

/// The certificate that a server shows, which can be changed, and the names that clients sent.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    certificate: Mutex<Option<Arc<CertifiedKey>>>,
    asked: Mutex<Vec<Option<String>>>,
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_owned);
        self.asked.lock().unwrap().push(name);
        self.certificate.lock().unwrap().clone()
    }
}

impl Shown {
    /// Sets the certificate that is shown from now on.
    pub(crate) fn show(&self, (certificate, key): (rcgen::Certificate, KeyPair)) {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let chain = vec![certificate.der().clone()];
        // The client has to find out whether the key belongs to the certificate.
        let key = ring::sign::any_supported_type(&key).unwrap();
        let shown = CertifiedKey::new(chain, key);
        *self.certificate.lock().unwrap() = Some(Arc::new(shown));
    }

    /// A server that closes each connection after one answer.
    pub(crate) async fn serve(self: &Arc<Shown>) -> Server {
        self.serve_in(DEFAULT_VERSIONS).await
    }

    /// The same in these versions of TLS.
    pub(crate) async fn serve_in(
        self: &Arc<Shown>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Server {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        let answer = b"HTTP/1.1 200 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let tls = TlsAcceptor::from(Arc::new(config));
        Server::with_tls(tls, |_| Reply::Close(answer.to_vec())).await
    }
}

fn params() -> CertificateParams {
    CertificateParams::new(["cloud.test".to_owned()]).unwrap()
}

pub(crate) fn signed_by(
    authority: &CertifiedIssuer<'_, impl SigningKey>,
) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (params().signed_by(&key, authority).unwrap(), key)
}

pub(crate) fn self_signed() -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (params().self_signed(&key).unwrap(), key)
}

fn url(server: &Server) -> String {
    format!("https://cloud.test:{}", server.address.port())
}

fn assert_untrusted(failed: &FetchError) {
    assert!(
        matches!(failed, FetchError::Unavailable(text) if text.contains("certificate")),
        "{failed}"
    );
}

#[tokio::test]
async fn d19_who_vouches_for_itself_or_with_a_weak_key_is_not_believed() {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let weak = CertifiedIssuer::self_signed(ca, Weak::new()).unwrap();
    for (what, certificate, root) in [
        ("itself", self_signed(), authority().pem()),
        ("a key of 512 bits", signed_by(&weak), weak.pem()),
    ] {
        let shown = Arc::<Shown>::default();
        shown.show(certificate);
        let server = shown.serve().await;
        let egress = egress(&url(&server), &root);
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert_untrusted(&failed);
        assert!(server.lines().is_empty(), "{what}");
    }
}

#[tokio::test]
async fn d19_an_authority_that_was_taken_out_is_not_believed_any_more() {
    let (kept, gone) = (authority(), authority());
    let shown = Arc::<Shown>::default();
    shown.show(signed_by(&gone));
    let server = shown.serve().await;
    let both = egress(&url(&server), &format!("{}{}", kept.pem(), gone.pem()));
    scope(&both).fetch(get("/servers")).await.unwrap();
    let less = egress(&url(&server), &kept.pem());
    assert_untrusted(&error(scope(&less).fetch(get("/servers")).await));
    assert_eq!(server.lines().len(), 1);
}

/// A server that answers a client's hello with an old version of TLS, and the bytes that the client sends then.
async fn old_server(minor: u8) -> (SocketAddr, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 5];
        stream.read_exact(&mut head).await.unwrap();
        let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        stream.read_exact(&mut hello).await.unwrap();
        // The server's hello: version, randomness, no session, ECDHE with RSA and AES-128-CBC, no compression.
        let mut body = vec![3, minor];
        body.extend([7; 32]);
        body.extend([0, 0xc0, 0x13, 0]);
        let mut answer = vec![
            22,
            3,
            minor,
            0,
            body.len() as u8 + 4,
            2,
            0,
            0,
            body.len() as u8,
        ];
        answer.extend(body);
        stream.write_all(&answer).await.unwrap();
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
        received
    });
    (address, received)
}

#[tokio::test]
async fn d19_no_old_version_of_tls_is_spoken() {
    /// Fatal alert `protocol_version` (RFC 8446, 6.2).
    const REFUSED: [u8; 2] = [2, 70];
    for (name, minor) in [("SSL 3.0", 0), ("TLS 1.0", 1), ("TLS 1.1", 2)] {
        let (address, received) = old_server(minor).await;
        let limits = EgressLimits {
            connect: Duration::from_secs(5),
            ..EgressLimits::standard()
        };
        let url = format!("https://cloud.test:{}", address.port());
        let egress = limited(&url, &authority().pem(), limits);
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(
            matches!(failed, FetchError::Unavailable(_)),
            "{name}: {failed}"
        );
        let received = received.await.unwrap();
        // One alert, and nothing after it.
        assert_eq!(
            (received.len(), received[0]),
            (7, 21),
            "{name}: {received:?}"
        );
        assert_eq!(received[5..], REFUSED, "{name}");
    }
}

#[tokio::test]
async fn d20_the_handshake_and_the_request_name_the_granted_host_whatever_the_guest_names() {
    let ours = authority();
    let shown = Arc::<Shown>::default();
    shown.show(signed_by(&ours));
    let server = shown.serve().await;
    let egress: Arc<Egress> = egress(&url(&server), &ours.pem());
    let host = format!("cloud.test:{}", server.address.port());
    for evil in ["evil.test", "CLOUD.test", "169.254.169.254"] {
        let request = Request::get(format!("https://{host}/servers")).header("host", evil);
        let request = request.body(Bytes::new()).unwrap();
        scope(&egress).fetch_url(request).await.unwrap();
    }
    let asked = shown.asked.lock().unwrap().clone();
    assert_eq!(asked, vec![Some("cloud.test".to_owned()); 3]);
    for arrived in server.arrived() {
        assert_eq!(arrived.header("host"), host);
    }
}

#[tokio::test]
async fn e22_a_certificate_that_changes_is_looked_at_with_the_next_connection() {
    let (ours, other) = (authority(), authority());
    let shown = Arc::<Shown>::default();
    let server = shown.serve().await;
    let egress = egress(&url(&server), &ours.pem());
    let mut expired = params();
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = KeyPair::generate().unwrap();
    let expired = (expired.signed_by(&key, &ours).unwrap(), key);
    let mut arrived = 0;
    for (what, certificate, is_good) in [
        ("the first", signed_by(&ours), true),
        ("another one", signed_by(&ours), true),
        ("one of somebody else", signed_by(&other), false),
        ("a good one again", signed_by(&ours), true),
        ("one that is over", expired, false),
        ("its own", self_signed(), false),
        ("a good one in the end", signed_by(&ours), true),
    ] {
        shown.show(certificate);
        let answer = scope(&egress).fetch(get("/servers")).await;
        assert_eq!(answer.is_ok(), is_good, "{what}: {answer:?}");
        if let Err(failed) = answer {
            assert_untrusted(&failed);
        }
        arrived += usize::from(is_good);
        assert_eq!(server.lines().len(), arrived, "{what}");
    }
}
