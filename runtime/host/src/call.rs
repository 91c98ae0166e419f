//! One call of a provider: its slots, memory, time and result. A guest that traps, spins, floods or waits forever
//! ends in a [`ProviderError`], never in a panic and never late. The sandbox decides where it runs.

mod backoff;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::bindings::common;
use crate::bindings::lifecycle::Capability;
use crate::digest::Digest;
use crate::egress::CallScope;
use crate::guest_egress::GuestEgress;
use crate::guest_log::GuestLog;
use crate::interceptor::{CallUsage, Interceptor};
use crate::limits;
use crate::memory_budget::{GUESTS, MemoryBudget};
use crate::sandbox::{Answer, Ask, CallPhase, Performance, Sandbox};
use crate::v0_2;

pub(crate) use backoff::CallBackoff;

/// State shared by all calls of one generation.
pub(crate) struct Calls {
    pub(crate) provider: Arc<str>,
    pub(crate) digest: Digest,
    pub(crate) sandbox: Sandbox,
    pub(crate) memory_bytes: usize,
    /// The provider's share of the guest memory budget.
    pub(crate) memory: MemoryBudget,
    /// One permit per concurrent call.
    pub(crate) slots: Semaphore,
    /// One permit per concurrent load-balancer call; such a call needs one of `slots` as well.
    pub(crate) balancing: Semaphore,
    /// One permit per concurrent route call; such a call needs one of `slots` as well.
    pub(crate) routing: Semaphore,
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
        // In this order: a call that waits for the narrower limit takes no general slot.
        let _part = match self.narrower_slots(&ask) {
            Some((slots, at_once)) => Some(turn(slots, at_once, &call, waiting).await?),
            None => None,
        };
        let _slot = turn(&self.slots, limits::CALLS_AT_ONCE, &call, waiting).await?;
        let needed = self.memory_bytes;
        let _reservation = room(&self.memory, &GUESTS, needed, call.deadline, waiting).await?;
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

    /// The slots that only a part of the calls needs, and how many there are.
    fn narrower_slots(&self, ask: &Ask) -> Option<(&Semaphore, usize)> {
        match ask.capability()?.0 {
            // Tenants can create any number of load balancers.
            Capability::LoadBalancer => Some((&self.balancing, limits::BALANCING_AT_ONCE)),
            Capability::Routes => Some((&self.routing, limits::ROUTING_AT_ONCE)),
            Capability::Instances => None,
        }
    }
}

/// Waits until one of `at_once` slots is free or the call's deadline passes.
async fn turn<'a>(
    slots: &'a Semaphore,
    at_once: usize,
    call: &Call,
    waiting: Waiting,
) -> Result<SemaphorePermit<'a>, ProviderError> {
    match timeout_at(call.deadline, slots.acquire()).await {
        Ok(Ok(slot)) => Ok(slot),
        _ => {
            Err(waiting
                .timed_out(|ms| format!("{at_once} calls were under way for the whole {ms} ms")))
        }
    }
}

/// Waits until a guest of this size fits into the share of its module and into the memory of all guests, or the
/// deadline passes.
async fn room<'a>(
    share: &'a MemoryBudget,
    all: &'a MemoryBudget,
    guest_bytes: usize,
    deadline: Instant,
    waiting: Waiting,
) -> Result<[Option<SemaphorePermit<'a>>; 2], ProviderError> {
    let part = timeout_at(deadline, share.take(guest_bytes)).await;
    let part = part.map_err(|_| {
        waiting.timed_out(|ms| {
            format!("other calls of the same module had its memory for the whole {ms} ms")
        })
    })?;
    let whole = timeout_at(deadline, all.take(guest_bytes)).await;
    // One module cannot fill all of it, so others have it: no version may be rejected for that.
    let whole = whole.map_err(|_| {
        waiting.interrupted(|ms| {
            format!("there was no memory for it in the whole {ms} ms, because calls of other modules have it")
        })
    })?;
    Ok([part, whole])
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_is_late_for_the_memory_of_its_own_module_and_interrupted_for_that_of_others() {
        for (is_own, expected) in [(true, "timed-out"), (false, "interrupted")] {
            let (share, all) = (MemoryBudget::of(Some(1)), MemoryBudget::of(Some(1)));
            let full = if is_own { &share } else { &all };
            let taken = full.take(1).await;
            let attempt = || {
                let began = Instant::now();
                let function = "init";
                let waiting = Waiting { function, began };
                room(&share, &all, 1, began + limits::INIT, waiting)
            };
            let error = attempt().await.map(drop).unwrap_err();
            assert_eq!(error.reason(), expected, "{error}");
            assert!(error.to_string().contains("init: "), "{error}");
            drop(taken);
            assert!(attempt().await.is_ok());
        }
    }
}
