//! Programs of others that tests run: built from their sources the first time, and kept in the user's cache.
//!
//! A folder is named after the sources, so a change of them builds anew, and lies outside the checkout, so that a
//! clean checkout does not. It appears whole or not at all.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// The folder of the programs `name` with what `build` puts into it, unless it is there already. The sources are
/// these `files` of a folder.
pub(crate) fn folder(
    name: &str,
    sources: &Path,
    files: &[&str],
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let cache = cache()?;
    let folder = cache.join(format!("{name}-{}", digest(sources, files)?));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Tests run side by side, in threads and in processes: one builds, the others wait.
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = cache.join(format!("{name}.lock"));
    let lock = File::create(&lock).with_context(|| format!("cannot open {}", lock.display()))?;
    lock.lock().context("cannot wait for another build")?;
    if folder.is_dir() {
        return Ok(folder);
    }
    say(&format!("what is built is kept in {}", folder.display()));
    let unfinished = tempfile::Builder::new()
        .prefix("unfinished-")
        .tempdir_in(&cache)
        .context("cannot make a folder to build in")?;
    build(unfinished.path())?;
    fs::rename(unfinished.keep(), &folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Runs `go build` with these arguments in the folder of the sources. `.ci/run` fills Go's cache ahead of time, with the
/// same `-trimpath` and `CGO_ENABLED`.
pub(crate) fn go_build(sources: &Path, arguments: &[&str], hint: &str) -> Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-trimpath"])
        .args(arguments)
        .current_dir(sources)
        .env("CGO_ENABLED", "0");
    match go.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("`go build` failed ({status}), see above; {hint}"),
        Err(error) => Err(error).context(format!("cannot run `go`; {hint}")),
    }
}

/// A program from the search path, or from the folders where this project's CI keeps its tools.
///
/// # Errors
/// It is not there; the error says how it is installed.
pub fn installed(tool: &str, version: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let kept = fs::read_dir(cache()?).into_iter().flatten().flatten();
    let kept = kept.filter(|entry| entry.file_name().to_string_lossy().starts_with("tools-"));
    folders.extend(kept.map(|entry| entry.path().join("bin")));
    let mut files = folders.iter().map(|folder| folder.join(tool));
    files.find(|file| file.is_file()).with_context(|| {
        format!(
            "{tool} is not in PATH and not in ~/.cache/ccm-tests/tools-*/bin: \
             `cargo install {tool} --version {version} --locked`"
        )
    })
}

/// Hexadecimal SHA-256 over the sources.
fn digest(sources: &Path, files: &[&str]) -> Result<String> {
    let mut digest = Sha256::new();
    for name in files {
        let path = sources.join(name);
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        digest.update(text);
    }
    Ok(hex::encode(digest.finalize()))
}

fn cache() -> Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()
            .context("no home folder")?
            .join(".cache"),
    };
    Ok(cache.join("ccm-tests"))
}

/// Tells the person who waits. The test harness catches `eprintln!`, so this goes past it.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
