//! Folders that only this user can write, because this process runs or believes what their files hold.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
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

/// Checks that a folder belongs to this user, and closes it to others where its mode does not: kubelet opens the folders
/// of a volume to the group of the pod. Returns whether others could read or write in it until now.
///
/// # Errors
/// It cannot be looked at or closed, is no folder, or belongs to another user.
pub fn check_ownership(folder: &Path) -> Result<bool, FolderError> {
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
        close(folder).map_err(FolderError::io("close to other users", folder))?;
        tracing::warn!(
            folder = %folder.display(),
            mode = %format_args!("{mode:o}"),
            "the folder was open to other users, and is closed to them now"
        );
        return Ok(true);
    } else {
        return Ok(false);
    };
    let path = folder.to_owned();
    Err(FolderError::NotOurs { path, what })
}

/// Sets the mode by a handle, so that no link that others put in the folder's place is followed.
fn close(folder: &Path) -> std::io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(folder)?;
    folder.set_permissions(Permissions::from_mode(0o700))
}
