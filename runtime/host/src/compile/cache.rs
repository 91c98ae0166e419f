//! Compiled code on disk, and the one place where code becomes runnable. Code is loaded only if this process's own
//! child has just compiled it, or if a file says, under a key that only this installation has, that an earlier one
//! did. This is the only file with `unsafe` code in the manager.

#![allow(
    unsafe_code,
    reason = "loading compiled code is unsafe in wasmtime's terms; what makes it sound is checked right here"
)]

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{Hash as _, Hasher};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
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

/// First bytes of an entry; the digit is the version of the layout: magic, MAC, code.
const MAGIC: &[u8; 8] = b"ccm-cwa1";
const MAC_BYTES: usize = 32;
const KEY_BYTES: usize = 32;
const SUFFIX: &str = "cwasm";
/// Leftovers of a crashed writer are removed after this long.
const STALE: Duration = Duration::from_secs(3_600);

/// Why the cache cannot be used.
#[derive(Debug, Error)]
pub enum CacheError {
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
    /// The key file is not what we wrote.
    #[error("{} is not a key of this cache; remove it together with the cache", path.display())]
    Key {
        /// The key file.
        path: PathBuf,
    },
    /// No randomness for a new key.
    #[error("cannot make a key for the cache: {0}")]
    Random(String),
}

/// Loads code that our own child has just compiled.
///
/// # Errors
/// The code is for other settings, or there is no memory for it.
pub(crate) fn load(engine: &Engine, code: &Compiled) -> wasmtime::Result<Component> {
    // SAFETY: `Compiled` is made only from what our own compile child wrote to a pipe that nobody else has.
    unsafe { Component::deserialize(engine, code.as_bytes()) }
}

/// A folder of compiled code.
pub(crate) struct Cache {
    folder: PathBuf,
    /// Keyed with the installation's key, nothing fed yet.
    mac: Hmac<Sha256>,
    /// Stands for wasmtime's version, the engine's settings and the processor's features.
    compatibility: String,
    cap: u64,
}

impl Cache {
    /// Opens, or makes, the cache below `parent`, in a folder of its own that nobody else can write.
    pub(crate) fn open(parent: &Path, engine: &Engine) -> Result<Cache, CacheError> {
        let folder = parent.join("compiled");
        fs::create_dir_all(parent).map_err(io("create", parent))?;
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(io("create", &folder)(error));
            }
            _ => {}
        }
        check_ownership(&folder)?;
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

    /// The component of a module, if an intact entry for it is there. Anything else is removed, so that it is
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
        // SAFETY: the MAC proves that these very bytes, which are ours alone in memory by now, were written by `store`,
        // which is given only what our own compile child made of the module with this digest for an engine like this.
        match unsafe { Component::deserialize(engine, code) } {
            Ok(component) => {
                // Only the order of eviction depends on it.
                let _ = File::options()
                    .append(true)
                    .open(&path)
                    .and_then(|file| file.set_modified(SystemTime::now()));
                Some(component)
            }
            Err(error) => self.discard(&path, &format!("{error:#}")),
        }
    }

    /// Writes an entry, whole or not at all, then removes the longest unused ones beyond the cap.
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
        .map_err(io("write", &temporary))
        .and_then(|()| fs::rename(&temporary, &path).map_err(io("write", &path)));
        if result.is_err() {
            // The error that matters is the one that is returned.
            let _ = fs::remove_file(&temporary);
        }
        self.sweep();
        result
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
        // It will be overwritten anyway.
        let _ = fs::remove_file(path);
        None
    }

    /// Removes what is too old or too much. Failures are left for the next time.
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

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CacheError {
    let path = path.to_owned();
    move |reason| CacheError::Io {
        action,
        path,
        reason,
    }
}

fn check_ownership(folder: &Path) -> Result<(), CacheError> {
    let metadata = fs::symlink_metadata(folder).map_err(io("look at", folder))?;
    let ours = rustix::process::geteuid().as_raw();
    let what = if !metadata.is_dir() {
        "it is not a folder".to_owned()
    } else if metadata.uid() != ours {
        format!(
            "it belongs to user {}, and this is user {ours}",
            metadata.uid()
        )
    } else if metadata.mode() & 0o077 != 0 {
        format!(
            "its mode is {:o}, and 700 is needed",
            metadata.mode() & 0o777
        )
    } else {
        return Ok(());
    };
    Err(CacheError::NotOurs {
        path: folder.to_owned(),
        what,
    })
}

/// Reads the installation's key, which is made on first use. Two processes that start at once agree on the first one's.
fn keyed(folder: &Path) -> Result<Hmac<Sha256>, CacheError> {
    let path = folder.join("key");
    if !path.exists() {
        let temporary = folder.join(format!("{}.tmp", random_name()?));
        write(&temporary, &[&random::<KEY_BYTES>()?]).map_err(io("write", &temporary))?;
        let linked = fs::hard_link(&temporary, &path);
        // Already linked, or of no use.
        let _ = fs::remove_file(&temporary);
        match linked {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(io("write", &path)(error));
            }
            _ => {}
        }
    }
    let key = read(&path).map_err(io("read", &path))?;
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

/// Names the settings under which compiled code is interchangeable.
fn compatibility(engine: &Engine) -> String {
    /// `Hash` feeds a hasher, so SHA-256 is made to look like one.
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
