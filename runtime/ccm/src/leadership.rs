//! Holding a lease on a thread of its own, so that nothing that happens in the controllers keeps it from being
//! renewed; and the end of the process when it is lost, which waits for nobody.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::Context as _;
use ccm_controllers::lease::{Election, ElectionMetrics, ElectionSettings};
use ccm_controllers::tenure_client;
use ccm_core::tenure::Tenure;
use ccm_host::egress::now;
use kube::{Client, Config};
use tokio::sync::oneshot;

/// How long the watchdog sleeps at most. Its sleep stands still while the machine is suspended, and the lease does
/// not.
const NAP: Duration = Duration::from_millis(400);
/// How long the last line of a log may take: standard error may be a pipe that nobody reads.
const LAST_LINE: Duration = Duration::from_millis(400);
/// How long giving the lease back may take: three tries on a healthy API server need a tenth of it.
const RELEASE: Duration = Duration::from_secs(2);

/// A lease that is stood for.
pub(crate) struct Lock {
    /// Of a client of its own.
    pub config: Config,
    /// Which one, as whom.
    pub settings: ElectionSettings,
    /// What is logged last when it is lost: upstream's words.
    pub last_words: &'static str,
}

/// One lease, from standing for it to giving it back. Dropped, it is kept as long as the process lives.
pub(crate) struct Leadership {
    tenure: Arc<Tenure>,
    won: oneshot::Receiver<anyhow::Result<u64>>,
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Leadership {
    /// Begins to stand for the lease.
    pub(crate) fn stand(lock: Lock, metrics: ElectionMetrics) -> anyhow::Result<Leadership> {
        let tenure = Arc::new(Tenure::pending());
        let (has_won, won) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (has_ended, ended) = oneshot::channel();
        let campaign = Campaign {
            lock,
            tenure: tenure.clone(),
            metrics,
            has_won,
            stopped,
        };
        thread::Builder::new()
            .name("election".to_owned())
            .spawn(move || {
                campaign.run();
                // Nobody may be waiting.
                let _ = has_ended.send(());
            })
            .context("cannot start the thread of the election")?;
        Ok(Leadership {
            tenure,
            won,
            stop,
            ended,
        })
    }

    /// How long this process may act.
    pub(crate) fn tenure(&self) -> Arc<Tenure> {
        self.tenure.clone()
    }

    /// Waits until the lease is ours, and says how often it has changed hands.
    pub(crate) async fn won(&mut self) -> anyhow::Result<u64> {
        (&mut self.won)
            .await
            .context("the thread of the election has ended")?
    }

    /// Withdraws, or gives the lease back. Nothing may be on the wire any more.
    pub(crate) async fn give_back(self) {
        // Both fail only when the thread has ended, and then there is nothing to give back.
        let _ = self.stop.send(());
        // The thread bounds itself; one that hangs does not keep the process from ending.
        let _ = tokio::time::timeout(RELEASE * 2, self.ended).await;
    }
}

/// What the thread of one election does.
struct Campaign {
    lock: Lock,
    tenure: Arc<Tenure>,
    metrics: ElectionMetrics,
    has_won: oneshot::Sender<anyhow::Result<u64>>,
    stopped: oneshot::Receiver<()>,
}

impl Campaign {
    fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.campaign()),
            Err(error) => {
                let _ = self.has_won.send(Err(error.into()));
            }
        }
    }

    async fn campaign(self) {
        let tenure = self.tenure;
        let last_words = self.lock.last_words;
        let mut election = match election(self.lock, tenure.clone(), self.metrics) {
            Ok(election) => election,
            Err(error) => {
                let _ = self.has_won.send(Err(error));
                return;
            }
        };
        let stopped = async {
            // Without a word the process is about to end by itself, and the lease with its time.
            if self.stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::pin!(stopped);
        let has_won = tokio::select! {
            () = election.acquire() => true,
            () = &mut stopped => false,
        };
        if has_won {
            let watchdog = match Watchdog::start(tenure, last_words) {
                Ok(watchdog) => watchdog,
                Err(error) => lost(last_words, format!("it cannot be watched: {error}")),
            };
            let _ = self.has_won.send(Ok(election.transitions()));
            tokio::select! {
                reason = election.hold() => lost(last_words, reason.to_string()),
                () = &mut stopped => watchdog.dismiss(),
            }
        }
        if election.may_be_ours()
            && tokio::time::timeout(RELEASE, election.release())
                .await
                .is_err()
        {
            tracing::warn!("the lease could not be released in time");
        }
    }
}

/// Makes the clients in the runtime that they live in.
fn election(lock: Lock, tenure: Arc<Tenure>, metrics: ElectionMetrics) -> anyhow::Result<Election> {
    let timing = lock.settings.timing;
    let unacknowledged = timing.lease_duration.saturating_sub(timing.renew_deadline);
    let tenure_client = tenure_client::client(&lock.config, tenure.clone(), Some(unacknowledged))?;
    let client = Client::try_from(lock.config).context("cannot make a Kubernetes client")?;
    Ok(Election::new(
        client,
        tenure_client,
        lock.settings,
        tenure,
        metrics,
    ))
}

/// Ends the process when nothing may begin any more, also when every thread of the runtimes hangs.
struct Watchdog {
    thread: Thread,
    is_dismissed: Arc<AtomicBool>,
}

impl Watchdog {
    fn start(tenure: Arc<Tenure>, last_words: &'static str) -> io::Result<Watchdog> {
        let is_dismissed = Arc::new(AtomicBool::new(false));
        let dismissed = is_dismissed.clone();
        let watching = thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                while !dismissed.load(Ordering::Acquire) {
                    let (now, end) = (now(), tenure.begins_until());
                    if now > end {
                        tenure.close();
                        lost(
                            last_words,
                            "it was not renewed within the renew deadline".to_owned(),
                        );
                    }
                    thread::park_timeout(now.until(end).min(NAP) + Duration::from_millis(1));
                }
            })?;
        Ok(Watchdog {
            thread: watching.thread().clone(),
            is_dismissed,
        })
    }

    fn dismiss(self) {
        self.is_dismissed.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Logs and ends the process with exit code 1 (PROC-042). Requests that are on the wire are broken off with it.
fn lost(last_words: &'static str, reason: String) -> ! {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    // The watchdog and the election notice it together.
    while IS_ENDING.swap(true, Ordering::AcqRel) {
        thread::park();
    }
    let (said, heard) = mpsc::channel();
    // Whoever logs may have to wait for whoever reads the log.
    let saying = thread::Builder::new().spawn(move || {
        tracing::error!(reason, "{last_words}");
        let _ = said.send(());
    });
    if saying.is_ok() {
        let _ = heard.recv_timeout(LAST_LINE);
    }
    std::process::exit(1)
}
