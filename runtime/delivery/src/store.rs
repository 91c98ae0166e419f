//! Local store of the last good modules, so that a restart needs no source. Modules are identified by digest, which is
//! verified on every read: a modified or truncated file counts as absent. Stores no secrets and makes no trust
//! decisions: evidence is stored beside the module and verified again.

mod folder;
mod memory;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use ccm_host::{Digest, FolderError};

use crate::artifact::Artifact;
use crate::source::blocking;
use folder::Folder;
use memory::Memory;

/// Modules of one configuration entry. Several processes may share a folder if they have the same entries: see
/// [`ModuleStore::remove_departed`].
pub struct ModuleStore {
    place: Place,
}

enum Place {
    Folder(Arc<Folder>),
    /// In the memory of this process, with which the modules are lost.
    Memory(Memory),
}

impl ModuleStore {
    /// Opens or creates the folder, accessible to this user only. Without a folder, or if it cannot be created, as on a
    /// full disk, the last few modules are kept in memory.
    ///
    /// # Errors
    /// It is another user's, or no folder.
    pub fn open(folder: Option<PathBuf>) -> Result<Self, FolderError> {
        let place = match folder {
            Some(path) => match Folder::open(path) {
                Ok(folder) => Place::Folder(Arc::new(folder)),
                Err(error @ FolderError::Io { .. }) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "modules are kept in memory: a restart needs their sources"
                    );
                    Place::Memory(Memory::default())
                }
                Err(error) => return Err(error),
            },
            None => Place::Memory(Memory::default()),
        };
        Ok(Self { place })
    }

    /// Removes the modules and records in the subfolders of `parent` that have none of these names, if nothing of such a
    /// provider was written within a day. Files that the store does not know stay, and so do their folders.
    pub async fn remove_departed(parent: PathBuf, configured: BTreeSet<String>) {
        blocking(move || folder::remove_departed(&parent, &configured)).await;
    }

    /// Stores a module with its evidence atomically. Replaces the evidence of a module that is already stored.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn put(&self, artifact: &Artifact) -> Result<(), FolderError> {
        match &self.place {
            Place::Folder(folder) => {
                let (folder, artifact) = (folder.clone(), artifact.clone());
                blocking(move || folder.put(&artifact)).await
            }
            Place::Memory(memory) => {
                memory.put(artifact);
                Ok(())
            }
        }
    }

    /// The module with this digest, if it is stored intact. The store does not know whether the operator currently pins
    /// its digest: see [`crate::source::Location::pin`].
    pub async fn get(&self, digest: &Digest) -> Option<Artifact> {
        match &self.place {
            Place::Folder(folder) => {
                let (folder, digest) = (folder.clone(), *digest);
                blocking(move || folder.get(digest)).await
            }
            Place::Memory(memory) => memory.get(*digest),
        }
    }

    /// Removes all other modules, except those stored in the last hour: another process may need them. If all together
    /// are larger than 512 MiB, the oldest of these are removed, too.
    pub async fn keep(&self, digests: &[Digest]) {
        match &self.place {
            Place::Folder(folder) => {
                let (folder, digests) = (folder.clone(), digests.to_vec());
                blocking(move || folder.keep(&digests)).await;
            }
            Place::Memory(memory) => memory.keep(digests),
        }
    }
}

#[cfg(test)]
mod tests;
