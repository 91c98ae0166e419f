//! Where modules come from. A source brings bytes and says what was wrong with them; it trusts nobody and decides
//! nothing.

pub mod configmap;
pub mod embedded;
pub mod file;
pub mod location;
pub mod oci;
pub mod unpack;

use std::future::Future;
use std::pin::Pin;

use ccm_core::rollout::Release;
use thiserror::Error;

pub use location::{ConfigMapKey, FilePlace, Location, LocationError, OciPlace};

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

    /// Whether the place names these very bytes by a digest. For bytes that were kept: what comes from the source itself
    /// carries it already.
    fn pins(&self, artifact: &Artifact) -> bool {
        Location::parse(self.place()).is_ok_and(|location| location.pins(artifact))
    }
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

impl SourceError {
    /// There is nothing at `place`.
    pub fn absent(place: &str, why: impl Into<String>) -> Self {
        let (place, why) = (place.to_owned(), why.into());
        Self::Absent { place, why }
    }

    /// `place` cannot be asked now.
    pub fn unavailable(place: &str, why: impl Into<String>) -> Self {
        let (place, why) = (place.to_owned(), why.into());
        Self::Unavailable { place, why }
    }

    /// `place` refuses us.
    pub fn denied(place: &str, why: impl Into<String>) -> Self {
        let (place, why) = (place.to_owned(), why.into());
        Self::Denied { place, why }
    }

    /// What `place` offers is refused.
    pub fn refused(place: &str, why: impl Into<String>) -> Self {
        let (place, why) = (place.to_owned(), why.into());
        Self::Refused { place, why }
    }
}

/// The answer to [`Source::again`] of places that offer one thing at a time: what is offered now, if it is that.
fn same_bytes(place: &str, release: &Release, offered: Artifact) -> Result<Artifact, SourceError> {
    if offered.digest.to_string() == release.digest {
        return Ok(offered);
    }
    let now = offered.digest;
    Err(SourceError::absent(
        place,
        format!("{} is not offered any more, but {now}", release.digest),
    ))
}

/// Runs what takes a while, or may wait for a disk.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going away, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
