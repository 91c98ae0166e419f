//! A module embedded in this program. It never changes.

use std::future::{pending, ready};

use ccm_core::rollout::Release;

use super::{Brought, Source, SourceError};
use crate::artifact::Artifact;

/// A source that returns its module once.
pub struct EmbeddedSource {
    artifact: Artifact,
    is_returned: bool,
}

impl EmbeddedSource {
    /// Creates the source `place` from an uncompressed component.
    pub fn new(place: String, wasm: &'static [u8]) -> Self {
        Self {
            artifact: Artifact::new(place, wasm),
            is_returned: false,
        }
    }
}

impl Source for EmbeddedSource {
    fn next(&mut self) -> Brought<'_> {
        Box::pin(async {
            if self.is_returned {
                return pending().await;
            }
            self.is_returned = true;
            Ok(self.artifact.clone())
        })
    }

    fn again<'a>(&'a self, release: &'a Release) -> Brought<'a> {
        let now = self.artifact.digest.to_string();
        Box::pin(ready(if now == release.digest {
            Ok(self.artifact.clone())
        } else {
            let why = format!("{} is not offered any more, but {now}", release.digest);
            Err(SourceError::absent(self.place(), why))
        }))
    }

    fn place(&self) -> &str {
        &self.artifact.origin
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use ccm_core::rollout::Release;
    use futures::FutureExt as _;

    use super::{EmbeddedSource, Source as _};
    use crate::source::SourceErrorKind;

    #[tokio::test]
    async fn the_bytes_are_offered_once_and_can_be_had_again() {
        let mut source = EmbeddedSource::new("embedded:a".to_owned(), b"\0asm");
        let artifact = source.next().await.unwrap();
        assert_eq!(
            (&*artifact.wasm, &*artifact.origin),
            (&b"\0asm"[..], "embedded:a")
        );
        assert!(source.next().now_or_never().is_none());

        let mut release = Release {
            digest: artifact.digest.to_string(),
            version: String::new(),
            origin: String::new(),
        };
        assert_eq!(
            source.again(&release).await.unwrap().digest,
            artifact.digest
        );
        release.digest = "sha256:other".to_owned();
        let refused = source.again(&release).await.err().unwrap();
        assert_eq!(refused.kind, SourceErrorKind::Absent, "{refused}");
    }
}
