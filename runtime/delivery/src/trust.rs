//! Trust policy and its verification: which signatures a module needs and whether it has one. Everything is verified
//! offline; nothing is fetched here.
//!
//! ```text
//! pin ──► keys, identities ──► minimum version
//!          └─ claim: the artifact that a piece of evidence refers to, and the bytes that were signed
//!               ├─ key: signed with one of the operator's keys; needs neither a log nor a time stamp
//!               └─ keyless: signed with a certificate of an identity, at a time given by a log or a time stamp
//! ```
//!
//! Evidence is hostile: it can be written by anyone with write access to the module's source. Each piece has a size
//! limit and is verified alone; the first valid one is enough.

mod crypto_provider;
mod distrust;
mod evidence;
mod key;
mod keyless;
mod refusal;
#[cfg(test)]
mod tests;
mod trust_roots;
mod version;

use std::time::SystemTime;

use ccm_core::rollout::Endorsement;
use ccm_host::Digest;

use crate::artifact::{Artifact, EVIDENCE_BYTES, MOST_EVIDENCE, SignatureEvidence};

pub use distrust::{Distrust, Misread, Provenance};
use evidence::Claim;
pub use key::PublicKey;
pub use keyless::{Identity, Keyless};
pub use refusal::EvidenceRefusal;
pub use trust_roots::Roots;
pub use version::{Highest, MinimumVersion};

/// Maximum number of bytes hashed for all signatures of one artifact. A signature over a module hashes the whole module
/// once per tried key; this is 32 of the largest modules, or about a second.
const MOST_HASHED: usize = 32 * crate::artifact::MODULE_BYTES;

/// The operator's conditions for compiling a module. The default trusts no module.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TrustPolicy {
    /// The required digest of the module or of its manifest.
    pub digest: Option<Pin>,
    /// Trusted keys. If there are keys or identities, a signature of one of them is required, whatever else holds.
    pub keys: Vec<PublicKey>,
    /// Trusted identities, each with its issuer and its roots.
    pub keyless: Vec<Keyless>,
    /// The oldest version that may run. Older ones are refused, even with a valid signature.
    pub minimum_version: Option<MinimumVersion>,
    /// Whether an unsigned module may run. Applies only without a pin, keys and identities.
    pub allows_unsigned: bool,
}

/// The digest of a module, or of the OCI manifest that references it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin(String);

impl Pin {
    /// Parses `sha256:` and 64 hexadecimal digits.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Pin, Misread> {
        let wrong =
            || Misread::new("a digest is `sha256:` and 64 hexadecimal digits in lower case");
        let digest = Digest::parse(text).ok_or_else(wrong)?;
        Ok(Pin(digest.to_string()))
    }

    /// Whether it is the digest of this module or of its manifest.
    fn names(&self, artifact: &Artifact) -> bool {
        self.0 == artifact.digest.to_string() || self.names_manifest(artifact)
    }

    /// Whether it is the digest of this module's manifest, which is what a location names.
    pub(crate) fn names_manifest(&self, artifact: &Artifact) -> bool {
        artifact.manifest_digest.as_ref() == Some(&self.0)
    }
}

impl TrustPolicy {
    /// Checks whether `artifact`, whose manifest names `version`, may be used where the location of the source pins
    /// `location_pin`, and returns its provenance. Hostile evidence costs up to about a second of CPU time.
    ///
    /// # Errors
    /// The reason for distrust. [`Distrust::TooOld`] implies that all other checks passed.
    pub fn verify(
        &self,
        artifact: &Artifact,
        location_pin: Option<&Pin>,
        version: &str,
        now: SystemTime,
    ) -> Result<Provenance, Distrust> {
        let provenance = self.provenance(artifact, location_pin, now)?;
        self.check_minimum(version, provenance)
    }

    /// Finds out who vouches for `artifact`, whatever it holds. Costs as much as [`Self::verify`].
    pub(crate) fn provenance(
        &self,
        artifact: &Artifact,
        location_pin: Option<&Pin>,
        now: SystemTime,
    ) -> Result<Provenance, Distrust> {
        self.check_digests(artifact)?;
        if !self.keys.is_empty() || !self.keyless.is_empty() {
            self.verify_evidence(artifact, now)
                .map_err(|distrust| distrust.while_unanswered(&artifact.unanswered))
        } else if self.pins(artifact, location_pin) {
            Ok(Provenance::Pinned)
        } else if self.allows_unsigned {
            Ok(Provenance::Unsigned)
        } else {
            Err(Distrust::Unsigned)
        }
    }

    /// Checks the version of a module of this provenance against the minimum version.
    pub(crate) fn check_minimum(
        &self,
        version: &str,
        provenance: Provenance,
    ) -> Result<Provenance, Distrust> {
        match &self.minimum_version {
            Some(minimum) => minimum.check(version, provenance),
            None => Ok(provenance),
        }
    }

    /// Whether the operator pinned these bytes, whose digests were checked: in the policy, or in the location of the source.
    pub(crate) fn pins(&self, artifact: &Artifact, location_pin: Option<&Pin>) -> bool {
        self.digest.is_some() || location_pin.is_some_and(|pin| pin.names_manifest(artifact))
    }

    /// Checks whether a trusted `version` may follow versions up to `highest`, and returns the highest version once it
    /// serves. A trusted signer has signed older versions, too, so a downgrade needs an endorsement; bytes that
    /// are pinned are intended; the version of an unsigned module proves nothing and is ignored.
    ///
    /// # Errors
    /// It is older and not endorsed.
    pub fn follow(
        &self,
        highest: &Highest,
        is_pinned: bool,
        version: &str,
        provenance: &Provenance,
        word: Endorsement,
    ) -> Result<Highest, Distrust> {
        match provenance {
            Provenance::Unsigned => Ok(highest.clone()),
            _ if is_pinned => highest.followed_by(version, Endorsement::Ordered),
            _ => highest.followed_by(version, word),
        }
    }

    /// Checks that these are the bytes of the digest, and those that the policy pins.
    fn check_digests(&self, artifact: &Artifact) -> Result<(), Distrust> {
        // The checks below apply to the digest, so it must match the bytes that will run.
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
            _ => Ok(()),
        }
    }

    fn verify_evidence(
        &self,
        artifact: &Artifact,
        now: SystemTime,
    ) -> Result<Provenance, Distrust> {
        if artifact.evidence.is_empty() {
            return Err(Distrust::SignatureMissing);
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

    /// Verifies one piece of evidence.
    fn judge(
        &self,
        evidence: &SignatureEvidence,
        artifact: &Artifact,
        now: SystemTime,
        left: &mut usize,
    ) -> Result<Provenance, EvidenceRefusal> {
        let bytes = evidence.bytes();
        if bytes > EVIDENCE_BYTES {
            return Err(EvidenceRefusal::TooLarge { bytes });
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
                EvidenceRefusal::KeyNotExpected
            } else {
                EvidenceRefusal::WrongKey
            });
        }
        let mut refused = EvidenceRefusal::CertificateNotExpected;
        for keyless in &self.keyless {
            // One verification hashes the message three times, and a second one may run to find out why the first
            // failed.
            spend(left, claim.message().len().saturating_mul(6))?;
            match keyless.judge(&claim, now) {
                Ok(provenance) => return Ok(provenance),
                // Of several entries, the one that passed the most steps gives the reason.
                Err(refusal) if refusal.steps() >= refused.steps() => refused = refusal,
                Err(_) => {}
            }
        }
        Err(refused)
    }
}

fn spend(left: &mut usize, bytes: usize) -> Result<(), EvidenceRefusal> {
    *left = left
        .checked_sub(bytes)
        .ok_or(EvidenceRefusal::TooMuchWork)?;
    Ok(())
}

impl SignatureEvidence {
    /// Total size in bytes.
    fn bytes(&self) -> usize {
        match self {
            SignatureEvidence::Bundle(json) => json.len(),
            SignatureEvidence::SimpleSigning {
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
