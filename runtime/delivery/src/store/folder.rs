//! Modules in a folder that only this user can write: `<hex>.wasm`, and beside it `<hex>.json` with origin and
//! evidence. The `.wasm` is put in place last: if it exists, the `.json` does.

mod entry;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ccm_host::{Digest, FolderError, check_ownership};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::artifact::{Artifact, EVIDENCE_BYTES, MODULE_BYTES, MOST_EVIDENCE};
use crate::record::MemoryRecordStore;
use entry::{Entry, Unusable};

/// Minimum age before a file, temporary ones included, is removed: another process may have just written it.
const YOUNG: Duration = Duration::from_secs(3_600);
/// Minimum age of the newest file of a provider that is not configured, before all its files are removed: its entry may
/// come back.
const DEPARTED: Duration = Duration::from_secs(86_400);
/// Maximum size of all files together: 16 of the largest modules. Beyond it young files are removed, too.
const MOST_BYTES: u64 = 512 << 20;
/// Largest description, in bytes. Base64 takes four bytes for three, and one piece of evidence has up to six parts.
const ENTRY_BYTES: usize = MOST_EVIDENCE * EVIDENCE_BYTES * 2;
const WASM: &str = "wasm";
const JSON: &str = "json";
const TEMPORARY: &str = "tmp";

/// The folder with the stored modules.
pub(super) struct Folder {
    path: PathBuf,
}

/// The files of one module.
struct Files {
    paths: Vec<PathBuf>,
    /// When the last of them was written; the epoch if that cannot be told.
    modified: SystemTime,
    bytes: u64,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            modified: SystemTime::UNIX_EPOCH,
            bytes: 0,
        }
    }
}

impl Files {
    fn add(&mut self, path: PathBuf) {
        if let Ok(metadata) = fs::symlink_metadata(&path) {
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            self.modified = self.modified.max(modified);
            self.bytes = self.bytes.saturating_add(metadata.len());
        }
        self.paths.push(path);
    }
}

/// Removes what is stored of the providers that have a subfolder in `parent` and are not `configured`, unless some of it
/// was written within a day.
pub(super) fn remove_departed(parent: &Path, configured: &BTreeSet<String>) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        // A link leads to a folder that is not the store's.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        let name = name.to_str().filter(|name| !configured.contains(*name));
        if let Some(name) = name.filter(|_| is_folder) {
            Folder { path: entry.path() }.remove(name);
        }
    }
}

impl Folder {
    pub(super) fn open(path: PathBuf) -> Result<Self, FolderError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(FolderError::io("create", &path))?;
        check_ownership(&path)?;
        Ok(Self { path })
    }

    pub(super) fn put(&self, artifact: &Artifact) -> Result<(), FolderError> {
        let digest = artifact.digest;
        self.write(&self.file(digest, JSON), &Entry::of(artifact).to_json())?;
        self.write(&self.file(digest, WASM), &artifact.wasm)
    }

    pub(super) fn get(&self, digest: Digest) -> Option<Artifact> {
        let path = self.file(digest, WASM);
        let wasm = match read(&path, MODULE_BYTES) {
            Ok(wasm) => wasm,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => return self.unread(digest, &error),
        };
        let found = Digest::of(&wasm);
        if found != digest {
            return self.discard(digest, &format!("its bytes have {found}"));
        }
        let entry = match read(&self.file(digest, JSON), ENTRY_BYTES) {
            Ok(json) => Entry::from_json(&json),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Unusable::Damaged(error.to_string()))
            }
            Err(error) => return self.unread(digest, &error),
        };
        match entry {
            Ok(entry) => Some(entry.into_artifact(digest, wasm.into())),
            Err(Unusable::OtherVersion(version)) => {
                tracing::warn!(%digest, folder = %self.path.display(), version, "a kept module is not used: another version of the program wrote its companion file");
                None
            }
            Err(Unusable::Damaged(why)) => {
                self.discard(digest, &format!("its companion file cannot be read: {why}"))
            }
        }
    }

    pub(super) fn keep(&self, digests: &[Digest]) {
        let kept: Vec<String> = digests.iter().map(Digest::hex).collect();
        let now = SystemTime::now();
        let (mut total, mut others) = (0_u64, Vec::new());
        for (stem, files) in self.files() {
            total = total.saturating_add(files.bytes);
            if !kept.contains(&stem) {
                others.push(files);
            }
        }
        others.sort_by_key(|files| files.modified);
        for files in others {
            let age = now.duration_since(files.modified).unwrap_or_default();
            if age < YOUNG && total <= MOST_BYTES {
                return;
            }
            for path in &files.paths {
                // A file that cannot be removed now is tried again the next time.
                let _ = fs::remove_file(path);
            }
            total = total.saturating_sub(files.bytes);
        }
    }

    /// Removes the modules and the record of the provider `name` if none of the files is young, and the folder unless it has
    /// others.
    fn remove(&self, name: &str) {
        let mut all: Vec<Files> = self.files().into_values().collect();
        let mut record = Files::default();
        for path in MemoryRecordStore::files(&self.path, name) {
            record.add(path);
        }
        all.push(record);
        let newest = all.iter().map(|files| files.modified).max();
        let newest = newest.unwrap_or(SystemTime::UNIX_EPOCH);
        let age = SystemTime::now().duration_since(newest).unwrap_or_default();
        if age < DEPARTED {
            return;
        }
        // What cannot be removed now is tried again the next time.
        let mut is_removed = false;
        for path in all.iter().flat_map(|files| &files.paths) {
            is_removed |= fs::remove_file(path).is_ok();
        }
        is_removed |= fs::remove_dir(&self.path).is_ok();
        if is_removed {
            tracing::info!(folder = %self.path.display(), "the kept modules of a provider that is not configured are removed");
        }
    }

    /// The files of modules, and temporary ones, by their names without the extension. The record of the versions is
    /// beside them.
    fn files(&self) -> BTreeMap<String, Files> {
        let mut found = BTreeMap::<String, Files>::new();
        for file in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = file.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let stem = stem.unwrap_or_default().to_owned();
            let is_ours = Digest::parse(&format!("sha256:{stem}")).is_some()
                || path.extension().is_some_and(|kind| kind == TEMPORARY);
            if !is_ours {
                continue;
            }
            found.entry(stem).or_default().add(path);
        }
        found
    }

    fn file(&self, digest: Digest, kind: &str) -> PathBuf {
        self.path.join(format!("{}.{kind}", digest.hex()))
    }

    /// Writes a file atomically, also if the machine loses power.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
        let failed = || FolderError::io("write", path);
        let suffix = format!(".{TEMPORARY}");
        let mut file = NamedTempFile::with_suffix_in(suffix, &self.path).map_err(failed())?;
        file.write_all(bytes).map_err(failed())?;
        file.as_file().sync_all().map_err(failed())?;
        file.persist(path).map_err(|error| failed()(error.error))?;
        File::open(&self.path)
            .and_then(|folder| folder.sync_all())
            .map_err(failed())
    }

    /// A file that could not be read: removed only if it is no file of this store. Too many open files, or a disk that does
    /// not answer, may pass, and while its source is away the kept module is the only one.
    fn unread(&self, digest: Digest, error: &std::io::Error) -> Option<Artifact> {
        if is_foreign(error) {
            return self.discard(digest, &error.to_string());
        }
        tracing::warn!(%digest, folder = %self.path.display(), error = error as &dyn std::error::Error, "a kept module cannot be read");
        None
    }

    fn discard(&self, digest: Digest, why: &str) -> Option<Artifact> {
        tracing::warn!(%digest, folder = %self.path.display(), why, "a kept module is not used, and removed");
        for kind in [WASM, JSON] {
            // A file that cannot be removed is replaced by the next write.
            let _ = fs::remove_file(self.file(digest, kind));
        }
        None
    }
}

/// Whether what [`read`] found is no regular file of at most the limit.
fn is_foreign(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::InvalidData
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Reads a regular file; refuses symbolic links.
fn read(path: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > limit as u64 {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_file_of_the_store_is_removed() {
        for (error, expected) in [
            (ErrorKind::InvalidData.into(), true),
            (Errno::LOOP.into(), true),
            (Errno::MFILE.into(), false),
            (Errno::IO.into(), false),
            (Errno::ACCESS.into(), false),
        ] {
            let error: std::io::Error = error;
            assert_eq!(is_foreign(&error), expected, "{error}");
        }
    }
}
