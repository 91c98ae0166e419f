//! One call of a provider: its admission, time and result. A guest that traps, spins, floods or waits forever
//! ends in a [`ProviderError`], never in a panic and never late. The sandbox decides where it runs.
//!
//! A call has two times: one for its wait, which ends without effect as `NotBegun`, and one from its start.

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
use crate::sandbox::{Answer, Ask, CallPhase, Function, Performance, Sandbox};
use crate::{limits, v0_2};

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
pub(crate) struct Call<B> {
    pub(crate) function: Function,
    /// Memory that the arguments take, in bytes and about: as much in the guest as in the host.
    pub(crate) argument_bytes: usize,
    /// Duration from the begin on.
    pub(crate) limit: Duration,
    /// When the call ends, whenever it began.
    pub(crate) ends: Instant,
    /// Whether the call gets an empty state, which is dropped with the call.
    pub(crate) fresh: bool,
    /// Returns the arguments and the egress scope, opened after `init` (`None`: no requests), for a call with this
    /// deadline. Runs when the call begins: calls that wait hold no copy of their arguments.
    pub(crate) begin: B,
}

impl Calls {
    /// Performs one call, and returns its scope with its answer. `check` runs while the call still holds its CPU permit,
    /// because a worthless answer may be large.
    ///
    /// # Errors
    /// The call does not begin in time, `init` rejects the configuration, the guest fails to complete, or it answers with
    /// an error or with something that `check` refuses.
    pub(crate) async fn run<R: Send, B>(
        &self,
        call: Call<B>,
        check: impl FnOnce(Answer) -> Result<R, ProviderError> + Send,
    ) -> Result<(R, Option<CallScope>), ProviderError>
    where
        B: FnOnce(Instant) -> (Ask, Option<CallScope>),
    {
        let function = call.function.name();
        let waiting = Waiting {
            function,
            began: Instant::now(),
        };
        let until = call.ends.min(waiting.began + longest_wait(call.limit));
        let interface = call.function.capability().map(|(interface, _)| interface);
        let admitted = self
            .admission
            .admit(&GUESTS, interface, call.argument_bytes, until, waiting)
            .await?;
        timeout_at(until, self.backoff.begin())
            .await
            .map_err(|_| {
                waiting.not_begun(|ms| {
                    format!("calls end badly again and again, and this one was to wait for more than its {ms} ms")
                })
            })?;
        let began = Instant::now();
        if began >= call.ends {
            return Err(waiting.not_begun(|_| "there is no time left for it".to_owned()));
        }
        let deadline = call.ends.min(began + call.limit);
        let (ask, scope) = (call.begin)(deadline);
        let log = GuestLog::new(&self.provider, scope.clone());
        let performance = Performance {
            ask,
            memory_bytes: admitted.guest_bytes,
            deadline,
            fresh: call.fresh,
            egress: scope.clone().map(GuestEgress::Egress),
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
            Ok(answer) => answer.map(|answer| (answer, scope)),
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

/// How long a call with this limit may wait: its provider's other calls, for which it waits, have the same limit.
pub(crate) fn longest_wait(limit: Duration) -> Duration {
    limit.max(limits::WAIT)
}

/// Function that waits, and the start of its wait; for error messages.
#[derive(Clone, Copy)]
struct Waiting {
    function: &'static str,
    began: Instant,
}

impl Waiting {
    /// Error of a call that has waited in vain; `why` gets the length of the wait in milliseconds.
    fn not_begun(self, why: impl FnOnce(u128) -> String) -> ProviderError {
        let why = why(self.began.elapsed().as_millis());
        ProviderError::NotBegun(format!("{}: {why}", self.function))
    }
}

#[cfg(test)]
mod tests;
