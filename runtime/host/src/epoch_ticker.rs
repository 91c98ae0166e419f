//! Thread that makes running guests yield every [`limits::TICK`], so that `sandbox::time_limit` can stop them. Sleeps
//! while no call is under way, and ends with the host and its providers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::limits;

/// Handle to the thread; dropping the last one ends it.
#[derive(Clone)]
pub(crate) struct Ticker(Arc<Last>);

/// Ends the thread on drop.
struct Last(Arc<Shared>);

#[derive(Default)]
struct Shared {
    demand: Mutex<Demand>,
    changed: Condvar,
}

#[derive(Default)]
struct Demand {
    calls: usize,
    over: bool,
}

/// The thread ticks while any of these exists.
pub(crate) struct Ticking(Ticker);

impl Ticker {
    /// Starts the thread, which calls `tick` at every tick.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(crate) fn start(tick: impl Fn() + Send + 'static) -> std::io::Result<Ticker> {
        Ticker::spawn(tick).map(|(ticker, _)| ticker)
    }

    fn spawn(tick: impl Fn() + Send + 'static) -> std::io::Result<(Ticker, JoinHandle<()>)> {
        let shared = Arc::new(Shared::default());
        let ticker = Ticker(Arc::new(Last(shared.clone())));
        let run = move || {
            while shared.is_wanted() {
                tick();
                thread::sleep(limits::TICK);
            }
        };
        let thread = thread::Builder::new()
            .name("guest-epoch".to_owned())
            .spawn(run)?;
        Ok((ticker, thread))
    }

    /// Keeps the thread ticking until the result is dropped.
    pub(crate) fn ticking(&self) -> Ticking {
        let shared = &self.0.0;
        shared.demand().calls += 1;
        shared.changed.notify_all();
        Ticking(self.clone())
    }
}

impl Shared {
    /// Waits for a call; false when the thread has to end.
    fn is_wanted(&self) -> bool {
        let waiting = |demand: &mut Demand| demand.calls == 0 && !demand.over;
        let demand = self
            .changed
            .wait_while(self.demand(), waiting)
            .unwrap_or_else(PoisonError::into_inner);
        !demand.over
    }

    fn demand(&self) -> MutexGuard<'_, Demand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.0.0.demand().calls -= 1;
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        self.0.demand().over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
    use std::sync::mpsc::{TryRecvError, channel};

    use super::*;

    #[test]
    fn it_ticks_while_somebody_wants_it_and_ends_with_the_last_handle() {
        let (sender, ticks) = channel();
        let (ticker, thread) = Ticker::spawn(move || _ = sender.send(())).unwrap();
        assert_eq!(
            ticks.try_recv(),
            Err(TryRecvError::Empty),
            "nobody wants it yet"
        );

        let first = ticker.ticking();
        let second = ticker.clone().ticking();
        ticks.recv().unwrap();
        drop(first);
        ticks.recv().unwrap();
        drop(second);

        drop(ticker);
        // If the thread did not end, this would wait forever.
        thread.join().unwrap();
    }
}
