//! Keyless signatures: an authority certified an identity for some minutes, and a log or a time stamp proves that the
//! signature was made in that time. The certificate is checked at that time, never at `now`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ccm_host::clean;
use regex::{Regex, RegexBuilder};

use super::evidence::Claim;
use super::{EvidenceRefusal, Misread, Provenance, Roots};

/// How far the clock of a log or time stamp authority may be ahead of ours.
const CLOCKS_DIFFER: Duration = Duration::from_secs(300);
/// Largest compiled identity pattern, in bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// A trusted identity: an email address, or the URI of a workflow.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity(Match);

#[derive(Clone)]
enum Match {
    Exact(String),
    Pattern(Regex),
}

impl PartialEq for Match {
    fn eq(&self, other: &Match) -> bool {
        match (self, other) {
            (Match::Exact(one), Match::Exact(other)) => one == other,
            (Match::Pattern(one), Match::Pattern(other)) => one.as_str() == other.as_str(),
            (Match::Exact(_), Match::Pattern(_)) | (Match::Pattern(_), Match::Exact(_)) => false,
        }
    }
}

impl Eq for Match {}

impl Identity {
    /// Matches exactly this identity.
    pub fn exact(identity: impl Into<String>) -> Identity {
        Identity(Match::Exact(identity.into()))
    }

    /// Matches identities that the regular expression matches as a whole: a workflow's URI ends with the tag that it
    /// ran for.
    ///
    /// # Errors
    /// It is not a regular expression, or one that is too large.
    pub fn pattern(expression: &str) -> Result<Identity, Misread> {
        // Compiled alone first: `a)|(b` would escape from the group.
        Regex::new(expression)
            .and_then(|_| {
                RegexBuilder::new(&format!("^(?:{expression})$"))
                    .size_limit(PATTERN_BYTES)
                    .build()
            })
            .map(|regex| Identity(Match::Pattern(regex)))
            .map_err(|why| Misread::new(format!("this is not a usable regular expression: {why}")))
    }

    fn names(&self, found: &str) -> bool {
        match &self.0 {
            Match::Exact(wanted) => wanted == found,
            Match::Pattern(wanted) => wanted.is_match(found),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Match::Exact(wanted) => wanted.fmt(f),
            Match::Pattern(wanted) => write!(f, "/{}/", wanted.as_str()),
        }
    }
}

/// A trusted identity, its required issuer, and the roots that certify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyless {
    identity: Identity,
    issuer: String,
    roots: Arc<Roots>,
}

impl Keyless {
    /// Trusts `identity` if `issuer` (the URL of an OIDC issuer) confirmed it to one of the authorities of `roots`.
    pub fn new(identity: Identity, issuer: impl Into<String>, roots: Arc<Roots>) -> Keyless {
        Keyless {
            identity,
            issuer: issuer.into(),
            roots,
        }
    }

    /// Checks that this identity signed `claim` while its certificate was valid.
    pub(super) fn judge(
        &self,
        claim: &Claim,
        now: SystemTime,
    ) -> Result<Provenance, EvidenceRefusal> {
        let signed = self.roots.verify(claim)?;
        let latest = now
            .checked_add(CLOCKS_DIFFER)
            .and_then(|latest| jiff::Timestamp::try_from(latest).ok());
        // An unreadable clock counts as wrong.
        if latest.is_none_or(|latest| signed.at > latest) {
            return Err(EvidenceRefusal::FutureTime);
        }
        if !self.identity.names(&signed.identity) {
            return Err(EvidenceRefusal::WrongIdentity {
                found: clean(&signed.identity, 200),
            });
        }
        if self.issuer != signed.issuer {
            return Err(EvidenceRefusal::WrongIssuer {
                found: clean(&signed.issuer, 200),
            });
        }
        Ok(Provenance::Keyless {
            identity: signed.identity,
            issuer: signed.issuer,
            signed_at: signed.at.as_second(),
        })
    }
}
