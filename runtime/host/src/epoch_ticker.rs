//! Thread that makes guests yield every [`limits::TICK`] while they compute, so that `sandbox::time_limit` can stop them.
//! Sleeps while every call waits for its cloud, and ends with the host and its providers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

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
    /// Guests that compute now.
    computing: usize,
    /// Whether the thread waits for a guest that computes, and not for its next tick.
    is_idle: bool,
    over: bool,
}

/// The thread ticks while any of these exists.
struct Ticking<'a>(&'a Shared);

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
                // First: most calls end before they would have to yield.
                thread::sleep(limits::TICK);
                tick();
            }
        };
        let thread = thread::Builder::new()
            .name("guest-epoch".to_owned())
            .spawn(run)?;
        Ok((ticker, thread))
    }

    /// Runs a call, with ticks during each poll: in between the guest does not compute.
    pub(crate) async fn ticking<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        poll_fn(|context| {
            let _ticking = self.start_ticking();
            call.as_mut().poll(context)
        })
        .await
    }

    /// Keeps the thread ticking until the result is dropped.
    fn start_ticking(&self) -> Ticking<'_> {
        let shared = &*self.0.0;
        let mut demand = shared.demand.lock();
        demand.computing += 1;
        if demand.is_idle {
            shared.changed.notify_one();
        }
        Ticking(shared)
    }
}

impl Shared {
    /// Waits for a guest that computes; false when the thread has to end.
    fn is_wanted(&self) -> bool {
        let waiting = |demand: &mut Demand| {
            demand.is_idle = demand.computing == 0 && !demand.over;
            demand.is_idle
        };
        let mut demand = self.demand.lock();
        self.changed.wait_while(&mut demand, waiting);
        !demand.over
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.demand.lock().computing -= 1;
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        self.0.demand.lock().over = true;
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

        let clone = ticker.clone();
        let first = ticker.start_ticking();
        let second = clone.start_ticking();
        ticks.recv().unwrap();
        drop(first);
        ticks.recv().unwrap();
        drop(second);

        drop((ticker, clone));
        // If the thread did not end, this would wait forever.
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn a_call_that_waits_for_its_cloud_wants_no_ticks() {
        let ticker = Ticker::start(|| ()).unwrap();
        let computing = || ticker.0.0.demand.lock().computing;
        let (answer, answered) = tokio::sync::oneshot::channel();
        let mut call = pin!(ticker.ticking(async {
            assert_eq!(computing(), 1, "it computes");
            answered.await
        }));
        assert!(futures::poll!(call.as_mut()).is_pending());
        assert_eq!(computing(), 0, "it waits");
        answer.send(()).unwrap();
        call.await.unwrap();
    }
}
