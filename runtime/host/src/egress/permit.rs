//! Asking the permit of a call, and telling it the end: also when the call is dropped in between.
//!
//! The only place of this crate that reads the clock which permits are measured on.

use std::time::Duration;

use ccm_core::permit::{CloudRequest, Moment, Permit, Refusal, RequestOutcome};
use rustix::time::{ClockId, clock_gettime};

/// Now, on the clock that goes on during suspend.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Moment(Duration::new(seconds, nanos))
}

/// A request that was allowed and owes its end to the permit.
pub(super) struct Allowed<'a> {
    permit: &'a Permit,
    request: CloudRequest,
    outcome: RequestOutcome,
}

impl<'a> Allowed<'a> {
    /// Asks; to be called immediately before the request is handed to the connection.
    ///
    /// # Errors
    /// Why it must not be sent.
    pub(super) fn ask(permit: &'a Permit, request: CloudRequest) -> Result<Allowed<'a>, Refusal> {
        permit.ask(now(), &request)?;
        Ok(Allowed {
            permit,
            request,
            outcome: RequestOutcome::Failed,
        })
    }

    /// The complete answer is here.
    pub(super) fn answered(mut self, status: u16) {
        self.outcome = RequestOutcome::Answered(status);
    }
}

impl Drop for Allowed<'_> {
    fn drop(&mut self) {
        self.permit.ended(&self.request, self.outcome);
    }
}
