//! Admission of the calls of one generation: how many are under way at once, so that the memory of their guests fits into
//! the provider's share. Load balancers and routes leave one of them to nodes.

use ccm_core::cloud::ProviderError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::Waiting;
use crate::bindings::lifecycle::Capability;
use crate::limits;
use crate::memory_budget::{MemoryBudget, MemoryHold, MemoryUser};

/// Limits shared by all calls of one generation.
pub(crate) struct Admission {
    guest_bytes: usize,
    user: MemoryUser,
    all: Slots,
    /// For calls about load balancers; such a call needs one of `all` as well.
    balancing: Slots,
    /// For calls about routes; such a call needs one of `all` as well. `None`: they use the slot of load balancers, because
    /// no more than two calls fit.
    routing: Option<Slots>,
}

impl Admission {
    /// Limits for guests of this size, in the provider's share of this budget.
    pub(crate) fn new(memory: &MemoryBudget, guest_bytes: usize) -> Admission {
        let at_once = memory.calls_of_one(guest_bytes).min(limits::CALLS_AT_ONCE);
        let others = at_once.saturating_sub(1);
        let routing = (others / 2).min(limits::ROUTING_AT_ONCE);
        let balancing = (others - routing).clamp(1, limits::BALANCING_AT_ONCE);
        Admission {
            guest_bytes,
            user: MemoryUser::new(),
            all: Slots::new(at_once),
            balancing: Slots::new(balancing),
            routing: (routing > 0).then(|| Slots::new(routing)),
        }
    }

    /// Waits until a call of this interface may be under way and its guest fits into the memory of all guests, or the
    /// deadline passes. The call is under way until the result is dropped.
    ///
    /// # Errors
    /// What it waited for until its deadline.
    pub(super) async fn admit<'a>(
        &'a self,
        memory: &'a MemoryBudget,
        interface: Option<Capability>,
        deadline: Instant,
        waiting: Waiting,
    ) -> Result<(MemoryHold<'a>, [Option<SemaphorePermit<'a>>; 2]), ProviderError> {
        // In this order: a call that waits for the narrower limit takes no general slot.
        let part = match self.narrower(interface) {
            Some(slots) => Some(slots.take(deadline, waiting).await?),
            None => None,
        };
        let slot = self.all.take(deadline, waiting).await?;
        let room = timeout_at(deadline, memory.take(self.user, self.guest_bytes)).await;
        // One module cannot fill all of it, so others have it: no version may be rejected for that.
        let room = room.map_err(|_| {
            waiting.interrupted(|ms| {
                format!("there was no memory for it in the whole {ms} ms, because calls of other modules have it")
            })
        })?;
        Ok((room, [Some(slot), part]))
    }

    /// The slots that only calls of this interface need.
    fn narrower(&self, interface: Option<Capability>) -> Option<&Slots> {
        match interface? {
            // Tenants can create any number of load balancers.
            Capability::LoadBalancer => Some(&self.balancing),
            Capability::Routes => Some(self.routing.as_ref().unwrap_or(&self.balancing)),
            Capability::Instances => None,
        }
    }
}

/// A number of concurrent calls.
struct Slots {
    at_once: usize,
    free: Semaphore,
}

impl Slots {
    fn new(at_once: usize) -> Slots {
        Slots {
            at_once,
            free: Semaphore::new(at_once),
        }
    }

    /// Waits until one is free or the deadline passes.
    async fn take(
        &self,
        deadline: Instant,
        waiting: Waiting,
    ) -> Result<SemaphorePermit<'_>, ProviderError> {
        let at_once = self.at_once;
        match timeout_at(deadline, self.free.acquire()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(waiting.timed_out(|ms| {
                format!("other calls of the provider ({at_once} at once) were under way for the whole {ms} ms")
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use futures::FutureExt as _;

    use super::*;

    /// Memory of one call with a guest of the usual size, in MiB.
    const CALL_MIB: u32 = 96;

    fn waiting() -> (Instant, Waiting) {
        let began = Instant::now();
        let function = "init";
        (began + limits::INIT, Waiting { function, began })
    }

    #[tokio::test(start_paused = true)]
    async fn load_balancers_and_routes_leave_room_for_one_call_about_nodes() {
        for (fit, balancing, routing) in [
            (2, 1, 0),
            (3, 1, 1),
            (4, 2, 1),
            (5, 2, 2),
            (7, 4, 2),
            (8, 5, 2),
            (30, 5, 2),
        ] {
            let memory = MemoryBudget::of(Some(2 * fit * CALL_MIB));
            let admission = Admission::new(&memory, limits::MEMORY_BYTES);
            let begin = |interface| {
                let (deadline, waiting) = waiting();
                let admitted = admission.admit(&memory, Some(interface), deadline, waiting);
                admitted.now_or_never()?.ok()
            };
            let all = |interface| std::iter::from_fn(|| begin(interface)).collect::<Vec<_>>();
            let balancers = all(Capability::LoadBalancer);
            let routes = all(Capability::Routes);
            let under_way = (balancers.len(), routes.len());
            assert_eq!(under_way, (balancing, routing), "{fit} fit");
            assert!(begin(Capability::Instances).is_some(), "{fit} fit");
            // The runtime allows one task only so many steps without a pause.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_late_for_calls_of_its_own_module_and_interrupted_for_those_of_others() {
        for (is_own, expected) in [(true, "timed-out"), (false, "interrupted")] {
            let memory = MemoryBudget::of(Some(2 * CALL_MIB));
            let admission = Admission::new(&memory, limits::MEMORY_BYTES);
            let attempt = || {
                let (deadline, waiting) = waiting();
                admission.admit(&memory, None, deadline, waiting)
            };
            let own = match is_own {
                true => Some(attempt().await.unwrap()),
                false => None,
            };
            let others = match is_own {
                true => None,
                false => Some(
                    memory
                        .take(MemoryUser::new(), 2 * limits::MEMORY_BYTES)
                        .await,
                ),
            };
            let error = attempt().await.map(drop).unwrap_err();
            assert_eq!(error.reason(), expected, "{error}");
            assert!(error.to_string().contains("init: "), "{error}");
            drop((own, others));
            assert!(attempt().await.is_ok());
        }
    }
}
