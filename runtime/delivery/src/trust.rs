//! Who may vouch for a module, and whether somebody does. Everything is verified offline; nothing is fetched here.
//!
//! ```text
//! pin ──► keys, identities ──► minimum version
//!          └─ claim: what a piece of evidence says it is about, and over which bytes it was made
//!               ├─ key: one of the operator's keys made it; the key is the trust, no log and no time stamp is asked for
//!               └─ keyless: a certificate for an identity made it, at a time that a log or a time stamp tells
//! ```
//!
//! Evidence is written by whoever can write to the place that the module came from: it is hostile. Each piece is
//! capped, each is judged alone, and the first that verifies is enough.

mod distrust;
mod evidence;
mod key;
mod keyless;
mod refusal;
#[cfg(test)]
mod sample;
mod signature_verification;
#[cfg(test)]
mod tests;
mod trust_roots;
mod version;

use std::time::SystemTime;

use ccm_core::rollout::Endorsement;
use ccm_host::Digest;

use crate::artifact::{Artifact, EVIDENCE_BYTES, Evidence, MOST_EVIDENCE};

pub use distrust::{Distrust, Misread, Provenance};
use evidence::Claim;
pub use key::PublicKey;
pub use keyless::{Identity, Keyless};
pub use refusal::Refusal;
pub use trust_roots::Roots;
pub use version::{Highest, MinimumVersion};

/// Bytes that signatures of one artifact may make us hash in all. A signature over a module has to hash all of it, for
/// each key that is tried; this is 32 of the largest modules, or about a second.
const MOST_HASHED: usize = 32 * crate::artifact::MODULE_BYTES;

/// What an operator demands of a module before it may be compiled. The default trusts nobody and nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TrustPolicy {
    /// Exactly these bytes, or this manifest.
    pub digest: Option<Pin>,
    /// Keys that may vouch. When there are keys or identities, one of them has to, whatever else holds.
    pub keys: Vec<PublicKey>,
    /// Identities that may vouch.
    pub keyless: Vec<Keyless>,
    /// Older versions are refused, whoever vouches for them.
    pub minimum_version: Option<MinimumVersion>,
    /// Whether a module may run for which nobody vouches. Counts only where there is no pin, key or identity.
    pub allows_unsigned: bool,
}

/// The digest of a module, or of the OCI manifest that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin(String);

impl Pin {
    /// Reads `sha256:` and 64 hexadecimal digits.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &str) -> Result<Pin, Misread> {
        let digits = text.strip_prefix("sha256:").unwrap_or_default();
        let is_hex = |digit: char| digit.is_ascii_digit() || ('a'..='f').contains(&digit);
        if digits.len() == 64 && digits.chars().all(is_hex) {
            Ok(Pin(text.to_owned()))
        } else {
            Err(Misread::new(
                "a digest is `sha256:` and 64 hexadecimal digits in lower case",
            ))
        }
    }

    /// Whether it names this module, or the manifest that carried it.
    fn names(&self, artifact: &Artifact) -> bool {
        self.0 == artifact.digest.to_string() || artifact.manifest_digest.as_ref() == Some(&self.0)
    }
}

impl TrustPolicy {
    /// Whether `artifact`, whose manifest names `version`, may be used, and who vouches for it. Takes up to about a
    /// second of processor time when its evidence is hostile.
    ///
    /// # Errors
    /// Why it may not. [`Distrust::TooOld`] is said only of what holds in every other respect.
    pub fn verify(
        &self,
        artifact: &Artifact,
        version: &str,
        now: SystemTime,
    ) -> Result<Provenance, Distrust> {
        let is_pinned = self.check_digests(artifact)?;
        let provenance = if !self.keys.is_empty() || !self.keyless.is_empty() {
            self.who_vouches(artifact, now)?
        } else if is_pinned {
            Provenance::Pinned
        } else if self.allows_unsigned {
            Provenance::Unsigned
        } else {
            return Err(Distrust::Unsigned);
        };
        match &self.minimum_version {
            Some(minimum) => minimum.check(version, provenance),
            None => Ok(provenance),
        }
    }

    /// Whether `artifact`, which this policy trusts, may follow versions of which this was the highest, and what the highest
    /// is once it serves. Whoever is trusted by his signature has signed older versions, too; bytes that are named by their
    /// digest are meant; and where nobody has to vouch, a version says whatever somebody likes.
    ///
    /// # Errors
    /// It is older, and nobody has named it.
    pub fn follow(
        &self,
        highest: &Highest,
        artifact: &Artifact,
        version: &str,
        provenance: &Provenance,
        word: Endorsement,
    ) -> Result<Highest, Distrust> {
        let is_named = artifact.is_pinned || self.digest.is_some();
        match provenance {
            Provenance::Unsigned => Ok(highest.clone()),
            _ if is_named => highest.followed_by(version, Endorsement::Ordered),
            _ => highest.followed_by(version, word),
        }
    }

    /// Whether the operator named these bytes.
    fn check_digests(&self, artifact: &Artifact) -> Result<bool, Distrust> {
        // What is said about the digest below has to be said about the bytes that will run.
        let found = Digest::of(&artifact.wasm);
        if found != artifact.digest {
            return Err(Distrust::OtherDigest {
                wanted: artifact.digest.to_string(),
                found: found.to_string(),
            });
        }
        match &self.digest {
            Some(pin) if !pin.names(artifact) => Err(Distrust::OtherDigest {
                wanted: pin.0.clone(),
                found: match &artifact.manifest_digest {
                    Some(manifest) => format!("{found} in the manifest {manifest}"),
                    None => found.to_string(),
                },
            }),
            pin => Ok(pin.is_some() || artifact.is_pinned),
        }
    }

    fn who_vouches(&self, artifact: &Artifact, now: SystemTime) -> Result<Provenance, Distrust> {
        if artifact.evidence.is_empty() {
            return Err(Distrust::Unvouched);
        }
        let mut reasons = Vec::new();
        let mut left = MOST_HASHED;
        for evidence in artifact.evidence.iter().take(MOST_EVIDENCE) {
            match self.judge(evidence, artifact, now, &mut left) {
                Ok(provenance) => return Ok(provenance),
                Err(refusal) => reasons.push(refusal),
            }
        }
        Err(Distrust::Refused { reasons })
    }

    /// One piece of evidence, alone.
    fn judge(
        &self,
        evidence: &Evidence,
        artifact: &Artifact,
        now: SystemTime,
        left: &mut usize,
    ) -> Result<Provenance, Refusal> {
        let bytes = evidence.bytes();
        if bytes > EVIDENCE_BYTES {
            return Err(Refusal::TooLarge { bytes });
        }
        let claim = Claim::read(evidence, artifact)?;
        for key in &self.keys {
            spend(left, claim.message().len())?;
            if key.made(claim.signature(), claim.message()) {
                return Ok(Provenance::Key {
                    fingerprint: key.fingerprint().to_owned(),
                });
            }
        }
        if !claim.has_certificate() {
            return Err(if self.keys.is_empty() {
                Refusal::KeyNotExpected
            } else {
                Refusal::WrongKey
            });
        }
        let mut refused = Refusal::CertificateNotExpected;
        for keyless in &self.keyless {
            // It is hashed three times for one verification, and there is a second one to tell why the first failed.
            spend(left, claim.message().len().saturating_mul(6))?;
            match keyless.judge(&claim, now) {
                Ok(provenance) => return Ok(provenance),
                // Of several entries, the one that came farthest says what is missing.
                Err(refusal) if refusal.steps() >= refused.steps() => refused = refusal,
                Err(_) => {}
            }
        }
        Err(refused)
    }
}

fn spend(left: &mut usize, bytes: usize) -> Result<(), Refusal> {
    *left = left.checked_sub(bytes).ok_or(Refusal::TooMuchWork)?;
    Ok(())
}

impl Evidence {
    /// How large it is in all.
    fn bytes(&self) -> usize {
        match self {
            Evidence::Bundle(json) => json.len(),
            Evidence::SimpleSigning {
                payload,
                signature,
                certificate,
                chain,
                log_entry,
                time_stamp,
            } => {
                let texts = [certificate, chain].map(|text| text.as_ref().map_or(0, String::len));
                let parts = [log_entry, time_stamp].map(|json| json.as_ref().map_or(0, Vec::len));
                payload.len()
                    + signature.len()
                    + texts.iter().sum::<usize>()
                    + parts.iter().sum::<usize>()
            }
        }
    }
}
