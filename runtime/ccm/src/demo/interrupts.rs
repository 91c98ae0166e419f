//! The signals that end the demo, SIGINT (Ctrl-C) and SIGTERM. The process ends in order, so that no file of the demo is
//! left.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal means now.
#[derive(Default)]
pub(super) struct Interrupts {
    /// Whether the demo is over, and its page waits for a signal.
    is_awaited: AtomicBool,
}

impl Interrupts {
    /// Runs the demo, and drops it, its files included, at a signal that nothing waits for.
    ///
    /// # Errors
    /// The demo failed, or is not complete.
    pub(super) async fn unless_stopped(
        &self,
        demo: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        tokio::select! {
            // First: a signal that the page waits for does not stop the demo.
            biased;
            stopped = self.stopped() => stopped,
            result = demo => result,
        }
    }

    async fn stopped(&self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        loop {
            signals.next().await;
            if !self.is_awaited.load(Ordering::Relaxed) {
                bail!("stopped before the end of the demo");
            }
        }
    }

    /// Waits for a signal.
    ///
    /// # Errors
    /// The process cannot handle signals.
    pub(super) async fn awaited(&self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        self.is_awaited.store(true, Ordering::Relaxed);
        signals.next().await;
        self.is_awaited.store(false, Ordering::Relaxed);
        Ok(())
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate()).context("cannot listen to SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen to SIGINT")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
