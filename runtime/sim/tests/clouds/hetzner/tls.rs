//! TLS: only a client that trusts the certificate can connect.

use std::sync::Arc;

use ccm_sim::hetzner::{Hetzner, Options, ServerSpec, StartError, Tls, TlsError};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::{TOKEN, cloud_with};

/// A certificate that is its own authority.
fn certificate() -> Tls {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    Tls {
        certificate_pem: cert.pem(),
        key_pem: signing_key.serialize_pem(),
        ca_pem: cert.pem(),
    }
}

async fn tls_cloud() -> Hetzner {
    cloud_with(Options {
        tls: Some(certificate()),
        ..Options::new(TOKEN)
    })
    .await
}

/// A client that trusts one authority and no other.
fn client_of(authority: &Hetzner) -> reqwest::Client {
    let pem = authority.ca_pem().expect("TLS is on");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = reqwest::Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(config);
    builder.build().unwrap()
}

async fn get(client: &reqwest::Client, url: &str) -> reqwest::Result<reqwest::Response> {
    client.get(url).bearer_auth(TOKEN).send().await
}

#[tokio::test]
async fn only_the_own_authority_opens_the_door() {
    let cloud = tls_cloud().await;
    cloud.add_server(ServerSpec::named("node-1"));
    let url = format!("{}/servers", cloud.endpoint());
    assert!(url.starts_with("https://localhost:"), "{url}");

    let stranger = client_of(&tls_cloud().await);
    let error = format!("{:?}", get(&stranger, &url).await.unwrap_err());
    assert!(
        error.contains("UnknownIssuer") || error.contains("BadSignature"),
        "{error}"
    );
    assert_eq!(
        cloud.requests(),
        [],
        "nothing was asked before trust was settled"
    );

    let friend = client_of(&cloud);
    let by_address = url.replace("localhost", "127.0.0.1");
    for url in [&url, &by_address] {
        let text = get(&friend, url).await.unwrap().text().await.unwrap();
        assert!(text.contains("\"node-1\""), "{url}");
    }
    let elsewhere = url.replace("localhost", "127.0.0.2");
    get(&friend, &elsewhere).await.unwrap_err();
}

#[tokio::test]
async fn plain_http_is_not_spoken_on_a_tls_port() {
    let cloud = tls_cloud().await;
    let url = format!("http://{}/v1/servers", cloud.address());
    get(&super::reqwest_client(), &url).await.unwrap_err();
    assert_eq!(cloud.requests(), []);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_starts_nothing() {
    type Is = fn(&TlsError) -> bool;
    let unread: Is = |error| matches!(error, TlsError::Read(_));
    let unfit: Is = |error| matches!(error, TlsError::Configure(_));
    let other = certificate().key_pem;
    let table = [
        (String::new(), unread),
        ("no PEM".to_owned(), unread),
        (other, unfit),
    ];
    for (key_pem, is_expected) in table {
        let options = Options {
            tls: Some(Tls {
                key_pem,
                ..certificate()
            }),
            ..Options::new(TOKEN)
        };
        let Err(StartError::Tls(error)) = Hetzner::start(options).await else {
            panic!("it started");
        };
        assert!(is_expected(&error), "{error:?}");
    }
}
