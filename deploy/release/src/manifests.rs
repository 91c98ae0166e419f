//! The manifests of the checkout: the Helm chart in the form of `helm package`, and the folders of kustomize.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::archive::{self, Archive};
use crate::{Release, read};

/// Writes `ccm-VERSION.tgz` (the chart) and `ccm-VERSION-kustomize.tar.gz` into `output`.
///
/// # Errors
/// A file of the checkout cannot be read, or an archive cannot be written.
pub(crate) fn publish(release: &Release, output: &Path) -> Result<()> {
    let name = format!("ccm-{}", release.version);
    // `ci` has values of the tests: `.helmignore` leaves them out, too.
    let chart = packed(release, "deploy/chart", "ccm", &["ci", ".helmignore"])?;
    fs::write(output.join(format!("{name}.tgz")), chart)?;
    let root = format!("{name}-kustomize");
    let kustomize = packed(release, "deploy/kustomize", &root, &[])?;
    fs::write(output.join(format!("{root}.tar.gz")), kustomize)?;
    Ok(())
}

/// A folder of the checkout as a compressed archive below `root`, without the names in `left_out` at its top.
fn packed(release: &Release, folder: &str, root: &str, left_out: &[&str]) -> Result<Vec<u8>> {
    let folder = release.checkout.join(folder);
    let mut paths = Vec::new();
    for entry in names(&folder)? {
        if !left_out.contains(&entry.as_str()) {
            files(&folder, &entry, &mut paths)?;
        }
    }
    let mut archive = Archive::new(release.created);
    for path in paths {
        archive.file(
            &format!("{root}/{path}"),
            0o644,
            &read(&folder.join(&path))?,
        )?;
    }
    archive::gzip(&archive.finish()?, release.compression)
}

/// Every file at or below `path`, relative to `folder`, in the order of names.
fn files(folder: &Path, path: &str, found: &mut Vec<String>) -> Result<()> {
    let here = folder.join(path);
    if !here.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    for entry in names(&here)? {
        files(folder, &format!("{path}/{entry}"), found)?;
    }
    Ok(())
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
