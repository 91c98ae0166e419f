//! The private key that signs. Its bytes are wiped when it is dropped, and it has no form for log lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _,
};
use ring::{digest, error::KeyRejected};
use zeroize::Zeroizing;

use super::sealed;
use crate::trust::{Misread, PublicKey};

/// A private key: ECDSA on P-256 or P-384, or Ed25519.
pub struct SigningKey {
    pkcs8: Zeroizing<Vec<u8>>,
    kind: Kind,
    /// The public half in DER, as key files have it.
    public: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    P256,
    P384,
    Ed25519,
}

/// Longest text of a key, in bytes.
const KEY_BYTES: usize = 16 << 10;

/// What stands before the key's bits in the DER form of a public key (RFC 5480, RFC 8410).
const P256_PREFIX: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P384_PREFIX: &[u8] = &[
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b,
    0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];
const ED25519_PREFIX: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

impl SigningKey {
    /// Reads cosign's private key (`cosign.key`, sealed with `password`), or a plain one in PKCS #8.
    ///
    /// # Errors
    /// What is there instead, or that the password is missing or wrong. Never quotes the text.
    pub fn from_pem(text: &str, password: Option<&[u8]>) -> Result<SigningKey, Misread> {
        if text.len() > KEY_BYTES {
            return Err(Misread::new("this is too long to be a private key"));
        }
        let (label, contents) = block(text).ok_or_else(|| {
            Misread::new("a private key is wanted in PEM, as `cosign generate-key-pair` writes it")
        })?;
        match label {
            "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" => {
                let password = password.ok_or_else(|| {
                    Misread::new("the key is sealed: its password is wanted in COSIGN_PASSWORD")
                })?;
                Self::from_pkcs8(sealed::open(&contents, password)?)
            }
            "PRIVATE KEY" => Self::from_pkcs8(contents),
            "EC PRIVATE KEY" => Err(Misread::new(
                "this form of key is not read; `openssl pkcs8 -topk8 -nocrypt` makes the one that is",
            )),
            "ENCRYPTED PRIVATE KEY" => Err(Misread::new(
                "this form of sealed key is not read; `cosign import-key-pair` makes the one that is",
            )),
            "PUBLIC KEY" => Err(Misread::new(
                "this is a public key; the private one is wanted",
            )),
            _ => Err(Misread::new(
                "a private key is wanted, and this is something else",
            )),
        }
    }

    fn from_pkcs8(pkcs8: Zeroizing<Vec<u8>>) -> Result<SigningKey, Misread> {
        for kind in [Kind::P256, Kind::P384, Kind::Ed25519] {
            if let Ok(public) = kind.public(&pkcs8) {
                return Ok(SigningKey {
                    pkcs8,
                    kind,
                    public,
                });
            }
        }
        Err(Misread::new(
            "the key cannot be used: ECDSA on P-256 or P-384 and Ed25519 can, with the public half inside",
        ))
    }

    /// The public half in PEM: what belongs into the configuration.
    pub fn public_pem(&self) -> String {
        pem::encode_config(
            &pem::Pem::new("PUBLIC KEY", self.public.clone()),
            pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
        )
    }

    /// The public half.
    ///
    /// # Errors
    /// Never for a key that could be read.
    pub fn public_key(&self) -> Result<PublicKey, Misread> {
        PublicKey::from_pem(&self.public_pem())
    }

    /// Tells keys apart, for people; see [`PublicKey::fingerprint`].
    pub fn fingerprint(&self) -> String {
        crate::trust::fingerprint(&self.public)
    }

    /// By what a bundle names its key: cosign's way.
    pub(super) fn hint(&self) -> String {
        STANDARD.encode(digest::digest(&digest::SHA256, &self.public))
    }

    /// The digest of `message` that belongs to this key's signatures, with its name in bundles.
    pub(super) fn digest(&self, message: &[u8]) -> (&'static str, Vec<u8>) {
        let (name, algorithm) = match self.kind {
            Kind::P256 | Kind::Ed25519 => ("SHA2_256", &digest::SHA256),
            Kind::P384 => ("SHA2_384", &digest::SHA384),
        };
        (name, digest::digest(algorithm, message).as_ref().to_vec())
    }

    /// The signature over `message`: ASN.1 for ECDSA.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Misread> {
        let unusable = || Misread::new("the key cannot be used");
        let random = SystemRandom::new();
        let signature = match self.kind {
            Kind::P256 | Kind::P384 => self
                .kind
                .ecdsa(&self.pkcs8)
                .map_err(|_| unusable())?
                .sign(&random, message)
                .map_err(|_| unusable())?
                .as_ref()
                .to_vec(),
            Kind::Ed25519 => ed25519(&self.pkcs8)
                .map_err(|_| unusable())?
                .sign(message)
                .as_ref()
                .to_vec(),
        };
        Ok(signature)
    }
}

impl Kind {
    fn ecdsa(self, pkcs8: &[u8]) -> Result<EcdsaKeyPair, KeyRejected> {
        let algorithm = match self {
            Kind::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
            Kind::P256 | Kind::Ed25519 => &ECDSA_P256_SHA256_ASN1_SIGNING,
        };
        EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &SystemRandom::new())
    }

    /// The public half in DER, if the key is of this kind.
    fn public(self, pkcs8: &[u8]) -> Result<Vec<u8>, KeyRejected> {
        Ok(match self {
            Kind::P256 => [P256_PREFIX, self.ecdsa(pkcs8)?.public_key().as_ref()].concat(),
            Kind::P384 => [P384_PREFIX, self.ecdsa(pkcs8)?.public_key().as_ref()].concat(),
            Kind::Ed25519 => [ED25519_PREFIX, ed25519(pkcs8)?.public_key().as_ref()].concat(),
        })
    }
}

/// openssl writes the first version of PKCS #8, which has no public half to check.
fn ed25519(pkcs8: &[u8]) -> Result<Ed25519KeyPair, KeyRejected> {
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8)
}

/// The name and the contents of the only block of a PEM text, without copies that stay behind.
fn block(text: &str) -> Option<(&str, Zeroizing<Vec<u8>>)> {
    let (_, begun) = text.split_once("-----BEGIN ")?;
    let (label, body) = begun.split_once("-----")?;
    let (body, ended) = body.split_once("-----END ")?;
    let rest = ended.strip_prefix(label)?.strip_prefix("-----")?;
    if rest.contains("-----BEGIN ") {
        return None;
    }
    let packed: Zeroizing<Vec<u8>> = Zeroizing::new(
        body.bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect(),
    );
    let contents = Zeroizing::new(STANDARD.decode(&*packed).ok()?);
    Some((label, contents))
}
