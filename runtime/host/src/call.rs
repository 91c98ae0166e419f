//! One call: its turn, its memory, its time, and its end. A guest that traps, spins, floods or waits for ever ends in a
//! [`ProviderError`], never in a panic and never late. Where it runs is the sandbox's.

mod backoff;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::bindings::common;
use crate::digest::Digest;
use crate::egress::CallScope;
use crate::guest_log::GuestLog;
use crate::limits;
use crate::memory::{GUESTS, MemoryBudget};
use crate::outbound::WayOut;
use crate::sandbox::{Answer, Ask, CallPhase, Performance, Sandbox};

pub(crate) use backoff::Backoff;

/// What every call of one generation has in common.
pub(crate) struct Calls {
    pub(crate) provider: Arc<str>,
    pub(crate) digest: Digest,
    pub(crate) sandbox: Sandbox,
    pub(crate) memory_bytes: usize,
    /// The provider's part of the memory that guests may have.
    pub(crate) memory: MemoryBudget,
    /// One for each call that may be under way.
    pub(crate) slots: Semaphore,
    /// One for each call about load balancers that may be under way; it needs one of `slots` as well.
    pub(crate) balancing: Semaphore,
    /// The same for calls about routes.
    pub(crate) routing: Semaphore,
    /// When the next call may begin.
    pub(crate) backoff: Backoff,
}

/// What is particular to one call.
pub(crate) struct Call {
    /// When it has to be over, waiting for its turn included.
    pub(crate) deadline: Instant,
    /// The way out, opened after `init`.
    pub(crate) scope: Option<CallScope>,
    /// With an empty state, which is dropped with the call.
    pub(crate) fresh: bool,
}

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// Nodes, or the provider itself.
    Nodes,
    /// Load balancers, of which there are as many as tenants like.
    LoadBalancers,
    /// Routes.
    Routes,
}

impl About {
    fn of(ask: &Ask) -> About {
        match ask {
            Ask::Init | Ask::SelfCheck | Ask::Find(_) => About::Nodes,
            Ask::EnsureLoadBalancer(_)
            | Ask::UpdateTargets(_)
            | Ask::DeleteLoadBalancer(_)
            | Ask::GetLoadBalancer(_) => About::LoadBalancers,
            Ask::ListRoutes(_) | Ask::CreateRoute(_) | Ask::DeleteRoute(_) => About::Routes,
        }
    }
}

impl Calls {
    /// Performs one call. `check` looks at the answer while it is still the guest's turn: what is worthless may be large.
    ///
    /// # Errors
    /// `init` did not accept the configuration, the guest did not come to its end, or it answered with an error or with what
    /// `check` refuses.
    pub(crate) async fn run<R: Send>(
        &self,
        call: Call,
        ask: Ask,
        check: impl FnOnce(Answer) -> Result<R, ProviderError> + Send,
    ) -> Result<R, ProviderError> {
        let (function, began) = (ask.function(), Instant::now());
        let waiting = Waiting { function, began };
        // In this order: who waits for the narrower one takes no room from others.
        let narrower = match About::of(&ask) {
            About::Nodes => None,
            About::LoadBalancers => Some((&self.balancing, limits::BALANCING_AT_ONCE)),
            About::Routes => Some((&self.routing, limits::ROUTING_AT_ONCE)),
        };
        let _part = match narrower {
            Some((slots, at_once)) => Some(turn(slots, at_once, &call, waiting).await?),
            None => None,
        };
        let _slot = turn(&self.slots, limits::CALLS_AT_ONCE, &call, waiting).await?;
        let memory = async {
            let part = self.memory.take(self.memory_bytes).await;
            (part, GUESTS.take(self.memory_bytes).await)
        };
        let _room = timeout_at(call.deadline, memory).await.map_err(|_| {
            waiting.in_vain(|ms| {
                format!(
                    "there was no memory for it in the whole {ms} ms, because other calls have it"
                )
            })
        })?;
        timeout_at(call.deadline, self.backoff.begin())
            .await
            .map_err(|_| {
                waiting.in_vain(|ms| {
                    format!("calls end badly again and again, and this one was to wait for more than its {ms} ms")
                })
            })?;
        if Instant::now() >= call.deadline {
            return Err(ProviderError::TimedOut(format!(
                "{function}: there is no time left for it"
            )));
        }
        let log = GuestLog::new(&self.provider, call.scope.clone());
        let performance = Performance {
            ask,
            deadline: call.deadline,
            fresh: call.fresh,
            way_out: call.scope.map(WayOut::Egress),
            log: log.clone(),
        };
        let read = |answer: Result<Answer, common::Error>| check(answer?);
        let end = self.sandbox.perform(performance, read).await;
        // An answer that is worthless counts as none.
        let well = !matches!(end.answer, Err(_) | Ok(Err(ProviderError::Internal(_))));
        self.backoff.ended(well, end.computed);
        let lines = log.finish();
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

/// Waits until one of `at_once` slots is free, as long as the call has time.
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
                .in_vain(|ms| format!("{at_once} calls were under way for the whole {ms} ms")))
        }
    }
}

/// What waits, and since when: for messages.
#[derive(Clone, Copy)]
struct Waiting {
    function: &'static str,
    began: Instant,
}

impl Waiting {
    fn in_vain(self, why: impl FnOnce(u128) -> String) -> ProviderError {
        let why = why(self.began.elapsed().as_millis());
        ProviderError::TimedOut(format!("{}: {why}", self.function))
    }
}

/// The moment by which a call has to be over.
pub(crate) fn deadline(call: Duration, permit: Duration) -> Instant {
    Instant::now() + call.min(permit)
}
