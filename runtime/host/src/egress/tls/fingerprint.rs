//! Certificates that the operator names by their SHA-256 fingerprint, for servers with self-signed certificates, such
//! as machines on an operator's own floor.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// The SHA-256 of a certificate in DER form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// A text that is no fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "expected a SHA-256 fingerprint: 64 hexadecimal digits, with or without colons between pairs"
)]
pub struct FingerprintError;

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// As `openssl x509 -fingerprint -sha256` and web interfaces print it.
    fn from_str(text: &str) -> Result<Fingerprint, FingerprintError> {
        let pairs: Vec<&str> = text.split(':').collect();
        let has_pairs = pairs.len() == 32 && pairs.iter().all(|pair| pair.len() == 2);
        if pairs.len() > 1 && !has_pairs {
            return Err(FingerprintError);
        }
        let bytes = hex::decode(pairs.concat()).map_err(|_| FingerprintError)?;
        let bytes = bytes.try_into().map_err(|_| FingerprintError)?;
        Ok(Fingerprint(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The server showed a certificate that no fingerprint names.
#[derive(Error)]
#[error("its SHA-256 fingerprint is {shown}, and the grant names {named}")]
struct Unnamed {
    shown: Fingerprint,
    named: String,
}

/// rustls shows errors of a verifier in their `Debug` form, and operators read it.
impl fmt::Debug for Unnamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Accepts the named certificates and no others. The handshake still proves that the server has the certificate's key.
#[derive(Debug)]
pub(super) struct Verifier {
    named: Vec<Fingerprint>,
    /// Verifier that has to accept the certificate, too.
    chain: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    pub(super) fn new(
        named: &[Fingerprint],
        chain: Option<Arc<dyn ServerCertVerifier>>,
        provider: Arc<CryptoProvider>,
    ) -> Verifier {
        Verifier {
            named: named.to_vec(),
            chain,
            provider,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown = Fingerprint::of(certificate);
        if !self.named.contains(&shown) {
            let named: Vec<String> = self.named.iter().map(ToString::to_string).collect();
            let named = named.join(", ");
            let unnamed = OtherError(Arc::new(Unnamed { shown, named }));
            return Err(CertificateError::Other(unnamed).into());
        }
        match &self.chain {
            Some(chain) => chain.verify_server_cert(certificate, intermediates, name, stapled, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
