//! TLS settings of clients for servers that a test started: the root to trust, and the client's own certificate.

use std::sync::Arc;

use anyhow::Result;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Settings of a client that trusts only `root`, and presents a certificate if one is given. It speaks HTTP/2 if the
/// server does.
///
/// # Errors
/// A certificate or a key cannot be read.
pub fn config(
    root: CertificateDer<'static>,
    own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key)?,
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
