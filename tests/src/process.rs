//! Starts and supervises a process for a test: redirects its output to a file, and ends it.
//!
//! It knows nothing of Kubernetes or clouds, and leaves no process behind, however the test ends.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// Number of log lines shown in an error.
const TAIL: usize = 30;

/// A started process; killed on drop.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; its output is appended to `log`.
    ///
    /// # Errors
    /// The log cannot be written or the program cannot be started.
    pub fn spawn(mut command: Command, log: &Path) -> Result<Self> {
        let name = command.get_program().display().to_string();
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            // Drop ends the process. If the test is killed without dropping, the kernel still closes this pipe, and
            // the servers that this package builds end with it.
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

    /// The process ID, for reading its resource usage.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Checks that the process is running.
    ///
    /// # Errors
    /// It has ended; the error holds the end of the log.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended ({status}):\n{}", self.name, self.tail());
        }
        Ok(())
    }

    /// The output so far.
    #[must_use]
    pub fn output(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The last lines of the output.
    #[must_use]
    pub fn tail(&self) -> String {
        let log = self.output();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// Asks the process to stop (SIGTERM).
    ///
    /// # Errors
    /// The process has ended already.
    pub fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Asks the process to stop as Ctrl-C does (SIGINT).
    ///
    /// # Errors
    /// The process has ended already.
    pub fn interrupt(&mut self) -> Result<()> {
        self.signal(Signal::INT)
    }

    /// Suspends the process (SIGSTOP).
    ///
    /// # Errors
    /// The process has ended already.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes a suspended process (SIGCONT).
    ///
    /// # Errors
    /// The process has ended already.
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        self.check()?;
        // Not reaped yet, so the PID still belongs to this process.
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// The exit status; `None` while the process runs.
    ///
    /// # Errors
    /// The system cannot provide it.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// It still runs after `patience`; the error holds the end of the log.
    pub async fn ended(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < deadline,
                "{} does not end:\n{}",
                self.name,
                self.tail()
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the process like a crash (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only when the process is already gone, as wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
