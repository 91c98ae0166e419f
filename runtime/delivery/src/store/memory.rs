//! Modules in the memory of this process: the last few.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccm_host::Digest;

use crate::artifact::Artifact;

/// What serves, what served before, what is tried, and one to spare.
const MOST: usize = 4;

/// See the module. The latest first.
#[derive(Default)]
pub(super) struct Memory(Mutex<VecDeque<Artifact>>);

impl Memory {
    pub(super) fn put(&self, artifact: &Artifact) {
        let mut artifact = artifact.clone();
        artifact.is_pinned = false;
        let mut all = self.lock();
        all.retain(|kept| kept.digest != artifact.digest);
        all.push_front(artifact);
        all.truncate(MOST);
    }

    /// What is asked for is used, and stays longest.
    pub(super) fn get(&self, digest: Digest) -> Option<Artifact> {
        let mut all = self.lock();
        let at = all.iter().position(|kept| kept.digest == digest)?;
        let found = all.remove(at)?;
        all.push_front(found.clone());
        Some(found)
    }

    pub(super) fn keep(&self, digests: &[Digest]) {
        self.lock().retain(|kept| digests.contains(&kept.digest));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Artifact>> {
        // Nothing is left half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
