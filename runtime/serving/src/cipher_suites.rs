//! TLS versions, cipher suites and key exchange, by the names and numbers that Go's flags take. Weak suites that rustls
//! does not implement are never offered.

use std::sync::Arc;

use ccm_core::go_text::Quoted;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, SupportedKxGroup, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ResolvesServerCert;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, DistinguishedName, NamedGroup, ServerConfig, SignatureScheme,
    SupportedCipherSuite, SupportedProtocolVersion,
};

use crate::ServingError;

/// Versions, suites and curves; the default is rustls's choice.
#[derive(Debug, Clone, Default)]
pub struct TlsSettings {
    /// Whether TLS 1.3 is the lowest version, instead of 1.2.
    pub only_tls13: bool,
    /// Cipher suites of TLS 1.2. Empty: all that rustls has. Those of TLS 1.3 cannot be chosen, as in Go.
    pub suites: Vec<SupportedCipherSuite>,
    /// Key exchange groups. Empty: all that rustls has.
    pub groups: Vec<NamedGroup>,
}

/// Reads `--tls-min-version`. Returns whether only TLS 1.3 is left; versions below 1.2 are never offered.
///
/// # Errors
/// The text is none of Go's names of versions.
pub fn min_version(text: &str) -> Result<bool, String> {
    match text {
        "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(false),
        "VersionTLS13" => Ok(true),
        _ => Err(format!("unknown tls version {}", Quoted(text))),
    }
}

/// Reads `--tls-cipher-suites`. Suites that Go has and rustls has not are left out, and named in the second list:
/// all of them are weak.
///
/// # Errors
/// Go does not know a name either, or no suite is left.
pub fn cipher_suites(names: &[String]) -> Result<(Vec<SupportedCipherSuite>, Vec<String>), String> {
    let provider = rustls::crypto::ring::default_provider();
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for name in names {
        let known = provider.cipher_suites.iter().find(|suite| {
            let ours = suite.suite().as_str().unwrap_or_default();
            // rustls writes TLS13_AES_128_GCM_SHA256, Go TLS_AES_128_GCM_SHA256; Go keeps two short names.
            ours.replace("TLS13_", "TLS_") == *name || ours == format!("{name}_SHA256")
        });
        match known {
            Some(suite) => found.push(*suite),
            None if WEAK_SUITES.contains(&name.as_str()) => left_out.push(name.clone()),
            None => {
                return Err(format!(
                    "Cipher suite {name} not supported or doesn't exist"
                ));
            }
        }
    }
    if found.is_empty() && !names.is_empty() {
        return Err(format!(
            "none of these cipher suites is strong enough to be offered: {}",
            left_out.join(", ")
        ));
    }
    Ok((found, left_out))
}

/// The other suites of Go's crypto/tls, all without forward secrecy or with CBC, RC4 or 3DES.
const WEAK_SUITES: &[&str] = &[
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

/// Reads `--tls-curve-preferences`: the numbers of IANA's registry of supported groups, which Go's CurveIDs are.
/// Groups that this build has not are left out, and named in the second list.
///
/// # Errors
/// A text is no number, or no group is left.
pub fn curves(numbers: &[String]) -> Result<(Vec<NamedGroup>, Vec<String>), String> {
    let offered = rustls::crypto::ring::default_provider().kx_groups;
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for text in numbers {
        let number: u16 = text
            .trim()
            .parse()
            .map_err(|_| format!("{text:?} is not the number of a curve, such as 29 for X25519"))?;
        let group = NamedGroup::from(number);
        if offered.iter().any(|known| known.name() == group) {
            found.push(group);
        } else {
            left_out.push(text.clone());
        }
    }
    if found.is_empty() && !numbers.is_empty() {
        return Err(format!(
            "none of these curves is available: {}",
            left_out.join(", ")
        ));
    }
    Ok((found, left_out))
}

/// Configuration of the secure port.
pub(crate) fn server_config(
    settings: &TlsSettings,
    certificates: Arc<dyn ResolvesServerCert>,
    http2: bool,
) -> Result<ServerConfig, ServingError> {
    let mut provider = rustls::crypto::ring::default_provider();
    if !settings.suites.is_empty() {
        provider.cipher_suites.retain(|suite| {
            matches!(suite, SupportedCipherSuite::Tls13(_)) || settings.suites.contains(suite)
        });
    }
    if !settings.groups.is_empty() {
        provider
            .kx_groups
            .retain(|group: &&dyn SupportedKxGroup| settings.groups.contains(&group.name()));
    }
    let versions: &[&SupportedProtocolVersion] = match settings.only_tls13 {
        true => &[&TLS13],
        false => &[&TLS13, &TLS12],
    };
    let provider = Arc::new(provider);
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| ServingError::Tls(error.to_string()))?
        .with_client_cert_verifier(Arc::new(AnyClientCertificate(provider)))
        .with_cert_resolver(certificates);
    config.alpn_protocols = match http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok(config)
}

/// Accepts every client certificate whose key the client has. Authentication checks later who signed it: as in Go, a
/// certificate of an unknown authority is no reason to refuse the connection.
#[derive(Debug)]
struct AnyClientCertificate(Arc<CryptoProvider>);

impl ClientCertVerifier for AnyClientCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn cipher_suites_have_go_s_names() {
        let (found, left_out) = cipher_suites(&names(&[
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
            "TLS_AES_256_GCM_SHA384",
            "TLS_RSA_WITH_RC4_128_SHA",
        ]))
        .unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(left_out, ["TLS_RSA_WITH_RC4_128_SHA"]);
        assert!(
            cipher_suites(&names(&["TLS_NULL"]))
                .unwrap_err()
                .contains("TLS_NULL")
        );
        assert!(cipher_suites(&names(&["TLS_RSA_WITH_RC4_128_SHA"])).is_err());
        assert!(cipher_suites(&[]).unwrap().0.is_empty());
    }

    #[test]
    fn curves_have_the_numbers_of_the_registry() {
        let (found, left_out) = curves(&names(&["29", "23", "25"])).unwrap();
        assert_eq!(found, [NamedGroup::X25519, NamedGroup::secp256r1]);
        assert_eq!(left_out, ["25"]);
        assert!(curves(&names(&["X25519"])).is_err());
        assert!(curves(&names(&["4588"])).is_err());
    }

    #[test]
    fn versions_have_go_s_names() {
        for (text, expected) in [
            ("", Ok(false)),
            ("VersionTLS10", Ok(false)),
            ("VersionTLS12", Ok(false)),
            ("VersionTLS13", Ok(true)),
        ] {
            assert_eq!(min_version(text), expected);
        }
        assert!(min_version("1.3").is_err());
    }
}
