//! Leader election by a Lease, as client-go does it: decides the next request to the API server and interprets its
//! answers. Sends nothing and reads no clock.
//!
//! ```text
//! turn ──Ask──► (the request) ──► absorb ──► turn ──Wait──► … ──► turn ──Lost
//! ```
//!
//! Another holder's lease is measured on our own clock: it has expired when its record has not changed for the duration
//! that it states, counted from when *we* saw it change. The timestamps in the record are never compared, so that wrong
//! clocks do no harm; neither do clocks of different speeds, as long as these differ by less than
//! `leaseDuration / renewDeadline`.
//!
//! Our own lease is counted from when the last successful renewal was *sent*. A lost answer renews nothing, even when
//! the record shows later that the write was made.

mod observation;

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;

use crate::moment::Moment;

pub use observation::Observation;

/// Jitter factor that client-go's start check assumes for retries (PROC-041).
const JITTER_OF_CHECK: f64 = 1.2;
/// Maximum jitter of a candidate's wait, as a fraction of the retry period. client-go's 1.2 would mean up to 4.4 s
/// between two looks at a lease that may have been released; with this it is 2.4 s, at one small read in 2.2 s on
/// average instead of one in 3.2 s. Candidates still do not all come at the same moment.
const JITTER: f64 = 0.2;
/// Maximum re-reads by a leader after conflicts within one try. Each conflict means that another writer, such as our
/// own budget store, wrote the Lease in between.
const MOST_CONFLICTS: u32 = 8;

/// The three durations of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long others respect a lease that is not renewed.
    pub lease_duration: Duration,
    /// How long a leader acts after its last renewal.
    pub renew_deadline: Duration,
    /// Time between two tries.
    pub retry_period: Duration,
}

impl Timing {
    /// Errors in the durations (PROC-041). With any of them no election may start.
    pub fn mistakes(&self) -> Vec<&'static str> {
        let jittered = self.retry_period.mul_f64(JITTER_OF_CHECK);
        [
            (
                self.lease_duration <= self.renew_deadline,
                "leaseDuration must be greater than renewDeadline",
            ),
            (
                self.renew_deadline <= jittered,
                "renewDeadline must be greater than retryPeriod*JitterFactor",
            ),
            (
                self.lease_duration.is_zero(),
                "leaseDuration must be greater than zero",
            ),
            (
                self.renew_deadline.is_zero(),
                "renewDeadline must be greater than zero",
            ),
            (
                self.retry_period.is_zero(),
                "retryPeriod must be greater than zero",
            ),
        ]
        .into_iter()
        .filter_map(|(is_broken, rule)| is_broken.then_some(rule))
        .collect()
    }

    /// Timeout of one request of the election (PROC-040).
    pub fn request_time(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// How long sent bytes may stay unacknowledged: what is sent until the renew deadline arrives before the lease ends,
    /// or never.
    pub fn unacknowledged(&self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline)
    }

    /// A Lease holds whole seconds; rounded up, so that others never count less than we do.
    fn whole_seconds(&self) -> i32 {
        let seconds = self.lease_duration.as_nanos().div_ceil(1_000_000_000);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }
}

/// A request to the API server.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseRequest {
    /// Read the Lease.
    Read,
    /// Create it. It must not exist.
    Create(Box<Lease>),
    /// Replace it. It must not have changed since it was read: it contains resourceVersion and uid.
    Replace(Box<Lease>),
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseReply {
    /// The Lease as the API server has it now.
    Lease(Box<Lease>),
    /// It does not exist.
    Absent,
    /// Another writer was faster.
    Conflict,
    /// Refused, or timed out. Whether a write was made is unknown.
    Failed,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseAction {
    /// Send this request and pass its result to [`Elector::absorb`].
    Ask(LeaseRequest),
    /// Wait for this long.
    Wait(Duration),
    /// The lease was ours and is lost. Every further turn returns this again.
    Lost(Lost),
}

/// Why a lease was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// No renewal succeeded within the renew deadline.
    Expired,
    /// Another holder has taken it.
    Taken(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Expired => f.write_str("it was not renewed within the renew deadline"),
            Lost::Taken(holder) => write!(f, "{holder} holds it"),
        }
    }
}

/// The Lease as read or written last.
#[derive(Debug, Clone, PartialEq)]
enum View {
    /// Unknown: it has to be read before the next write.
    Unknown,
    Absent,
    Lease(Box<Lease>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    Candidate,
    /// Holder; the last successful renewal was sent at this moment.
    Holder(Moment),
    Lost(Lost),
}

/// One participant of an election: a candidate or the leader.
#[derive(Debug)]
pub struct Elector {
    namespace: String,
    name: String,
    identity: String,
    timing: Timing,
    role: Role,
    view: View,
    /// The last record seen.
    observed: Option<Observation>,
    /// No request is sent before this moment.
    next_try: Option<Moment>,
    conflicts: u32,
}

impl Elector {
    /// A candidate for the Lease `namespace/name`. `identity` must be unique, also among earlier runs of the same
    /// process.
    pub fn new(namespace: String, name: String, identity: String, timing: Timing) -> Elector {
        Elector {
            namespace,
            name,
            identity,
            timing,
            role: Role::Candidate,
            view: View::Unknown,
            observed: None,
            next_try: None,
            conflicts: 0,
        }
    }

    /// When the last successful renewal was sent, if the lease is ours.
    pub fn renewed(&self) -> Option<Moment> {
        match self.role {
            Role::Holder(sent) => Some(sent),
            Role::Candidate | Role::Lost(_) => None,
        }
    }

    /// Last known holder of the Lease; `""` if it has none.
    pub fn holder(&self) -> Option<&str> {
        self.observed.as_ref().map(Observation::holder)
    }

    /// The Lease as read or written last.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.view {
            View::Lease(lease) => Some(lease),
            View::Unknown | View::Absent => None,
        }
    }

    /// What to do at `now`; `wall` is the wall-clock time.
    pub fn turn(&mut self, now: Moment, wall: Timestamp) -> LeaseAction {
        if let Role::Holder(sent) = self.role
            && now > sent.after(self.timing.renew_deadline)
        {
            self.role = Role::Lost(Lost::Expired);
        }
        if let Role::Lost(lost) = &self.role {
            return LeaseAction::Lost(lost.clone());
        }
        if let Some(next) = self.next_try.filter(|next| now < *next) {
            return LeaseAction::Wait(self.wait(now, next));
        }
        match &self.view {
            View::Unknown => LeaseAction::Ask(LeaseRequest::Read),
            View::Absent => LeaseAction::Ask(LeaseRequest::Create(Box::new(self.first(wall)))),
            View::Lease(lease) => {
                LeaseAction::Ask(LeaseRequest::Replace(Box::new(self.claimed(lease, wall))))
            }
        }
    }

    /// Time until the next try, or until a holder's deadline if that is earlier.
    fn wait(&self, now: Moment, next: Moment) -> Duration {
        let end = match self.role {
            Role::Holder(sent) => next.min(sent.after(self.timing.renew_deadline)),
            Role::Candidate | Role::Lost(_) => next,
        };
        // Past the deadline, not on it.
        now.until(end).max(Duration::from_millis(1))
    }

    /// Takes the answer to `ask`, which was sent at `sent`. `chance` is a random number from 0 to 1.
    pub fn absorb(
        &mut self,
        ask: &LeaseRequest,
        sent: Moment,
        now: Moment,
        answer: LeaseReply,
        chance: f64,
    ) {
        match (ask, answer) {
            (LeaseRequest::Read, LeaseReply::Lease(lease)) => self.read(lease, now, chance),
            (LeaseRequest::Create(_) | LeaseRequest::Replace(_), LeaseReply::Lease(lease)) => {
                self.written(lease, sent, now, chance);
            }
            // Read: it does not exist. Replace: it was deleted meanwhile.
            (LeaseRequest::Read | LeaseRequest::Replace(_), LeaseReply::Absent) => {
                self.view = View::Absent
            }
            (_, LeaseReply::Conflict) => {
                self.view = View::Unknown;
                self.conflicts += 1;
                let is_holder = matches!(self.role, Role::Holder(_));
                if !is_holder || self.conflicts > MOST_CONFLICTS {
                    self.try_again(now, chance);
                }
            }
            // If a Lease cannot be created because something is absent, its namespace is missing.
            (_, LeaseReply::Failed) | (LeaseRequest::Create(_), LeaseReply::Absent) => {
                self.view = View::Unknown;
                // Counted from the sending: a request that timed out has waited long enough.
                self.try_again(sent, chance);
            }
        }
    }

    fn read(&mut self, lease: Box<Lease>, now: Moment, chance: f64) {
        self.observe(&lease, now);
        let record = lease.spec.clone().unwrap_or_default();
        let is_free = self.is_free(&record, now);
        self.view = View::Lease(lease);
        match self.role {
            Role::Holder(_) => self.check_holder(&record),
            Role::Candidate if !is_free => {
                self.view = View::Unknown;
                self.try_again(now, chance);
            }
            Role::Candidate | Role::Lost(_) => {}
        }
    }

    fn written(&mut self, lease: Box<Lease>, sent: Moment, now: Moment, chance: f64) {
        self.observe(&lease, now);
        let record = lease.spec.clone().unwrap_or_default();
        self.view = View::Lease(lease);
        if holder(&record) == self.identity {
            if !matches!(self.role, Role::Lost(_)) {
                self.role = Role::Holder(sent);
            }
            self.conflicts = 0;
            self.next_try = Some(sent.after(self.timing.retry_period));
            return;
        }
        // An intermediary, such as an admission webhook, has changed our write.
        self.view = View::Unknown;
        self.check_holder(&record);
        self.try_again(now, chance);
    }

    /// A tenure ends as soon as another holder is seen, however much of its time is left.
    fn check_holder(&mut self, record: &LeaseSpec) {
        let holder = holder(record);
        if matches!(self.role, Role::Holder(_)) && !holder.is_empty() && holder != self.identity {
            self.role = Role::Lost(Lost::Taken(holder.to_owned()));
        }
    }

    /// Rule of observed changes: only a changed record restarts the clock. Labels and annotations do not count.
    fn observe(&mut self, lease: &Lease, now: Moment) {
        let record = lease.spec.clone().unwrap_or_default();
        match &mut self.observed {
            Some(observed) => observed.see(record, now),
            None => self.observed = Some(Observation::new(record, now)),
        }
    }

    /// Whether we may take the Lease.
    fn is_free(&self, record: &LeaseSpec, now: Moment) -> bool {
        let holder = holder(record);
        if holder.is_empty() || holder == self.identity {
            return true;
        }
        // Without a stated duration our own applies.
        let lasts = self.timing.lease_duration;
        let observed = self.observed.as_ref();
        observed.is_some_and(|observed| now > observed.ends(lasts))
    }

    fn try_again(&mut self, since: Moment, chance: f64) {
        let jitter = match self.role {
            Role::Candidate => chance.clamp(0.0, 1.0) * JITTER,
            // A leader that cannot renew retries without jitter.
            Role::Holder(_) | Role::Lost(_) => 0.0,
        };
        self.conflicts = 0;
        self.next_try = Some(since.after(self.timing.retry_period.mul_f64(1.0 + jitter)));
    }

    /// A new Lease, for a cluster that has none.
    fn first(&self, wall: Timestamp) -> Lease {
        Lease {
            metadata: ObjectMeta {
                namespace: Some(self.namespace.clone()),
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(self.timing.whole_seconds()),
                acquire_time: Some(MicroTime(wall)),
                renew_time: Some(MicroTime(wall)),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            }),
        }
    }

    /// `lease` with us as its holder. Fields outside of the election are kept.
    fn claimed(&self, lease: &Lease, wall: Timestamp) -> Lease {
        let mut claimed = lease.clone();
        let record = claimed.spec.get_or_insert_default();
        if holder(record) != self.identity {
            record.holder_identity = Some(self.identity.clone());
            record.acquire_time = Some(MicroTime(wall));
            let transitions = record.lease_transitions.unwrap_or(0);
            record.lease_transitions = Some(transitions.saturating_add(1));
        }
        record.lease_duration_seconds = Some(self.timing.whole_seconds());
        record.renew_time = Some(MicroTime(wall));
        claimed
    }
}

/// `lease` without a holder, so that the next candidate need not wait; `None` when `identity` does not hold it.
pub fn released(lease: &Lease, identity: &str, wall: Timestamp) -> Option<Lease> {
    let mut released = lease.clone();
    let record = released.spec.get_or_insert_default();
    if holder(record) != identity {
        return None;
    }
    record.holder_identity = Some(String::new());
    record.lease_duration_seconds = Some(1);
    record.acquire_time = Some(MicroTime(wall));
    record.renew_time = Some(MicroTime(wall));
    Some(released)
}

fn holder(record: &LeaseSpec) -> &str {
    record.holder_identity.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
