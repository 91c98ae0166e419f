//! Writes results to files and as JSON.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Formats a value as JSON text.
pub(super) fn json(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Writes a file atomically: watchers of the folder never see a part of it. A device or a pipe is written to, and a link
/// stays: the file that it leads to is replaced.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let found = fs::metadata(path).map(|found| found.file_type()).ok();
    if found.is_some_and(|kind| kind.is_dir()) {
        bail!("{} is a folder, and no file", path.display());
    }
    if found.is_some_and(|kind| !kind.is_file()) {
        let open = File::options().write(true).open(path);
        return open
            .and_then(|mut device| device.write_all(bytes))
            .with_context(|| format!("cannot write {}", path.display()));
    }
    let real = found.and_then(|_| fs::canonicalize(path).ok());
    let path = real.as_deref().unwrap_or(path);
    let name = path
        .file_name()
        .with_context(|| format!("{} does not name a file", path.display()))?;
    // Sources ignore names with a leading dot.
    let unfinished = format!(".{}.{}", name.to_string_lossy(), std::process::id());
    let unfinished = path.with_file_name(unfinished);
    let written = write_new(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // It may not exist; only the write error is reported.
        let _ = fs::remove_file(&unfinished);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
