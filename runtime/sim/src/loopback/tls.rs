//! TLS with the certificate that whoever starts a simulator brings along. Nothing is made or judged here.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// What a simulator needs to speak TLS, in PEM. There is no `Debug`: a key is among it.
#[derive(Clone)]
pub struct Tls {
    /// The certificate. Clients are sent to `localhost`, and may go to `127.0.0.1`: it should hold for both.
    pub certificate_pem: String,
    /// The certificate's key.
    pub key_pem: String,
    /// The authority that clients must trust. The simulator hands it on, and makes no use of it.
    pub ca_pem: String,
}

/// Why a certificate could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate or its key is not PEM.
    #[error("cannot read the certificate")]
    Read(#[from] pem::Error),
    /// The TLS library does not take the certificate.
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
