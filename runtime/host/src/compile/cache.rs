//! Cache of compiled code on disk, and the one place where code becomes runnable. Code is loaded only if this
//! process's own child has just compiled it, or if a file proves, by a MAC under a key that only this installation
//! has, that an earlier child did.

#![allow(
    unsafe_code,
    reason = "loading compiled code is unsafe in wasmtime's terms; what makes it sound is checked right here"
)]

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{Hash as _, Hasher};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::child::Compiled;
use crate::digest::Digest;
use crate::limits;
use crate::private_folder::{FolderError, check_ownership};

/// First bytes of an entry; the digit is the version of the layout: magic, MAC, code.
const MAGIC: &[u8; 8] = b"ccm-cwa1";
const MAC_BYTES: usize = 32;
const KEY_BYTES: usize = 32;
const SUFFIX: &str = "cwasm";
/// Name of the file with the key.
const KEY: &str = "key";
/// Age at which leftovers of a crashed writer are removed.
const STALE: Duration = Duration::from_secs(3_600);

/// Why the cache cannot be used.
#[derive(Debug, Error)]
pub enum CacheError {
    /// The folder or one of its files is unusable.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The key file has an unexpected content.
    #[error("{} is not a key of this cache; remove it together with the cache", path.display())]
    Key {
        /// Path of the key file.
        path: PathBuf,
    },
    /// The system has no randomness for a new key.
    #[error("cannot make a key for the cache: {0}")]
    Random(String),
}

/// Loads code that this process's own child has just compiled.
///
/// # Errors
/// The code is for other settings, or memory is exhausted.
pub(crate) fn load(engine: &Engine, code: &Compiled) -> wasmtime::Result<Component> {
    // SAFETY: `Compiled` is made only from bytes that our own compile child wrote to a pipe that no other process
    // has.
    unsafe { Component::deserialize(engine, code.as_bytes()) }
}

/// Folder of compiled code.
pub(crate) struct Cache {
    folder: PathBuf,
    /// HMAC with the installation's key, before any input.
    mac: Hmac<Sha256>,
    /// Hash of wasmtime's version, the engine's settings and the processor's features.
    compatibility: String,
    cap: u64,
}

impl Cache {
    /// Opens or creates the cache below `parent`, in a folder of its own that no other user can write.
    pub(crate) fn open(parent: &Path, engine: &Engine) -> Result<Cache, CacheError> {
        let folder = parent.join("compiled");
        fs::create_dir_all(parent).map_err(FolderError::io("create", parent))?;
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(FolderError::io("create", &folder)(error).into());
            }
            _ => {}
        }
        if check_ownership(&folder)? {
            // Others may know the key, or have put theirs in its place: entries under it are not believed.
            forget_key(&folder)?;
        }
        let mac = keyed(&folder)?;
        let cache = Cache {
            folder,
            mac,
            compatibility: compatibility(engine),
            cap: limits::CACHE_BYTES,
        };
        cache.sweep();
        Ok(cache)
    }

    /// Component of a module, if there is an intact entry for it. A damaged entry is removed, so that the module is
    /// compiled again.
    pub(crate) fn load(&self, engine: &Engine, digest: Digest) -> Option<Component> {
        let path = self.path(digest);
        let entry = match read(&path) {
            Ok(entry) => entry,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => return self.discard(&path, &error.to_string()),
        };
        let Some(code) = self.verify(digest, &entry) else {
            return self.discard(&path, "it is damaged, or not from this installation");
        };
        // SAFETY: the MAC proves that exactly these bytes, which only this process can change by now, were written
        // by `store`, which only gets the output of our own compile child for the module with this digest and such
        // an engine.
        match unsafe { Component::deserialize(engine, code) } {
            Ok(component) => {
                // The modification time only affects the order of eviction.
                let _ = File::options()
                    .append(true)
                    .open(&path)
                    .and_then(|file| file.set_modified(SystemTime::now()));
                Some(component)
            }
            Err(error) => self.discard(&path, &format!("{error:#}")),
        }
    }

    /// Writes an entry atomically, then removes the least recently used ones beyond the cap.
    pub(crate) fn store(&self, digest: Digest, code: &Compiled) -> Result<(), CacheError> {
        let path = self.path(digest);
        let temporary = self.folder.join(format!("{}.tmp", random_name()?));
        let result = write(
            &temporary,
            &[
                MAGIC,
                self.mac(digest, code.as_bytes()).as_slice(),
                code.as_bytes(),
            ],
        )
        .map_err(FolderError::io("write", &temporary))
        .and_then(|()| fs::rename(&temporary, &path).map_err(FolderError::io("write", &path)));
        if result.is_err() {
            // The error of the write matters, not the one of this clean-up.
            let _ = fs::remove_file(&temporary);
        }
        self.sweep();
        Ok(result?)
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder
            .join(format!("{}-{}.{SUFFIX}", digest.hex(), self.compatibility))
    }

    fn mac(&self, digest: Digest, code: &[u8]) -> [u8; MAC_BYTES] {
        self.authenticate(digest, code)
            .finalize()
            .into_bytes()
            .into()
    }

    fn authenticate(&self, digest: Digest, code: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(self.compatibility.as_bytes());
        mac.update(digest.as_bytes());
        mac.update(code);
        mac
    }

    fn verify<'a>(&self, digest: Digest, entry: &'a [u8]) -> Option<&'a [u8]> {
        let (mac, code) = entry.strip_prefix(MAGIC)?.split_at_checked(MAC_BYTES)?;
        self.authenticate(digest, code).verify_slice(mac).ok()?;
        Some(code)
    }

    fn discard(&self, path: &Path, reason: &str) -> Option<Component> {
        tracing::warn!(path = %path.display(), reason, "a cache entry is not used; the module is compiled again");
        // `store` overwrites it anyway.
        let _ = fs::remove_file(path);
        None
    }

    /// Removes stale files and entries beyond the cap. Failures are retried at the next sweep.
    fn sweep(&self) {
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let Ok(metadata) = file.metadata() else {
                continue;
            };
            let Ok(modified) = metadata.modified() else {
                continue;
            };
            let path = file.path();
            match path.extension().and_then(OsStr::to_str) {
                Some(SUFFIX) => entries.push((modified, metadata.len(), path)),
                Some("tmp") if modified.elapsed().is_ok_and(|age| age > STALE) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in entries {
            if total <= self.cap {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
    }
}

/// Removes the installation's key, so that the next one that is needed is created anew.
fn forget_key(folder: &Path) -> Result<(), FolderError> {
    let path = folder.join(KEY);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(FolderError::io("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

/// HMAC with the installation's key, which is created on first use. If two processes start at once, both use the key
/// that was written first.
fn keyed(folder: &Path) -> Result<Hmac<Sha256>, CacheError> {
    let path = folder.join(KEY);
    if !path.exists() {
        let temporary = folder.join(format!("{}.tmp", random_name()?));
        write(&temporary, &[&random::<KEY_BYTES>()?])
            .map_err(FolderError::io("write", &temporary))?;
        let linked = fs::hard_link(&temporary, &path);
        // Already linked, or useless.
        let _ = fs::remove_file(&temporary);
        match linked {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(FolderError::io("write", &path)(error).into());
            }
            _ => {}
        }
    }
    let key = read(&path).map_err(FolderError::io("read", &path))?;
    if key.len() != KEY_BYTES {
        return Err(CacheError::Key { path });
    }
    Hmac::new_from_slice(&key).map_err(|_| CacheError::Key { path })
}

fn random<const N: usize>() -> Result<[u8; N], CacheError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| CacheError::Random(error.to_string()))?;
    Ok(bytes)
}

fn random_name() -> Result<String, CacheError> {
    Ok(hex::encode(random::<8>()?))
}

fn write(path: &Path, pieces: &[&[u8]]) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    for piece in pieces {
        file.write_all(piece)?;
    }
    file.sync_all()
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(limits::COMPILED_BYTES as u64 + 64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Identifies the settings under which compiled code is interchangeable.
fn compatibility(engine: &Engine) -> String {
    /// `Hash` needs a `Hasher`, so SHA-256 is wrapped as one.
    struct Sha(Sha256);
    impl Hasher for Sha {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = Sha(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hex::encode(hasher.0.finalize()).chars().take(16).collect()
}

#[cfg(test)]
mod tests;
