//! Certificates that the operator names by their fingerprint, and certificates that resemble them.

use std::sync::Arc;

use ccm_fixtures::http_server::Server;
use ccm_host::egress::{Egress, EgressLimits, FetchError};
use ccm_host::grant::Fingerprint;
use rcgen::KeyPair;
use rustls::version::{TLS12, TLS13};
use rustls::{DEFAULT_VERSIONS, SupportedProtocolVersion};
use sha2::{Digest as _, Sha256};

use crate::certificates::{Shown, self_signed, signed_by};
use crate::tls::{authority, some_root};
use crate::world::{Names, error, get, granted, scope};

fn fingerprint(certificate: &rcgen::Certificate) -> Fingerprint {
    let text = hex::encode(Sha256::digest(certificate.der()));
    text.parse().unwrap()
}

/// An egress to this server, under a name that no certificate has, with these fingerprints and an optional root.
fn egress(server: &Server, named: &[Fingerprint], root: Option<String>) -> Arc<Egress> {
    let url = format!("https://pve.test:{}", server.address.port());
    let granted = granted(&[("api", &url)], |grants| {
        grants.targets[0].ca_pem = root;
        grants.targets[0].fingerprints = named.to_vec();
        grants.targets[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
    });
    let names = Names::new(&[&["127.0.0.1"]]);
    Arc::new(Egress::with_lookup("test", &granted, EgressLimits::standard(), names).unwrap())
}

/// The versions of TLS, in which a server proves differently that it has the certificate's key.
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

async fn serve(
    shown: (rcgen::Certificate, KeyPair),
    versions: &[&'static SupportedProtocolVersion],
) -> Server {
    let server = Arc::<Shown>::default();
    server.show(shown);
    server.serve_in(versions).await
}

#[tokio::test]
async fn a_named_certificate_is_taken_whatever_it_says_of_itself() {
    for version in VERSIONS {
        let (certificate, key) = self_signed();
        let (other, _) = self_signed();
        let named = [fingerprint(&other), fingerprint(&certificate)];
        let server = serve((certificate, key), &[version]).await;
        let egress = egress(&server, &named, None);
        scope(&egress).fetch(get("/servers")).await.unwrap();
        assert_eq!(server.lines().len(), 1, "{version:?}");
    }
}

#[tokio::test]
async fn d34_another_certificate_than_the_named_one_gets_no_request_and_both_are_told() {
    let (named, _) = self_signed();
    let (shown, key) = self_signed();
    let (named, reported) = (fingerprint(&named), fingerprint(&shown));
    let server = serve((shown, key), DEFAULT_VERSIONS).await;
    let egress = egress(&server, &[named], None);
    let failed = error(scope(&egress).fetch(get("/servers")).await);
    let line = format!("its SHA-256 fingerprint is {reported}, and the grant names {named}");
    assert!(
        matches!(&failed, FetchError::Unavailable(text) if text.contains("certificate") && text.contains(&line)),
        "{failed}"
    );
    assert!(server.lines().is_empty());
}

#[tokio::test]
async fn d34_who_shows_the_named_certificate_without_its_key_gets_no_request() {
    for version in VERSIONS {
        let (certificate, _) = self_signed();
        let named = fingerprint(&certificate);
        let other_key = KeyPair::generate().unwrap();
        let server = serve((certificate, other_key), &[version]).await;
        let egress = egress(&server, &[named], None);
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        assert!(matches!(failed, FetchError::Unavailable(_)), "{failed}");
        assert!(server.lines().is_empty(), "{version:?}");
    }
}

#[tokio::test]
async fn d34_with_an_authority_both_have_to_fit() {
    let ours = authority();
    let (certificate, key) = signed_by(&ours);
    let named = fingerprint(&certificate);
    let (other, _) = self_signed();
    let server = serve((certificate, key), DEFAULT_VERSIONS).await;
    // The right fingerprint with another authority; the right authority with another name; another fingerprint.
    let table = [
        (named, some_root()),
        (named, ours.pem()),
        (fingerprint(&other), ours.pem()),
    ];
    for (named, root) in table {
        let egress = egress(&server, &[named], Some(root));
        let failed = error(scope(&egress).fetch(get("/servers")).await);
        let is_told =
            matches!(&failed, FetchError::Unavailable(text) if text.contains("certificate"));
        assert!(is_told, "{failed}");
    }
    assert!(server.lines().is_empty());
    let right = crate::tls::egress(
        &format!("https://cloud.test:{}", server.address.port()),
        &ours.pem(),
    );
    scope(&right).fetch(get("/servers")).await.unwrap();
}
