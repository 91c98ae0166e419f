//! Cryptography of signatures, implemented with ring: for the operator's keys and for the Sigstore library, whose
//! default would be a second cryptographic library beside the one of TLS. Makes no trust decisions.

use std::cell::RefCell;

use bytes::Bytes;
use ring::{digest, signature};
use sigstore_verify::crypto::provider::{CryptoProvider, HashContext};
use sigstore_verify::crypto::{Error, SigningScheme, install_default_provider};
use sigstore_verify::types::HashAlgorithm;

/// Makes the Sigstore library use ring. Must be called before any of its functions that hash or verify; all
/// constructors of this module call it.
pub(super) fn install() {
    // Later calls return an error, which is ignored: the same provider is installed already.
    let _ = install_default_provider(&Ring);
}

/// Whether `signature` over `message` was made with `key` (the bits of the public key in a certificate or key file).
pub(super) fn made(scheme: SigningScheme, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    algorithm(scheme).is_some_and(|algorithm| {
        signature::UnparsedPublicKey::new(algorithm, key)
            .verify(message, signature)
            .is_ok()
    })
}

/// `None` for schemes without ring support: ML-DSA is missing. RSA with absent parameters equals RSA with them.
fn algorithm(scheme: SigningScheme) -> Option<&'static dyn signature::VerificationAlgorithm> {
    Some(match scheme {
        SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &signature::ED25519,
        SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

thread_local! {
    /// The message being verified on this thread. ring verifies messages, not digests, but the library passes a digest:
    /// the message is looked up here, and used only if it has that digest.
    static MESSAGE: RefCell<Option<Bytes>> = const { RefCell::new(None) };
}

/// Runs `work`, which may verify a signature over `message` by its digest.
pub(super) fn with_message<T>(message: Bytes, work: impl FnOnce() -> T) -> T {
    MESSAGE.with_borrow_mut(|slot| *slot = Some(message));
    let result = work();
    MESSAGE.with_borrow_mut(|slot| *slot = None);
    result
}

#[derive(Debug)]
struct Ring;

struct Context(digest::Context);

impl HashContext for Context {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

fn hash(algorithm: HashAlgorithm) -> Result<&'static digest::Algorithm, Error> {
    match algorithm {
        HashAlgorithm::Sha2256 => Ok(&digest::SHA256),
        HashAlgorithm::Sha2384 => Ok(&digest::SHA384),
        HashAlgorithm::Sha2512 => Ok(&digest::SHA512),
        other => Err(Error::UnsupportedAlgorithm(format!("{other:?}"))),
    }
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>, Error> {
        Ok(Box::new(Context(digest::Context::new(hash(algorithm)?))))
    }

    fn verify_raw(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        if made(scheme, key, message, signature) {
            Ok(())
        } else {
            Err(Error::Verification(
                "the signature does not hold".to_owned(),
            ))
        }
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        wanted: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        let unknown = || Error::Verification("the signed bytes are not at hand".to_owned());
        let algorithm = hash(scheme.hash_algorithm().ok_or_else(unknown)?)?;
        let message = MESSAGE
            .with_borrow(Clone::clone)
            .filter(|message| digest::digest(algorithm, message).as_ref() == wanted)
            .ok_or_else(unknown)?;
        self.verify_raw(scheme, key, &message, signature)
    }
}
