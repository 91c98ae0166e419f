//! TLS configuration of outgoing connections: rustls with ring, and the trusted certificates. The caller sets ALPN
//! protocols.

use std::error::Error as StdError;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

pub use fingerprint::{Fingerprint, FingerprintError};

mod fingerprint;

/// The server certificates that are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Roots of the platform.
    Platform,
    /// Only certificates that these ones, in PEM, have signed.
    Only(&'a str),
    /// Only the certificates with these fingerprints, regardless of their names, dates and issuers. With roots (PEM), a
    /// certificate also has to pass the usual checks against these.
    Pinned(&'a [Fingerprint], Option<&'a str>),
    /// No roots, for a client that never uses TLS. The platform's roots are not read.
    NoRoots,
}

impl<'a> Trust<'a> {
    /// The operator's certificates, or the platform's roots if there are none.
    pub fn given(ca_pem: Option<&'a str>) -> Trust<'a> {
        ca_pem.map_or(Trust::Platform, Trust::Only)
    }

    /// The certificates with these fingerprints, or those of [`Trust::given`] if there are no fingerprints.
    pub fn pinned(fingerprints: &'a [Fingerprint], ca_pem: Option<&'a str>) -> Trust<'a> {
        match fingerprints {
            [] => Trust::given(ca_pem),
            fingerprints => Trust::Pinned(fingerprints, ca_pem),
        }
    }
}

/// Why TLS cannot be configured.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The given certificates cannot be parsed.
    #[error("the CA certificates cannot be read")]
    Certificates(#[source] Box<dyn StdError + Send + Sync>),
    /// Setup failed, for example because the platform has no root certificates.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// TLS client configuration without a client certificate and without application protocols. Session resumption is
/// off, because it would skip the check of the server's certificate.
///
/// # Errors
/// See [`TlsError`].
pub fn client_config(trust: Trust<'_>) -> Result<ClientConfig, TlsError> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(ring.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?;
    let mut config = match trust {
        Trust::Platform => {
            let verifier =
                rustls_platform_verifier::Verifier::new(ring).map_err(TlsError::Setup)?;
            versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth()
        }
        Trust::Only(pem) => {
            let roots = roots(pem).map_err(TlsError::Certificates)?;
            versions.with_root_certificates(roots).with_no_client_auth()
        }
        Trust::Pinned(fingerprints, ca_pem) => {
            let chain = ca_pem.map(|pem| chain(pem, ring.clone())).transpose()?;
            let verifier = fingerprint::Verifier::new(fingerprints, chain, ring);
            versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth()
        }
        Trust::NoRoots => versions
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn chain(pem: &str, ring: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let roots = roots(pem).map_err(TlsError::Certificates)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), ring).build();
    Ok(verifier.map_err(|error| TlsError::Certificates(Box::new(error)))?)
}

fn roots(pem: &str) -> Result<RootCertStore, Box<dyn StdError + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    match roots.is_empty() {
        true => Err("no certificate in the text".into()),
        false => Ok(roots),
    }
}
