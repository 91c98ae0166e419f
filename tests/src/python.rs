//! Packages of Python for tests: installed on first use, and kept in the user's cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::built;

/// The file with the packages' versions and checksums.
const REQUIREMENTS: &str = "requirements.txt";

/// The folder, for `PYTHONPATH`, with the packages that `requirements.txt` in `sources` names. All tests share it, so
/// nothing else is written there. The first call on a machine installs them.
///
/// # Errors
/// There is no Python 3 with pip, or it cannot install them.
pub fn packages(sources: &Path) -> Result<PathBuf> {
    let output = Command::new("python3")
        .arg("--version")
        .output()
        .context("python3, 3.11 or newer, is not in PATH")?;
    // `Python 3.11.2`: some packages are compiled for one version.
    let version = String::from_utf8_lossy(&output.stdout);
    let version = version.trim().strip_prefix("Python ");
    let version = version.context("python3 does not print its version")?;
    let name = sources.file_name().context("a folder without a name")?;
    let name = format!("python-{version}-{}", name.display());
    built::folder(&name, sources, &[REQUIREMENTS], |folder| {
        install(&sources.join(REQUIREMENTS), folder)
    })
}

fn install(requirements: &Path, folder: &Path) -> Result<()> {
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet"])
        .args([
            "--disable-pip-version-check",
            "--root-user-action",
            "ignore",
        ])
        .args(["--no-deps", "--only-binary", ":all:", "--require-hashes"])
        .arg("--requirement")
        .arg(requirements)
        .arg("--target")
        .arg(folder)
        .output()
        .context("cannot run python3")?;
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`python3 -m pip install` failed:\n{reported}"
    );
    Ok(())
}
