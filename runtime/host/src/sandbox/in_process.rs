//! Runs guests on threads of this process: a fresh store for each call, `init`, the function, and in any case the
//! metered teardown of the store.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::failure::Failure;
use super::time_limit::TimeLimit;
use super::{Answer, CallEnd, CallPhase, CpuScheduler, Exports, Performance};
use crate::bindings::{common, lifecycle};
use crate::epoch_ticker::Ticker;
use crate::guest_state::StateStore;
use crate::limits;
use crate::store_data::Guest;

/// In-process sandbox of one module.
pub(crate) struct InProcess {
    pub(crate) component: InstancePre<Guest>,
    pub(crate) exports: Exports,
    pub(crate) config: lifecycle::Config,
    pub(crate) ticker: Ticker,
    /// Schedules CPU time among concurrent calls.
    pub(crate) scheduler: CpuScheduler,
    /// State that outlives a call.
    pub(crate) state: Arc<StateStore>,
}

impl InProcess {
    /// Performs a call on threads of this process: [`super::Sandbox::perform`].
    pub(super) async fn perform<R: Send>(
        &self,
        performance: Performance,
        read: impl FnOnce(Result<Answer, common::Failure>) -> R + Send,
    ) -> CallEnd<R> {
        let mut store = self.store(&performance);
        let mut limit = TimeLimit::new(
            performance.deadline,
            limits::CALL_CPU,
            self.scheduler.clone(),
        );
        let steps = self.steps(performance, &mut limit, &mut store, read);
        let answer = self.ticker.ticking(steps).await;
        let guest = store.data();
        let memory_bytes = Some(guest.memory.used_bytes());
        let requests_in_init = guest.http_hooks.refused;
        let computed = limit.end(store).await;
        CallEnd {
            answer,
            computed,
            memory_bytes,
            requests_in_init,
        }
    }

    async fn steps<R: Send>(
        &self,
        performance: Performance,
        limit: &mut TimeLimit,
        store: &mut Store<Guest>,
        read: impl FnOnce(Result<Answer, common::Failure>) -> R + Send,
    ) -> Result<R, (CallPhase, Failure)> {
        let instance = limit
            .run(self.component.instantiate_async(&mut *store))
            .await
            .map_err(|failure| (CallPhase::Instantiation, failure))?;
        let enabled = limit
            .run(self.exports.init(store, &instance, &self.config))
            .await
            .map_err(|failure| (CallPhase::Init, failure))?;
        let enabled = match enabled {
            Ok(enabled) => enabled,
            Err(error) => return Ok(read(Err(error.into()))),
        };
        let Performance { ask, egress, .. } = performance;
        store.data_mut().http_hooks.egress = egress;
        let called = async {
            let answer = self.exports.call(&ask, store, &instance, enabled).await;
            answer.map(read)
        };
        let answer = limit.run(called).await;
        answer.map_err(|failure| (CallPhase::Function, failure))
    }

    fn store(&self, performance: &Performance) -> Store<Guest> {
        let state = match performance.fresh {
            true => Arc::default(),
            false => self.state.clone(),
        };
        let guest = Guest::new(performance.memory_bytes, performance.log.clone(), state);
        let mut store = Store::new(self.component.engine(), guest);
        store.limiter(|guest| &mut guest.memory);
        store.set_hostcall_fuel(limits::CROSSING_BYTES);
        store.set_max_component_handles(limits::HANDLES);
        // The guest yields at every tick; the limit decides whether it may continue.
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store
    }
}
