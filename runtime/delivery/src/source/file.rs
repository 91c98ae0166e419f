//! A module in a file or folder of this machine, or on a mounted volume. The path is polled: polling works on every
//! volume and finally misses nothing, while notifications depend on the file system and on how the file is replaced.
//! One poll is a few system calls.
//!
//! A file is best replaced by renaming another one over it. A file written in place is read once it has not changed for
//! [`SETTLED`]. A ConfigMap volume switches a symbolic link, which is handled the same way. `subPath` mounts never
//! change, and image volumes only when the pod is recreated: that is how Kubernetes mounts them.

mod kept;
mod poll;

use std::time::{Duration, SystemTime};

use ccm_core::rollout::Release;
use ccm_host::Digest;
use tokio::time::{Instant, sleep};

use super::{Brought, FilePlace, Source, SourceError, SourceErrorKind, reading};
use crate::artifact::{Artifact, SignatureEvidence};
use poll::{Identity, Seen};

/// Interval between two polls of a path.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// Polling interval while a file is being written.
const QUICK: Duration = Duration::from_millis(250);
/// How long a file must be unchanged before it is read.
pub const SETTLED: Duration = Duration::from_secs(1);

/// A source that polls a path of this machine.
pub struct FileSource {
    place: String,
    at: FilePlace,
    entry: String,
    /// The last answer, so that it is not repeated.
    last_answer: Option<LastAnswer>,
    /// State found by the last poll, and since when: a file is read only when its state stays the same.
    unsettled: Option<(Identity, Instant)>,
}

/// An answer that is not repeated while nothing changes.
enum LastAnswer {
    /// An error without any file being read to its end.
    Nothing(SourceError),
    /// The file in this state was read and is not a module.
    NoModule(Identity),
    /// The file's state, and the returned module: digest and evidence.
    Module(Identity, Digest, Vec<SignatureEvidence>),
}

impl FileSource {
    /// Creates the source `place`, parsed as `at`, for a configuration entry. In a folder, the file named like the
    /// entry is used.
    pub fn new(place: String, at: FilePlace, entry: String) -> Self {
        Self {
            place,
            at,
            entry,
            last_answer: None,
            unsettled: None,
        }
    }

    /// Reads the current content without waiting for it to settle, for callers who know that it is not being written.
    ///
    /// # Errors
    /// There is no module, it cannot be read, or it changed during the read.
    pub async fn now(&self) -> Result<Artifact, SourceError> {
        let seen = self.open().await?;
        reading(&self.place, move |place| seen.read_now(place)).await
    }

    /// Polls once. `Err(wait)`: nothing new; poll again after `wait`.
    async fn look(&mut self) -> Result<Result<Artifact, SourceError>, Duration> {
        let seen = match self.open().await {
            Ok(seen) => seen,
            Err(error) => {
                self.unsettled = None;
                return self.failed(error);
            }
        };
        let known = match &self.last_answer {
            Some(LastAnswer::NoModule(identity) | LastAnswer::Module(identity, ..)) => {
                Some(identity)
            }
            Some(LastAnswer::Nothing(_)) | None => None,
        };
        let identity = seen.identity();
        if known == Some(&identity) {
            self.unsettled = None;
            return Err(INTERVAL);
        }
        let since = match &self.unsettled {
            Some((unsettled, since)) if *unsettled == identity => *since,
            _ => Instant::now(),
        };
        let is_settled =
            since.elapsed() >= SETTLED || identity.is_older_than(SETTLED, SystemTime::now());
        self.unsettled = Some((identity.clone(), since));
        if !is_settled {
            return Err(QUICK);
        }
        let read = reading(&self.place, move |place| seen.read(place)).await;
        let Some(read) = read.transpose() else {
            // The file changed while it was read.
            return Err(QUICK);
        };
        self.unsettled = None;
        self.answer(identity, read)
    }

    /// Records what was read of the file in this state. `Err(wait)`: it repeats the last answer.
    fn answer(
        &mut self,
        identity: Identity,
        read: Result<Artifact, SourceError>,
    ) -> Result<Result<Artifact, SourceError>, Duration> {
        let answer = match read {
            Ok(read) => read,
            Err(error) => match error.kind {
                SourceErrorKind::Absent | SourceErrorKind::Refused(_) => {
                    self.last_answer = Some(LastAnswer::NoModule(identity));
                    return Ok(Err(error));
                }
                // The file may be readable the next time, as it is: a network volume was away.
                SourceErrorKind::Unavailable | SourceErrorKind::Denied => {
                    return self.failed(error);
                }
            },
        };
        let is_known = matches!(&self.last_answer, Some(LastAnswer::Module(_, digest, evidence))
            if *digest == answer.digest && *evidence == answer.evidence);
        self.last_answer = Some(LastAnswer::Module(
            identity,
            answer.digest,
            answer.evidence.clone(),
        ));
        if is_known {
            Err(INTERVAL)
        } else {
            Ok(Ok(answer))
        }
    }

    /// Records an error after which the file is read again, whatever its state. `Err(wait)`: it repeats the last answer.
    fn failed(&mut self, error: SourceError) -> Result<Result<Artifact, SourceError>, Duration> {
        if matches!(&self.last_answer, Some(LastAnswer::Nothing(last)) if *last == error) {
            return Err(INTERVAL);
        }
        self.last_answer = Some(LastAnswer::Nothing(error.clone()));
        Ok(Err(error))
    }

    async fn open(&self) -> Result<Seen, SourceError> {
        let (at, entry) = (self.at.clone(), self.entry.clone());
        reading(&self.place, move |place| poll::open(place, &at, &entry)).await
    }
}

impl Source for FileSource {
    fn next(&mut self) -> Brought<'_> {
        Box::pin(async {
            loop {
                match self.look().await {
                    Ok(answer) => return answer,
                    Err(wait) => sleep(wait).await,
                }
            }
        })
    }

    fn again<'a>(&'a self, release: &'a Release) -> Brought<'a> {
        let (at, entry, release) = (self.at.clone(), self.entry.clone(), release.clone());
        let find = move |place: &str| kept::find(place, &at, &entry, &release);
        Box::pin(reading(&self.place, find))
    }

    fn place(&self) -> &str {
        &self.place
    }
}

#[cfg(test)]
mod tests;
