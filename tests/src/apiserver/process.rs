//! One server process: started with its output in a file, looked after, and ended.
//!
//! It knows nothing of Kubernetes and never leaves the process behind, whichever way the test ends.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// How many lines of a log an error shows.
const TAIL: usize = 15;

/// A running server.
pub(super) struct Server {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a program; what it prints is appended to `log`.
    pub(super) fn spawn(program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        let name = program.display().to_string();
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(program)
            .args(arguments)
            // Drop ends the server. If the test is killed and drops nothing, the kernel still closes this
            // pipe, and the programs that this package builds end with it.
            .env("EXIT_WITH_STDIN", "1")
            .stdin(Stdio::piped())
            .stdout(output.try_clone().context("cannot share the log")?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name,
            child,
            log: log.to_owned(),
        })
    }

    /// Fails with the end of the log if the process is not running any more.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended ({status}):\n{}", self.name, self.tail());
        }
        Ok(())
    }

    /// The last lines of the log.
    pub(super) fn tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// Ends the process as a crash would (SIGKILL), and waits until it is gone.
    pub(super) fn kill(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
