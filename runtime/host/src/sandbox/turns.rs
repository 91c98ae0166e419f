//! Whose turn it is to compute. A guest that computes for long would take a thread of the runtime from everybody else, and
//! the calls of one hostile provider all of them. So:
//!
//! - Of the calls of one provider one computes at a time. They wait for the cloud most of the time, side by side.
//! - One that has computed for long goes on in a lane of its own: one for each provider, and for all together one less
//!   than there are processors. After each tick it rests for half as long, so that a thread finds time for the network.
//!
//! A provider whose calls end badly again and again begins them ever more rarely: see `backoff`.

use std::sync::Arc;
use std::thread::available_parallelism;

use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of one provider. Clones are the same.
#[derive(Clone)]
pub(crate) struct Turns {
    /// One for the only call of the provider that may compute.
    computing: Arc<Semaphore>,
    /// One for its only long call.
    own: Arc<Semaphore>,
    /// One for each long call of all providers together.
    all: Arc<Semaphore>,
}

/// A call that computes, during one poll.
pub(super) struct Turn {
    _computing: OwnedSemaphorePermit,
}

/// A long call that computes or rests.
pub(super) struct Lane {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Something that comes when it is free; those who wait longest come first. `None` never comes: nobody closes what is
/// waited for.
pub(super) type Wait<T> = BoxFuture<'static, Option<T>>;

impl Turn {
    fn of(computing: OwnedSemaphorePermit) -> Turn {
        Turn {
            _computing: computing,
        }
    }
}

impl Turns {
    /// Those of the first provider.
    pub(crate) fn first() -> Turns {
        let processors = available_parallelism().map_or(1, usize::from);
        Turns {
            computing: Arc::new(Semaphore::new(1)),
            own: Arc::new(Semaphore::new(1)),
            all: Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))),
        }
    }

    /// Those of another provider beside it.
    pub(crate) fn beside(&self) -> Turns {
        Turns {
            all: self.all.clone(),
            ..Turns::first()
        }
    }

    /// A turn, if it can be had at once.
    pub(super) fn turn(&self) -> Option<Turn> {
        let computing = self.computing.clone().try_acquire_owned();
        computing.ok().map(Turn::of)
    }

    /// The next turn.
    pub(super) fn next_turn(&self) -> Wait<Turn> {
        let computing = self.computing.clone();
        Box::pin(async move { computing.acquire_owned().await.ok().map(Turn::of) })
    }

    /// The next time that a long call may compute.
    pub(super) fn next_lane(&self) -> Wait<Lane> {
        let Turns { own, all, .. } = self.clone();
        Box::pin(async move {
            Some(Lane {
                _own: own.acquire_owned().await.ok()?,
                _all: all.acquire_owned().await.ok()?,
            })
        })
    }
}
