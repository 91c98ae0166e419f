//! The life of controllers that run in a task of their own: started once their predecessors have ended, stopped from
//! outside, and given a limited time for requests in flight.

use std::future::Future;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, join_all};
use tokio::sync::oneshot;
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
    /// Using or dropping it stops the controllers.
    stop: oneshot::Sender<()>,
    ended: Ended,
}

/// Completes when the controllers are to stop.
pub(crate) type StopSignal = oneshot::Receiver<()>;

impl Handle {
    /// Spawns the future that `run` returns on `tasks`.
    pub(crate) fn start<F>(tasks: &mut JoinSet<()>, run: impl FnOnce(StopSignal) -> F) -> Handle
    where
        F: Future<Output = Stopped> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let run = run(stopped);
        tasks.spawn(async move {
            let stopped = run.await;
            // The receiver may be gone.
            let _ = end.send(stopped);
        });
        // Without a result the controllers have died.
        let ended = ended.map(|stopped| stopped.unwrap_or(Stopped::OnTheWire));
        Handle {
            stop,
            ended: ended.boxed().shared(),
        }
    }

    /// Whether the controllers have ended without a request to stop.
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.is_closed()
    }

    /// Stops new work; the returned future completes when requests in flight are answered or timed out.
    pub(crate) fn stop(self) -> Ended {
        // A closed channel belongs to controllers that have ended.
        let _ = self.stop.send(());
        self.ended
    }
}

/// Runs `controllers` from when all of `before` have ended until `stopped`; then waits at most `drain` for requests in
/// flight.
pub(crate) async fn run_until(
    controllers: &mut impl Runnable,
    before: Vec<Ended>,
    mut stopped: StopSignal,
    drain: Duration,
) -> Stopped {
    // An error of the signal means that the sender was dropped.
    tokio::select! {
        biased;
        _ = &mut stopped => return Stopped::Drained,
        _ = join_all(before) => {}
    }
    tokio::select! {
        biased;
        () = controllers.run() => {}
        _ = &mut stopped => {}
    }
    match tokio::time::timeout(drain, controllers.drain()).await {
        Ok(()) => Stopped::Drained,
        Err(_) => Stopped::OnTheWire,
    }
}

/// Completes when controllers that ended by a defect may be restarted.
pub(crate) fn pause() -> Ended {
    let pause = async {
        tokio::time::sleep(AFTER_DEFECT).await;
        Stopped::Drained
    };
    pause.boxed().shared()
}
