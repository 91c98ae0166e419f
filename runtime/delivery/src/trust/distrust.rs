//! Results of a verification: the provenance, or the reason for distrust, with texts for people.

use std::fmt;

use ccm_core::well_known::ALLOW_DOWNGRADE;
use ccm_host::clean;
use thiserror::Error;

use super::EvidenceRefusal;

/// Why a configured text cannot be used, for people.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Misread(String);

impl Misread {
    pub(crate) fn new(why: impl Into<String>) -> Misread {
        Misread(clean(&why.into(), 512))
    }
}

/// Why a module is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// The operator pinned its digest.
    Pinned,
    /// Signed with this key.
    Key {
        /// `SHA256:<base64>` of the key's DER form.
        fingerprint: String,
    },
    /// Signed by an identity that a certificate authority confirmed.
    Keyless {
        /// The identity in the certificate.
        identity: String,
        /// The OIDC issuer that identified the signer to the authority.
        issuer: String,
        /// Time of signing from a log or a time stamp, in seconds since the Unix epoch.
        signed_at: i64,
    },
    /// Unsigned, which the operator allows.
    Unsigned,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provenance::Pinned => f.write_str("named by its digest in the configuration"),
            Provenance::Key { fingerprint } => write!(f, "signed with the key {fingerprint}"),
            Provenance::Keyless {
                identity, issuer, ..
            } => write!(
                f,
                "signed by {} (known to {})",
                clean(identity, 256),
                clean(issuer, 256)
            ),
            Provenance::Unsigned => f.write_str("unsigned, which the configuration allows"),
        }
    }
}

/// Why a module is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distrust {
    /// The bytes do not have the expected digest.
    OtherDigest {
        /// The digest from the configuration or the source.
        wanted: String,
        /// The digest of the bytes.
        found: String,
    },
    /// No signature is configured as required, and unsigned modules are not allowed.
    Unsigned,
    /// A signature is required, and there is none.
    SignatureMissing,
    /// There are signatures, but none is valid.
    Refused {
        /// The reason for each examined signature, in their order.
        reasons: Vec<EvidenceRefusal>,
    },
    /// None of the signatures at hand is valid, and there may be others.
    Unanswered {
        /// Who may have them, and did not answer.
        places: Vec<String>,
        /// The verdict without them.
        otherwise: Box<Distrust>,
    },
    /// Older than the minimum version. All other checks passed.
    TooOld {
        /// The version in its manifest.
        version: String,
        /// The operator's minimum version.
        minimum: String,
    },
    /// Older than a version that has served, or not comparable with it. All other checks passed.
    Downgrade {
        /// The version in its manifest.
        version: String,
        /// The highest version that has served.
        highest: String,
    },
    /// The module's version cannot be compared with the minimum version.
    VersionUnreadable {
        /// The version in its manifest.
        version: String,
    },
}

/// Longest message about an untrusted module, in bytes.
const MESSAGE_BYTES: usize = 1000;

impl Distrust {
    /// The same, of a module of which these places may have other signatures.
    pub(super) fn while_unanswered(self, places: &[String]) -> Distrust {
        match places {
            [] => self,
            places => Distrust::Unanswered {
                places: places.to_vec(),
                otherwise: Box::new(self),
            },
        }
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match self {
            Distrust::OtherDigest { wanted, found } => {
                format!(
                    "its digest is not the one that is wanted: {wanted} is wanted, {found} is there"
                )
            }
            Distrust::Unsigned => {
                "nobody vouches for it: add `trust` with a digest, keys or keyless identities to \
                 the provider's configuration, or `unsigned: true` to run whatever is there"
                    .to_owned()
            }
            Distrust::SignatureMissing => {
                "it is not signed, and the configuration wants it to be: sign it (`cosign \
                 sign`, `cosign sign-blob`) with a key or identity that `trust` names"
                    .to_owned()
            }
            Distrust::Refused { reasons } => refused(reasons),
            Distrust::Unanswered { places, otherwise } => format!(
                "it may have signatures that cannot be read now: {}; without them, {otherwise}",
                places.join("; ")
            ),
            Distrust::TooOld { version, minimum } => format!(
                "version {version} is older than {minimum}, the oldest that `trust.minimumVersion` allows"
            ),
            Distrust::Downgrade { version, highest } => format!(
                "version {version} is not {highest} or higher, which has served: whoever offers it may want back what was \
                 mended since. If it is meant, set {ALLOW_DOWNGRADE} to its digest"
            ),
            Distrust::VersionUnreadable { version } => format!(
                "its version {version:?} is not of the form 1.2.3, so `trust.minimumVersion` cannot be checked"
            ),
        };
        f.write_str(&clean(&message, MESSAGE_BYTES))
    }
}

impl std::error::Error for Distrust {}

fn refused(reasons: &[EvidenceRefusal]) -> String {
    match reasons {
        [only] => format!("its signature is refused: {only}"),
        several => {
            let lines: Vec<String> = several
                .iter()
                .enumerate()
                .map(|(index, refusal)| format!("{}: {refusal}", index + 1))
                .collect();
            format!(
                "all its {} signatures are refused: {}",
                several.len(),
                lines.join("; ")
            )
        }
    }
}
