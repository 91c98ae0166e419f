//! The shipped provider as compiled code, for the processes that tests start: without it each compiles the module at
//! its start, which costs seconds of processor time.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};

/// Makes `folder`, for `--compiled-cache-dir`, in which the embedded `hcloud` is compiled already. The first call of a
/// process makes sure that a folder below `kept`, which stays from run to run, has it; `program` is the built `ccm`.
///
/// # Errors
/// The program failed, or a file cannot be copied.
pub async fn fill(folder: PathBuf, kept: &'static str, program: &'static str) -> Result<()> {
    let shared = Path::new(kept).join("compiled-modules");
    let filled = move || copy(&folder, &shared, Path::new(program));
    tokio::task::spawn_blocking(filled)
        .await
        .context("compiling panicked")?
}

fn copy(folder: &Path, shared: &Path, program: &Path) -> Result<()> {
    static COMPILED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let compiled =
        COMPILED.get_or_init(|| compile(shared, program).map_err(|error| format!("{error:#}")));
    compiled.clone().map_err(anyhow::Error::msg)?;
    // The other files of such a folder belong to one process.
    let compiled = folder.join("compiled");
    fs::create_dir_all(folder).context("cannot make the folder")?;
    DirBuilder::new()
        .mode(0o700)
        .create(&compiled)
        .context("cannot make the folder of compiled code")?;
    for entry in fs::read_dir(shared.join("compiled"))? {
        let path = entry?.path();
        let name = path.file_name().context("a file without a name")?;
        fs::copy(&path, compiled.join(name))
            .with_context(|| format!("cannot copy {}", path.display()))?;
    }
    Ok(())
}

fn compile(shared: &Path, program: &Path) -> Result<()> {
    let output = Command::new(program)
        .args(["provider", "check", "embedded:hcloud"])
        .arg(format!("--compiled-cache-dir={}", shared.display()))
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the module was not compiled: {reported}"
    );
    Ok(())
}
