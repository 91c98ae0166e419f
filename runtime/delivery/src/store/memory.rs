//! The last few modules, in the memory of this process.

use std::collections::VecDeque;

use ccm_host::Digest;
use parking_lot::Mutex;

use crate::artifact::Artifact;

/// Maximum number of modules: serving, previous, on trial, and one spare.
const MOST: usize = 4;

/// The modules that this process keeps. Most recently used first.
#[derive(Default)]
pub(super) struct Memory(Mutex<VecDeque<Artifact>>);

impl Memory {
    pub(super) fn put(&self, artifact: &Artifact) {
        let mut artifact = artifact.clone();
        artifact.unanswered.clear();
        let mut all = self.0.lock();
        all.retain(|kept| kept.digest != artifact.digest);
        all.push_front(artifact);
        all.truncate(MOST);
    }

    /// Returns a module and marks it as most recently used.
    pub(super) fn get(&self, digest: Digest) -> Option<Artifact> {
        let mut all = self.0.lock();
        let at = all.iter().position(|kept| kept.digest == digest)?;
        let found = all.remove(at)?;
        all.push_front(found.clone());
        Some(found)
    }

    pub(super) fn keep(&self, digests: &[Digest]) {
        self.0.lock().retain(|kept| digests.contains(&kept.digest));
    }
}
