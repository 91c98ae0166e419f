//! Public keys trusted by the operator, and verification of their signatures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ccm_host::Digest;
use sigstore_verify::crypto::{
    KeyAlgorithm, SigningScheme, VerificationKey, validate_raw_public_key,
};
use sigstore_verify::types::DerPublicKey;

use super::{Misread, crypto_provider};

/// A trusted public key: ECDSA on P-256 or P-384, Ed25519, or RSA.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The bits of the key, without the algorithm.
    bits: Vec<u8>,
    /// Accepted signature schemes. P-384 accepts either hash, as tools differ.
    schemes: &'static [SigningScheme],
    fingerprint: String,
}

/// Longest text of a key, in bytes.
const KEY_BYTES: usize = 16 << 10;

impl PublicKey {
    /// Parses one `PUBLIC KEY` in PEM, as written by `cosign generate-key-pair` and `openssl pkey -pubout`.
    ///
    /// # Errors
    /// What the text is instead. Never quotes it: it could be a private key.
    pub fn from_pem(text: &str) -> Result<PublicKey, Misread> {
        crypto_provider::install();
        if text.len() > KEY_BYTES {
            return Err(Misread::new("this is too long to be a public key"));
        }
        let blocks = pem::parse_many(text).map_err(|_| Misread::new(WANTED))?;
        match blocks.as_slice() {
            [block] if block.tag() == "PUBLIC KEY" => Self::from_der(block.contents()),
            [block] if block.tag().contains("PRIVATE KEY") => Err(Misread::new(
                "this is a private key; only its public half belongs here (`cosign public-key --key …`, `openssl \
                 pkey -pubout`), and a private key that was shown around should be replaced",
            )),
            [block] if block.tag() == "CERTIFICATE" => Err(Misread::new(
                "this is a certificate; certificates belong under `trust.keyless`, keys are wanted here",
            )),
            [] | [_] => Err(Misread::new(WANTED)),
            _ => Err(Misread::new(
                "there is more than one key in this text; each is an entry of its own",
            )),
        }
    }

    fn from_der(der: &[u8]) -> Result<PublicKey, Misread> {
        let key = DerPublicKey::new(der.to_vec());
        let (algorithm, parsed) = KeyAlgorithm::from_spki(&key)
            .and_then(|algorithm| Ok((algorithm, VerificationKey::from_spki(&key)?)))
            .map_err(|why| Misread::new(format!("the key cannot be used: {why}")))?;
        let schemes: &'static [SigningScheme] = match algorithm {
            KeyAlgorithm::EcdsaP256 => &[SigningScheme::EcdsaP256Sha256],
            KeyAlgorithm::EcdsaP384 => &[
                SigningScheme::EcdsaP384Sha384,
                SigningScheme::EcdsaP384Sha256,
            ],
            KeyAlgorithm::Ed25519 => &[SigningScheme::Ed25519],
            KeyAlgorithm::Rsa => &[SigningScheme::RsaPkcs1Sha256],
            _ => {
                return Err(Misread::new(
                    "keys of this kind are not supported; P-256, P-384, Ed25519 and RSA are",
                ));
            }
        };
        for scheme in schemes {
            validate_raw_public_key(*scheme, parsed.as_bytes())
                .map_err(|why| Misread::new(format!("the key cannot be used: {why}")))?;
        }
        Ok(PublicKey {
            bits: parsed.as_bytes().to_vec(),
            schemes,
            fingerprint: fingerprint(der),
        })
    }

    /// `SHA256:` and the base64 digest of the DER form, as shown by `ssh-keygen` and other tools.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Whether `message` was signed with this key.
    pub(super) fn made(&self, signature: &[u8], message: &[u8]) -> bool {
        self.schemes
            .iter()
            .any(|scheme| crypto_provider::made(*scheme, &self.bits, message, signature))
    }
}

/// See [`PublicKey::fingerprint`].
fn fingerprint(der: &[u8]) -> String {
    format!(
        "SHA256:{}",
        STANDARD_NO_PAD.encode(Digest::of(der).as_bytes())
    )
}

const WANTED: &str = "a public key is wanted in PEM, beginning with -----BEGIN PUBLIC KEY-----";
