//! A private certificate authority and the one certificate it issues, for `localhost` and `127.0.0.1`.
//!
//! The authority's key lives as long as [`acceptor`] runs; it signs nothing else.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// Why no certificate could be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The authority or the certificate could not be made.
    #[error("cannot issue a certificate")]
    Issue(#[from] rcgen::Error),
    /// The TLS library does not take the certificate.
    #[error("cannot use the certificate")]
    Configure(#[from] rustls::Error),
}

/// Makes an authority, a certificate and an acceptor for it. Returns the authority as PEM, too.
pub(super) fn acceptor() -> Result<(TlsAcceptor, String), TlsError> {
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "Simulated cloud authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut leaf = CertificateParams::new(names)?;
    leaf.distinguished_name
        .push(DnType::CommonName, "localhost");
    leaf.use_authority_key_identifier_extension = true;
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &authority)?;

    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), authority.pem()))
}
