//! Opens the private keys that cosign writes: JSON with a key derivation (scrypt) and a sealed box (XSalsa20-Poly1305).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Key, Nonce, XSalsa20Poly1305};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::trust::Misread;

/// Most memory that opening a key may take, in bytes. cosign's own keys take 64 MiB.
const MEMORY_BYTES: u64 = 256 << 20;
/// Most passes over it.
const MOST_PASSES: u32 = 4;

#[derive(Deserialize)]
struct Sealed {
    kdf: Derivation,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct Derivation {
    name: String,
    params: Parameters,
    salt: String,
}

#[derive(Deserialize)]
struct Parameters {
    #[serde(rename = "N")]
    cost: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct Cipher {
    name: String,
    nonce: String,
}

/// The key inside, in PKCS #8.
///
/// # Errors
/// When it is not cosign's form, asks for too much, or the password is wrong.
pub(super) fn open(json: &[u8], password: &[u8]) -> Result<Zeroizing<Vec<u8>>, Misread> {
    let unknown = || Misread::new("the sealed key is not in cosign's form");
    let sealed: Sealed = serde_json::from_slice(json).map_err(|_| unknown())?;
    if sealed.kdf.name != "scrypt" || sealed.cipher.name != "nacl/secretbox" {
        return Err(unknown());
    }
    let decoded = |text: &str| STANDARD.decode(text).map_err(|_| unknown());
    let salt = decoded(&sealed.kdf.salt)?;
    let nonce: [u8; 24] = decoded(&sealed.cipher.nonce)?
        .try_into()
        .map_err(|_| unknown())?;
    let ciphertext = decoded(&sealed.ciphertext)?;

    let parameters = parameters(&sealed.kdf.params).ok_or_else(|| {
        Misread::new(
            "opening the key would take more memory or time than any of cosign's keys does",
        )
    })?;
    let mut derived = Zeroizing::new([0u8; 32]);
    scrypt::scrypt(password, &salt, &parameters, &mut *derived).map_err(|_| unknown())?;
    XSalsa20Poly1305::new(Key::from_slice(&*derived))
        .decrypt(Nonce::from_slice(&nonce), ciphertext.as_slice())
        .map(Zeroizing::new)
        .map_err(|_| Misread::new("the password of the key is wrong, or the key is damaged"))
}

fn parameters(asked: &Parameters) -> Option<scrypt::Params> {
    let memory = asked.cost.checked_mul(128)?.checked_mul(asked.r.into())?;
    if !asked.cost.is_power_of_two() || memory > MEMORY_BYTES || asked.p > MOST_PASSES {
        return None;
    }
    let log = u8::try_from(asked.cost.trailing_zeros()).ok()?;
    scrypt::Params::new(log, asked.r, asked.p, 32).ok()
}
