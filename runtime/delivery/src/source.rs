//! Sources of modules. A source fetches bytes and reports errors; it verifies no signatures and decides nothing.

pub mod configmap;
pub mod embedded;
pub mod file;
pub mod location;
pub mod oci;
pub mod unpack;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use bytes::Bytes;
use ccm_core::rollout::Release;
use futures::FutureExt as _;
use thiserror::Error;

pub use location::{ConfigMapKey, FilePlace, Location, LocationError, OciPlace};

use crate::artifact::Artifact;

/// What people are told of a panic. Its payload may hold anything, and this text is published in the record.
pub(crate) const PANICKED: &str = "the host failed: it panicked";

/// Future of one fetch from a source.
pub type Brought<'a> = Pin<Box<dyn Future<Output = Result<Artifact, SourceError>> + Send + 'a>>;

/// One location that a provider's module comes from.
pub trait Source: Send {
    /// Waits for the next offer and fetches it: first the current one, then the latest after each change. An error
    /// counts as an answer and is returned once until it changes; the source limits its own polling rate. Cancel-safe.
    fn next(&mut self) -> Brought<'_>;

    /// Fetches exactly the bytes of `release` again, if the source still has them.
    fn again<'a>(&'a self, release: &'a Release) -> Brought<'a>;

    /// The location, as the operator wrote it.
    fn place(&self) -> &str;
}

/// Why a source returned no artifact.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {kind}: {why}")]
pub struct SourceError {
    /// The kind of failure.
    pub kind: SourceErrorKind,
    /// The location of the source, as the operator wrote it.
    pub place: String,
    /// The reason, for people.
    pub why: String,
}

/// The kind of a [`SourceError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SourceErrorKind {
    /// The source has no module (yet).
    #[error("there is nothing")]
    Absent,
    /// Temporary failure; the source tries again.
    #[error("cannot be asked")]
    Unavailable,
    /// The source denies access.
    #[error("access is denied")]
    Denied,
    /// The content, or the way to it, is refused; nothing of it is used until it changes.
    #[error("{} is refused", .0.words())]
    Refused(RefusedPart),
}

/// What a source refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedPart {
    /// The content: it cannot be a module or does not match its digest.
    Content,
    /// The way to it: an address, a proxy, a redirect, or the code of an answer. That says nothing about a module.
    Way,
}

impl RefusedPart {
    fn words(self) -> &'static str {
        match self {
            Self::Content => "what is there",
            Self::Way => "the way there",
        }
    }
}

impl SourceError {
    pub(crate) fn new(kind: SourceErrorKind, place: &str, why: impl Into<String>) -> Self {
        let (place, why) = (place.to_owned(), why.into());
        Self { kind, place, why }
    }

    /// `place` has no module.
    pub fn absent(place: &str, why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Absent, place, why)
    }

    /// `place` cannot be asked now.
    pub fn unavailable(place: &str, why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Unavailable, place, why)
    }

    /// Reading `place` panicked. That is not attributed to what is there: the cause is unknown.
    pub(crate) fn panicked(place: &str) -> Self {
        Self::unavailable(place, PANICKED)
    }

    /// `place` denies access.
    pub fn denied(place: &str, why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Denied, place, why)
    }

    /// The content of `place` is refused.
    pub fn refused(place: &str, why: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Refused(RefusedPart::Content), place, why)
    }
}

/// The last answer of a source, without the module's bytes.
#[derive(Default)]
struct LastAnswer(Option<Result<Artifact, SourceError>>);

impl LastAnswer {
    /// Records an answer. `None`: it repeats the last one.
    fn unless_repeated(
        &mut self,
        answer: Result<Artifact, SourceError>,
    ) -> Option<Result<Artifact, SourceError>> {
        let wasm = Bytes::new();
        let known = answer.clone().map(|artifact| Artifact { wasm, ..artifact });
        let is_repeated = self.0.as_ref() == Some(&known);
        self.0 = Some(known);
        (!is_repeated).then_some(answer)
    }
}

/// Reads and unpacks what strangers wrote, on a blocking thread.
///
/// # Errors
/// As `read`, or [`SourceError::panicked`].
async fn reading<T: Send + 'static>(
    place: &str,
    read: impl FnOnce(&str) -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    let known = place.to_owned();
    let read = AssertUnwindSafe(blocking(move || read(&known)));
    let read = read.catch_unwind().await;
    read.unwrap_or_else(|_| Err(SourceError::panicked(place)))
}

/// Runs long or disk-bound work on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn a_panic_over_what_is_read_is_a_failure_of_the_host() {
        let read = reading::<()>("here", |_| panic!("on purpose")).await;
        assert_eq!(read, Err(SourceError::panicked("here")));
    }
}
