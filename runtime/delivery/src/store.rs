//! Modules on this machine: the last good ones, so that a restart needs no source. Each is told by its digest, and what
//! is read is checked against it every time: a file that somebody changed, or that was written half, is not there.
//! Keeps no secrets, and trusts nobody: what vouches for a module is kept beside it and verified anew.

mod folder;
mod memory;

use std::path::PathBuf;
use std::sync::Arc;

use ccm_host::Digest;
use thiserror::Error;

use crate::artifact::Artifact;
use crate::source::blocking;
use folder::Folder;
use memory::Memory;

/// The modules of one entry of the configuration. Several processes may use one folder.
pub struct ModuleStore {
    place: Place,
}

enum Place {
    Folder(Arc<Folder>),
    /// Lost with the process.
    Memory(Memory),
}

/// Why modules cannot be kept.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        reason: std::io::Error,
    },
    /// Somebody else could put files there.
    #[error("{} is not a folder that only this user can write: {what}", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl ModuleStore {
    /// Opens the folder, or makes it, for this user alone. Without one the last few modules are kept in memory.
    ///
    /// # Errors
    /// It cannot be made, or others can write there.
    pub fn open(folder: Option<PathBuf>) -> Result<Self, StoreError> {
        let place = match folder {
            Some(path) => Place::Folder(Arc::new(Folder::open(path)?)),
            None => Place::Memory(Memory::default()),
        };
        Ok(Self { place })
    }

    /// Keeps a module with its evidence, whole or not at all. One that is there already gets the newer evidence.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn put(&self, artifact: &Artifact) -> Result<(), StoreError> {
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

    /// The module with this digest, if it is there intact. Whether the operator names it by a digest now is not known
    /// here: ask [`crate::source::Source::pins`].
    pub async fn get(&self, digest: &Digest) -> Option<Artifact> {
        match &self.place {
            Place::Folder(folder) => {
                let (folder, digest) = (folder.clone(), *digest);
                blocking(move || folder.get(digest)).await
            }
            Place::Memory(memory) => memory.get(*digest),
        }
    }

    /// Removes every other module, except those that came in the last hour: another process may need them.
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
