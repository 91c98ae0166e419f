//! Why one piece of evidence does not count: a reason of its own for each thing that can be wrong with it.

use ccm_host::clean;
use sigstore_verify::bundle::Error as BundleError;
use sigstore_verify::{CertificateError, Error as Sigstore, TimestampError};
use thiserror::Error;

/// Why one signature does not count. What comes out of the evidence is cleaned and cut.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// More than is looked at.
    #[error("it has {bytes} bytes, more than is looked at")]
    TooLarge {
        /// How many bytes.
        bytes: usize,
    },
    /// All signatures together ask for more work than is done for them.
    #[error("there are too many signatures to try")]
    TooMuchWork,
    /// Not in a form that we know.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It says something, but not that the module is released.
    #[error("it is a statement of another kind ({kind}), not a signature")]
    OtherStatement {
        /// Which.
        kind: String,
    },
    /// It is about something else: made for another module, or for another version of this one.
    #[error("it is about {about}, not about this module")]
    OtherArtifact {
        /// What it is about.
        about: String,
    },
    /// None of the keys made it.
    #[error("none of the keys in `trust.keys` made it for these bytes")]
    WrongKey,
    /// It was made with a key, and only identities are trusted.
    #[error("it was made with a key, and `trust.keys` names none")]
    KeyNotExpected,
    /// It was made with a certificate, and only keys are trusted.
    #[error("it was made with a certificate, and `trust.keyless` names no identity")]
    CertificateNotExpected,
    /// The certificate was not issued by an authority that is trusted, or not for signing.
    #[error("its certificate is not one of the trusted authority's for signing: {0}")]
    UnknownAuthority(String),
    /// Nothing tells when it was made, so nothing tells whether the certificate was valid then.
    #[error("neither a log that is trusted nor a time stamp says when it was made")]
    NoSigningTime,
    /// What tells the time is forged, or from somebody who is not trusted.
    #[error("its time stamp does not hold: {0}")]
    TimeStamp(String),
    /// It was made in the future. Either a clock is wrong, or somebody lies.
    #[error("it says that it was made later than now; is this machine's clock right?")]
    FutureTime,
    /// The certificate was not valid when it was made.
    #[error("its certificate was not valid when it was made: {0}")]
    Expired(String),
    /// The transparency log's entry is missing, forged, or about something else.
    #[error("the transparency log does not speak for it: {0}")]
    Log(String),
    /// The certificate is good, but this signature was not made with it.
    #[error("its certificate's key did not make it for these bytes")]
    BadSignature,
    /// Somebody else signed it.
    #[error("it was made by {found}, whom the configuration does not name")]
    WrongIdentity {
        /// Who.
        found: String,
    },
    /// The right name, confirmed by the wrong one.
    #[error("its signer is known to {found}, and the configuration wants another issuer")]
    WrongIssuer {
        /// Who confirmed it.
        found: String,
    },
}

impl Refusal {
    /// Cannot be read, for this reason.
    pub(super) fn unreadable(why: impl ToString) -> Refusal {
        Refusal::Unreadable(clean(&why.to_string(), 200))
    }

    /// A short name that does not change, for counters and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::TooLarge { .. } | Refusal::TooMuchWork => "too-large",
            Refusal::Unreadable(_) => "unreadable",
            Refusal::OtherStatement { .. } => "other-statement",
            Refusal::OtherArtifact { .. } => "other-artifact",
            Refusal::WrongKey => "wrong-key",
            Refusal::KeyNotExpected => "key-not-expected",
            Refusal::CertificateNotExpected => "certificate-not-expected",
            Refusal::UnknownAuthority(_) => "unknown-authority",
            Refusal::NoSigningTime => "no-signing-time",
            Refusal::TimeStamp(_) => "time-stamp",
            Refusal::FutureTime => "future-time",
            Refusal::Expired(_) => "expired",
            Refusal::Log(_) => "log",
            Refusal::BadSignature => "bad-signature",
            Refusal::WrongIdentity { .. } => "wrong-identity",
            Refusal::WrongIssuer { .. } => "wrong-issuer",
        }
    }

    /// How far a signature came that is refused for this.
    pub(super) fn steps(&self) -> u8 {
        match self {
            Refusal::WrongIssuer { .. } => 4,
            Refusal::WrongIdentity { .. } => 3,
            Refusal::UnknownAuthority(_) => 1,
            Refusal::CertificateNotExpected => 0,
            _ => 2,
        }
    }
}

impl From<Sigstore> for Refusal {
    fn from(error: Sigstore) -> Refusal {
        let why = || clean(&error.to_string(), 200);
        match &error {
            Sigstore::Certificate(
                CertificateError::Expired { .. } | CertificateError::NotYetValid { .. },
            ) => Refusal::Expired(why()),
            Sigstore::Certificate(CertificateError::Malformed(_)) => Refusal::Unreadable(why()),
            Sigstore::Certificate(_) => Refusal::UnknownAuthority(why()),
            Sigstore::Timestamp(TimestampError::NoVerifiedTimestamp(_))
            | Sigstore::Bundle(BundleError::MissingSigningTimeEvidence) => Refusal::NoSigningTime,
            Sigstore::Bundle(
                BundleError::MissingInclusionProof(_) | BundleError::MissingInclusionPromise(_),
            ) => Refusal::Log(why()),
            Sigstore::Timestamp(_) => Refusal::TimeStamp(why()),
            Sigstore::TransparencyLog(_) => Refusal::Log(why()),
            Sigstore::SignatureInvalid(_) => Refusal::BadSignature,
            Sigstore::ArtifactMismatch(_) => Refusal::OtherArtifact { about: why() },
            _ => Refusal::Unreadable(why()),
        }
    }
}
