//! Whose turn it is to compute. A guest that computes for long would take a thread of the runtime from everybody else, and
//! the calls of one hostile provider all of them. So:
//!
//! - Of the calls of one provider one computes at a time. They wait for the cloud most of the time, side by side. Whose turn
//!   it was is told to the next one after all who are in line for the thread: between two steps of another provider's call
//!   there is one turn, however many short calls there are.
//! - One that has computed for long goes on in a lane of its own: one for each provider, and for all together one less
//!   than there are processors. After each tick it rests for half as long, so that a thread finds time for the network.
//!
//! A provider whose calls end badly again and again begins them ever more rarely: see `backoff`.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread::available_parallelism;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of one provider. Clones are the same.
#[derive(Clone)]
pub(crate) struct CpuScheduler {
    /// One for the only call of the provider that may compute.
    computing: Arc<Semaphore>,
    /// How many there were.
    taken: Arc<AtomicU64>,
    /// One for its only long call.
    own: Arc<Semaphore>,
    /// One for each long call of all providers together.
    all: Arc<Semaphore>,
}

/// A call that computes, during one poll. Its end is heard by the next one a little later.
pub(super) struct CpuPermit {
    computing: Option<OwnedSemaphorePermit>,
}

/// A long call that computes or rests.
pub(super) struct LongCallPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Something that comes when it is free; those who wait longest come first. `None` never comes: nobody closes what is
/// waited for.
pub(super) type Wait<T> = BoxFuture<'static, Option<T>>;

impl CpuPermit {
    fn new(computing: OwnedSemaphorePermit, taken: &AtomicU64) -> CpuPermit {
        taken.fetch_add(1, Ordering::Relaxed);
        CpuPermit {
            computing: Some(computing),
        }
    }
}

impl Drop for CpuPermit {
    fn drop(&mut self) {
        let computing = self.computing.take();
        // Without a runtime, nobody is in line.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                end_of_line().await;
                drop(computing);
            });
        }
    }
}

/// Ends when everybody has come to their turn who is in line for this thread. `yield_now` would wait for the network as well,
/// which a busy thread looks at rarely.
async fn end_of_line() {
    let mut is_polled = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl CpuScheduler {
    /// Those of the first provider.
    pub(crate) fn first() -> CpuScheduler {
        let processors = available_parallelism().map_or(1, usize::from);
        CpuScheduler {
            computing: Arc::new(Semaphore::new(1)),
            taken: Arc::default(),
            own: Arc::new(Semaphore::new(1)),
            all: Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))),
        }
    }

    /// Those of another provider beside it.
    pub(crate) fn beside(&self) -> CpuScheduler {
        CpuScheduler {
            all: self.all.clone(),
            ..CpuScheduler::first()
        }
    }

    /// A turn, if it can be had at once.
    pub(super) fn turn(&self) -> Option<CpuPermit> {
        let computing = self.computing.clone().try_acquire_owned();
        computing
            .ok()
            .map(|computing| CpuPermit::new(computing, &self.taken))
    }

    /// The next turn.
    pub(super) fn next_turn(&self) -> Wait<CpuPermit> {
        let (computing, taken) = (self.computing.clone(), self.taken.clone());
        Box::pin(async move {
            let computing = computing.acquire_owned().await;
            computing
                .ok()
                .map(|computing| CpuPermit::new(computing, &taken))
        })
    }

    /// How many turns calls of this provider had so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The next time that a long call may compute.
    pub(super) fn next_lane(&self) -> Wait<LongCallPermit> {
        let CpuScheduler { own, all, .. } = self.clone();
        Box::pin(async move {
            Some(LongCallPermit {
                _own: own.acquire_owned().await.ok()?,
                _all: all.acquire_owned().await.ok()?,
            })
        })
    }
}
