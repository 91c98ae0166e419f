//! The shipped provider and its versions as compiled code, for the processes that tests start: without it each compiles
//! its module at its start, which costs seconds of processor time.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

/// The folder for `--compiled-cache-dir` that all suites share, below the `CARGO_TARGET_TMPDIR` of a test: it stays
/// from run to run, so that each module is compiled once for all of them.
pub const FOLDER: &str = "compiled-modules";

/// The file with the key that authenticates entries.
const KEY: &str = "key";

/// The argument that has a command keep what it compiles in [`FOLDER`]; `kept` is the test's `CARGO_TARGET_TMPDIR`.
#[must_use]
pub fn argument(kept: &str) -> String {
    format!("--compiled-cache-dir={kept}/{FOLDER}")
}

/// What a `ccm` that a test starts finds compiled.
#[derive(Debug, Clone, Copy)]
pub struct CompiledModules {
    /// The test's `CARGO_TARGET_TMPDIR`, below which [`FOLDER`] is.
    pub kept: &'static str,
    /// The built `ccm`.
    pub program: &'static str,
}

/// The SHA-256 in hexadecimal digits of each module that this process has had compiled.
static COMPILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Held by who compiles, so that each module is compiled once.
static COMPILING: Mutex<()> = Mutex::new(());

impl CompiledModules {
    /// Compiles a module, unless [`FOLDER`] has it: each folder that is filled from now on has it, too.
    ///
    /// # Errors
    /// The program failed, or its input cannot be written.
    pub async fn add(self, wasm: Vec<u8>) -> Result<()> {
        tokio::task::spawn_blocking(move || self.compile(&wasm))
            .await
            .context("compiling panicked")?
    }

    /// Puts all that this process has had compiled into `folder`, for `--compiled-cache-dir`. A folder that a `ccm` has
    /// made without it stays as it is.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub fn fill(self, folder: &Path) -> Result<()> {
        let kept = Path::new(self.kept).join(FOLDER).join("compiled");
        // The other files of such a folder belong to one process.
        let filled = folder.join("compiled");
        fs::create_dir_all(folder).context("cannot make the folder")?;
        match DirBuilder::new().mode(0o700).create(&filled) {
            Ok(()) => fs::copy(kept.join(KEY), filled.join(KEY))
                .map(drop)
                .context("cannot copy the key")?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // Entries count under the key that they were made with only.
                if fs::read(kept.join(KEY)).ok() != fs::read(filled.join(KEY)).ok() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error).context("cannot make the folder of compiled code"),
        }
        let digests = compiled().clone();
        for entry in fs::read_dir(kept)? {
            let path = entry?.path();
            let name = path.file_name().context("a file without a name")?;
            // A file of compiled code is named after its module.
            let is_wanted = |name: &str| digests.iter().any(|digest| name.starts_with(digest));
            let to = filled.join(name);
            if name.to_str().is_some_and(is_wanted) && !to.exists() {
                fs::copy(&path, to).with_context(|| format!("cannot copy {}", path.display()))?;
            }
        }
        Ok(())
    }

    fn compile(self, wasm: &[u8]) -> Result<()> {
        let digest = hex::encode(Sha256::digest(wasm));
        let _alone = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled().contains(&digest) {
            return Ok(());
        }
        let file = NamedTempFile::new().context("cannot make a file")?;
        fs::write(file.path(), wasm).context("cannot write the module")?;
        let output = Command::new(self.program)
            .args(["provider", "check"])
            .arg(file.path())
            .arg(argument(self.kept))
            .output()
            .with_context(|| format!("cannot start {}", self.program))?;
        let reported = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "the module was not compiled: {reported}"
        );
        compiled().insert(digest);
        Ok(())
    }
}

fn compiled() -> MutexGuard<'static, BTreeSet<String>> {
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner)
}
