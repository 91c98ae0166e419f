//! A module in a file or a folder of this machine, also on a mounted volume. The place is looked at again and again:
//! that works on every volume and misses nothing in the end, where notifications depend on the file system and on how
//! the file is replaced; one look is a few system calls.
//!
//! A file is replaced best by renaming another one over it. Written in place it is taken once nothing has changed for
//! [`SETTLED`]. A ConfigMap's volume switches a symbolic link, which is the same to us. What is mounted by `subPath`
//! never changes, and neither does an image volume until the pod is made anew: that is how Kubernetes mounts them.

mod look;

use std::time::{Duration, SystemTime};

use ccm_core::rollout::Release;
use ccm_host::Digest;
use tokio::time::{Instant, sleep};

use super::{Brought, FilePlace, Source, SourceError, blocking, same_bytes, unpack};
use crate::artifact::{Artifact, Evidence};
use look::{Identity, Seen};

/// How often the place is looked at.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// How often while a file is being written.
const QUICK: Duration = Duration::from_millis(250);
/// For so long a file must not have changed before it is read.
pub const SETTLED: Duration = Duration::from_secs(1);

/// See the module.
pub struct FileSource {
    place: String,
    at: FilePlace,
    entry: String,
    /// What was told last.
    told: Option<Told>,
    /// What the last look found, and since when: only what stays the same is read.
    unsettled: Option<(Identity, Instant)>,
}

/// An answer that need not be given again.
enum Told {
    /// Without having read anything.
    Nothing(SourceError),
    /// The file in this state was read, and is no module.
    NoModule(Identity),
    /// The file in this state, and what was brought: the bytes and their evidence.
    Module(Identity, Digest, Vec<Evidence>),
}

impl FileSource {
    /// The source `place`, which is `at`, for the configuration's entry of this name: in a folder, that file is taken
    /// which is called like the entry.
    pub fn new(place: String, at: FilePlace, entry: String) -> Self {
        Self {
            place,
            at,
            entry,
            told: None,
            unsettled: None,
        }
    }

    /// What is there at this moment, for somebody who knows that nobody is writing it.
    ///
    /// # Errors
    /// There is nothing, it cannot be read, or it is being written all the same.
    pub async fn now(&self) -> Result<Artifact, SourceError> {
        let seen = self.open().await?;
        let place = self.place.clone();
        let read = blocking(move || seen.read(&place)).await;
        read.unwrap_or_else(|| Err(SourceError::unavailable(&self.place, "it is being written")))
    }

    /// Looks once. `Err(wait)`: there is nothing new to tell for so long.
    async fn look(&mut self) -> Result<Result<Artifact, SourceError>, Duration> {
        let seen = match self.open().await {
            Ok(seen) => seen,
            Err(error) => {
                self.unsettled = None;
                if matches!(&self.told, Some(Told::Nothing(told)) if *told == error) {
                    return Err(INTERVAL);
                }
                self.told = Some(Told::Nothing(error.clone()));
                return Ok(Err(error));
            }
        };
        let known = match &self.told {
            Some(Told::NoModule(identity) | Told::Module(identity, ..)) => Some(identity),
            Some(Told::Nothing(_)) | None => None,
        };
        if known == Some(&seen.identity) {
            self.unsettled = None;
            return Err(INTERVAL);
        }
        let since = match &self.unsettled {
            Some((identity, since)) if *identity == seen.identity => *since,
            _ => Instant::now(),
        };
        let identity = seen.identity.clone();
        let is_settled =
            since.elapsed() >= SETTLED || identity.is_older_than(SETTLED, SystemTime::now());
        self.unsettled = Some((identity.clone(), since));
        if !is_settled {
            return Err(QUICK);
        }
        let place = self.place.clone();
        let Some(read) = blocking(move || seen.read(&place)).await else {
            // It changed while it was read.
            return Err(QUICK);
        };
        self.unsettled = None;
        let answer = match read {
            Ok(read) => read,
            Err(error) => {
                self.told = Some(Told::NoModule(identity));
                return Ok(Err(error));
            }
        };
        let is_known = matches!(&self.told, Some(Told::Module(_, digest, evidence))
            if *digest == answer.digest && *evidence == answer.evidence);
        self.told = Some(Told::Module(
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

    async fn open(&self) -> Result<Seen, SourceError> {
        let (place, at, entry) = (self.place.clone(), self.at.clone(), self.entry.clone());
        blocking(move || look::open(&place, &at, &entry)).await
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
        Box::pin(async { same_bytes(&self.place, release, self.now().await?) })
    }

    fn place(&self) -> &str {
        &self.place
    }
}

#[cfg(test)]
mod tests;
