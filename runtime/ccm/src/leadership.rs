//! Holds a lease on its own thread, so that nothing in the controllers can delay its renewal, and ends the process
//! without waiting when the lease is lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ccm_controllers::lease::{Election, ElectionMetrics, ElectionSettings};
use ccm_controllers::{RestClients, tenure_client};
use ccm_core::moment::Moment;
use ccm_core::safety::tenure::Tenure;
use ccm_host::egress::now;
use kube::Config;
use tokio::sync::{oneshot, watch};

use crate::audit::AuditWriter;

/// Longest sleep of the watchdog. Its sleep pauses while the machine is suspended, the lease does not.
const LONGEST_PAUSE: Duration = Duration::from_millis(400);
/// Time limit for the last records and the last log line: standard error may be a pipe that nobody reads.
const LAST_LINE: Duration = Duration::from_millis(400);
/// Time limit for releasing the lease: three tries on a healthy API server need a tenth of it.
const RELEASE: Duration = Duration::from_secs(2);

/// A lease to acquire.
pub(crate) struct Lock {
    /// Configuration of a dedicated client.
    pub config: Config,
    /// The lease's name, this candidate's identity, and the timing.
    pub settings: ElectionSettings,
    /// Last log line when the lease is lost, in upstream's words.
    pub lost_message: &'static str,
    /// Records the changes that are on the wire when the lease is lost.
    pub audit: AuditWriter,
    /// Metrics and limit of the clients.
    pub clients: RestClients,
    /// Receives the identity of the holder.
    pub holder: watch::Sender<String>,
}

/// One lease, from candidacy to release. Dropping it keeps the lease as long as the process lives.
pub(crate) struct Leadership {
    tenure: Arc<Tenure>,
    won: oneshot::Receiver<anyhow::Result<u64>>,
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Leadership {
    /// Starts competing for the lease.
    pub(crate) fn start(lock: Lock, metrics: ElectionMetrics) -> anyhow::Result<Leadership> {
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
                // The receiver may be gone.
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

    /// The time in which this process may act, by this lease.
    pub(crate) fn tenure(&self) -> Arc<Tenure> {
        self.tenure.clone()
    }

    /// Waits until the lease is acquired, and returns its number of transitions.
    pub(crate) async fn won(&mut self) -> anyhow::Result<u64> {
        (&mut self.won)
            .await
            .context("the thread of the election has ended")?
    }

    /// Ends the candidacy or releases the lease. No request may be on the wire any more.
    pub(crate) async fn give_back(self) {
        // Fails only if the thread has ended, and then there is nothing to release.
        let _ = self.stop.send(());
        // The thread has its own time limits; a hanging thread does not keep the process from ending.
        let _ = tokio::time::timeout(RELEASE * 2, self.ended).await;
    }
}

/// The work of an election's thread.
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
        let last_words = LastWords {
            message: self.lock.lost_message,
            audit: self.lock.audit.clone(),
        };
        let mut election = match election(self.lock, tenure.clone(), self.metrics) {
            Ok(election) => election,
            Err(error) => {
                let _ = self.has_won.send(Err(error));
                return;
            }
        };
        let stopped = async {
            // Without a message the process is about to end by itself, and the lease expires.
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
            let watchdog = match Watchdog::start(tenure, last_words.clone()) {
                Ok(watchdog) => watchdog,
                Err(error) => last_words.lost(format!("it cannot be watched: {error}")),
            };
            let _ = self.has_won.send(Ok(election.transitions()));
            tokio::select! {
                reason = election.hold() => last_words.lost(reason.to_string()),
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

/// Creates the clients inside the runtime that drives them.
fn election(lock: Lock, tenure: Arc<Tenure>, metrics: ElectionMetrics) -> anyhow::Result<Election> {
    let unacknowledged = lock.settings.timing.unacknowledged();
    let Lock {
        config, clients, ..
    } = &lock;
    let tenure_client =
        tenure_client::client(config, tenure.clone(), Some(unacknowledged), clients)?;
    // Reads are not bound to the lease.
    let client = tenure_client::client(config, Arc::new(Tenure::unlimited()), None, clients)?;
    let (settings, holder) = (lock.settings, lock.holder);
    let election = Election::new(client, tenure_client, settings, tenure, metrics, holder);
    Ok(election)
}

/// Ends the process when the tenure has ended, even if all runtime threads hang.
struct Watchdog {
    thread: Thread,
    is_dismissed: Arc<AtomicBool>,
}

impl Watchdog {
    fn start(tenure: Arc<Tenure>, last_words: LastWords) -> io::Result<Watchdog> {
        let is_dismissed = Arc::new(AtomicBool::new(false));
        let dismissed = is_dismissed.clone();
        let watching = thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                while !dismissed.load(Ordering::Acquire) {
                    let Some(left) = left(&tenure, now()) else {
                        tenure.close();
                        last_words.lost("it was not renewed within the renew deadline".to_owned());
                    };
                    thread::park_timeout(left.min(LONGEST_PAUSE) + Duration::from_millis(1));
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

/// How long the lease may still go without a renewal; `None`: it is lost.
fn left(tenure: &Tenure, now: Moment) -> Option<Duration> {
    let end = tenure.begins_until();
    (now <= end).then(|| now.until(end))
}

/// What is said when the lease is lost.
#[derive(Clone)]
struct LastWords {
    message: &'static str,
    audit: AuditWriter,
}

impl LastWords {
    /// Records what is on the wire, logs, and ends the process with exit code 1 (PROC-042), which aborts requests.
    fn lost(&self, reason: String) -> ! {
        static IS_ENDING: AtomicBool = AtomicBool::new(false);
        // The watchdog and the election may both call this.
        while IS_ENDING.swap(true, Ordering::AcqRel) {
            thread::park();
        }
        let LastWords { message, audit } = self.clone();
        // Each may block, until its disk or its reader goes on, and keeps the other from nothing.
        let acts: [Box<dyn FnOnce() + Send>; 2] = [
            Box::new(move || audit.end()),
            Box::new(move || tracing::error!(reason, "{message}")),
        ];
        let (done, ended) = mpsc::channel();
        let until = Instant::now() + LAST_LINE;
        let are_begun = acts.map(|act| {
            let done = done.clone();
            let begun = thread::Builder::new().spawn(move || {
                act();
                let _ = done.send(());
            });
            begun.is_ok()
        });
        for _ in are_begun.into_iter().filter(|is_begun| *is_begun) {
            let _ = ended.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
        std::process::exit(i32::from(crate::exit::Exit::Failed.code()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another replica may hold it from the other deadline on.
    #[test]
    fn a_lease_is_lost_at_the_renew_deadline_and_not_when_it_expires() {
        let at = |second| Moment(Duration::from_secs(second));
        let tenure = Tenure::pending();
        tenure.renewed(at(100), Duration::from_secs(10), Duration::from_secs(3600));
        for (now, expected) in [
            (104, Some(Duration::from_secs(6))),
            (110, Some(Duration::ZERO)),
            (111, None),
        ] {
            assert_eq!(left(&tenure, at(now)), expected, "{now}");
        }
    }
}
