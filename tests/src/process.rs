//! A process that a test starts: its output goes into a file, it is looked after, and it is ended.
//!
//! It knows nothing of Kubernetes or of clouds, and leaves no process behind, whichever way the test ends.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// How many lines of a log an error shows.
const TAIL: usize = 30;

/// A process that was started; it is killed when this is dropped.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; what it prints is appended to `log`.
    ///
    /// # Errors
    /// The log cannot be written or the program not be started.
    pub fn spawn(mut command: Command, log: &Path) -> Result<Self> {
        let name = command.get_program().display().to_string();
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            // Drop ends the process. If the test is killed and drops nothing, the kernel still closes this
            // pipe, and the servers that this package builds end with it.
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

    /// Its number, under which the system tells what it uses.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Checks that the process is running.
    ///
    /// # Errors
    /// It is not; the error holds the end of the log.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended ({status}):\n{}", self.name, self.tail());
        }
        Ok(())
    }

    /// Everything that was printed so far.
    #[must_use]
    pub fn output(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The last lines that were printed.
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

    /// Stops the process in its tracks (SIGSTOP).
    ///
    /// # Errors
    /// The process has ended already.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused process go on (SIGCONT).
    ///
    /// # Errors
    /// The process has ended already.
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        self.check()?;
        // Not reaped yet, so the number still belongs to this process.
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// How the process ended, if it has.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Errors
    /// It has not after `patience`; the error holds the end of the log.
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

    /// Ends the process as a crash would (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
