//! The signals that end the demo, SIGINT (Ctrl-C) and SIGTERM. The process ends in order, so that no file of the demo is
//! left.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;

use crate::termination_signals::TerminationSignals;

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
        let mut signals = TerminationSignals::listen()?;
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
        let mut signals = TerminationSignals::listen()?;
        self.is_awaited.store(true, Ordering::Relaxed);
        signals.next().await;
        self.is_awaited.store(false, Ordering::Relaxed);
        Ok(())
    }
}
