//! Leader election: executes the requests of [`ccm_core::safety::lease`] and records in a [`Tenure`] how long this process may
//! act. Writes nothing but the Lease, through its own client that the tenure does not guard, and Events about it.
//!
//! The Lease alone identifies the leader, so that a future of this module can be dropped without cleanup: the result of
//! the last request is then unknown, and the next request is a read.

mod events;
mod metrics;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::safety::lease::{
    Elector, LeaseAction, LeaseReply, LeaseRequest, Lost, Timing, released,
};
use ccm_core::safety::tenure::Tenure;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::api_error::describe;
use crate::clock::{boottime, wall};

pub use metrics::ElectionMetrics;

/// Attempts to release the Lease when another process writes it in between.
const MOST_RELEASES: u32 = 3;
/// Maximum delay of the hand-over for an Event about its end.
const LAST_EVENT_TIMEOUT: Duration = Duration::from_millis(500);

/// The Lease to compete for, and the candidate's identity.
#[derive(Debug, Clone)]
pub struct ElectionSettings {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name; also the `name` label of the metrics.
    pub name: String,
    /// The holder identity; must be unique among all processes.
    pub identity: String,
    /// Lease duration, renew deadline and retry period.
    pub timing: Timing,
}

/// One candidacy, from the start of the election to the release of the Lease.
pub struct Election {
    leases: Api<Lease>,
    events: Api<Event>,
    settings: ElectionSettings,
    elector: Elector,
    tenure: Arc<Tenure>,
    metrics: ElectionMetrics,
    /// [`boottime`], or the clock of a test.
    now: fn() -> Moment,
    /// Whether the result of a write is still unknown.
    is_writing: bool,
    /// The holder as last read, for the status; empty if there is none.
    holder: watch::Sender<String>,
}

impl Election {
    /// Creates a candidacy and sends nothing yet. `tenure` must be pending. `client` is not guarded by it and must not
    /// retry by itself; `guarded` is guarded, and sends Events. `holder` is empty, and gets the holder of the Lease.
    pub fn new(
        client: Client,
        guarded: Client,
        settings: ElectionSettings,
        tenure: Arc<Tenure>,
        metrics: ElectionMetrics,
        holder: watch::Sender<String>,
    ) -> Election {
        metrics.leads(&settings.name, false);
        Election {
            leases: Api::namespaced(client, &settings.namespace),
            events: Api::namespaced(guarded, &settings.namespace),
            elector: Elector::new(
                settings.namespace.clone(),
                settings.name.clone(),
                settings.identity.clone(),
                settings.timing,
            ),
            settings,
            tenure,
            metrics,
            now: boottime,
            is_writing: false,
            holder,
        }
    }

    /// Waits until this process holds the Lease. Then [`Election::hold`] must run.
    pub async fn acquire(&mut self) {
        tracing::info!(lease = %self.lease(), identity = self.settings.identity, "standing for election");
        // `hold` reports a Lease that is lost during the acquisition.
        while self.elector.renewed().is_none() && self.step().await.is_none() {}
        self.metrics.leads(&self.settings.name, true);
        tracing::info!(lease = %self.lease(), identity = self.settings.identity, "became leader");
        let event = self.record_event("became leader");
        tokio::spawn(event);
    }

    /// Renews the Lease until it is lost, then closes the tenure.
    pub async fn hold(&mut self) -> Lost {
        let lost = loop {
            if let Some(lost) = self.step().await {
                break lost;
            }
        };
        self.tenure.close();
        self.metrics.leads(&self.settings.name, false);
        lost
    }

    /// The Lease's number of leader transitions, as last read or written.
    pub fn transitions(&self) -> u64 {
        let record = self.elector.lease().and_then(|lease| lease.spec.as_ref());
        let transitions = record.and_then(|record| record.lease_transitions);
        transitions
            .and_then(|count| u64::try_from(count).ok())
            .unwrap_or_default()
    }

    /// Whether this process may hold the Lease: it does, or the result of a write is unknown.
    pub fn may_be_ours(&self) -> bool {
        self.is_writing || self.elector.renewed().is_some()
    }

    /// Releases the Lease if this process still holds it, so that the next candidate need not wait for its expiry. No
    /// request may be in flight any more. Makes at most seven requests, each with a timeout.
    pub async fn release(&mut self) {
        if self.elector.renewed().is_some() {
            // Record the Event before the release: a process without the Lease writes nothing.
            let _ = timeout(LAST_EVENT_TIMEOUT, self.record_event("stopped leading")).await;
        }
        self.tenure.close();
        self.metrics.leads(&self.settings.name, false);
        for _ in 0..MOST_RELEASES {
            let sent = self.ask(&LeaseRequest::Read).await;
            let LeaseReply::Lease(lease) = sent else {
                break;
            };
            let Some(freed) = released(&lease, &self.settings.identity, wall()) else {
                return;
            };
            match self.ask(&LeaseRequest::Replace(Box::new(freed))).await {
                LeaseReply::Lease(_) => {
                    tracing::info!(lease = %self.lease(), identity = self.settings.identity, "released the lease");
                    return;
                }
                LeaseReply::Conflict => {}
                LeaseReply::Absent => return,
                LeaseReply::Failed => break,
            }
        }
        tracing::warn!(lease = %self.lease(), "the lease could not be released; the next leader has to wait for its end");
    }

    /// Makes one request or one pause. Safe to drop, except that the result of a write may then be unknown.
    async fn step(&mut self) -> Option<Lost> {
        let ask = match self.elector.turn((self.now)(), wall()) {
            LeaseAction::Lost(lost) => return Some(lost),
            LeaseAction::Wait(pause) => {
                sleep(pause).await;
                return None;
            }
            LeaseAction::Ask(ask) => ask,
        };
        let renewed = self.elector.renewed();
        if ask == LeaseRequest::Read && renewed.is_some() {
            self.metrics.slow_path(&self.settings.name);
        }
        self.is_writing |= ask != LeaseRequest::Read;
        // Taken before the request is sent: time in between shortens the lease and never lengthens it.
        let sent = (self.now)();
        let answer = self.ask(&ask).await;
        let is_known = answer != LeaseReply::Failed;
        self.elector
            .absorb(&ask, sent, (self.now)(), answer, chance());
        self.is_writing &= !is_known;
        if let Some(sent) = self.elector.renewed().filter(|sent| renewed != Some(*sent)) {
            let timing = self.settings.timing;
            self.tenure
                .renewed(sent, timing.renew_deadline, timing.lease_duration);
        }
        self.log_leader();
        None
    }

    async fn ask(&self, ask: &LeaseRequest) -> LeaseReply {
        let params = PostParams::default();
        let name = &self.settings.name;
        let asked = async {
            match ask {
                LeaseRequest::Read => self.leases.get(name).await,
                LeaseRequest::Create(lease) => self.leases.create(&params, lease).await,
                LeaseRequest::Replace(lease) => self.leases.replace(name, &params, lease).await,
            }
        };
        match timeout(self.request_time(), asked).await {
            Ok(Ok(lease)) => LeaseReply::Lease(Box::new(lease)),
            Ok(Err(error)) => self.meaning(error),
            Err(_) => {
                tracing::warn!(lease = %self.lease(), "no answer about the lease in time");
                LeaseReply::Failed
            }
        }
    }

    /// Request timeout (PROC-040), limited to the time left for a renewal: waiting longer would miss the next attempt.
    fn request_time(&self) -> Duration {
        let timing = self.settings.timing;
        let left = self.elector.renewed().map(|sent| {
            (self.now)()
                .until(sent.after(timing.renew_deadline))
                .max(Duration::from_millis(1))
        });
        left.map_or(timing.request_time(), |left| {
            left.min(timing.request_time())
        })
    }

    fn meaning(&self, error: kube::Error) -> LeaseReply {
        if let kube::Error::Api(status) = &error {
            match status.code {
                404 => return LeaseReply::Absent,
                409 => return LeaseReply::Conflict,
                _ => {}
            }
        }
        let error = describe(&error);
        tracing::warn!(lease = %self.lease(), error, "the lease could not be read or written");
        LeaseReply::Failed
    }

    /// Logs each other leader once, as client-go's callback does.
    fn log_leader(&self) {
        let holder = self.elector.holder().unwrap_or_default();
        let is_new = self.holder.send_if_modified(|known| {
            let is_new = *known != *holder;
            holder.clone_into(known);
            is_new
        });
        if is_new && !holder.is_empty() && holder != self.settings.identity {
            tracing::info!(lease = %self.lease(), leader = holder, "another process leads");
        }
    }

    /// The Lease as `namespace/name`.
    fn lease(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// Records an Event about the Lease (PROC-043). Best effort.
    fn record_event(&self, what: &str) -> impl Future<Output = ()> + Send + 'static {
        let event = events::event(&self.settings, what, self.elector.lease(), wall());
        let (events, most) = (self.events.clone(), self.settings.timing.request_time());
        async move {
            let params = PostParams::default();
            match timeout(most, events.create(&params, &event)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(
                        error = describe(&error),
                        "an Event about the lease could not be recorded"
                    );
                }
                Err(_) => tracing::warn!("an Event about the lease was not recorded in time"),
            }
        }
    }
}

/// A random number from 0 to 1. Without randomness all candidates retry together, which is slower but not wrong.
fn chance() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
