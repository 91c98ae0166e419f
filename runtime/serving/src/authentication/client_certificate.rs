//! Client certificates: their verification, and their user. The common name is the user, the organisations are its
//! groups.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, ObjectIdentifier, PrintableStringRef, Utf8StringRef};
use x509_cert::der::{Any, Decode as _};

use super::{PeerCertificates, Unauthorized, User};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// A bundle of CA certificates that vouches for clients.
#[derive(Clone)]
pub(crate) struct CertificateAuthority(Arc<dyn ClientCertVerifier>);

impl CertificateAuthority {
    /// Reads a bundle in PEM form.
    ///
    /// # Errors
    /// It has no certificate, or one that cannot be parsed.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<CertificateAuthority, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        verifier
            .build()
            .map(CertificateAuthority)
            .map_err(|error| error.to_string())
    }

    /// The user that the client's certificate names. `None`: the client has none, or it has no common name.
    ///
    /// # Errors
    /// The certificate is not signed by this authority, or has expired.
    pub(super) fn user(&self, peer: &PeerCertificates) -> Result<Option<User>, Unauthorized> {
        let Some(subject) = self.subject(peer)? else {
            return Ok(None);
        };
        Ok(subject.common_name.map(|name| User {
            name,
            groups: subject.organizations,
            ..User::default()
        }))
    }

    /// The common name of a verified certificate. `None`: there is none.
    pub(super) fn common_name(
        &self,
        peer: &PeerCertificates,
    ) -> Result<Option<String>, Unauthorized> {
        let subject = self.subject(peer)?;
        Ok(subject.map(|subject| subject.common_name.unwrap_or_default()))
    }

    fn subject(&self, peer: &PeerCertificates) -> Result<Option<Subject>, Unauthorized> {
        let Some((own, chain)) = peer.0.split_first() else {
            return Ok(None);
        };
        self.0
            .verify_client_cert(own, chain, UnixTime::now())
            .map_err(|_| Unauthorized::Invalid)?;
        Subject::of(own).map(Some).ok_or(Unauthorized::Invalid)
    }
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateAuthority")
    }
}

/// The user and the groups in a certificate.
struct Subject {
    common_name: Option<String>,
    organizations: Vec<String>,
}

impl Subject {
    fn of(certificate: &CertificateDer<'_>) -> Option<Subject> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let names = &certificate.tbs_certificate.subject.0;
        let all = |kind: ObjectIdentifier| {
            let values = names.iter().flat_map(|name| name.0.iter());
            values
                .filter(move |value| value.oid == kind)
                .filter_map(|value| text(&value.value))
        };
        Some(Subject {
            // The last one, as in Go.
            common_name: all(COMMON_NAME).next_back().filter(|name| !name.is_empty()),
            organizations: all(ORGANIZATION).collect(),
        })
    }
}

fn text(value: &Any) -> Option<String> {
    if let Ok(text) = value.decode_as::<Utf8StringRef<'_>>() {
        return Some(text.to_string());
    }
    if let Ok(text) = value.decode_as::<PrintableStringRef<'_>>() {
        return Some(text.to_string());
    }
    let text = value.decode_as::<Ia5StringRef<'_>>().ok()?;
    Some(text.to_string())
}
