//! The TLS versions, cipher suites and key exchange groups of the secure port, by its settings: a client that has none
//! of them is refused in the handshake.

use std::sync::Arc;

use rustls::NamedGroup;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use tokio_rustls::TlsConnector;

use super::world::World;
use crate::cipher_suites::{TlsSettings, cipher_suites, curves, min_version};
use crate::settings::SecureServing;

/// The server's key is an elliptic one, so these are its suites of TLS 1.2.
const AES_128: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
const AES_256: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;

/// The parameters that a client and a server have agreed on.
struct Agreed {
    version: ProtocolVersion,
    suite: CipherSuite,
    group: NamedGroup,
}

/// The result of a handshake with a client of this version, whose cryptography `offer` restricts.
async fn agreed(
    tls: TlsSettings,
    version: &'static SupportedProtocolVersion,
    offer: impl FnOnce(&mut CryptoProvider),
) -> std::io::Result<Agreed> {
    let world = World::new();
    let settings = SecureServing {
        tls,
        ..world.settings()
    };
    let server = world.start_with(settings).await.unwrap();
    let mut provider = default_provider();
    offer(&mut provider);
    let mut roots = RootCertStore::empty();
    roots.add(world.servers.certificate()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(server.address()).await?;
    let name = ServerName::from(server.address().ip());
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await?;
    let session = stream.get_ref().1;
    Ok(Agreed {
        version: session.protocol_version().unwrap(),
        suite: session.negotiated_cipher_suite().unwrap().suite(),
        group: session.negotiated_key_exchange_group().unwrap().name(),
    })
}

fn at_least(version: &str) -> TlsSettings {
    TlsSettings {
        only_tls13: min_version(version).unwrap(),
        ..TlsSettings::default()
    }
}

fn only(suite: &str) -> TlsSettings {
    TlsSettings {
        suites: cipher_suites(&[suite.to_owned()]).unwrap().0,
        ..TlsSettings::default()
    }
}

#[tokio::test]
async fn a_client_of_tls_1_2_is_refused_where_1_3_is_the_lowest_version() {
    for (lowest, client, expected) in [
        ("", &TLS12, Some(ProtocolVersion::TLSv1_2)),
        ("VersionTLS12", &TLS12, Some(ProtocolVersion::TLSv1_2)),
        ("VersionTLS12", &TLS13, Some(ProtocolVersion::TLSv1_3)),
        ("VersionTLS13", &TLS13, Some(ProtocolVersion::TLSv1_3)),
        ("VersionTLS13", &TLS12, None),
    ] {
        let found = agreed(at_least(lowest), client, |_| {}).await;
        let refusal = found.as_ref().err().map(ToString::to_string);
        let version = found.ok().map(|agreed| agreed.version);
        assert_eq!(version, expected, "{lowest}, {client:?}: {refusal:?}");
        let is_told = refusal.is_none_or(|text| text.contains("ProtocolVersion"));
        assert!(is_told, "{lowest}, {client:?}");
    }
}

#[tokio::test]
async fn a_cipher_suite_that_is_not_listed_is_refused() {
    let listed = || only("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    for (tls, client, expected) in [
        (TlsSettings::default(), &[AES_256][..], Some(AES_256)),
        (listed(), &[AES_128], Some(AES_128)),
        (listed(), &[AES_256, AES_128], Some(AES_128)),
        (listed(), &[AES_256], None),
    ] {
        let offer = |all: &mut CryptoProvider| {
            all.cipher_suites
                .retain(|suite| client.contains(&suite.suite()));
        };
        let found = agreed(tls, &TLS12, offer).await;
        let refusal = found.as_ref().err().map(ToString::to_string);
        let suite = found.ok().map(|agreed| agreed.suite);
        assert_eq!(suite, expected, "{client:?}: {refusal:?}");
        let is_told = refusal.is_none_or(|text| text.contains("HandshakeFailure"));
        assert!(is_told, "{client:?}");
    }
}

#[tokio::test]
async fn a_key_exchange_group_that_is_not_preferred_is_refused() {
    let preferred = |numbers: &[&str]| {
        let numbers: Vec<String> = numbers.iter().map(|&number| number.to_owned()).collect();
        TlsSettings {
            groups: curves(&numbers).unwrap().0,
            ..TlsSettings::default()
        }
    };
    const P256: NamedGroup = NamedGroup::secp256r1;
    const X25519: NamedGroup = NamedGroup::X25519;
    for (tls, client, expected) in [
        (TlsSettings::default(), &[P256][..], Some(P256)),
        (preferred(&["23"]), &[P256], Some(P256)),
        (preferred(&["23"]), &[X25519, P256], Some(P256)),
        (preferred(&["29"]), &[P256], None),
    ] {
        for version in [&TLS12, &TLS13] {
            let offer = |all: &mut CryptoProvider| {
                all.kx_groups.retain(|group| client.contains(&group.name()));
            };
            let found = agreed(tls.clone(), version, offer).await;
            let group = found.ok().map(|agreed| agreed.group);
            assert_eq!(group, expected, "{version:?}, {client:?}");
        }
    }
}
