//! Third-party programs and packages for tests: built from source or installed on first use, and kept in the user's cache.
//!
//! A folder's name contains a digest of the sources, so changed sources cause a new build. Folders lie outside the
//! checkout, so that a clean checkout does not, and appear atomically.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// The cache folder of the programs or packages `name`; runs `build` to fill it if it does not exist. The sources are these
/// `files` in a folder.
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
    // Tests run in parallel threads and processes: one builds, the others wait.
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = cache.join(format!("{name}.lock"));
    let lock = File::create(&lock).with_context(|| format!("cannot open {}", lock.display()))?;
    lock.lock().context("cannot wait for another build")?;
    if folder.is_dir() {
        return Ok(folder);
    }
    report_progress(&format!("what is built is kept in {}", folder.display()));
    let unfinished = tempfile::Builder::new()
        .prefix("unfinished-")
        .tempdir_in(&cache)
        .context("cannot make a folder to build in")?;
    build(unfinished.path())?;
    fs::rename(unfinished.keep(), &folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Flags for compiling Go. Nobody debugs these programs: without debug information, they take a sixth less of the
/// processor's time to compile. Panics name their lines without it.
const GO_FLAGS: [&str; 2] = ["-trimpath", "-gcflags=all=-dwarf=false"];

/// Runs `go build` with these arguments in the folder of the sources. `.ci/run` fills Go's cache ahead of time, with
/// the same [`GO_FLAGS`] and `CGO_ENABLED`.
pub(crate) fn go_build(sources: &Path, arguments: &[&str], hint: &str) -> Result<()> {
    let mut go = Command::new("go");
    go.arg("build")
        .args(GO_FLAGS)
        .args(arguments)
        .current_dir(sources)
        .env("CGO_ENABLED", "0");
    match go.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("`go build` failed ({status}), see above; {hint}"),
        Err(error) => Err(error).context(format!("cannot run `go`; {hint}")),
    }
}

/// Finds a program in the search path or in the folders where this project's CI keeps its tools.
///
/// # Errors
/// It does not exist; the error says how to install it.
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

/// Prints a progress message. The test harness captures `eprintln!`, so this writes to standard error directly.
pub(crate) fn report_progress(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
