//! Where modules come from. A source brings bytes and says what was wrong with them; it trusts nobody and decides
//! nothing.

use std::future::Future;
use std::pin::Pin;

use ccm_core::rollout::Release;
use thiserror::Error;

use crate::artifact::Artifact;

/// The future of one look at a source.
pub type Brought<'a> = Pin<Box<dyn Future<Output = Result<Artifact, SourceError>> + Send + 'a>>;

/// One place that a provider's module comes from.
pub trait Source: Send {
    /// Waits for what is offered next and brings it: the first time what is there now, then whatever is there after a
    /// change, the latest only. An error is an answer, too, given once until it changes; the source itself paces how
    /// often it looks. May be dropped at any moment: nothing is lost by it.
    fn next(&mut self) -> Brought<'_>;

    /// Brings the very bytes of `release` again, if this source can still be asked for them.
    fn again<'a>(&'a self, release: &'a Release) -> Brought<'a>;

    /// The place, as the operator wrote it.
    fn place(&self) -> &str;
}

/// Why a source brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// There is nothing (yet).
    #[error("{place}: there is nothing: {why}")]
    Absent {
        /// Where.
        place: String,
        /// What is missing, for people.
        why: String,
    },
    /// It cannot be asked now; it will be again.
    #[error("{place}: cannot be asked: {why}")]
    Unavailable {
        /// Where.
        place: String,
        /// Why, for people.
        why: String,
    },
    /// It refuses us.
    #[error("{place}: access is denied: {why}")]
    Denied {
        /// Where.
        place: String,
        /// Why, for people.
        why: String,
    },
    /// What it offers cannot be a module, or is not what it says it is: nothing of it is used until it changes.
    #[error("{place}: what is there is refused: {why}")]
    Refused {
        /// Where.
        place: String,
        /// Why, for people.
        why: String,
    },
}
