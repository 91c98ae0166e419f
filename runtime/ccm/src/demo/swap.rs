//! Swap part of the demo: a file is replaced, and its module takes over while the controllers run.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use ccm_delivery::active::Active;

use super::narrate::Narrator;
use super::{STEP_TIMEOUT, wait};

/// Replaces the file with the module's next version, and waits until that version serves.
///
/// # Errors
/// The new version does not serve in time.
pub(super) async fn show(
    file: &Path,
    wasm: &[u8],
    active: &Active,
    narrator: &Narrator,
) -> anyhow::Result<()> {
    let before = active.serving();
    let (next, version) = next_version(wasm, &before.provider.manifest().version)?;
    put(file, &next)?;
    narrator.print(
        "file",
        "hcloud",
        &format!("{} is replaced by version {version}", name(file)),
    );
    let deadline = Instant::now() + STEP_TIMEOUT;
    while active.serving().provider.manifest().version != version {
        wait(deadline, || format!("version {version} does not serve")).await?;
    }
    ensure!(
        active.serving().provider.digest() != before.provider.digest(),
        "another version has the same digest"
    );
    narrator.print(
        "provider",
        "hcloud",
        &format!("version {version} serves; nothing was restarted"),
    );
    Ok(())
}

/// Replaces a module atomically, as operators should.
///
/// # Errors
/// The file cannot be written.
pub(super) fn put(file: &Path, wasm: &[u8]) -> anyhow::Result<()> {
    let aside = file.with_extension("new");
    std::fs::write(&aside, wasm)
        .and_then(|()| std::fs::rename(&aside, file))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// The same code with the next version number, and so a different module.
fn next_version(wasm: &[u8], version: &str) -> anyhow::Result<(Vec<u8>, String)> {
    let (rest, last) = version.split_at(version.len().saturating_sub(1));
    let digit: u8 = last
        .parse()
        .context("the version does not end in a digit")?;
    let next = format!("{rest}{}", (digit + 1) % 10);
    // As the SDK's macro writes it.
    let json = |version: &str| format!("\"version\":\"{version}\"");
    let (from, to) = (json(version), json(&next));
    let mut other = wasm.to_vec();
    let mut found = false;
    let mut rest = other.as_mut_slice();
    // The version may occur more than once; both have the same length.
    while let Some(at) = memchr::memmem::find(rest, from.as_bytes()) {
        let (_, begun) = rest.split_at_mut(at);
        let (field, after) = begun.split_at_mut(to.len());
        field.copy_from_slice(to.as_bytes());
        (found, rest) = (true, after);
    }
    ensure!(found, "the module does not name its version");
    Ok((other, next))
}

fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
