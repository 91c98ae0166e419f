//! The arithmetic of signatures, done by ring: for our own keys, and for the Sigstore library, whose own choice would
//! be a second cryptographic library beside the one that TLS uses. Decides nothing about who is trusted.

use std::cell::RefCell;
use std::sync::Arc;

use ring::{digest, signature};
use sigstore_verify::crypto::provider::{CryptoProvider, HashContext};
use sigstore_verify::crypto::{Error, SigningScheme, install_default_provider};
use sigstore_verify::types::HashAlgorithm;

/// Lets the Sigstore library use ring. Has to be called before anything of it that hashes or verifies; every
/// constructor of this module does.
pub(super) fn install() {
    // It is refused the second time, when it is the same one.
    let _ = install_default_provider(&Ring);
}

/// Whether the holder of `key` (the bits of a certificate's or key file's public key) signed `message`.
pub(super) fn made(scheme: SigningScheme, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    algorithm(scheme).is_some_and(|algorithm| {
        signature::UnparsedPublicKey::new(algorithm, key)
            .verify(message, signature)
            .is_ok()
    })
}

/// `None` for those that ring does not know: RSA with absent parameters is the same as with them, ML-DSA is missing.
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
    /// What is being verified on this thread. ring verifies messages and no digests, and the library asks for a digest:
    /// the message is looked up here, and is used only when it has that digest.
    static MESSAGE: RefCell<Option<Arc<[u8]>>> = const { RefCell::new(None) };
}

/// Runs `work`, which may ask for a signature over `message` by its digest.
pub(super) fn with_message<T>(message: Arc<[u8]>, work: impl FnOnce() -> T) -> T {
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
