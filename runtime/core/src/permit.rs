//! What one cloud call may still do: until when, in which mode, and how many changes.
//!
//! A permit is made by whoever performs effects and is asked by the egress before *each* HTTP request
//! of the call, below buffers and pools. It is the one place where a cloud mutation is counted and
//! reported. It reads no clock: the moment is an argument.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

pub use crate::audit::{AuditSink, NoAudit};

use crate::audit::{Act, Attempt, AuditRecord, Author, BrakeState, End, Refused, Subject};
use crate::brake::{Brake, SharedBudget};
use crate::moment::Moment;
use crate::tenure::Tenure;

/// Whether the manager acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Acts.
    #[default]
    Enforce,
    /// Reads, says what it would change, and changes nothing.
    Plan,
    /// Reads and reports, and does not even work out changes at the cloud.
    Observe,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Enforce, Mode::Plan, Mode::Observe];

    /// A fixed word, for settings, logs and errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Plan => "plan",
            Mode::Observe => "observe",
        }
    }
}

/// Whether a request changes anything at the cloud. Said by the rule that admits the request, never
/// guessed from its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Changes nothing.
    Read,
    /// May change something: counted, audited, refused outside [`Mode::Enforce`].
    Write,
}

/// One HTTP request, as far as a permit has to know it. Never holds a credential, a query or a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudRequest {
    /// The provider that sends it, and its module.
    pub author: Author,
    /// The granted target's name.
    pub target: String,
    /// The target's host, with its port unless that is the scheme's own.
    pub host: String,
    /// The method, upper case.
    pub method: String,
    /// The path below the target's base path, without query.
    pub path: String,
    /// The path pattern of the rule that admits it.
    pub template: String,
    /// The whole rule, for people.
    pub rule: String,
    /// Of a change: SHA-256 of method, URL and body, in lower-case hexadecimal digits. Empty for a read.
    pub sha256: String,
    /// What the matching rule says.
    pub access: Access,
}

/// How a request that was allowed ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The cloud answered with this status, and calls the request so.
    Answered(u16, Option<String>),
    /// No complete answer; whether the cloud acted is not known.
    Failed,
}

/// Why a request may not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The permit's time is over: the caller may no longer be leader, or the call is too old.
    #[error("the permit of this call has expired")]
    Expired,
    /// The tenure is over: leadership is lost or in doubt, or the manager is stopping.
    #[error("the permit of this call was revoked")]
    Revoked,
    /// Plan or observe mode.
    #[error("changes are not made in {0} mode")]
    Mode(&'static str),
    /// The call has used up its mutations.
    #[error("the call has made all {0} changes that it may make")]
    Budget(u32),
    /// A brake is engaged; there is something again from this moment on.
    #[error("the brake {brake} is engaged")]
    Brake {
        /// Which.
        brake: Brake,
        /// When.
        again: Moment,
    },
    /// It could not be recorded.
    #[error("changes are not made while the audit log cannot be written")]
    Unaudited,
}

/// See the module's documentation. One permit per cloud call.
pub struct Permit {
    valid_until: Moment,
    mode: Mode,
    mutations: u32,
    mutations_left: AtomicU32,
    shared: Option<Arc<SharedBudget>>,
    tenure: Arc<Tenure>,
    audit: Arc<dyn AuditSink>,
    subject: Subject,
    said: Mutex<Option<String>>,
    has_withheld: AtomicBool,
}

/// What is kept of a provider's words in one call.
const MOST_SAID: usize = 512;

impl Permit {
    /// A permit for at most `mutations` changes until `valid_until`. `tenure` is shared by all permits
    /// of one leadership.
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
            said: Mutex::new(None),
            has_withheld: AtomicBool::new(false),
        }
    }

    /// The same permit for a call about this object.
    pub fn about(mut self, subject: Subject) -> Permit {
        self.subject = subject;
        self
    }

    /// The same permit, whose changes are taken out of a budget that other calls take from, too.
    pub fn sharing(mut self, budget: Arc<SharedBudget>) -> Permit {
        self.shared = Some(budget);
        self
    }

    /// A permit that lets nothing but reads through, for calls that only look.
    pub fn read_only(valid_until: Moment) -> Permit {
        Permit::new(
            valid_until,
            Mode::Enforce,
            0,
            Arc::new(Tenure::unlimited()),
            Arc::new(NoAudit),
        )
    }

    /// A permit for reads in the same tenure, about the same object, until `valid_until`: for whoever asks the same once
    /// more. Attempts to change something are refused and heard by the same audit sink.
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

    /// The moment by which the call has to be over: its own end, or that of the tenure if that is earlier as it
    /// stands now. A renewal moves the latter.
    pub fn valid_until(&self) -> Moment {
        self.valid_until.min(self.tenure.ends())
    }

    /// The tenure that the call is made in, for whoever has to ask it again.
    pub fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// The mode the call runs in.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How many mutations were made so far.
    pub fn mutations_made(&self) -> u32 {
        self.mutations - self.mutations_left.load(Ordering::Acquire)
    }

    /// Whether a change was refused for the mode alone. What the call ended with is then no answer of the cloud.
    pub fn has_withheld(&self) -> bool {
        self.has_withheld.load(Ordering::Acquire)
    }

    /// The provider said this in its log. The last words before a change that is refused are part of the plan.
    pub fn say(&self, line: &str) {
        let line = line.chars().take(MOST_SAID).collect();
        *self.said() = Some(line);
    }

    /// Nothing that is done under this lock can panic half-way; a poisoned one is as good as any.
    fn said(&self) -> MutexGuard<'_, Option<String>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whether `request` may be written to the wire at `now`. A mutation that is allowed is
    /// counted and announced to the audit sink before this returns; the caller then owes [`Permit::ended`].
    ///
    /// # Errors
    /// The reason for which the request must not be sent; the audit sink has heard it.
    pub fn ask(&self, now: Moment, request: &CloudRequest) -> Result<(), Refusal> {
        let verdict = self.judge(now, request.access).and_then(|()| {
            if request.access == Access::Read {
                return Ok(());
            }
            // What was counted for a change that cannot be recorded is not given back: nothing is lost by it.
            self.audit.before(request).map_err(|_| Refusal::Unaudited)
        });
        if let Err(refusal) = verdict {
            if let Refusal::Mode(_) = refusal {
                self.has_withheld.store(true, Ordering::Release);
            }
            let said = self.said().clone();
            self.audit.refused(&Refused {
                subject: &self.subject,
                request,
                refusal,
                said: said.as_deref(),
            });
        }
        verdict
    }

    /// Reports at `now` how a mutation has ended that [`Permit::ask`] allowed at `asked`. Reads are not reported.
    pub fn ended(
        &self,
        asked: Moment,
        now: Moment,
        request: &CloudRequest,
        outcome: RequestOutcome,
    ) {
        if request.access == Access::Read {
            return;
        }
        let brake = self.shared.as_ref().map(|budget| BrakeState {
            brake: budget.brake(),
            standing: budget.standing(now),
        });
        self.audit.after(&AuditRecord {
            author: request.author.clone(),
            subject: self.subject.clone(),
            act: Act::CloudMutation {
                method: request.method.clone(),
                host: request.host.clone(),
                path: request.template.clone(),
                sha256: request.sha256.clone(),
            },
            end: match outcome {
                RequestOutcome::Answered(status, request_id) => {
                    End::Answered { status, request_id }
                }
                RequestOutcome::Failed => End::Unknown,
            },
            took: Some(asked.until(now)),
            brake,
        });
    }

    /// What the call is about.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Reports something that was asked for and is not granted. Nothing of it is counted.
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
        // First what no mode would let through: it is no part of any plan.
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
        let Some(shared) = &self.shared else {
            return Ok(());
        };
        shared.take(now).map_err(|again| {
            // The call did not make it.
            self.mutations_left.fetch_add(1, Ordering::AcqRel);
            Refusal::Brake {
                brake: shared.brake(),
                again,
            }
        })
    }
}

#[cfg(test)]
mod tests;
