//! One call of a provider: its admission, time and result. A guest that traps, spins, floods or waits forever
//! ends in a [`ProviderError`], never in a panic and never late. The sandbox decides where it runs.

mod admission;
mod backoff;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use tokio::time::{Instant, timeout_at};

use crate::bindings::common;
use crate::digest::Digest;
use crate::egress::CallScope;
use crate::guest_egress::GuestEgress;
use crate::guest_log::GuestLog;
use crate::interceptor::{CallUsage, Interceptor};
use crate::memory_budget::GUESTS;
use crate::sandbox::{Answer, Ask, CallPhase, Performance, Sandbox};
use crate::v0_2;

pub(crate) use admission::Admission;
pub(crate) use backoff::CallBackoff;

/// State shared by all calls of one generation.
pub(crate) struct Calls {
    pub(crate) provider: Arc<str>,
    pub(crate) digest: Digest,
    pub(crate) sandbox: Sandbox,
    /// Limits the concurrent calls, and with them their memory.
    pub(crate) admission: Admission,
    /// Delays calls after bad ones.
    pub(crate) backoff: CallBackoff,
    /// Watches and disturbs the calls; see `Loading::interceptor`.
    pub(crate) interceptor: Option<Arc<dyn Interceptor>>,
}

/// Parameters of one call.
pub(crate) struct Call {
    /// Deadline of the call, waiting for a slot included.
    pub(crate) deadline: Instant,
    /// Egress scope, opened after `init`; `None`: no requests.
    pub(crate) scope: Option<CallScope>,
    /// Whether the call gets an empty state, which is dropped with the call.
    pub(crate) fresh: bool,
}

impl Calls {
    /// Performs one call. `check` runs while the call still holds its CPU permit, because a worthless answer may be
    /// large.
    ///
    /// # Errors
    /// `init` rejects the configuration, the guest fails to complete, or it answers with an error or with something
    /// that `check` refuses.
    pub(crate) async fn run<R: Send>(
        &self,
        call: Call,
        ask: Ask,
        check: impl FnOnce(Answer) -> Result<R, ProviderError> + Send,
    ) -> Result<R, ProviderError> {
        let (function, began) = (ask.function(), Instant::now());
        let waiting = Waiting { function, began };
        let interface = ask.capability().map(|(interface, _)| interface);
        let _admitted = self
            .admission
            .admit(&GUESTS, interface, call.deadline, waiting)
            .await?;
        timeout_at(call.deadline, self.backoff.begin())
            .await
            .map_err(|_| {
                waiting.timed_out(|ms| {
                    format!("calls end badly again and again, and this one was to wait for more than its {ms} ms")
                })
            })?;
        if Instant::now() >= call.deadline {
            return Err(ProviderError::TimedOut(format!(
                "{function}: there is no time left for it"
            )));
        }
        let scope = call.scope.clone();
        let log = GuestLog::new(&self.provider, scope.clone());
        let performance = Performance {
            ask,
            deadline: call.deadline,
            fresh: call.fresh,
            egress: call.scope.map(GuestEgress::Egress),
            log: log.clone(),
        };
        let read = |answer: Result<Answer, common::Failure>| match answer {
            Ok(answer) => check(answer),
            Err(failure) => Err(v0_2::failed(failure, scope.as_ref())),
        };
        let end = self.sandbox.perform(performance, read).await;
        // An answer that `check` refuses counts as a bad call.
        let well = !matches!(end.answer, Err(_) | Ok(Err(ProviderError::Internal(_))));
        self.backoff.ended(well, end.computed);
        let lines = log.finish();
        if let Some(interceptor) = &self.interceptor {
            let usage = CallUsage {
                function,
                took: began.elapsed(),
                computed: end.computed,
                memory_bytes: end.memory_bytes,
                requests_in_init: end.requests_in_init,
            };
            interceptor.called(&usage, &lines);
        }
        match end.answer {
            Ok(answer) => answer,
            Err((phase, failure)) => {
                let phase = match phase {
                    CallPhase::Instantiation => "instantiation",
                    CallPhase::Init => "init",
                    CallPhase::Function => function,
                };
                Err(failure.into_error(phase, &self.digest, began.elapsed(), &lines))
            }
        }
    }
}

/// Function that waits, and the start of its wait; for error messages.
#[derive(Clone, Copy)]
struct Waiting {
    function: &'static str,
    began: Instant,
}

impl Waiting {
    fn timed_out(self, why: impl FnOnce(u128) -> String) -> ProviderError {
        ProviderError::TimedOut(self.text(why))
    }

    fn interrupted(self, why: impl FnOnce(u128) -> String) -> ProviderError {
        ProviderError::Interrupted(self.text(why))
    }

    fn text(self, why: impl FnOnce(u128) -> String) -> String {
        let why = why(self.began.elapsed().as_millis());
        format!("{}: {why}", self.function)
    }
}

/// Deadline of a call: `call` or `permit` from now on, the shorter one.
pub(crate) fn deadline(call: Duration, permit: Duration) -> Instant {
    Instant::now() + call.min(permit)
}
