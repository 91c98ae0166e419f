//! Asking the permit of a call, and telling it the end: also when the call is dropped in between.
//!
//! The only place of this crate that reads the clock which permits are measured on.

use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::permit::{CloudRequest, Permit, Refusal, RequestOutcome};
use rustix::time::{ClockId, clock_gettime};

/// Now, on the clock that goes on during suspend.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Moment(Duration::new(seconds, nanos))
}

/// Ends when the permit does, which is later than it was when the lease is renewed meanwhile.
pub(super) async fn over(permit: &Permit) {
    loop {
        let left = now().until(permit.valid_until());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

/// A request that was allowed and owes its end to the permit.
pub(super) struct Allowed<'a> {
    permit: &'a Permit,
    request: CloudRequest,
    asked: Moment,
    outcome: RequestOutcome,
}

impl<'a> Allowed<'a> {
    /// Asks; to be called immediately before the request is handed to the connection.
    ///
    /// # Errors
    /// Why it must not be sent.
    pub(super) fn ask(permit: &'a Permit, request: CloudRequest) -> Result<Allowed<'a>, Refusal> {
        let asked = now();
        permit.ask(asked, &request)?;
        Ok(Allowed {
            permit,
            request,
            asked,
            outcome: RequestOutcome::Failed,
        })
    }

    /// The complete answer is here.
    pub(super) fn answered(mut self, status: u16, request_id: Option<String>) {
        self.outcome = RequestOutcome::Answered(status, request_id);
    }
}

impl Drop for Allowed<'_> {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, RequestOutcome::Failed);
        self.permit.ended(self.asked, now(), &self.request, outcome);
    }
}
