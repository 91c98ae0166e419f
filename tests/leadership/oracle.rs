//! Judges recorded traffic: which requests were made by a process that did not hold the Lease any more, and whether a
//! process took the Lease before it was free. Reads no clock and sends no request: it knows only its arguments.
//!
//! Every time is one of arrival, stamped by the API server or the simulated cloud with the machine's clock. A renewal
//! arrives later than it was sent, so the process's own limits are earlier than the limits here, by the time that a
//! request takes on loopback. A request is stamped later than it began, by as much as a loaded server takes to read it:
//! [`STAMPED_LATE`] is allowed for that if the limit is the renew deadline. There is no such allowance if the limit is
//! the end of the lease, the next leader's first write or the release: those must never be passed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// Maximum delay of the stamp of a request that began in time.
pub(crate) const STAMPED_LATE: Duration = Duration::from_millis(250);

/// The duration of leases, and the deadlines of their holders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timings {
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) retry: Duration,
}

impl Timings {
    /// The defaults of upstream's flags.
    pub(crate) const UPSTREAM: Timings = Timings {
        lease: Duration::from_secs(15),
        renew: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };

    /// A third of that: short for a test, and long enough for a machine that is busy for a moment.
    pub(crate) const SHORT: Timings = Timings {
        lease: Duration::from_secs(5),
        renew: Duration::from_millis(3500),
        retry: Duration::from_millis(700),
    };
}

/// The client that made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// One process of `ccm`, by the order in which they were started.
    Replica(u32),
    /// The test itself, as a person with rights on the Lease.
    Hand,
}

/// The kind of a request, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// The Lease was written with its writer as the holder.
    Renewed,
    /// The Lease was written without a holder.
    Released,
    /// The Lease was read, or a write to it was refused: the client knows the holder when that is answered.
    Looked,
    /// A request that only the leader may make.
    Act(String),
}

/// One recorded request, with its times and its client.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) at: Timestamp,
    pub(crate) answered: Timestamp,
    pub(crate) by: Who,
    pub(crate) what: What,
}

/// A forbidden kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A request of a process that never held the lease.
    WithoutLease,
    /// A request that began after the renew deadline.
    AfterRenewDeadline,
    /// A request that arrived when others could hold the Lease.
    AfterLease,
    /// A request that arrived after another process had taken the Lease.
    AfterSuccessor,
    /// A request that arrived after the Lease was released.
    AfterRelease,
    /// A request of a process that had read another holder.
    AfterTheft,
    /// A Lease taken before its holder's time was over.
    TakenEarly,
    /// A Lease taken back by a process that had lost it.
    TakenBack,
}

/// One request that broke a rule.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    pub(crate) record: Record,
    /// The time that the request should not have passed.
    pub(crate) limit: Timestamp,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { at, by, what, .. } = &self.record;
        write!(
            f,
            "{:?}: {by:?} at {at} (limit {}): {what:?}",
            self.rule, self.limit
        )
    }
}

/// The result for some traffic.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// Number of requests that the rules apply to.
    pub(crate) judged: usize,
    /// The longest time between a process's last renewal and a request.
    pub(crate) oldest: Duration,
    pub(crate) findings: Vec<Finding>,
}

/// The known state of one process at a point of the record.
#[derive(Default)]
struct Tenure {
    renewed: Option<Timestamp>,
    released: Option<Timestamp>,
    /// When another process took the lease, after this one had held it.
    succeeded: Option<Timestamp>,
    /// When it learned of a holder that was written by hand.
    told: Option<Timestamp>,
}

/// Judges traffic that is in the order of arrival.
pub(crate) fn judge(traffic: &[Record], timings: Timings) -> Judgement {
    let mut found = Judgement::default();
    let mut tenures = BTreeMap::<Who, Tenure>::new();
    // The last write of a holder, unless the Lease was released.
    let mut held: Option<(Who, Timestamp)> = None;
    for record in traffic {
        let (by, at) = (record.by, record.at);
        let mut broken = |rule, limit| {
            let record = record.clone();
            let finding = Finding {
                rule,
                record,
                limit,
            };
            found.findings.push(finding);
        };
        match &record.what {
            What::Renewed => {
                if let Some((holder, renewed)) = held
                    && holder != by
                    && by != Who::Hand
                    && at < renewed + timings.lease
                {
                    broken(Rule::TakenEarly, renewed + timings.lease);
                }
                if let Some(limit) = tenures.entry(by).or_default().succeeded {
                    broken(Rule::TakenBack, limit);
                }
                held = Some((by, at));
                // A holder that is written by hand is no leader: it is no successor, and the rules do not apply to it.
                if by != Who::Hand {
                    for (_, tenure) in tenures.iter_mut().filter(|(who, _)| **who != by) {
                        if tenure.renewed.is_some() {
                            tenure.succeeded.get_or_insert(at);
                        }
                    }
                    tenures.entry(by).or_default().renewed = Some(at);
                }
            }
            What::Released => {
                tenures.entry(by).or_default().released = Some(at);
                held = held.filter(|(holder, _)| *holder != by);
            }
            What::Looked => {
                let tenure = tenures.entry(by).or_default();
                if matches!(held, Some((Who::Hand, since)) if since < at)
                    && tenure.renewed.is_some()
                {
                    tenure.told.get_or_insert(record.answered);
                }
            }
            What::Act(_) => {
                found.judged += 1;
                let tenure = tenures.entry(by).or_default();
                let Some(renewed) = tenure.renewed else {
                    broken(Rule::WithoutLease, at);
                    continue;
                };
                let limits = [
                    (Rule::AfterLease, Some(renewed + timings.lease)),
                    (
                        Rule::AfterRenewDeadline,
                        Some(renewed + timings.renew + STAMPED_LATE),
                    ),
                    (Rule::AfterSuccessor, tenure.succeeded),
                    (Rule::AfterRelease, tenure.released),
                    (
                        Rule::AfterTheft,
                        tenure.told.map(|told| told + STAMPED_LATE),
                    ),
                ];
                for (rule, limit) in limits {
                    if let Some(limit) = limit.filter(|limit| at > *limit) {
                        broken(rule, limit);
                    }
                }
                let age = at.duration_since(renewed).unsigned_abs();
                found.oldest = found.oldest.max(age);
            }
        }
    }
    found
}
