//! The life of controllers that run in a task of their own: started once their predecessors have ended, stopped from
//! outside, and given a limited time for requests in flight.

use std::future::Future;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, join_all};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Stopped;

/// Delay before controllers that ended by a defect are restarted.
const AFTER_DEFECT: Duration = Duration::from_secs(10);

/// Log message that accompanies [`Stopped::OnTheWire`].
pub(crate) const CUT_OFF: &str = "stopped with requests in flight; their results are unknown";

/// Future with the result of controllers that have ended; shared by all waiters.
pub(crate) type Ended = Shared<BoxFuture<'static, Stopped>>;

/// Controllers that [`run_until`] runs.
pub(crate) trait Runnable {
    /// Runs until the channels of changes close.
    fn run(&mut self) -> impl Future<Output = ()> + Send;
    /// Waits for requests in flight and starts no others.
    fn drain(&mut self) -> impl Future<Output = ()> + Send;
}

/// Handle to running controllers.
pub(crate) struct Handle {
    /// Changing or dropping it stops the controllers.
    stop: watch::Sender<bool>,
    ended: Ended,
}

/// Completes when the controllers are to stop.
pub(crate) struct StopSignal(watch::Receiver<bool>);

impl Handle {
    /// Spawns the future that `run` returns on `tasks`.
    pub(crate) fn start<F>(tasks: &mut JoinSet<()>, run: impl FnOnce(StopSignal) -> F) -> Handle
    where
        F: Future<Output = Stopped> + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = watch::channel(None);
        let run = run(StopSignal(stopped));
        tasks.spawn(async move {
            let stopped = run.await;
            // The receiver may be gone.
            let _ = end.send(Some(stopped));
        });
        Handle {
            stop,
            ended: when_ended(ended),
        }
    }

    /// Whether the controllers have ended without a request to stop.
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.is_closed()
    }

    /// Stops new work; the returned future completes when requests in flight are answered or timed out.
    pub(crate) fn stop(self) -> Ended {
        // A closed channel belongs to controllers that have ended.
        let _ = self.stop.send(true);
        self.ended
    }
}

/// Runs `controllers` from when all of `before` have ended until `stopped`; then waits at most `drain` for requests in
/// flight.
pub(crate) async fn run_until(
    controllers: &mut impl Runnable,
    before: Vec<Ended>,
    StopSignal(mut stopped): StopSignal,
    drain: Duration,
) -> Stopped {
    let stopped = async {
        // An error means that the sender was dropped.
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
    };
    tokio::pin!(stopped);
    tokio::select! {
        biased;
        () = &mut stopped => return Stopped::Drained,
        _ = join_all(before) => {}
    }
    tokio::select! {
        biased;
        () = controllers.run() => {}
        () = &mut stopped => {}
    }
    match tokio::time::timeout(drain, controllers.drain()).await {
        Ok(()) => Stopped::Drained,
        Err(_) => Stopped::OnTheWire,
    }
}

/// Completes with the controllers' result, or when they died without one.
fn when_ended(mut ended: watch::Receiver<Option<Stopped>>) -> Ended {
    let ended = async move {
        let stopped = ended.wait_for(Option::is_some).await;
        stopped
            .ok()
            .and_then(|stopped| *stopped)
            .unwrap_or(Stopped::OnTheWire)
    };
    ended.boxed().shared()
}

/// Completes when controllers that ended by a defect may be restarted.
pub(crate) fn pause() -> Ended {
    let pause = async {
        tokio::time::sleep(AFTER_DEFECT).await;
        Stopped::Drained
    };
    pause.boxed().shared()
}
