//! Asks a call's permit for each request and reports the outcome, also when the call is dropped in between.
//!
//! No other module of this crate reads the clock of the permits.

use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::safety::audit::End;
use ccm_core::safety::permit::{CloudRequest, Permit, Refusal};
use rustix::time::{ClockId, clock_gettime};

/// Current time on the boot-time clock, which continues during suspend.
pub fn now() -> Moment {
    let time = Duration::try_from(clock_gettime(ClockId::Boottime));
    Moment(time.unwrap_or_default())
}

/// Returns when the permit ends, taking lease renewals in the meantime into account.
pub(super) async fn over(permit: &Permit) {
    loop {
        let left = now().until(permit.valid_until());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

/// An allowed request; reports its outcome to the permit on drop.
pub(super) struct Allowed<'a> {
    permit: &'a Permit,
    request: CloudRequest,
    asked: Moment,
    end: End,
}

impl<'a> Allowed<'a> {
    /// Asks the permit; call this immediately before handing the request to the connection.
    ///
    /// # Errors
    /// Why the request must not be sent.
    pub(super) fn ask(permit: &'a Permit, request: CloudRequest) -> Result<Allowed<'a>, Refusal> {
        let asked = now();
        permit.ask(asked, &request)?;
        Ok(Allowed {
            permit,
            request,
            asked,
            end: End::Unknown,
        })
    }

    /// The request, as the permit saw it.
    pub(super) fn request(&self) -> &CloudRequest {
        &self.request
    }

    /// Reports a complete response.
    pub(super) fn answered(mut self, status: u16, request_id: Option<String>) {
        self.end = End::Answered { status, request_id };
    }
}

impl Drop for Allowed<'_> {
    fn drop(&mut self) {
        let end = std::mem::replace(&mut self.end, End::Unknown);
        self.permit.ended(self.asked, now(), &self.request, end);
    }
}
