//! Reasons for refusing one piece of evidence, one for each possible defect.

use ccm_host::clean;
use sigstore_verify::bundle::Error as BundleError;
use sigstore_verify::{CertificateError, Error as Sigstore, TimestampError};
use thiserror::Error;

/// Why a signature is refused. Texts from the evidence are cleaned and truncated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EvidenceRefusal {
    /// Exceeds the size limit.
    #[error("it has {bytes} bytes, more than is looked at")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// All signatures together exceed the limit of work.
    #[error("there are too many signatures to try")]
    TooMuchWork,
    /// Not in a known form.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// A statement of another kind, which does not release the module.
    #[error("it is a statement of another kind ({kind}), not a signature")]
    OtherStatement {
        /// The type that the statement declares.
        kind: String,
    },
    /// Refers to another artifact: another module or another version of this one.
    #[error("it is about {about}, not about this module")]
    OtherArtifact {
        /// The artifact it refers to.
        about: String,
    },
    /// Made with none of the configured keys.
    #[error("none of the keys in `trust.keys` made it for these bytes")]
    WrongKey,
    /// Made with a key, but only identities are trusted.
    #[error("it was made with a key, and `trust.keys` names none")]
    KeyNotExpected,
    /// Made with a certificate, but only keys are trusted.
    #[error("it was made with a certificate, and `trust.keyless` names no identity")]
    CertificateNotExpected,
    /// The certificate was not issued by a trusted authority, or not for signing.
    #[error("its certificate is not one of the trusted authority's for signing: {0}")]
    UnknownAuthority(String),
    /// Without a proven signing time the certificate's validity at that time is unknown.
    #[error("neither a log that is trusted nor a time stamp says when it was made")]
    NoSigningTime,
    /// The proof of time is forged, or from an untrusted party.
    #[error("its time stamp does not hold: {0}")]
    TimeStamp(String),
    /// The signing time is in the future: a clock is wrong, or the evidence is false.
    #[error("it says that it was made later than now; is this machine's clock right?")]
    FutureTime,
    /// The certificate was not valid at the signing time.
    #[error("its certificate was not valid when it was made: {0}")]
    Expired(String),
    /// The transparency log's entry is missing, forged, or about something else.
    #[error("the transparency log does not speak for it: {0}")]
    Log(String),
    /// The certificate is valid, but the signature was not made with it.
    #[error("its certificate's key did not make it for these bytes")]
    BadSignature,
    /// Signed by another identity.
    #[error("it was made by {found}, whom the configuration does not name")]
    WrongIdentity {
        /// The identity in the certificate.
        found: String,
    },
    /// The right identity, confirmed by another issuer.
    #[error("its signer is known to {found}, and the configuration wants another issuer")]
    WrongIssuer {
        /// The issuer in the certificate.
        found: String,
    },
}

impl EvidenceRefusal {
    /// Not parseable, for this reason.
    pub(super) fn unreadable(why: impl ToString) -> EvidenceRefusal {
        EvidenceRefusal::Unreadable(clean(&why.to_string(), 200))
    }

    /// How many verification steps a signature passed before this refusal.
    pub(super) fn steps(&self) -> u8 {
        match self {
            EvidenceRefusal::WrongIssuer { .. } => 4,
            EvidenceRefusal::WrongIdentity { .. } => 3,
            EvidenceRefusal::UnknownAuthority(_) => 1,
            EvidenceRefusal::CertificateNotExpected => 0,
            _ => 2,
        }
    }
}

impl From<Sigstore> for EvidenceRefusal {
    fn from(error: Sigstore) -> EvidenceRefusal {
        let why = || clean(&error.to_string(), 200);
        match &error {
            Sigstore::Certificate(
                CertificateError::Expired { .. } | CertificateError::NotYetValid { .. },
            ) => EvidenceRefusal::Expired(why()),
            Sigstore::Certificate(CertificateError::Malformed(_)) => {
                EvidenceRefusal::Unreadable(why())
            }
            Sigstore::Certificate(_) => EvidenceRefusal::UnknownAuthority(why()),
            Sigstore::Timestamp(TimestampError::NoVerifiedTimestamp(_))
            | Sigstore::Bundle(BundleError::MissingSigningTimeEvidence) => {
                EvidenceRefusal::NoSigningTime
            }
            Sigstore::Bundle(
                BundleError::MissingInclusionProof(_) | BundleError::MissingInclusionPromise(_),
            ) => EvidenceRefusal::Log(why()),
            Sigstore::Timestamp(_) => EvidenceRefusal::TimeStamp(why()),
            Sigstore::TransparencyLog(_) => EvidenceRefusal::Log(why()),
            Sigstore::SignatureInvalid(_) => EvidenceRefusal::BadSignature,
            Sigstore::ArtifactMismatch(_) => EvidenceRefusal::OtherArtifact { about: why() },
            _ => EvidenceRefusal::Unreadable(why()),
        }
    }
}
