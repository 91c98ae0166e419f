//! Identity of a module: the SHA-256 of its bytes. And the hash of several values.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// SHA-256 of a module's bytes. Displayed as `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Raw hash, 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses the displayed form: `sha256:` and 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Digest> {
        let digits = text.strip_prefix("sha256:")?;
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(Digest(bytes))
    }

    /// See [`short_digest`].
    pub fn short(&self) -> String {
        short_digest(&self.hex())
    }

    /// All 64 hexadecimal digits without the algorithm's name; usable in file names.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

/// SHA-256 over these parts, each prefixed with its length, so that no other parts have the same input.
pub(crate) fn sha256_of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// First twelve hexadecimal digits of a digest as displayed, or without the algorithm's name: enough to tell modules apart.
pub fn short_digest(digest: &str) -> String {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.chars().take(12).collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, short_digest};

    #[test]
    fn a_digest_is_read_as_it_is_displayed_and_in_no_other_form() {
        let digest = Digest::of(b"anything");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        let hex = digest.hex();
        for other in [
            hex.clone(),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{hex}0"),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:é{}", &hex[2..]),
            format!("SHA256:{hex}"),
            format!("sha512:{hex}"),
            String::new(),
        ] {
            assert_eq!(Digest::parse(&other), None, "{other}");
        }
    }

    #[test]
    fn digest_of_nothing_is_the_known_one() {
        let digest = Digest::of(b"");
        assert_eq!(
            digest.to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(digest.short(), "e3b0c44298fc");
        assert_eq!(short_digest(&digest.to_string()), "e3b0c44298fc");
    }
}
