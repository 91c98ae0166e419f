//! The signals that ask the process to end: SIGTERM, and SIGINT (Ctrl-C). Ends nothing itself.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, from when they are listened to. Several listeners get each signal.
pub(crate) struct TerminationSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl TerminationSignals {
    /// Begins to listen: from now on neither signal ends the process by itself.
    ///
    /// # Errors
    /// The process cannot handle signals.
    pub(crate) fn listen() -> anyhow::Result<TerminationSignals> {
        Ok(TerminationSignals {
            terminate: signal(SignalKind::terminate()).context("cannot listen to SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen to SIGINT")?,
        })
    }

    /// Waits for the next of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
