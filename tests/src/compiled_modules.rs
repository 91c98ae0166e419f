//! The shipped provider as compiled code, for the processes that tests start: without it each compiles the module at
//! its start, which costs seconds of processor time.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;

/// The folder for `--compiled-cache-dir` that all suites share, below the `CARGO_TARGET_TMPDIR` of a test: it stays
/// from run to run, so that each module is compiled once for all of them.
pub const FOLDER: &str = "compiled-modules";

/// The argument that has a command keep what it compiles in [`FOLDER`]; `kept` is the test's `CARGO_TARGET_TMPDIR`.
#[must_use]
pub fn argument(kept: &str) -> String {
    format!("--compiled-cache-dir={kept}/{FOLDER}")
}

/// Makes `folder`, for `--compiled-cache-dir`, in which the embedded `hcloud` is compiled already. The first call of a
/// process makes sure that [`FOLDER`] below `kept` has it; `program` is the built `ccm`.
///
/// # Errors
/// The program failed, or a file cannot be copied.
pub async fn fill(folder: PathBuf, kept: &'static str, program: &'static str) -> Result<()> {
    let filled = move || copy(&folder, kept, Path::new(program));
    tokio::task::spawn_blocking(filled)
        .await
        .context("compiling panicked")?
}

fn copy(folder: &Path, kept: &str, program: &Path) -> Result<()> {
    static DIGEST: OnceLock<std::result::Result<String, String>> = OnceLock::new();
    let digest =
        DIGEST.get_or_init(|| compile(kept, program).map_err(|error| format!("{error:#}")));
    let digest = digest.as_ref().map_err(|error| anyhow!("{error}"))?;
    // The other files of such a folder belong to one process.
    let compiled = folder.join("compiled");
    fs::create_dir_all(folder).context("cannot make the folder")?;
    DirBuilder::new()
        .mode(0o700)
        .create(&compiled)
        .context("cannot make the folder of compiled code")?;
    for entry in fs::read_dir(Path::new(kept).join(FOLDER).join("compiled"))? {
        let path = entry?.path();
        let name = path.file_name().context("a file without a name")?;
        // A file of compiled code is named after its module, and the folder's key authenticates it.
        let wanted = |name: &str| name == "key" || name.starts_with(digest);
        if name.to_str().is_some_and(wanted) {
            fs::copy(&path, compiled.join(name))
                .with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Compiles the embedded `hcloud` and returns its SHA-256 in hexadecimal digits.
fn compile(kept: &str, program: &Path) -> Result<String> {
    let output = Command::new(program)
        .args(["provider", "check", "embedded:hcloud", "-o", "json"])
        .arg(argument(kept))
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the module was not compiled: {reported}"
    );
    let checked: Value = serde_json::from_slice(&output.stdout)?;
    let digest = checked["digest"].as_str();
    let digest = digest.and_then(|digest| digest.strip_prefix("sha256:"));
    Ok(digest.context("a module without a digest")?.to_owned())
}
