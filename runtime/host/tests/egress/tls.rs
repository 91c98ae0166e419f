//! TLS: a private CA is the only root, names have to fit, and nothing falls back to less.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ccm_fixtures::http_server::{Server, ok};
use ccm_host::egress::{Egress, EgressError, EgressLimits, FetchError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use crate::world::{CANARY, Names, error, get, granted, scope};

/// A certificate authority for one test.
pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    called("authority")
}

fn called(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Some root, for endpoints to which no test connects.
pub(crate) fn some_root() -> String {
    static ROOT: OnceLock<String> = OnceLock::new();
    ROOT.get_or_init(|| authority().pem()).clone()
}

pub(crate) fn acceptor(
    authority: &CertifiedIssuer<'static, KeyPair>,
    names: &[&str],
    expired: bool,
    protocols: &[&str],
) -> TlsAcceptor {
    let mut params =
        CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    if expired {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    TlsAcceptor::from(Arc::new(config))
}

pub(crate) fn egress(url: &str, root: &str) -> Arc<Egress> {
    limited(url, root, EgressLimits::standard())
}

pub(crate) fn limited(url: &str, root: &str, limits: EgressLimits) -> Arc<Egress> {
    let granted = granted(&[("api", url)], |grants| {
        grants.targets[0].ca_pem = Some(root.to_owned());
        grants.targets[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
    });
    let names = Names::new(&[&["127.0.0.1"]]);
    Arc::new(Egress::with_lookup("test", &granted, limits, names).unwrap())
}

#[tokio::test]
async fn a_private_ca_is_trusted_for_the_names_it_signed() {
    let authority = authority();
    let server = Server::with_tls(
        acceptor(&authority, &["cloud.test", "127.0.0.1"], false, &[]),
        |_| ok("secure"),
    )
    .await;
    let port = server.address.port();
    for host in ["cloud.test", "127.0.0.1"] {
        let egress = egress(&format!("https://{host}:{port}/v1"), &authority.pem());
        let answer = scope(&egress).fetch(get("/servers")).await.unwrap();
        assert_eq!(answer.body.as_ref(), b"secure");
    }
    assert_eq!(
        server.arrived()[0].header("authorization"),
        format!("Bearer {CANARY}")
    );
}

#[tokio::test]
async fn a_certificate_that_does_not_fit_gets_no_request() {
    let (ours, other) = (authority(), authority());
    for (what, tls, host, root) in [
        (
            "another CA",
            acceptor(&other, &["cloud.test"], false, &[]),
            "cloud.test",
            ours.pem(),
        ),
        (
            "a CA of another name",
            acceptor(&called("stranger"), &["cloud.test"], false, &[]),
            "cloud.test",
            ours.pem(),
        ),
        (
            "another name",
            acceptor(&ours, &["cloud.example"], false, &[]),
            "cloud.test",
            ours.pem(),
        ),
        (
            "a parent's name",
            acceptor(&ours, &["test"], false, &[]),
            "cloud.test",
            ours.pem(),
        ),
        (
            "no address",
            acceptor(&ours, &["cloud.test"], false, &[]),
            "127.0.0.1",
            ours.pem(),
        ),
        (
            "the past",
            acceptor(&ours, &["cloud.test"], true, &[]),
            "cloud.test",
            ours.pem(),
        ),
    ] {
        let server = Server::with_tls(tls, |_| ok("")).await;
        let egress = egress(&format!("https://{host}:{}", server.address.port()), &root);
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(
            matches!(&failed, FetchError::Unavailable(text) if text.contains("certificate")),
            "{what}: {failed}"
        );
        // The error points to a missing private authority. An authority of the same name looks like a wrong key.
        let is_about_signer = failed
            .to_string()
            .contains("caFile or caPem names a private one");
        assert_eq!(
            is_about_signer,
            what == "a CA of another name",
            "{what}: {failed}"
        );
        assert!(server.lines().is_empty(), "{what}");
    }
}

#[tokio::test]
async fn what_speaks_no_tls_gets_nothing() {
    let server = Server::start(|_| ok("")).await;
    // The server waits for a request and the client for a handshake.
    let limits = EgressLimits {
        connect: Duration::from_millis(500),
        ..EgressLimits::standard()
    };
    let url = format!("https://cloud.test:{}", server.address.port());
    let egress = limited(&url, &some_root(), limits);
    let failed = error(scope(&egress).fetch(get("/servers")).await);
    assert!(
        matches!(failed, FetchError::Unavailable(_) | FetchError::TimedOut(_)),
        "{failed}"
    );
    assert!(server.lines().is_empty());
}

#[test]
fn certificates_that_cannot_be_read_are_an_error_of_the_grant() {
    for pem in [
        "",
        "not a certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let granted = granted(&[("api", "https://cloud.test")], |grants| {
            grants.targets[0].ca_pem = Some(pem.to_owned())
        });
        let refused = Egress::new("test", &granted, EgressLimits::standard());
        assert!(matches!(refused, Err(EgressError::Dial { .. })), "{pem:?}");
    }
}
