//! One call: a fresh store, `init`, the function, and the end of the store, whatever happened. A guest that traps,
//! spins, floods or waits for ever ends in a [`ProviderError`], never in a panic and never late.

mod backoff;
mod failure;
mod meter;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use futures::future::BoxFuture;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::lifecycle;
use crate::digest::Digest;
use crate::egress::CallScope;
use crate::guest::Guest;
use crate::guest_log::GuestLog;
use crate::limits;
use crate::memory::{GUESTS, Room};
use crate::state::StateStore;
use crate::ticker::Ticker;
use failure::Failure;
use meter::Meter;

pub(crate) use turns::Turns;

/// What every call of one generation has in common.
pub(crate) struct Calls {
    pub(crate) provider: Arc<str>,
    pub(crate) digest: Digest,
    pub(crate) component: InstancePre<Guest>,
    pub(crate) lifecycle: lifecycle::GuestIndices,
    pub(crate) config: lifecycle::Config,
    pub(crate) memory_bytes: usize,
    pub(crate) ticker: Ticker,
    /// The provider's part of the memory that guests may have.
    pub(crate) room: Room,
    /// One for each call that may be under way.
    pub(crate) slots: Semaphore,
    /// One for each call about load balancers that may be under way; it needs one of `slots` as well.
    pub(crate) balancing: Semaphore,
    /// The same for calls about routes.
    pub(crate) routing: Semaphore,
    /// Whose guest may compute, when several do for long.
    pub(crate) turns: Turns,
}

/// What is particular to one call.
pub(crate) struct Call {
    /// The function's name, for messages.
    pub(crate) function: &'static str,
    /// Whose part of the calls under way it takes.
    pub(crate) about: About,
    /// When it has to be over, waiting for its turn included.
    pub(crate) deadline: Instant,
    /// The way out, opened after `init`.
    pub(crate) scope: Option<CallScope>,
    /// What outlives the call.
    pub(crate) state: Arc<StateStore>,
}

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// Nodes, or the provider itself.
    Nodes,
    /// Load balancers, of which there are as many as tenants like.
    LoadBalancers,
    /// Routes.
    Routes,
}

/// The part of a call after `init`: gets what `init` enabled, and the instance. It ends with an answer that was checked, so
/// that what is worthless is dropped while it is still the guest's turn.
type Body<'b, R> = dyn for<'a> FnOnce(
        &'a mut Store<Guest>,
        &'a Instance,
        Vec<lifecycle::Capability>,
    ) -> BoxFuture<'a, wasmtime::Result<Result<R, ProviderError>>>
    + Send
    + 'b;

impl Calls {
    /// Performs one call.
    ///
    /// # Errors
    /// `init` did not accept the configuration, or the guest did not come to its end.
    pub(crate) async fn run<R: Send>(
        &self,
        call: Call,
        body: Box<Body<'_, R>>,
    ) -> Result<R, ProviderError> {
        let began = Instant::now();
        // In this order: who waits for the narrower one takes no room from others.
        let narrower = match call.about {
            About::Nodes => None,
            About::LoadBalancers => Some((&self.balancing, limits::BALANCING_AT_ONCE)),
            About::Routes => Some((&self.routing, limits::ROUTING_AT_ONCE)),
        };
        let _part = match narrower {
            Some((slots, at_once)) => Some(turn(slots, at_once, &call, began).await?),
            None => None,
        };
        let _slot = turn(&self.slots, limits::CALLS_AT_ONCE, &call, began).await?;
        let room = async {
            let part = self.room.take(self.memory_bytes).await;
            (part, GUESTS.take(self.memory_bytes).await)
        };
        let _room = timeout_at(call.deadline, room)
            .await
            .map_err(|_| crowded(&call, began))?;
        timeout_at(call.deadline, self.turns.backoff.begin())
            .await
            .map_err(|_| paused(&call, began))?;
        if Instant::now() >= call.deadline {
            return Err(ProviderError::TimedOut(format!(
                "{}: there is no time left for it",
                call.function
            )));
        }
        let log = GuestLog::new(&self.provider, call.scope.clone());
        let outcome = self.run_in_store(&call, &log, body).await;
        let lines = log.finish();
        match outcome {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(error),
            Err((stage, failure)) => {
                Err(failure.into_error(stage, &self.digest, began.elapsed(), &lines))
            }
        }
    }

    /// The inner error is what was answered, the outer one how the guest failed, and where.
    async fn run_in_store<R: Send>(
        &self,
        call: &Call,
        log: &GuestLog,
        body: Box<Body<'_, R>>,
    ) -> Result<Result<R, ProviderError>, (&'static str, Failure)> {
        let _ticking = self.ticker.ticking();
        let mut store = self.store(log, call);
        let mut meter = Meter::new(call.deadline, limits::CALL_CPU, self.turns.clone());

        let outcome = self.steps(call, &mut meter, &mut store, body).await;
        let computed = meter.end(store).await;
        // An answer that is worthless counts as none.
        let well = !matches!(outcome, Err(_) | Ok(Err(ProviderError::Internal(_))));
        self.turns.backoff.ended(well, computed);
        outcome
    }

    async fn steps<R: Send>(
        &self,
        call: &Call,
        meter: &mut Meter,
        store: &mut Store<Guest>,
        body: Box<Body<'_, R>>,
    ) -> Result<Result<R, ProviderError>, (&'static str, Failure)> {
        let instance = meter
            .run(self.component.instantiate_async(&mut *store))
            .await
            .map_err(|failure| ("instantiation", failure))?;
        let enabled = meter
            .run(self.init(store, &instance))
            .await
            .map_err(|failure| ("init", failure))?;
        let enabled = match enabled {
            Ok(enabled) => enabled,
            Err(error) => return Ok(Err(error.into())),
        };
        store.data_mut().way_out.0.clone_from(&call.scope);
        let result = meter.run(body(store, &instance, enabled)).await;
        result.map_err(|failure| (call.function, failure))
    }

    async fn init(
        &self,
        store: &mut Store<Guest>,
        instance: &Instance,
    ) -> wasmtime::Result<Result<Vec<lifecycle::Capability>, lifecycle::Error>> {
        let guest = self.lifecycle.load(&mut *store, instance)?;
        guest.call_init(&mut *store, &self.config).await
    }

    fn store(&self, log: &GuestLog, call: &Call) -> Store<Guest> {
        let guest = Guest::new(self.memory_bytes, log.clone(), call.state.clone());
        let mut store = Store::new(self.component.engine(), guest);
        store.limiter(|guest| &mut guest.allowance);
        store.set_hostcall_fuel(limits::CROSSING_BYTES);
        store.set_max_component_handles(limits::HANDLES);
        // Every tick the guest gives way; the meter decides whether it may go on.
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store
    }
}

/// Waits until one of `at_once` slots is free, as long as the call has time.
async fn turn<'a>(
    slots: &'a Semaphore,
    at_once: usize,
    call: &Call,
    began: Instant,
) -> Result<SemaphorePermit<'a>, ProviderError> {
    match timeout_at(call.deadline, slots.acquire()).await {
        Ok(Ok(slot)) => Ok(slot),
        _ => Err(ProviderError::TimedOut(format!(
            "{}: {at_once} calls were under way for the whole {} ms",
            call.function,
            began.elapsed().as_millis()
        ))),
    }
}

fn crowded(call: &Call, began: Instant) -> ProviderError {
    ProviderError::TimedOut(format!(
        "{}: there was no memory for it in the whole {} ms, because other calls have it",
        call.function,
        began.elapsed().as_millis()
    ))
}

fn paused(call: &Call, began: Instant) -> ProviderError {
    ProviderError::TimedOut(format!(
        "{}: calls end badly again and again, and this one was to wait for more than its {} ms",
        call.function,
        began.elapsed().as_millis()
    ))
}

/// The moment by which a call has to be over.
pub(crate) fn deadline(call: Duration, permit: Duration) -> Instant {
    Instant::now() + call.min(permit)
}
