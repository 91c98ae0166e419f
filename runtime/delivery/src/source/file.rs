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
use tokio::time::{Instant, sleep};

use super::{Brought, FilePlace, LastAnswer, Source, SourceError, SourceErrorKind, reading};
use crate::artifact::Artifact;
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
    last_answer: LastAnswer,
    /// State in which the file was read last. It is read again when that changes, and after it could not be read.
    read: Option<Identity>,
    /// State found by the last poll, and since when: a file is read only when its state stays the same.
    unsettled: Option<(Identity, Instant)>,
}

impl FileSource {
    /// Creates the source `place`, parsed as `at`, for a configuration entry. In a folder, the file named like the
    /// entry is used.
    pub fn new(place: String, at: FilePlace, entry: String) -> Self {
        Self {
            place,
            at,
            entry,
            last_answer: LastAnswer::default(),
            read: None,
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
                (self.unsettled, self.read) = (None, None);
                return self.last_answer.unless_repeated(Err(error)).ok_or(INTERVAL);
            }
        };
        let identity = seen.identity();
        if self.read.as_ref() == Some(&identity) {
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
        answer: Result<Artifact, SourceError>,
    ) -> Result<Result<Artifact, SourceError>, Duration> {
        let is_read = match &answer {
            Ok(_) => true,
            Err(error) => match error.kind {
                SourceErrorKind::Absent | SourceErrorKind::Refused(_) => true,
                // The file may be readable the next time, as it is: a network volume was away.
                SourceErrorKind::Unavailable | SourceErrorKind::Denied => false,
            },
        };
        self.read = is_read.then_some(identity);
        self.last_answer.unless_repeated(answer).ok_or(INTERVAL)
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
