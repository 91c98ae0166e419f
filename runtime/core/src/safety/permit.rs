//! What one cloud call may still do: until when, in which mode, and how many changes.
//!
//! The effect executor creates a permit, and the egress asks it before *each* HTTP request of the call, below buffers
//! and pools. It is the only place where a cloud mutation is counted and reported. It reads no clock: the moment is an
//! argument.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::cloud::error::{CallFailure, ProviderError};
use crate::cloud::instance::CloudEvent;
use crate::moment::Moment;
use crate::safety::audit::{
    Act, Attempt, AuditRecord, AuditSink, Author, BrakeState, End, NoAudit, Refused, Subject,
};
use crate::safety::brake::{Brake, BudgetShare, SharedBudget, Spender};
use crate::safety::tenure::Tenure;

/// Maximum changes of one call about a load balancer. The largest load balancer of any cloud we know has some 150 targets
/// and 50 services; each costs at most one change, so that more than all of them indicates a loop.
pub const LOAD_BALANCER_CHANGES: u32 = 256;

/// Maximum changes of one call about a route. Creating or removing a route takes one; a cloud that cannot do so replaces
/// the existing route with two.
pub const ROUTE_CHANGES: u32 = 4;

crate::named_enum! {
    /// Whether the manager makes changes. Its name is fixed in settings, logs and errors.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Mode {
        /// Makes all changes.
        #[default]
        Enforce = "enforce",
        /// Reads, reports what it would change, and changes nothing.
        Plan = "plan",
        /// Reads and reports, and does not even compute changes at the cloud.
        Observe = "observe",
    }
}

/// Whether a request changes anything at the cloud. Stated by the rule that admits the request, never guessed from its
/// method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Changes nothing at the cloud.
    Read,
    /// May change something: counted, audited, refused outside [`Mode::Enforce`].
    Write,
}

/// The properties of an HTTP request that a permit needs. Never contains a credential, a query or a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudRequest {
    /// The provider that sends it, and its module.
    pub author: Author,
    /// The granted target's name.
    pub target: String,
    /// The target's host, with its port unless that is the scheme's default.
    pub host: String,
    /// The method, upper case.
    pub method: String,
    /// The path below the target's base path, without query.
    pub path: String,
    /// The path pattern of the rule that admits it.
    pub template: String,
    /// The whole rule, for people.
    pub rule: String,
    /// For a change: SHA-256 of method, URL and body, in lower-case hexadecimal digits. Empty for a read.
    pub sha256: String,
    /// The access that the matching rule states.
    pub access: Access,
}

/// Why a request may not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The permit has expired: the caller may no longer be leader, or the call is too old.
    #[error("the permit of this call has expired")]
    Expired,
    /// The tenure is over: leadership is lost or in doubt, or the manager is stopping.
    #[error("the permit of this call was revoked")]
    Revoked,
    /// The mode of the call permits no changes: plan or observe.
    #[error("changes are not made in {0} mode")]
    Mode(&'static str),
    /// The call has used all of its mutations, or has none.
    #[error("{}", spent(.0))]
    Budget(u32),
    /// A brake is engaged.
    #[error("the brake {brake} is engaged")]
    Brake {
        /// The brake whose budget is exhausted, or the object's part of it.
        brake: Brake,
        /// When to ask again: budget is available then, or the allowance may rise.
        again: Moment,
    },
    /// The change could not be recorded.
    #[error("changes are not made while the audit log cannot be written")]
    Unaudited,
}

/// The text of [`Refusal::Budget`].
fn spent(mutations: &u32) -> String {
    match mutations {
        0 => "this call may change nothing".to_owned(),
        all => format!("the call has made all {all} changes that it may make"),
    }
}

/// Permission for one cloud call.
pub struct Permit {
    valid_until: Moment,
    mode: Mode,
    mutations: u32,
    mutations_left: AtomicU32,
    shared: Option<(Arc<SharedBudget>, BudgetShare)>,
    tenure: Arc<Tenure>,
    audit: Arc<dyn AuditSink>,
    subject: Subject,
    last_log_line: Mutex<Option<String>>,
    failed_with: Mutex<Vec<CloudEvent>>,
    has_withheld: AtomicBool,
    /// For how long the brake held the first change of [`BudgetShare::Common`] that it refused.
    held_for: OnceLock<Duration>,
}

/// Maximum number of characters kept of a provider's log line.
const MAX_LOG_LINE: usize = 512;

impl Permit {
    /// A permit for at most `mutations` changes until `valid_until`. All permits of one leadership share `tenure`.
    pub fn new(
        valid_until: Moment,
        mode: Mode,
        mutations: u32,
        tenure: Arc<Tenure>,
        audit: Arc<dyn AuditSink>,
    ) -> Permit {
        Permit {
            valid_until,
            mode,
            mutations,
            mutations_left: AtomicU32::new(mutations),
            shared: None,
            tenure,
            audit,
            subject: Subject::default(),
            last_log_line: Mutex::new(None),
            failed_with: Mutex::new(Vec::new()),
            has_withheld: AtomicBool::new(false),
            held_for: OnceLock::new(),
        }
    }

    /// The same permit for a call about this object.
    pub fn about(mut self, subject: Subject) -> Permit {
        self.subject = subject;
        self
    }

    /// The same permit, whose changes also count against this part of a budget shared with other calls.
    pub fn sharing(mut self, budget: Arc<SharedBudget>, share: BudgetShare) -> Permit {
        self.shared = Some((budget, share));
        self
    }

    /// A permit for reads only.
    pub fn read_only(valid_until: Moment) -> Permit {
        Permit::new(
            valid_until,
            Mode::Enforce,
            0,
            Arc::new(Tenure::unlimited()),
            Arc::new(NoAudit),
        )
    }

    /// A permit for reads in the same tenure and about the same object, until `valid_until`: for repeating a question.
    /// Attempted changes are refused and reported to the same audit sink.
    pub fn reading(&self, valid_until: Moment) -> Permit {
        Permit::new(
            valid_until,
            self.mode,
            0,
            self.tenure.clone(),
            self.audit.clone(),
        )
        .about(self.subject.clone())
    }

    /// When the call has to end, apart from its tenure. The tenure's end moves with each renewal: whoever sets a deadline
    /// once must not take it for the call's.
    pub fn call_ends(&self) -> Moment {
        self.valid_until
    }

    /// Until when requests may be sent: the call's own end, or the present end of the tenure if that is earlier. A
    /// renewal moves the latter.
    pub fn valid_until(&self) -> Moment {
        self.valid_until.min(self.tenure.ends())
    }

    /// The tenure of the call, for repeating it.
    pub fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// The mode of the call.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Number of mutations made so far.
    pub fn mutations_made(&self) -> u32 {
        self.mutations - self.mutations_left.load(Ordering::Acquire)
    }

    /// Whether a change was refused only because of the mode. The call's result is then not an answer of the cloud.
    pub fn has_withheld(&self) -> bool {
        self.has_withheld.load(Ordering::Acquire)
    }

    /// Keeps a log line of the provider. The last one before a refused change becomes part of the plan.
    pub fn note_log_line(&self, line: &str) {
        let line = line.chars().take(MAX_LOG_LINE).collect();
        *locked(&self.last_log_line) = Some(line);
    }

    /// Keeps the Events that the provider asks for in a call that fails. An error alone cannot carry them: most callers have
    /// no object to record them about.
    pub fn fail_with(&self, events: Vec<CloudEvent>) {
        *locked(&self.failed_with) = events;
    }

    /// The failure of the call, with the Events of [`Permit::fail_with`]. To a provider a brake is the cloud's rate limit,
    /// after which nothing is asked of the cloud for a while; here it is told apart.
    pub fn failure(&self, error: ProviderError) -> CallFailure {
        let events = std::mem::take(&mut *locked(&self.failed_with));
        let error = match (error, self.held_for.get()) {
            (ProviderError::Throttled { .. }, Some(again)) => ProviderError::Held(*again),
            (error, _) => error,
        };
        CallFailure { error, events }
    }

    /// Asks whether `request` may be sent at `now`. A permitted mutation is counted and announced to the audit sink
    /// before this returns; the caller must then call [`Permit::ended`].
    ///
    /// # Errors
    /// Why the request must not be sent; the refusal is already reported to the audit sink.
    pub fn ask(&self, now: Moment, request: &CloudRequest) -> Result<(), Refusal> {
        let verdict = self.judge(now, request.access).and_then(|()| {
            if request.access == Access::Read {
                return Ok(());
            }
            // The count of a change that cannot be recorded is not returned, which does no harm.
            let announced = self.audit.before(&self.subject, request);
            announced.map_err(|_| Refusal::Unaudited)
        });
        if let Err(refusal) = verdict {
            if let Refusal::Mode(_) = refusal {
                self.has_withheld.store(true, Ordering::Release);
            }
            let log_line = locked(&self.last_log_line).clone();
            self.audit.refused(&Refused {
                subject: &self.subject,
                request,
                refusal,
                log_line: log_line.as_deref(),
            });
        }
        verdict
    }

    /// Reports at `now` the result of a mutation that [`Permit::ask`] permitted at `asked`. Reads are not reported.
    pub fn ended(&self, asked: Moment, now: Moment, request: &CloudRequest, end: End) {
        if request.access == Access::Read {
            return;
        }
        let brake = self.shared.as_ref().map(|(budget, _)| BrakeState {
            brake: budget.brake(),
            level: budget.level(now),
        });
        self.audit.after(&AuditRecord {
            author: request.author.clone(),
            subject: self.subject.clone(),
            act: Act::of(request),
            end,
            took: Some(asked.until(now)),
            brake,
        });
    }

    /// The object that the call is about.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Reports a request that is not granted. It is not counted.
    pub fn attempted(&self, attempt: &Attempt<'_>) {
        self.audit.attempted(attempt);
    }

    fn judge(&self, now: Moment, access: Access) -> Result<(), Refusal> {
        if !self.tenure.may_begin(now) {
            return Err(Refusal::Revoked);
        }
        if now > self.valid_until {
            return Err(Refusal::Expired);
        }
        if access == Access::Read {
            return Ok(());
        }
        // Checked first, because no mode permits it: it is not part of a plan.
        if self.mutations == 0 {
            return Err(Refusal::Budget(0));
        }
        if self.mode != Mode::Enforce {
            return Err(Refusal::Mode(self.mode.as_str()));
        }
        self.mutations_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                left.checked_sub(1)
            })
            .map_err(|_| Refusal::Budget(self.mutations))?;
        let Some((shared, share)) = &self.shared else {
            return Ok(());
        };
        let object = self.subject.to_string();
        let spender = Spender {
            object: &object,
            namespace: self.subject.namespace.as_deref(),
            share: *share,
        };
        shared.take(now, spender).map_err(|again| {
            // The call did not make the change.
            self.mutations_left.fetch_add(1, Ordering::AcqRel);
            // Of the whole budget nothing is left for any other change of the object.
            if *share == BudgetShare::Common {
                self.held_for.get_or_init(|| now.until(again));
            }
            Refusal::Brake {
                brake: shared.brake(),
                again,
            }
        })
    }
}

/// No operation under these locks can panic half-way, so a poisoned value is valid.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
