//! What one cloud call may still do: until when, in which mode, and how many changes.
//!
//! A permit is made by whoever performs effects and is asked by the egress before *each* HTTP request
//! of the call, below buffers and pools. It is the one place where a cloud mutation is counted and
//! reported. It reads no clock: the moment is an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use thiserror::Error;

use crate::tenure::Tenure;

/// A moment on a clock that never goes back and goes on during suspend (Linux: `CLOCK_BOOTTIME`),
/// counted from an unspecified start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// The moment `duration` later, or the last one there is.
    pub fn after(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }

    /// The time from `self` to `later`; zero if `later` has passed.
    pub fn until(self, later: Moment) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

/// Whether the manager acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Acts.
    Enforce,
    /// Reads, says what it would change, and changes nothing.
    Plan,
    /// Reads and reports, and does not even work out changes at the cloud.
    Observe,
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

/// One HTTP request, as far as a permit has to know it. Never holds a credential or a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudRequest {
    /// The provider that sends it.
    pub provider: String,
    /// The granted target's name.
    pub target: String,
    /// The method, upper case.
    pub method: String,
    /// The path below the target's base path, without query.
    pub path: String,
    /// What the matching rule says.
    pub access: Access,
}

/// How a request that was allowed ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The cloud answered with this status.
    Answered(u16),
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
}

/// Told about every mutation, before and after it happens. An implementation writes the audit
/// record; tests also crash here, before or after the k-th mutation.
pub trait AuditSink: Send + Sync {
    /// The request is about to be written to the wire.
    fn before(&self, request: &CloudRequest);
    /// It ended.
    fn after(&self, request: &CloudRequest, outcome: RequestOutcome);
    /// It was not sent. In plan mode the first refusal of an object is what the plan reports.
    fn refused(&self, request: &CloudRequest, refusal: Refusal);
}

/// Hears nothing: for calls that are not about an object, such as a self-check.
#[derive(Debug, Clone, Copy)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn before(&self, _: &CloudRequest) {}
    fn after(&self, _: &CloudRequest, _: RequestOutcome) {}
    fn refused(&self, _: &CloudRequest, _: Refusal) {}
}

/// See the module's documentation. One permit per cloud call.
pub struct Permit {
    valid_until: Moment,
    mode: Mode,
    mutations: u32,
    mutations_left: AtomicU32,
    tenure: Arc<Tenure>,
    audit: Arc<dyn AuditSink>,
}

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
            tenure,
            audit,
        }
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

    /// The moment by which the call has to be over: its own end, or that of the tenure if that is earlier as it
    /// stands now. A renewal moves the latter.
    pub fn valid_until(&self) -> Moment {
        self.valid_until.min(self.tenure.ends())
    }

    /// The mode the call runs in.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How many mutations were made so far.
    pub fn mutations_made(&self) -> u32 {
        self.mutations - self.mutations_left.load(Ordering::Acquire)
    }

    /// Asks whether `request` may be written to the wire at `now`. A mutation that is allowed is
    /// counted and announced to the audit sink before this returns; the caller then owes [`Permit::ended`].
    ///
    /// # Errors
    /// The reason for which the request must not be sent; the audit sink has heard it.
    pub fn ask(&self, now: Moment, request: &CloudRequest) -> Result<(), Refusal> {
        let verdict = self.judge(now, request.access);
        match (verdict, request.access) {
            (Ok(()), Access::Write) => self.audit.before(request),
            (Ok(()), Access::Read) => {}
            (Err(refusal), _) => self.audit.refused(request, refusal),
        }
        verdict
    }

    /// Reports how a mutation that [`Permit::ask`] allowed has ended. Reads are not reported.
    pub fn ended(&self, request: &CloudRequest, outcome: RequestOutcome) {
        if request.access == Access::Write {
            self.audit.after(request, outcome);
        }
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
        match self.mode {
            Mode::Enforce => {}
            Mode::Plan => return Err(Refusal::Mode("plan")),
            Mode::Observe => return Err(Refusal::Mode("observe")),
        }
        self.mutations_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                left.checked_sub(1)
            })
            .map(|_| ())
            .map_err(|_| Refusal::Budget(self.mutations))
    }
}
