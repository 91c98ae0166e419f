//! TLS with a certificate supplied by the caller. Creates and verifies nothing.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The simulator's TLS credentials, in PEM. There is no `Debug`, because they contain a key.
#[derive(Clone)]
pub struct Tls {
    /// The certificate. Should be valid for `localhost`, which endpoints name, and for `127.0.0.1`.
    pub certificate_pem: String,
    /// The certificate's private key.
    pub key_pem: String,
    /// The CA that clients must trust. The simulator only passes it on.
    pub ca_pem: String,
}

/// Why a certificate is unusable.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate or its key is not PEM.
    #[error("cannot read the certificate")]
    Read(#[from] pem::Error),
    /// The TLS library rejects the certificate.
    #[error("cannot use the certificate")]
    Configure(#[from] rustls::Error),
}

pub(super) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(tls.certificate_pem.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(tls.key_pem.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates.collect::<Result<_, _>>()?, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
