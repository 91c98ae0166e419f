//! CPU scheduler for guests. Without it, a guest that computes for long would take a runtime thread from all other
//! tasks, and the calls of one hostile provider all threads. So:
//!
//! - One call per provider computes at a time; calls mostly wait for the cloud, concurrently. The next call gets the
//!   CPU permit only after all tasks already queued on the thread: between two steps of another provider's call
//!   there is one poll of this provider, however many short calls it has.
//! - A call that has computed for long needs a long-call permit: one per provider, and in total one less than there
//!   are processors. After each tick it rests for half as long, so that the thread gets to network I/O.
//!
//! A provider whose calls keep ending badly may start them less and less often: see `backoff`.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread::available_parallelism;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// CPU scheduler of one provider. Clones share it.
#[derive(Clone)]
pub(crate) struct CpuScheduler {
    /// One permit: only one call of the provider computes at a time.
    computing: Arc<Semaphore>,
    /// Number of CPU permits issued so far.
    taken: Arc<AtomicU64>,
    /// One permit: only one long call per provider.
    own: Arc<Semaphore>,
    /// Long-call permits of all providers together.
    all: Arc<Semaphore>,
}

/// CPU permit: lets a call compute during one poll. Dropping it frees the CPU a little later, see [`end_of_line`].
pub(super) struct CpuPermit {
    computing: Option<OwnedSemaphorePermit>,
}

/// Long-call permit, held while a long call computes or rests.
pub(super) struct LongCallPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Future of a permit; waiters are served in order of arrival. It never yields `None`, because the semaphores are
/// never closed.
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
        // Without a runtime there are no waiters.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                end_of_line().await;
                drop(computing);
            });
        }
    }
}

/// Completes after all tasks that are queued on this thread. `yield_now` would also wait for network I/O, which a
/// busy thread polls rarely.
pub(super) async fn end_of_line() {
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
    /// Scheduler of the first provider.
    pub(crate) fn first() -> CpuScheduler {
        let processors = available_parallelism().map_or(1, usize::from);
        CpuScheduler {
            computing: Arc::new(Semaphore::new(1)),
            taken: Arc::default(),
            own: Arc::new(Semaphore::new(1)),
            all: Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))),
        }
    }

    /// Scheduler of a further provider; shares the long-call permits.
    pub(crate) fn beside(&self) -> CpuScheduler {
        CpuScheduler {
            all: self.all.clone(),
            ..CpuScheduler::first()
        }
    }

    /// CPU permit, if one is free now.
    pub(super) fn turn(&self) -> Option<CpuPermit> {
        let computing = self.computing.clone().try_acquire_owned();
        computing
            .ok()
            .map(|computing| CpuPermit::new(computing, &self.taken))
    }

    /// Waits for the next CPU permit.
    pub(super) fn next_turn(&self) -> Wait<CpuPermit> {
        let (computing, taken) = (self.computing.clone(), self.taken.clone());
        Box::pin(async move {
            let computing = computing.acquire_owned().await;
            computing
                .ok()
                .map(|computing| CpuPermit::new(computing, &taken))
        })
    }

    /// Number of CPU permits that calls of this provider have used so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Waits for the next long-call permit.
    pub(super) fn next_long_call_permit(&self) -> Wait<LongCallPermit> {
        let CpuScheduler { own, all, .. } = self.clone();
        Box::pin(async move {
            Some(LongCallPermit {
                _own: own.acquire_owned().await.ok()?,
                _all: all.acquire_owned().await.ok()?,
            })
        })
    }
}
