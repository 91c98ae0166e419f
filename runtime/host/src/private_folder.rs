//! Folders that only this user can write, because this process runs or believes what their files hold.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a private folder cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted operation, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        reason: std::io::Error,
    },
    /// Other users could put files into the folder.
    #[error("{} is not a folder that only this user can write: {what}", path.display())]
    NotOurs {
        /// Path of the folder.
        path: PathBuf,
        /// Problem with its owner or permissions.
        what: String,
    },
}

impl FolderError {
    /// Converts the error of this operation.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> FolderError {
        let path = path.to_owned();
        move |reason| FolderError::Io {
            action,
            path,
            reason,
        }
    }
}

/// Checks that only this user can write to a folder.
///
/// # Errors
/// It cannot be looked at, is no folder, or others can write to it.
pub fn check_ownership(folder: &Path) -> Result<(), FolderError> {
    let metadata = fs::symlink_metadata(folder).map_err(FolderError::io("look at", folder))?;
    let ours = rustix::process::geteuid().as_raw();
    let mode = metadata.mode() & 0o777;
    let what = if !metadata.is_dir() {
        "it is not a folder".to_owned()
    } else if metadata.uid() != ours {
        format!(
            "it belongs to user {}, and this is user {ours}",
            metadata.uid()
        )
    } else if mode & 0o077 != 0 {
        format!("its mode is {mode:o}, and 700 is needed")
    } else {
        return Ok(());
    };
    let path = folder.to_owned();
    Err(FolderError::NotOurs { path, what })
}
