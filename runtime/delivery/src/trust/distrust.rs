//! What comes of a verification: who vouches, or why nobody does. Texts for people, and short names for counters.

use std::fmt;

use ccm_core::well_known::ALLOW_DOWNGRADE;
use ccm_host::clean;
use thiserror::Error;

use super::Refusal;

/// Text of a configuration that cannot be used, for people.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Misread(String);

impl Misread {
    pub(crate) fn new(why: impl Into<String>) -> Misread {
        Misread(clean(&why.into(), 512))
    }
}

/// Who vouches for a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// The operator, who named its digest.
    Pinned,
    /// Whoever has this key.
    Key {
        /// `SHA256:<base64>` of the key's DER form.
        fingerprint: String,
    },
    /// Somebody whose identity a certificate authority has confirmed.
    Keyless {
        /// As in the certificate.
        identity: String,
        /// Who told the authority.
        issuer: String,
        /// When it was signed, as a log or a time stamp says. In seconds since the Unix epoch.
        signed_at: i64,
    },
    /// Nobody, and the operator allows that.
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
    /// These are not the bytes that the operator named.
    OtherDigest {
        /// What is configured, or what the source said.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// Nobody is asked to vouch for it, and nothing allows that.
    Unsigned,
    /// Somebody has to vouch for it, and there is no signature at all.
    Unvouched,
    /// There are signatures, and none of them holds.
    Refused {
        /// Why: one for each signature that was looked at, in their order.
        reasons: Vec<Refusal>,
    },
    /// It is older than is allowed. Everything else holds.
    TooOld {
        /// What its manifest says.
        version: String,
        /// The oldest that is allowed.
        minimum: String,
        /// Who vouches for it.
        provenance: Provenance,
    },
    /// It is older than a version that has served, or cannot be compared with it. Everything else holds.
    Downgrade {
        /// What its manifest says.
        version: String,
        /// The highest that has served.
        highest: String,
    },
    /// Its version cannot be compared with the one that is demanded.
    VersionUnreadable {
        /// What its manifest says.
        version: String,
    },
}

/// Longest message about a module that is not trusted, in bytes.
const MESSAGE_BYTES: usize = 1000;

impl Distrust {
    /// A short name that does not change, for counters and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Distrust::OtherDigest { .. } => "other-digest",
            Distrust::Unsigned | Distrust::Unvouched => "unsigned",
            Distrust::Refused { reasons } => reasons.first().map_or("unsigned", Refusal::reason),
            Distrust::TooOld { .. } => "too-old",
            Distrust::Downgrade { .. } => "downgrade",
            Distrust::VersionUnreadable { .. } => "version-unreadable",
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
            Distrust::Unvouched => {
                "it is not signed, and the configuration wants it to be: sign it (`cosign \
                 sign`, `cosign sign-blob`) with a key or identity that `trust` names"
                    .to_owned()
            }
            Distrust::Refused { reasons } => refused(reasons),
            Distrust::TooOld {
                version, minimum, ..
            } => format!(
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

fn refused(reasons: &[Refusal]) -> String {
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
