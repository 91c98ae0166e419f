//! Runs the source in its own task: passes on the latest result only, and fetches bytes again on request. A slow fetch
//! delays only the next fetch.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::rollout::Release;
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::pass_on;
use crate::artifact::Artifact;
use crate::source::{Source, SourceError};

/// Pause after a panic of the source, which otherwise might follow upon itself without end.
const AFTER_PANIC: Duration = Duration::from_secs(10);

/// A report of the source.
pub(super) enum SourceReport {
    /// The source offers this artifact.
    Offered(Arc<Artifact>),
    /// The source offers nothing, or cannot be reached.
    Failed(SourceError),
}

/// A request to fetch exactly these bytes again.
pub(super) struct Again {
    release: Release,
    answer: oneshot::Sender<Result<Artifact, SourceError>>,
}

/// Handle for requesting bytes again.
#[derive(Clone)]
pub(super) struct Asks(mpsc::Sender<Again>);

impl Asks {
    /// Fetches exactly the bytes of `release`. `None`: the source is not watched any more.
    pub(super) async fn bytes(&self, release: &Release) -> Option<Result<Artifact, SourceError>> {
        let (answer, brought) = oneshot::channel();
        let again = Again {
            release: release.clone(),
            answer,
        };
        self.0.send(again).await.ok()?;
        brought.await.ok()
    }
}

/// The task that polls one source, and its latest result. Dropping it ends the task at once, also while the source does not
/// answer.
pub(super) struct SourceWatcher {
    received: mpsc::Receiver<SourceReport>,
    asks: Asks,
    task: JoinSet<()>,
}

impl SourceWatcher {
    /// Starts the task for the source of this provider.
    pub(super) fn start(provider: &str, source: Box<dyn Source>) -> SourceWatcher {
        tracing::info!(target: "rollout", %provider, source = %source.place(), "watching the source");
        let (reports, received) = mpsc::channel(1);
        let (asks, asked) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(serve(source, reports, asked));
        SourceWatcher {
            received,
            asks: Asks(asks),
            task,
        }
    }

    /// The next report; passes a panic of the task on. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<SourceReport> {
        let report = self.received.recv().await;
        if report.is_none()
            && let Some(ended) = self.task.join_next().await
        {
            pass_on(ended);
        }
        report
    }

    /// Returns a handle for requesting bytes again.
    pub(super) fn again(&self) -> Asks {
        self.asks.clone()
    }
}

async fn serve(
    mut source: Box<dyn Source>,
    reports: mpsc::Sender<SourceReport>,
    mut asked: mpsc::Receiver<Again>,
) {
    loop {
        let report = tokio::select! {
            biased;
            Some(Again { release, mut answer }) = asked.recv() => {
                // A source may take minutes, or never finish.
                tokio::select! {
                    biased;
                    () = answer.closed() => {}
                    brought = AssertUnwindSafe(source.again(&release)).catch_unwind() => {
                        let brought = brought
                            .unwrap_or_else(|_| Err(SourceError::panicked(source.place())));
                        // The requester may be gone.
                        let _ = answer.send(brought);
                    }
                }
                continue;
            }
            brought = AssertUnwindSafe(source.next()).catch_unwind() => match brought {
                Ok(Ok(artifact)) => SourceReport::Offered(Arc::new(artifact)),
                Ok(Err(error)) => SourceReport::Failed(error),
                Err(_) => {
                    tokio::time::sleep(AFTER_PANIC).await;
                    SourceReport::Failed(SourceError::panicked(source.place()))
                }
            },
        };
        if reports.send(report).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use ccm_host::Digest;

    use super::*;
    use crate::source::Brought;

    /// A source that offers what the test sends and never finishes a repeated fetch.
    struct Stuck {
        offers: mpsc::UnboundedReceiver<Artifact>,
    }

    impl Source for Stuck {
        fn next(&mut self) -> Brought<'_> {
            Box::pin(async {
                match self.offers.recv().await {
                    Some(artifact) => Ok(artifact),
                    None => std::future::pending().await,
                }
            })
        }

        fn again<'a>(&'a self, _: &'a Release) -> Brought<'a> {
            Box::pin(std::future::pending())
        }

        fn place(&self) -> &str {
            "one"
        }
    }

    /// A source that panics before its only offer, and when it is asked for bytes again.
    struct Panicking {
        asked: usize,
    }

    impl Source for Panicking {
        fn next(&mut self) -> Brought<'_> {
            Box::pin(async {
                self.asked += 1;
                match self.asked {
                    1 => panic!("on purpose"),
                    2 => Ok(artifact()),
                    _ => std::future::pending().await,
                }
            })
        }

        fn again<'a>(&'a self, _: &'a Release) -> Brought<'a> {
            Box::pin(async { panic!("on purpose") })
        }

        fn place(&self) -> &str {
            "one"
        }
    }

    fn artifact() -> Artifact {
        Artifact::new("one", &b"module"[..])
    }

    fn release() -> Release {
        Release {
            digest: Digest::of(b"another").to_string(),
            version: String::new(),
            origin: String::new(),
        }
    }

    /// A watcher with a stuck source, and a sender for its offers.
    fn stuck() -> (SourceWatcher, mpsc::UnboundedSender<Artifact>) {
        let (offers, offered) = mpsc::unbounded_channel();
        let source = Stuck { offers: offered };
        (SourceWatcher::start("cloud", Box::new(source)), offers)
    }

    async fn next(source_watcher: &mut SourceWatcher) -> SourceReport {
        let next = tokio::time::timeout(Duration::from_secs(60), source_watcher.next());
        next.await.unwrap().unwrap()
    }

    /// Lets the watcher's task take its pending requests.
    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_waits_for_any_more_keeps_no_offer_waiting() {
        let (mut source_watcher, offers) = stuck();
        let (asks, release) = (source_watcher.again(), release());
        let mut given_up = Box::pin(asks.bytes(&release));
        assert!((&mut given_up).now_or_never().is_none());
        settle().await;
        drop(given_up);
        offers.send(artifact()).unwrap();
        assert!(matches!(
            next(&mut source_watcher).await,
            SourceReport::Offered(_)
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_panics_has_failed_and_is_asked_again() {
        let source = Panicking { asked: 0 };
        let mut source_watcher = SourceWatcher::start("cloud", Box::new(source));
        let failed = next(&mut source_watcher).await;
        let panicked = SourceError::panicked("one");
        assert!(matches!(failed, SourceReport::Failed(error) if error == panicked));
        let offered = next(&mut source_watcher).await;
        assert!(matches!(offered, SourceReport::Offered(_)));
        let brought = source_watcher.again().bytes(&release()).await;
        assert_eq!(brought.unwrap().err(), Some(panicked));
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_does_not_answer_ends_with_its_watcher() {
        let (source_watcher, offers) = stuck();
        let (asks, release) = (source_watcher.again(), release());
        let mut asking = Box::pin(asks.bytes(&release));
        assert!((&mut asking).now_or_never().is_none());
        settle().await;
        drop(source_watcher);
        // The interrupted request gets no answer, and neither does another one.
        assert!(asking.await.is_none());
        assert!(asks.bytes(&release).await.is_none());
        assert!(offers.is_closed());
    }
}
